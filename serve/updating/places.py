"""Environments of our own beside each other, and the one that commands lead to.

    PREFIX/current -> versions/NEW            the commands are links into `current`
    PREFIX/versions/NEW                       an environment, complete before `current` leads to it
    PREFIX/versions/OLD -> NEW                for programs of OLD that still run: they go on with the new files

One rename takes the commands from the old version to the new one, so that a kill at any moment leaves one of them.
"""

from __future__ import annotations

import secrets
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from serve.updating.receipt import COMMANDS

CURRENT: Final = "current"
VERSIONS: Final = "versions"


def draft(prefix: Path, version: str) -> Path:
    """Where a new environment is to be made."""
    folder = prefix / VERSIONS
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{version}-{secrets.token_hex(3)}"


def lead_to(environment: Path) -> None:
    """Have `current` lead to an environment, then forget the others."""
    prefix = environment.parent.parent
    _link(prefix / CURRENT, Path(VERSIONS) / environment.name)
    for other in (prefix / VERSIONS).iterdir():
        if other.name != environment.name:
            _forget(other, environment.name)


def link_commands(prefix: Path, folder: Path) -> None:
    """Put a link to each command into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for command in COMMANDS:
        _link(folder / command, prefix / CURRENT / "bin" / command)


def _forget(other: Path, successor: str) -> None:
    if other.is_symlink():  # of the version before: whoever still runs that has had a day and an update
        other.unlink()
        return
    aside = other.with_name(f".{other.name}")
    with suppress(OSError):
        other.rename(aside)
        other.symlink_to(successor)
    shutil.rmtree(aside, ignore_errors=True)


def _link(link: Path, target: Path) -> None:
    fresh = link.with_name(f".{link.name}.{secrets.token_hex(4)}")
    fresh.symlink_to(target)
    fresh.replace(link)
