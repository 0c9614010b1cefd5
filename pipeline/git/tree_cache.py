"""Reader of git trees that caches parsed directories."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from cachetools import LRUCache

from pipeline.git.changes import SUBMODULE_MODE, TREE_MODE, is_regular
from pipeline.git.merges import TreeEntries
from pipeline.git.objects import TreeEntry, iter_tree_entries, parse_tree_entries

# Limit on directory entries cached for the next commit's diff. An entry takes about 200 bytes.
MAX_CACHED_NAMES: Final = 4_000


class TreeReader:
    """Reader of tree objects.

    `read`: returns the bytes of the tree with a raw object id; the reader does not catch its errors.
    """

    def __init__(self, read: Callable[[bytes], bytes]) -> None:
        self._read = read
        self._cache: LRUCache[bytes, TreeEntries] = LRUCache(MAX_CACHED_NAMES, getsizeof=len)

    def read_entries(self, tree: bytes) -> TreeEntries:
        """Return a directory's entries by name. `tree` is a raw object id."""
        cached_entries = self._cache.get(tree)
        if cached_entries is not None:
            return cached_entries
        entries = parse_tree_entries(self._read(tree))
        if len(entries) <= MAX_CACHED_NAMES // 2:  # a larger one would evict most of the others
            self._cache[tree] = entries
        return entries

    def find_entry(self, tree: str, path: bytes) -> TreeEntry | None:
        """Return the entry at a path, or the submodule above that path; None where there is neither."""
        entry = TreeEntry(TREE_MODE, b"", tree)
        for name in path.split(b"/"):
            if entry.mode != TREE_MODE:
                return entry if entry.mode == SUBMODULE_MODE else None
            child = self.read_entries(bytes.fromhex(entry.sha)).get(name)
            if child is None:
                return None
            mode, object_id = child
            entry = TreeEntry(int(mode, 8), entry.name + b"/" + name if entry.name else name, object_id.hex())
        return entry

    def iter_files(self, tree: str) -> Iterator[tuple[bytes, str]]:
        """Yield path and blob sha of each regular file, in the tree's order."""
        stack = [(b"", self._iter_entries(tree))]
        while stack:
            directory, entries = stack[-1]
            entry = next(entries, None)
            if entry is None:
                stack.pop()
            elif entry.mode == TREE_MODE:
                stack.append((directory + entry.name + b"/", self._iter_entries(entry.sha)))
            elif is_regular(entry.mode):
                yield directory + entry.name, entry.sha

    def _iter_entries(self, tree: str) -> Iterator[TreeEntry]:
        return iter_tree_entries(self._read(bytes.fromhex(tree)))
