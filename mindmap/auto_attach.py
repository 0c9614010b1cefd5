"""A batch of file events -> touches on a map: what git ignores and what is recorded already left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from mindmap.document import Edited, FileTouch, Mindmap, timestamp
from mindmap.file_events import Event, Pending, went_with
from mindmap.file_touches import RENAME, Touch, attach, choose
from mindmap.git import Workspace
from mindmap.ignore import Ignoring, ignored_by_git
from mindmap.paths import shown

# Summaries that no one wrote: git sync's and this file's. Anybody's own words stay.
AUTOMATIC: Final = ("Git ", "Auto-detected file ")
# A moment further in the future than this is a wrong clock's, and says nothing of what it is compared with.
CLOCKS_DIFFER: Final = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Detected:
    """The events of a batch that are somebody's work.

    `tracked` are paths that git had before, where it matters. `gone` are folders that went, with whatever the map knows
    to be in them.
    """

    events: Sequence[Event]
    tracked: frozenset[bytes]
    gone: Mapping[bytes, str]

    def __bool__(self) -> bool:
        return bool(self.events or self.gone)

    def recorded(self, document: Mindmap, now: str) -> Edited | None:
        """The map with the files attached to the node that is chosen; None where there is nothing to record.

        Another server that watches the same workspace, or the agent itself, may have recorded an event already:
        a touch of the file that is not older than the event knows of it.
        """
        known = _known(document)
        later = timestamp(datetime.now(UTC) + CLOCKS_DIFFER)
        events = [*self.events, *self._lost(known)]
        news = [event for event in events if not event.at <= _last(known, event) <= later]
        renamed = {touch.previous_path for touches in known.values() for touch in touches}
        target = choose(document)
        here = {touch.path: touch for touch in target.document.nodes[target.node_id].files}
        touches = []
        for event in news:
            path = shown(event.path)
            was_known = event.path in self.tracked or any(
                touch.action != "delete" for touch in known.get(path, ())
            )
            action = event.action(was_known=was_known)
            # What a rename took away is no deletion; a file that came to have the old name since can be deleted.
            if action is not None and not (action == "delete" and path in renamed and path not in known):
                touches.append(_touch(path, action, here.get(path)))
        if not touches:
            return None
        first = f"file {touches[0].action or RENAME}: {touches[0].path}"
        message = f"Auto-detected {first if len(touches) == 1 else f'changes of {len(touches):,} files'}"
        changed = attach(target.document, target.node_id, touches, message, now)
        return Edited(changed, message, (target.node_id,), nodes=1)

    def _lost(self, known: Mapping[str, Sequence[FileTouch]]) -> Iterator[Event]:
        """The ends of files that a map knows and nobody told of."""
        told = {event.path for event in self.events}
        for path, touches in known.items() if self.gone else ():
            name = path.encode()
            at = went_with(name, self.gone)
            if at and name not in told and any(touch.action != "delete" for touch in touches):
                yield Event(name, was_there=True, is_there=False, at=at)


def detected(ignoring: Ignoring, batch: Pending, workspace: Workspace | None) -> Detected:
    """What is left of a batch when git has told what it ignores; all of it where there is no git to ask."""
    events, gone = batch.settled(ignoring.root), batch.gone(ignoring.root)
    if workspace is None:
        return Detected(events, frozenset(), gone)
    ignored = ignored_by_git(workspace, [event.path for event in events])
    kept = [event for event in events if event.path not in ignored]
    in_doubt = gone or any(event.was_there is None for event in kept)
    tracked = _tracked(workspace) if in_doubt else frozenset()
    told = {event.path for event in kept}
    lost = [
        Event(path, was_there=True, is_there=False, at=at)
        for path in (tracked - told if gone else ())
        if (at := went_with(path, gone)) and not ignoring.leaves_out(path)
    ]
    return Detected([*kept, *lost], tracked, gone)


def _tracked(workspace: Workspace) -> frozenset[bytes]:
    listed = workspace.answer("ls-files", "-z").split(b"\0")
    return frozenset(path for name in listed if (path := workspace.relative(name)))


def _known(document: Mindmap) -> dict[str, list[FileTouch]]:
    known: dict[str, list[FileTouch]] = {}
    for node in document.nodes.values():
        for touch in node.files:
            known.setdefault(touch.path, []).append(touch)
    return known


def _last(known: dict[str, list[FileTouch]], event: Event) -> str:
    return max((touch.timestamp for touch in known.get(shown(event.path), ())), default="")


def _touch(path: str, action: str, before: FileTouch | None) -> Touch:
    """What is written over an entry that is there: a rename stays one, and so does what somebody said of it."""
    own_words = before is not None and before.summary and not before.summary.startswith(AUTOMATIC)
    is_rename = before is not None and before.action == RENAME and action != "delete"
    return Touch(
        path,
        None if is_rename else action,
        summary=None if own_words else f"Auto-detected file {action}",
    )
