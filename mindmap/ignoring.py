"""Which files of a workspace are nobody's work: the specified names, and what the workspace's own gitignore says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mindmap.program import Workspace

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
# git ends at the first path it will not judge, such as one in a submodule; each costs another start.
MOST_STARTS: Final = 20


def ignored(path: str) -> bool:
    """Whether a path of a workspace, relative to it, is one of those that are never recorded."""
    folders, _, name = path.rpartition("/")
    return (
        name.endswith(TEMPORARY)
        or not NAMES.isdisjoint(path.split("/"))
        or (folders == DATA and name.endswith(".json"))
    )


def ignored_folder(name: str) -> bool:
    """Whether a folder called so is never looked into."""
    return name in NAMES


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
