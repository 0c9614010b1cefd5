"""The answer: hits and what is to be said about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import islice
from math import exp
from typing import Final

from serve.answers import FindMeta, PatternHit, rfc3339
from serve.envelope import compatibility, cut, index_hints, index_state
from serve.find.fuse import Candidate
from serve.find.query import Query
from serve.standing import Standing
from stores.filters import Where, naive_utc
from stores.showing import Shown

# A hunk that touches more symbols is a sweep, and its first names say so.
SHOWN_SYMBOLS: Final = 40
# Age after which a commit's recency has fallen to 1/e, in days.
RECENCY_DAYS: Final = 90.0
DIGITS: Final = 6


def best_of_each_commit(candidates: Iterable[Candidate], count: int) -> tuple[Candidate, ...]:
    """The first hunk of each commit, for the first commits."""
    best: dict[str, Candidate] = {}
    for candidate in candidates:
        best.setdefault(candidate.commit_sha, candidate)
    return tuple(islice(best.values(), count))


def hit(candidate: Candidate, shown: Shown, similarity: float, query: Query) -> PatternHit:
    """One hit as it is shown."""
    excerpt = cut(shown.diff)
    return PatternHit(
        commit_sha=shown.commit_sha,
        commit_message=shown.commit_message,
        commit_author=shown.commit_author,
        commit_date=rfc3339(shown.commit_date),
        file_path=shown.file_path,
        change_kind=shown.change_kind,
        diff_excerpt=excerpt,
        diff_truncated=shown.diff_truncated or excerpt != shown.diff,
        related_head_symbols=shown.symbols[:SHOWN_SYMBOLS],
        similarity=round(similarity, DIGITS),
        recency_weight=round(recency(shown.commit_date, query), DIGITS),
        combined_score=round(candidate.score, DIGITS),
    )


def recency(commit_date: datetime, query: Query) -> float:
    """The share by which a commit's age raises its score; a date in the future counts as today."""
    age = naive_utc(query.now) - commit_date
    days = max(0.0, age.total_seconds() / 86_400)
    return query.profile.recency * exp(-days / RECENCY_DAYS)


def meta(standing: Standing, query: Query, *, found: bool) -> FindMeta:
    """What is to be said about an answer."""
    return FindMeta(
        index_status=index_state(standing),
        hint=" ".join(_hints(standing, query, found=found)) or None,
        compatibility=compatibility(standing.verdict),
        query_profile=query.explained,
    )


def _hints(standing: Standing, query: Query, *, found: bool) -> Iterable[str]:
    if standing.verdict is None or not standing.commits:
        yield _unindexed(standing)
        return
    yield from index_hints(standing)
    if not found:
        yield _nothing_found(query.where)


def _unindexed(standing: Standing) -> str:
    if standing.behind:
        return "This repository is not indexed yet: run `lineage index`."
    return "There is nothing to search: the repository has no commits that could be indexed."


def _nothing_found(where: Where) -> str:
    filters: Mapping[str, str | None] = {
        "language": where.language,
        "since": where.since.date().isoformat() if where.since else None,
        "path": where.path,
        "author": where.author,
    }
    said = ", ".join(f"{name} {value!r}" for name, value in filters.items() if value is not None)
    if not said:
        return "HEAD reaches no indexed change."
    return f"No indexed change passes the filters: {said}."
