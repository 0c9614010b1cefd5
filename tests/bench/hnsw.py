"""HNSW index of DuckDB's VSS extension over the vectors of a side file, with exact rescoring; for comparison.

python -m tests.bench.hnsw HOME PATH      build it, and print seconds and bytes as JSON

HOME is a LINEAGE_HOME, PATH a repository with an index in it. The side file holds quantized vectors, a row for each
distinct text of the index.
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
        quantized = quantized_vectors.open_quantized_file(connection, location.quantized_vectors)
    assert quantized is not None
    with open_hnsw(file, write=True) as connection:
        connection.execute(
            f"CREATE TABLE vectors (side_file_row INTEGER, vector FLOAT[{EMBEDDING_DIMENSION}])"
        )
        for start in range(0, len(quantized.vectors), BLOCK_ROWS):
            block = _build_vector_block(quantized, start)  # noqa: F841 - the statement reads it
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
    (extension,) = Path(str(files("duckdb_extension_vss"))).rglob("*.duckdb_extension")
    with duckdb.connect(str(file), read_only=not write, config=OFFLINE) as connection:
        connection.execute(f"LOAD '{extension}'")
        connection.execute("SET hnsw_enable_experimental_persistence = true")
        yield connection


def find_nearest_rows(
    connection: duckdb.DuckDBPyConnection,
    quantized: QuantizedFile,
    query: Floats,
    count: int,
    is_included: Bools | None = None,
) -> Ints:
    """Return the side-file rows of the `count` nearest vectors: HNSW candidates, rescored exactly.

    `is_included`: for each row, whether it may be a hit. The filter applies after HNSW, so there can be fewer hits.
    """
    connection.execute(f"SET hnsw_ef_search = {CANDIDATES_PER_HIT * count}")
    sql = (
        f"SELECT side_file_row FROM vectors "
        f"ORDER BY array_negative_inner_product(vector, $1::FLOAT[{EMBEDDING_DIMENSION}]) "
        f"LIMIT {CANDIDATES_PER_HIT * count}"
    )
    rows = connection.execute(sql, [query.tolist()]).fetchnumpy()["side_file_row"].astype(np.int64)
    rows = rows if is_included is None else rows[is_included[rows]]
    transformed = quantized.whitening.transform(quantized.vectors[rows].astype(np.float64))
    scores = transformed @ query / np.linalg.norm(transformed, axis=1)
    return rows[np.argsort(-scores)[:count]]


def map_rows_to_hunks(connection: duckdb.DuckDBPyConnection, quantized: QuantizedFile) -> Ints:
    """Return a hunk id for each side-file row: the lowest of the hunks with that text."""
    table = connection.execute(
        "SELECT hunk_id, text_digest FROM hunks ORDER BY hunk_id DESC"
    ).to_arrow_table()
    hunk_ids = np.zeros(len(quantized.vectors), np.int64)
    hunk_ids[quantized.find_rows(to_digest_array(table.column(1).combine_chunks()))] = table.column(
        0
    ).to_numpy()
    return hunk_ids


def _build_vector_block(quantized: QuantizedFile, start: int) -> pa.Table:
    """Return the whitened unit vectors of BLOCK_ROWS rows."""
    transformed = quantized.whitening.transform(
        quantized.vectors[start : start + BLOCK_ROWS].astype(np.float64)
    )
    transformed /= np.linalg.norm(transformed, axis=1, keepdims=True)
    vectors = pa.FixedSizeListArray.from_arrays(
        pa.array(transformed.astype(np.float32).reshape(-1)), EMBEDDING_DIMENSION
    )
    return pa.table(
        {"side_file_row": np.arange(start, start + len(transformed), dtype=np.int32), "vector": vectors}
    )


if __name__ == "__main__":
    main()
