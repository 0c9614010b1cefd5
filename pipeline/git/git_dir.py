"""What a repository's folders, small files and settings say of it, beside its objects."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

# Name and value of each setting that acts, the last word last.
Configuration: TypeAlias = Sequence[tuple[str, str]]

ATTRIBUTE_FILE: Final = ".gitattributes"
PROMISES: Final = re.compile(r"extensions\.partialclone|remote\..+\.promisor")
FILTERS: Final = re.compile(r"filter\..*\.(clean|smudge|process|required)", re.DOTALL)


def common_dir(git_dir: Path) -> Path:
    """The directory that a repository's work trees share."""
    link = git_dir / "commondir"
    return (git_dir / link.read_text().strip()).resolve() if link.is_file() else git_dir


def boundary(common: Path) -> frozenset[str]:
    """Commits whose parents a shallow clone does not have."""
    try:
        return frozenset((common / "shallow").read_text().split())
    except FileNotFoundError:
        return frozenset()


def content(file: Path) -> bytes:
    """A small file's bytes; none where there is no file. A pipe of its name would be waited for."""
    try:
        return file.read_bytes() if file.is_file() else b""
    except FileNotFoundError:
        return b""


def waits(file: Path) -> bool:
    """Whether opening what has this name would wait for somebody, as a pipe does."""
    try:
        mode = file.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def is_partial(configuration: Configuration) -> bool:
    """Whether a remote has promised what is absent here."""
    return any(PROMISES.fullmatch(name) for name in _names(configuration))


def filters(configuration: Configuration) -> tuple[str, ...]:
    """Settings that name programs a file's content passes through on its way into git and out of it."""
    return tuple(name for name in _names(configuration) if FILTERS.fullmatch(name))


def _names(configuration: Configuration) -> Iterable[str]:
    return dict.fromkeys(name for name, _ in configuration)
