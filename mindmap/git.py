"""The bytes of `git status --porcelain -z` and of `git diff --numstat -z` -> what happened to files; pure.

What maps need of the git program; it is lent to them by whoever puts the parts together.

How to run it so that nothing but its answer comes of it is not known here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from stores.errors import LineageError

# Both sides of a merge touched these: the file in the work tree is in conflict, but for DD, where it is gone.
_UNMERGED: Final = ("AU", "UD", "UA", "DU", "AA", "UU")


@dataclass(frozen=True, slots=True)
class Changed:
    """One file that differs from HEAD; `action` as in a touch, `previous` the old path of a staged rename.

    Of a file that is untracked git has counted no lines, or those of another that had its name.
    """

    path: bytes
    action: str
    previous: bytes | None = None
    is_untracked: bool = False


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines added and deleted; both 0 for a binary file."""

    added: int
    deleted: int


def parse_status(status: bytes) -> list[Changed]:
    """The files in what `git status --porcelain -z` says, each once.

    After `git rm --cached` one file is said to be deleted, and then to be untracked: what is on disk wins, which git
    says last.
    """
    return list({change.path: change for change in _entries(status)}.values())


def parse_numstat(numstat: bytes) -> dict[bytes, Lines]:
    """Path -> lines in what `git diff --numstat -z` says; a renamed file under its new path."""
    counted: dict[bytes, Lines] = {}
    fields = iter(numstat.split(b"\0"))
    for field in fields:
        if field:
            added, deleted, path = field.split(b"\t", 2)
            if not path:
                _, path = next(fields), next(fields)
            counted[path] = Lines(_number(added), _number(deleted))
    return counted


def _entries(status: bytes) -> Iterator[Changed]:
    fields = iter(status.split(b"\0"))
    for field in fields:
        if field:
            code, path = field[:2].decode("ascii", "replace"), field[3:]
            old = next(fields) if {"R", "C"} & set(code) else None
            if not path.endswith(b"/"):  # a repository of its own inside this one
                yield from _changes(code, path, old)


def _changes(code: str, path: bytes, old: bytes | None) -> Iterator[Changed]:
    index, tree = code[0], code[1]
    if old is not None and index == "R" and tree != "D":
        yield Changed(path, "rename", old)
        return
    if old is not None and "R" in code:  # the index alone does not know both, or the new path is gone again
        yield Changed(old, "delete")
    yield Changed(path, "create" if code == " R" else _action(code), is_untracked=code == "??")


def _action(code: str) -> str:
    if code in _UNMERGED:
        return "modify"
    if code[1] == "D" or (code[0] == "D" and code[1] == " "):
        return "delete"
    return "create" if code == "??" or "A" in code else "modify"


def _number(digits: bytes) -> int:
    return 0 if digits == b"-" else int(digits)


class GitFailed(LineageError):
    """git could not answer."""


class NoWorkTree(LineageError):
    """A bare repository, or a workspace outside the work tree that was lent."""


class Answer(Protocol):
    """What the program left: its answer, its complaints, its exit status."""

    @property
    def out(self) -> bytes:
        """Standard output."""

    @property
    def complaint(self) -> str:
        """Standard error."""

    @property
    def code(self) -> int:
        """Exit status."""


class Git(Protocol):
    """The git program, run in one repository without pager, prompt, monitor or external program."""

    @property
    def root(self) -> Path | None:
        """The work tree; None where there is none."""

    def output(self, *arguments: str | bytes, given: bytes | None = None) -> Answer:
        """What it says when it is given this to read, waited for."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """A workspace and the git program of the repository it is in; `prefix` leads to it from the work tree's root."""

    git: Git
    root: bytes
    prefix: bytes

    @classmethod
    def of(cls, path: str, git: Git) -> Workspace:
        """The workspace at this path, whatever links lead to it."""
        if git.root is None:
            raise NoWorkTree(f"{path} is a bare repository.", hint="Name a work tree of it.")
        root, here = os.fsencode(os.path.realpath(git.root)), os.fsencode(os.path.realpath(path))
        if here == root:
            return cls(git, root, b"")
        if not here.startswith(root + b"/"):
            raise NoWorkTree(f"{path} is not in the work tree {git.root}.", hint="Name a folder in it.")
        return cls(git, root, here[len(root) + 1 :] + b"/")

    @property
    def folder(self) -> bytes:
        """The workspace itself, without links."""
        return self.root + b"/" + self.prefix.rstrip(b"/") if self.prefix else self.root

    def answer(self, *arguments: str | bytes) -> bytes:
        """What git says of the workspace; its own words where it fails."""
        scope = ("--", self.prefix) if self.prefix else ("--",)
        said = self.git.output(*arguments, *scope)
        if said.code:
            last = said.complaint.splitlines()[-1:] or [f"exit status {said.code}"]
            raise GitFailed(
                f"git {os.fsdecode(arguments[0])} failed: {last[0]}",
                hint="Run `git status` in the workspace: what it says has to be put right first.",
            )
        return said.out

    def relative(self, path: bytes) -> bytes | None:
        """A path of the repository as one of the workspace; None for one outside it."""
        return path[len(self.prefix) :] if path.startswith(self.prefix) else None
