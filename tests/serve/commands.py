"""The `lineage` command as tests give it, what it is asked about, and what a program loads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from serve.cli import app
from tests.repos import Repo

ROOT = Path(app.__file__).parents[2]
# What takes long to load, and no program needs to say its help.
HEAVY = (
    "duckdb numpy pyarrow onnxruntime tokenizers pygit2 rich tree_sitter tornado joblib polars Stemmer pathspec "
    "questionary prompt_toolkit mcp starlette uvicorn"
)


def timeouts(path: Path) -> Repo:
    """A new repository whose two commits, of a source and of a text, answer "timeout"."""
    repo = Repo.create(path)
    repo.commit_file("src/tcp.py", "def connect():\n    timeout()\n", "Add a timeout to connect")
    repo.commit_file("docs/ü.md", "# timeout ü\n", "Describe the timeout ✓")
    return repo


def lineage(*arguments: str | Path) -> int:
    """The exit code of the command, run in this process."""
    return app.main([str(argument) for argument in arguments])


def indexed(repo: Repo, *flags: str) -> int:
    """The exit code of `lineage index` without workers, whose processes would not see what a test has patched."""
    return lineage("index", repo.path, "--workers", "1", *flags)


def loaded_by(statement: str) -> set[str]:
    """The packages that are loaded once a program has run this."""
    done = subprocess.run(
        [sys.executable, "-c", f"{statement}\nimport sys\nprint(*sys.modules)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ.copy(),
    )
    return {name.partition(".")[0] for name in done.stdout.split()}
