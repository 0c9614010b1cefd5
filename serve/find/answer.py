"""The answer: hits and what is to be said about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from math import exp
from typing import Final

from serve import unread
from serve.answers import FindMeta, PatternHit, rfc3339
from serve.envelope import compatibility, cut, index_hints, index_state
from serve.find.hints import LANGUAGES
from serve.find.moments import said
from serve.find.query import Query
from serve.find.rerank import Placed
from serve.find.wording import FUNCTION_WORDS, telling
from serve.standing import Standing
from stores.filters import Where, naive_utc
from stores.showing import Shown

# A hunk that touches more symbols is a sweep, and its first names say so.
SHOWN_SYMBOLS: Final = 40
# Age after which a commit's recency has fallen to 1/e, in days.
RECENCY_DAYS: Final = 90.0
DIGITS: Final = 6
NO_PRECEDENT: Final = (
    "Every hit is weak: this may never have been done here before. "
    "Ask in other words, or with a name from the code."
)
NOTHING_ASKED: Final = (
    "The question has no word that tells of a change: say what was done, or name something of the code."
)


def hit(placed: Placed, shown: Shown, similarity: float, query: Query) -> PatternHit:
    """One hit as it is shown."""
    excerpt = cut(shown.diff, telling(query.terms))
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
        combined_score=round(placed.score, DIGITS),
        matched=str(placed.found) if placed.found else None,
        weak=placed.weak,
    )


def recency(commit_date: datetime, query: Query) -> float:
    """The share by which a commit's age raises its score; a date in the future counts as today."""
    age = naive_utc(query.now) - commit_date
    days = max(0.0, age.total_seconds() / 86_400)
    return query.profile.recency * exp(-days / RECENCY_DAYS)


def meta(standing: Standing, query: Query, best: Sequence[Placed]) -> FindMeta:
    """What is to be said about an answer."""
    return FindMeta(
        index_status=index_state(standing),
        hint=" ".join(_hints(standing, query, best)) or None,
        compatibility=compatibility(standing.verdict),
        query_profile=query.explained,
    )


def _hints(standing: Standing, query: Query, best: Sequence[Placed]) -> Iterable[str]:
    if standing.verdict is None or not standing.commits:
        yield _unindexed(standing)
        return
    yield from index_hints(standing)
    if not best:
        yield _nothing_found(query.where)
        yield from _not_searched(standing)
    elif FUNCTION_WORDS.issuperset(query.terms):
        yield NOTHING_ASKED
    elif all(placed.weak for placed in best):
        yield _no_precedent(query.where)
        yield from _not_searched(standing)


def _not_searched(standing: Standing) -> Iterable[str]:
    """What may have been the answer, and is not in the index."""
    if standing.unreadable:
        lacking = unread.count(standing.unreadable)
        yield f"{lacking} could not be read and may be what was asked for. {unread.ASK}"


def _unindexed(standing: Standing) -> str:
    if standing.unreadable:
        return f"Nothing is indexed: {unread.count(standing.unreadable)} could not be read. {unread.ASK}"
    if standing.behind:
        return "This repository is not indexed yet: run `lineage index`."
    return "There is nothing to search: the repository has no commits that could be indexed."


def _no_precedent(where: Where) -> str:
    """What weak hits alone say: nothing about what the filters leave out."""
    if not where.narrows:
        return NO_PRECEDENT
    return f"Every hit is weak: nothing within the filters resembles it: {_filters(where)}. Ask without them."


def _nothing_found(where: Where) -> str:
    if not where.narrows:
        return "HEAD reaches no indexed change."
    return f"No indexed change passes the filters: {_filters(where)}.{_unknown_language(where.language)}"


def _filters(where: Where) -> str:
    """The filters that are set, as a person sets them."""
    filters: Mapping[str, str | None] = {
        "language": where.language,
        "since": said(where.since) if where.since else None,
        "path": where.path,
        "author": where.author,
    }
    return ", ".join(f"{name} {value!r}" for name, value in filters.items() if value is not None)


def _unknown_language(name: str | None) -> str:
    """What may have been meant by a language that no file can have."""
    if name is None or name in LANGUAGES.values():
        return ""
    near = get_close_matches(name, LANGUAGES, n=1)
    meant = (
        f"did you mean {LANGUAGES[near[0]]!r}?" if near else "languages are written like `python` or `py`."
    )
    return f" No language is called so: {meant}"
