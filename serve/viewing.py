"""Where a running viewer is found: a small file in the data directory, which the viewer keeps locked while it runs.

The lock dies with its process, so a file that a killed viewer left names nobody, whoever has its pid by now.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

# Not a map's name: it has a dot in it.
PLACE: Final = ".viewer"
HOST: Final = "127.0.0.1"
HOW_TO_START: Final = "mindmap viewer"


@contextmanager
def announced(folder: Path, port: int) -> Iterator[None]:
    """Say on which port the viewer of this data directory listens, while the body runs."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder / PLACE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "port": port}).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def address(folder: Path, mindmap_id: str = "") -> str | None:
    """The address of the viewer that runs for this data directory, or of one map in it; None when none runs."""
    try:
        descriptor = os.open(folder / PLACE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None
        port = int(json.loads(os.pread(descriptor, 200, 0))["port"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    finally:
        os.close(descriptor)
    return f"http://{HOST}:{port}/{f'#{mindmap_id}' if mindmap_id else ''}"
