"""Ignore rules for files of a workspace: fixed names, the maps themselves, and git's ignore rules."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mindmap.git import Workspace
from mindmap.paths import decode_path

# Files and directories with these names are ignored at any depth.
IGNORED_NAMES: Final = frozenset(
    (".git", "node_modules", "dist", "build", ".next", "coverage", ".cache", ".DS_Store")
)
# Temporary files of editors.
TEMPORARY_SUFFIXES: Final = ("~", ".swp", ".tmp")
# JSON files directly in this directory of the workspace are ignored: it may contain maps.
DATA_DIRECTORY: Final = "data"
# check-ignore refuses to run with literal pathspecs, which the git runner sets for every command.
CHECK_IGNORE: Final = (
    "--no-literal-pathspecs",
    "check-ignore",
    "--stdin",
    "-z",
    "--verbose",
    "--non-matching",
)
LIST_IGNORED_DIRECTORIES: Final = (
    "ls-files",
    "--others",
    "--ignored",
    "--exclude-standard",
    "--directory",
    "-z",
)
# With more directories than this, all ignored directories are listed: a command line is limited in length.
MAX_LISTED_DIRECTORIES: Final = 500
# check-ignore stops at the first path that it rejects, such as one in a submodule, and is then run again.
MAX_GIT_RUNS: Final = 20


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """Fixed ignore rules of one workspace, for git sync and the watcher.

    Both paths are absolute, with symbolic links resolved. Paths given to the methods are relative to the workspace.
    """

    root: bytes
    map_directory: bytes

    @classmethod
    def from_workspace(cls, root: bytes, map_directory: Path) -> IgnoreRules:
        """Return the rules of a workspace, for a data directory of maps."""
        return cls(root, os.fsencode(os.path.realpath(map_directory)))

    def ignores_file(self, path: bytes) -> bool:
        """Return True if a file is never recorded."""
        return is_ignored(decode_path(path)) or self._is_map_file(path)

    def ignores_directory(self, path: bytes) -> bool:
        """Return True if nothing in a directory is recorded."""
        return (
            not IGNORED_NAMES.isdisjoint(decode_path(path).split("/"))
            or self.root + b"/" + path == self.map_directory
        )

    def _is_map_file(self, path: bytes) -> bool:
        if self.root == self.map_directory:
            # An unusual setup, in which every write of a map would otherwise be recorded in the map.
            return path.startswith(b".") or (b"/" not in path and b".json" in path)
        return (self.root + b"/" + path).startswith(self.map_directory + b"/")


def is_ignored(path: str) -> bool:
    """Return True if the name or place of a file, relative to its workspace, is ignored in every workspace."""
    directory, _, name = path.rpartition("/")
    return (
        name.endswith(TEMPORARY_SUFFIXES)
        or not IGNORED_NAMES.isdisjoint(path.split("/"))
        or (directory == DATA_DIRECTORY and name.endswith(".json"))
    )


def git_ignored_paths(workspace: Workspace, paths: Sequence[bytes]) -> set[bytes]:
    """Return those of the workspace's paths that git ignores and does not track."""
    ignored: set[bytes] = set()
    remaining = list(paths)
    for _ in range(MAX_GIT_RUNS):
        if not remaining:
            break
        checked = _check_ignore(workspace, remaining)
        ignored |= {path for path, is_path_ignored in checked if is_path_ignored}
        remaining = remaining[len(checked) + 1 :]
    return ignored


def git_ignored_directories(workspace: Workspace, under: Collection[bytes] = ()) -> frozenset[bytes]:
    """Return the directories in which git ignores every new file: of the workspace, or at and under the given ones."""
    paths = [workspace.prefix + path for path in under] if len(under) <= MAX_LISTED_DIRECTORIES else []
    output = workspace.git.run(*LIST_IGNORED_DIRECTORIES, "--", *(paths or filter(None, [workspace.prefix])))
    names = [name[:-1] for name in output.stdout.split(b"\0") if name.endswith(b"/")]
    directories = [path for name in names if (path := workspace.relative_path(name))]
    # git also lists a directory in which all present files are ignored; a new file may not be.
    return frozenset(git_ignored_paths(workspace, directories))


def _check_ignore(workspace: Workspace, paths: Sequence[bytes]) -> list[tuple[bytes, bool]]:
    """Return (path, is ignored) for each path in order, up to the first one that git rejects."""
    # The leading ./ keeps git from interpreting a path that starts with a colon.
    names = b"".join(b"./" + workspace.prefix + path + b"\0" for path in paths)
    output = workspace.git.run(*CHECK_IGNORE, stdin=names)
    fields = output.stdout.split(b"\0")
    # Four fields for each path: source, line, pattern, path. A pattern with ! includes the path again.
    patterns = fields[2::4][: len(fields) // 4]
    return [
        (path, bool(pattern) and not pattern.startswith(b"!"))
        for path, pattern in zip(paths, patterns, strict=False)
    ]
