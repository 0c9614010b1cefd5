"""Git directories: files and settings, shared directory of work trees, shallow boundary; search for repositories."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final, TypeAlias

# (name, value) of each setting. A later one overrides an earlier one.
Settings: TypeAlias = Sequence[tuple[str, str]]

# Files of a git directory that git and libgit2 open in most commands, or to find the repository.
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
# Maximum size of a file `.git`, which names a git directory. A path has at most 4,096 bytes.
MAX_LINK_BYTES: Final = 8_192
# Files and directories without which commits cannot be found. A directory comes before its content.
_REQUIRED_BY_GIT: Final = ("HEAD", "packed-refs", "refs", "refs/heads", "objects", "objects/pack")
# Text files of a git directory that only some commands of git read.
_FILES_READ_BY_COMMANDS: Final = (
    "CHERRY_PICK_HEAD",
    "MERGE_HEAD",
    "REVERT_HEAD",
    "info/attributes",
    "info/sparse-checkout",
)
# Text files at the root of a work tree that only some commands read.
_WORK_TREE_FILES: Final = (".gitattributes", ".gitignore", ".mailmap")
# Files that git maps into memory or searches, so that their size does not matter. Other files are read completely.
_LARGE_FILES: Final = frozenset(("commit-graph", "index", "multi-pack-index", "packed-refs"))
# Maximum size of a file that git reads completely. git itself ignores larger attributes files.
MAX_TEXT_BYTES: Final = 100 << 20
# Matches the names of the settings that only a partial clone has.
PROMISOR_SETTING: Final = re.compile(r"extensions\.partialclone|remote\..+\.promisor")

# Entry of a work tree: its git directory, or a file that names the git directory.
GIT_ENTRY = ".git"
# Matches a part of a configuration file: comment, section header, or setting with its value. A backslash continues the
# value on the next line. The quantifiers are possessive, so matching takes linear time.
_CONFIG_PART: Final = re.compile(
    rb"""
    [#;] [^\n]*+
    | \[ (?P<section> [A-Za-z0-9.-]*+ ) (?: [ \t\r]*+ "(?P<subsection> (?: [^"\\\n] | \\. )*+ )" )?+ \]
    | (?P<name> [A-Za-z0-9-]++ ) [ \t]*+ (?: = (?P<value> (?: "(?: [^"\\\n] | \\. )*+" | \\. | [^"\\\n\#;] )*+ ) )?+
    """,
    re.DOTALL | re.VERBOSE,
)
_QUOTE_OR_ESCAPE: Final = re.compile(rb'"|\\\n|\\(.)')
_STARS: Final = re.compile(rb"\*+")
# Start of an include condition whose `*` is no wildcard.
_URL_CONDITION: Final = b"hasconfig:remote.*.url:"
# Maximum number of wildcards `*` and `**` of an include condition. For a path of length L, git and libgit2 take time
# L ** N to match N wildcards. Without `**`, a `*` in place of a whole name takes no time and does not count.
MAX_CONDITION_STARS: Final = 4
# Maximum number of `**` among these wildcards.
MAX_CONDITION_DOUBLE_STARS: Final = 2
# Maximum number of include conditions in a configuration file.
MAX_CONDITIONS: Final = 1_000
# Maximum size of a configuration file.
MAX_CONFIG_BYTES: Final = 1 << 20


def resolve_common_dir(git_dir: Path) -> Path:
    """Return the git directory that all of a repository's work trees share."""
    common_dir = _decode_path(read_or_empty(git_dir / "commondir"))
    return (git_dir / common_dir).resolve() if common_dir else git_dir


def _decode_path(content: bytes) -> str:
    """Return the path that a file of git contains. As in git, it ends at a NUL byte, which a crash can leave."""
    return os.fsdecode(content.partition(b"\0")[0]).strip()


def read_shallow_boundary(common_dir: Path) -> frozenset[str]:
    """Return the commits whose parents a shallow clone does not have; empty for other repositories."""
    return frozenset(read_small_file(common_dir / "shallow").decode("ascii", "replace").split())


def read_small_file(file: Path, max_bytes: int = -1) -> bytes:
    """Return the content of a file; empty if it does not exist or is no regular file, as reading a pipe would block.

    `max_bytes`: maximum number of bytes to read; -1 for all. Raises OSError if the file cannot be read.
    """
    if not file.is_file():
        return b""
    try:
        with file.open("rb") as opened:
            return opened.read(max_bytes)
    except FileNotFoundError:
        return b""


def read_or_empty(file: Path, max_bytes: int = -1) -> bytes:
    """Return the content of a file as `read_small_file`, but empty if the file cannot be read."""
    try:
        return read_small_file(file, max_bytes)
    except OSError:
        return b""


def blocks_on_open(file: Path) -> bool:
    """Return whether opening or reading a path may block, as for a pipe.

    Regular files, directories and `/dev/null` do not block.
    """
    try:
        return _may_block(file, file.stat().st_mode)
    except OSError:
        return False


def is_too_large(file: Path) -> bool:
    """Return whether a file has more than MAX_TEXT_BYTES; False for a file that git does not read completely."""
    try:
        return _exceeds_text_limit(file, file.stat().st_size)
    except OSError:
        return False


def blocks_git(file: Path) -> bool:
    """Return whether git would wait forever for a file, such as a pipe, or read a huge one into memory."""
    try:
        status = file.stat()
        return _exceeds_text_limit(file, status.st_size) or _may_block(file, status.st_mode)
    except OSError:
        return False


def _may_block(file: Path, mode: int) -> bool:
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or file.samefile(os.devnull))


def _exceeds_text_limit(file: Path, size: int) -> bool:
    return size > MAX_TEXT_BYTES and file.name not in _LARGE_FILES


def find_blocking_git_file(git_dir: Path) -> Path | None:
    """Return a file of a git directory that blocks git; usually None.

    For this file `blocks_git` is true, or it is a configuration file that is too large or has too many or too complex
    include conditions.
    """
    common_dir = resolve_common_dir(git_dir)
    files = [
        directory / name for directory in dict.fromkeys((git_dir, common_dir)) for name in _FILES_READ_BY_GIT
    ]
    files.append(common_dir / _decode_path(read_or_empty(git_dir / "HEAD").removeprefix(b"ref:")))
    if blocking_file := next(filter(blocks_git, files), None):
        return blocking_file
    return _find_blocking_config(common_dir / "config", git_dir / "config.worktree")


def find_unreadable_git_file(git_dir: Path) -> Path | None:
    """Return a file or directory of a git directory that this process may not read; usually None."""
    directories = dict.fromkeys((git_dir, resolve_common_dir(git_dir)))
    branch = _decode_path(read_or_empty(git_dir / "HEAD").removeprefix(b"ref:"))
    names = (*_REQUIRED_BY_GIT, branch)
    paths = (directory / name for directory in directories for name in names)
    return next(filter(_is_unreadable, paths), None)


def list_object_dirs(objects_dir: Path) -> list[Path]:
    """Return an object directory, its alternates and their alternates, whether they exist or not."""
    directories = [objects_dir]
    for directory in directories:  # alternates are appended during the loop
        lines = read_or_empty(directory / "info" / "alternates").splitlines()
        # A path in quotes has escapes, and is left out.
        names = [_decode_path(line) for line in lines if line and not line.startswith((b"#", b'"'))]
        paths = [Path(os.path.realpath(directory / name)) for name in names]
        directories += [path for path in dict.fromkeys(paths) if path not in directories]
    return directories


def find_unreadable_objects(objects_dir: Path) -> Path | None:
    """Return a pack, its index, or a directory of objects, that this process may not read; usually None."""
    paths = chain.from_iterable(map(objects_dir.glob, ("*/", "pack/*.pack", "pack/*.idx")))
    return next(filter(_is_unreadable, paths), None)


def _is_unreadable(path: Path) -> bool:
    """Return whether a path exists, but this process may not read it."""
    mode = os.R_OK | os.X_OK if path.is_dir() else os.R_OK
    # git may delete or create the file meanwhile, as `git gc` does with branches and packs.
    return not os.access(path, mode) and path.exists() and not os.access(path, mode)


def _find_blocking_config(*config_files: Path) -> Path | None:
    """Return a file that blocks git among configuration files and the files that they include; usually None.

    An included file counts even if the condition of its include is not met, or if another included file includes it.
    """
    pending = list(config_files)
    visited: set[str] = set()
    while pending:
        config_file = pending.pop()
        real_path = os.path.realpath(config_file)
        if real_path in visited:
            continue
        visited.add(real_path)
        if blocks_git(config_file):
            return config_file
        content = read_or_empty(config_file, MAX_CONFIG_BYTES + 1)
        if len(content) > MAX_CONFIG_BYTES or _has_slow_conditions(content):
            return config_file
        # `Path.expanduser` would raise for an unknown user.
        paths = (os.path.expanduser(path) for path in _parse_include_paths(content))  # noqa: PTH111
        pending += (config_file.parent / path for path in paths)
    return None


def _has_slow_conditions(config: bytes) -> bool:
    """Return whether a configuration file has `includeIf` conditions above the limits. `config`: its content."""
    conditions = [
        part["subsection"].removeprefix(_URL_CONDITION)
        for part in _CONFIG_PART.finditer(config)
        if part["subsection"] and part["section"].lower() == b"includeif"
    ]
    return len(conditions) > MAX_CONDITIONS or any(map(_is_slow_condition, conditions))


def _is_slow_condition(condition: bytes) -> bool:
    double_stars = condition.count(b"**")
    counted_names = [name for name in condition.split(b"/") if name != b"*" or double_stars]
    stars = sum(len(_STARS.findall(name)) for name in counted_names)
    return stars > MAX_CONDITION_STARS or double_stars > MAX_CONDITION_DOUBLE_STARS


def find_file_blocking_commands(
    git_dir: Path, root: Path | None, file_settings: Settings
) -> tuple[Path, str] | None:
    """Return a file that only some commands of git read, and that blocks them (`blocks_git`); usually None.

    The string is the name of the setting that names the file, or empty. `root`: the work tree; None for a bare
    repository. `file_settings`: the settings that name a file, with an empty name for a default file of the user.
    """
    common_dir = resolve_common_dir(git_dir)
    files = [
        (directory / name, "") for directory in (git_dir, common_dir) for name in _FILES_READ_BY_COMMANDS
    ]
    files += [(root / name, "") for name in _WORK_TREE_FILES if root]
    # `Path.expanduser` would raise for an unknown user.
    files += [((root or git_dir) / os.path.expanduser(value), name) for name, value in file_settings]  # noqa: PTH111
    return next((file for file in files if blocks_git(file[0])), None)


def _parse_include_paths(config: bytes) -> Iterator[str]:
    """Yield the paths that a configuration file includes. `config`: its content."""
    section = b""
    for part in _CONFIG_PART.finditer(config.replace(b"\r\n", b"\n")):
        if part["section"] is not None:
            section = part["section"].lower()
        elif part["value"] and part["name"].lower() == b"path" and section in (b"include", b"includeif"):
            value = _QUOTE_OR_ESCAPE.sub(_unescape, part["value"].strip())
            yield os.fsdecode(value.partition(b"\0")[0])


def _unescape(match: re.Match[bytes]) -> bytes:
    """Return the replacement for a quote (nothing) or for an escaped character of a value."""
    character = match[1] or b""
    return {b"n": b"\n", b"t": b"\t", b"b": b"\b"}.get(character, character)


def is_partial_clone(configuration: Settings) -> bool:
    """Return whether the settings are those of a partial clone, which lacks objects that a remote has."""
    return any(PROMISOR_SETTING.fullmatch(name) for name, _ in configuration)


def find_repositories(directory: Path, on_error: Callable[[OSError], None] | None = None) -> list[Path]:
    """Return the root of every repository in `directory` and below it, in the order of their paths.

    This includes bare repositories, and repositories inside a work tree. Symbolic links and hidden directories are not
    followed. Linked work trees are left out, because they share the index of their repository. Submodules are left out,
    because their history usually belongs to another project. `on_error`: called for an unreadable directory.
    """
    # Root of each repository by its git directory. A git directory outside of its work tree is found twice.
    bare_roots: dict[Path, Path] = {}
    work_tree_roots: dict[Path, Path] = {}
    for root, directories, files in os.walk(directory, onerror=on_error):
        path = Path(root)
        git_dir = (
            _find_main_git_dir(path / GIT_ENTRY) if GIT_ENTRY in directories or GIT_ENTRY in files else None
        )
        if git_dir is not None:
            work_tree_roots.setdefault(git_dir.resolve(), path)
        elif is_git_directory(path):
            bare_roots.setdefault(path.resolve(), path)
            directories.clear()
        directories[:] = sorted(name for name in directories if not name.startswith("."))
    return sorted((bare_roots | work_tree_roots).values())


def is_git_directory(path: Path) -> bool:
    """Return whether a path has the entries by which git recognizes a git directory."""
    return os.path.lexists(path / "HEAD") and (path / "objects").is_dir() and (path / "refs").is_dir()


def _find_main_git_dir(git_entry: Path) -> Path | None:
    """Return the git directory of a main work tree, and None for a linked work tree and for a submodule.

    `git_entry`: the path `.git` in the work tree, which is a git directory, or a file that names a git directory.
    """
    if git_entry.is_dir():
        return git_entry if is_git_directory(git_entry) else None
    link = os.fsdecode(read_or_empty(git_entry, MAX_LINK_BYTES))
    if not link:  # an unreadable file, a pipe or a device
        return None
    git_dir = git_entry.parent / link.removeprefix("gitdir:").strip()
    is_linked = (git_dir / "commondir").exists()
    # The git directory of a submodule lies in `modules/` of the git directory of the repository, or of the linked work
    # tree, that contains the submodule.
    owners = [path.parent for path in git_dir.parents if path.name == "modules"]
    is_submodule = any(is_git_directory(owner) or (owner / "commondir").exists() for owner in owners)
    return git_dir if is_git_directory(git_dir) and not is_linked and not is_submodule else None
