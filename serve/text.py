"""Line numbers as a person reads them: `3-7, 9`.

Commands that people are told of, as they can be pasted where they stand: with the PATH that they gave.

Who writes an error or a hint names a command in backquotes, for the repository it is about; whoever prints it for a
person adds where that is. What agents are answered, and what is written into files, is about the place it is read in.

Commits that an index lacks because they could not be read: what a person does about them.

Text of strangers made fit for a terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pipeline.git.errors import BEYOND_BOUNDARY

if TYPE_CHECKING:
    from stores.history import Unreadable


def spans(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Runs of consecutive numbers in ascending ones."""
    start = last = None
    for number in numbers:
        if start is None or last is None:
            start = number
        elif number != last + 1:
            yield start, last
            start = number
        last = number
    if start is not None and last is not None:
        yield start, last


def named(numbers: Sequence[int]) -> list[str]:
    """Each run of consecutive numbers in ascending ones, by its ends."""
    return [f"{first}" if first == last else f"{first}-{last}" for first, last in spans(numbers)]


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


ASK: Final = "`lineage index` says which, and what brings them."


def count(unreadable: int) -> str:
    """How many they are, in words."""
    return "1 commit" if unreadable == 1 else f"{unreadable:,} commits"


def remedy(unreadable: Sequence[Unreadable], *, partial: bool = False) -> str:
    """What brings them: a shallow or partial clone lacks some by design, and git finds nothing wrong with it."""
    if partial and any(entry.reason.endswith(" is missing") for entry in unreadable):
        return (
            "A partial clone has not fetched all objects, and lineage never does: `git fetch --refetch --no-filter`, "
            "then `lineage index`, takes them up."
        )
    beyond = {entry.reason == BEYOND_BOUNDARY for entry in unreadable}
    if beyond == {True, False}:
        return (
            "`git fetch --unshallow`, then `lineage index`, takes up those at the shallow boundary; "
            "of the others `git fsck` names what is missing, and every `lineage index` tries them again."
        )
    if beyond == {True}:
        return "`git fetch --unshallow`, then `lineage index`, takes them up."
    return "`git fsck` names what is missing; every `lineage index` tries them again."


# Histories are written by strangers: an escape sequence in a message must not reach the terminal.
_CONTROLS: Final = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"}
# Nor one of the marks that turn the direction of the text after them, so that it reads as what it is not. Letters that
# are written from right to left need none of them.
_TURNING: Final = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_VISIBLE: Final = {
    **_CONTROLS,
    **dict.fromkeys(range(0x7F, 0xA0), "\N{REPLACEMENT CHARACTER}"),
    **{code: f"\\u{code:04x}" for code in _TURNING},
}


def visible(text: str) -> str:
    """The text with control characters, and marks that turn its direction, shown instead of obeyed."""
    return text.translate(_VISIBLE)
