"""Errors of reading a repository, with hints for the user."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

from pipeline.git.git_dir import (
    MAX_CONDITION_DOUBLE_STARS,
    MAX_CONDITION_STARS,
    MAX_CONDITIONS,
    MAX_CONFIG_BYTES,
    MAX_TEXT_BYTES,
    blocks_on_open,
    is_too_large,
)
from stores.errors import LineageError, find_hint


class NotARepository(LineageError):
    """There is no git repository at the path or above it."""


class UnsafeRepository(LineageError):
    """The repository belongs to another user, and the setting `safe.directory` does not list it."""


class UnsupportedRepository(LineageError):
    """The repository has a format that libgit2 cannot read, for example SHA-256 objects."""


class DamagedRepository(LineageError):
    """The git directory cannot be opened."""


class NothingReadable(LineageError):
    """An index run could read no commit at all."""

    def __init__(self, commit_count: int, reasons: str, remedy: str) -> None:
        super().__init__(f"None of {commit_count:,} commits could be read: {reasons}.", hint=remedy)


class NothingToIndex(LineageError):
    """HEAD has no commit: the repository is empty, or HEAD names a branch that does not exist."""


_REPOSITORY_HINT: Final = "Change to a directory inside a repository, or give a path inside one."
_SUBMODULE_HINT: Final = (
    "Move this directory away. Then run `git submodule update --init` in the repository that contains it."
)
_WORK_TREE_HINT: Final = (
    "If the repository was moved, run `git worktree repair` in it with this directory as argument."
)

# Matches the path of a submodule's git directory, but not that of a work tree linked to a submodule.
_SUBMODULE_DIRECTORY: Final = re.compile(
    r"(?:^|/)\.git/(?:worktrees/[^/]+/)?modules/(?!(?:.*/)?worktrees/[^/]+$)"
)

# Reason of an UnreadableObject for a commit at the boundary of a shallow clone, which lacks the commit's parents.
BEYOND_SHALLOW_BOUNDARY: Final = "its parents lie beyond the shallow boundary"
# Command for partial clones, because `git fsck` prints nothing about the objects that they lack by design.
REFETCH_COMMAND: Final = "`git fetch --refetch --no-filter` (git 2.36 or newer)"
MISSING_OBJECT_HINT: Final = (
    f"In a shallow clone, run `git fetch --unshallow`. In a partial clone, run {REFETCH_COMMAND}. "
    "In other clones, `git fsck` lists missing objects."
)


class UnreadableObject(LineageError):
    """A commit or another object is missing or damaged.

    `sha`: the object, or a name for it such as `HEAD`. `reason`: why it cannot be read.
    """

    def __init__(self, sha: str, reason: str, hint: str = "") -> None:
        object_hint = (
            MISSING_OBJECT_HINT if "missing" in reason else "Run `git fsck` to list damaged objects."
        )
        default_hint = find_hint(reason) or object_hint
        super().__init__(f"{sha} cannot be read: {reason}", hint=hint or default_hint)
        self.sha = sha
        self.reason = reason


class NotACommit(UnreadableObject):
    """Error for the name of an object of another kind, where a commit is needed."""


def build_not_found_error(path: Path, *, exists: bool) -> NotARepository:
    """Return the error for a path that is in no repository. `exists`: whether the path exists."""
    if not exists:
        return NotARepository(f"{path.absolute()} does not exist.", hint=_REPOSITORY_HINT)
    for directory in (path.absolute(), *path.absolute().parents):
        link = directory / ".git"
        if link.is_file():
            target = link.read_text(encoding="utf-8", errors="replace").removeprefix("gitdir:").strip()
            is_submodule = _SUBMODULE_DIRECTORY.search(target) is not None
            return NotARepository(
                f"{link} points to {target}, where there is no repository.",
                hint=_SUBMODULE_HINT if is_submodule else _WORK_TREE_HINT,
            )
    return NotARepository(f"{path.absolute()} is not in a git repository.", hint=_REPOSITORY_HINT)


def build_blocking_file_error(file: Path, setting: str = "") -> DamagedRepository:
    """Return the error for a file that would make git wait, exhaust the memory or take exponential time.

    `setting`: name of the git setting that names the file; empty if git reads it without a setting.
    """
    setting_hint = f", or change the setting {setting}, which names it" if setting else ""
    if is_too_large(file):
        return DamagedRepository(
            f"{file} has more than {MAX_TEXT_BYTES >> 20} MiB, which git would read into memory.",
            hint=f"See what it is. Shorten or remove it{setting_hint}.",
        )
    if not blocks_on_open(file):
        return DamagedRepository(
            f"{file} can take git exponential time. A configuration file may have at most {MAX_CONFIG_BYTES >> 20} MiB "
            f"and {MAX_CONDITIONS:,} includeIf conditions, each with at most {MAX_CONDITION_STARS} wildcards `*` and "
            f"{MAX_CONDITION_DOUBLE_STARS} wildcards `**`.",
            hint="Shorten or remove the conditions.",
        )
    return DamagedRepository(
        f"{file} is no regular file, so git would wait for it forever.",
        hint=f"See what it is. Remove it{setting_hint or ', or replace it with a regular file'}.",
    )


def build_alternate_error(directory: Path) -> DamagedRepository:
    """Return the error for an alternate object directory that does not exist, while objects are missing."""
    return DamagedRepository(
        f"Objects are missing: the object directory {directory}, which objects/info/alternates names, does not exist.",
        hint="Restore the directory, or correct its path in the git directory's file objects/info/alternates.",
    )


def build_work_tree_error(git_dir: Path, value: str) -> DamagedRepository:
    """Return the error for a `core.worktree` setting whose value names no directory."""
    # Without `--work-tree`, git refuses every command if the value is a relative path. The command in the hint contains
    # no path, because a path can have characters that end the command.
    return DamagedRepository(
        f"The setting core.worktree of {git_dir} names {value!r}, which is not a directory.",
        hint="Run `git --git-dir=. --work-tree=. config --unset core.worktree` in that git directory, or set it to an "
        "existing directory.",
    )


def build_open_error(path: Path, reason: str) -> LineageError:
    """Return the error for a repository that libgit2 does not open. `reason`: message of libgit2."""
    if "not owned by" in reason:
        return _build_unsafe_error(path, reason)
    if "sha256" in reason:
        return UnsupportedRepository(
            f"{path} is a SHA-256 repository, which is not supported yet.",
            hint="Use a repository with SHA-1 objects.",
        )
    if any(word in reason for word in ("extension", "repository version", "object format")):
        return UnsupportedRepository(
            f"{path} has an unsupported format: {reason.removeprefix(f'{path}: ')}",
            hint="Use a clone made with git 2.45 or newer and `git clone --ref-format=files`."
            if "refstorage" in reason
            else "If your git can read it, use a clone made with `git clone`.",
        )
    # For a value of the wrong type, git's own message names the setting, and libgit2's does not.
    is_config_error = "config" in reason or "failed to parse '" in reason
    command = "config --list" if is_config_error else "fsck"
    hint = find_hint(reason) or f"Run `git {command}` to see what is damaged."
    if re.search(r"(?:graft|parent) OID at line", reason):  # libgit2 does not say in which file
        hint = (
            "Each line of the files info/grafts and shallow in the git directory has to be SHAs, without comments. "
            "Correct the file, or delete info/grafts, which lineage ignores."
        )
    return DamagedRepository(f"{path} cannot be opened: {reason.removeprefix(f'{path}: ')}", hint=hint)


def _build_unsafe_error(path: Path, reason: str) -> UnsafeRepository:
    # The hint has `--file` instead of `--global`, which may write to the file of GIT_CONFIG_GLOBAL. libgit2 does not
    # read that file.
    path_match = re.search(r"'(.+)'", reason)
    root = path_match[1].rstrip("/") if path_match else str(path)
    return UnsafeRepository(
        f"{root} belongs to another user, so git does not trust it.",
        hint=f"If you trust it: git config --file ~/.gitconfig --add safe.directory {shlex.quote(root)}",
    )
