"""Address file of the running viewer: a JSON file with the viewer's port, locked while the viewer runs.

The file is in the data directory. The system releases the lock when the process ends. So the file of a killed viewer is
recognized as stale, even if another process has the viewer's pid by now.
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

# The name does not end in `.json`, so no map has this file.
ADDRESS_FILE: Final = ".viewer"
HOST: Final = "127.0.0.1"
START_COMMAND: Final = "mindmap viewer"
STATUS_PATH: Final = "/api/status"
STATUS_TIMEOUT_SECONDS: Final = 2.0
# Maximum size of an address file; its JSON object has two numbers.
MAX_ADDRESS_BYTES: Final = 200


@dataclass(slots=True)
class AddressFile:
    """Address file of a viewer at `port` on this machine, for the mindmaps in `directory`.

    If several viewers show one directory, the file has the address of the first. When the first exits, another viewer
    publishes its own address. `_descriptor` is the open, locked file; None if this viewer's address is not published.
    """

    directory: Path
    port: int
    _descriptor: int | None = None

    def publish_if_free(self) -> None:
        """Publish the address unless another viewer has published its own. Call this periodically."""
        if self._descriptor is not None and not self._is_current_file():
            self._release()
        if self._descriptor is None:
            with suppress(OSError):  # the directory is not writable; the viewer works unpublished
                self._lock_and_write()

    def withdraw(self) -> None:
        """Delete the file if it has this viewer's address, and release the lock."""
        if self._descriptor is not None:
            # This viewer still holds the lock, so no other viewer can have published its address in this file.
            if self._is_current_file():
                with suppress(OSError):
                    (self.directory / ADDRESS_FILE).unlink()
            self._release()

    def _lock_and_write(self) -> None:
        """Lock the file and write the address. If another viewer holds the lock, `_descriptor` stays None."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(self.directory / ADDRESS_FILE, flags, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, json.dumps({"pid": os.getpid(), "port": self.port}).encode(), 0)
        except OSError:
            self._release()

    def _is_current_file(self) -> bool:
        """Return True if the locked file is still the one at the path of the address file."""
        try:
            file_status = (self.directory / ADDRESS_FILE).lstat()
        except OSError:
            return False
        return self._descriptor is not None and os.path.samestat(file_status, os.fstat(self._descriptor))

    def _release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


@contextmanager
def publish_address(directory: Path, port: int) -> Iterator[AddressFile]:
    """Publish the viewer's address, and withdraw it after the body of the `with` statement."""
    address_file = AddressFile(directory, port)
    address_file.publish_if_free()
    try:
        yield address_file
    finally:
        address_file.withdraw()


def read_address(directory: Path, mindmap_id: str = "") -> str | None:
    """Return the URL of the running viewer, or of one map on its page; None if no viewer runs."""
    port = _read_port(directory)
    if port is None:
        return None
    fragment = f"#/map/{mindmap_id}" if mindmap_id else ""
    return f"http://{HOST}:{port}/{fragment}"


def is_page_open(directory: Path) -> bool:
    """Return True if a browser shows a page of the running viewer; False if the viewer does not answer in time."""
    from http.client import HTTPConnection, HTTPException  # commands import this module at their start

    port = _read_port(directory)
    if port is None:
        return False
    connection = HTTPConnection(HOST, port, timeout=STATUS_TIMEOUT_SECONDS)
    try:
        connection.request("GET", STATUS_PATH)
        return int(json.loads(connection.getresponse().read())["listeners"]) > 0
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return False
    finally:
        connection.close()


def _read_port(directory: Path) -> int | None:
    try:
        descriptor = os.open(
            directory / ADDRESS_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        )
    except OSError:
        return None
    try:
        if not _is_locked(descriptor):
            return None  # the viewer that wrote the file no longer runs
        return int(json.loads(os.pread(descriptor, MAX_ADDRESS_BYTES, 0))["port"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int) -> bool:
    """Return True if another process holds the lock of an open file. If not, lock the file until it is closed."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
