"""Conversion of errors to messages: a system error is one line with a hint, for any file."""

from __future__ import annotations

import errno
import os

import pytest

from serve.cli import exit_codes
from serve.cli.exit_codes import Failure

FILE = "/home/x/index.duckdb"
DISK_SPACE_HINT = "\n  Free some space on the disk and run the command again. Committed data is kept."
PERMISSIONS_HINT = "\n  Check the permissions. LINEAGE_HOME sets another directory for indexes."


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.ENOSPC, f"error: No space left on device: {FILE}{DISK_SPACE_HINT}"),
        (errno.EDQUOT, f"error: Disk quota exceeded: {FILE}{DISK_SPACE_HINT}"),
        (errno.EACCES, f"error: Permission denied: {FILE}{PERMISSIONS_HINT}"),
        (errno.EPERM, f"error: Operation not permitted: {FILE}{PERMISSIONS_HINT}"),
        (errno.EROFS, f"error: Read-only file system: {FILE}{PERMISSIONS_HINT}"),
        (errno.EIO, f"error: Input/output error: {FILE}"),
    ],
)
def test_system_error_names_file_and_hint(number: int, message: str) -> None:
    """Each system error names its file, and a hint if one is known."""
    assert exit_codes.describe_failure(OSError(number, os.strerror(number), FILE)) == Failure(
        message, exit_codes.FAILED
    )
    assert exit_codes.describe_failure(OSError(number, os.strerror(number), os.fsencode(FILE))) == Failure(
        message, exit_codes.FAILED
    )


def test_system_error_without_a_file() -> None:
    """A system error about a descriptor names no file."""
    error = OSError(errno.EIO, "Input/output error")
    assert exit_codes.describe_failure(error) == Failure("error: Input/output error", exit_codes.FAILED)


def test_unexpected_error_keeps_its_traceback() -> None:
    """An OSError without an error number is a bug and keeps its traceback."""
    assert exit_codes.describe_failure(OSError("half a header")) is None
    assert exit_codes.describe_failure(ValueError("half a header")) is None
