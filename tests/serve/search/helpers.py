"""Questions of tests, asked at one moment of an index whose vectors can be computed by hand."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import TypedDict, Unpack

from serve.api_types import FindAnswer, FindRequest
from serve.search.find_pattern import find_pattern
from serve.search.query_hints import Here
from tests.repos import FIRST_DATE, Repo
from tests.serve.sample_index import WordEncoder

# Every language is spoken and every path is there: what is read from a text is its own matter.
ANYWHERE = Here(lambda _: True, lambda _: True)
NOW = FIRST_DATE + timedelta(days=100)


class Options(TypedDict, total=False):
    """Those of a question, beside its text."""

    k: int
    language: str | None
    since: str | None
    path: str | None
    author: str | None
    rerank: bool


class Asked(Options, total=False):
    """A question as a table of a test has it."""

    text: str


def ask(
    repo: Repo, home: Path, text: str = "timeout", *, now: datetime = NOW, **options: Unpack[Options]
) -> FindAnswer:
    request = FindRequest(text, **options)
    return find_pattern(request, repo.path, home, encoder=WordEncoder, now=now)
