"""One state of an index, as one HEAD sees it: what every question about it needs.

What stays at hand between questions: open indexes, and what was seen of them, by the state of their files.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Final

from serve.index_status import Noted, noted
from stores import hunk_details, snapshot, vector_search
from stores.connections import Opened, Reading
from stores.database import Fingerprint
from stores.hunk_details import Connection, Diffs
from stores.index_location import Place
from stores.snapshot import Snapshot
from stores.types import Reach
from stores.vector_search import Messages, Texts


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
        return replace(self, diffs=hunk_details.diffs(connection), messages=vector_search.every(connection))


def see(connection: Connection, reach: Reach, side: Path | None = None) -> Seen:
    """Read it from an opened index, and from its side file where it is large."""
    hunks = snapshot.load(connection, reach)
    return Seen(hunks, vector_search.load(connection, hunks, side=side))


# Five indexes of 15,000 hunks take about 200 MB; beyond this, what was not asked for longest is read again.
MOST_BYTES: Final = 256_000_000


@dataclass(frozen=True, slots=True)
class State:
    """What a question sees depends on these: whose index, which of its states, and which commits HEAD reaches."""

    place: Place
    fingerprint: Fingerprint
    reach: Reach


@dataclass(frozen=True, slots=True)
class Holding:
    """What is kept of one index, over all states of it: hunks in reach, bytes, seconds since the last question."""

    place: Place
    hunks: int
    bytes: int
    idle_seconds: float


@dataclass(frozen=True, slots=True)
class Said:
    """What an index says of itself, and the languages its history has files of."""

    noted: Noted
    languages: frozenset[str]


@dataclass(slots=True)
class _Entry:
    loading: Lock = field(default_factory=Lock)
    seen: Seen | None = None
    asked: float = field(default_factory=time.monotonic)

    @property
    def bytes(self) -> int:
        return self.seen.bytes if self.seen else 0


class Kept:
    """Indexes at hand; for use by several threads."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self._turn = Lock()
        self._readings: dict[Place, Reading] = {}
        self._entries: OrderedDict[State, _Entry] = OrderedDict()
        self._said: dict[Place, tuple[Fingerprint, Said]] = {}

    @contextmanager
    def question(self, place: Place) -> Iterator[Opened]:
        """The index, open for one question; errors as those of `database.reading`."""
        with self._turn:
            reading = self._readings.setdefault(place, Reading(place))
        with reading.question() as opened:
            yield opened

    def said(self, place: Place, opened: Opened) -> Said:
        """What the index says of itself in the state that is open."""
        known = self._said.get(place)
        if known is None or known[0] != opened.fingerprint:
            said = Said(noted(opened.connection), hunk_details.languages(opened.connection))
            self._said[place] = known = opened.fingerprint, said
        return known[1]

    def see(self, state: State, connection: Connection) -> Seen:
        """What is to be seen in this state; where it is not at hand one reads it, and others wait for that."""
        entry = self._entry(state)
        with entry.loading:
            seen = entry.seen
            if seen is None:
                entry.seen = seen = see(connection, state.reach, state.place.codes)
                self._trim()
            elif seen.diffs is None:  # the second question: there will be more
                entry.seen = seen = seen.ready(connection)
                self._trim()
            return seen

    def forget(self, place: Place) -> None:
        """Keep nothing of this index."""
        with self._turn:
            self._drop(lambda state: state.place == place)
            self._said.pop(place, None)
            reading = self._readings.pop(place, None)
        if reading:
            reading.close()

    def close(self) -> None:
        """Keep nothing; what a question has in hand stays good until it ends."""
        for place in tuple(self._readings):
            self.forget(place)

    def holdings(self) -> tuple[Holding, ...]:
        """What is kept, by index, the one asked last at the end."""
        with self._turn:
            entries = [(state.place, entry) for state, entry in self._entries.items() if entry.seen]
        now = time.monotonic()
        places = dict.fromkeys(place for place, _ in reversed(entries))
        return tuple(_holding(place, entries, now) for place in reversed(places))

    def _entry(self, state: State) -> _Entry:
        with self._turn:
            # Of a file that changed, the earlier state is gone for good.
            self._drop(lambda old: old.place == state.place and old.fingerprint != state.fingerprint)
            entry = self._entries.setdefault(state, _Entry())
            entry.asked = time.monotonic()
            self._entries.move_to_end(state)
            return entry

    def _trim(self) -> None:
        """Forget what was not asked for longest, until the rest is light enough; the newest always stays."""
        with self._turn:
            while len(self._entries) > 1 and self._weight() > self.most_bytes:
                self._entries.popitem(last=False)

    def _weight(self) -> int:
        return sum(entry.bytes for entry in self._entries.values())

    def _drop(self, gone: Callable[[State], bool]) -> None:
        for state in [state for state in self._entries if gone(state)]:
            del self._entries[state]


def _holding(place: Place, entries: list[tuple[Place, _Entry]], now: float) -> Holding:
    own = [(entry, entry.seen) for owner, entry in entries if owner == place]
    return Holding(
        place,
        hunks=max(len(seen.snapshot.hunks) for _, seen in own if seen),
        bytes=sum(entry.bytes for entry, _ in own),
        idle_seconds=now - max(entry.asked for entry, _ in own),
    )
