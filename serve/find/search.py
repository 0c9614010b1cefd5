"""The straight line of `find_pattern`: query, lanes, fusion, reranking, best hunk per commit, answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from pipeline.encoder import Encoder
from pipeline.encoders import bundled_encoder
from pipeline.git.repository import Repository, open_repository
from pipeline.modes import Encoding
from serve.answers import FindAnswer, PatternHit
from serve.errors import NeedsRebuild
from serve.find import answer, evidence, lanes, query
from serve.find.best import best_of_each_commit
from serve.find.fuse import Candidate, fuse
from serve.find.hints import NOTHING_HERE, Here
from serve.find.kept import MOST_BYTES, Holding, Kept, State
from serve.find.lanes import Rankings
from serve.find.query import Query
from serve.find.rerank import EvidenceRanker, Placed, Reranker, by_evidence, by_fusion
from serve.find.seen import Seen
from serve.placing import place_of
from serve.questions import FindRequest
from serve.standing import Standing, standing, without_index
from stores import showing, vectors
from stores.database import NotIndexed
from stores.metadata import REBUILD, Status
from stores.places import Place
from stores.reading import Opened
from stores.showing import Connection


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
                holds = partial(showing.has_path, opened.connection)
                asked = query.read(
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
            return FindAnswer((), answer.meta(here, asked, ()))
        rankings = lanes.rank(connection, seeing, asked, self._encoder(here.encoding))
        fused = fuse(rankings.lanes, asked.profile.candidates)
        placed = ordered(connection, asked, rankings, fused, reranker)
        best = best_of_each_commit(placed, asked.k, asked.roles)
        return FindAnswer(_hits(connection, best, rankings, asked), answer.meta(here, asked, best))


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
    known = evidence.gather(connection, asked, rankings, fused)
    return by_evidence(fused, known, reranker, lambda one: answer.recency(one.commit_date, asked))


def _hits(
    connection: Connection, best: Sequence[Placed], rankings: Rankings, asked: Query
) -> tuple[PatternHit, ...]:
    hunks = [placed.candidate.hunk_id for placed in best]
    seen = rankings.seen
    similar = vectors.similarities(connection, seen.snapshot, seen.texts, rankings.vector, hunks)
    shown = zip(best, rankings.shelf.of(hunks), strict=True)
    return tuple(answer.hit(placed, row, similar[row.hunk_id], asked) for placed, row in shown)


def _nothing(request: FindRequest, repository: Repository, now: datetime) -> FindAnswer:
    here = without_index(repository)
    asked: Query = query.read(request, now, replace(NOTHING_HERE, root=_root(repository)))
    return FindAnswer((), answer.meta(here, asked, ()))


def _root(repository: Repository) -> Path | None:
    """Where people can have typed paths of the history."""
    return None if repository.is_bare else repository.root


def _refuse_other_vectors(here: Standing) -> None:
    if here.verdict and here.verdict.status is Status.NEEDS_REBUILD:
        raise NeedsRebuild(f"The index {here.verdict}.", hint=f"Run `{REBUILD}`.")
