"""Search for the git repositories in a directory tree."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

GIT_ENTRY = ".git"


def find_repositories(directory: Path, on_error: Callable[[OSError], None] | None = None) -> Iterator[Path]:
    """Yield the root of every repository in `directory` and below it, in the order of their paths.

    Work trees, and repositories in them, are found as well as bare repositories. Symbolic links and hidden directories
    are not followed. Linked work trees and submodules are left out: the first share the index of their repository, and
    the history of the second usually belongs to another project. `on_error`: called for an unreadable directory.
    """
    for root, directories, files in os.walk(directory, onerror=on_error):
        path = Path(root)
        has_git_entry = GIT_ENTRY in directories or GIT_ENTRY in files
        if has_git_entry and _is_main_work_tree(path / GIT_ENTRY):
            yield path
        elif is_git_directory(path):
            yield path
            directories.clear()
        directories[:] = sorted(name for name in directories if not name.startswith("."))


def is_git_directory(path: Path) -> bool:
    """Check for the entries by which git recognizes a git directory."""
    return os.path.lexists(path / "HEAD") and (path / "objects").is_dir() and (path / "refs").is_dir()


def _is_main_work_tree(git_entry: Path) -> bool:
    """Check that `.git` is a git directory, or a file that names one of neither a linked work tree nor a submodule."""
    if git_entry.is_dir():
        return is_git_directory(git_entry)
    try:
        target = git_entry.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return False
    git_dir = git_entry.parent / target.removeprefix("gitdir:").strip()
    is_linked = (git_dir / "commondir").exists()
    return is_git_directory(git_dir) and not is_linked and "modules" not in git_dir.parts
