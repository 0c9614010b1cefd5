"""How much a map takes: each limit is named in the error that refuses more.

A range of lines in a file: `10-20`, or `10` for one line.
"""

from __future__ import annotations

import re
from collections.abc import Sized
from typing import Final, TypeVar

from stores.errors import LineageError

# A screenful of notes is 2,000 characters; ten of them are a document, and belong into a file.
LONGEST_TEXT: Final = 20_000
# As long as Linux takes a path.
LONGEST_PATH: Final = 4_096
# More are neither drawn nor read by anybody, and every write costs as much as the whole map.
MOST_NODES: Final = 20_000
MOST_LINKS: Final = 20_000
# Of one call: what an agent writes in one go has a hundred at most.
MOST_AT_ONCE: Final = 1_000
# Levels below the root. JSON readers stop at some hundred levels of brackets, and each level here costs two.
DEEPEST: Final = 64

Kept = TypeVar("Kept")


class OverLimit(LineageError):
    """More than a map takes."""


class BadText(LineageError):
    """Text that cannot be kept as it is."""


def text(value: str, name: str, *, most: int = LONGEST_TEXT, empty: bool = False, strip: bool = True) -> str:
    """The text, if it can be kept, without the white space around it; `name` is what the error calls it."""
    if len(value) > most:
        raise OverLimit(
            f"A {name} has at most {most:,} characters; this one has {len(value):,}.",
            hint="Keep the gist here, and the rest in a file.",
        )
    kept = value.strip() if strip else value
    if not kept and not empty:
        raise BadText(f"A {name} is empty.", hint="Say what it is in a few words.")
    if "\0" in kept or not _is_unicode(kept):
        raise BadText(
            f"A {name} holds characters that are no text.", hint="Leave NUL and lone surrogates out."
        )
    return kept


def optional(value: str | None, name: str, *, most: int = LONGEST_TEXT) -> str | None:
    """The same for text that need not be there; none for empty text."""
    return None if value is None else text(value, name, most=most, empty=True) or None


def batch(things: Sized, name: str, most: int = MOST_AT_ONCE) -> None:
    """Refuse a call about nothing, and one about more than so many things."""
    if not len(things):
        raise BadText(f"No {name} are given.", hint="Give at least one.")
    if len(things) > most:
        raise OverLimit(
            f"At most {most:,} {name} go into one call; here are {len(things):,}.",
            hint="Split them over several calls.",
        )


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


# With a dash as agents write it, or a colon as `lineage explain` takes it.
_SPAN: Final = re.compile(r"\s*([0-9]{1,9})(?:\s*[-:]\s*([0-9]{1,9}))?\s*")


class BadLines(BadText):
    """A text that is no range of lines."""


def bounds(lines: str) -> tuple[int, int]:
    """First and last line, from 1, both included."""
    said = _SPAN.fullmatch(lines)
    first, last = (int(said[1]), int(said[2] or said[1])) if said else (0, 0)
    if not 1 <= first <= last:
        raise BadLines(
            f"{lines[:60]!r} is no range of lines.",
            hint="Give lines as `10-20`, or `10` for one; of several places, from the first to the last.",
        )
    return first, last


def kept(lines: str | None) -> str | None:
    """The range as a map keeps it; none for empty text."""
    if lines is None or not lines.strip():
        return None
    first, last = bounds(lines)
    return str(first) if first == last else f"{first}-{last}"
