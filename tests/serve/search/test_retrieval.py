"""Order of the vector lane by hunk and message similarity."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from serve.search.retrieval import order_with_messages
from stores.compatibility import EMBEDDING_DIMENSION
from stores.snapshot import RankedHunk
from stores.vector_search import MESSAGE_WEIGHT, CommitMessages
from stores.vectors import quantize
from tests.repos import FIRST_DATE
from tests.stores.sample_index import make_unit_vector

QUERY = make_unit_vector(1).astype(np.float32)


def make_hunks(*scores: float) -> list[RankedHunk]:
    """Return hunks of commits `0`, `1`, ... with these similarities."""
    return [RankedHunk(n, score, FIRST_DATE, str(n), "a.py") for n, score in enumerate(scores)]


def make_messages(*cosines: float) -> CommitMessages:
    """Return messages of commits `0`, `1`, ... with these similarities to the query."""
    rows = [make_unit_vector(cosine, (1 - cosine**2) ** 0.5).astype(np.float32) for cosine in cosines]
    rows_by_sha = {str(n): n for n in range(len(rows))}
    texts = pa.chunked_array([[""] * len(rows)], pa.string())
    return CommitMessages(rows_by_sha, texts, quantize(np.array(rows).reshape(-1, EMBEDDING_DIMENSION)))


@pytest.mark.parametrize(
    ("hunks", "messages", "order"),
    [
        ((0.6, 0.5), (0.0, 0.9), [1, 0]),  # a similar message decides
        ((0.9, 0.5), (0.0, 0.9), [0, 1]),  # but not against a much more similar hunk
        ((0.6, 0.5, 0.4), (0.3, 0.3, 0.3), [0, 1, 2]),  # equal messages change nothing
        ((0.5, 0.5), (0.2, 0.2), [0, 1]),  # ties keep their order
    ],
)
def test_order_by_hunk_and_message(
    hunks: Sequence[float], messages: Sequence[float], order: list[int]
) -> None:
    """The score is a weighted mean of the similarities of hunk and message."""
    ordered_hunks = order_with_messages(make_hunks(*hunks), make_messages(*messages), QUERY)
    assert [hunk.hunk_id for hunk in ordered_hunks] == order
    expected = [(1 - MESSAGE_WEIGHT) * hunks[n] + MESSAGE_WEIGHT * messages[n] for n in order]
    assert [hunk.score for hunk in ordered_hunks] == pytest.approx(expected, abs=1e-3)


def test_no_hunks() -> None:
    """No hunks give an empty ranking."""
    assert order_with_messages([], make_messages(), QUERY) == ()
