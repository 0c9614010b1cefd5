"""Commands that people are told of, as they can be pasted where they stand: with the PATH that they gave.

Who writes an error or a hint names a command in backquotes, for the repository it is about; whoever prints it for a
person adds where that is. What agents are answered, and what is written into files, is about the place it is read in.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from pathlib import Path
from typing import Final

# Of the commands that take a PATH, those that somebody is told to run. Their help is the same everywhere.
COMMANDS: Final = re.compile(r"`(lineage (?:index|status)(?! --help)(?: [^`]*)?)`")

# The same of git's, which finds a repository by where it is run.
GIT: Final = re.compile(r"`git ((?:fetch|fsck)(?: [^`]*)?)`")

_given: ContextVar[Path] = ContextVar("given", default=Path())


def given(path: Path) -> None:
    """From now on this is the PATH that was given, until the command has ended."""
    _given.set(path)


def pasted(text: str) -> str:
    """The text, each command in backquotes as it is to be run from here."""
    text = COMMANDS.sub(lambda found: f"`{from_here(found[1])}`", text)
    return GIT.sub(lambda found: f"`git {_there()}{found[1]}`", text)


def from_here(command: str) -> str:
    """One command as it is to be run from here."""
    import shlex  # a run with nothing to do says no command

    return " ".join((command, *map(shlex.quote, argument(_given.get()))))


def _there() -> str:
    """What tells git where to be: nothing where it goes without saying."""
    import shlex

    path = _given.get()
    folder = path.parent if path.is_file() else path
    return "" if str(folder) == "." else f"-C {shlex.quote(str(folder))} "


def argument(path: Path) -> tuple[str, ...]:
    """How a command line names the path: not at all where it goes without saying."""
    said = str(path)
    if said == ".":
        return ()
    return (f"./{said}" if said.startswith("-") else said,)
