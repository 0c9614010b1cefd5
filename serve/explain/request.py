"""What is asked, checked: a file, lines of it, and how much of the answer is wanted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from serve.errors import BadRequest

# More digits than any file has lines.
RANGE: Final = re.compile(r"([0-9]{1,18})?:([0-9]{1,18})?")
HINT: Final = (
    "Give lines as `START:END`, from 1, both included: `10:42`, `:42`, `10:`, or `42:42` for one line."
)


@dataclass(frozen=True, slots=True)
class Request:
    """A question as a person or a program puts it.

    `file` is relative to the repository; `line_end` 0 means the end of the file; `k` counts commits.
    `ignore_whitespace` and `follow_moves` are blame's `-w` and `-M -C`.
    """

    file: str
    line_start: int = 1
    line_end: int = 0
    k: int = 5
    include_diff: bool = True
    include_related: bool = False
    ignore_whitespace: bool = False
    follow_moves: bool = False


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


def check(request: Request) -> None:
    """Refuse a request that no file could answer."""
    if not request.file or "\0" in request.file:
        raise BadRequest("That is no file name.", hint="Name a file, relative to the repository.")
    if request.line_start < 1 or request.line_end < 0:
        raise BadRequest("Lines count from 1.", hint=HINT)
    if request.line_end and request.line_end < request.line_start:
        raise BadRequest(
            f"The range ends at line {request.line_end}, before it starts at line {request.line_start}.",
            hint=HINT,
        )
