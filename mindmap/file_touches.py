"""File touches: attach files to the nodes of a mindmap, merge repeated touches, follow renames, choose the target node.

A touch records that an agent read or changed a file. A node has one touch for each path; a repeated touch updates it.
The symbol changes of both touches are merged into one change for each kind and symbol.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from mindmap import validation
from mindmap.document import (
    ACTIONS,
    CHANGE_KINDS,
    DEFAULT_ACTION,
    IN_PROGRESS,
    ROOT,
    CodeChange,
    EditResult,
    FileTouch,
    Mindmap,
    Node,
    compute_edit_timestamp,
    with_log_entry,
)
from mindmap.nodes import generate_id
from mindmap.tree import find_active_task, shorten_label
from mindmap.validation import WorkspacePaths
from stores.errors import LineageError

RENAME: Final = "rename"
# Label of the node that files attach to when no task is in progress.
TOUCHED_FILES: Final = "Touched Files"
# Maximum number of symbols, and of changes, in one touch. Agents list a few dozen.
MAX_SYMBOLS: Final = 1_000
# Maximum length of a summary in the activity log. The touch keeps the whole summary.
MAX_SUMMARY_LENGTH: Final = 200
# Summaries that git sync and the watcher generate.
_GENERATED_SUMMARY: Final = re.compile(r"Git [a-z]+ \(\+\d+/-\d+ lines\)|Auto-detected file [a-z]+", re.ASCII)


class BadTouch(LineageError):
    """Error for an invalid file touch."""


@dataclass(frozen=True, slots=True)
class TouchInput:
    """A file touch to record.

    If the node has a touch of the path already, fields that are None or empty leave the values of that touch unchanged.
    """

    path: str
    action: str | None = None
    previous_path: str | None = None
    lines: str | None = None
    symbols: tuple[str, ...] = ()
    changes: tuple[CodeChange, ...] = ()
    summary: str | None = None
    lines_added: int | None = None
    lines_removed: int | None = None


@dataclass(frozen=True, slots=True)
class AttachTarget:
    """The node that files attach to, and the map that contains it."""

    document: Mindmap
    node_id: str

    @property
    def label(self) -> str:
        """The label of the node."""
        return self.document.nodes[self.node_id].label


def choose_target(document: Mindmap, requested_id: str | None = None) -> AttachTarget:
    """Return the node that files attach to.

    That is the requested node if it exists, else the most recent task in progress, else the node `Touched Files`.
    If there is no node `Touched Files`, the returned map has a new one.
    """
    if requested_id is not None and requested_id in document.nodes:
        return AttachTarget(document, requested_id)
    active_task = find_active_task(document)
    if active_task is not None:
        return AttachTarget(document, active_task.id)
    for child_id in document.nodes[ROOT].children:
        if document.nodes[child_id].label == TOUCHED_FILES:
            return AttachTarget(document, child_id)
    return _add_touched_files_node(document)


def log_touch(document: Mindmap, requested_id: str | None, touch: TouchInput, now: str) -> EditResult:
    """Attach a file that an agent has named to the node of `choose_target`.

    Symbolic links to directories in its path are resolved. A path outside the workspace gives a warning in the result.
    """
    paths = WorkspacePaths.from_workspace(document.workspace_path)
    touch = _follow_links(document, touch, paths)
    message = describe_touch(touch, document.workspace_path)
    target = choose_target(document, requested_id)
    new_document = attach_files(target.document, target.node_id, [touch], message, now)
    warning = paths.describe_paths_outside(touch.path, touch.previous_path)
    return EditResult(new_document, message, (target.node_id,), node_count=1, warning=warning)


def attach_files(
    document: Mindmap, node_id: str, touches: Sequence[TouchInput], message: str, now: str
) -> Mindmap:
    """Attach files to a node, with one entry in the activity log. The entry has the path if there is only one file.

    A rename moves the touches of the old path to the new path on every node.
    """
    return attach_to_nodes(document, {node_id: touches}, message, now, node_id)


def attach_to_nodes(
    document: Mindmap,
    touches_by_node: Mapping[str, Sequence[TouchInput]],
    message: str,
    now: str,
    target_id: str,
) -> Mindmap:
    """Attach files to several nodes, as `attach_files` does. The log entry names the node if there is only one.

    Tasks in progress other than `target_id` keep their `updated_at`, since attached files must not make them active.
    """
    paths = WorkspacePaths.from_workspace(document.workspace_path)
    timestamp = compute_edit_timestamp(document, now)
    validated_touches = {
        node_id: [_validate_touch(touch, paths, timestamp) for touch in touches]
        for node_id, touches in touches_by_node.items()
    }
    new_touches = [touch for touches in validated_touches.values() for touch in touches]
    renames = _find_new_renames(document, new_touches, paths)
    nodes = dict(document.nodes)
    for node in document.nodes.values():
        if renames and any(_normalize_stored_path(paths, touch) in renames for touch in node.files):
            nodes[node.id] = replace(node, files=_apply_renames(node, renames, paths))
    only_id = next(iter(touches_by_node)) if len(touches_by_node) == 1 else None
    for node_id, touches in validated_touches.items():
        node = nodes[node_id]
        is_updated = node_id == target_id or node.status != IN_PROGRESS
        nodes[node_id] = replace(
            node,
            files=_merge_touches(node, touches, paths),
            updated_at=timestamp if is_updated else node.updated_at,
        )
    file = new_touches[0].path if len(new_touches) == 1 else None
    return with_log_entry(replace(document, nodes=nodes), timestamp, message, node_id=only_id, file=file)


def attach_detected_files(
    document: Mindmap, requested_id: str | None, touches: Sequence[TouchInput], now: str
) -> EditResult | None:
    """Attach the files that git sync found: to the requested node if it exists, else each file to a node that has it.

    If several nodes have a file, it attaches to the node of `choose_target` if that is one of them, else to the node
    with the newest touch of the file. A file that no node has attaches to the node of `choose_target`.

    The deletion of the old path of a renamed file is left out if the map has the rename and no node has the old path.
    Returns None if no file is left.
    """
    paths = WorkspacePaths.from_workspace(document.workspace_path)
    target = choose_target(document, requested_id)
    touches_by_path: dict[str, dict[str, FileTouch]] = {}
    for node in document.nodes.values():
        for stored_touch in node.files:
            path = _normalize_stored_path(paths, stored_touch)
            touches_by_path.setdefault(path, {})[node.id] = stored_touch
    rename_sources = {
        touch.previous_path
        for stored_touches in touches_by_path.values()
        for touch in stored_touches.values()
    }
    touches_by_node: dict[str, list[TouchInput]] = {}
    for touch in touches:
        # Node id -> the node's touch of this file.
        stored_touches = touches_by_path.get(touch.path) or touches_by_path.get(touch.previous_path or "", {})
        if touch.action == "delete" and touch.path in rename_sources and not stored_touches:
            continue
        node_id = target.node_id
        if requested_id != node_id and stored_touches and node_id not in stored_touches:
            # `max` returns the first of equal items. Reversed, it returns the last node of the map instead.
            node_id = max(reversed(stored_touches), key=lambda node_id: stored_touches[node_id].timestamp)
        touches_by_node.setdefault(node_id, []).append(keep_rename(touch, stored_touches.get(node_id)))
    if not touches_by_node:
        return None
    file_count = sum(map(len, touches_by_node.values()))
    message = _format_sync_message(file_count, len(touches_by_node.get(target.node_id, ())))
    # The target's document may have a new node `Touched Files`, which is not needed if nothing attaches to it.
    old_document = target.document if target.node_id in touches_by_node else document
    new_document = attach_to_nodes(old_document, touches_by_node, message, now, target.node_id)
    node_ids = sorted(touches_by_node, key=lambda node_id: node_id != target.node_id)  # the target first
    return EditResult(new_document, message, tuple(node_ids), node_count=len(node_ids), file_count=file_count)


def is_generated_summary(summary: str) -> bool:
    """Return True for a summary that git sync or the watcher generated, not an agent."""
    return bool(_GENERATED_SUMMARY.fullmatch(summary))


def keep_rename(touch: TouchInput, existing: FileTouch | None) -> TouchInput:
    """Return a detected touch; without its action if the existing touch of the file is a rename.

    A touch without action leaves the action of the existing touch unchanged. Detected deletions and renames keep their
    action.
    """
    is_rename = existing is not None and existing.action == RENAME
    if is_rename and touch.action not in ("delete", RENAME):
        return dataclasses.replace(touch, action=None)
    return touch


def describe_touch(touch: TouchInput, workspace: str | None) -> str:
    """Return the activity log message for one touch in a map with this workspace."""
    action = RENAME if touch.previous_path else touch.action or DEFAULT_ACTION
    path = WorkspacePaths.from_workspace(workspace).normalize(touch.path)
    summary = shorten_label(touch.summary or "", MAX_SUMMARY_LENGTH)
    return f"{action.capitalize()} {path}" + (f": {summary}" if summary else "")


def _find_new_renames(
    document: Mindmap, touches: Sequence[FileTouch], paths: WorkspacePaths
) -> dict[str, FileTouch]:
    """Return the touches of the renames that the map does not have yet, by old path.

    A rename that the map has must not move touches again: if its old path has a file now, that is a new file.
    """
    recorded_renames = {
        (_normalize_stored_path(paths, touch), touch.previous_path)
        for node in document.nodes.values()
        for touch in node.files
        if touch.action == RENAME
    }
    return {
        touch.previous_path: touch
        for touch in touches
        if touch.action == RENAME
        and touch.previous_path
        and (touch.path, touch.previous_path) not in recorded_renames
    }


def _format_sync_message(file_count: int, target_count: int) -> str:
    """Return the log message of a git sync. `target_count` is the number of files that attach to the target."""
    message = f"Git sync: {file_count:,} file{'' if file_count == 1 else 's'}"
    other_count = file_count - target_count
    return f"{message} ({other_count:,} on nodes that had them)" if other_count else message


def _follow_links(document: Mindmap, touch: TouchInput, paths: WorkspacePaths) -> TouchInput:
    """Return the touch with symbolic links to directories resolved in its paths."""
    stored_paths = {stored_touch.path for node in document.nodes.values() for stored_touch in node.files}

    def follow(path: str, *, is_gone: bool) -> str:
        normalized_path = paths.normalize(path)
        # A link may have replaced the directory of a file that is gone. So its path stays if the map has it.
        is_stored = normalized_path in stored_paths
        return normalized_path if is_gone and is_stored else paths.follow_links(path)

    return dataclasses.replace(
        touch,
        path=follow(touch.path, is_gone=touch.action == "delete"),
        previous_path=follow(touch.previous_path, is_gone=True) if touch.previous_path else None,
    )


def _normalize_stored_path(paths: WorkspacePaths, touch: FileTouch) -> str:
    """Return the path of a stored touch, normalized unless it is invalid.

    Another program may have written an absolute path for a file in the workspace.
    """
    try:
        return paths.normalize(touch.path)
    except LineageError:
        return touch.path


def _merge_touches(
    node: Node, new_touches: Sequence[FileTouch], paths: WorkspacePaths
) -> tuple[FileTouch, ...]:
    files = _index_by_path(node.files, paths)
    for touch in new_touches:
        _put_touch(files, touch)
    return tuple(
        replace(touch, action=touch.action or DEFAULT_ACTION, changes=_merge_changes(touch.changes))
        for touch in files.values()
    )


def _apply_renames(node: Node, renames: dict[str, FileTouch], paths: WorkspacePaths) -> tuple[FileTouch, ...]:
    """Return a node's touches, with the touches of renamed files moved to the new paths or merged into touches there.

    `renames` has the touch of each rename by its old path.
    """
    old_touches = _index_by_path(node.files, paths)
    new_touches = {path: touch for path, touch in old_touches.items() if path not in renames}
    for old_path, rename in renames.items():
        if old_path in old_touches:
            _put_touch(new_touches, _update_touch(old_touches[old_path], rename))
    return tuple(new_touches.values())


def _index_by_path(files: Sequence[FileTouch], paths: WorkspacePaths) -> dict[str, FileTouch]:
    touches_by_path: dict[str, FileTouch] = {}
    for touch in files:
        _put_touch(touches_by_path, replace(touch, path=_normalize_stored_path(paths, touch)))
    return touches_by_path


def _put_touch(touches_by_path: dict[str, FileTouch], touch: FileTouch) -> None:
    """Add a touch, or update the touch of the same path."""
    before = touches_by_path.get(touch.path)
    touches_by_path[touch.path] = touch if before is None else _update_touch(before, touch)


def _update_touch(before: FileTouch, after: FileTouch) -> FileTouch:
    """Return `before`, updated by the values of `after` that are not empty, and with the symbol changes of both."""
    action = after.action or before.action
    return replace(
        before,
        path=after.path,
        action=action,
        previous_path=after.previous_path or (before.previous_path if action == RENAME else None),
        lines=after.lines or before.lines,
        symbols=after.symbols or before.symbols,
        changes=_merge_changes((*before.changes, *after.changes)),
        summary=_choose_summary(before.summary, after.summary),
        lines_added=before.lines_added if after.lines_added is None else after.lines_added,
        lines_removed=before.lines_removed if after.lines_removed is None else after.lines_removed,
        timestamp=after.timestamp,
        unknown_fields=before.unknown_fields | after.unknown_fields,
    )


def _choose_summary(before: str | None, after: str | None) -> str | None:
    """Return the new summary. Return the old one if the new one is empty, or if only the old one is an agent's."""
    is_replaced = after and (not before or is_generated_summary(before) or not is_generated_summary(after))
    return after if is_replaced else before


def _merge_changes(changes: Sequence[CodeChange]) -> tuple[CodeChange, ...]:
    """Return one change for each kind and symbol, at the position of its first change, with the values of its last."""
    changes_by_key: dict[tuple[str, str], CodeChange] = {}
    for change in changes:
        before = changes_by_key.get((change.kind, change.symbol))
        if before is not None:
            change = replace(
                change,
                previous_symbol=change.previous_symbol or before.previous_symbol,
                detail=change.detail or before.detail,
                unknown_fields=before.unknown_fields | change.unknown_fields,
            )
        changes_by_key[change.kind, change.symbol] = change
    return tuple(changes_by_key.values())


def _validate_touch(touch: TouchInput, paths: WorkspacePaths, timestamp: str) -> FileTouch:
    """Return a valid touch to store. Its action is empty if the input has none; `_merge_touches` sets it."""
    if touch.action is not None and touch.action not in ACTIONS:
        raise BadTouch(f"{touch.action!r} is not an action.", hint=f"Actions are {', '.join(ACTIONS)}.")
    previous_path = paths.normalize(touch.previous_path) if touch.previous_path else None
    if previous_path and touch.action not in (None, RENAME):
        raise BadTouch(
            f"A file with the action {touch.action!r} cannot have a previous path.",
            hint=f"Set the action to {RENAME!r}.",
        )
    if touch.action == RENAME and previous_path is None:
        raise BadTouch("A rename needs the old path.", hint="Give it as previousPath.")
    for items, name in ((touch.symbols, "symbols"), (touch.changes, "changes")):
        if items:
            validation.check_batch_size(items, name, MAX_SYMBOLS)
    return FileTouch(
        path=paths.normalize(touch.path),
        action=RENAME if previous_path else touch.action or "",
        previous_path=previous_path,
        lines=validation.normalize_line_range(touch.lines),
        symbols=tuple(validation.validate_text(symbol, "symbol") for symbol in touch.symbols),
        changes=tuple(_validate_change(change) for change in touch.changes),
        summary=validation.validate_optional_text(touch.summary, "summary"),
        lines_added=touch.lines_added,
        lines_removed=touch.lines_removed,
        timestamp=timestamp,
    )


def _validate_change(change: CodeChange) -> CodeChange:
    if change.kind not in CHANGE_KINDS:
        raise BadTouch(
            f"{change.kind!r} is not a kind of change.", hint=f"Kinds are {', '.join(CHANGE_KINDS)}."
        )
    return replace(
        change,
        symbol=validation.validate_text(change.symbol, "symbol"),
        previous_symbol=validation.validate_optional_text(change.previous_symbol, "symbol"),
        detail=validation.validate_optional_text(change.detail, "detail"),
    )


def _add_touched_files_node(document: Mindmap) -> AttachTarget:
    # A note, since a task would count towards progress.
    node = Node(id=generate_id("n_", document.nodes), label=TOUCHED_FILES, type="note", parent=ROOT)
    root = document.nodes[ROOT]
    nodes = {**document.nodes, ROOT: replace(root, children=(*root.children, node.id)), node.id: node}
    return AttachTarget(replace(document, nodes=nodes), node.id)
