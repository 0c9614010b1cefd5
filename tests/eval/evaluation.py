"""One history under one protocol: prepared, indexed, asked; a row for every question and ranking."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final

import duckdb
import polars as pl

from pipeline.encoders.base import Encoder
from pipeline.encoders.cross_encoder import CrossEncoder
from pipeline.encoders.registry import bundled_encoder
from pipeline.git.repository import open_repository
from pipeline.options import Encoding
from serve.index_status import standing
from serve.search.rerank import ReadingRanker, Reranker
from tests.bench import indexes
from tests.bench.programs import git
from tests.eval import histories, reliability
from tests.eval.grep import Grep
from tests.eval.histories import Prepared
from tests.eval.metrics import NDCG, first_answer, gain
from tests.eval.protocols import PROTOCOLS, Draw, Material
from tests.eval.question import Question
from tests.eval.rankings import RERANKED, Asker, Compared, Ranking

# `rank` is null where no answer came; `best` where the ranking has no scores.
RANKS: Final = {
    "question": pl.Int64,
    "answerable": pl.Boolean,
    "ranking": pl.String,
    "rank": pl.Int64,
    NDCG: pl.Float64,
    "best": pl.Float64,
}


@cache
def cross_encoder() -> CrossEncoder:
    """The bundled one, in full precision, as the product has it."""
    return CrossEncoder()


@dataclass(frozen=True, slots=True)
class Run:
    """What to ask of whom: `folder` keeps working copies and indexes, made with the encoder of that name."""

    protocol: str
    folder: Path
    draw: Draw
    encoding: Encoding = Encoding.MINILM
    encoder: Callable[[Encoding], Encoder] = bundled_encoder
    reranker: Reranker = field(default_factory=lambda: ReadingRanker(cross_encoder))

    @property
    def home(self) -> Path:
        """Where the indexes are: each encoder's apart, so that both can be asked about one working copy."""
        return self.folder / ("home" if self.encoding is Encoding.MINILM else f"home-{self.encoding}")


def add_encoder(parser: ArgumentParser) -> None:
    """The option that says which of the bundled encoders a run has."""
    parser.add_argument(
        "--encoder",
        type=Encoding,
        choices=list(Encoding),
        default=Encoding.MINILM,
        help="index and ask with this one",
    )


@dataclass(frozen=True, slots=True, eq=False)
class Evaluated:
    """A history (its name, its HEAD, how many commits) and what came of asking it.

    `said` has what the reranker said of each commit it ranked, as `reliability.SAID`.
    """

    history: str
    head: str
    commits: int
    ranks: pl.DataFrame
    said: pl.DataFrame

    @property
    def answerable(self) -> pl.DataFrame:
        """The questions that have an answer."""
        return self.ranks.filter("answerable").drop("answerable")


def together(parts: Sequence[Evaluated]) -> Evaluated:
    """Several histories as one: each question weighs the same, wherever it was asked."""
    ranks, said, first = [], [], 0
    for part in parts:
        ranks.append(part.ranks.with_columns(pl.col("question") + first))
        said.append(part.said.with_columns(pl.col("question") + first))
        first += part.ranks["question"].n_unique()
    names = " + ".join(sorted(part.history for part in parts))
    heads = " + ".join(part.head for part in sorted(parts, key=lambda part: part.history))
    return Evaluated(names, heads, sum(part.commits for part in parts), pl.concat(ranks), pl.concat(said))


def evaluated(clone: Path, run: Run) -> Evaluated:
    """Ask one history; without questions nothing is indexed."""
    protocol = PROTOCOLS[run.protocol]
    prepared = histories.prepared(clone, run.folder, protocol.variant, protocol.head(clone))
    material = Material.of(prepared)
    questions = protocol.questions(material, run.draw)
    rows: list[tuple[object, ...]] = []
    said: list[tuple[object, ...]] = []
    if questions:
        histories.index(prepared, run.home, run.encoding)
        asked = zip(questions, answered(material, run, questions), strict=True)
        for number, (question, rankings) in enumerate(asked):
            rows += _rows(number, question, material, rankings)
            said += _said(number, question, material, rankings)
    ranks = pl.DataFrame(rows, schema=RANKS, orient="row")
    head = git(prepared.told, "rev-parse", "HEAD")
    about = (prepared.history.name, head, prepared.history.commits)
    hits = pl.DataFrame(said, schema=reliability.SAID, orient="row")
    return Evaluated(*about, ranks if protocol.graded else ranks.drop(NDCG), hits)


def answered(material: Material, run: Run, questions: Sequence[Question]) -> Iterator[list[Ranking]]:
    """Every ranking of each question, in original shas, near-identical commits counted as one."""
    counting = material.counting()
    with asking(material.prepared, run) as asker:
        for question in questions:
            yield [ranking.renamed(counting) for ranking in asker.rankings(question.text)]


@contextmanager
def asking(prepared: Prepared, run: Run) -> Iterator[Asker]:
    """A history's index, open to be asked."""
    with indexes.opened(prepared.path, run.home) as connection:
        yield _asker(connection, prepared, run)


def _asker(connection: duckdb.DuckDBPyConnection, prepared: Prepared, run: Run) -> Asker:
    reach = standing(open_repository(prepared.path), connection).reach
    grep = Grep(prepared.told) if PROTOCOLS[run.protocol].messages else None
    return Asker.of(
        connection, run.encoder(run.encoding), reach, Compared(_moment(prepared), grep, run.reranker)
    )


def _moment(prepared: Prepared) -> datetime:
    """Ages count from the newest commit, so that a question means the same next year."""
    seconds = git(prepared.told, "log", "-1", "--format=%ct", "HEAD")
    return datetime.fromtimestamp(int(seconds), UTC)


def _rows(
    number: int, question: Question, material: Material, rankings: Sequence[Ranking]
) -> Iterator[tuple[object, ...]]:
    asked = material.twins.asked(question)
    for ranking in rankings:
        rank = first_answer(ranking.commits, asked.answers)
        score = gain(ranking.commits, asked.grades)
        yield number, bool(asked.grades), ranking.name, rank, score, ranking.best


def _said(
    number: int, question: Question, material: Material, rankings: Sequence[Ranking]
) -> Iterator[tuple[object, ...]]:
    answers = material.twins.asked(question).answers
    for ranking in rankings:
        if ranking.name == RERANKED:
            for sha, probability in zip(ranking.commits, ranking.scores or (), strict=True):
                yield number, probability, sha in answers
