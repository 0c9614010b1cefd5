"""Validation of the input of mindmap operations: texts, batch sizes and line ranges (`10-20`, or `10` for one line)."""

from __future__ import annotations

import re
from collections.abc import Sized
from typing import Final

from stores.errors import LineageError

# Ten screens of 2,000 characters; a longer text belongs in a file.
MAX_TEXT_LENGTH: Final = 20_000
# PATH_MAX of Linux.
MAX_PATH_LENGTH: Final = 4_096
# A page with more nodes or links is not readable, and every write rewrites the complete map.
MAX_NODES: Final = 20_000
MAX_LINKS: Final = 20_000
# Items in one call; agents send at most about a hundred.
MAX_BATCH_SIZE: Final = 1_000
# Levels below the root. JSON readers accept a few hundred levels of brackets; each level of nodes takes two.
MAX_DEPTH: Final = 64


class OverLimit(LineageError):
    """Error for input that exceeds a limit of a map; the message names the limit."""


class BadText(LineageError):
    """Error for an empty text or batch, or a text with characters that a map file cannot contain."""


def validate_text(
    value: str,
    name: str,
    *,
    max_length: int = MAX_TEXT_LENGTH,
    may_be_empty: bool = False,
    strip: bool = True,
) -> str:
    """Check a text and return it, without surrounding white space if `strip`.

    Raises OverLimit if it is too long, and BadText if it is empty or contains a NUL or a lone surrogate. Error messages
    call the text `name`.
    """
    if len(value) > max_length:
        raise OverLimit(
            f"A {name} has at most {max_length:,} characters; this one has {len(value):,}.",
            hint="Store a summary here and the rest in a file.",
        )
    text = value.strip() if strip else value
    if not text and not may_be_empty:
        raise BadText(f"A {name} is empty.", hint="Describe it in a few words.")
    if "\0" in text or not _is_utf8_encodable(text):
        raise BadText(f"A {name} contains invalid characters.", hint="Remove NUL and lone surrogates.")
    return text


def validate_optional_text(value: str | None, name: str, *, max_length: int = MAX_TEXT_LENGTH) -> str | None:
    """Check an optional text and return it; None if it is None or empty."""
    return (
        None
        if value is None
        else validate_text(value, name, max_length=max_length, may_be_empty=True) or None
    )


def check_batch_size(items: Sized, name: str, max_size: int = MAX_BATCH_SIZE) -> None:
    """Raise an error for an empty batch or one larger than `max_size`."""
    if not len(items):
        raise BadText(f"The list of {name} is empty.", hint="Give at least one.")
    if len(items) > max_size:
        raise OverLimit(
            f"At most {max_size:,} {name} are allowed in one list; this one has {len(items):,}.",
            hint="Make several calls.",
        )


def _is_utf8_encodable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


# Agents write `10-20`; `lineage explain` takes `10:20`.
_LINE_RANGE: Final = re.compile(r"\s*([0-9]{1,9})(?:\s*[-:]\s*([0-9]{1,9}))?\s*")


class BadLines(BadText):
    """Error for a text that is not a line range."""


def parse_line_range(lines: str) -> tuple[int, int]:
    """Return the first and the last line of a range, counted from 1, both inclusive. Raises BadLines."""
    match = _LINE_RANGE.fullmatch(lines)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= first <= last:
        raise BadLines(
            f"{lines[:60]!r} is not a line range.",
            hint="Give `10-20`, or `10` for one line. For several ranges, give one that includes them all.",
        )
    return first, last


def normalize_line_range(lines: str | None) -> str | None:
    """Return a line range as a map stores it, `10-20` or `10`. Returns None for None or an empty text."""
    if lines is None or not lines.strip():
        return None
    first, last = parse_line_range(lines)
    return str(first) if first == last else f"{first}-{last}"
