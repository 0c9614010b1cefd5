"""Git sync: attach the files of a workspace that differ from HEAD, with their line counts, to a map.

A map without a workspace gets the requested one, if git can sync it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from mindmap import nodes, paths
from mindmap.document import EditResult, Mindmap, utc_now
from mindmap.file_touches import TouchInput, attach_to_target
from mindmap.git import GitRunner, LineCounts, StatusEntry, Workspace, parse_numstat, parse_status
from mindmap.ignore import IgnoreRules
from mindmap.map_store import MapStore
from mindmap.paths import decode_path

# Options override the user's configuration. Inspecting submodules would run programs that they configure.
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
# git's rule: a file is binary if a NUL is among its first bytes or if it is larger than this.
BINARY_CHECK_BYTES: Final = 8_000
MAX_TEXT_BYTES: Final = 512 << 20
CHUNK_BYTES: Final = 1 << 20

NO_LINES: Final = LineCounts(0, 0)


def changed_files(workspace_path: str, git: GitRunner, map_directory: Path) -> list[TouchInput]:
    """Return a touch for each file of the workspace that differs from HEAD, or from an empty tree without a commit.

    Files in `map_directory` are left out.
    """
    workspace = Workspace.from_path(workspace_path, git)
    ignore_rules = IgnoreRules.from_workspace(workspace.directory, map_directory)
    changes = parse_status(workspace.run_git(*STATUS))
    counts = parse_numstat(workspace.run_git(*NUMSTAT, _diff_base(workspace))) if changes else {}
    return [
        _create_touch(workspace, change, path, counts)
        for change in changes
        if (path := workspace.relative_path(change.path)) is not None and not ignore_rules.ignores_file(path)
    ]


def _create_touch(
    workspace: Workspace, change: StatusEntry, path: bytes, counts: dict[bytes, LineCounts]
) -> TouchInput:
    lines = None if change.is_untracked else counts.get(change.path)
    if lines is None:
        lines = (
            _count_new_lines(workspace.root + b"/" + change.path) if change.action == "create" else NO_LINES
        )
    previous = workspace.relative_path(change.previous_path) if change.previous_path else None
    action = "create" if change.previous_path and previous is None else change.action
    return TouchInput(
        decode_path(path),
        action,
        previous_path=decode_path(previous) if previous else None,
        summary=f"Git {action} (+{lines.added}/-{lines.deleted} lines)",
    )


def _diff_base(workspace: Workspace) -> str:
    """Return the revision to compare with: HEAD, or the empty tree before the first commit."""
    head = workspace.git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if head.exit_code == 0:
        return "HEAD"
    return workspace.git.run("hash-object", "-t", "tree", "--stdin").stdout.decode().strip()


def _count_new_lines(path: bytes) -> LineCounts:
    """Count the lines of an untracked file as git would; none if it cannot be read."""
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):  # git counts the target of a link as one line
            return LineCounts(1, 0)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_TEXT_BYTES:
            return NO_LINES
        with os.fdopen(
            os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb"
        ) as file:
            return LineCounts(_count_lines(file), 0)
    except OSError:  # deleted since git listed it, or not readable
        return NO_LINES


def _count_lines(file: BinaryIO) -> int:
    count, last = 0, b""
    while chunk := file.read(CHUNK_BYTES):
        if not last and b"\0" in chunk[:BINARY_CHECK_BYTES]:
            return 0
        count, last = count + chunk.count(b"\n"), chunk[-1:]
    return count + (last not in (b"", b"\n"))


@dataclass(frozen=True, slots=True)
class SyncResult:
    """The map after a sync, the number of attached files, and the edit; None if nothing differs from HEAD."""

    document: Mindmap
    file_count: int
    edit: EditResult | None


@dataclass(frozen=True, slots=True)
class WorkspaceSync:
    """Git sync of one map. `open_git` returns the git runner of a directory."""

    store: MapStore
    mindmap_id: str
    open_git: Callable[[str], GitRunner]
    requested_workspace: str | None = None

    def assign_workspace(self) -> str:
        """Set the workspace of the map if it has none, and return it.

        Raises an error, and leaves the map unchanged, if git cannot sync the workspace.
        """
        workspace, _ = self._resolve_workspace()
        self.store.change(self.mindmap_id, self._with_workspace)
        return workspace

    def attach_changes(self, requested_id: str | None = None) -> SyncResult:
        """Attach every file that differs from HEAD to the chosen node, in one edit."""
        workspace, git = self._resolve_workspace()
        touches = changed_files(workspace, git, self.store.path)

        def edit(document: Mindmap) -> EditResult | None:
            assigned = self._with_workspace(document)
            if not touches:
                return assigned
            return attach_to_target(
                assigned.document if assigned else document,
                requested_id,
                touches,
                _log_message(touches),
                utc_now(),
            )

        document, result = self.store.change(self.mindmap_id, edit)
        return SyncResult(document, len(touches), result if touches else None)

    def _resolve_workspace(self) -> tuple[str, GitRunner]:
        """Return the workspace and its git runner. Raises an error if git cannot sync the workspace."""
        workspace = paths.resolve_workspace(
            self.store.read(self.mindmap_id).workspace_path, self.requested_workspace
        )
        git = self.open_git(workspace)
        Workspace.from_path(workspace, git)
        return workspace, git

    def _with_workspace(self, document: Mindmap) -> EditResult | None:
        chosen = paths.resolve_workspace(document.workspace_path, self.requested_workspace)
        return None if chosen == document.workspace_path else nodes.set_workspace(document, chosen, utc_now())


def _log_message(touches: list[TouchInput]) -> str:
    return f"Git sync: {len(touches):,} file{'' if len(touches) == 1 else 's'}"
