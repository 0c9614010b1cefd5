"""Lines with their origins, read from `lines.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LINES_FILE: Final = Path(__file__).with_name("lines.toml")


@dataclass(frozen=True, slots=True)
class OriginLine:
    """Line of a file at a revision, and the commit that first brought its idea.

    `text`: the line without white space around it. `reason`: what the origin did. `is_holdout`: not used for tuning.
    """

    repository: str
    revision: str
    path: str
    line: int
    text: str
    origin: str
    reason: str
    is_holdout: bool


def load_lines(file: Path = LINES_FILE) -> tuple[OriginLine, ...]:
    """Return the lines of the file."""
    return tuple(OriginLine(**fields) for fields in tomllib.loads(file.read_text(encoding="utf-8"))["lines"])
