"""Workspaces in real repositories, and the git program as the product lends it."""

from __future__ import annotations

from pathlib import Path

from mindmap.file_touches import Touch
from mindmap.git_sync import changed_files
from pipeline.git.commit_graph import program
from pipeline.git.git_cli import Git
from pipeline.git.repository import open_repository
from tests.repos import Repo


def git_of(path: Path) -> Git:
    """The git program for the repository a workspace is in."""
    return program(open_repository(path))


def changed(path: Path) -> list[Touch]:
    """What differs from HEAD in a workspace, where no maps are kept."""
    return changed_files(str(path), git_of(path), path / "no maps")


def found(repo: Repo, folder: str = "") -> dict[str, str]:
    """Path -> summary of the files that git says differ from HEAD, an old path in front."""
    path = repo.path / folder
    touches = changed(path)
    return {
        (f"{touch.previous_path} -> " if touch.previous_path else "") + touch.path: touch.summary or ""
        for touch in touches
    }
