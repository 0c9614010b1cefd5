"""Address file of the running viewer: a small JSON file in the data directory, locked while the viewer runs.

The lock ends with its process, so the file of a killed viewer is recognized as stale, even if its pid is in use again.
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

# The leading dot keeps it from being a map id.
ADDRESS_FILE: Final = ".viewer"
HOST: Final = "127.0.0.1"
START_COMMAND: Final = "mindmap viewer"


@dataclass(slots=True)
class AddressFile:
    """Published address of a viewer: `port` on this machine, for the data directory `folder`.

    Of several viewers of one directory, the first is published; the next takes over when that one ends.
    """

    folder: Path
    port: int
    _descriptor: int | None = None

    def publish_if_free(self) -> None:
        """Publish the address unless another viewer's is published. Call this periodically."""
        if self._descriptor is not None and not self._is_current_file():
            self._release()
        if self._descriptor is None:
            with suppress(OSError):  # the directory is not writable: stay unpublished
                self._acquire()

    def withdraw(self) -> None:
        """Delete the file and release its lock."""
        if self._descriptor is not None:
            # Deleted while locked, so that another viewer's new file is never deleted.
            if self._is_current_file():
                with suppress(OSError):
                    (self.folder / ADDRESS_FILE).unlink()
            self._release()

    def _acquire(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(self.folder / ADDRESS_FILE, flags, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, json.dumps({"pid": os.getpid(), "port": self.port}).encode(), 0)
        except OSError:
            self._release()
        else:
            if not self._is_current_file():  # another viewer deleted the file between open and lock
                self._release()

    def _is_current_file(self) -> bool:
        """Return True if the locked file is still the one at the path."""
        try:
            current = (self.folder / ADDRESS_FILE).lstat()
        except OSError:
            return False
        return self._descriptor is not None and os.path.samestat(current, os.fstat(self._descriptor))

    def _release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


@contextmanager
def publish_address(folder: Path, port: int) -> Iterator[AddressFile]:
    """Keep the viewer's address published while the body runs."""
    address_file = AddressFile(folder, port)
    address_file.publish_if_free()
    try:
        yield address_file
    finally:
        address_file.withdraw()


def read_address(folder: Path, mindmap_id: str = "") -> str | None:
    """Return the URL of the running viewer, or of one map on its page; None if no viewer runs."""
    try:
        descriptor = os.open(
            folder / ADDRESS_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        )
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
