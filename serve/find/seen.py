"""One state of an index, as one HEAD sees it: what every question about it needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from stores import showing, snapshot, vectors
from stores.reach import Reach
from stores.showing import Connection, Diffs
from stores.snapshot import Snapshot
from stores.vectors import Texts


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """The hunks HEAD reaches, and their texts in the space they are compared in.

    `diffs` are at hand where more than one answer is expected: reading all takes little longer than a few.
    """

    snapshot: Snapshot
    texts: Texts
    diffs: Diffs | None = None

    @property
    def bytes(self) -> int:
        """About how many bytes it keeps."""
        return self.snapshot.bytes + self.texts.bytes + (self.diffs.bytes if self.diffs else 0)

    def with_diffs(self, connection: Connection) -> Seen:
        """The same with all diffs at hand."""
        return replace(self, diffs=showing.diffs(connection))


def see(connection: Connection, reach: Reach, side: Path | None = None) -> Seen:
    """Read it from an opened index, and from its side file where it is large."""
    hunks = snapshot.load(connection, reach)
    return Seen(hunks, vectors.load(connection, hunks, side=side))
