"""Tests of `tests.bench.synthetic_index` and `tests.bench.hnsw`."""

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
from stores.filters import QueryFilter
from stores.index_location import IndexLocation
from stores.types import ReachabilityDelta
from stores.whitening import normalize
from tests.bench import hnsw, synthetic_index
from tests.stores.batches import CURRENT_VERSIONS, SampleCommit, make_batch, make_location

HUNKS = 1_500


@pytest.fixture
def location(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> IndexLocation:
    monkeypatch.setattr(history, "MAX_ROWS_IN_MEMORY", 100)
    index_location = make_location(tmp_path)
    with database.open_for_writing(index_location) as connection:
        writer.record_run_start(
            connection, index_location, head="h" * 40, unreached=[], components=CURRENT_VERSIONS
        )
        writer.replace_batch(connection, make_batch([SampleCommit(number) for number in range(60)]))
    synthetic_index.enlarge_index(index_location, HUNKS)
    assert quantized_vectors.refresh_quantized_file(index_location)
    return index_location


def test_enlarge_index(location: IndexLocation) -> None:
    """The enlarged index has the given hunks, each with a distinct vector near a real one."""
    with database.open_for_reading(location) as connection:
        loaded = snapshot.load_snapshot(connection, ReachabilityDelta())
        texts = vector_search.load_text_vectors(connection, loaded, side_file=location.quantized_vectors)
    assert len(loaded.hunks) == len(loaded.text_digests) == HUNKS
    assert texts.quantized is not None
    real, rows = texts.quantized.file.vectors[:60], texts.quantized.file.vectors
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1, abs=1e-5)
    assert (rows @ real.T).max(axis=1).min() > 0.5
    assert len(synthetic_index.load_query_vectors(location, 20)) == 20


def test_hnsw_recall(location: IndexLocation) -> None:
    """HNSW finds at least 90 % of the hundred best hunks that the side file finds."""
    assert hnsw.build_hnsw(location)["bytes"] > HUNKS * 1_536
    with database.open_for_reading(location) as connection:
        loaded = snapshot.load_snapshot(connection, ReachabilityDelta())
        texts = vector_search.load_text_vectors(connection, loaded, side_file=location.quantized_vectors)
        everything = filters.apply_filter(connection, loaded, QueryFilter())
        assert isinstance(texts.quantized, quantized_search.QuantizedSnapshot)
        hunk_ids = hnsw.map_rows_to_hunks(connection, texts.quantized.file)
        shares = []
        with hnsw.open_hnsw(hnsw.get_hnsw_path(location)) as hnsw_connection:
            for query in synthetic_index.load_query_vectors(location, 5):
                exact = {
                    hit.hunk_id for hit in vector_search.search(connection, loaded, texts, query, everything)
                }
                whitened_query = normalize(texts.whitening.transform_query(query.astype(np.float64)))
                near = hunk_ids[
                    hnsw.find_nearest_rows(hnsw_connection, texts.quantized.file, whitened_query, 100)
                ]
                shares.append(len(exact & set(near.tolist())) / 100)
    assert np.mean(shares) > 0.9
