"""Validation of texts, batch sizes and line ranges (`10-20`, or `10` for one line).

Errors name the limit that was exceeded.
"""

from __future__ import annotations

import re
from collections.abc import Sized
from typing import Final

from stores.errors import LineageError

# Ten screens of 2,000 characters; a longer text belongs in a file.
MAX_TEXT_LENGTH: Final = 20_000
# PATH_MAX of Linux.
MAX_PATH_LENGTH: Final = 4_096
# The page cannot draw more usefully, and every write rewrites the complete map.
MAX_NODES: Final = 20_000
MAX_LINKS: Final = 20_000
# Items in one call; agents send at most about a hundred.
MAX_BATCH_SIZE: Final = 1_000
# Levels below the root. JSON readers accept a few hundred levels of brackets; each level of nodes takes two.
MAX_DEPTH: Final = 64


class OverLimit(LineageError):
    """Input that exceeds a limit of a map."""


class BadText(LineageError):
    """Text that a map cannot store."""


def validate_text(
    value: str,
    name: str,
    *,
    max_length: int = MAX_TEXT_LENGTH,
    may_be_empty: bool = False,
    strip: bool = True,
) -> str:
    """Return the text without surrounding white space if a map can store it. Errors call it `name`."""
    if len(value) > max_length:
        raise OverLimit(
            f"A {name} has at most {max_length:,} characters; this one has {len(value):,}.",
            hint="Store a summary here and the rest in a file.",
        )
    text = value.strip() if strip else value
    if not text and not may_be_empty:
        raise BadText(f"A {name} is empty.", hint="Describe it in a few words.")
    if "\0" in text or not _is_unicode(text):
        raise BadText(f"A {name} contains invalid characters.", hint="Leave out NUL and lone surrogates.")
    return text


def validate_optional_text(value: str | None, name: str, *, max_length: int = MAX_TEXT_LENGTH) -> str | None:
    """Validate an optional text. Returns None for an empty one."""
    return (
        None
        if value is None
        else validate_text(value, name, max_length=max_length, may_be_empty=True) or None
    )


def check_batch_size(items: Sized, name: str, max_size: int = MAX_BATCH_SIZE) -> None:
    """Raise an error for an empty batch or one larger than `max_size`."""
    if not len(items):
        raise BadText(f"No {name} are given.", hint="Give at least one.")
    if len(items) > max_size:
        raise OverLimit(
            f"At most {max_size:,} {name} fit into one call; this one has {len(items):,}.",
            hint="Split them over several calls.",
        )


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


# With a dash as agents write it, or a colon as in `lineage explain`.
_LINE_RANGE: Final = re.compile(r"\s*([0-9]{1,9})(?:\s*[-:]\s*([0-9]{1,9}))?\s*")


class BadLines(BadText):
    """A text that is not a line range."""


def parse_line_range(lines: str) -> tuple[int, int]:
    """Return the first and the last line of a range, counted from 1, both inclusive."""
    match = _LINE_RANGE.fullmatch(lines)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= first <= last:
        raise BadLines(
            f"{lines[:60]!r} is not a line range.",
            hint="Give lines as `10-20`, or `10` for one line; for several places, one range over all of them.",
        )
    return first, last


def normalize_line_range(lines: str | None) -> str | None:
    """Return a line range in its stored form. Returns None for an empty text."""
    if lines is None or not lines.strip():
        return None
    first, last = parse_line_range(lines)
    return str(first) if first == last else f"{first}-{last}"
