"""Git attributes of paths, by the attributes files in the work tree, at HEAD, in the git directory and of the user.

libgit2 waits forever for a pipe in place of an attributes file, and takes time that is exponential in the number of `*`
of a pattern. Such files are unusable here, and a path that one of them applies to has no attributes. Neither has a path
with more than MAX_LEVELS directories.
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
# A run of `*`.
STARS: Final = re.compile(rb"\*+")
# Most runs of `*` in a pattern. Matching takes time L ** N for N times `*` and a name of length L, and for N times `**`
# and a path of L levels. The patterns of 75 repositories have at most two.
MAX_STARS: Final = 3
# Most directories of a path. The attributes file of each is looked up from the root, which took 9 s at 2,500 levels.
# git itself reads at most 2,048 levels.
MAX_LEVELS: Final = 1_000
# Most entries of each cache. An entry takes about 150 bytes.
MAX_CACHED_PATHS: Final = 4_000


class AttributeReader:
    """Reader of the attributes of paths in one repository.

    `root`: the work tree. `local_files`: attributes files of the git directory and of the user.
    `read_at_head`: returns the content of the file with a path at HEAD; None if there is no such file.
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
        """Return an attribute of a path: True if set, False if unset, a string if it has a value.

        None if no attributes file specifies it, or if one that applies to the path is unusable.
        """
        if not self._is_usable(path if isinstance(path, str) else decode_path(path)):
            return None
        try:
            return self._git.get_attr(path, name, flags=AttrCheck.INCLUDE_HEAD | AttrCheck.NO_SYSTEM)
        except (pygit2.GitError, KeyError, ValueError):  # an attributes file cannot be read
            return None

    def find_diff_path(self, path: bytes) -> str:
        """Return the path to give libgit2 for a diff of a file: its own, or empty if it has no `diff` attribute.

        For an empty path, libgit2 skips the lookup of attributes, which takes system calls for each directory.
        """
        diff_path = self._diff_paths.get(path)
        if diff_path is None:
            name = decode_path(path)
            # Without flags, like libgit2's own lookup in a diff.
            has_attribute = self._is_usable(name) and self._git.get_attr(name, "diff") is not None
            self._diff_paths[path] = diff_path = name if has_attribute else ""
        return diff_path

    def read_local_files(self) -> list[bytes]:
        """Return the content of each of `local_files`; empty for a file that cannot be read."""
        return [read_or_empty(file, MAX_TEXT_BYTES) for file in self._local_files]

    @cached_property
    def _has_usable_local_files(self) -> bool:
        return not any(map(_is_unusable, self._local_files))

    def _is_usable(self, path: str) -> bool:
        """Return whether all attributes files that apply to a path are usable, and the path has at most MAX_LEVELS."""
        directory = path.rpartition("/")[0]
        is_usable = self._usable_directories.get(directory)
        if is_usable is None:
            is_usable = (
                directory.count("/") < MAX_LEVELS
                and self._has_usable_local_files
                and all(map(self._has_usable_file, ["", *list_parent_directories(path)]))
            )
            self._usable_directories[directory] = is_usable
        return is_usable

    def _has_usable_file(self, directory: str) -> bool:
        """Return whether the attributes file of a directory is usable or missing, in the work tree and at HEAD."""
        is_usable = self._usable_files.get(directory)
        if is_usable is None:
            # A round trip through UTF-8, because Python cannot encode all letters of a path in an ASCII locale.
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
    """Return whether a line of an attributes file may have a pattern with more than MAX_STARS runs of `*`."""
    # A `*` in a value counts too, because git and libgit2 disagree about where a pattern ends.
    # A backslash continues a pattern on the next line.
    lines = attributes.replace(b"\\\n", b"").split(b"\n")
    return any(
        len(STARS.findall(line)) > MAX_STARS for line in lines if not line.lstrip(b" \t").startswith(b"#")
    )
