"""What is asked, checked: a file, and lines of it."""

from __future__ import annotations

import os
import re
from typing import Final

from serve.errors import BadRequest
from serve.questions import ExplainRequest

# More digits than any file has lines.
RANGE: Final = re.compile(r"([0-9]{1,18})?:([0-9]{1,18})?")
HINT: Final = (
    "Give lines as `START:END`, from 1, both included: `10:42`, `:42`, `10:`, or `42:42` for one line."
)
# For agents too, who give the two bounds by name.
COUNTED: Final = "The first line is 1, and both ends of a range are part of it."


def bounds(lines: str | None) -> tuple[int, int]:
    """The two bounds in `START:END`; 0 for an end that is left open."""
    if lines is None:
        return 1, 0
    said = RANGE.fullmatch(lines.strip())
    if said is None:
        raise BadRequest(f"{lines!r} is not a range of lines.", hint=HINT)
    start, end = (int(bound) if bound else None for bound in said.groups())
    if end == 0:
        raise BadRequest("Lines count from 1.", hint=HINT)
    return 1 if start is None else start, end or 0


def check(request: ExplainRequest) -> None:
    """Refuse a request that no file could answer."""
    if not request.file or "\0" in request.file or not _is_encodable(request.file):
        raise BadRequest("That is no file name.", hint="Name a file, relative to the repository.")
    if request.line_start < 1 or request.line_end < 0:
        raise BadRequest("Lines count from 1.", hint=COUNTED)
    if request.line_end and request.line_end < request.line_start:
        raise BadRequest(
            f"The range ends at line {request.line_end}, before it starts at line {request.line_start}.",
            hint=COUNTED,
        )


def _is_encodable(name: str) -> bool:
    """Whether the file system could have the name: bytes that are no text are, halves of characters are not."""
    try:
        return bool(os.fsencode(name))
    except UnicodeEncodeError:
        return False
