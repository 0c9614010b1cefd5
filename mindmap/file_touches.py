"""Files attached to nodes: one entry for a path on a node, changes merged by kind and symbol, renames followed.

Which node a file attaches to: decided here for the three that attach files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from mindmap import validation
from mindmap.document import (
    ACTIONS,
    CHANGE_KINDS,
    DEFAULT_ACTION,
    ROOT,
    CodeChange,
    Edited,
    FileTouch,
    Mindmap,
    Node,
    logged,
    stamp,
)
from mindmap.nodes import fresh_id
from mindmap.paths import Paths
from mindmap.tree import active_task
from stores.errors import LineageError

RENAME: Final = "rename"
# Of one touch: a file with more is not described by its symbols.
MOST_SYMBOLS: Final = 1_000


class BadTouch(LineageError):
    """A touch that cannot be as it is asked for."""


@dataclass(frozen=True, slots=True)
class Touch:
    """A file that was touched; what is None or empty leaves an entry that is there as it is."""

    path: str
    action: str | None = None
    previous_path: str | None = None
    lines: str | None = None
    symbols: tuple[str, ...] = ()
    changes: tuple[CodeChange, ...] = ()
    summary: str | None = None


def attach(document: Mindmap, node_id: str, touches: Sequence[Touch], message: str, now: str) -> Mindmap:
    """Attach files to a node; the log gets one entry, with the file's name where there is one file.

    Where a file was renamed, its entries under the old path go over to the new one, on whatever node they are.
    """
    paths = Paths.of(document.workspace_path)
    moment = stamp(document, now)
    given = [_checked(touch, paths, moment) for touch in touches]
    known = {
        (paths_kept(paths, touch), touch.previous_path)
        for node in document.nodes.values()
        for touch in node.files
        if touch.action == RENAME
    }
    # Told again, a rename takes nothing: what has the old name by now is another file.
    moved = {
        touch.previous_path: touch
        for touch in given
        if touch.action == RENAME and touch.previous_path and (touch.path, touch.previous_path) not in known
    }
    nodes = dict(document.nodes)
    for node in document.nodes.values() if moved else ():
        if any(paths_kept(paths, touch) in moved for touch in node.files):
            nodes[node.id] = replace(node, files=_renamed(node, moved, paths))
    target = nodes[node_id]
    nodes[node_id] = replace(target, files=_merged(target, given, paths), updated_at=moment)
    file = given[0].path if len(given) == 1 else None
    return logged(replace(document, nodes=nodes), moment, message, node_id=node_id, file=file)


def told(touch: Touch, workspace: str | None) -> str:
    """What the log of a map with this workspace says of one file."""
    action = RENAME if touch.previous_path else touch.action or DEFAULT_ACTION
    path = Paths.of(workspace).kept(touch.path)
    return f"{action.capitalize()} {path}" + (f": {touch.summary.strip()}" if touch.summary else "")


def paths_kept(paths: Paths, touch: FileTouch) -> str:
    """The path of an entry as this version keeps it: another program may have written it otherwise."""
    try:
        return paths.kept(touch.path)
    except LineageError:
        return touch.path


def _merged(node: Node, given: Sequence[FileTouch], paths: Paths) -> tuple[FileTouch, ...]:
    files = _by_path(node.files, paths)
    for touch in given:
        before = files.get(touch.path)
        files[touch.path] = touch if before is None else _updated(before, touch)
    return tuple(
        replace(touch, action=touch.action or DEFAULT_ACTION, changes=_by_symbol(touch.changes))
        for touch in files.values()
    )


def _renamed(node: Node, moved: dict[str, FileTouch], paths: Paths) -> tuple[FileTouch, ...]:
    """A node's entries, those under an old path at the new one, together with what is there already."""
    entries = _by_path(node.files, paths)
    files = {path: touch for path, touch in entries.items() if path not in moved}
    for path, rename in moved.items():
        if path in entries:
            here = _updated(entries[path], rename)
            before = files.get(here.path)
            files[here.path] = here if before is None else _updated(before, here)
    return tuple(files.values())


def _by_path(files: Sequence[FileTouch], paths: Paths) -> dict[str, FileTouch]:
    kept: dict[str, FileTouch] = {}
    for touch in files:
        path = paths_kept(paths, touch)
        before = kept.get(path)
        kept[path] = (
            replace(touch, path=path) if before is None else _updated(before, replace(touch, path=path))
        )
    return kept


def _updated(before: FileTouch, after: FileTouch) -> FileTouch:
    """An entry with what is new in place of what was; changes of both."""
    action = after.action or before.action
    return replace(
        before,
        path=after.path,
        action=action,
        previous_path=after.previous_path or (before.previous_path if action == RENAME else None),
        lines=after.lines or before.lines,
        symbols=after.symbols or before.symbols,
        changes=_by_symbol((*before.changes, *after.changes)),
        summary=after.summary or before.summary,
        timestamp=after.timestamp,
        unknown=before.unknown | after.unknown,
    )


def _by_symbol(changes: Sequence[CodeChange]) -> tuple[CodeChange, ...]:
    """One for each kind and symbol: the first's place, the last's words."""
    kept: dict[tuple[str, str], CodeChange] = {}
    for change in changes:
        before = kept.get((change.kind, change.symbol))
        if before is not None:
            change = replace(
                change,
                previous_symbol=change.previous_symbol or before.previous_symbol,
                detail=change.detail or before.detail,
                unknown=before.unknown | change.unknown,
            )
        kept[change.kind, change.symbol] = change
    return tuple(kept.values())


def _checked(touch: Touch, paths: Paths, moment: str) -> FileTouch:
    if touch.action is not None and touch.action not in ACTIONS:
        raise BadTouch(f"{touch.action!r} is no action.", hint=f"Actions are {', '.join(ACTIONS)}.")
    previous = paths.kept(touch.previous_path) if touch.previous_path else None
    if previous and touch.action not in (None, RENAME):
        raise BadTouch(
            f"A file that is {touch.action!r} has no previous path.", hint=f"Set the action to {RENAME!r}."
        )
    if touch.action == RENAME and previous is None:
        raise BadTouch("A rename needs the old path.", hint="Give it as previousPath.")
    return FileTouch(
        path=paths.kept(touch.path),
        action=RENAME if previous else touch.action or "",
        previous_path=previous,
        lines=validation.kept(touch.lines),
        symbols=tuple(validation.text(symbol, "symbol") for symbol in _few(touch.symbols, "symbols")),
        changes=tuple(_checked_change(change) for change in _few(touch.changes, "changes")),
        summary=validation.optional(touch.summary, "summary"),
        timestamp=moment,
    )


def _few(things: tuple[validation.Kept, ...], name: str) -> tuple[validation.Kept, ...]:
    if things:
        validation.batch(things, name, MOST_SYMBOLS)
    return things


def _checked_change(change: CodeChange) -> CodeChange:
    if change.kind not in CHANGE_KINDS:
        raise BadTouch(f"{change.kind!r} is no kind of change.", hint=f"Kinds are {', '.join(CHANGE_KINDS)}.")
    return replace(
        change,
        symbol=validation.text(change.symbol, "symbol"),
        previous_symbol=validation.optional(change.previous_symbol, "symbol"),
        detail=validation.optional(change.detail, "detail"),
    )


TOUCHED_FILES: Final = "Touched Files"


@dataclass(frozen=True, slots=True)
class Target:
    """The node, in a map where it is there."""

    document: Mindmap
    node_id: str

    @property
    def label(self) -> str:
        """What the node is called."""
        return self.document.nodes[self.node_id].label


def choose(document: Mindmap, asked: str | None = None) -> Target:
    """The node asked for if there is one like it, or else the most recent active task, or else `Touched Files`."""
    if asked is not None and asked in document.nodes:
        return Target(document, asked)
    active = active_task(document)
    if active is not None:
        return Target(document, active.id)
    for child in document.nodes[ROOT].children:
        if document.nodes[child].label == TOUCHED_FILES:
            return Target(document, child)
    return _made(document)


def attach_to(
    document: Mindmap, asked: str | None, touches: Sequence[Touch], message: str, now: str
) -> Edited:
    """Attach files to the node that is chosen; its id is the one in the answer."""
    target = choose(document, asked)
    changed = attach(target.document, target.node_id, touches, message, now)
    return Edited(changed, message, (target.node_id,), nodes=1)


def _made(document: Mindmap) -> Target:
    # A note: it must not count as something to do.
    node = Node(id=fresh_id("n_", document.nodes), label=TOUCHED_FILES, type="note", parent=ROOT)
    root = document.nodes[ROOT]
    nodes = {**document.nodes, ROOT: replace(root, children=(*root.children, node.id)), node.id: node}
    return Target(replace(document, nodes=nodes), node.id)
