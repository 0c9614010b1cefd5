"""The maps of a data directory: made, read, changed, listed, deleted; the only file here that opens the store.

A damaged file is reported, and neither overwritten nor fatal to its neighbours. To look at it is no change: readers
pass over it and leave it where it is. Whoever would write it moves it out of the way, unchanged, since the next might
overwrite it; from then on readers tell where it is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from mindmap.activity import Edited
from mindmap.document import DamagedMindmap, ForeignMindmap, Mindmap, decode, encode
from mindmap.mending import mended
from mindmap.progress import Summary, summary
from stores.errors import LineageError
from stores.mindmaps import (
    Folder,
    FolderUnusable,
    Held,
    MindmapTooLarge,
    NoSuchMindmap,
    NotAPlainFile,
)

Done = TypeVar("Done", bound=Edited | None)

# What one file of a folder may be without the others suffering from it.
UNREADABLE = (DamagedMindmap, ForeignMindmap, MindmapTooLarge, NotAPlainFile)
# Of a list: whoever sees this many looks into the folder.
MOST_PROBLEMS: Final = 10


@dataclass(frozen=True, slots=True)
class Listed:
    """What a data directory holds: maps in one line each, newest first, and what could not be read and why."""

    summaries: list[Summary]
    problems: list[str]


@dataclass(frozen=True, slots=True)
class Maps:
    """The maps in one folder. Nothing of them is kept here: several processes write the same folder."""

    path: Path

    @property
    def folder(self) -> Folder:
        """The files."""
        return Folder(self.path)

    def create(self, document: Mindmap) -> None:
        """Write a new map."""
        self.folder.create(document.id, encode(document))

    def read(self, mindmap_id: str) -> Mindmap:
        """A map as it stands now."""
        try:
            return mended(decode(self.folder.read(mindmap_id), mindmap_id))
        except DamagedMindmap as error:
            raise DamagedMindmap(
                error.message,
                hint="It was left as it is. Repair the file, or delete the map; "
                "whoever writes to it moves it out of the way first.",
            ) from error

    def change(self, mindmap_id: str, edit: Callable[[Mindmap], Done]) -> tuple[Mindmap, Done]:
        """The map after the edit, and what the edit says of itself; nothing is written where that is None.

        The edit is given the map as it is on disk, and nobody else changes it meanwhile.
        """
        with self.folder.changing(mindmap_id) as held:
            document = _decoded(held)
            done = edit(document)
            if done is None:
                return document, done
            held.replace(encode(done.document))
            return done.document, done

    def delete(self, mindmap_id: str) -> None:
        """Delete a map, whatever is in its file."""
        self.folder.remove(mindmap_id)

    def all(self) -> Iterator[Mindmap | LineageError]:
        """Every map, the latest written first; for a file that cannot be read, why."""
        for mindmap_id in self.folder.ids():
            try:
                yield self.read(mindmap_id)
            except NoSuchMindmap:  # deleted since the folder was read
                continue
            except (*UNREADABLE, FolderUnusable) as error:
                yield error

    def latest(self) -> Mindmap:
        """The map changed last."""
        found = [document for document in self.all() if isinstance(document, Mindmap)]
        if not found:
            raise NoSuchMindmap(f"There is no mindmap in {self.path} yet.", hint="Agents make them.")
        return max(found, key=lambda document: document.updated_at)

    def listed(self, wanted: Callable[[Mindmap], bool] = lambda _: True) -> Listed:
        """Those that are wanted, in one line each."""
        summaries: list[Summary] = []
        problems: list[str] = []
        aside = [_aside(mindmap_id, file) for mindmap_id, file in self.folder.aside()]
        for found in self.all():
            if isinstance(found, LineageError):
                problems.append(str(found))
            elif wanted(found):
                summaries.append(summary(found))
        return Listed(
            sorted(summaries, key=lambda one: one.updated_at, reverse=True), _first([*problems, *aside])
        )


def _aside(mindmap_id: str, file: Path) -> str:
    return f"{mindmap_id} was damaged and is kept in {file}.\n  Repair it and name it {mindmap_id}.json, or delete it."


def _first(problems: list[str]) -> list[str]:
    more = len(problems) - MOST_PROBLEMS
    return problems if more <= 0 else [*problems[:MOST_PROBLEMS], f"And {more:,} more."]


def _decoded(held: Held) -> Mindmap:
    try:
        return mended(decode(held.content, held.mindmap_id))
    except DamagedMindmap as error:
        aside = held.set_aside()
        raise DamagedMindmap(
            error.message,
            hint=f"Nothing of it was changed: it is now {aside}. Repair it and name it as before, or make a new map.",
        ) from error
