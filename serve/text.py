"""Formatting of texts for terminals, agents and JSON.

- Line ranges (`3-7, 9`) and counts (`2,000 commits`).
- Suggested commands in errors and hints. They are in backquotes and without a path: `lineage index`. Programs that
  print on a terminal add the PATH argument of the current command, so that users can paste the command. `lineage-mcp`
  adds the path of the repository that a call is about, because the agent's shell may be in another directory.
- Hints about commits that could not be read.
- Escapes for control and invisible characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pipeline.git.errors import BEYOND_SHALLOW_BOUNDARY, REFETCH_COMMAND

if TYPE_CHECKING:
    from stores.history import UnreadableCommit

# Suggested lineage commands that take a PATH argument. With `--help` they need none.
LINEAGE_COMMAND: Final = re.compile(r"`(lineage (?:index|init|plan|status)(?! --help)(?: [^`]*)?)`")
# Suggested command that takes the path as the option `--repository`.
SHOW_COMMAND: Final = re.compile(r"`(lineage show [^`]*)`")
# Suggested git commands that must run in the repository.
GIT_COMMAND: Final = re.compile(r"`git ((?:config|fetch|for-each-ref|fsck)(?: [^`]*)?)`")
# Hint for commits that could not be read.
UNREADABLE_HINT: Final = "`lineage index` lists them and says how to get them."
# Heading of the leads of an explanation, on a terminal and in answers for agents.
LEADS_HEADING: Final = "Leads: possible sources of the lines (guesses):"
# Digits of an abbreviated sha on a terminal.
SHA_DIGITS: Final = 12
# Digits of an abbreviated sha for agents, which pay for each digit. In ten million objects, fewer than one sha of ten
# digits in 100,000 is ambiguous.
SHORT_SHA_DIGITS: Final = 10

# Visible symbols for control characters, because escape sequences in commit messages must not reach the terminal.
_CONTROL_PICTURES: Final = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"}
# Bidirectional controls can make a text look like another one. Right-to-left letters do not need them.
_BIDI_CONTROLS: Final = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
# Characters without a glyph, and line separators, with which a text can say to a model what people do not see. Joiners
# (U+200C, U+200D) and variation selectors (U+FE00 to U+FE0F) are left out, because emoji and some scripts need them.
_INVISIBLE_CHARACTERS: Final = (
    *(0x00AD, 0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180E, 0x200B, 0x2028, 0x2029),
    *(*range(0x2060, 0x2066), *range(0x206A, 0x2070), 0x3164, 0xFEFF, 0xFFA0),
    *(*range(0x1BCA0, 0x1BCA4), *range(0x1D173, 0x1D17B), *range(0xE0000, 0xE1000)),
)
# Surrogates have no UTF-8 form, so an answer with one could not be sent.
_SURROGATES: Final = range(0xD800, 0xE000)
_ESCAPES: Final = {
    **_CONTROL_PICTURES,
    **dict.fromkeys(range(0x7F, 0xA0), "\N{REPLACEMENT CHARACTER}"),
    **{
        code: f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
        for code in (*_BIDI_CONTROLS, *_INVISIBLE_CHARACTERS, *_SURROGATES)
    },
}
# Escapes of the control and invisible characters that `json.dumps` leaves. A regular expression with a class of so many
# characters would take 6 s per MB, `str.translate` takes 2 to 80 ms.
_JSON_ESCAPES: Final = {
    code: json.dumps(chr(code))[1:-1]
    for code in (*range(0x7F, 0xA0), *_BIDI_CONTROLS, *_INVISIBLE_CHARACTERS)
}
_path_argument: ContextVar[Path] = ContextVar("path_argument", default=Path())


def find_consecutive_runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last number of each run of consecutive numbers. `numbers`: in ascending order."""
    if not numbers:
        return
    start = last = numbers[0]
    for number in numbers[1:]:
        if number != last + 1:
            yield start, last
            start = number
        last = number
    yield start, last


def format_ranges(numbers: Sequence[int]) -> list[str]:
    """Format each run of consecutive numbers as `7` or `3-7`. `numbers`: in ascending order."""
    return [
        f"{first}" if first == last else f"{first}-{last}" for first, last in find_consecutive_runs(numbers)
    ]


def set_path_argument(path: Path) -> None:
    """Set the PATH argument of suggested commands for the rest of the current context (of `contextvars`)."""
    _path_argument.set(path)


def add_path_to_commands(text: str, path: Path | None = None) -> str:
    """Add the path, by default the current PATH argument, to each lineage or git command in backquotes."""
    path = path or _path_argument.get()
    text = LINEAGE_COMMAND.sub(lambda match: f"`{add_path_to_command(match[1], path)}`", text)
    if str(path) != ".":
        text = SHOW_COMMAND.sub(
            lambda match: f"`{add_path_to_command(f'{match[1]} --repository', path)}`", text
        )
    return GIT_COMMAND.sub(lambda match: f"`git {_format_git_directory_option(path)}{match[1]}`", text)


def add_path_to_command(command: str, path: Path | None = None) -> str:
    """Add the path, by default the current PATH argument, to a lineage command."""
    import shlex  # imported here because most runs suggest no command

    return " ".join((command, *map(shlex.quote, format_path_arguments(path or _path_argument.get()))))


def format_command(*words: str) -> str:
    """Return a suggested command like `quote_command`. Arguments that begin with a dash are paths and get `./`."""
    program, *arguments = words
    return quote_command(program, *(f"./{word}" if word.startswith("-") else word for word in arguments))


def quote_command(*words: str) -> str:
    """Return a suggested command in backquotes, quoted for a shell; empty if it has a character that must be escaped.

    Words may be names from repositories. Escaping a backquote or control character would change the command.
    """
    import shlex

    command = shlex.join(words)
    is_safe = command == escape_in_sentence(command) and "\t" not in command
    return f"`{command}`" if is_safe else ""


def format_path_arguments(path: Path) -> tuple[str, ...]:
    """Return a PATH argument as command-line words; none if it is the working directory."""
    argument = str(path)
    if argument == ".":
        return ()
    return (f"./{argument}" if argument.startswith("-") else argument,)


def _format_git_directory_option(path: Path) -> str:
    """Return git's option `-C DIRECTORY ` for a PATH argument, with a final space; empty for the working directory."""
    import shlex

    directory = path.parent if path.is_file() else path
    return "" if str(directory) == "." else f"-C {shlex.quote(str(directory))} "


def describe_vector_share(share: float) -> str:
    """Return a phrase about the share of changes with a vector, rounded down, so that 99.9 % does not become 100 %."""
    return f"vectors for {int(share * 100)} % of the changes"


def format_more_files(count: int) -> str:
    """Return `1 more file` or `2,000 more files`."""
    return format_count(count, "more file")


def format_commit_count(count: int) -> str:
    """Return `1 commit` or `2,000 commits`."""
    return format_count(count, "commit")


def format_count(count: int, noun: str) -> str:
    """Return the count and the noun, such as `1 hunk` or `2,000 hunks`. The plural of the noun must be noun and `s`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def describe_unreadable_remedy(
    unreadable: Sequence[UnreadableCommit], *, is_partial_clone: bool = False
) -> str:
    """Return the sentences that tell the user what to do about unreadable commits.

    Shallow and partial clones lack objects by design, so `git fsck` finds nothing wrong with them.
    """
    if is_partial_clone and any(entry.reason.endswith(" is missing") for entry in unreadable):
        return (
            "This partial clone lacks some objects, and lineage fetches nothing. "
            f"Run {REFETCH_COMMAND}, then `lineage index`."
        )
    boundary_count = sum(entry.reason == BEYOND_SHALLOW_BOUNDARY for entry in unreadable)
    if boundary_count == 0:
        return "`git fsck` lists what is missing; every `lineage index` tries them again."
    if boundary_count == len(unreadable):
        return "Run `git fetch --unshallow`, then `lineage index`."
    return (
        "For those at the shallow boundary, run `git fetch --unshallow`, then `lineage index`. "
        "For the others, `git fsck` lists what is missing; every `lineage index` tries them again."
    )


def escape_json_controls(document: str) -> str:
    """Escape control and invisible characters in a JSON document as `\\uXXXX`. Its parsed values stay the same."""
    return document.translate(_JSON_ESCAPES)


def escape_line(text: str) -> str:
    """Return a text as one line, escaped by `escape_controls`. A newline becomes `␊`."""
    return escape_controls(text.replace("\r", "").replace("\n", "␊"))


def escape_in_sentence(text: str) -> str:
    """Return `escape_line` of a text without backquotes, because backquotes mark commands in sentences."""
    return escape_line(text).replace("`", "'")


def escape_controls(text: str) -> str:
    """Replace control characters, invisible characters and surrogates by visible symbols or escapes.

    Newlines and tabs stay.
    """
    return text.translate(_ESCAPES)
