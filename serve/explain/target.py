"""Target of an explanation: the file and the content to blame."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pipeline.git.changes import SUBMODULE_MODE, TREE_MODE, decode_path, is_binary
from pipeline.git.repository import Repository
from serve.text import format_command

# git blame needs several times the size of a file in memory, and nobody reads a larger file line by line.
MAX_FILE_BYTES: Final = 100 << 20


@dataclass(frozen=True, slots=True)
class Target:
    """A file to explain.

    - `path`: path relative to the repository, as git's bytes.
    - `content`: content to blame; None if there is nothing to blame.
    - `note`: sentence for the user: the reason why there is nothing to blame, or which version is explained.
    - `revision`: commit that has the content, if the work tree does not have the file; else empty.
    - `is_missing`: HEAD does not have the path. `is_untracked`: only the work tree has it. `is_directory`: the path is
      that of a directory.
    - `other_paths`: what else the name of a missing file can mean.
    - `working_tree_encoding`: encoding of the content by the git attribute `working-tree-encoding`, empty if it is not
      set; git stores such content as UTF-8.
    """

    path: bytes
    content: bytes | None = None
    note: str = ""
    revision: str = ""
    is_missing: bool = False
    is_untracked: bool = False
    is_directory: bool = False
    other_paths: tuple[bytes, ...] = ()
    working_tree_encoding: str = ""

    @property
    def display_path(self) -> str:
        """The path as text, with undecodable bytes escaped."""
        return decode_path(self.path)

    @property
    def lines(self) -> list[bytes]:
        """The lines as git counts them, without line breaks."""
        lines = _convert_to_utf8(self.content or b"", self.working_tree_encoding).split(b"\n")
        return lines if lines[-1] else lines[:-1]


@dataclass(frozen=True, slots=True)
class _PathEntry:
    """Entry of HEAD's tree at a path, and `is_in_work_tree`: True if the path exists in the work tree."""

    path: bytes
    mode: int  # 0 if HEAD has no entry
    entry_path: bytes  # the path itself, or the submodule that contains it
    blob: str
    is_in_work_tree: bool


def resolve_target(repository: Repository, head: str | None, file: str, cwd: Path | None) -> Target:
    """Find the file named `file`, relative to the repository or else to `cwd`.

    This never fails: if there is nothing to blame, the target's note says why.
    """
    candidates = list_candidate_paths(repository, file, cwd)
    inner_paths = [path for path in candidates if path is not None]
    if not inner_paths:
        return Target(
            os.fsencode(file), note=f"{decode_path(os.fsencode(file))} lies outside the repository."
        )
    entries = [_look_up(repository, head, path) for path in inner_paths]
    entry = next((entry for entry in entries if entry.is_in_work_tree or entry.mode), entries[0])
    target = _build_target(repository, head, entry)
    return replace(target, other_paths=tuple(inner_paths[1:])) if target.is_missing else target


def list_candidate_paths(repository: Repository, file: str, cwd: Path | None) -> Iterator[bytes | None]:
    """Yield the paths that a name can mean, the most likely first; None for a path outside the repository."""
    # With a leading `./` or `../`, the working directory is tried first.
    prefers_cwd = cwd is not None and file.startswith(("./", "../"))
    base_directories = [repository.root, *([cwd] if cwd else [])]
    for base_directory in reversed(base_directories) if prefers_cwd else base_directories:
        yield _make_relative(repository.root, base_directory, file)


def _make_relative(root: Path, base_directory: Path, name: str) -> bytes | None:
    """Return the path relative to the root; None if outside. Resolves symbolic links, except in the last component."""
    joined_path = base_directory / name
    # `os.path.realpath` stops at a loop of links, where `Path.resolve` raises.
    if joined_path.name in ("", ".."):
        full_path = Path(os.path.realpath(joined_path))
    else:
        full_path = Path(os.path.realpath(joined_path.parent), joined_path.name)
    if not full_path.is_relative_to(root):
        return None
    return b"" if full_path == root else os.fsencode(full_path.relative_to(root))


def _look_up(repository: Repository, head: str | None, path: bytes) -> _PathEntry:
    entry = repository.find_entry(head, path) if head and path else None
    is_in_work_tree = not repository.is_bare and os.path.lexists(_make_absolute(repository, path))
    if entry is None:
        return _PathEntry(path, 0, b"", "", is_in_work_tree)
    return _PathEntry(path, entry.mode, entry.name, entry.sha, is_in_work_tree)


def _build_target(repository: Repository, head: str | None, entry: _PathEntry) -> Target:
    """Return the target for a tree entry: a file, directory, submodule or missing path."""
    path = _make_absolute(repository, entry.path)
    if entry.mode == SUBMODULE_MODE:
        return _build_submodule_target(entry)
    is_directory = (
        path.is_dir() and not path.is_symlink() if entry.is_in_work_tree else entry.mode == TREE_MODE
    )
    if is_directory or not entry.path:
        return _build_directory_target(entry.path)
    if entry.is_in_work_tree:
        return _build_work_tree_target(repository, head, entry)
    if entry.mode:
        note = f"{decode_path(entry.path)} is not in the work tree: this explains its version in HEAD."
        target = read_committed_target(repository, "HEAD", entry.path, entry.blob)
        return target if repository.is_bare or target.content is None else replace(target, note=note)
    return Target(entry.path, note=f"{decode_path(entry.path)} does not exist in HEAD.", is_missing=True)


def _build_work_tree_target(repository: Repository, head: str | None, entry: _PathEntry) -> Target:
    if head is None:
        return Target(entry.path, note="The repository has no commits yet.")
    if not entry.mode and not repository.is_in_index(entry.path):
        note = f"{decode_path(entry.path)} does not exist in HEAD."
        return Target(entry.path, note=note, is_missing=True, is_untracked=True)
    return _read_target(repository, entry.path)


def _build_submodule_target(entry: _PathEntry) -> Target:
    module = decode_path(entry.entry_path)
    inner_path = decode_path(entry.path[len(entry.entry_path) + 1 :]) or "FILE"
    command = format_command("lineage", "explain", inner_path, module)
    note = f"{module} is a submodule, which is a separate repository: run `{command}`."
    return Target(entry.path, note=note)


def _build_directory_target(path: bytes) -> Target:
    note = f"{decode_path(path) or 'The repository'} is a directory: name a file in it."
    return Target(path, note=note, is_directory=True)


def read_committed_target(repository: Repository, revision: str, path: bytes, blob: str) -> Target:
    """Return the target for a file of a commit, with its blob."""
    name = decode_path(path)
    if repository.read_blob_size(blob) > MAX_FILE_BYTES:
        return Target(path, note=f"{name} is too large to explain.")
    content = repository.read_blob(blob)
    if is_binary(content):
        return Target(path, note=f"{name} is binary: it has no lines to explain.")
    return Target(path, content, revision=revision)


def _read_target(repository: Repository, path: bytes) -> Target:
    """Return the target for a path in the work tree. Only regular files are opened."""
    name, file = decode_path(path), _make_absolute(repository, path)
    try:
        if file.is_symlink():
            destination = os.fsencode(file.readlink())
            note = f"{name} is a symbolic link to {decode_path(destination)}: this explains the link itself."
            return Target(path, destination, note)
        content = _read_regular_file(file)
    except OSError as error:
        return Target(path, note=f"{name} cannot be read: {error.strerror}.")
    if content is None:
        return Target(path, note=f"{name} is too large to explain, or not a regular file.")
    attribute = repository.get_attribute(name, "working-tree-encoding")
    encoding = attribute if isinstance(attribute, str) else ""
    if is_binary(_convert_to_utf8(content, encoding)):
        return Target(path, note=f"{name} is binary: it has no lines to explain.")
    return Target(path, content, working_tree_encoding=encoding)


def _read_regular_file(file: Path) -> bytes | None:
    """Return the content of a file; None if it is too large or not a regular file."""
    # Another process can replace the file by a link out of the repository or by a pipe, which would block.
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as opened:  # noqa: PTH123 - a descriptor, not a path
        status = os.fstat(opened.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
            return None
        return opened.read()


def _make_absolute(repository: Repository, path: bytes) -> Path:
    return repository.root / os.fsdecode(path)


def _convert_to_utf8(content: bytes, encoding: str) -> bytes:
    """Convert content to UTF-8 as git stores it; unchanged if the encoding is unknown or wrong."""
    try:
        # git's own names for encodings with a byte order mark end with "-BOM".
        return content.decode(encoding.upper().removesuffix("-BOM")).encode() if encoding else content
    except (LookupError, UnicodeError):
        return content
