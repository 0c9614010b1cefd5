"""Git runners for workspaces of maps.

Only `open_git` imports libgit2, because many maps need no git at all.
"""

from __future__ import annotations

from pathlib import Path

from mindmap.git import GitRunner
from pipeline.git.errors import NotARepository


def open_git(path: str) -> GitRunner:
    """Return the git runner of the repository that contains a directory. Raises NotARepository."""
    from pipeline.git.commit_graph import create_git_program
    from pipeline.git.repository import open_repository

    return create_git_program(open_repository(Path(path)))


def find_git(path: str) -> GitRunner | None:
    """Return the git runner of the repository that contains a directory; None outside repositories."""
    try:
        return open_git(path)
    except NotARepository:
        return None
