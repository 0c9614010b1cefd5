"""HNSW index: candidates, staleness, filters, damage."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from stores import snapshot, vector_search, vectors
from stores.compatibility import EMBEDDING_DIMENSION
from stores.duckdb_engine import SPILL_PREFIX
from stores.filters import QueryFilter
from stores.history import ReachabilityDelta
from stores.snapshot import RankedHunk, apply_filter
from stores.vector_search import MAX_STALE_SHARE, HnswIndex, TextVectors
from tests.stores.sample_index import SampleHunk, create_index, make_unit_vector
from tests.stores.search_helpers import NO_FILTER, search_vectors

COUNT = vectors.MIN_TEXTS_TO_WHITEN + 100
QUERIES = [make_unit_vector(*row) for row in np.random.default_rng(3).normal(size=(20, EMBEDDING_DIMENSION))]


def make_hunks(count: int) -> list[SampleHunk]:
    """Return hunks with random vectors; every second one is Rust."""
    rows = np.random.default_rng(4).normal(size=(count, EMBEDDING_DIMENSION))
    return [
        SampleHunk(
            number, f"{number}.py", language=["python", "rust"][number % 2], vector=tuple(row.tolist())
        )
        for number, row in enumerate(rows)
    ]


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    """Index of the first `COUNT` hunks."""
    return create_index(make_hunks(COUNT))


@pytest.fixture(scope="module")
def shared_file(connection: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hnsw") / "index.duckdb.hnsw"
    vector_search.refresh_hnsw_index(connection, path)
    return path


@pytest.fixture
def file(shared_file: Path, tmp_path: Path) -> Path:
    """Path of the HNSW index of the first `COUNT` hunks."""
    return Path(shutil.copy(shared_file, tmp_path))


def load_texts(connection: duckdb.DuckDBPyConnection, file: Path) -> TextVectors:
    loaded_snapshot = snapshot.load_snapshot(connection, ReachabilityDelta())
    return vector_search.load_text_vectors(connection, loaded_snapshot, hnsw_file=file)


def search(
    connection: duckdb.DuckDBPyConnection,
    texts: TextVectors,
    query: Any,
    query_filter: QueryFilter = NO_FILTER,
) -> tuple[RankedHunk, ...]:
    loaded_snapshot = snapshot.load_snapshot(connection, ReachabilityDelta())
    mask = apply_filter(connection, loaded_snapshot, query_filter)
    return vector_search.search(loaded_snapshot, texts, texts.whiten_query(query), mask)


def test_hits_are_those_of_the_scan(connection: duckdb.DuckDBPyConnection, file: Path) -> None:
    """Nearly all hits of the scan are found, with the same scores, and only candidates are scored."""
    texts = load_texts(connection, file)
    assert texts.hnsw is not None
    found_count = 0
    for query in QUERIES:
        expected = search_vectors(connection, query)
        hits = search(connection, texts, query)
        assert set(hits) & set(expected)
        found_count += len(set(hits) & set(expected))
        assert len(texts.hnsw.find_candidates(texts.whiten_query(query).unit, 50)) == 200
    assert found_count >= 0.95 * len(QUERIES) * len(search_vectors(connection, QUERIES[0]))


@pytest.mark.parametrize(
    "query_filter", [QueryFilter(language="rust"), QueryFilter(preferred_paths=("7.py",))]
)
def test_filters_use_the_scan(
    connection: duckdb.DuckDBPyConnection,
    file: Path,
    query_filter: QueryFilter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a filter or a preferred path, the hits are exactly those of the scan."""
    texts = load_texts(connection, file)
    monkeypatch.setattr(HnswIndex, "find_candidates", None)
    for query in QUERIES[:3]:
        assert search(connection, texts, query, query_filter) == search_vectors(
            connection, query, query_filter
        )


def test_new_texts_are_candidates(file: Path) -> None:
    """A text that is newer than the file is found."""
    connection = create_index(make_hunks(COUNT + 20))
    texts = load_texts(connection, file)
    assert texts.hnsw is not None and 0 < texts.hnsw.stale_share < MAX_STALE_SHARE
    for hunk in make_hunks(COUNT + 20)[COUNT:]:
        best = search(connection, texts, make_unit_vector(*hunk.vector))[0]
        assert best.file_path == hunk.path


@pytest.mark.parametrize("count", [COUNT + 100, COUNT - 100])
def test_stale_file_is_not_used_and_written_again(file: Path, count: int) -> None:
    """If more than 5 % of the texts were added or deleted, searches scan, and the next refresh writes the file."""
    connection = create_index(make_hunks(count))
    assert load_texts(connection, file).hnsw is None
    vector_search.refresh_hnsw_index(connection, file)
    hnsw = load_texts(connection, file).hnsw
    assert hnsw is not None and hnsw.stale_share == 0


def test_fresh_file_is_kept(connection: duckdb.DuckDBPyConnection, file: Path) -> None:
    """A refresh without new texts does not write the file."""
    inode = file.stat().st_ino
    vector_search.refresh_hnsw_index(connection, file)
    assert file.stat().st_ino == inode


@pytest.mark.parametrize("content", [b"", b"no database"])
def test_damaged_file_is_written_again(
    connection: duckdb.DuckDBPyConnection, file: Path, content: bytes
) -> None:
    """A file that cannot be read is not used, and the next refresh writes it."""
    file.write_bytes(content)
    assert load_texts(connection, file).hnsw is None
    vector_search.refresh_hnsw_index(connection, file)
    assert load_texts(connection, file).hnsw is not None


def test_pipe_in_place_of_the_file(connection: duckdb.DuckDBPyConnection, file: Path) -> None:
    """Nobody waits for a pipe in place of the file, and the next refresh replaces it."""
    file.unlink()
    os.mkfifo(file)
    assert load_texts(connection, file).hnsw is None
    vector_search.refresh_hnsw_index(connection, file)
    assert load_texts(connection, file).hnsw is not None


def test_engine_spills_beside_the_file(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine of the HNSW index spills to the directory of the index, not to the working directory."""
    working_directory = tmp_path / "work"
    working_directory.mkdir()
    monkeypatch.chdir(working_directory)
    hnsw = vector_search.open_hnsw_index(file, pa.array([], pa.binary()))
    assert hnsw is not None
    hnsw.connection.execute("SET memory_limit = '20MB'")
    hnsw.connection.execute("CREATE TEMP TABLE spilled AS SELECT hash(range) FROM range(4_000_000)")
    assert len(list(file.parent.glob(f"{SPILL_PREFIX}*/*"))) > 0
    assert not list(working_directory.iterdir())
    hnsw.close()
    assert not list(file.parent.glob(f"{SPILL_PREFIX}*"))


def test_index_without_vectors(tmp_path: Path) -> None:
    """An index without hunks has an empty HNSW index, and finds nothing."""
    connection = create_index([])
    file = tmp_path / "index.duckdb.hnsw"
    vector_search.refresh_hnsw_index(connection, file)
    assert search(connection, load_texts(connection, file), QUERIES[0]) == ()
