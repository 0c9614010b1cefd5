"""Store of the mindmaps (short: maps) in a data directory: create, read, change, list, delete and repair them.

A document is a map in memory. Reading a damaged file raises an error and leaves the file in place. Changing the map
renames the file to `ID.json.damaged-TIME` (quarantine), so that nothing overwrites it. `list_maps` reports the new
path.

Reading repairs maps that another program or an editor left inconsistent, without losing a node. Edits expect a
consistent document: every node except the root has one parent, which lists it once, and both ends of every link exist.
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
    """Return the document with a consistent tree and links; the document itself if it is consistent already.

    A document has the tree twice: each node has the ids of its `children` and of its `parent`. Where they differ,
    `children` is used. A node in no `children` list moves under its `parent` if that exists, else under the root. A
    node in several lists stays in the first. Ids of missing children, and links with a missing end, are removed.
    """
    if _is_consistent(document):
        return document
    nodes = {node_id: replace(node, id=node_id) for node_id, node in document.nodes.items()}
    nodes.setdefault(ROOT, Node(id=ROOT, label=document.title, type=ROOT))
    parents = _assign_parents(nodes)
    children: dict[str, list[str]] = {node_id: [] for node_id in nodes}
    for node_id, parent in parents.items():
        children[parent].append(node_id)
    repaired_nodes = {
        node_id: replace(node, parent=parents.get(node_id), children=tuple(children[node_id]))
        for node_id, node in nodes.items()
    }
    links = tuple(
        link for link in document.links if link.source in repaired_nodes and link.target in repaired_nodes
    )
    return replace(document, nodes=repaired_nodes, links=links)


def _is_consistent(document: Mindmap) -> bool:
    nodes = document.nodes
    root = nodes.get(ROOT)
    if root is None or root.parent is not None or root.id != ROOT:
        return False
    reached_ids, stack = {ROOT}, [root]
    while stack:
        node = stack.pop()
        for child_id in node.children:
            child = nodes.get(child_id)
            if child is None or child_id in reached_ids or child.parent != node.id or child.id != child_id:
                return False
            reached_ids.add(child_id)
            stack.append(child)
    return len(reached_ids) == len(nodes) and all(
        link.source in nodes and link.target in nodes for link in document.links
    )


def _assign_parents(nodes: Mapping[str, Node]) -> dict[str, str]:
    """Return the parent of every node except the root. The dict has siblings in the order of `children`."""
    parents: dict[str, str] = {}
    _assign_descendants(nodes, ROOT, parents)
    for node_id in nodes:
        _assign_orphans(nodes, _list_orphan_chain(nodes, node_id, parents), parents)
    return parents


def _assign_orphans(nodes: Mapping[str, Node], orphans: list[str], parents: dict[str, str]) -> None:
    """Put orphans, with the nodes below them, under their `parent` if it is in the tree, else under the root.

    An orphan is a node that no `children` list connects to the root. `orphans` has parents before children. `parents`
    maps each node in the tree, except the root, to its parent; the nodes that are put into the tree are added to it.
    """
    for orphan in orphans:
        if orphan in parents:
            continue
        parent = nodes[orphan].parent
        parents[orphan] = parent if parent is not None and parent in parents else ROOT
        _assign_descendants(nodes, orphan, parents)


def _assign_descendants(nodes: Mapping[str, Node], start_id: str, parents: dict[str, str]) -> None:
    """Add the nodes below `start_id` by the `children` lists to `parents`, except the nodes that it has already."""
    stack = [start_id]
    while stack:
        parent = stack.pop()
        unassigned_children = [
            child
            for child in dict.fromkeys(nodes[parent].children)
            if child in nodes and child not in parents and child != ROOT
        ]
        parents.update(dict.fromkeys(unassigned_children, parent))
        stack.extend(reversed(unassigned_children))


def _list_orphan_chain(nodes: Mapping[str, Node], node_id: str, parents: Mapping[str, str]) -> list[str]:
    """Return a node and the nodes above it by `parent` that are not in the tree, topmost first.

    The list ends below a node that is in the tree, below a missing parent, or before a node would repeat (a cycle). It
    is empty if `node_id` is in the tree.
    """
    orphans: dict[str, None] = {}
    orphan: str | None = node_id
    while (
        orphan is not None
        and orphan != ROOT
        and orphan in nodes
        and orphan not in parents
        and orphan not in orphans
    ):
        orphans[orphan] = None
        orphan = nodes[orphan].parent
    return list(orphans)[::-1]


Result = TypeVar("Result", bound=EditResult | None)

# Errors of a single map file that cannot be read. Other maps can still be read.
UNREADABLE_ERRORS = (DamagedMindmap, ForeignMindmap, MindmapTooLarge, NotAPlainFile)
# Maximum number of messages about unreadable or quarantined files in a list. Each costs an agent tokens.
MAX_PROBLEMS: Final = 10


@dataclass(frozen=True, slots=True)
class MapList:
    """Summaries of maps, last updated first, and messages about unreadable or quarantined files."""

    summaries: list[Summary]
    problems: list[str]


@dataclass(frozen=True, slots=True)
class MapStore:
    """Store of the maps in one directory. It caches nothing, since several processes write the same directory."""

    path: Path

    @property
    def directory(self) -> MindmapDirectory:
        """Directory of the map files, which reads and writes them as bytes."""
        return MindmapDirectory(self.path)

    def create(self, document: Mindmap) -> None:
        """Write a new map."""
        self.directory.create(document.id, encode(document))

    def read(self, mindmap_id: str) -> Mindmap:
        """Return a map as it is on disk, repaired if needed.

        Raises NoSuchMindmap, one of UNREADABLE_ERRORS, or FolderUnusable.
        """
        try:
            return repair(decode(self.directory.read(mindmap_id), mindmap_id))
        except DamagedMindmap as error:
            raise DamagedMindmap(
                error.message,
                hint="The file was not changed. Repair it, or delete the map. "
                f"The next edit of the map renames the file to {mindmap_id}.json.damaged-TIME.",
            ) from error

    def change(self, mindmap_id: str, edit: Callable[[Mindmap], Result]) -> tuple[Mindmap, Result]:
        """Apply an edit to a map under its lock. Returns the map after the edit, and the edit's result.

        The edit receives the map as it is on disk, repaired if needed. If it returns None, nothing is written.
        """
        with self.directory.lock(mindmap_id) as locked_map:
            document = _decode_locked(locked_map)
            result = edit(document)
            if result is None:
                return document, result
            locked_map.replace(encode(result.document))
            return result.document, result

    def delete(self, mindmap_id: str) -> None:
        """Delete a map, even a damaged one."""
        self.directory.remove(mindmap_id)

    def read_all(self) -> Iterator[Mindmap | LineageError]:
        """Yield every map, the last written first; for a file that cannot be read, yield the error."""
        for mindmap_id in self.directory.list_ids():
            try:
                yield self.read(mindmap_id)
            except NoSuchMindmap:  # deleted since the directory was listed
                continue
            except (*UNREADABLE_ERRORS, FolderUnusable) as error:
                yield error

    def read_latest(self) -> Mindmap:
        """Return the map with the latest `updated_at`. Raises NoSuchMindmap if no map can be read."""
        documents = [document for document in self.read_all() if isinstance(document, Mindmap)]
        if documents:
            return max(documents, key=lambda document: document.updated_at)
        if problems := self.list_maps().problems:
            raise NoSuchMindmap(f"No mindmap in {self.path} can be read.", hint="\n  ".join(problems))
        raise NoSuchMindmap(
            f"There is no mindmap in {self.path} yet.", hint="Ask your coding agent to create one."
        )

    def list_maps(self, predicate: Callable[[Mindmap], bool] = lambda _: True) -> MapList:
        """Return summaries of the maps that match the predicate, and messages about unreadable or quarantined files.

        At most MAX_PROBLEMS messages are returned, followed by a message with the number of omitted ones, if any.
        """
        quarantine_problems = [
            _format_quarantine_problem(*entry) for entry in self.directory.list_quarantined()
        ]
        summaries: list[Summary] = []
        problems: list[str] = []
        for result in self.read_all():
            if isinstance(result, LineageError):
                problems.append(str(result))
            elif predicate(result):
                summaries.append(summarize(result))
        summaries.sort(key=lambda summary: summary.updated_at, reverse=True)
        return MapList(summaries, _limit_problems([*problems, *quarantine_problems]))


def _format_quarantine_problem(mindmap_id: str, file: Path) -> str:
    return (
        f"{mindmap_id} was damaged. Its file was renamed to {file}.\n"
        f"  Repair the file and rename it to {mindmap_id}.json, or delete it."
    )


def _limit_problems(problems: list[str]) -> list[str]:
    omitted_count = len(problems) - MAX_PROBLEMS
    return problems if omitted_count <= 0 else [*problems[:MAX_PROBLEMS], f"And {omitted_count:,} more."]


def _decode_locked(locked_map: LockedMindmap) -> Mindmap:
    """Decode a locked map. If the file is damaged, rename it, so that no write replaces it; raise DamagedMindmap."""
    try:
        return repair(decode(locked_map.content, locked_map.mindmap_id))
    except DamagedMindmap as error:
        quarantine_file = locked_map.quarantine()
        raise DamagedMindmap(
            error.message,
            hint=f"The file was renamed, unchanged, to {quarantine_file}. "
            f"Repair it and rename it to {locked_map.mindmap_id}.json, or create a new map.",
        ) from error
