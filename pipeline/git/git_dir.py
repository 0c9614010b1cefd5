"""Git directories: their files and settings, common directory, shallow boundary, and search in a directory tree."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

# Name and value of each setting in force; a later one overrides an earlier one.
Settings: TypeAlias = Sequence[tuple[str, str]]

# Files that git and libgit2 open in most commands, or to find a repository.
_FILES_READ_BY_GIT: Final = (
    "commondir",
    "config",
    "config.worktree",
    "index",
    "info/exclude",
    "info/grafts",
    "objects/info/alternates",
    "objects/info/commit-graph",
    "objects/pack/multi-pack-index",
    "packed-refs",
    "shallow",
)
# Names of the settings of a partial clone.
PROMISOR_SETTING: Final = re.compile(r"extensions\.partialclone|remote\..+\.promisor")

GIT_ENTRY = ".git"
# Value of a setting `path`, which in the section `include` or `includeIf` names another configuration file.
_PATH_SETTING: Final = re.compile(rb'^[^#;]*?\bpath\s*=\s*"?([^"\r\n]*)', re.IGNORECASE | re.MULTILINE)
# Depth to which git follows includes.
MAX_INCLUDE_DEPTH: Final = 10


def resolve_common_dir(git_dir: Path) -> Path:
    """Return the git directory that all of a repository's work trees share."""
    pointer_file = git_dir / "commondir"
    return (git_dir / pointer_file.read_text().strip()).resolve() if pointer_file.is_file() else git_dir


def read_shallow_boundary(common_dir: Path) -> frozenset[str]:
    """Return the commits whose parents a shallow clone does not have; empty for other repositories."""
    return frozenset(read_small_file(common_dir / "shallow").decode("ascii", "replace").split())


def read_small_file(file: Path) -> bytes:
    """Return a file's bytes; empty if there is no regular file, because reading a pipe would block.

    Raises OSError if the file cannot be read.
    """
    try:
        return file.read_bytes() if file.is_file() else b""
    except FileNotFoundError:
        return b""


def blocks_on_open(file: Path) -> bool:
    """Check whether opening or reading a path may block, as for a pipe: all but files, directories and `/dev/null`."""
    try:
        mode = file.stat().st_mode
        return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or file.samefile(os.devnull))
    except OSError:
        return False


def find_blocking_git_file(git_dir: Path) -> Path | None:
    """Return a file of a git directory, such as a pipe, that git would wait for forever; usually None."""
    common_dir = resolve_common_dir(git_dir)
    files = {directory / name for directory in (git_dir, common_dir) for name in _FILES_READ_BY_GIT}
    if blocking_file := next(filter(blocks_on_open, sorted(files)), None):
        return blocking_file
    branch = os.fsdecode(_read_or_empty(git_dir / "HEAD")).removeprefix("ref:").strip()
    included_files = _list_included_files(common_dir / "config", MAX_INCLUDE_DEPTH)
    return next(filter(blocks_on_open, (common_dir / branch, *included_files)), None)


def _read_or_empty(file: Path) -> bytes:
    try:
        return read_small_file(file)
    except OSError:
        return b""


def _list_included_files(config_file: Path, depth: int) -> Iterator[Path]:
    """Yield the files that a configuration file may include, whatever the conditions, and those that they include."""
    content = _read_or_empty(config_file) if depth else b""
    for value in _PATH_SETTING.findall(content):
        # `Path.expanduser` would raise for an unknown user.
        file = config_file.parent / os.path.expanduser(os.fsdecode(value.strip()))  # noqa: PTH111
        yield file
        yield from _list_included_files(file, depth - 1)


def is_partial_clone(configuration: Settings) -> bool:
    """Check for settings of a partial clone, whose missing objects a remote has promised."""
    return any(PROMISOR_SETTING.fullmatch(name) for name, _ in configuration)


def find_repositories(directory: Path, on_error: Callable[[OSError], None] | None = None) -> Iterator[Path]:
    """Yield the root of every repository in `directory` and below it, in the order of their paths.

    Work trees, and repositories in them, are found as well as bare repositories. Symbolic links and hidden directories
    are not followed. Linked work trees are left out, because they share the index of their repository, and submodules,
    because their history usually belongs to another project. `on_error`: called for an unreadable directory.
    """
    for root, directories, files in os.walk(directory, onerror=on_error):
        path = Path(root)
        has_git_entry = GIT_ENTRY in directories or GIT_ENTRY in files
        if has_git_entry and _is_main_work_tree(path / GIT_ENTRY):
            yield path
        elif is_git_directory(path):
            yield path
            directories.clear()
        directories[:] = sorted(name for name in directories if not name.startswith("."))


def is_git_directory(path: Path) -> bool:
    """Check for the entries by which git recognizes a git directory."""
    return os.path.lexists(path / "HEAD") and (path / "objects").is_dir() and (path / "refs").is_dir()


def _is_main_work_tree(git_entry: Path) -> bool:
    """Check that `.git` belongs to a main work tree, and not to a linked work tree or a submodule.

    It is a git directory, or a file that names one.
    """
    if git_entry.is_dir():
        return is_git_directory(git_entry)
    try:
        target = git_entry.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return False
    git_dir = git_entry.parent / target.removeprefix("gitdir:").strip()
    is_linked = (git_dir / "commondir").exists()
    return is_git_directory(git_dir) and not is_linked and "modules" not in git_dir.parts
