"""One state of an index, as one HEAD sees it: what every question about it needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from stores import messages, showing, snapshot, vectors
from stores.messages import Messages
from stores.reach import Reach
from stores.showing import Connection, Diffs
from stores.snapshot import Snapshot
from stores.vectors import Texts


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """The hunks HEAD reaches, and their texts in the space they are compared in.

    `diffs` and `messages` are at hand where more than one answer is expected: reading all takes little longer than
    a few.
    """

    snapshot: Snapshot
    texts: Texts
    diffs: Diffs | None = None
    messages: Messages | None = None

    @property
    def bytes(self) -> int:
        """About how many bytes it keeps."""
        kept = (self.snapshot, self.texts, self.diffs, self.messages)
        return sum(part.bytes for part in kept if part is not None)

    def ready(self, connection: Connection) -> Seen:
        """The same with all diffs and messages at hand."""
        return replace(self, diffs=showing.diffs(connection), messages=messages.every(connection))


def see(connection: Connection, reach: Reach, side: Path | None = None) -> Seen:
    """Read it from an opened index, and from its side file where it is large."""
    hunks = snapshot.load(connection, reach)
    return Seen(hunks, vectors.load(connection, hunks, side=side))
