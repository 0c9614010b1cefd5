"""A path filter as people type it, or their shell completes it -> a pattern that counts from the repository's root."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from serve.errors import BadRequest

FROM_THE_ROOT: Final = (
    "Patterns count from the repository's root: `src/`, `/docs`, `*.py`. Without one, all of it is searched."
)


def literal(path: str) -> str:
    """A gitignore pattern of the path itself, whatever signs are in it."""
    return "".join(f"\\{sign}" if sign in "*?[]!#\\" else sign for sign in path)


def rooted(pattern: str, root: Path | None, holds: Callable[[str], bool]) -> str:
    """The pattern without a leading `./`; a path into the work tree at `root` as a pattern of what lies there.

    `holds` says whether the history has a path. Without a root nothing is known of absolute paths, and they stay.
    """
    plain = pattern
    while plain.startswith("./"):
        plain = plain[2:].lstrip("/")
    if plain in ("", ".") or ".." in plain.split("/"):
        raise _refused(pattern)
    # As an answer shows a path that is no text: its escapes are no pattern's.
    if "\\x" in plain and holds(plain):
        return literal(plain)
    # A pattern may begin with a slash too. A null byte is in no path that the system could be asked about.
    if root is None or not plain.startswith("/") or "\0" in plain:
        return plain
    return _inside(plain, root, holds)


def _inside(pattern: str, root: Path, holds: Callable[[str], bool]) -> str:
    """What a pattern with a slash in front means: a path of this machine in the work tree, else one of the tree."""
    path, in_tree = Path(pattern), root / pattern.lstrip("/")
    if not os.path.lexists(path) and os.path.lexists(in_tree):
        return pattern
    for spelled in (path, Path(os.path.realpath(path))):
        if spelled.is_relative_to(root):
            return _from(root, spelled, pattern)
    # Of one part, it is more likely a folder that every machine has, and the history too: `/lib`, `/src`.
    elsewhere = len(path.parts) > len(("/", "lib")) and os.path.lexists(path) and not os.path.lexists(in_tree)
    if elsewhere and not holds(pattern.strip("/")):
        raise _refused(pattern)
    return pattern


def _from(root: Path, path: Path, pattern: str) -> str:
    rest = path.relative_to(root).as_posix()
    if rest == ".":
        raise _refused(pattern)
    if os.path.lexists(path):  # as a shell completes it: no sign of it is meant as a pattern
        rest = literal(rest)
    return f"/{rest}/" if pattern.endswith("/") else f"/{rest}"


def _refused(pattern: str) -> BadRequest:
    return BadRequest(f"{pattern!r:.200} names nothing inside the repository.", hint=FROM_THE_ROOT)
