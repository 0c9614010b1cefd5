"""Output for users: hostile texts of a repository are escaped, and a system error is one line with a hint."""

from __future__ import annotations

import builtins
import errno
import json
import os
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest
import typer

from serve.cli import app, entry
from serve.cli.terminal import FAILED, OK, USAGE_ERROR, Failure, create_app, describe_failure, run_app
from tests.repos import Repo

# An escape sequence that clears the screen, and two bidirectional controls.
HOSTILE = "x\x1b[2J\u202ey\u2066z"
ESCAPED = "x␛[2J\\u202ey\\u2066z"


@pytest.fixture
def repo(tmp_path: Path, home: Path) -> Repo:
    """A repository whose own path, branch and directories are hostile."""
    assert not home.exists()
    repo = Repo.create(tmp_path / HOSTILE)
    repo.commit_file(f"{HOSTILE}/a.py", "a = 1\n", f"Add {HOSTILE}")
    repo.git("switch", "--quiet", "--create", "\u202eniam")
    return repo


@pytest.mark.parametrize(
    "arguments",
    [
        ["index"],
        ["status"],
        ["plan"],
        ["plan", "--write"],
        ["init"],
        ["doctor"],
        ["explain", f"{HOSTILE}/nowhere.py"],
        ["query", "--query", "x", "--path", f"{HOSTILE}["],
        ["query", "--query", "x", "--language", HOSTILE],
        [HOSTILE],
    ],
    ids=lambda arguments: " ".join(arguments[:2]).replace(HOSTILE, "hostile"),
)
def test_output_has_no_control_characters(
    repo: Repo, capfd: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """No command prints a control character or bidirectional control, not even in errors and events."""
    path_arguments = [] if arguments == [HOSTILE] else [str(repo.path)]
    app.main([*arguments, *path_arguments])
    output = capfd.readouterr()
    assert output.out + output.err
    assert not {"\x1b", "\x9b", "\u202e", "\u2066"} & set(output.out + output.err)


def test_control_characters_are_shown_as_escapes(repo: Repo, capfd: pytest.CaptureFixture[str]) -> None:
    """Control characters are printed as visible escapes."""
    assert app.main(["status", str(repo.path)]) == 0
    assert ESCAPED in capfd.readouterr().out
    assert app.main(["index", str(repo.path.with_name(f"{HOSTILE}, gone"))]) == 1
    assert ESCAPED in capfd.readouterr().err


def test_json_keeps_original_text(repo: Repo, capfd: pytest.CaptureFixture[str]) -> None:
    """JSON contains the repository's text unchanged, with control characters as JSON escapes."""
    assert app.main(["explain", f"{HOSTILE}/a.py", str(repo.path), "--no-related"]) == 0
    output = capfd.readouterr().out
    assert HOSTILE in json.loads(output)["hits"][0]["file_path"]
    assert "\\u202ey\\u2066z" in output


FILE = "/home/x/index.duckdb"
DISK_SPACE_HINT = "\n  Free some space on the disk and run the command again. Committed data is kept."
PERMISSIONS_HINT = (
    "\n  Check the owner and the permissions (`ls -ld`). For an index, LINEAGE_HOME sets another directory."
)


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
    assert describe_failure(OSError(number, os.strerror(number), FILE)) == Failure(message, FAILED)
    assert describe_failure(OSError(number, os.strerror(number), os.fsencode(FILE))) == Failure(
        message, FAILED
    )


def test_system_error_without_a_file() -> None:
    """A system error about a descriptor names no file."""
    error = OSError(errno.EIO, "Input/output error")
    assert describe_failure(error) == Failure("error: Input/output error", FAILED)


def test_unexpected_error_keeps_its_traceback() -> None:
    """An OSError without an error number is a bug and keeps its traceback."""
    assert describe_failure(OSError("half a header")) is None
    # libgit2 reports system errors only in its text.
    text = "failed stat - '/repo/.git/refs/heads/a' is locked: Permission denied"
    assert describe_failure(OSError(text)) == Failure(f"error: {text}{PERMISSIONS_HINT}", FAILED)
    assert describe_failure(ValueError("half a header")) is None


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        duckdb.OutOfMemoryException("failed to allocate data of size 512.0 MiB\n* SET memory_limit"),
        ImportError("libparquet.so.2600: failed to map segment from shared object"),
        ImportError("libonnxruntime.so: cannot allocate memory in static TLS block"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        duckdb.InvalidInputException("ZSTD Decompression failed: Allocation error : not enough memory"),
        RuntimeError("[ONNXRuntimeError] : 1 : FAIL : Load model from minilm.onnx failed:std::bad_alloc"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_lack_of_memory_is_one_error(error: Exception) -> None:
    """Too little memory for Python, DuckDB or a library is an error with advice, without a traceback."""
    failure = describe_failure(error)
    assert failure is not None
    assert failure.exit_code == FAILED
    message, hint = failure.message.splitlines()
    assert message == "error: There is not enough memory."
    assert "ulimit -v" in hint


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("can't start new thread"),
        duckdb.InvalidInputException("arrow_scan: get_next failed(): Failed to launch worker thread"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_lack_of_threads_is_one_error(error: Exception) -> None:
    """If the system starts no thread, the error names the limits that can be the cause."""
    failure = describe_failure(error)
    assert failure is not None
    assert failure.exit_code == FAILED
    message, hint = failure.message.splitlines()
    assert message == "error: The system cannot start another thread."
    assert "ulimit -v" in hint and "ulimit -u" in hint


def test_text_of_a_user_is_no_lack_of_memory(capsys: pytest.CaptureFixture[str]) -> None:
    """A usage error stays a usage error, even if it quotes an argument with the text of a memory error."""
    assert app.main(["not enough memory: can't start new thread"]) == USAGE_ERROR
    assert "not enough memory" in capsys.readouterr().err


def test_other_import_errors_keep_their_traceback() -> None:
    """A missing library is not reported as lack of memory. Its error keeps the traceback."""
    assert describe_failure(ImportError("No module named 'pyarrow'")) is None


def test_command_that_cannot_be_imported_for_lack_of_memory(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If memory runs out while the command line itself is imported, the message is the same as in a command."""
    real_import = builtins.__import__

    def fail(name: str, *arguments: Any) -> Any:
        if name == "serve.cli.app":
            raise MemoryError
        return real_import(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", fail)
    monkeypatch.setattr(sys, "argv", ["lineage", "status"])
    assert entry.main() == FAILED
    assert capsys.readouterr().err.startswith("error: There is not enough memory.\n")


def test_only_the_parser_of_the_command_is_built(capsys: pytest.CaptureFixture[str]) -> None:
    """Only the parser of the given command is built. Without a known command, the parsers of all commands are built."""
    program = create_app("A program.")
    program.callback()(lambda: None)

    @program.command("first")
    def first(number: int) -> None:
        typer.echo(number)

    def second(value: str) -> None:
        """Get a parameter whose type does not exist, so that the parser cannot be built."""

    second.__annotations__["value"] = "Missing"
    program.command("second")(second)

    assert run_app(program, "program", ["first", "3"]) == OK
    assert run_app(program, "program", ["first", "x"]) == USAGE_ERROR
    output = capsys.readouterr()
    assert output.out == "3\n" and "`program first --help` lists" in output.err
    for arguments in (["second", "3"], ["third"], []):
        with pytest.raises(NameError, match="Missing"):
            run_app(program, "program", arguments)
