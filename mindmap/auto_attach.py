"""Automatic attachment: records the file changes of a watched workspace in a mindmap (short: map).

A touch is a map's entry for a file that an agent read or changed. Files that git ignores, and changes that the map has
recorded already, are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from mindmap.document import EditResult, FileTouch, Mindmap, format_timestamp
from mindmap.file_events import EventBatch, FileChange, find_removal_time
from mindmap.file_touches import RENAME, TouchInput, attach_files, choose_target, keep_rename
from mindmap.git import Workspace
from mindmap.ignore import IgnoreRules, find_ignored_paths
from mindmap.paths import decode_path

# A recorded timestamp further in the future comes from a wrong clock and is ignored.
MAX_CLOCK_SKEW: Final = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class DetectedChanges:
    """The file changes of a batch that git does not ignore. Paths are relative to the workspace.

    `tracked_paths` are the paths in git's index; empty if no change needs them. `removed_directories` maps each removed
    directory to its removal timestamp: `apply_to` adds a deletion for every file that a map has in one of them.
    """

    changes: Sequence[FileChange]
    tracked_paths: frozenset[bytes]
    removed_directories: Mapping[bytes, str]

    def __bool__(self) -> bool:
        return bool(self.changes or self.removed_directories)

    def apply_to(self, document: Mindmap, now: str) -> EditResult | None:
        """Attach the changed files to the task in progress. Returns None if there is nothing to record.

        A change is left out if the map has a touch of the file that is not older: another server that watches the
        workspace, or the agent, recorded it already.
        """
        touches_by_path = _group_touches_by_path(document)
        latest_valid = format_timestamp(datetime.now(UTC) + MAX_CLOCK_SKEW)
        unrecorded = [
            change
            for change in (*self.changes, *self._iter_removed_files(touches_by_path))
            if not change.timestamp <= _find_latest_timestamp(touches_by_path, change) <= latest_valid
        ]
        rename_sources = {touch.previous_path for touches in touches_by_path.values() for touch in touches}
        target = choose_target(document)
        target_touches = {touch.path: touch for touch in target.document.nodes[target.node_id].files}
        new_touches = []
        for change in unrecorded:
            path = decode_path(change.path)
            was_recorded = change.path in self.tracked_paths or any(
                touch.action != "delete" for touch in touches_by_path.get(path, ())
            )
            action = change.resolve_action(was_recorded=was_recorded)
            # A renamed file vanishes from its old path. A deletion there counts only if the map has a newer file of
            # that name.
            is_rename_source = path in rename_sources and path not in touches_by_path
            if action is not None and not (action == "delete" and is_rename_source):
                touch = TouchInput(path, action, summary=f"Auto-detected file {action}")
                new_touches.append(keep_rename(touch, target_touches.get(path)))
        if not new_touches:
            return None
        message = _format_message(new_touches)
        changed = attach_files(target.document, target.node_id, new_touches, message, now)
        return EditResult(changed, message, (target.node_id,), node_count=1)

    def _iter_removed_files(self, touches_by_path: Mapping[str, Sequence[FileTouch]]) -> Iterator[FileChange]:
        """Yield a deletion for each file of the map in a removed directory that has no event of its own."""
        changed_paths = {change.path for change in self.changes}
        for path, touches in touches_by_path.items() if self.removed_directories else ():
            raw_path = path.encode()
            time = find_removal_time(raw_path, self.removed_directories)
            is_present = any(touch.action != "delete" for touch in touches)
            if time and is_present and raw_path not in changed_paths:
                yield FileChange(raw_path, existed_before=True, exists=False, timestamp=time)


def detect_changes(
    ignore_rules: IgnoreRules, batch: EventBatch, workspace: Workspace | None
) -> DetectedChanges:
    """Return the changes of a batch without files that git ignores. If `workspace` is None, git ignores nothing."""
    changes = batch.compute_file_changes(ignore_rules.root)
    removed_directories = batch.list_removed_directories(ignore_rules.root)
    if workspace is None:
        return DetectedChanges(changes, frozenset(), removed_directories)
    ignored_paths = find_ignored_paths(workspace, [change.path for change in changes])
    changes = [change for change in changes if change.path not in ignored_paths]
    needs_tracked_paths = removed_directories or any(change.existed_before is None for change in changes)
    tracked_paths = _list_tracked_paths(workspace) if needs_tracked_paths else frozenset()
    changed_paths = {change.path for change in changes}
    deletions = [
        FileChange(path, existed_before=True, exists=False, timestamp=time)
        for path in (tracked_paths - changed_paths if removed_directories else ())
        if (time := find_removal_time(path, removed_directories)) and not ignore_rules.ignores_file(path)
    ]
    return DetectedChanges([*changes, *deletions], tracked_paths, removed_directories)


def _list_tracked_paths(workspace: Workspace) -> frozenset[bytes]:
    repository_paths = workspace.run_git("ls-files", "-z").split(b"\0")
    return frozenset(path for file in repository_paths if (path := workspace.make_relative(file)))


def _group_touches_by_path(document: Mindmap) -> dict[str, list[FileTouch]]:
    touches: dict[str, list[FileTouch]] = {}
    for node in document.nodes.values():
        for touch in node.files:
            touches.setdefault(touch.path, []).append(touch)
    return touches


def _find_latest_timestamp(touches_by_path: Mapping[str, Sequence[FileTouch]], change: FileChange) -> str:
    touches = touches_by_path.get(decode_path(change.path), ())
    return max((touch.timestamp for touch in touches), default="")


def _format_message(touches: Sequence[TouchInput]) -> str:
    if len(touches) > 1:
        return f"Auto-detected changes of {len(touches):,} files"
    return f"Auto-detected file {touches[0].action or RENAME}: {touches[0].path}"
