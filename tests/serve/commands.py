"""Helpers that run the `lineage` command, create a repository for it, and list the packages a program loads."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from serve.cli import app
from tests.repos import Repo, create_once

ROOT = Path(app.__file__).parents[2]
# Packages that load slowly; no program may import them for its help text.
HEAVY_PACKAGES = (
    "duckdb numpy pyarrow onnxruntime tokenizers pygit2 rich tree_sitter tornado joblib polars Stemmer pathspec "
    "questionary prompt_toolkit mcp starlette uvicorn"
)


@create_once
def create_one_commit_repo(path: Path) -> Repo:
    """Create a repository of one commit to a source file."""
    repo = Repo.create(path)
    repo.commit_file("src/tcp.py", "def connect():\n    timeout()\n", "Add a timeout to connect")
    return repo


@create_once
def create_timeout_repo(path: Path) -> Repo:
    """Create a repository of two commits, to a source and a text file, that both match "timeout"."""
    repo = Repo.create(path)
    repo.commit_file("src/tcp.py", "def connect():\n    timeout()\n", "Add a timeout to connect")
    repo.commit_file("docs/ü.md", "# timeout ü\n", "Describe the timeout ✓")
    return repo


def run_lineage(*arguments: str | Path) -> int:
    """Run the command in this process and return its exit code."""
    return app.main([str(argument) for argument in arguments])


def run_captured(
    *arguments: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    main: Callable[[list[str]], int] = app.main,
) -> tuple[int, str, str]:
    """Run the command in this process; return its exit code, stdout and stderr.

    `cwd`, `env`: working directory and additional environment variables during the call. `main`: the program.
    """
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
    with ExitStack() as stack:
        stack.enter_context(redirect_stdout(streams[0]))
        stack.enter_context(redirect_stderr(streams[1]))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        if cwd:
            patch.chdir(cwd)
        for name, value in (env or {}).items():
            patch.setenv(name, value)
        code = main([str(argument) for argument in arguments])
    out, err = (stream.buffer.getvalue().decode() for stream in streams)
    return code, out, err


def run_index(repo: Repo, *options: str) -> int:
    """Run `lineage index` without worker processes, which would not see patches, and return the exit code."""
    return run_lineage("index", repo.path, "--workers", "1", *options)


def read_output(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """Run a command that must succeed; return its output."""
    assert run_lineage(*arguments) == 0
    return capsys.readouterr().out


def list_loaded_packages(statement: str) -> set[str]:
    """Return the packages that are loaded after a new Python process has run the statement."""
    process = subprocess.run(
        [sys.executable, "-c", f"{statement}\nimport sys\nprint(*sys.modules)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ.copy(),
    )
    return {name.partition(".")[0] for name in process.stdout.split()}


def refuse_to_read(file: Path) -> bytes:
    """Raise the error of a file without read permission. The tests may run as root, who can read every file."""
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), file)
