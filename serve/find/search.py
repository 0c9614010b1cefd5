"""The straight line of `find_pattern`: query, lanes, fusion, reranking, best hunk per commit, answer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from pipeline.encoder import Encoder, OnnxEncoder
from pipeline.git.repository import Repository, open_repository
from serve.answers import FindAnswer
from serve.errors import NeedsRebuild
from serve.find import answer, lanes, query
from serve.find.answer import best_of_each_commit
from serve.find.fuse import fuse
from serve.find.query import Query
from serve.find.rerank import FusionOrder, Reranker
from serve.find.seen import see
from serve.questions import FindRequest
from serve.standing import Standing, place_of, standing, without_index
from stores import database, showing, vectors
from stores.database import NotIndexed
from stores.metadata import REBUILD, Status
from stores.showing import Connection


def find_pattern(
    request: FindRequest,
    path: Path,
    home: Path,
    *,
    encoder: Callable[[], Encoder] = OnnxEncoder,
    reranker: Reranker | None = None,
    now: datetime | None = None,
) -> FindAnswer:
    """Commits of the repository at `path` whose changes resemble the request."""
    asked_at = now or datetime.now(UTC)
    query.check(request, asked_at)
    repository = open_repository(path)
    try:
        with database.reading(place_of(home, repository)) as connection:
            here = standing(repository, connection)
            return _answer(connection, request, here, asked_at, encoder, reranker or FusionOrder())
    except NotIndexed:
        return _nothing(request, repository, asked_at)


def _answer(
    connection: Connection,
    request: FindRequest,
    here: Standing,
    now: datetime,
    encoder: Callable[[], Encoder],
    reranker: Reranker,
) -> FindAnswer:
    _refuse_other_vectors(here)
    asked = query.read(request, now, showing.languages(connection).__contains__)
    if not here.commits:
        return FindAnswer((), answer.meta(here, asked, found=False))
    rankings = lanes.rank(connection, partial(see, connection, here.reach), asked, encoder())
    fused = fuse(rankings.lanes, asked.profile.candidates)
    ordered = (reranker if request.rerank else FusionOrder()).order(asked.text, fused)
    best = best_of_each_commit(ordered, asked.k)
    hunks = [candidate.hunk_id for candidate in best]
    snapshot, texts = rankings.seen.snapshot, rankings.seen.texts
    similar = vectors.similarities(connection, snapshot, texts, rankings.vector, hunks)
    shown = zip(best, showing.shown(connection, hunks), strict=True)
    hits = tuple(answer.hit(candidate, row, similar[row.hunk_id], asked) for candidate, row in shown)
    return FindAnswer(hits, answer.meta(here, asked, found=bool(hits)))


def _nothing(request: FindRequest, repository: Repository, now: datetime) -> FindAnswer:
    here = without_index(repository)
    asked: Query = query.read(request, now, lambda _: False)
    return FindAnswer((), answer.meta(here, asked, found=False))


def _refuse_other_vectors(here: Standing) -> None:
    if here.verdict and here.verdict.status is Status.NEEDS_REBUILD:
        raise NeedsRebuild(f"The index {here.verdict}.", hint=f"Run `{REBUILD}`.")
