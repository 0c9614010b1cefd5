"""Files and settings of a git directory: common directory, shallow boundary, partial clones, filters."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

# Name and value of each setting in force; a later one overrides an earlier one.
Settings: TypeAlias = Sequence[tuple[str, str]]

ATTRIBUTE_FILE: Final = ".gitattributes"
PROMISOR_SETTING: Final = re.compile(r"extensions\.partialclone|remote\..+\.promisor")
FILTER_SETTING: Final = re.compile(r"filter\..*\.(clean|smudge|process|required)", re.DOTALL)


def resolve_common_dir(git_dir: Path) -> Path:
    """Return the git directory that all of a repository's work trees share."""
    link = git_dir / "commondir"
    return (git_dir / link.read_text().strip()).resolve() if link.is_file() else git_dir


def read_shallow_boundary(common: Path) -> frozenset[str]:
    """Return the commits whose parents a shallow clone does not have."""
    try:
        return frozenset((common / "shallow").read_text().split())
    except FileNotFoundError:
        return frozenset()


def read_small_file(file: Path) -> bytes:
    """Return a file's bytes; empty where there is no regular file (reading a pipe would block)."""
    try:
        return file.read_bytes() if file.is_file() else b""
    except FileNotFoundError:
        return b""


def blocks_on_open(file: Path) -> bool:
    """Check whether opening a path may block, as for a pipe: it exists and is neither a file nor a directory."""
    try:
        mode = file.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def is_partial_clone(configuration: Settings) -> bool:
    """Check for settings of a partial clone, whose missing objects a remote has promised."""
    return any(PROMISOR_SETTING.fullmatch(name) for name in _list_setting_names(configuration))


def select_filter_settings(configuration: Settings) -> tuple[str, ...]:
    """Return the names of the `filter.*` settings, which name programs that git runs on file contents."""
    return tuple(name for name in _list_setting_names(configuration) if FILTER_SETTING.fullmatch(name))


def _list_setting_names(configuration: Settings) -> Iterable[str]:
    return dict.fromkeys(name for name, _ in configuration)
