"""One daemon, however many want one at once."""

from __future__ import annotations

import atexit
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from serve import settings
from serve.daemon.address import Address, NoDaemon
from stores import locking
from stores.locking import Deadline

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
        with locking.held(address.starting, Deadline.after(START_SECONDS + STOP_SECONDS, _busy_starting)):
            if not is_met(address):
                gone(address)
                _started(address)
    except OSError as error:
        raise NoDaemon(f"The daemon cannot be started: {error}") from error


def gone(address: Address) -> None:
    """Wait until a daemon that takes no more questions has let go of its place; NoDaemon when it takes too long."""
    with (
        suppress(FileNotFoundError),
        locking.held(address.lock, Deadline.after(STOP_SECONDS, _busy_answering)),
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
            [sys.executable, "-P", "-m", "serve.cli", "serve"],
            cwd=address.folder,
            env=settings.for_daemon(address.home),
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
