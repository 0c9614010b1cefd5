"""What was read last, within a bound on its size; pure.

The folders of commits: read, kept for the next commit, looked through.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

from pipeline.git.changes import SUBMODULE_MODE, TREE_MODE, regular
from pipeline.git.merges import Entries
from pipeline.git.objects import TreeEntry, entries_of, parse_tree

Key = TypeVar("Key")
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """Values by key; beyond the bound on the sum of their sizes, those longest unused are forgotten."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._kept: OrderedDict[Key, tuple[Value, int]] = OrderedDict()

    def get(self, key: Key) -> Value | None:
        """The value, when it is still kept."""
        found = self._kept.get(key)
        if found is None:
            return None
        self._kept.move_to_end(key)
        return found[0]

    def keep(self, key: Key, value: Value, size: int) -> None:
        """Keep a value that is not kept; not one that would drive out all others."""
        if size > self._limit // 2:
            return
        self._kept[key] = (value, size)
        self._size += size
        while self._size > self._limit:
            self._size -= self._kept.popitem(last=False)[1][1]


# Names in directories kept for the next commit, which is compared with this one; each costs about 200 bytes.
KEPT_NAMES: Final = 4_000


class Folders:
    """Reads trees by `read`, which takes a raw object id and gives the tree's bytes, or raises what it raises."""

    def __init__(self, read: Callable[[bytes], bytes]) -> None:
        self._read = read
        self._kept = Recent[bytes, Entries](KEPT_NAMES)

    def entries(self, tree: bytes) -> Entries:
        """What a folder holds, by name; those read last are kept."""
        kept = self._kept.get(tree)
        if kept is not None:
            return kept
        entries = entries_of(self._read(tree))
        self._kept.keep(tree, entries, len(entries))
        return entries

    def at(self, tree: str, path: bytes) -> TreeEntry | None:
        """What lies at a path, or the submodule on the way there; None where there is neither."""
        entry = TreeEntry(TREE_MODE, b"", tree)
        for name in path.split(b"/"):
            if entry.mode != TREE_MODE:
                return entry if entry.mode == SUBMODULE_MODE else None
            found = self.entries(bytes.fromhex(entry.sha)).get(name)
            if found is None:
                return None
            mode, raw = found
            entry = TreeEntry(int(mode, 8), entry.name + b"/" + name if entry.name else name, raw.hex())
        return entry

    def files(self, tree: str) -> Iterator[tuple[bytes, str]]:
        """Path and blob of each regular file, in the order of the tree."""
        folders = [(b"", self._listed(tree))]
        while folders:
            folder, entries = folders[-1]
            entry = next(entries, None)
            if entry is None:
                folders.pop()
            elif entry.mode == TREE_MODE:
                folders.append((folder + entry.name + b"/", self._listed(entry.sha)))
            elif regular(entry.mode):
                yield folder + entry.name, entry.sha

    def _listed(self, tree: str) -> Iterator[TreeEntry]:
        return parse_tree(self._read(bytes.fromhex(tree)))
