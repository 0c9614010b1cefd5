"""A little real history under every protocol, with its real index."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from serve.search.features import Evidence
from stores.snapshot import Floats
from tests.eval import grading_pool, grep, handwritten, reliability, results
from tests.eval.__main__ import knowing, tell
from tests.eval.evaluation import RANKS, Evaluated, Run, evaluated, together
from tests.eval.handwritten import Answer, Written
from tests.eval.metrics import NDCG, scored
from tests.eval.protocols import Draw
from tests.eval.rankings import BASELINE, FUSION, RERANKED, Ranking
from tests.repos import Repo

CHANGES = {
    "Close the socket when the peer goes away": "def on_eof(socket):\n    socket.close()\n",
    "Read headers without regard to case": "def header(fields, name):\n    return fields[name.lower()]\n",
    "Give the cache a most number of entries": "class Cache:\n    def trim(self, most): self.entries.popitem()\n",
    "Tell how long a request took": "def elapsed(request):\n    return clock() - request.started\n",
}
SHEET = """
history = "somebody/little"
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
def little(tmp_path: Path) -> Repo:
    repo = Repo.create(tmp_path / "little")
    askers = ("Mechanics", "Librarians", "Surveyors", "Bakers")
    for number, (subject, source) in enumerate(CHANGES.items()):
        message = f"{subject}\n\n{askers[number]} wanted to have that for many years.\n"
        repo.commit_file(f"part{number}.py", source, message)
    return repo


class Backwards:
    """A reranker that turns fusion's order round."""

    def probabilities(self, evidence: Evidence) -> Floats:
        return np.linspace(0.1, 0.9, len(evidence.rows))


def first(ranks: pl.DataFrame, ranking: str) -> list[float]:
    return scored(ranks).filter(ranking=ranking)["MRR@10"].to_list()


def test_scrubbed_then_kept(little: Repo, tmp_path: Path) -> None:
    """Without messages the change itself answers; numbers are kept once however often they are measured."""
    run = Run("scrubbed", tmp_path / "folder", Draw(3, 1), reranker=Backwards())
    came = evaluated(little.path, run)
    names = set(came.ranks["ranking"])
    assert {FUSION, RERANKED, BASELINE} < names and grep.NAME not in names
    assert came.answerable["question"].n_unique() == 3
    assert sum(first(came.answerable, FUSION)) > sum(first(came.answerable, RERANKED))

    file = tmp_path / "results" / "results.csv"
    for _ in range(2):
        results.keep(came, run, "c" * 40, file)
    kept = pl.read_csv(file)
    assert list(kept.columns) == list(results.COLUMNS)
    assert len(kept) == len(names) * 5 and kept["n"].unique().to_list() == [3]
    assert kept["head"].unique().to_list() == [little.head]


def test_body_and_questions(little: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With messages `git log --grep` takes part; questions without an answer count only for calibration."""
    body = evaluated(little.path, Run("body", tmp_path / "folder", Draw(500, 1)))
    assert body.answerable["question"].n_unique() == len(CHANGES)
    assert first(body.answerable, grep.NAME) == [1.0] * len(CHANGES)

    sheets = tmp_path / "sheets"
    sheets.mkdir()
    answer = little.git("log", "-1", "--format=%H", "--grep=cache")
    sheets.joinpath("little.toml").write_text(
        SHEET.format(root=little.git("rev-list", "--max-parents=0", "HEAD"), head=little.head, answer=answer)
    )
    monkeypatch.setattr(handwritten, "FOLDER", sheets)
    little.commit_file("later.py", "cache = {}\n", "Limit the size of the cache again")
    run = Run("questions", tmp_path / "folder", Draw(500, 1))
    came = evaluated(little.path, run)
    assert came.commits == len(CHANGES), "a commit made since the questions were written takes part"
    assert came.answerable.filter(ranking=FUSION)[NDCG].to_list() == [1.0]
    assert knowing(came.ranks).filter(ranking=FUSION)["told apart (0.5: chance)"].to_list() == [1.0]
    tell(came, run)


def test_together() -> None:
    """Questions of several histories stay apart, so that rankings are compared question by question."""

    def of(history: str, *ranks: int) -> Evaluated:
        rows = [(number, True, FUSION, rank, 0.0, 1.0) for number, rank in enumerate(ranks)]
        said = [(number, 0.5, rank == 1) for number, rank in enumerate(ranks)]
        frames = (
            pl.DataFrame(rows, schema=RANKS, orient="row"),
            pl.DataFrame(said, schema=reliability.SAID, orient="row"),
        )
        return Evaluated(history, f"head of {history}", 10, *frames)

    both = together([of("b", 1, 2), of("a", 4)])
    assert (both.history, both.head, both.commits) == ("a + b", "head of a + head of b", 20)
    assert both.ranks.select("question", "rank").rows() == [(0, 1), (1, 2), (2, 4)]
    assert both.said.rows() == [(0, 0.5, True), (1, 0.5, False), (2, 0.5, False)]


def test_no_questions(little: Repo, tmp_path: Path) -> None:
    """A history that a protocol has no questions for is not indexed."""
    came = evaluated(little.path, Run("changelog", tmp_path / "folder", Draw(500, 1)))
    assert not len(came.ranks)
    assert not (tmp_path / "folder" / "home").exists()


def test_pool() -> None:
    """What the first ten bring and nobody judged is to be looked at, with who brought it; a twin's grade counts."""
    shas = [letter * 40 for letter in "abcdefghijkl"]
    answer = Answer("9" * 40, 3, "does it too")
    written = Written("how?", "api", (answer,), dismissed=("b" * 10,))
    judged = written.judged({answer.sha: shas[2]}.__getitem__)
    found = grading_pool.unjudged(judged, [Ranking("one", shas), Ranking("other", shas[:1])])
    assert list(found) == [shas[0], *shas[3:10]]
    assert found[shas[0]] == ["one", "other"]
