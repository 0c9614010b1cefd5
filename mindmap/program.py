"""What maps need of the git program; it is lent to them by whoever puts the parts together.

How to run it so that nothing but its answer comes of it is not known here.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from stores.errors import LineageError


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
