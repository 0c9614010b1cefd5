"""FILE -> what it is: a file in the work tree, a file only HEAD has, or nothing that has lines."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipeline.git.changes import SUBMODULE_MODE, TREE_MODE, is_binary, shown_path
from pipeline.git.repository import Repository

# Nobody reads a file of this size by its lines, and git would need as much memory several times over.
LARGEST_BYTES: Final = 100 << 20


@dataclass(frozen=True, slots=True)
class Target:
    """A file to explain.

    `path` is relative to the repository, in git's own bytes. `content` is what is explained; None where there
    is nothing to blame, and `note` then says why. `committed` is set where HEAD's version is explained because
    the work tree has none. `missing` says that neither HEAD nor the work tree knows the path. `encoding` is what
    the file has in the work tree only, where git keeps it as UTF-8.
    """

    path: bytes
    content: bytes | None = None
    note: str = ""
    committed: bool = False
    missing: bool = False
    encoding: str = ""

    @property
    def shown(self) -> str:
        """The path as text."""
        return shown_path(self.path)

    @property
    def lines(self) -> list[bytes]:
        """The lines as git counts them."""
        found = _as_kept(self.content or b"", self.encoding).split(b"\n")
        return found if found[-1] else found[:-1]


@dataclass(frozen=True, slots=True)
class _Found:
    """What HEAD has at a path, and whether the file system has anything there."""

    path: bytes
    mode: int  # 0 where HEAD has nothing
    name: bytes  # where HEAD's entry is: the path itself, or a submodule above it
    blob: str
    there: bool


def resolve(repository: Repository, head: str | None, file: str, here: Path | None) -> Target:
    """What `file` names: relative to the repository, or else to where the person stands."""
    named = list(_named(repository, file, here))
    inside = [path for path in named if path is not None]
    if not inside:
        return Target(os.fsencode(file), note=f"{shown_path(os.fsencode(file))} lies outside the repository.")
    looked = [_look(repository, head, path) for path in inside]
    found = next((one for one in looked if one.there or one.mode), looked[0])
    return _target(repository, head, found)


def _named(repository: Repository, file: str, here: Path | None) -> Iterator[bytes | None]:
    """The paths that may be meant, most likely first; None for one outside the repository."""
    # A leading `./` or `../` is how people say "from here".
    from_here = here is not None and file.startswith(("./", "../"))
    starts = [repository.root, *([here] if here else [])]
    for start in reversed(starts) if from_here else starts:
        yield _relative(repository.root, start, file)


def _relative(root: Path, start: Path, name: str) -> bytes | None:
    """The path below the root, links on the way to the last name followed as the system does."""
    whole = start / name
    # Unlike `Path.resolve`, this takes a loop of links for the end of the way.
    if whole.name in ("", ".."):
        full = Path(os.path.realpath(whole))
    else:
        full = Path(os.path.realpath(whole.parent), whole.name)
    if not full.is_relative_to(root):
        return None
    return b"" if full == root else os.fsencode(full.relative_to(root))


def _look(repository: Repository, head: str | None, path: bytes) -> _Found:
    entry = repository.entry(head, path) if head and path else None
    there = not repository.is_bare and os.path.lexists(_place(repository, path))
    if entry is None:
        return _Found(path, 0, b"", "", there)
    return _Found(path, entry.mode, entry.name, entry.sha, there)


def _target(repository: Repository, head: str | None, found: _Found) -> Target:
    """The one thing that the path is."""
    place = _place(repository, found.path)
    if found.mode == SUBMODULE_MODE:
        return _submodule(found)
    is_folder = place.is_dir() and not place.is_symlink() if found.there else found.mode == TREE_MODE
    if is_folder or not found.path:
        return _folder(found.path)
    if found.there:
        return _present(repository, head, found)
    if found.mode:
        return _committed(repository, found)
    return Target(found.path, note=f"{shown_path(found.path)} does not exist in HEAD.", missing=True)


def _present(repository: Repository, head: str | None, found: _Found) -> Target:
    if head is None:
        return Target(found.path, note="The repository has no commits yet.")
    if not found.mode and not repository.is_staged(found.path):
        name = shown_path(found.path)
        note = f"{name} does not exist in HEAD: git does not track it, so it has no history."
        return Target(found.path, note=note)
    return _opened(repository, found.path)


def _submodule(found: _Found) -> Target:
    module = shown_path(found.name)
    inner = shown_path(found.path[len(found.name) + 1 :]) or "FILE"
    note = f"{module} is a submodule, a repository of its own: `lineage explain {inner} {module}`."
    return Target(found.path, note=note)


def _folder(path: bytes) -> Target:
    return Target(path, note=f"{shown_path(path) or 'The repository'} is a folder: name a file in it.")


def _committed(repository: Repository, found: _Found) -> Target:
    name = shown_path(found.path)
    if repository.size(found.blob) > LARGEST_BYTES:
        return Target(found.path, note=f"{name} is too large to explain.")
    content = repository.blob(found.blob)
    if is_binary(content):
        return Target(found.path, note=f"{name} is binary: it has no lines to explain.")
    note = (
        "" if repository.is_bare else f"{name} is not in the work tree; this is about HEAD's version of it."
    )
    return Target(found.path, content, note, committed=True)


def _opened(repository: Repository, path: bytes) -> Target:
    """What the work tree has; nothing but a regular file is opened."""
    name, place = shown_path(path), _place(repository, path)
    try:
        if place.is_symlink():
            goal = os.fsencode(place.readlink())
            about = "this is about the link, not about what it names"
            return Target(path, goal, f"{name} is a symbolic link to {shown_path(goal)}; {about}.")
        content = _content(place)
    except OSError as error:
        return Target(path, note=f"{name} cannot be read: {error.strerror}.")
    if content is None:
        return Target(path, note=f"{name} is too large to explain, or no regular file.")
    encoding = repository.attribute(name, "working-tree-encoding")
    said = encoding if isinstance(encoding, str) else ""
    if is_binary(_as_kept(content, said)):
        return Target(path, note=f"{name} is binary: it has no lines to explain.")
    return Target(path, content, encoding=said)


def _content(place: Path) -> bytes | None:
    """What is in a file; None for one that is too large, or no file but a pipe or a device."""
    # What it has become since it was looked at must not be followed out of the repository, nor waited for.
    descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_BYTES:
            return None
        return file.read()


def _place(repository: Repository, path: bytes) -> Path:
    return repository.root / os.fsdecode(path)


def _as_kept(content: bytes, encoding: str) -> bytes:
    """The content as git keeps it, as far as its lines are concerned."""
    try:
        # git has names of its own for encodings whose files begin with a mark.
        return content.decode(encoding.upper().removesuffix("-BOM")).encode() if encoding else content
    except (LookupError, UnicodeError):
        return content
