"""Git attributes of paths: from the work tree, from HEAD, and from the files of this clone and the user.

libgit2 waits forever for a pipe in place of an attributes file, and takes time that is exponential in the number of `*`
of a pattern. Paths that such a file applies to have no attributes here, and neither have paths of more than MAX_LEVELS
directories.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

import pygit2
from cachetools import LRUCache
from pygit2.enums import AttrCheck

from pipeline.git.changes import decode_path, list_parent_directories
from pipeline.git.git_dir import MAX_TEXT_BYTES, blocks_git, read_or_empty

FILE_NAME: Final = ".gitattributes"
STARS: Final = re.compile(rb"\*+")
# libgit2 and git match a pattern in time that grows with the length of a name to the power of its number of `*`, and
# with the depth of the path to the power of its number of `**`. The patterns of 75 repositories have at most two.
MAX_STARS: Final = 3
# Each of the files that can apply to a path is looked up from the root, which took 9 s at 2,500 levels. git itself
# reads at most 2,048 levels.
MAX_LEVELS: Final = 1_000
# Paths and directories whose attributes are cached; each costs about 150 bytes.
MAX_CACHED_PATHS: Final = 4_000


class AttributeReader:
    """Reader of the attributes of paths in one repository.

    `root`: the work tree. `local_files`: `info/attributes` of the clone and the user's attributes file.
    `read_at_head`: function that returns the content of a file at HEAD, or None.
    """

    def __init__(
        self,
        git: pygit2.Repository,
        root: Path,
        local_files: Sequence[Path],
        read_at_head: Callable[[str], bytes | None],
    ) -> None:
        self._git = git
        self._root = root
        self._local_files = local_files
        self._read_at_head = read_at_head
        self._usable_directories: LRUCache[str, bool] = LRUCache(MAX_CACHED_PATHS)
        self._usable_files: LRUCache[str, bool] = LRUCache(MAX_CACHED_PATHS)
        self._diff_paths: LRUCache[bytes, str] = LRUCache(MAX_CACHED_PATHS)

    def get(self, path: str | bytes, name: str) -> bool | str | None:
        """Return an attribute of a path.

        True if set, False if unset, a string if it has a value; None if no file specifies it or a file is unusable.
        """
        if not self._is_usable(path if isinstance(path, str) else decode_path(path)):
            return None
        try:
            return self._git.get_attr(path, name, flags=AttrCheck.INCLUDE_HEAD | AttrCheck.NO_SYSTEM)
        except (pygit2.GitError, KeyError, ValueError):  # an attributes file cannot be read
            return None

    def find_diff_path(self, path: bytes) -> str:
        """Return the path to give libgit2 for a diff of the file; empty if the file has no `diff` attribute.

        An empty path saves time: libgit2 looks up the attributes of any other path at every diff, with system calls for
        each directory.
        """
        diff_path = self._diff_paths.get(path)
        if diff_path is None:
            name = decode_path(path)
            # With the flags of libgit2's own lookup in a diff.
            has_attribute = self._is_usable(name) and self._git.get_attr(name, "diff") is not None
            self._diff_paths[path] = diff_path = name if has_attribute else ""
        return diff_path

    def read_local_files(self) -> list[bytes]:
        """Return the content of the attributes files of this clone and of the user."""
        return [read_or_empty(file, MAX_TEXT_BYTES) for file in self._local_files]

    @cached_property
    def _has_usable_local_files(self) -> bool:
        return not any(map(_is_unusable, self._local_files))

    def _is_usable(self, path: str) -> bool:
        """Return whether all attributes files that apply to the path are usable, and few enough to look up."""
        directory = path.rpartition("/")[0]
        is_usable = self._usable_directories.get(directory)
        if is_usable is None:
            parents = ["", *list_parent_directories(path)]
            is_shallow = directory.count("/") < MAX_LEVELS
            is_usable = (
                is_shallow and self._has_usable_local_files and all(map(self._has_usable_file, parents))
            )
            self._usable_directories[directory] = is_usable
        return is_usable

    def _has_usable_file(self, directory: str) -> bool:
        """Return whether the directory's attributes files, in the work tree and at HEAD, are usable or missing."""
        is_usable = self._usable_files.get(directory)
        if is_usable is None:
            # In an ASCII locale Python cannot encode other letters, so decode the UTF-8 bytes as a file name.
            name = os.fsdecode(f"{directory}/{FILE_NAME}".lstrip("/").encode())
            is_usable = not (
                _is_unusable(self._root / name) or _has_slow_pattern(self._read_at_head(name) or b"")
            )
            self._usable_files[directory] = is_usable
        return is_usable


def _is_unusable(file: Path) -> bool:
    """Return whether libgit2 may hang while reading or matching an attributes file."""
    return blocks_git(file) or _has_slow_pattern(read_or_empty(file))


def _has_slow_pattern(attributes: bytes) -> bool:
    # Where a pattern ends depends on spaces, quotes and prefixes, which git and libgit2 read differently. So the `*` of
    # values count, too. A backslash continues a pattern on the next line.
    lines = attributes.replace(b"\\\n", b"").split(b"\n")
    return any(
        len(STARS.findall(line)) > MAX_STARS for line in lines if not line.lstrip(b" \t").startswith(b"#")
    )
