"""Automatic attachment: from a batch of file events to touches on a map.

Files that git ignores and events that the map has recorded already are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from mindmap.document import EditResult, FileTouch, Mindmap, format_timestamp
from mindmap.file_events import EventBatch, FileChange, removal_time
from mindmap.file_touches import RENAME, TouchInput, attach_files, choose_target
from mindmap.git import Workspace
from mindmap.ignore import IgnoreRules, git_ignored_paths
from mindmap.paths import decode_path

# Prefixes of generated summaries, from git sync and from this module. Other summaries are kept.
AUTOMATIC_SUMMARIES: Final = ("Git ", "Auto-detected file ")
# A recorded timestamp further in the future comes from a wrong clock and is ignored.
MAX_CLOCK_SKEW: Final = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class DetectedChanges:
    """The file changes of a batch that git does not ignore.

    `tracked_paths` are the paths in git's index, if they were needed. `removed_directories` maps each removed directory
    to the time of removal; files that a map knows in one of them are gone too.
    """

    changes: Sequence[FileChange]
    tracked_paths: frozenset[bytes]
    removed_directories: Mapping[bytes, str]

    def __bool__(self) -> bool:
        return bool(self.changes or self.removed_directories)

    def apply_to(self, document: Mindmap, now: str) -> EditResult | None:
        """Attach the changed files to the chosen node of a map. Returns None if there is nothing to record.

        A change is left out if the map has a touch of the file that is not older: another server that watches the
        workspace, or the agent, recorded it already.
        """
        known = _touches_by_path(document)
        latest_valid = format_timestamp(datetime.now(UTC) + MAX_CLOCK_SKEW)
        unrecorded = [
            change
            for change in (*self.changes, *self._changes_in_removed_directories(known))
            if not change.timestamp <= _latest_timestamp(known, change) <= latest_valid
        ]
        renamed_paths = {touch.previous_path for touches in known.values() for touch in touches}
        target = choose_target(document)
        entries = {touch.path: touch for touch in target.document.nodes[target.node_id].files}
        touches = []
        for change in unrecorded:
            path = decode_path(change.path)
            was_known = change.path in self.tracked_paths or any(
                touch.action != "delete" for touch in known.get(path, ())
            )
            action = change.action(was_known=was_known)
            # The old path of a recorded rename is not deleted, unless another file got that name since.
            is_rename_source = path in renamed_paths and path not in known
            if action is not None and not (action == "delete" and is_rename_source):
                touches.append(_create_touch(path, action, entries.get(path)))
        if not touches:
            return None
        first = f"file {touches[0].action or RENAME}: {touches[0].path}"
        message = f"Auto-detected {first if len(touches) == 1 else f'changes of {len(touches):,} files'}"
        changed = attach_files(target.document, target.node_id, touches, message, now)
        return EditResult(changed, message, (target.node_id,), node_count=1)

    def _changes_in_removed_directories(
        self, known: Mapping[str, Sequence[FileTouch]]
    ) -> Iterator[FileChange]:
        """Yield a deletion for each file of the map in a removed directory that has no event of its own."""
        changed_paths = {change.path for change in self.changes}
        for path, touches in known.items() if self.removed_directories else ():
            name = path.encode()
            time = removal_time(name, self.removed_directories)
            if time and name not in changed_paths and any(touch.action != "delete" for touch in touches):
                yield FileChange(name, existed_before=True, exists=False, timestamp=time)


def detect_changes(
    ignore_rules: IgnoreRules, batch: EventBatch, workspace: Workspace | None
) -> DetectedChanges:
    """Return the changes of a batch without files that git ignores; all changes if there is no git workspace."""
    changes = batch.file_changes(ignore_rules.root)
    removed_directories = batch.removed_directories(ignore_rules.root)
    if workspace is None:
        return DetectedChanges(changes, frozenset(), removed_directories)
    ignored = git_ignored_paths(workspace, [change.path for change in changes])
    changes = [change for change in changes if change.path not in ignored]
    needs_index = removed_directories or any(change.existed_before is None for change in changes)
    tracked = _tracked_paths(workspace) if needs_index else frozenset()
    changed_paths = {change.path for change in changes}
    deleted = [
        FileChange(path, existed_before=True, exists=False, timestamp=time)
        for path in (tracked - changed_paths if removed_directories else ())
        if (time := removal_time(path, removed_directories)) and not ignore_rules.ignores_file(path)
    ]
    return DetectedChanges([*changes, *deleted], tracked, removed_directories)


def _tracked_paths(workspace: Workspace) -> frozenset[bytes]:
    names = workspace.run_git("ls-files", "-z").split(b"\0")
    return frozenset(path for name in names if (path := workspace.relative_path(name)))


def _touches_by_path(document: Mindmap) -> dict[str, list[FileTouch]]:
    touches: dict[str, list[FileTouch]] = {}
    for node in document.nodes.values():
        for touch in node.files:
            touches.setdefault(touch.path, []).append(touch)
    return touches


def _latest_timestamp(known: Mapping[str, Sequence[FileTouch]], change: FileChange) -> str:
    return max((touch.timestamp for touch in known.get(decode_path(change.path), ())), default="")


def _create_touch(path: str, action: str, entry: FileTouch | None) -> TouchInput:
    """Return the touch to merge into an existing entry: it keeps the action of a rename and a written summary."""
    has_own_summary = (
        entry is not None and entry.summary and not entry.summary.startswith(AUTOMATIC_SUMMARIES)
    )
    is_rename = entry is not None and entry.action == RENAME and action != "delete"
    return TouchInput(
        path,
        None if is_rename else action,
        summary=None if has_own_summary else f"Auto-detected file {action}",
    )
