"""Where the daemon of a home is met, and which program it must be.

A home has one daemon. Its folder is the person's alone, so that nobody else can connect, and the socket is too.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from serve import settings
from stores.errors import LineageError

FOLDER: Final = "daemon"
SOCKET: Final = "socket"
# What a socket's address may have, its closing zero included: 108 bytes on Linux, 104 on macOS.
LONGEST_SOCKET: Final = 103
# A home whose path is longer meets its daemon here: on every system, and the same for all of a person's programs.
SHORT_FOLDER: Final = Path("/tmp")  # noqa: S108 - the folder in it is checked to be the person's own
DIGEST_BYTES: Final = 8

# What decides how a question is answered.
PACKAGES: Final = ("serve", "pipeline", "stores")
SOURCES: Final = (".py", ".sql", ".scm")
_ROOT: Final = Path(__file__).resolve().parent.parent.parent


class NoDaemon(LineageError):
    """The daemon could not be started, or met."""


class UnsafeFolder(NoDaemon):
    """Somebody else could put a socket where the daemon's is looked for."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the daemon of this home is met."""

    home: Path

    @property
    def folder(self) -> Path:
        """Holds the daemon's lock and its log."""
        return self.home / FOLDER

    @property
    def socket(self) -> Path:
        """The Unix socket; beside the lock, or in a folder with a short path."""
        beside = self.folder / SOCKET
        if len(os.fsencode(beside)) <= LONGEST_SOCKET:
            return beside
        digest = hashlib.blake2b(os.fsencode(self.home), digest_size=DIGEST_BYTES).hexdigest()
        return SHORT_FOLDER / f"lineage-{os.getuid()}-{digest}" / SOCKET

    @property
    def lock(self) -> Path:
        """Held by the daemon for as long as it lives; its process id is in it."""
        return self.folder / "daemon.lock"

    @property
    def starting(self) -> Path:
        """Held by whoever starts a daemon."""
        return self.folder / "starting.lock"

    @property
    def log(self) -> Path:
        """What the daemon has to say."""
        return self.folder / "daemon.log"

    def prepare(self) -> None:
        """Make the folders, for their owner only."""
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in {self.folder, self.socket.parent}:
            folder.mkdir(mode=0o700, exist_ok=True)
            _check(folder)

    def check(self) -> None:
        """Refuse a socket that somebody else may have put there; FileNotFoundError where there is no folder."""
        _check(self.socket.parent)


def _check(folder: Path) -> None:
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise UnsafeFolder(
            f"{folder} is not yours.", hint="Remove it, or do without the daemon: LINEAGE_NO_DAEMON=1."
        )
    if stat.S_IMODE(status.st_mode) & 0o077:
        folder.chmod(0o700)


def build() -> str:
    """Which program is installed: a digest of its sources. Two of the same answer alike, wherever they are installed.

    Of what is on the disk now, which after an upgrade is not what this process runs: a session that goes on asks the
    daemon of the new program, as every other does.
    """
    return _digest(tuple((path, status.st_mtime_ns, status.st_size) for path, status in _sources()))


def person() -> str:
    """Whose settings the daemon goes by: git reads configuration where HOME says."""
    return hashlib.blake2b(os.fsencode(settings.person()), digest_size=DIGEST_BYTES).hexdigest()


def _sources() -> Iterator[tuple[Path, os.stat_result]]:
    for package in PACKAGES:
        for folder, folders, files in os.walk(_ROOT / package):
            folders.sort()
            paths = (Path(folder, name) for name in sorted(files) if name.endswith(SOURCES))
            yield from ((path, path.stat()) for path in paths)


@lru_cache(maxsize=2)
def _digest(sources: tuple[tuple[Path, int, int], ...]) -> str:
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for path, _, _ in sources:
        digest.update(os.fsencode(path.relative_to(_ROOT)) + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
