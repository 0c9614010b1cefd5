"""One state of an index, as one HEAD sees it: what every question about it needs."""

from __future__ import annotations

from dataclasses import dataclass

from stores import snapshot, vectors
from stores.reach import Reach
from stores.showing import Connection
from stores.snapshot import Snapshot
from stores.vectors import Texts


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """The hunks HEAD reaches, and their texts in the space they are compared in."""

    snapshot: Snapshot
    texts: Texts

    @property
    def bytes(self) -> int:
        """About how many bytes it keeps."""
        return self.snapshot.bytes + self.texts.bytes


def see(connection: Connection, reach: Reach) -> Seen:
    """Read it from an opened index."""
    hunks = snapshot.load(connection, reach)
    return Seen(hunks, vectors.load(connection, hunks))
