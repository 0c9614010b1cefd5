"""Search requests of tests, at a fixed time, on an index whose vectors can be computed by hand."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import TypedDict, Unpack

from serve.find_types import FindAnswer, FindRequest
from serve.search.find_pattern import find_pattern
from serve.search.query_hints import RepositoryContext
from tests.repos import FIRST_DATE, Repo
from tests.serve.sample_index import WordEncoder

# A repository that has every language and every path, so every hint counts.
ANY_CONTEXT = RepositoryContext(lambda _: True, lambda _: True)
NOW = FIRST_DATE + timedelta(days=100)


class FindOptions(TypedDict, total=False):
    """Fields of a request except its text."""

    k: int
    language: str | None
    since: str | None
    path: str | None
    author: str | None
    rerank: bool
    commit_range: str | None


class FindArguments(FindOptions, total=False):
    """All fields of a request."""

    text: str


def find(
    repo: Repo, home: Path, text: str = "timeout", *, now: datetime = NOW, **options: Unpack[FindOptions]
) -> FindAnswer:
    """Run one search without a cache."""
    request = FindRequest(text, **options)
    return find_pattern(request, repo.path, home, load_encoder=WordEncoder, now=now)
