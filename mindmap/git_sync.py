"""git status and numstat of a workspace -> touches: the files that differ from HEAD, with the lines that do.

Git sync of one map, for whoever asks for it: an agent, who has the workspace watched too, or a person on the page.

A map without a workspace is tied to the one that is given, and only to one that git can sync.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from mindmap import nodes, paths
from mindmap.document import Edited, Mindmap, now
from mindmap.file_touches import Touch, attach_to
from mindmap.git import Changed, Git, Lines, Workspace, parse_numstat, parse_status
from mindmap.ignore import Ignoring
from mindmap.map_store import Maps
from mindmap.paths import shown

# Files one by one, whatever the person has configured. A look into submodules would run what they configure.
STATUS: Final = ("status", "--porcelain", "-z", "-uall", "--find-renames", "--ignore-submodules=dirty")
NUMSTAT: Final = (
    "diff",
    "--numstat",
    "-z",
    "--find-renames",
    "--no-relative",
    "--no-ext-diff",
    "--no-textconv",
    "--ignore-submodules=dirty",
)
# git's own: a file with a NUL near its start is binary, and so is one that is larger than this.
BINARY_WITHIN: Final = 8_000
LARGEST_TEXT: Final = 512 << 20
PIECE: Final = 1 << 20

NO_LINES: Final = Lines(0, 0)


def changed_files(path: str, git: Git, maps: Path) -> list[Touch]:
    """The files of the workspace that differ from HEAD, or from nothing before the first commit.

    `maps` is where maps are kept: what changes there is nobody's work.
    """
    workspace = Workspace.of(path, git)
    ignoring = Ignoring.of(workspace.folder, maps)
    changes = parse_status(workspace.answer(*STATUS))
    counted = parse_numstat(workspace.answer(*NUMSTAT, _base(workspace))) if changes else {}
    return [
        _touch(workspace, change, name, counted)
        for change in changes
        if (name := workspace.relative(change.path)) is not None and not ignoring.leaves_out(name)
    ]


def _touch(workspace: Workspace, change: Changed, path: bytes, counted: dict[bytes, Lines]) -> Touch:
    lines = None if change.is_untracked else counted.get(change.path)
    if lines is None:
        lines = _lines_of_new(workspace.root + b"/" + change.path) if change.action == "create" else NO_LINES
    previous = workspace.relative(change.previous) if change.previous else None
    action = "create" if change.previous and previous is None else change.action
    return Touch(
        shown(path),
        action,
        previous_path=shown(previous) if previous else None,
        summary=f"Git {action} (+{lines.added}/-{lines.deleted} lines)",
    )


def _base(workspace: Workspace) -> str:
    """What to compare with: HEAD, or the empty tree before the first commit."""
    head = workspace.git.output("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if head.code == 0:
        return "HEAD"
    return workspace.git.output("hash-object", "-t", "tree", "--stdin").out.decode().strip()


def _lines_of_new(path: bytes) -> Lines:
    """The lines of a file that git does not know, counted as git counts; none where it cannot be read."""
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):  # one line to git: where it leads to
            return Lines(1, 0)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_TEXT:
            return NO_LINES
        with os.fdopen(
            os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb"
        ) as file:
            return Lines(_count(file), 0)
    except OSError:  # gone since git saw it, or not ours to read
        return NO_LINES


def _count(file: BinaryIO) -> int:
    counted, last = 0, b""
    while piece := file.read(PIECE):
        if not last and b"\0" in piece[:BINARY_WITHIN]:
            return 0
        counted, last = counted + piece.count(b"\n"), piece[-1:]
    return counted + (last not in (b"", b"\n"))


@dataclass(frozen=True, slots=True)
class Synced:
    """The map afterwards, how many files were attached to it, and what that did; None where nothing differs."""

    document: Mindmap
    files: int
    done: Edited | None


@dataclass(frozen=True, slots=True)
class Syncing:
    """Git sync of this map; `git_of` lends the git program of a folder, `given` is the workspace that is asked for."""

    maps: Maps
    mindmap_id: str
    git_of: Callable[[str], Git]
    given: str | None = None

    def tie(self) -> str:
        """Have the map belong to its workspace, for whoever watches it before anything is attached; which one it is."""
        workspace, _ = self._found()
        self.maps.change(self.mindmap_id, self._tied)
        return workspace

    def attach(self, asked: str | None = None) -> Synced:
        """Attach every file that differs from HEAD to the node that is chosen, in one change of the map."""
        workspace, git = self._found()
        touches = changed_files(workspace, git, self.maps.path)

        def edit(document: Mindmap) -> Edited | None:
            tied = self._tied(document)
            if not touches:
                return tied
            return attach_to(tied.document if tied else document, asked, touches, _said(touches), now())

        document, done = self.maps.change(self.mindmap_id, edit)
        return Synced(document, len(touches), done if touches else None)

    def _found(self) -> tuple[str, Git]:
        """The workspace and its git program: an error where git cannot sync it, and the map is as it was."""
        workspace = paths.settled(self.maps.read(self.mindmap_id).workspace_path, self.given)
        git = self.git_of(workspace)
        Workspace.of(workspace, git)
        return workspace, git

    def _tied(self, document: Mindmap) -> Edited | None:
        chosen = paths.settled(document.workspace_path, self.given)
        return None if chosen == document.workspace_path else nodes.settle_in(document, chosen, now())


def _said(touches: list[Touch]) -> str:
    return f"Git sync: {len(touches):,} file{'' if len(touches) == 1 else 's'}"
