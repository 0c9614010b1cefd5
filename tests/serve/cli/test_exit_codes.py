"""Where errors become text: what the system refuses is one line and what to do, whichever file it was."""

from __future__ import annotations

import errno
import os

import pytest

from serve.cli import exit_codes
from serve.cli.exit_codes import Failure

FILE = "/home/x/index.duckdb"
ROOM = "\n  Make room there, then give the same command again: what was committed is kept."
LEAVE = "\n  See who may read and write there; LINEAGE_HOME names another folder for indexes."


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, f"error: No space left on device: {FILE}{ROOM}"),
        (errno.EDQUOT, f"error: Disk quota exceeded: {FILE}{ROOM}"),
        (errno.EACCES, f"error: Permission denied: {FILE}{LEAVE}"),
        (errno.EPERM, f"error: Operation not permitted: {FILE}{LEAVE}"),
        (errno.EROFS, f"error: Read-only file system: {FILE}{LEAVE}"),
        (errno.EIO, f"error: Input/output error: {FILE}"),
    ],
)
def test_what_the_system_refuses(number: int, said: str) -> None:
    """Each refusal names its file, and what helps where that is known."""
    assert exit_codes.failure(OSError(number, os.strerror(number), FILE)) == Failure(said, exit_codes.FAILED)
    assert exit_codes.failure(OSError(number, os.strerror(number), os.fsencode(FILE))) == Failure(
        said, exit_codes.FAILED
    )


def test_a_refusal_without_a_file() -> None:
    """Of a descriptor the system says no name."""
    error = OSError(errno.EIO, "Input/output error")
    assert exit_codes.failure(error) == Failure("error: Input/output error", exit_codes.FAILED)


def test_a_mistake_keeps_its_traceback() -> None:
    """An error that only calls itself the system's is a program's mistake."""
    assert exit_codes.failure(OSError("half a header")) is None
    assert exit_codes.failure(ValueError("half a header")) is None
