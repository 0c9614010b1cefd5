"""HNSW index of DuckDB's VSS extension over the whitened vectors of an index, with rescoring; for comparison.

python -m tests.bench.hnsw HOME PATH      build it, and print seconds and bytes as JSON

HOME is a LINEAGE_HOME, PATH a repository with an index in it. A row number is that of a text in `TextVectors`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa

from pipeline.git.repository import open_repository
from serve.repositories import locate_index
from stores import database, snapshot, vector_search
from stores.duckdb_engine import load_extensions
from stores.index_location import IndexLocation
from stores.snapshot import Bools, Floats, Ints, Snapshot
from stores.types import EMBEDDING_DIMENSION, ReachabilityDelta
from stores.vector_search import TextVectors
from stores.whitening import BLOCK_ROWS, Vectors, normalize

# DuckDB must not download extensions.
OFFLINE: Final[dict[str, str | bool | int | float | list[str]]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
# HNSW candidates for each hit, which exact rescoring then ranks.
CANDIDATES_PER_HIT: Final = 8


def main() -> None:
    figures = build_hnsw(locate_index(Path(sys.argv[1]), open_repository(Path(sys.argv[2]))))
    sys.stdout.write(json.dumps(figures))


def build_hnsw(location: IndexLocation) -> dict[str, float]:
    """Build the HNSW index; return wall seconds, processor seconds and bytes."""
    file = get_hnsw_path(location)
    file.unlink(missing_ok=True)
    with database.open_for_reading(location) as connection:
        loaded = snapshot.load_snapshot(connection, ReachabilityDelta())
        texts = vector_search.load_text_vectors(connection, loaded)
    with open_hnsw(file, write=True) as connection:
        connection.execute(f"CREATE TABLE vectors (row INTEGER, vector FLOAT[{EMBEDDING_DIMENSION}])")
        for start in range(0, len(texts.vectors), BLOCK_ROWS):
            with database.register_tables(connection, block=_build_vector_block(texts, start)):
                connection.execute("INSERT INTO vectors FROM block")
        wall_start, cpu_start = time.perf_counter(), time.process_time()
        connection.execute("CREATE INDEX hnsw ON vectors USING HNSW (vector) WITH (metric = 'ip')")
        seconds, cpu_seconds = time.perf_counter() - wall_start, time.process_time() - cpu_start
    return {"seconds": seconds, "processor": cpu_seconds, "bytes": file.stat().st_size}


def get_hnsw_path(location: IndexLocation) -> Path:
    """Return the path of the database with the HNSW index."""
    return location.folder / "graph.duckdb"


@contextmanager
def open_hnsw(file: Path, *, write: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the database with the HNSW index, with VSS loaded."""
    with duckdb.connect(str(file), read_only=not write, config=OFFLINE) as connection:
        load_extensions(connection, ["vss"])
        connection.execute("SET hnsw_enable_experimental_persistence = true")
        yield connection


def find_nearest_rows(
    connection: duckdb.DuckDBPyConnection,
    texts: TextVectors,
    query: Vectors,
    count: int,
    is_included: Bools | None = None,
) -> Ints:
    """Return the rows of the `count` nearest vectors: HNSW candidates, rescored.

    `is_included`: for each row, whether it may be a hit. The filter applies after HNSW, so there can be fewer hits.
    """
    connection.execute(f"SET hnsw_ef_search = {CANDIDATES_PER_HIT * count}")
    sql = (
        f"SELECT row FROM vectors "
        f"ORDER BY array_negative_inner_product(vector, $1::FLOAT[{EMBEDDING_DIMENSION}]) "
        f"LIMIT {CANDIDATES_PER_HIT * count}"
    )
    whitened_query = normalize(texts.whitening.transform_query(query.astype(np.float64)))
    rows = connection.execute(sql, [whitened_query.tolist()]).fetchnumpy()["row"].astype(np.int64)
    rows = rows if is_included is None else rows[is_included[rows]]
    scores = _whiten(texts, rows) @ whitened_query
    return rows[np.argsort(-scores)[:count]]


def map_rows_to_hunks(loaded: Snapshot, texts: TextVectors) -> Ints:
    """Return a hunk id for each row: that of the first hunk of the snapshot with that text."""
    hunk_ids = np.zeros(len(texts.vectors), np.int64)
    hunk_ids[texts.rows[::-1]] = loaded.hunks.ids[::-1]
    return hunk_ids


def _build_vector_block(texts: TextVectors, start: int) -> pa.Table:
    """Return BLOCK_ROWS whitened vectors from row `start` on."""
    rows = np.arange(start, min(start + BLOCK_ROWS, len(texts.vectors)))
    flat = pa.array(_whiten(texts, rows).astype(np.float32).reshape(-1))
    vectors = pa.FixedSizeListArray.from_arrays(flat, EMBEDDING_DIMENSION)
    return pa.table({"row": rows.astype(np.int32), "vector": vectors})


def _whiten(texts: TextVectors, rows: Ints) -> Floats:
    """Return the whitened vectors of these rows, scaled to length 1."""
    whitened = texts.whitening.transform(texts.vectors.take(rows).decode().astype(np.float64))
    return np.asarray(whitened / np.linalg.norm(whitened, axis=1, keepdims=True))


if __name__ == "__main__":
    main()
