"""Training of the query encoder: its questions and the encoded changes."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from pipeline.encoders.base import OnnxEncoder
from tests.repos import Repo

QUESTIONS = Path(__file__).parents[3] / "pipeline" / "training" / "questions.tsv"


def test_questions() -> None:
    """Each line has the full sha of a commit, once, and two different questions of at least three words."""
    rows = pl.read_csv(QUESTIONS, separator="\t", quote_char=None).rows()
    assert len({sha for sha, *_ in rows}) == len(rows)
    for sha, question, paraphrase in rows:
        assert re.fullmatch("[0-9a-f]{40}", sha)
        assert question != paraphrase
        assert min(len(question.split()), len(paraphrase.split())) >= 3


def test_encoded_changes(repo: Repo, tmp_path: Path) -> None:
    """The file has the changes of the answer and of the other commits; a question's score is highest for its answer."""
    pytest.importorskip("torch")
    from pipeline.training.train_query_encoder import EncodedChanges, encode_changes

    repo.commit_file(
        "a.py", "def connect(timeout):\n    settimeout(timeout)\n", "Add a timeout to connections"
    )
    answer = repo.commit_file(
        "b.py", "def render(locale):\n    translate(locale)\n", "Translate the pages of readers"
    )
    encode_changes(repo.path, frozenset([answer]), tmp_path / "r.npz", seed=1)
    changes = EncodedChanges.read(tmp_path / "r.npz")
    assert changes.shas[0] == answer
    assert len(changes.vectors) == len(changes.commits) > 1
    import torch

    queries = torch.tensor(OnnxEncoder().encode(["pages in the reader's language"]))
    assert int(changes.commits[changes.score(queries).argmax()]) == 0
    losses = [float(changes.compute_loss(queries, torch.tensor([index]))) for index in (0, 1)]
    assert losses[0] < losses[1]
