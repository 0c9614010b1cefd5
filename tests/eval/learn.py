"""The reranker's numbers, learnt from clones you name.

python -m tests.eval.learn CLONE... [--untold CLONE]... [--encoder NAME] [--samples N] [--seed N] [--folder FOLDER]

Of each history four kinds of questions are asked, over an index without its changelogs: what its news fragments say,
what a sentence of a commit's body says, what somebody wrote for one commit (`learning/`), and what somebody would ask
that several commits answer, with grades (`learning/sheets/`). Of those that are to be untold also subjects, over an
index without messages either, so that what a change itself says has a weight that holds where messages say little: of
one in five, for most histories tell what they did. What is known of their
candidates (`serve.search.features`) is weighed so that commits that answer come first: a softmax over the candidates of
a question, as listwise learning to rank has it (Cao et al., 2007). The sum is then made a probability (Platt, 1999),
for which each history is also asked questions of another one, which nothing there answers. Prints the numbers for
`serve/search/rerank.py`, and how probable what answers came out. With `--encoder` another encoder's indexes are asked.
Nothing of the histories' texts is kept.
"""

from __future__ import annotations

import argparse
import random
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from serve.search import features
from serve.search.features import FEATURES
from serve.search.rerank import FIT
from serve.search.retrieval import fuse
from stores.snapshot import Floats
from tests.bench.report import say, show, workspace
from tests.eval import histories, reliability
from tests.eval.evaluation import Run, add_encoder, asking, cross_encoder
from tests.eval.histories import Variant
from tests.eval.protocols import Draw, Material, by_body, by_changelog, by_hand, by_subject, written_at
from tests.eval.question import Question
from tests.eval.rankings import Asker

WRITTEN: Final = Path(__file__).parent / "learning"
SHEETS: Final = WRITTEN / "sheets"
# A history with many bodies must not drown what was written for it.
SAMPLES: Final = 150
SEED: Final = 1
# Of 0.01, 0.03, 0.1 and 0.2 the last gave the best order on histories that were not learnt from; none was far off.
DECAY: Final = 0.2
STEPS: Final = 1_000
RATE: Final = 0.02


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """One question's: a row of evidence for each, what was read of it last, and the grade of its commit.

    A grade of 0 says that it answers nothing.
    """

    rows: Floats
    grades: Floats

    @property
    def unread(self) -> Candidates:
        """The same without what was read."""
        return Candidates(self.rows[:, : len(FEATURES)], self.grades)


@dataclass(frozen=True, slots=True, eq=False)
class Learnt:
    """A weight for each feature, and what is added to their sum."""

    weights: Floats
    bias: float

    def probabilities(self, rows: Floats) -> Floats:
        """How probable it is that each row's commit answers."""
        return np.asarray(1 / (1 + np.exp(-(rows @ self.weights + self.bias))))


@dataclass(frozen=True, slots=True)
class History:
    """What is learnt from: a history, as far as an index may know it, and its questions."""

    material: Material
    questions: tuple[Question, ...]

    @classmethod
    def told(cls, clone: Path, draw: Draw, folder: Path) -> History:
        """Without announcements of changes."""
        material = Material.of(
            histories.prepared(clone, folder, Variant.UNANNOUNCED, written_at(clone, SHEETS))
        )
        kinds = (
            by_changelog(material, draw)[: draw.samples],
            by_body(material, draw),
            by_somebody(material),
            by_hand(material, draw, SHEETS),
        )
        return cls(material, tuple(question for kind in kinds for question in kind))

    @classmethod
    def untold(cls, clone: Path, draw: Draw, folder: Path) -> History:
        """Without messages."""
        material = Material.of(histories.prepared(clone, folder, Variant.SCRUBBED, written_at(clone, SHEETS)))
        return cls(material, tuple(by_subject(material, draw)))

    @property
    def name(self) -> str:
        """The same for all that is made of one clone."""
        return self.material.prepared.history.name


def main() -> None:
    parser = _parser()
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = given.folder or stack.enter_context(workspace())
        draw = Draw(given.samples, given.seed)
        run = Run("changelog", folder, draw, given.encoder)
        told = [History.told(clone, draw, folder) for clone in given.clones]
        untold = [History.untold(clone, draw, folder) for clone in given.untold]
        candidates = [
            one for history in (*told, *untold) for one in asked(history, _foreign(history, told, draw), run)
        ]
    if not any(one.grades.any() for one in candidates):
        parser.error("nothing these histories are asked has an answer in them to learn from")
    tell("by evidence alone", [one.unread for one in candidates])
    tell("by evidence and what was read", candidates)


def tell(what: str, candidates: Sequence[Candidates]) -> None:
    """The numbers of one of the rankers, and how honest it is."""
    learnt = calibrated(weighed(candidates), candidates)
    say(f"\n{what}")
    for feature, weight in zip((*FEATURES, FIT), learnt.weights, strict=False):
        say(f'    "{feature}": {weight:.3f},')
    say(f"bias {learnt.bias:.3f}")
    show(honesty(learnt, candidates))


def by_somebody(material: Material) -> list[Question]:
    """The questions that somebody wrote for commits of this history."""
    texts = written()
    return [
        Question.answered(texts[commit.sha], [commit.sha])
        for commit in material.commits
        if commit.sha in texts
    ]


@cache
def written() -> Mapping[str, str]:
    """Every written question by the commit it asks for, whichever history that is in."""
    files = (tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(WRITTEN.glob("*.toml")))
    return {sha: text for file in files for sha, text in file.items()}


def asked(history: History, foreign: Sequence[Question], run: Run) -> Iterator[Candidates]:
    """The candidates of each of a history's questions, and of questions that it does not answer."""
    prepared = history.material.prepared
    histories.index(prepared, run.home, run.encoding)
    with asking(prepared, run) as asker:
        counting = history.material.counting()
        for question in (*history.questions, *foreign):
            counted = history.material.twins.asked(question)
            yield from candidates_of(asker, counted, counting)


def candidates_of(asker: Asker, question: Question, counting: Callable[[str], str]) -> Iterator[Candidates]:
    """What is known of a question's candidates; none where no lane finds any."""
    query = asker.query(question.text)
    rankings = asker.ranked(query)
    fused = fuse(rankings.lanes, query.profile.candidates)
    if fused:
        ones = (counting(candidate.commit_sha) for candidate in fused)
        known = features.gather(asker.index, query, rankings, fused)
        fits = cross_encoder().scores(known.pairs.question, known.pairs.changes())
        grades = np.array([question.grades.get(sha, 0) for sha in ones], np.float64)
        yield Candidates(np.column_stack((known.rows, fits)), grades)


def weighed(candidates: Sequence[Candidates]) -> Floats:
    """A weight for each feature, in its unit: those that put what answers before what does not."""
    lists = [one for one in candidates if one.grades.any()]
    rows = np.concatenate([one.rows for one in lists])
    starts = np.cumsum([0, *(len(one.rows) for one in lists[:-1])])
    wanted = np.concatenate([(2**one.grades - 1) / (2**one.grades - 1).sum() for one in lists])
    spread = np.where(rows.std(axis=0) > 0, rows.std(axis=0), 1)
    rows /= spread
    weights, first, second = np.zeros((3, rows.shape[1]))
    for step in range(1, STEPS + 1):
        slope = (_shares(rows @ weights, starts) - wanted) @ rows / len(lists) + DECAY * weights
        # Adam (Kingma and Ba, 2015), whose steps need no tuning.
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
        weights = weights - RATE * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
        weights = np.maximum(weights, 0)  # more of anything never speaks against a hit
    return np.asarray(weights / spread)


def _shares(scores: Floats, starts: npt.NDArray[np.int64]) -> Floats:
    """The softmax of each question's scores; questions begin at `starts`."""
    sizes = np.diff([*starts, len(scores)])
    raised = np.exp(scores - np.repeat(np.maximum.reduceat(scores, starts), sizes))
    return np.asarray(raised / np.repeat(np.add.reduceat(raised, starts), sizes))


def calibrated(weights: Floats, candidates: Sequence[Candidates]) -> Learnt:
    """The same order as probabilities: scale and offset under which what answered is likeliest (Newton's method)."""
    scores = np.concatenate([one.rows @ weights for one in candidates])
    answers = np.concatenate([one.grades > 0 for one in candidates])
    columns = np.column_stack((scores, np.ones_like(scores)))
    fitted = np.zeros(2)
    for _ in range(50):
        likely = 1 / (1 + np.exp(-(columns @ fitted)))
        curvature = columns.T @ (columns * (likely * (1 - likely))[:, None])
        fitted = fitted + np.linalg.solve(curvature, columns.T @ (answers - likely))
    scale, offset = fitted
    return Learnt(weights * scale, float(offset))


def honesty(learnt: Learnt, candidates: Sequence[Candidates]) -> pl.DataFrame:
    """What was said of candidates beside what is so, as `reliability.table` has it."""
    said = np.concatenate([learnt.probabilities(one.rows) for one in candidates])
    return reliability.table(said, np.concatenate([one.grades > 0 for one in candidates]))


def _foreign(history: History, told: Sequence[History], draw: Draw) -> list[Question]:
    """Questions of the other histories, as many as half of its own, without their answers."""
    texts = [question.text for other in told if other.name != history.name for question in other.questions]
    chance = random.Random(draw.seed)  # noqa: S311 - a repeatable draw, nothing secret
    chosen = chance.sample(texts, min(len(texts), len(history.questions) // 2))
    return [Question(text, {}) for text in chosen]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.eval.learn",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("clones", nargs="+", type=Path, metavar="CLONE", help="a local clone, bare or not")
    parser.add_argument(
        "--untold", action="append", default=[], type=Path, metavar="CLONE", help="asked without messages too"
    )
    add_encoder(parser)
    parser.add_argument("--samples", type=int, default=SAMPLES, help="most questions of one kind and history")
    parser.add_argument("--seed", type=int, default=SEED, help="which questions are drawn")
    parser.add_argument("--folder", type=Path, help="keep working copies and indexes here")
    return parser


if __name__ == "__main__":
    main()
