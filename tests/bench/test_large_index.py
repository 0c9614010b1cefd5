"""The large index that is measured is one, and what it is compared with is asked the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stores import (
    database,
    filters,
    history,
    quantized_search,
    quantized_vectors,
    snapshot,
    vector_search,
    writer,
)
from stores.filters import Where
from stores.index_location import Place
from stores.types import Reach
from stores.whitening import unit
from tests.bench import hnsw, synthetic_index
from tests.stores.batches import CURRENT, Document, batch, place_in

HUNKS = 1_500


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(history, "MOST_KEPT_ROWS", 100)
    here = place_in(tmp_path)
    with database.writing(here) as connection:
        writer.begin_pass(connection, here, head="h" * 40, unreached=[], components=CURRENT)
        writer.replace_batch(connection, batch([Document(number) for number in range(60)]))
    synthetic_index.grow(here, HUNKS)
    assert quantized_vectors.refresh(here)
    return here


def test_grown(place: Place) -> None:
    """It has so many hunks, each with a text of its own whose vector is near a real one's."""
    with database.reading(place) as connection:
        seen = snapshot.load(connection, Reach())
        texts = vector_search.load(connection, seen, side=place.codes)
    assert len(seen.hunks) == len(seen.texts) == HUNKS
    assert texts.coded is not None
    real, rows = texts.coded.codes.rows[:60], texts.coded.codes.rows
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1, abs=1e-5)
    assert (rows @ real.T).max(axis=1).min() > 0.5
    assert len(synthetic_index.questions(place, 20)) == 20


def test_the_graph_is_asked_the_same(place: Place) -> None:
    """VSS's graph over the side file's places finds about the hunks that the side file finds."""
    assert hnsw.build(place)["bytes"] > HUNKS * 1_536
    with database.reading(place) as connection:
        seen = snapshot.load(connection, Reach())
        texts = vector_search.load(connection, seen, side=place.codes)
        everything = filters.chosen(connection, seen, Where())
        assert isinstance(texts.coded, quantized_search.Coded)
        by_row = hnsw.hunks(connection, texts.coded.codes)
        shares = []
        with hnsw.opened(hnsw.file_of(place)) as graph:
            for query in synthetic_index.questions(place, 5):
                exact = {hit.hunk_id for hit in vector_search.ask(connection, seen, texts, query, everything)}
                placed = unit(texts.space.asked(query.astype(np.float64)))
                near = by_row[hnsw.nearest(graph, texts.coded.codes, placed, 100)]
                shares.append(len(exact & set(near.tolist())) / 100)
    assert np.mean(shares) > 0.9
