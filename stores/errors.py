"""Base exception of the error tree, and the conversion of system errors to user errors.

An error of the operating system (disk full, no permission, too many open files) gets the same message and hint, whether
Python or DuckDB raises it. DuckDB reports such errors only in the text of its exceptions, which is searched here.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final


class LineageError(Exception):
    """Error that a user can act on; it is printed on stderr as the message and an optional hint.

    Subclasses are defined next to the code that knows the cause. `serve.cli.terminal` maps them to exit codes.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[Callable[..., LineageError], tuple[Any, ...]]:
        """Pickle the attributes, because constructors have other arguments. Worker processes return such errors."""
        return _restore_error, (type(self), self.args, self.__dict__)


def _restore_error(
    error_type: type[LineageError], arguments: tuple[Any, ...], attributes: dict[str, Any]
) -> LineageError:
    error = error_type.__new__(error_type, *arguments)
    error.__dict__.update(attributes)
    return error


_DISK_FULL_HINT: Final = "Free some space on the disk and run the command again. Committed data is kept."
_FILE_SIZE_HINT: Final = (
    "Raise the file size limit (`ulimit -f`) and run the command again. Committed data is kept."
)
_PERMISSION_HINT: Final = (
    "Check the owner and the permissions (`ls -ld`). For an index, LINEAGE_HOME sets another directory."
)
_OPEN_FILES_HINT: Final = (
    "Close other programs, or raise the limit of open files (`ulimit -n`), and try again."
)
_HINTS: Final = {
    errno.ENOSPC: _DISK_FULL_HINT,
    errno.EDQUOT: _DISK_FULL_HINT,
    errno.EFBIG: _FILE_SIZE_HINT,
    errno.EACCES: _PERMISSION_HINT,
    errno.EPERM: _PERMISSION_HINT,
    errno.EROFS: _PERMISSION_HINT,
    errno.EMFILE: _OPEN_FILES_HINT,
    errno.ENFILE: _OPEN_FILES_HINT,
}
# Further hints, for Python's errors only. If DuckDB's message reports one of these errors, the index is
# damaged.
_FILE_HINTS: Final = {
    errno.EISDIR: "A file belongs there. Move the directory away, or name another path.",
    errno.ENAMETOOLONG: "Give a shorter path.",
}
# Parts of DuckDB's messages about a failed write. Such a message may lack the text of the system error.
_WRITE_FAILURE_PHRASES: Final = ("Could not write", "Failed to commit")

# Parts of the dynamic loader's messages about a lack of memory for a library, in lower case.
_LOADER_PHRASES: Final = ("cannot allocate memory", "failed to map segment", "cannot map zero-fill pages")
# Libraries whose exceptions for a lack of memory or threads are recognized only by their message. Messages of other
# libraries are not searched, because they may quote texts of users.
_LIBRARIES: Final = frozenset({"duckdb", "_duckdb", "onnxruntime", "pyarrow"})
# Parts of messages of `_LIBRARIES` about a lack of memory, in lower case. DuckDB has such messages when
# COMMIT fails, when an instance is used again after such a failure, and when zstd fails.
_MEMORY_PHRASES: Final = ("set memory_limit", "out of memory error", "not enough memory", "std::bad_alloc")
# Parts of Python's and pyarrow's messages about a thread that cannot be started, in lower case.
_THREAD_PHRASES: Final = ("can't start new thread", "failed to launch worker thread")


class StorageError(LineageError):
    """Error for a file that the operating system could not read or write."""


class SpecialFile(StorageError):
    """Error for a directory, a pipe, a link or the like where a regular file belongs."""

    def __init__(self, file: Path) -> None:
        super().__init__(f"{file} is no regular file.", hint="Move it away, and run the command again.")


class OutOfMemory(LineageError):
    """Error for a lack of memory: the system gave no more, or a library reached its own limit."""

    def __init__(self) -> None:
        super().__init__(
            "There is not enough memory.",
            hint="Close other programs, or raise the memory limit (`ulimit -v`, or that of the container). "
            "Committed data is kept.",
        )


class ThreadLimitReached(LineageError):
    """Error for a thread that the system did not start, for lack of memory or because of a limit."""

    def __init__(self) -> None:
        super().__init__(
            "The system cannot start another thread.",
            hint="Raise the limit of memory (`ulimit -v`) or of processes (`ulimit -u`), or those of the container. "
            "Committed data is kept.",
        )


def from_os_error(error: OSError) -> StorageError | None:
    """Return the error for users, with the system's message and the file; None if no system error caused it.

    An OSError of a library may have neither number nor file. Then its text is searched for a system error's message.
    """
    if error.errno is None and error.filename is None:
        number = _find_errno(str(error))
        return None if number is None else StorageError(str(error), hint=_HINTS[number])
    file = error.filename2 or error.filename  # the target of a rename, rather than a temporary file
    path = os.fsdecode(file) if isinstance(file, (str, bytes, os.PathLike)) else ""
    message = error.strerror or str(error)
    hint = (_HINTS | _FILE_HINTS).get(error.errno or 0, "")
    return StorageError(f"{message}: {path}" if path else message, hint=hint)


def build_permission_error(file: Path) -> StorageError:
    """Return the error for a file or directory that this process may not read."""
    return StorageError(f"{os.strerror(errno.EACCES)}: {file}", hint=_PERMISSION_HINT)


def _find_errno(text: str) -> int | None:
    """Return the errno in `_HINTS` whose system message is part of a text; None if there is none."""
    return next((number for number in _HINTS if os.strerror(number).lower() in text.lower()), None)


def from_memory_error(error: BaseException) -> OutOfMemory | ThreadLimitReached | None:
    """Return the error for users if Python or a library got no memory or no thread; None for any other error."""
    text = str(error).lower()
    library = type(error).__module__.partition(".")[0]
    # pyarrow raises DuckDB's errors as OSError, without the number of a system error.
    has_no_number = isinstance(error, OSError) and error.errno is None
    has_searchable_text = library in _LIBRARIES or isinstance(error, RuntimeError) or has_no_number
    if has_searchable_text and any(phrase in text for phrase in _THREAD_PHRASES):
        return ThreadLimitReached()
    is_out_of_memory = (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryException"  # DuckDB's, which is not imported here
        or (has_searchable_text and any(phrase in text for phrase in _MEMORY_PHRASES))
        or (isinstance(error, (ImportError, OSError)) and any(phrase in text for phrase in _LOADER_PHRASES))
    )
    return OutOfMemory() if is_out_of_memory else None


def to_lineage_error(error: BaseException) -> LineageError | None:
    """Return the error to show to users instead of this exception; None if the exception is a bug."""
    if isinstance(error, LineageError):
        return error
    return from_memory_error(error) or (from_os_error(error) if isinstance(error, OSError) else None)


def find_hint(text: str) -> str:
    """Return the hint for the system error that a library's message names; empty if `_HINTS` has none for it."""
    number = _find_errno(text)
    return "" if number is None else _HINTS[number]


def from_duckdb_error(text: str, file: Path) -> StorageError | None:
    """Return the error for a message of DuckDB about a file; None if it is no system error or failed write.

    `text`: the message.
    """
    number = _find_errno(text)
    if number is not None:
        return StorageError(f"{os.strerror(number)}: {file}", hint=_HINTS[number])
    if any(phrase in text for phrase in _WRITE_FAILURE_PHRASES):
        return StorageError(f"DuckDB could not write {file}: {text.splitlines()[0]}", hint=_DISK_FULL_HINT)
    return None


def is_special_file(file: Path) -> bool:
    """Return whether something other than a regular file is at this path, such as a pipe, whose opening would block."""
    return file.exists() and not file.is_file()


@contextmanager
def attach_filename(file: Path) -> Iterator[None]:
    """Add the file name to an OSError that the body raises without one, as `write` on a descriptor does."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(file)
        raise
