"""Store of the maps in a data directory: create, read, change, list, delete, and repair inconsistent documents.

Readers report a damaged file and leave it in place. Writers move it aside, unchanged, so that nothing overwrites it;
readers then report where it is.

Reading repairs documents that another program or an editor left inconsistent, without losing a node. Edits rely on it:
every node except the root has one parent, which lists it once, and both ends of every link exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from msgspec.structs import replace

from mindmap.document import ROOT, DamagedMindmap, EditResult, ForeignMindmap, Mindmap, Node, decode, encode
from mindmap.tree import Summary, summarize
from stores.errors import LineageError
from stores.mindmap_files import (
    FolderUnusable,
    LockedMindmap,
    MindmapDirectory,
    MindmapTooLarge,
    NoSuchMindmap,
    NotAPlainFile,
)


def repair(document: Mindmap) -> Mindmap:
    """Return the document with a consistent tree and links; the same object if it is consistent.

    A node that no node lists moves under the parent it states, or else under the root. A node that several nodes list
    stays with the first. Missing children and links with a missing end are dropped.
    """
    if _is_consistent(document):
        return document
    nodes = {node_id: replace(node, id=node_id) for node_id, node in document.nodes.items()}
    nodes.setdefault(ROOT, Node(id=ROOT, label=document.title, type=ROOT))
    parents = _assign_parents(nodes)
    children: dict[str, list[str]] = {node_id: [] for node_id in nodes}
    for node_id, parent in parents.items():
        children[parent].append(node_id)
    repaired = {
        node_id: replace(node, parent=parents.get(node_id), children=tuple(children[node_id]))
        for node_id, node in nodes.items()
    }
    links = tuple(link for link in document.links if link.source in repaired and link.target in repaired)
    return replace(document, nodes=repaired, links=links)


def _is_consistent(document: Mindmap) -> bool:
    nodes = document.nodes
    root = nodes.get(ROOT)
    if root is None or root.parent is not None or root.id != ROOT:
        return False
    reached, stack = {ROOT}, [root]
    while stack:
        node = stack.pop()
        for child_id in node.children:
            child = nodes.get(child_id)
            if child is None or child_id in reached or child.parent != node.id or child.id != child_id:
                return False
            reached.add(child_id)
            stack.append(child)
    return len(reached) == len(nodes) and all(
        link.source in nodes and link.target in nodes for link in document.links
    )


def _assign_parents(nodes: Mapping[str, Node]) -> dict[str, str]:
    """Return the parent of every node except the root, in an order that preserves the order of children."""
    parents: dict[str, str] = {}
    _claim_children(nodes, ROOT, parents)
    for node_id in nodes:
        _place_orphans(nodes, _orphan_chain(nodes, node_id, parents), parents)
    return parents


def _place_orphans(nodes: Mapping[str, Node], orphans: list[str], parents: dict[str, str]) -> None:
    """Put each orphan under the parent it states if that has a place already, or else under the root."""
    positions = {node_id: position for position, node_id in enumerate(orphans)}
    position = 0
    while position < len(orphans):
        stated = nodes[orphans[position]].parent
        parents[orphans[position]] = (
            stated if stated is not None and (stated == ROOT or stated in parents) else ROOT
        )
        # Continue after the last orphan that this one claimed; those between are reached by a later call.
        claimed = _claim_children(nodes, orphans[position], parents)
        position = 1 + max([position, *(positions[child] for child in claimed if child in positions)])


def _claim_children(nodes: Mapping[str, Node], start_id: str, parents: dict[str, str]) -> list[str]:
    """Assign every node listed below `start_id` to the first node that lists it. Returns the assigned ids."""
    stack, claimed = [start_id], []
    while stack:
        parent = stack.pop()
        for child in nodes[parent].children:
            if child in nodes and child not in parents and child != ROOT:
                parents[child] = parent
                stack.append(child)
                claimed.append(child)
    return claimed


def _orphan_chain(nodes: Mapping[str, Node], node_id: str, parents: Mapping[str, str]) -> list[str]:
    """Return a node and its stated ancestors that have no place yet, topmost first; all nodes of a cycle."""
    chain: dict[str, None] = {}
    orphan: str | None = node_id
    while (
        orphan is not None
        and orphan != ROOT
        and orphan in nodes
        and orphan not in parents
        and orphan not in chain
    ):
        chain[orphan] = None
        orphan = nodes[orphan].parent
    return list(chain)[::-1]


Result = TypeVar("Result", bound=EditResult | None)

# Errors of a single file that do not affect the other maps.
UNREADABLE_ERRORS = (DamagedMindmap, ForeignMindmap, MindmapTooLarge, NotAPlainFile)
# A longer list of problems is cut.
MAX_PROBLEMS: Final = 10


@dataclass(frozen=True, slots=True)
class MapList:
    """Summaries of the maps in a data directory, newest first, and messages about unreadable files."""

    summaries: list[Summary]
    problems: list[str]


@dataclass(frozen=True, slots=True)
class MapStore:
    """Store of the maps in one directory. Holds no state, since several processes write the same directory."""

    path: Path

    @property
    def directory(self) -> MindmapDirectory:
        """The map files."""
        return MindmapDirectory(self.path)

    def create(self, document: Mindmap) -> None:
        """Write a new map."""
        self.directory.create(document.id, encode(document))

    def read(self, mindmap_id: str) -> Mindmap:
        """Read a map from disk, repaired if needed."""
        try:
            return repair(decode(self.directory.read(mindmap_id), mindmap_id))
        except DamagedMindmap as error:
            raise DamagedMindmap(
                error.message,
                hint="The file was not changed. Repair it, or delete the map. The next write moves it aside.",
            ) from error

    def change(self, mindmap_id: str, edit: Callable[[Mindmap], Result]) -> tuple[Mindmap, Result]:
        """Apply an edit to a map under its lock. Returns the map afterwards and the result of the edit.

        The edit receives the map as it is on disk. If it returns None, nothing is written.
        """
        with self.directory.lock(mindmap_id) as locked:
            document = _decode_locked(locked)
            result = edit(document)
            if result is None:
                return document, result
            locked.replace(encode(result.document))
            return result.document, result

    def delete(self, mindmap_id: str) -> None:
        """Delete a map, even a damaged one."""
        self.directory.remove(mindmap_id)

    def read_all(self) -> Iterator[Mindmap | LineageError]:
        """Yield every map, the last written first; for an unreadable file, its error."""
        for mindmap_id in self.directory.list_ids():
            try:
                yield self.read(mindmap_id)
            except NoSuchMindmap:  # deleted since the directory was listed
                continue
            except (*UNREADABLE_ERRORS, FolderUnusable) as error:
                yield error

    def read_latest(self) -> Mindmap:
        """Return the map with the latest change."""
        documents = [document for document in self.read_all() if isinstance(document, Mindmap)]
        if not documents:
            raise NoSuchMindmap(f"There is no mindmap in {self.path} yet.", hint="Agents create them.")
        return max(documents, key=lambda document: document.updated_at)

    def list_maps(self, predicate: Callable[[Mindmap], bool] = lambda _: True) -> MapList:
        """Return the summaries of the maps that match the predicate, and all problems."""
        quarantined = [_quarantine_problem(*entry) for entry in self.directory.list_quarantined()]
        summaries: list[Summary] = []
        problems: list[str] = []
        for document in self.read_all():
            if isinstance(document, LineageError):
                problems.append(str(document))
            elif predicate(document):
                summaries.append(summarize(document))
        summaries.sort(key=lambda summary: summary.updated_at, reverse=True)
        return MapList(summaries, _limit_problems([*problems, *quarantined]))


def _quarantine_problem(mindmap_id: str, file: Path) -> str:
    return f"{mindmap_id} was damaged and is kept in {file}.\n  Repair it and name it {mindmap_id}.json, or delete it."


def _limit_problems(problems: list[str]) -> list[str]:
    more = len(problems) - MAX_PROBLEMS
    return problems if more <= 0 else [*problems[:MAX_PROBLEMS], f"And {more:,} more."]


def _decode_locked(locked: LockedMindmap) -> Mindmap:
    """Decode a locked map; move a damaged file aside, so that the next write does not overwrite it."""
    try:
        return repair(decode(locked.content, locked.mindmap_id))
    except DamagedMindmap as error:
        quarantined = locked.quarantine()
        raise DamagedMindmap(
            error.message,
            hint=f"The file was moved, unchanged, to {quarantined}. Repair it and rename it back, or create a new map.",
        ) from error
