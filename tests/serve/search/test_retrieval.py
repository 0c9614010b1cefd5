"""The vector lane's order: by hunk and by message together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from serve.search.retrieval import with_messages
from stores.snapshot import Ranked
from stores.types import EMBEDDING_DIMENSION
from stores.vector_search import MESSAGE_SHARE, Messages
from tests.repos import FIRST_DATE
from tests.stores.sample_index import unit

QUERY = unit(1).astype(np.float32)


def lane(*scores: float) -> list[Ranked]:
    """Hunks of commits `0`, `1` and so on, by their text's nearness."""
    return [Ranked(n, score, FIRST_DATE, str(n), "a.py") for n, score in enumerate(scores)]


def said(*cosines: float) -> Messages:
    """The messages of these commits, so near to the question."""
    rows = [unit(near, (1 - near**2) ** 0.5).astype(np.float32) for near in cosines]
    places = {str(n): n for n in range(len(rows))}
    texts = pa.chunked_array([[""] * len(rows)], pa.string())
    return Messages(places, texts, np.array(rows).reshape(-1, EMBEDDING_DIMENSION))


@pytest.mark.parametrize(
    ("hunks", "messages", "order"),
    [
        ((0.6, 0.5), (0.0, 0.9), [1, 0]),  # the message says it outright
        ((0.9, 0.5), (0.0, 0.9), [0, 1]),  # not enough to come before a far nearer change
        ((0.6, 0.5, 0.4), (0.3, 0.3, 0.3), [0, 1, 2]),  # messages that all say the same change nothing
        ((0.5, 0.5), (0.2, 0.2), [0, 1]),  # of equals the first leads
    ],
)
def test_order(hunks: Sequence[float], messages: Sequence[float], order: list[int]) -> None:
    """A quarter of the score is the message's."""
    both = with_messages(lane(*hunks), said(*messages), QUERY)
    assert [hunk.hunk_id for hunk in both] == order
    expected = [(1 - MESSAGE_SHARE) * hunks[n] + MESSAGE_SHARE * messages[n] for n in order]
    assert [hunk.score for hunk in both] == pytest.approx(expected)


def test_nothing() -> None:
    """No hunks stay none."""
    assert with_messages([], said(), QUERY) == ()
