"""Tests of `tests.bench.synthetic_index` and `tests.bench.quantization`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stores import database, snapshot, vector_search, writer
from stores.history import ReachabilityDelta
from stores.index_location import IndexLocation
from tests.bench import synthetic_index
from tests.stores.batches import CURRENT_VERSIONS, SampleCommit, make_batch, make_location

HUNKS = 1_500


@pytest.fixture
def location(tmp_path: Path) -> IndexLocation:
    index_location = make_location(tmp_path)
    with database.open_for_writing(index_location) as connection:
        writer.record_run_start(
            connection,
            index_location,
            head="h" * 40,
            unreachable=[],
            components=CURRENT_VERSIONS,
            branch_patterns=(),
        )
        writer.replace_batch(connection, make_batch([SampleCommit(number) for number in range(60)]))
    synthetic_index.enlarge_index(index_location, HUNKS)
    return index_location


def test_enlarge_index(location: IndexLocation) -> None:
    """The enlarged index has the given hunks, each with a distinct vector near a real one."""
    with database.open_for_reading(location) as connection:
        loaded = snapshot.load_snapshot(connection, ReachabilityDelta())
        texts = vector_search.load_text_vectors(connection, loaded)
    assert len(loaded.hunks) == len(texts.vectors) == len(set(texts.rows.tolist())) == HUNKS
    rows = texts.vectors.decode()
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1, abs=2e-3)
    assert (rows @ rows[:60].T).max(axis=1).min() > 0.5
    assert len(synthetic_index.load_query_vectors(location, 20)) == 20
