"""git status and numstat of a workspace -> touches: the files that differ from HEAD, with the lines that do."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

from mindmap import porcelain
from mindmap.ignoring import Ignoring
from mindmap.paths import shown
from mindmap.porcelain import Changed, Lines
from mindmap.program import Git, Workspace
from mindmap.touching import Touch

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
    changes = porcelain.changed(workspace.answer(*STATUS))
    counted = porcelain.lines(workspace.answer(*NUMSTAT, _base(workspace))) if changes else {}
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
