"""The two questions, as a person or a program puts them; light enough for every door to import."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from serve.errors import BadRequest
from serve.pasting import argument

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


def worded(query: str | None, path: Path, more: Sequence[str] = ()) -> str:
    """The question; where a command line has none, or not all of it, an error that says how one is asked.

    Who leaves the option out has given the question in the path's place; who leaves out the quotes, a part of it there
    and `more` words behind it.
    """
    if query is not None and not more:
        return query
    is_path = os.path.exists(path)  # noqa: PTH110 - unlike `Path.exists`, it knows no errors
    words = [word for word in (query, None if is_path else str(path), *more) if word is not None]
    meant = shlex.quote(" ".join(words)) if words else '"how was it done before?"'
    command = shlex.join(["lineage", "query", *(argument(path) if is_path else ())])
    raise BadRequest(
        "No question was asked." if query is None else "The question ends at its first space.",
        hint=f"Ask with --query: `{command} --query {meant}`.",
    )


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
