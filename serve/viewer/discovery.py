"""Where a running viewer is found: a small file in the data directory, which the viewer keeps locked while it runs.

The lock dies with its process, so a file that a killed viewer left names nobody, whoever has its pid by now.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Not a map's name: it has a dot in it.
PLACE: Final = ".viewer"
HOST: Final = "127.0.0.1"
HOW_TO_START: Final = "mindmap viewer"


@dataclass(slots=True)
class Announcement:
    """Says on which port the viewer of this data directory listens.

    Of several viewers the first is announced, and the next takes its place when that one ends.
    """

    folder: Path
    port: int
    _descriptor: int | None = None

    @property
    def is_made(self) -> bool:
        """Whether this viewer is the one that is found."""
        return self._descriptor is not None

    def renew(self) -> None:
        """Be announced, unless another viewer is; for calling now and then."""
        if self._descriptor is not None and not self._is_found():
            self._let_go()
        if self._descriptor is None:
            with suppress(OSError):  # a folder that cannot be written to: then nobody is told
                self._take()

    def withdraw(self) -> None:
        """Be announced no more."""
        if self._descriptor is not None:
            # While the lock is held: what another viewer announces now is not taken away.
            if self._is_found():
                with suppress(OSError):
                    (self.folder / PLACE).unlink()
            self._let_go()

    def _take(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(self.folder / PLACE, flags, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, json.dumps({"pid": os.getpid(), "port": self.port}).encode(), 0)
        except OSError:
            self._let_go()
        else:
            if not self._is_found():  # the one before withdrew it between the two calls
                self._let_go()

    def _is_found(self) -> bool:
        """Whether the file that is locked is the one that others open."""
        try:
            found = (self.folder / PLACE).lstat()
        except OSError:
            return False
        return self._descriptor is not None and os.path.samestat(found, os.fstat(self._descriptor))

    def _let_go(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


@contextmanager
def announced(folder: Path, port: int) -> Iterator[Announcement]:
    """Say on which port the viewer of this data directory listens, while the body runs."""
    announcement = Announcement(folder, port)
    announcement.renew()
    try:
        yield announcement
    finally:
        announcement.withdraw()


def address(folder: Path, mindmap_id: str = "") -> str | None:
    """The address of the viewer that runs for this data directory, or of one map in it; None when none runs."""
    try:
        descriptor = os.open(folder / PLACE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
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
    return f"http://{HOST}:{port}/{f'#/map/{mindmap_id}' if mindmap_id else ''}"
