"""Lends maps the git program for their workspaces: hardened as everywhere, since a workspace comes with a request.

Opening a repository brings libgit2, which a viewer that only shows and a map without a workspace never need.
"""

from __future__ import annotations

from pathlib import Path

from mindmap.git import Git
from pipeline.git.errors import NotARepository


def git_of(path: str) -> Git:
    """The git program for the repository a workspace is in; an error says why there is none."""
    from pipeline.git.commit_graph import program
    from pipeline.git.repository import open_repository

    return program(open_repository(Path(path)))


def git_for(path: str) -> Git | None:
    """The same; None outside of repositories."""
    try:
        return git_of(path)
    except NotARepository:
        return None
