"""Where the daemon of a home is met, and which program it must be.

A home has one daemon. Its folder is the person's alone, so that nobody else can connect, and the socket is too.

One daemon, however many want one at once.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from serve import config
from stores import locks
from stores.errors import LineageError
from stores.locks import Deadline

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
    return hashlib.blake2b(os.fsencode(config.person()), digest_size=DIGEST_BYTES).hexdigest()


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


# Python and Tornado take 0.3 s to start; a loaded machine ten times as long.
START_SECONDS: Final = 20.0
# A little longer than the daemon gives to what it was asked before.
STOP_SECONDS: Final = 35.0
LOOK_SECONDS: Final = 0.01
LARGEST_LOG: Final = 1_000_000
# The end of the log, which says why a daemon did not start.
REPORTED_BYTES: Final = 2_000

# Daemons that this process started; they outlive it.
_children: Final[list[subprocess.Popen[bytes]]] = []


@atexit.register
def _leave_behind() -> None:
    # They are meant to live on: nobody is to be warned of them.
    for child in _children:
        if child.poll() is None:
            child.returncode = 0


def connected(address: Address) -> socket.socket:
    """A connection to the daemon; FileNotFoundError or ConnectionRefusedError where there is none."""
    address.check()
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(os.fsencode(address.socket))
    except BaseException:
        connection.close()
        raise
    return connection


def is_met(address: Address) -> bool:
    """Whether a daemon takes connections."""
    with suppress(FileNotFoundError, ConnectionRefusedError):
        connected(address).close()
        return True
    return False


def start(address: Address) -> None:
    """Have a daemon, by starting one unless somebody else does; NoDaemon when that fails."""
    try:
        address.prepare()
        with locks.held(address.starting, Deadline.after(START_SECONDS + STOP_SECONDS, _busy_starting)):
            if not is_met(address):
                gone(address)
                _started(address)
    except OSError as error:
        raise NoDaemon(f"The daemon cannot be started: {error}") from error


def gone(address: Address) -> None:
    """Wait until a daemon that takes no more questions has let go of its place; NoDaemon when it takes too long."""
    with (
        suppress(FileNotFoundError),
        locks.held(address.lock, Deadline.after(STOP_SECONDS, _busy_answering)),
    ):
        pass


def _busy_starting(seconds: float) -> NoDaemon:
    return NoDaemon(f"Another program has been starting the daemon for {seconds:g} s.")


def _busy_answering(seconds: float) -> NoDaemon:
    return NoDaemon(
        f"The daemon was told to end {seconds:g} s ago, and still answers what it was asked before.",
        hint="It ends by itself; `kill` ends it at once.",
    )


def _started(address: Address) -> None:
    # Those that ended stay in the system's table until somebody asks for them.
    _children[:] = [child for child in _children if child.poll() is None]
    _cut(address.log)
    address.log.touch(mode=0o600)
    with address.log.open("ab") as log:
        begins = log.tell()
        process = subprocess.Popen(
            # -P: a folder that happens to hold a package called `serve` must not be taken for this one.
            [sys.executable, "-P", "-m", "serve.cli.app", "serve"],
            cwd=address.folder,
            env=config.for_daemon(address.home),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    _children.append(process)
    deadline = time.monotonic() + START_SECONDS
    while not is_met(address):
        if process.poll() is not None or time.monotonic() > deadline:
            raise NoDaemon(f"The daemon did not start: {_last_words(address.log, begins)}")
        time.sleep(LOOK_SECONDS)


def _cut(log: Path) -> None:
    """Keep one former log, and none that grows for years."""
    if log.exists() and log.stat().st_size > LARGEST_LOG:
        log.replace(log.with_suffix(".old"))


def _last_words(log: Path, begins: int) -> str:
    with log.open("rb") as file:
        file.seek(begins)
        said = file.read()[-REPORTED_BYTES:].decode("utf-8", "replace").strip()
    return said or "it ended without a word."
