"""Conversion of errors to messages: a system error is one line with a hint, for any file."""

from __future__ import annotations

import builtins
import errno
import os
import sys
from typing import Any

import duckdb
import pytest

from serve.cli import entry, exit_codes
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


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        duckdb.OutOfMemoryException("failed to allocate data of size 512.0 MiB\n* SET memory_limit"),
        ImportError("libparquet.so.2600: failed to map segment from shared object"),
        ImportError("libonnxruntime.so: cannot allocate memory in static TLS block"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_lack_of_memory_is_one_error(error: Exception) -> None:
    """Too little memory for Python, DuckDB or a library is an error with advice, without a traceback."""
    failure = exit_codes.describe_failure(error)
    assert failure is not None
    assert failure.exit_code == exit_codes.FAILED
    message, hint = failure.message.splitlines()
    assert message == "error: There is not enough memory."
    assert "ulimit -v" in hint


def test_other_import_errors_keep_their_traceback() -> None:
    """A library that is missing is a fault of the installation, not of the memory."""
    assert exit_codes.describe_failure(ImportError("No module named 'pyarrow'")) is None


def test_command_that_cannot_be_imported_for_lack_of_memory(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the memory to load the command line itself, the message is the same."""
    real_import = builtins.__import__

    def fail(name: str, *arguments: Any) -> Any:
        if name == "serve.cli.app":
            raise MemoryError
        return real_import(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", fail)
    monkeypatch.setattr(sys, "argv", ["lineage", "status"])
    assert entry.main() == exit_codes.FAILED
    assert capsys.readouterr().err.startswith("error: There is not enough memory.\n")
