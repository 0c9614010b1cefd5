"""Maps that another program or a person's editor left at odds with themselves, put right without losing a node.

Edits rely on it: every node but the root has one parent, which lists it once; links join nodes that are there.

The maps of a data directory: made, read, changed, listed, deleted; the only file here that opens the store.

A damaged file is reported, and neither overwritten nor fatal to its neighbours. To look at it is no change: readers
pass over it and leave it where it is. Whoever would write it moves it out of the way, unchanged, since the next might
overwrite it; from then on readers tell where it is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from msgspec.structs import replace

from mindmap.document import ROOT, DamagedMindmap, Edited, ForeignMindmap, Mindmap, Node, decode, encode
from mindmap.tree import Summary, summary
from stores.errors import LineageError
from stores.mindmap_files import Folder, FolderUnusable, Held, MindmapTooLarge, NoSuchMindmap, NotAPlainFile


def mended(document: Mindmap) -> Mindmap:
    """The document, put right where that is needed.

    A node that nothing lists goes where it says it belongs, or else under the root; of several that list a node
    the first keeps it; a child or a link's end that is not there is dropped.
    """
    if _is_sound(document):
        return document
    nodes = {node_id: replace(node, id=node_id) for node_id, node in document.nodes.items()}
    nodes.setdefault(ROOT, Node(id=ROOT, label=document.title, type=ROOT))
    parents = _parents(nodes)
    children: dict[str, list[str]] = {node_id: [] for node_id in nodes}
    for node_id, parent in parents.items():
        children[parent].append(node_id)
    made = {
        node_id: replace(node, parent=parents.get(node_id), children=tuple(children[node_id]))
        for node_id, node in nodes.items()
    }
    links = tuple(link for link in document.links if link.source in made and link.target in made)
    return replace(document, nodes=made, links=links)


def _is_sound(document: Mindmap) -> bool:
    nodes = document.nodes
    root = nodes.get(ROOT)
    if root is None or root.parent is not None or root.id != ROOT:
        return False
    reached, waiting = {ROOT}, [root]
    while waiting:
        node = waiting.pop()
        for child_id in node.children:
            child = nodes.get(child_id)
            if child is None or child_id in reached or child.parent != node.id or child.id != child_id:
                return False
            reached.add(child_id)
            waiting.append(child)
    return len(reached) == len(nodes) and all(
        link.source in nodes and link.target in nodes for link in document.links
    )


def _parents(nodes: Mapping[str, Node]) -> dict[str, str]:
    """The parent of every node but the root, in an order that keeps that of the children."""
    parents: dict[str, str] = {}
    _adopt(nodes, ROOT, parents)
    for node_id in nodes:
        _find_home(nodes, _lost_from(nodes, node_id, parents), parents)
    return parents


def _find_home(nodes: Mapping[str, Node], lost: list[str], parents: dict[str, str]) -> None:
    """Put each lost node under the one before, if that is what it says; the first goes under the root."""
    places = {node_id: place for place, node_id in enumerate(lost)}
    place = 0
    while place < len(lost):
        stated = nodes[lost[place]].parent
        parents[lost[place]] = (
            stated if stated is not None and (stated == ROOT or stated in parents) else ROOT
        )
        # Whatever says that it is under one that is found now comes next; what stands in between keeps for later.
        found = _adopt(nodes, lost[place], parents)
        place = 1 + max([place, *(places[child] for child in found if child in places)])


def _adopt(nodes: Mapping[str, Node], start: str, parents: dict[str, str]) -> list[str]:
    """Give every node that is listed from here on to the first that lists it; which these are."""
    waiting, found = [start], []
    while waiting:
        parent = waiting.pop()
        for child in nodes[parent].children:
            if child in nodes and child not in parents and child != ROOT:
                parents[child] = parent
                waiting.append(child)
                found.append(child)
    return found


def _lost_from(nodes: Mapping[str, Node], node_id: str, parents: Mapping[str, str]) -> list[str]:
    """The lost nodes above this one and itself, the highest first; of a circle, all."""
    above: dict[str, None] = {}
    lost: str | None = node_id
    while lost is not None and lost != ROOT and lost in nodes and lost not in parents and lost not in above:
        above[lost] = None
        lost = nodes[lost].parent
    return list(above)[::-1]


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
