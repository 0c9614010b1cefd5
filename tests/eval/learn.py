"""Fit the reranker's weights on local clones.

python -m tests.eval.learn CLONE... [--without-messages CLONE]... [--encoder NAME] [--samples N] [--seed N]
                           [--folder FOLDER]

Four kinds of queries run on an index without changelogs: news fragments, sentences of message bodies, queries written
for one commit (`learning/`), and graded queries with several relevant commits (`learning/sheets/`). For the clones of
`--without-messages`, subjects run on an index without messages too, so that features of the change itself get a weight
that holds for terse messages. Choose one history in five for it: most histories have good messages.

The weights of the features (`serve.search.features`) minimize a listwise softmax loss over the candidates of each
query (Cao et al., 2007). The weighted sum is then calibrated to a probability (Platt, 1999). For the calibration, each
history also runs queries of the other histories, which have no answer there. The weight of the cross-encoder is fitted
to the likeliest candidates, with the weighted sum as the only other feature.

Prints the weights for `serve/search/rerank.py`, and the calibration. No text of the histories is saved.
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
from serve.search.features import CROSS_ENCODER_COMMITS, FEATURES
from serve.search.retrieval import select_candidates
from stores.snapshot import Floats
from tests.bench.report import create_temporary_directory, print_line, print_table
from tests.eval import reliability
from tests.eval.evaluation import RunConfig, add_run_options, load_cross_encoder, open_ranker
from tests.eval.histories import Variant, prepare_evaluation_copy, update_index
from tests.eval.judgments import JudgedQuery
from tests.eval.protocols import (
    QuerySource,
    Sample,
    create_body_queries,
    create_changelog_queries,
    create_subject_queries,
    find_judged_head,
    load_handwritten_queries,
)
from tests.eval.rankings import Ranker

COMMIT_QUERIES_FOLDER: Final = Path(__file__).parent / "learning"
SHEETS_FOLDER: Final = COMMIT_QUERIES_FOLDER / "sheets"
# Limits each kind of query, so that histories with many bodies do not outweigh the handwritten queries.
SAMPLES: Final = 150
SEED: Final = 1
# L2 regularization. Of 0.01, 0.03, 0.1 and 0.2 the last ranked held-out histories best; the differences were small.
WEIGHT_DECAY: Final = 0.2
STEPS: Final = 1_000
LEARNING_RATE: Final = 0.02


@dataclass(frozen=True, slots=True, eq=False)
class CandidateList:
    """Candidates of one query: a row of features each (the cross-encoder's score last) and grades (0: irrelevant)."""

    features: Floats
    grades: Floats

    def without_cross_encoder(self) -> CandidateList:
        """Return the candidates without the last feature."""
        return CandidateList(self.features[:, : len(FEATURES)], self.grades)


@dataclass(frozen=True, slots=True, eq=False)
class LogisticModel:
    """Weight of each feature, and bias."""

    weights: Floats
    bias: float

    def predict(self, rows: Floats) -> Floats:
        """Return the probability that each candidate is relevant."""
        return np.asarray(1 / (1 + np.exp(-(rows @ self.weights + self.bias))))


@dataclass(frozen=True, slots=True)
class TrainingHistory:
    """Variant of a history, and its queries."""

    source: QuerySource
    queries: tuple[JudgedQuery, ...]

    @classmethod
    def with_messages(cls, clone: Path, sample: Sample, folder: Path) -> TrainingHistory:
        """Return the history without changelogs and its four kinds of queries."""
        source = _prepare_source(clone, folder, Variant.NO_CHANGELOGS)
        kinds = (
            create_changelog_queries(source, sample)[: sample.size],
            create_body_queries(source, sample),
            select_commit_queries(source),
            load_handwritten_queries(source, sample, SHEETS_FOLDER),
        )
        return cls(source, tuple(query for kind in kinds for query in kind))

    @classmethod
    def without_messages(cls, clone: Path, sample: Sample, folder: Path) -> TrainingHistory:
        """Return the history without messages and a sample of its commit subjects."""
        source = _prepare_source(clone, folder, Variant.NO_MESSAGES)
        return cls(source, tuple(create_subject_queries(source, sample)))

    @property
    def name(self) -> str:
        """Name of the history, the same for all its variants."""
        return self.source.copy.history.name


def _prepare_source(clone: Path, folder: Path, variant: Variant) -> QuerySource:
    copy = prepare_evaluation_copy(clone, folder, variant, find_judged_head(clone, SHEETS_FOLDER))
    return QuerySource.from_evaluation_copy(copy)


def main() -> None:
    """Run the command."""
    parser = _create_parser()
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = arguments.folder or stack.enter_context(create_temporary_directory())
        sample = Sample(arguments.samples, arguments.seed)
        config = RunConfig("changelog", folder, sample, arguments.encoder)
        with_messages = [TrainingHistory.with_messages(clone, sample, folder) for clone in arguments.clones]
        without_messages = [
            TrainingHistory.without_messages(clone, sample, folder) for clone in arguments.without_messages
        ]
        lists = [
            candidates
            for history in (*with_messages, *without_messages)
            for candidates in collect_candidates(
                history, _sample_foreign(history, with_messages, sample.seed), config
            )
        ]
    if not any(candidates.grades.any() for candidates in lists):
        parser.error("No query of these histories has a relevant candidate. Give other or more clones.")
    feature_lists = [candidates.without_cross_encoder() for candidates in lists]
    model = calibrate(fit_weights(feature_lists), feature_lists)
    for feature, weight in zip(FEATURES, model.weights, strict=True):
        print_line(f'    "{feature}": {weight:.3f},')
    print_line(f"bias {model.bias:.3f}")
    print_table(measure_calibration(model, feature_lists))
    weight, mean = fit_cross_encoder(model, lists)
    print_line(f"cross-encoder: weight {weight:.3f}, mean {mean:.3f}")


def select_commit_queries(source: QuerySource) -> list[JudgedQuery]:
    """Return the handwritten queries for single commits of this history."""
    texts = load_commit_queries()
    return [
        JudgedQuery.with_relevant(texts[commit.sha], [commit.sha])
        for commit in source.commits
        if commit.sha in texts
    ]


@cache
def load_commit_queries() -> Mapping[str, str]:
    """Load the handwritten query of each commit, for all histories."""
    paths = sorted(COMMIT_QUERIES_FOLDER.glob("*.toml"))
    files = (tomllib.loads(path.read_text(encoding="utf-8")) for path in paths)
    return {sha: text for file in files for sha, text in file.items()}


def collect_candidates(
    history: TrainingHistory, foreign: Sequence[JudgedQuery], config: RunConfig
) -> Iterator[CandidateList]:
    """Yield the candidates of each query of the history, and of the foreign queries. Indexes the history first."""
    source = history.source
    update_index(source.copy, config.index_home, config.encoder_name)
    with open_ranker(source.copy, config) as ranker:
        mapper = source.create_sha_mapper()
        for query in (*history.queries, *foreign):
            yield from compute_candidates(ranker, source.duplicates.merge_judgments(query), mapper)


def compute_candidates(
    ranker: Ranker, query: JudgedQuery, mapper: Callable[[str], str]
) -> Iterator[CandidateList]:
    """Yield the candidates of a query, or nothing if there are none. `mapper` maps indexed to judged shas."""
    parsed = ranker.parse_query(query.text)
    results = ranker.run_retrievers(parsed)
    candidates = select_candidates(results, parsed)
    if candidates:
        candidate_features = features.compute_features(ranker.index, parsed, results, candidates)
        inputs = candidate_features.rerank_inputs
        scores = load_cross_encoder().score_changes(
            inputs.question, inputs.load_changes(range(len(candidates)))
        )
        grades = [query.grades.get(mapper(candidate.commit_sha), 0) for candidate in candidates]
        yield CandidateList(
            np.column_stack((candidate_features.matrix, scores)), np.array(grades, np.float64)
        )


def fit_weights(lists: Sequence[CandidateList]) -> Floats:
    """Fit a non-negative weight for each feature so that relevant candidates rank first (listwise softmax loss)."""
    lists = [candidates for candidates in lists if candidates.grades.any()]
    rows = np.concatenate([candidates.features for candidates in lists])
    starts = np.cumsum([0, *(len(candidates.features) for candidates in lists[:-1])])
    gains = [2**candidates.grades - 1 for candidates in lists]
    targets = np.concatenate([gain / gain.sum() for gain in gains])
    deviation = np.where(rows.std(axis=0) > 0, rows.std(axis=0), 1)
    rows /= deviation
    weights, mean_gradient, mean_square = np.zeros((3, rows.shape[1]))
    for step in range(1, STEPS + 1):
        gradient = (_softmax(rows @ weights, starts) - targets) @ rows / len(lists) + WEIGHT_DECAY * weights
        # Adam (Kingma and Ba, 2015) with its default parameters.
        mean_gradient = 0.9 * mean_gradient + 0.1 * gradient
        mean_square = 0.999 * mean_square + 0.001 * gradient**2
        update = (mean_gradient / (1 - 0.9**step)) / (np.sqrt(mean_square / (1 - 0.999**step)) + 1e-8)
        # Each feature is evidence for relevance, never against it.
        weights = np.maximum(weights - LEARNING_RATE * update, 0)
    return np.asarray(weights / deviation)


def fit_cross_encoder(model: LogisticModel, lists: Sequence[CandidateList]) -> tuple[float, float]:
    """Return the weight of the cross-encoder's score relative to the model's logit, and the mean score.

    Of each query, only the likeliest `CROSS_ENCODER_COMMITS` candidates count.
    """
    columns = []
    for candidates in lists:
        logits = candidates.without_cross_encoder().features @ model.weights + model.bias
        rows = np.argsort(-logits, kind="stable")[:CROSS_ENCODER_COMMITS]
        scores = candidates.features[rows, -1]
        columns.append(CandidateList(np.column_stack((logits[rows], scores)), candidates.grades[rows]))
    logit_weight, score_weight = fit_weights(columns)
    mean = np.concatenate([candidates.features[:, 1] for candidates in columns]).mean()
    return float(score_weight / (logit_weight or 1)), float(mean)


def _softmax(scores: Floats, starts: npt.NDArray[np.int64]) -> Floats:
    """Return the softmax of each query's scores; `starts` has the first position of each query."""
    sizes = np.diff([*starts, len(scores)])
    exponentials = np.exp(scores - np.repeat(np.maximum.reduceat(scores, starts), sizes))
    return np.asarray(exponentials / np.repeat(np.add.reduceat(exponentials, starts), sizes))


def calibrate(weights: Floats, lists: Sequence[CandidateList]) -> LogisticModel:
    """Scale the weights and add a bias, by maximum likelihood (Newton's method). The order stays the same."""
    scores = np.concatenate([candidates.features @ weights for candidates in lists])
    is_relevant = np.concatenate([candidates.grades > 0 for candidates in lists])
    columns = np.column_stack((scores, np.ones_like(scores)))
    parameters = np.zeros(2)
    for _ in range(50):
        probabilities = 1 / (1 + np.exp(-(columns @ parameters)))
        hessian = columns.T @ (columns * (probabilities * (1 - probabilities))[:, None])
        parameters = parameters + np.linalg.solve(hessian, columns.T @ (is_relevant - probabilities))
    scale, bias = parameters
    return LogisticModel(weights * scale, float(bias))


def measure_calibration(model: LogisticModel, lists: Sequence[CandidateList]) -> pl.DataFrame:
    """Return the table of `reliability.bin_probabilities` for the model's probabilities."""
    probabilities = np.concatenate([model.predict(candidates.features) for candidates in lists])
    is_relevant = np.concatenate([candidates.grades > 0 for candidates in lists])
    return reliability.bin_probabilities(probabilities, is_relevant)


def _sample_foreign(
    history: TrainingHistory, histories: Sequence[TrainingHistory], seed: int
) -> list[JudgedQuery]:
    """Return queries of other histories, which have no answer in this one: at most half as many as its own."""
    texts = [query.text for other in histories if other.name != history.name for query in other.queries]
    generator = random.Random(seed)  # noqa: S311 - a repeatable sample, nothing secret
    sample = generator.sample(texts, min(len(texts), len(history.queries) // 2))
    return [JudgedQuery(text, {}) for text in sample]


def _create_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.eval.learn",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_run_options(parser, SAMPLES, SEED)
    parser.add_argument(
        "--without-messages",
        action="append",
        default=[],
        type=Path,
        metavar="CLONE",
        help="clone to fit on without messages too",
    )
    return parser


if __name__ == "__main__":
    main()
