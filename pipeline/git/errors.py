"""Why a repository or an object in it cannot be read, and what a person can do about it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

from stores.errors import LineageError


class NotARepository(LineageError):
    """No git repository at the path or above it."""


class UnsafeRepository(LineageError):
    """git's `safe.directory` protection: the repository belongs to somebody else."""


class UnsupportedRepository(LineageError):
    """A repository format that libgit2 cannot read, such as SHA-256 objects."""


class DamagedRepository(LineageError):
    """A git directory that cannot be opened."""


class NothingToIndex(LineageError):
    """The repository has no commit yet."""

    def __init__(self, root: Path) -> None:
        super().__init__(f"{root} has no commits yet.", hint="Commit something, then index it.")


_NAME_ONE: Final = "Go into a repository, or name one: any path inside it will do."

# Why a commit at the boundary of a shallow clone cannot be read: its parents are named, and not there.
BEYOND_BOUNDARY: Final = "its parents lie beyond the shallow boundary"


class UnreadableObject(LineageError):
    """A commit, or an object its change needs, is missing or damaged."""

    def __init__(self, sha: str, reason: str) -> None:
        super().__init__(
            f"{sha} cannot be read: {reason}", hint="`git fsck` names what is missing or damaged"
        )
        self.sha = sha
        self.reason = reason

    def __reduce__(self) -> tuple[type[UnreadableObject], tuple[str, str]]:
        """Workers hand it back: rebuild it from what it was made of."""
        return type(self), (self.sha, self.reason)


def not_found(path: Path, *, there: bool) -> NotARepository:
    """Our error for a path that leads to no repository; `there` says that the path itself exists."""
    if not there:
        return NotARepository(f"{path.absolute()} does not exist.", hint=_NAME_ONE)
    for folder in (path.absolute(), *path.absolute().parents):
        link = folder / ".git"
        if link.is_file():
            goal = link.read_text(encoding="utf-8", errors="replace").removeprefix("gitdir:").strip()
            return NotARepository(
                f"{link} says that the repository is at {goal}, where none is.",
                hint="After a move `git worktree repair`, run in the repository, and given this folder, mends it.",
            )
    return NotARepository(f"{path.absolute()} is not in a git repository.", hint=_NAME_ONE)


def refusal(path: Path, reason: str) -> LineageError:
    """Our error for what libgit2 says when it will not open the repository at `path`."""
    if "not owned by" in reason:
        return _unsafe(path, reason)
    if "sha256" in reason:
        return UnsupportedRepository(
            f"{path} is a SHA-256 repository, which is not supported yet",
            hint="a repository with SHA-1 objects can be indexed",
        )
    if any(word in reason for word in ("extension", "repository version", "object format")):
        return UnsupportedRepository(
            f"{path} has a format that is not supported: {reason}",
            hint="a clone made with `git clone --ref-format=files` may help where the format is reftable",
        )
    return DamagedRepository(f"{path} cannot be opened: {reason}", hint="`git fsck` says what is damaged")


def _unsafe(path: Path, reason: str) -> UnsafeRepository:
    """Not `git config --global`: that may write into the file of GIT_CONFIG_GLOBAL, which libgit2 does not read."""
    quoted = re.search(r"'(.+)'", reason)
    top = quoted[1].rstrip("/") if quoted else str(path)
    return UnsafeRepository(
        f"{top} belongs to another user, so git does not trust it",
        hint=f"if you do: git config --file ~/.gitconfig --add safe.directory {shlex.quote(top)}",
    )
