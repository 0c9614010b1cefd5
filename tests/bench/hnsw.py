"""HNSW index of the VSS extension over the vectors of a side file, with exact rescoring; for comparison.

python -m tests.bench.hnsw HOME PATH      builds it, and prints seconds and bytes as JSON
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa

from pipeline.git.repository import open_repository
from serve.repositories import locate_index
from stores import database, quantized_vectors
from stores.index_location import IndexLocation
from stores.quantized_vectors import QuantizedFile
from stores.snapshot import Bools, Floats, Ints, to_digest_array
from stores.types import EMBEDDING_DIMENSION
from stores.whitening import BLOCK_ROWS

OFFLINE: Final[dict[str, str | bool | int | float | list[str]]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
# Candidates per wanted hit, and factor of ef_search.
OVER_FETCH: Final = 8


def main() -> None:
    figures = build_graph(locate_index(Path(sys.argv[1]), open_repository(Path(sys.argv[2]))))
    sys.stdout.write(json.dumps(figures))


def build_graph(location: IndexLocation) -> dict[str, float]:
    """Build the HNSW index; return wall seconds, processor seconds and bytes."""
    file = graph_file(location)
    file.unlink(missing_ok=True)
    with database.open_for_reading(location) as connection:
        quantized = quantized_vectors.open_quantized_file(connection, location.quantized_vectors)
    assert quantized is not None
    with open_graph(file, write=True) as graph:
        graph.execute(f"CREATE TABLE places (place INTEGER, vector FLOAT[{EMBEDDING_DIMENSION}])")
        for start in range(0, len(quantized.vectors), BLOCK_ROWS):
            block = _vector_block(quantized, start)  # noqa: F841 - the statement reads it
            graph.execute("INSERT INTO places FROM block")
        started, cpu_seconds = time.perf_counter(), time.process_time()
        graph.execute("CREATE INDEX graph ON places USING HNSW (vector) WITH (metric = 'ip')")
        seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_seconds
    return {"seconds": seconds, "processor": cpu_seconds, "bytes": file.stat().st_size}


def graph_file(location: IndexLocation) -> Path:
    return location.folder / "graph.duckdb"


@contextmanager
def open_graph(file: Path, *, write: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
    (extension,) = Path(str(files("duckdb_extension_vss"))).rglob("*.duckdb_extension")
    with duckdb.connect(str(file), read_only=not write, config=OFFLINE) as connection:
        connection.execute(f"LOAD '{extension}'")
        connection.execute("SET hnsw_enable_experimental_persistence = true")
        yield connection


def nearest_rows(
    graph: duckdb.DuckDBPyConnection,
    quantized: QuantizedFile,
    query: Floats,
    depth: int,
    included: Bools | None = None,
) -> Ints:
    """Return the rows of the nearest vectors: HNSW candidates, rescored exactly.

    Rows outside `included` are dropped.
    """
    graph.execute(f"SET hnsw_ef_search = {OVER_FETCH * depth}")
    sql = (
        f"SELECT place FROM places ORDER BY array_negative_inner_product(vector, $1::FLOAT[{EMBEDDING_DIMENSION}]) "
        f"LIMIT {OVER_FETCH * depth}"
    )
    rows = graph.execute(sql, [query.tolist()]).fetchnumpy()["place"].astype(np.int64)
    rows = rows if included is None else rows[included[rows]]
    transformed = quantized.whitening.transform(quantized.vectors[rows].astype(np.float64))
    scores = transformed @ query / np.linalg.norm(transformed, axis=1)
    return rows[np.argsort(-scores)[:depth]]


def hunk_of_each_row(connection: duckdb.DuckDBPyConnection, quantized: QuantizedFile) -> Ints:
    """Return one hunk id per row."""
    table = connection.execute(
        "SELECT hunk_id, text_digest FROM hunks ORDER BY hunk_id DESC"
    ).to_arrow_table()
    hunk_of_row = np.zeros(len(quantized.vectors), np.int64)
    hunk_of_row[quantized.rows_of(to_digest_array(table.column(1).combine_chunks()))] = table.column(
        0
    ).to_numpy()
    return hunk_of_row


def _vector_block(quantized: QuantizedFile, start: int) -> pa.Table:
    transformed = quantized.whitening.transform(
        quantized.vectors[start : start + BLOCK_ROWS].astype(np.float64)
    )
    transformed /= np.linalg.norm(transformed, axis=1, keepdims=True)
    vectors = pa.FixedSizeListArray.from_arrays(
        pa.array(transformed.astype(np.float32).reshape(-1)), EMBEDDING_DIMENSION
    )
    return pa.table({"place": np.arange(start, start + len(transformed), dtype=np.int32), "vector": vectors})


if __name__ == "__main__":
    main()
