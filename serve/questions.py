"""The two questions, as a person or a program puts them; light enough for every door to import."""

from __future__ import annotations

from dataclasses import dataclass


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
