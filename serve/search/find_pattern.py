"""The answer: hits and what is to be said about them.

The straight line of `find_pattern`: query, lanes, fusion, reranking, best hunk per commit, answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import partial
from math import exp
from pathlib import Path
from typing import Final

from pipeline.encoders.base import Encoder
from pipeline.encoders.registry import bundled_encoder
from pipeline.git.repository import Repository, open_repository
from pipeline.options import Encoding
from serve import text
from serve.api_types import FindAnswer, FindMeta, FindRequest, PatternHit, rfc3339
from serve.errors import NeedsRebuild
from serve.index_status import (
    Standing,
    compatibility_fields,
    cut,
    index_hints,
    index_state,
    standing,
    without_index,
)
from serve.repositories import place_of
from serve.search import features, query, retrieval
from serve.search.cache import MOST_BYTES, Holding, Kept, Seen, State
from serve.search.query import Query
from serve.search.query_hints import FUNCTION_WORDS, LANGUAGES, NOTHING_HERE, Here, said, telling
from serve.search.rerank import EvidenceRanker, Placed, Reranker, best_of_each_commit, by_evidence, by_fusion
from serve.search.retrieval import Candidate, Rankings, fuse
from stores import hunk_details, vector_search
from stores.compatibility import REBUILD, Status
from stores.connections import Opened
from stores.database import NotIndexed
from stores.filters import Where, naive_utc
from stores.hunk_details import Connection, Shown
from stores.index_location import Place

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
        compatibility=compatibility_fields(standing.verdict),
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
        lacking = text.count(standing.unreadable)
        yield f"{lacking} could not be read and may be what was asked for. {text.ASK}"


def _unindexed(standing: Standing) -> str:
    if standing.unreadable:
        return f"Nothing is indexed: {text.count(standing.unreadable)} could not be read. {text.ASK}"
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


def find_pattern(
    request: FindRequest,
    path: Path,
    home: Path,
    *,
    encoder: Callable[[Encoding], Encoder] = bundled_encoder,
    reranker: Reranker | None = None,
    now: datetime | None = None,
) -> FindAnswer:
    """Commits of the repository at `path` whose changes resemble the request; nothing is kept."""
    with closing(Finder(home, encoder=encoder)) as finder:
        return finder.find(request, path, now, reranker=reranker)


class Finder:
    """Answers, and keeps at hand what the next question about the same index needs; for use by several threads.

    Indexes are under `home`; `encoder` is asked at each question for the one that made the index, so that its
    owner may unload it.
    """

    def __init__(
        self,
        home: Path,
        *,
        encoder: Callable[[Encoding], Encoder] = bundled_encoder,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.home = home
        self._encoder = encoder
        self._kept = Kept(most_bytes)

    def find(
        self,
        request: FindRequest,
        path: Path,
        now: datetime | None = None,
        *,
        reranker: Reranker | None = None,
    ) -> FindAnswer:
        """Commits of the repository at `path` whose changes resemble the request.

        `reranker` orders them; without one the evidence alone does.
        """
        asked_at = now or datetime.now(UTC)
        query.check(request, asked_at)
        repository = open_repository(path)
        place = place_of(self.home, repository)
        try:
            with self._kept.question(place) as opened:
                said = self._kept.said(place, opened)
                here = standing(repository, opened.connection, said.noted)
                holds = partial(hunk_details.has_path, opened.connection)
                asked = query.parse_query(
                    request, asked_at, Here(said.languages.__contains__, holds, _root(repository))
                )
                ranker = (reranker or EvidenceRanker()) if request.rerank else None
                return self._answer(opened.connection, asked, ranker, here, self._seeing(place, opened, here))
        except NotIndexed:
            self._kept.forget(place)
            return _nothing(request, repository, asked_at)

    def holdings(self) -> tuple[Holding, ...]:
        """What is kept of which index."""
        return self._kept.holdings()

    def close(self) -> None:
        """Forget what is kept; a later question brings back what it needs."""
        self._kept.close()

    def _seeing(self, place: Place, opened: Opened, here: Standing) -> Callable[[], Seen]:
        state = State(place, opened.fingerprint, here.reach)
        return partial(self._kept.see, state, opened.connection)

    def _answer(
        self,
        connection: Connection,
        asked: Query,
        reranker: Reranker | None,
        here: Standing,
        seeing: Callable[[], Seen],
    ) -> FindAnswer:
        _refuse_other_vectors(here)
        if not here.commits:
            return FindAnswer((), meta(here, asked, ()))
        rankings = retrieval.rank(connection, seeing, asked, self._encoder(here.encoding))
        fused = fuse(rankings.lanes, asked.profile.candidates)
        placed = ordered(connection, asked, rankings, fused, reranker)
        best = best_of_each_commit(placed, asked.k, asked.roles)
        return FindAnswer(_hits(connection, best, rankings, asked), meta(here, asked, best))


def ordered(
    connection: Connection,
    asked: Query,
    rankings: Rankings,
    fused: Sequence[Candidate],
    reranker: Reranker | None,
) -> list[Placed]:
    """The candidates in the order they are shown: fusion's where there is no reranker."""
    if reranker is None or not fused:
        return by_fusion(fused)
    known = features.gather(connection, asked, rankings, fused)
    return by_evidence(fused, known, reranker, lambda one: recency(one.commit_date, asked))


def _hits(
    connection: Connection, best: Sequence[Placed], rankings: Rankings, asked: Query
) -> tuple[PatternHit, ...]:
    hunks = [placed.candidate.hunk_id for placed in best]
    seen = rankings.seen
    similar = vector_search.similarities(connection, seen.snapshot, seen.texts, rankings.vector, hunks)
    shown = zip(best, rankings.shelf.of(hunks), strict=True)
    return tuple(hit(placed, row, similar[row.hunk_id], asked) for placed, row in shown)


def _nothing(request: FindRequest, repository: Repository, now: datetime) -> FindAnswer:
    here = without_index(repository)
    asked: Query = query.parse_query(request, now, replace(NOTHING_HERE, root=_root(repository)))
    return FindAnswer((), meta(here, asked, ()))


def _root(repository: Repository) -> Path | None:
    """Where people can have typed paths of the history."""
    return None if repository.is_bare else repository.root


def _refuse_other_vectors(here: Standing) -> None:
    if here.verdict and here.verdict.status is Status.NEEDS_REBUILD:
        raise NeedsRebuild(f"The index {here.verdict}.", hint=f"Run `{REBUILD}`.")
