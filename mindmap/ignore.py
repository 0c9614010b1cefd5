"""Ignore rules for files of a workspace: fixed names, the files of mindmaps (short: maps), and git's ignore rules."""

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
# JSON files directly in this directory of the workspace are ignored, as they may be maps.
DATA_DIRECTORY: Final = "data"
# The git runner turns on literal pathspecs for every command, but check-ignore refuses to run with them.
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
# Most directories in one git command, as a command line is limited in length. With more, git searches the workspace.
MAX_DIRECTORY_ARGUMENTS: Final = 500
# check-ignore exits at the first path that it rejects, such as one in a submodule, and is run again for the rest.
MAX_GIT_RUNS: Final = 20


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """Fixed ignore rules of one workspace, for git sync and the watcher. They do not include git's ignore rules.

    `root` (the workspace) and `map_directory` are absolute paths with symbolic links resolved. The methods take paths
    relative to the workspace.
    """

    root: bytes
    map_directory: bytes

    @classmethod
    def from_workspace(cls, root: bytes, map_directory: Path) -> IgnoreRules:
        """Return the rules of the workspace at `root`, for maps in `map_directory`."""
        return cls(root, os.fsencode(os.path.realpath(map_directory)))

    def ignores_file(self, path: bytes) -> bool:
        """Return True if a file must not be recorded."""
        return is_ignored(decode_path(path)) or self._is_map_file(path)

    def ignores_directory(self, path: bytes) -> bool:
        """Return True if nothing in a directory may be recorded."""
        return (
            not IGNORED_NAMES.isdisjoint(decode_path(path).split("/"))
            or self.root + b"/" + path == self.map_directory
        )

    def _is_map_file(self, path: bytes) -> bool:
        if self.root == self.map_directory:
            # Otherwise every write of a map would be recorded in the map, which is the next write.
            return path.startswith(b".") or (b"/" not in path and b".json" in path)
        return (self.root + b"/" + path).startswith(self.map_directory + b"/")


def is_ignored(path: str) -> bool:
    """Return True if a path, relative to its workspace, is ignored in every workspace because of its names."""
    directory, _, name = path.rpartition("/")
    return (
        name.endswith(TEMPORARY_SUFFIXES)
        or not IGNORED_NAMES.isdisjoint(path.split("/"))
        or (directory == DATA_DIRECTORY and name.endswith(".json"))
    )


def find_ignored_paths(workspace: Workspace, paths: Sequence[bytes]) -> set[bytes]:
    """Return the paths that git ignores and does not track, of paths relative to the workspace.

    A path that git rejects, such as one in a submodule, counts as not ignored.
    """
    ignored_paths: set[bytes] = set()
    remaining_paths = list(paths)
    for _ in range(MAX_GIT_RUNS):
        if not remaining_paths:
            break
        results = _check_ignore(workspace, remaining_paths)
        ignored_paths |= {path for path, is_path_ignored in results if is_path_ignored}
        remaining_paths = remaining_paths[len(results) + 1 :]
    return ignored_paths


def find_ignored_directories(workspace: Workspace, under: Collection[bytes] = ()) -> frozenset[bytes]:
    """Return the directories of the workspace in which git ignores every new file.

    If `under` has between 1 and MAX_DIRECTORY_ARGUMENTS directories, only these and their subdirectories are searched.
    All paths are relative to the workspace.
    """
    paths = [workspace.prefix + path for path in under] if len(under) <= MAX_DIRECTORY_ARGUMENTS else []
    output = workspace.git.run(*LIST_IGNORED_DIRECTORIES, "--", *(paths or filter(None, [workspace.prefix])))
    repository_paths = [path[:-1] for path in output.stdout.split(b"\0") if path.endswith(b"/")]
    directories = [path for directory in repository_paths if (path := workspace.make_relative(directory))]
    # git also lists a directory that it does not ignore, if it ignores all files that are in it now.
    return frozenset(find_ignored_paths(workspace, directories))


def _check_ignore(workspace: Workspace, paths: Sequence[bytes]) -> list[tuple[bytes, bool]]:
    """Return (path, True if git ignores it) for each path in order, up to the first one that git rejects."""
    # Without ./ git would interpret a path that starts with a colon.
    stdin = b"".join(b"./" + workspace.prefix + path + b"\0" for path in paths)
    output = workspace.git.run(*CHECK_IGNORE, stdin=stdin)
    fields = output.stdout.split(b"\0")
    # git prints four fields for each path: source, line, pattern, path. A pattern with ! means not ignored.
    patterns = fields[2::4][: len(fields) // 4]
    return [
        (path, bool(pattern) and not pattern.startswith(b"!"))
        for path, pattern in zip(paths, patterns, strict=False)
    ]
