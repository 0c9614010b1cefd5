"""Git access of mindmap: the GitRunner protocol, a workspace in a repository, and parsers of git's output.

`serve` injects the implementation of the protocol.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from stores.errors import LineageError

# Codes of `git status --porcelain` for unmerged files; without DD, where both sides deleted the file.
_UNMERGED: Final = ("AU", "UD", "UA", "DU", "AA", "UU")


@dataclass(frozen=True, slots=True)
class StatusEntry:
    """One file that differs from HEAD. All paths are relative to the work tree.

    `action` is one of `mindmap.document.ACTIONS`. `previous_path` is the old path of a staged rename. If
    `is_untracked`, the line counts of `git diff` do not describe the file on disk: there are none, or they are those of
    a tracked file that was removed from the index.
    """

    path: bytes
    action: str
    previous_path: bytes | None = None
    is_untracked: bool = False


@dataclass(frozen=True, slots=True)
class LineCounts:
    """Numbers of added and deleted lines; both 0 for a binary file."""

    added: int
    deleted: int


def parse_status(status: bytes) -> list[StatusEntry]:
    """Parse the output of `git status --porcelain -z`. Returns one entry for each path, without nested repositories.

    After `git rm --cached` git lists a file as deleted, then as untracked. The last entry wins: it describes the file
    on disk.
    """
    return list({entry.path: entry for entry in _iter_entries(status)}.values())


def parse_numstat(numstat: bytes) -> dict[bytes, LineCounts]:
    """Parse the output of `git diff --numstat -z` into line counts by path; a renamed file has its new path."""
    counts: dict[bytes, LineCounts] = {}
    fields = iter(numstat.split(b"\0"))
    for field in fields:
        if field:
            added, deleted, path = field.split(b"\t", 2)
            if not path:
                _, path = next(fields), next(fields)
            counts[path] = LineCounts(_parse_count(added), _parse_count(deleted))
    return counts


def _iter_entries(status: bytes) -> Iterator[StatusEntry]:
    fields = iter(status.split(b"\0"))
    for field in fields:
        if field:
            code, path = field[:2].decode("ascii", "replace"), field[3:]
            old_path = next(fields) if {"R", "C"} & set(code) else None
            is_nested_repository = path.endswith(b"/")
            if not is_nested_repository:
                yield from _iter_file_entries(code, path, old_path)


def _iter_file_entries(code: str, path: bytes, old_path: bytes | None) -> Iterator[StatusEntry]:
    """Yield the entry of a file; for a rename that is not staged, first the deletion of its old path."""
    index_code, worktree_code = code[0], code[1]
    if old_path is not None and index_code == "R" and worktree_code != "D":
        yield StatusEntry(path, "rename", old_path)
        return
    if (
        old_path is not None and "R" in code
    ):  # not staged, or the file was deleted after the rename was staged
        yield StatusEntry(old_path, "delete")
    yield StatusEntry(path, "create" if code == " R" else _parse_action(code), is_untracked=code == "??")


def _parse_action(code: str) -> str:
    if code in _UNMERGED:
        return "modify"
    if code[1] == "D" or (code[0] == "D" and code[1] == " "):
        return "delete"
    return "create" if code == "??" or "A" in code else "modify"


def _parse_count(digits: bytes) -> int:
    return 0 if digits == b"-" else int(digits)


class GitFailed(LineageError):
    """Failure of a git command."""


class NoWorkTree(LineageError):
    """Error for a bare repository, or for a workspace outside the work tree."""


class GitOutput(Protocol):
    """Output of a finished git command."""

    @property
    def stdout(self) -> bytes:
        """Standard output."""

    @property
    def stderr(self) -> str:
        """Standard error."""

    @property
    def exit_code(self) -> int:
        """Exit status."""


class GitRunner(Protocol):
    """Runner of git commands in one repository, without pager, prompt, hooks, monitor or external programs."""

    @property
    def root(self) -> Path | None:
        """The root of the work tree; None for a bare repository."""

    def run(self, *arguments: str | bytes, stdin: bytes | None = None) -> GitOutput:
        """Run a git command, with `stdin` as its input, until it exits."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """A workspace directory in a git work tree.

    `root` is the work tree with symbolic links resolved. `prefix` is the path from there to the workspace and ends in
    `/`; it is empty if the workspace is the complete work tree.
    """

    git: GitRunner
    root: bytes
    prefix: bytes

    @classmethod
    def from_path(cls, path: str, git: GitRunner) -> Workspace:
        """Return the workspace at a path, which may contain symbolic links. Raises NoWorkTree."""
        if git.root is None:
            raise NoWorkTree(f"{path} is a bare repository.", hint="Give the path of one of its work trees.")
        root, directory = os.fsencode(os.path.realpath(git.root)), os.fsencode(os.path.realpath(path))
        if directory == root:
            return cls(git, root, b"")
        if not directory.startswith(root + b"/"):
            raise NoWorkTree(
                f"{path} is not in the work tree {git.root}.",
                hint="Give the path of a directory in the work tree.",
            )
        return cls(git, root, directory[len(root) + 1 :] + b"/")

    @property
    def directory(self) -> bytes:
        """The absolute path of the workspace, with symbolic links resolved."""
        return self.root + b"/" + self.prefix.rstrip(b"/") if self.prefix else self.root

    def run_git(self, *arguments: str | bytes) -> bytes:
        """Run git on the files of the workspace and return its standard output. Raises GitFailed."""
        scope = ("--", self.prefix) if self.prefix else ("--",)
        output = self.git.run(*arguments, *scope)
        if output.exit_code:
            last_line = output.stderr.splitlines()[-1:] or [f"exit status {output.exit_code}"]
            raise GitFailed(
                f"git {os.fsdecode(arguments[0])} failed: {last_line[0]}",
                hint="Run `git status` in the workspace and fix the problem that it reports.",
            )
        return output.stdout

    def make_relative(self, path: bytes) -> bytes | None:
        """Return a path of the repository relative to the workspace; None for a path outside it."""
        return path[len(self.prefix) :] if path.startswith(self.prefix) else None
