"""A range of lines in a file: `10-20`, or `10` for one line."""

from __future__ import annotations

import re
from typing import Final

from mindmap import limits

# With a dash as agents write it, or a colon as `lineage explain` takes it.
_SPAN: Final = re.compile(r"\s*([0-9]{1,9})(?:\s*[-:]\s*([0-9]{1,9}))?\s*")


class BadLines(limits.BadText):
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
