"""Questions that the query encoder was trained on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import polars as pl

QUESTIONS: Final = Path(__file__).parents[3] / "pipeline" / "training" / "questions.tsv"


def test_questions() -> None:
    """Each line has the full sha of a commit, once, and two different questions of at least three words."""
    rows = pl.read_csv(QUESTIONS, separator="\t", quote_char=None).rows()
    assert len({sha for sha, *_ in rows}) == len(rows)
    for sha, question, paraphrase in rows:
        assert re.fullmatch("[0-9a-f]{40}", sha)
        assert question != paraphrase
        assert min(len(question.split()), len(paraphrase.split())) >= 3
