"""Git sync: attach the files of a workspace that differ from HEAD, with their line counts, to a mindmap (short: map).

A map without a workspace, or whose workspace no longer exists, gets the requested workspace.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from mindmap import nodes, validation
from mindmap.document import EditResult, Mindmap, utc_now
from mindmap.file_touches import TouchInput, attach_detected_files
from mindmap.git import (
    GitRunner,
    IgnoreRules,
    LineCounts,
    StatusEntry,
    Workspace,
    parse_numstat,
    parse_status,
)
from mindmap.map_store import MapStore
from mindmap.validation import decode_path

# The options override the user's configuration. Without `--ignore-submodules=dirty`, git would inspect submodules and
# run programs that they configure.
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
# git's rule: a file is binary if its first BINARY_CHECK_BYTES contain a NUL, or if it is larger than MAX_TEXT_BYTES.
BINARY_CHECK_BYTES: Final = 8_000
MAX_TEXT_BYTES: Final = 512 << 20
# Bytes of a file that are read at once to count its lines.
CHUNK_BYTES: Final = 1 << 20

NO_LINES: Final = LineCounts(0, 0)


def find_changed_files(workspace_path: str, git: GitRunner, map_directory: Path) -> list[TouchInput]:
    """Return the files of the workspace that differ from HEAD, each as a touch to record in a map.

    Before the first commit, all files differ. Files that git or `IgnoreRules` ignore are left out, such as the map
    files in `map_directory`. Raises NoWorkTree if the workspace is not in a work tree, and GitFailed if git fails.
    """
    workspace = Workspace.from_path(workspace_path, git)
    ignore_rules = IgnoreRules.from_workspace(workspace.directory, map_directory)
    entries = parse_status(workspace.run_git(*STATUS))
    counts = parse_numstat(workspace.run_git(*NUMSTAT, workspace.find_diff_base())) if entries else {}
    return [
        _create_touch(workspace, entry, path, counts)
        for entry in entries
        if (path := workspace.make_relative(entry.path)) is not None and not ignore_rules.ignores_file(path)
    ]


def _create_touch(
    workspace: Workspace, entry: StatusEntry, path: bytes, counts: dict[bytes, LineCounts]
) -> TouchInput:
    """Return the touch of a changed file; `path` is relative to the workspace."""
    line_counts = None if entry.is_untracked else counts.get(entry.path)
    if line_counts is None:
        line_counts = (
            _count_lines_of_new_file(workspace.root + b"/" + entry.path)
            if entry.action == "create"
            else NO_LINES
        )
    previous_path = workspace.make_relative(entry.previous_path) if entry.previous_path else None
    # A file that was renamed from outside the workspace is new in it.
    action = "create" if entry.previous_path and previous_path is None else entry.action
    return TouchInput(
        decode_path(path),
        action,
        previous_path=decode_path(previous_path) if previous_path else None,
        summary=f"Git {action} (+{line_counts.added}/-{line_counts.deleted} lines)",
        lines_added=line_counts.added,
        lines_removed=line_counts.deleted,
    )


def _count_lines_of_new_file(path: bytes) -> LineCounts:
    """Count the lines of a new file as git does: 0 for a binary file. Also 0 for a file that cannot be read."""
    try:
        file_status = os.lstat(path)
        # git stores the path that a link refers to, and counts it as one line.
        if stat.S_ISLNK(file_status.st_mode):
            return LineCounts(1, 0)
        if not stat.S_ISREG(file_status.st_mode) or file_status.st_size > MAX_TEXT_BYTES:
            return NO_LINES
        with os.fdopen(
            os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb"
        ) as file:
            return LineCounts(_count_lines(file), 0)
    except OSError:  # deleted since git listed it, or not readable
        return NO_LINES


def _count_lines(file: BinaryIO) -> int:
    """Return the number of lines, including a last one without a line end; 0 for a binary file."""
    count, last_byte = 0, b""
    while chunk := file.read(CHUNK_BYTES):
        is_first_chunk = not last_byte
        if is_first_chunk and b"\0" in chunk[:BINARY_CHECK_BYTES]:
            return 0
        count, last_byte = count + chunk.count(b"\n"), chunk[-1:]
    return count + (last_byte not in (b"", b"\n"))


@dataclass(frozen=True, slots=True)
class SyncResult:
    """The map after a sync, with the number of attached files.

    `edit` is the edit that attached them; None if no file was attached.
    """

    document: Mindmap
    file_count: int
    edit: EditResult | None


@dataclass(frozen=True, slots=True)
class WorkspaceSync:
    """Git sync of one map.

    `open_git` returns the git runner of a directory; it raises an error for a directory outside repositories.
    `requested_workspace` is used if the map has no workspace, or its workspace no longer exists.
    """

    store: MapStore
    mindmap_id: str
    open_git: Callable[[str], GitRunner]
    requested_workspace: str | None = None

    def assign_workspace(self) -> str:
        """Set the workspace of the map if it has none, or one that no longer exists. Returns the map's workspace.

        Raises an error, and leaves the map unchanged, if the workspace is not in a git work tree.
        """
        workspace, _ = self._resolve_workspace()
        self.store.change(self.mindmap_id, self._set_workspace)
        return workspace

    def attach_changes(self, requested_id: str | None = None) -> SyncResult:
        """Attach every file that differs from HEAD, in one edit.

        All files attach to the requested node if it exists; otherwise `attach_detected_files` chooses their nodes.
        """
        workspace, git = self._resolve_workspace()
        touches = find_changed_files(workspace, git, self.store.path)
        files_edit: EditResult | None = None

        def edit(document: Mindmap) -> EditResult | None:
            nonlocal files_edit
            workspace_edit = self._set_workspace(document)
            document = workspace_edit.document if workspace_edit else document
            files_edit = attach_detected_files(document, requested_id, touches, utc_now())
            return files_edit or workspace_edit  # `files_edit` includes `workspace_edit`

        document, _ = self.store.change(self.mindmap_id, edit)
        return SyncResult(document, files_edit.file_count if files_edit else 0, files_edit)

    def _resolve_workspace(self) -> tuple[str, GitRunner]:
        """Return the workspace and its git runner. Raises an error if the workspace is not in a git work tree."""
        workspace = validation.resolve_workspace(
            self.store.read(self.mindmap_id).workspace_path, self.requested_workspace
        )
        git = self.open_git(workspace)
        Workspace.from_path(workspace, git)
        return workspace, git

    def _set_workspace(self, document: Mindmap) -> EditResult | None:
        """Return the edit that sets the workspace of a map; None if the map has it already."""
        workspace = validation.resolve_workspace(document.workspace_path, self.requested_workspace)
        if workspace == document.workspace_path:
            return None
        return nodes.set_workspace(document, workspace, utc_now())
