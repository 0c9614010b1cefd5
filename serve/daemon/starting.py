"""One daemon, however many want one at once."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from serve import settings
from serve.daemon.address import Address
from stores import locking
from stores.errors import LineageError
from stores.locking import Deadline, IndexBusy

# Python and Tornado take 0.3 s to start; a loaded machine ten times as long.
START_SECONDS: Final = 20.0
STOP_SECONDS: Final = 10.0
LOOK_SECONDS: Final = 0.01
LARGEST_LOG: Final = 1_000_000
# The end of the log, which says why a daemon did not start.
REPORTED_BYTES: Final = 2_000


class NoDaemon(LineageError):
    """The daemon could not be started, or met."""


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
        with locking.held(address.starting, Deadline.after(START_SECONDS)):
            if not is_met(address):
                _started(address)
    except OSError as error:
        raise NoDaemon(f"The daemon cannot be started: {error}") from error
    except IndexBusy as error:
        raise NoDaemon(f"Another program has been starting the daemon for {START_SECONDS:g} s.") from error


def gone(address: Address) -> None:
    """Wait until the daemon that was asked to stop has let go of its place."""
    with suppress(FileNotFoundError), locking.held(address.lock, Deadline.after(STOP_SECONDS)):
        pass


def _started(address: Address) -> None:
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
    deadline = time.monotonic() + START_SECONDS
    while not is_met(address):
        if process.poll() is not None or time.monotonic() > deadline:
            raise NoDaemon(f"The daemon did not start: {_last_words(address.log, begins)}")
        time.sleep(LOOK_SECONDS)
    # It lives on; nobody waits for it.
    process.returncode = 0


def _cut(log: Path) -> None:
    """Keep one former log, and none that grows for years."""
    if log.exists() and log.stat().st_size > LARGEST_LOG:
        log.replace(log.with_suffix(".old"))


def _last_words(log: Path, begins: int) -> str:
    with log.open("rb") as file:
        file.seek(begins)
        said = file.read()[-REPORTED_BYTES:].decode("utf-8", "replace").strip()
    return said or "it ended without a word."
