"""Maps as they are sent: read and encoded once for all who ask, as long as their files stay as they are.

Unlike an agent's reading, a viewer's moves nothing aside: whoever looks on changes nothing.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from mindmap.document import DamagedMindmap, Mindmap, decode, encode
from mindmap.maps import UNREADABLE, Maps
from mindmap.mending import mended
from mindmap.progress import Summary, summary
from serve.viewer.bodies import Body
from serve.viewer.refusals import code_of
from serve.viewer.signs import Sign, sign, signs
from stores.errors import LineageError
from stores.mindmaps import FolderUnusable, NoSuchMindmap

# A dozen of the largest maps there are, or all of a person's.
KEPT_BYTES: Final = 48_000_000
# Threads that read different maps seldom wait for each other.
TURNS: Final = 16


class Problem(msgspec.Struct, frozen=True):
    """A file that cannot be shown, and why."""

    id: str
    code: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class _Read:
    """A map as it was when its file had this sign."""

    sign: Sign | None
    summary: Summary
    body: Body


class Documents:
    """The maps of a data directory, for several threads."""

    def __init__(self, folder: Path) -> None:
        self.maps = Maps(folder)
        self._turns = [threading.Lock() for _ in range(TURNS)]
        self._lock = threading.Lock()
        self._bodies: OrderedDict[str, _Read] = OrderedDict()
        self._summaries: dict[str, tuple[Sign | None, Summary | LineageError]] = {}

    def mindmap(self, mindmap_id: str) -> Mindmap:
        """A map as it stands now."""
        content = self.maps.folder.read(mindmap_id)
        try:
            return mended(decode(content, mindmap_id))
        except DamagedMindmap as error:
            raise DamagedMindmap(
                error.message,
                hint="It was left as it is. Repair the file; an agent that writes it would move it aside first.",
            ) from error

    def body(self, mindmap_id: str) -> Body:
        """A whole map, as JSON."""
        # Before the file is read: should it be replaced meanwhile, what was read counts for the sign before.
        now = sign(self.maps.path, mindmap_id)
        with self._turns[hash(mindmap_id) % TURNS]:
            kept = self._kept(mindmap_id, now)
            if kept is None:
                kept = self._read(mindmap_id, now)
                self._keep(mindmap_id, kept)
            return kept.body

    def listed(self) -> tuple[list[Summary], list[Problem]]:
        """Every map in one line, newest first, and what cannot be read."""
        found = self._signs()
        with self._lock:
            for gone in self._summaries.keys() - found.keys():
                del self._summaries[gone]
                self._bodies.pop(gone, None)
        lines = {mindmap_id: self._line(mindmap_id, now) for mindmap_id, now in found.items()}
        summaries = [line for line in lines.values() if isinstance(line, Summary)]
        problems = [
            Problem(mindmap_id, code_of(line), line.message, line.hint)
            for mindmap_id, line in sorted(lines.items())
            if isinstance(line, LineageError) and not isinstance(line, NoSuchMindmap)
        ]
        return sorted(summaries, key=lambda one: one.updated_at, reverse=True), problems

    def _signs(self) -> dict[str, Sign]:
        try:
            return signs(self.maps.path)
        except OSError as error:
            raise FolderUnusable(
                f"{self.maps.path}: {error.strerror or error}.",
                hint="Make it readable, or name another folder in MINDMAP_DATA_DIR.",
            ) from error

    def _line(self, mindmap_id: str, now: Sign) -> Summary | LineageError:
        with self._turns[hash(mindmap_id) % TURNS]:
            known = self._summaries.get(mindmap_id)
            if known is not None and known[0] == now:
                return known[1]
            line = self._summarised(mindmap_id)
            if now.settled:
                with self._lock:
                    self._summaries[mindmap_id] = now, line
            return line

    def _summarised(self, mindmap_id: str) -> Summary | LineageError:
        try:
            return summary(self.mindmap(mindmap_id))
        except (*UNREADABLE, FolderUnusable, NoSuchMindmap) as error:
            return error

    def _read(self, mindmap_id: str, now: Sign | None) -> _Read:
        document = self.mindmap(mindmap_id)
        return _Read(now, summary(document), Body.of(encode(document)))

    def _kept(self, mindmap_id: str, now: Sign | None) -> _Read | None:
        with self._lock:
            kept = self._bodies.get(mindmap_id)
            if kept is None or now is None or kept.sign != now:
                return None
            self._bodies.move_to_end(mindmap_id)
            return kept

    def _keep(self, mindmap_id: str, read: _Read) -> None:
        if read.sign is None or not read.sign.settled:
            return
        with self._lock:
            self._bodies[mindmap_id] = read
            self._bodies.move_to_end(mindmap_id)
            self._summaries[mindmap_id] = read.sign, read.summary
            size = sum(one.body.size for one in self._bodies.values())
            while size > KEPT_BYTES and len(self._bodies) > 1:
                size -= self._bodies.popitem(last=False)[1].body.size
