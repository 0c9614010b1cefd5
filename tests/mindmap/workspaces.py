"""Helpers for git sync tests in real repositories."""

from __future__ import annotations

from pathlib import Path

from mindmap.file_touches import TouchInput
from mindmap.git_sync import find_changed_files
from pipeline.git.commit_graph import create_git_program
from pipeline.git.git_cli import GitProgram
from pipeline.git.repository import open_repository
from tests.repos import Repo


def open_git(path: Path) -> GitProgram:
    """Return the git runner of the repository that contains a directory."""
    return create_git_program(open_repository(path))


def find_touches(path: Path) -> list[TouchInput]:
    """Return the touches of git sync in a workspace. No file of it is a map file."""
    return find_changed_files(str(path), open_git(path), path / "no maps")


def find_summaries_by_path(repo: Repo, directory: str = "") -> dict[str, str]:
    """Return the summaries of all touches by path; the key of a rename is `old -> new`."""
    return {
        (f"{touch.previous_path} -> " if touch.previous_path else "") + touch.path: touch.summary or ""
        for touch in find_touches(repo.path / directory)
    }
