"""One workspace that is watched: which folder it is, whose it is, what happened in it; and what may be one."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

from watchdog.observers.api import ObservedWatch

from mindmap.events import Pending
from mindmap.ignoring import Ignoring
from mindmap.paths import shown


@dataclass(frozen=True, slots=True)
class Watching:
    """Whether a workspace is watched; `remark` says why not, or what of it is not."""

    is_on: bool
    remark: str = ""


@dataclass(slots=True, eq=False)
class Watched:
    """A workspace; `identity` tells whether a folder of its name is still the one that `watch` is of.

    `is_gone` is what the observer told, `is_doubted` what is seen before it does; `declined` are the folders that git
    ignores, relative to the workspace; `lock` is for `pending`.
    """

    root: bytes
    ignoring: Ignoring
    identity: tuple[int, int] | None = None
    watch: ObservedWatch | None = None
    is_gone: bool = False
    is_doubted: bool = False
    maps: set[str] = field(default_factory=set)
    declined: frozenset[bytes] = frozenset()
    pending: Pending = field(default_factory=Pending)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def stands(self) -> bool:
        """Whether the folder is watched, and the one of its name."""
        return self.watch is not None and not self.is_gone and self.is_same()

    def is_same(self) -> bool:
        """Whether the folder of this name is the one that was watched last."""
        try:
            return self.identity == identity(self.root)
        except OSError:
            return False

    def relative(self, path: bytes) -> bytes | None:
        """A path in the workspace as one relative to it."""
        return path[len(self.root) + 1 :] if path.startswith(self.root + b"/") else None

    def declines(self, path: bytes) -> bool:
        """Whether nothing in a folder is anybody's work; called for every folder, while folders are made too."""
        relative = self.relative(path)
        return relative is not None and (
            relative in self.declined or self.ignoring.leaves_out_folder(relative)
        )


def identity(root: bytes) -> tuple[int, int]:
    """What tells a folder from another that has its name."""
    status = Path(os.fsdecode(root)).stat()
    return status.st_dev, status.st_ino


def unwatchable(root: bytes) -> str:
    """Why a folder, which is without links, is not watched whatever is in it; empty if it may be."""
    try:
        home = os.fsencode(os.path.realpath(Path.home()))
    except RuntimeError:  # nobody's
        home = b"/"
    if root != b"/" and not (home + b"/").startswith(root + b"/"):
        return ""
    what = "your home folder" if root == home != b"/" else "more than your home folder"
    return (
        f"{shown(root)} is not watched: it is {what}, with everybody's files in it. "
        "Name the folder of one project as workspacePath."
    )
