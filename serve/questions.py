"""The two questions, as a person or a program puts them; light enough for every door to import."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from serve.errors import BadRequest

# The daemon takes 1 MiB a question, where JSON in ASCII spends six bytes on each of these; on an emoji, two of them.
LONGEST_QUERY: Final = 100_000
LONGEST_FILTER: Final = 10_000


@dataclass(frozen=True, slots=True)
class FindRequest:
    """How was it done before? Texts are still the asker's own.

    `since` is a date or an age, `path` a gitignore pattern, `author` a part of a name or address; `k` counts
    commits.
    """

    text: str
    k: int = 5
    language: str | None = None
    since: str | None = None
    path: str | None = None
    author: str | None = None
    rerank: bool = True

    def __post_init__(self) -> None:
        """Refuse what cannot travel, and no database reads."""
        _check("query", self.text, LONGEST_QUERY)
        filters = {"language": self.language, "since": self.since, "path": self.path, "author": self.author}
        for name, value in filters.items():
            _check(f"{name} filter", value or "", LONGEST_FILTER)


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """Why does this code look the way it does?

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

    def __post_init__(self) -> None:
        """Refuse what cannot travel; a byte that is no text may be a part of a file's name."""
        _check_length("file's name", len(self.file), LONGEST_FILTER)


def worded(query: str | None, path: Path) -> str:
    """The question; where a command line has none, an error that says how one is asked.

    Who leaves the option out has given the question in the path's place.
    """
    if query is not None:
        return query
    is_path = os.path.exists(path)  # noqa: PTH110 - unlike `Path.exists`, it knows no errors
    meant = '"how was it done before?"' if is_path else shlex.quote(str(path))
    raise BadRequest("No question was asked.", hint=f"Ask with --query: `lineage query --query {meant}`.")


def _check(name: str, text: str, most: int) -> None:
    try:
        length = len(text.encode("utf-16-le")) // 2
    except UnicodeEncodeError as error:
        raise BadRequest(
            f"The {name} has a part that is no text: {text[error.start : error.end]!r:.20}.",
            hint="Give it in UTF-8, whole characters only.",
        ) from error
    _check_length(name, length, most)


def _check_length(name: str, length: int, most: int) -> None:
    if length > most:
        raise BadRequest(f"The {name} is longer than {most:,} characters.", hint="Say it in fewer.")
