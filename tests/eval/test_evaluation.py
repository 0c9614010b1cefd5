"""Tests of the evaluation on a small real history with its index."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from serve.search.features import CandidateFeatures
from stores.snapshot import Floats
from tests.eval import grading_pool, judgments, reliability, results
from tests.eval.__main__ import compute_answerability, print_result
from tests.eval.baselines import BM25, GREP
from tests.eval.evaluation import RANKS, EvaluationResult, RunConfig, combine_results, evaluate_history
from tests.eval.judgments import Answer, HandwrittenQuery
from tests.eval.metrics import NDCG, add_metrics
from tests.eval.protocols import Sample
from tests.eval.rankings import FUSION, RERANKED, Ranking
from tests.repos import Repo

CHANGES = {
    "Close the socket when the peer goes away": "def on_eof(socket):\n    socket.close()\n",
    "Read headers without regard to case": "def header(fields, name):\n    return fields[name.lower()]\n",
    "Give the cache a most number of entries": "class Cache:\n    def trim(self, most): self.entries.popitem()\n",
    "Tell how long a request took": "def elapsed(request):\n    return clock() - request.started\n",
}
SHEET = """
history = "somebody/small"
language = "python"
root = "{root}"
head = "{head}"

[[questions]]
text = "how did we limit the size of the cache?"
kind = "implementation"
answers = [{{ sha = "{answer}", grade = 3, why = "drops entries beyond a limit" }}]

[[questions]]
text = "how was the printer driver written?"
kind = "none"
"""


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """Repository with four commits, each with a subject and a body."""
    repo = Repo.create(tmp_path / "small")
    teams = ("Mechanics", "Librarians", "Surveyors", "Bakers")
    for number, (subject, source) in enumerate(CHANGES.items()):
        message = f"{subject}\n\n{teams[number]} wanted to have that for many years.\n"
        repo.commit_file(f"part{number}.py", source, message)
    return repo


class ReverseReranker:
    """Reranker that reverses the order of fusion."""

    def predict(self, features: CandidateFeatures) -> Floats:
        """Return increasing probabilities."""
        return np.linspace(0.1, 0.9, len(features.matrix))


def compute_reciprocal_ranks(ranks: pl.DataFrame, ranking: str) -> list[float]:
    """Return the reciprocal rank of each query."""
    return add_metrics(ranks).filter(ranking=ranking)["MRR@10"].to_list()


def test_hidden_messages_and_results_file(repo: Repo, tmp_path: Path) -> None:
    """Without messages, the change itself is found; saving a result twice does not duplicate its rows."""
    config = RunConfig("scrubbed", tmp_path / "folder", Sample(3, 1), reranker=ReverseReranker())
    result = evaluate_history(repo.path, config)
    names = set(result.ranks["ranking"])
    assert {FUSION, RERANKED, BM25} < names and GREP not in names
    assert result.answerable_ranks["query"].n_unique() == 3
    assert sum(compute_reciprocal_ranks(result.answerable_ranks, FUSION)) > sum(
        compute_reciprocal_ranks(result.answerable_ranks, RERANKED)
    )

    file = tmp_path / "results" / "results.csv"
    for _ in range(2):
        results.save_result(result, config, "c" * 40, file)
    saved_rows = pl.read_csv(file)
    assert list(saved_rows.columns) == list(results.COLUMNS)
    assert len(saved_rows) == len(names) * 5 and saved_rows["n"].unique().to_list() == [3]
    assert saved_rows["head"].unique().to_list() == [repo.head]


def test_body_and_handwritten_queries(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With messages, `git log --grep` takes part; queries without an answer do not count for ranking metrics."""
    body = evaluate_history(repo.path, RunConfig("body", tmp_path / "folder", Sample(500, 1)))
    assert body.answerable_ranks["query"].n_unique() == len(CHANGES)
    assert compute_reciprocal_ranks(body.answerable_ranks, GREP) == [1.0] * len(CHANGES)

    sheets = tmp_path / "sheets"
    sheets.mkdir()
    answer = repo.git("log", "-1", "--format=%H", "--grep=cache")
    sheets.joinpath("small.toml").write_text(
        SHEET.format(root=repo.git("rev-list", "--max-parents=0", "HEAD"), head=repo.head, answer=answer)
    )
    monkeypatch.setattr(judgments, "SHEETS_FOLDER", sheets)
    repo.commit_file("later.py", "cache = {}\n", "Limit the size of the cache again")
    result = evaluate_history(repo.path, RunConfig("questions", tmp_path / "folder", Sample(500, 1)))
    assert result.commit_count == len(CHANGES), "a commit after the judged head was indexed"
    assert result.answerable_ranks.filter(ranking=FUSION)[NDCG].to_list() == [1.0]
    answerability = compute_answerability(result.ranks)
    assert answerability.filter(ranking=FUSION)["AUC (0.5: chance)"].to_list() == [1.0]
    print_result(result, "questions")
    monkeypatch.setattr(judgments, "DEVELOPMENT_FOLDER", sheets)
    parts = [
        evaluate_history(repo.path, RunConfig(protocol, tmp_path / "folder", Sample(500, 1)))
        for protocol in ("development", "held-out")
    ]
    assert [part.ranks["query"].n_unique() for part in parts] == [2, 0]
    assert [kind for kind, _ in parts[0].split_by_kind()] == ["implementation"]


def test_combine_results() -> None:
    """Names, HEADs and commit counts are combined; queries of several histories get distinct numbers."""

    def create_result(history: str, *ranks: int) -> EvaluationResult:
        rows = [(number, True, "", FUSION, rank, 0.0, 1.0) for number, rank in enumerate(ranks)]
        hits = [(number, 0.5, rank == 1) for number, rank in enumerate(ranks)]
        frames = (
            pl.DataFrame(rows, schema=RANKS, orient="row"),
            pl.DataFrame(hits, schema=reliability.HITS, orient="row"),
        )
        return EvaluationResult(history, f"head of {history}", 10, *frames)

    combined = combine_results([create_result("b", 1, 2), create_result("a", 4)])
    assert (combined.history, combined.head, combined.commit_count) == ("a + b", "head of a + head of b", 20)
    assert combined.ranks.select("query", "rank").rows() == [(0, 1), (1, 2), (2, 4)]
    assert combined.hits.rows() == [(0, 0.5, True), (1, 0.5, False), (2, 0.5, False)]


def test_no_queries(repo: Repo, tmp_path: Path) -> None:
    """A history without queries is not indexed."""
    result = evaluate_history(repo.path, RunConfig("changelog", tmp_path / "folder", Sample(500, 1)))
    assert not len(result.ranks)
    assert not (tmp_path / "folder" / "home").exists()


def test_pool() -> None:
    """The pool has the unjudged commits of the top 10; the grade of a near-duplicate counts as a judgment."""
    shas = [letter * 40 for letter in "abcdefghijkl"]
    answer = Answer("9" * 40, 3, "does it too")
    query = HandwrittenQuery("how?", "api", (answer,), dismissed=("b" * 10,))
    judged = query.list_judged({answer.sha: shas[2]}.__getitem__)
    rankings_by_sha = grading_pool.find_unjudged(judged, [Ranking("one", shas), Ranking("other", shas[:1])])
    assert list(rankings_by_sha) == [shas[0], *shas[3:10]]
    assert rankings_by_sha[shas[0]] == ["one", "other"]
