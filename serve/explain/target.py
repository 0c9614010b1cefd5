"""Target of an explanation: resolves a file name to the content to blame."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipeline.git.changes import SUBMODULE_MODE, TREE_MODE, decode_path, is_binary
from pipeline.git.repository import Repository
from serve.text import format_command

# git needs several times the size in memory, and nobody reads such a file line by line.
MAX_FILE_BYTES: Final = 100 << 20


@dataclass(frozen=True, slots=True)
class Target:
    """A file to explain.

    - `path`: path relative to the repository, as git's bytes.
    - `content`: content to blame; None if there is nothing to blame, and `note` then says why.
    - `is_from_head`: the content is HEAD's, because the work tree does not have the file.
    - `is_missing`: neither HEAD nor the work tree has the path.
    - `encoding`: encoding of the content in the work tree if git stores it as UTF-8, else empty.
    """

    path: bytes
    content: bytes | None = None
    note: str = ""
    is_from_head: bool = False
    is_missing: bool = False
    encoding: str = ""

    @property
    def display_path(self) -> str:
        """The path as text, with undecodable bytes escaped."""
        return decode_path(self.path)

    @property
    def lines(self) -> list[bytes]:
        """The lines as git counts them, without line breaks."""
        lines = _as_stored_by_git(self.content or b"", self.encoding).split(b"\n")
        return lines if lines[-1] else lines[:-1]


@dataclass(frozen=True, slots=True)
class _PathEntry:
    """Entry of HEAD's tree at a path, and whether the path exists in the work tree."""

    path: bytes
    mode: int  # 0 if HEAD has no entry
    entry_path: bytes  # the path itself, or the submodule that contains it
    blob: str
    exists: bool


def resolve_target(repository: Repository, head: str | None, file: str, cwd: Path | None) -> Target:
    """Find the file named `file`, relative to the repository or else to `cwd`.

    Every outcome is a target: one without content has a note that says why.
    """
    candidates = _candidate_paths(repository, file, cwd)
    inside = [path for path in candidates if path is not None]
    if not inside:
        return Target(
            os.fsencode(file), note=f"{decode_path(os.fsencode(file))} lies outside the repository."
        )
    entries = [_look_up(repository, head, path) for path in inside]
    entry = next((entry for entry in entries if entry.exists or entry.mode), entries[0])
    return _classify(repository, head, entry)


def _candidate_paths(repository: Repository, file: str, cwd: Path | None) -> Iterator[bytes | None]:
    """Yield the paths that a name can mean, the most likely first; None for one outside the repository."""
    # A leading `./` or `../` means a path relative to the working directory.
    prefers_cwd = cwd is not None and file.startswith(("./", "../"))
    starts = [repository.root, *([cwd] if cwd else [])]
    for start in reversed(starts) if prefers_cwd else starts:
        yield _relative_path(repository.root, start, file)


def _relative_path(root: Path, start: Path, name: str) -> bytes | None:
    """Return the path relative to the root, following symbolic links except a last one; None if outside."""
    joined = start / name
    # `os.path.realpath` stops at a loop of links, where `Path.resolve` raises.
    if joined.name in ("", ".."):
        full = Path(os.path.realpath(joined))
    else:
        full = Path(os.path.realpath(joined.parent), joined.name)
    if not full.is_relative_to(root):
        return None
    return b"" if full == root else os.fsencode(full.relative_to(root))


def _look_up(repository: Repository, head: str | None, path: bytes) -> _PathEntry:
    entry = repository.find_entry(head, path) if head and path else None
    exists = not repository.is_bare and os.path.lexists(_absolute_path(repository, path))
    if entry is None:
        return _PathEntry(path, 0, b"", "", exists)
    return _PathEntry(path, entry.mode, entry.name, entry.sha, exists)


def _classify(repository: Repository, head: str | None, entry: _PathEntry) -> Target:
    """Return the target for what is at the path."""
    path = _absolute_path(repository, entry.path)
    if entry.mode == SUBMODULE_MODE:
        return _submodule_target(entry)
    is_directory = path.is_dir() and not path.is_symlink() if entry.exists else entry.mode == TREE_MODE
    if is_directory or not entry.path:
        return _directory_target(entry.path)
    if entry.exists:
        return _work_tree_target(repository, head, entry)
    if entry.mode:
        return _head_target(repository, entry)
    return Target(entry.path, note=f"{decode_path(entry.path)} does not exist in HEAD.", is_missing=True)


def _work_tree_target(repository: Repository, head: str | None, entry: _PathEntry) -> Target:
    if head is None:
        return Target(entry.path, note="The repository has no commits yet.")
    if not entry.mode and not repository.is_in_index(entry.path):
        name = decode_path(entry.path)
        note = f"{name} does not exist in HEAD: git does not track it, so it has no history."
        return Target(entry.path, note=note)
    return _read_target(repository, entry.path)


def _submodule_target(entry: _PathEntry) -> Target:
    module = decode_path(entry.entry_path)
    inner = decode_path(entry.path[len(entry.entry_path) + 1 :]) or "FILE"
    command = format_command("lineage", "explain", inner, module)
    note = f"{module} is a submodule, which is a separate repository: run `{command}`."
    return Target(entry.path, note=note)


def _directory_target(path: bytes) -> Target:
    return Target(path, note=f"{decode_path(path) or 'The repository'} is a directory: name a file in it.")


def _head_target(repository: Repository, entry: _PathEntry) -> Target:
    name = decode_path(entry.path)
    if repository.read_blob_size(entry.blob) > MAX_FILE_BYTES:
        return Target(entry.path, note=f"{name} is too large to explain.")
    content = repository.read_blob(entry.blob)
    if is_binary(content):
        return Target(entry.path, note=f"{name} is binary: it has no lines to explain.")
    note = "" if repository.is_bare else f"{name} is not in the work tree: this explains its version in HEAD."
    return Target(entry.path, content, note, is_from_head=True)


def _read_target(repository: Repository, path: bytes) -> Target:
    """Return the target for a path in the work tree. Only regular files are opened."""
    name, file = decode_path(path), _absolute_path(repository, path)
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
    if is_binary(_as_stored_by_git(content, encoding)):
        return Target(path, note=f"{name} is binary: it has no lines to explain.")
    return Target(path, content, encoding=encoding)


def _read_regular_file(file: Path) -> bytes | None:
    """Return the content of a file; None if it is too large or not a regular file."""
    # It can be replaced at any time: do not follow a link out of the repository, nor block on a pipe.
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as opened:  # noqa: PTH123 - a descriptor, not a path
        status = os.fstat(opened.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
            return None
        return opened.read()


def _absolute_path(repository: Repository, path: bytes) -> Path:
    return repository.root / os.fsdecode(path)


def _as_stored_by_git(content: bytes, encoding: str) -> bytes:
    """Convert content to UTF-8 as git stores it; unchanged if the encoding is unknown or wrong."""
    try:
        # git's own names for encodings with a byte order mark end with "-BOM".
        return content.decode(encoding.upper().removesuffix("-BOM")).encode() if encoding else content
    except (LookupError, UnicodeError):
        return content
