"""Which files of a workspace are nobody's work: the specified names, the maps, and what its own gitignore says."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mindmap.git import Workspace
from mindmap.paths import shown

# At any depth, files and folders.
NAMES: Final = frozenset(
    (".git", "node_modules", "dist", "build", ".next", "coverage", ".cache", ".DS_Store")
)
# What editors put beside a file while they save it.
TEMPORARY: Final = ("~", ".swp", ".tmp")
# Of the workspace's root, as the pattern `data/*.json` means it there: mindmaps may be kept in it.
DATA: Final = "data"
# It refuses to work where paths are declared to be literal, as they are for every other command here.
CHECK_IGNORE: Final = (
    "--no-literal-pathspecs",
    "check-ignore",
    "--stdin",
    "-z",
    "--verbose",
    "--non-matching",
)
IGNORED_FOLDERS: Final = ("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
# More folders than this are not named to git one by one: a command line has an end.
MOST_NAMED: Final = 500
# git ends at the first path it will not judge, such as one in a submodule; each costs another start.
MOST_STARTS: Final = 20


@dataclass(frozen=True, slots=True)
class Ignoring:
    """What is never recorded in one workspace, by git sync or by the watcher; both folders are without links."""

    root: bytes
    maps: bytes

    @classmethod
    def of(cls, root: bytes, maps: Path) -> Ignoring:
        """That of this workspace, where maps are kept in the other folder."""
        return cls(root, os.fsencode(os.path.realpath(maps)))

    def leaves_out(self, path: bytes) -> bool:
        """Whether a path, relative to the workspace, is one of those."""
        return ignored(shown(path)) or self._is_of_maps(path)

    def leaves_out_folder(self, path: bytes) -> bool:
        """Whether nothing in a folder is recorded."""
        return not NAMES.isdisjoint(shown(path).split("/")) or self.root + b"/" + path == self.maps

    def _is_of_maps(self, path: bytes) -> bool:
        if self.root == self.maps:  # an odd choice, but every write of a map would be recorded in it
            return path.startswith(b".") or (b"/" not in path and b".json" in path)
        return (self.root + b"/" + path).startswith(self.maps + b"/")


def ignored(path: str) -> bool:
    """Whether a path of a workspace, relative to it, is one of those that are never recorded."""
    folders, _, name = path.rpartition("/")
    return (
        name.endswith(TEMPORARY)
        or not NAMES.isdisjoint(path.split("/"))
        or (folders == DATA and name.endswith(".json"))
    )


def ignored_by_git(workspace: Workspace, paths: Sequence[bytes]) -> set[bytes]:
    """Those of a workspace's paths that git ignores: by any of its files of rules, and not tracked all the same."""
    found: set[bytes] = set()
    rest = list(paths)
    for _ in range(MOST_STARTS):
        if not rest:
            break
        judged = _judged(workspace, rest)
        found |= {path for path, is_ignored in judged if is_ignored}
        rest = rest[len(judged) + 1 :]
    return found


def ignored_folders(workspace: Workspace, among: Collection[bytes] = ()) -> frozenset[bytes]:
    """The folders of a workspace, or those among and below these, in which git ignores whatever is not there yet."""
    named = [workspace.prefix + folder for folder in among] if len(among) <= MOST_NAMED else []
    said = workspace.git.output(*IGNORED_FOLDERS, "--", *(named or filter(None, [workspace.prefix])))
    names = [name[:-1] for name in said.out.split(b"\0") if name.endswith(b"/")]
    folders = [folder for name in names if (folder := workspace.relative(name))]
    # A folder is listed too where there is nothing in it but ignored files, which says nothing of the next.
    return frozenset(ignored_by_git(workspace, folders))


def _judged(workspace: Workspace, paths: Sequence[bytes]) -> list[tuple[bytes, bool]]:
    """git's verdicts in the order of the paths, up to the first that it will not judge."""
    # The dot keeps a path that begins with a colon from being read as more than a path.
    names = b"".join(b"./" + workspace.prefix + path + b"\0" for path in paths)
    said = workspace.git.output(*CHECK_IGNORE, given=names)
    fields = said.out.split(b"\0")
    # Four fields for each path: source, line, pattern, path. A pattern with ! takes the path back in.
    patterns = fields[2::4][: len(fields) // 4]
    return [
        (path, bool(pattern) and not pattern.startswith(b"!"))
        for path, pattern in zip(paths, patterns, strict=False)
    ]
