"""VSS's HNSW beside the side file, to compare with: a graph over the same places, candidates re-scored exactly.

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
from serve.repositories import place_of
from stores import database, quantized_vectors
from stores.index_location import Place
from stores.quantized_vectors import Codes
from stores.snapshot import Bools, Floats, Ints, digests
from stores.types import EMBEDDING_DIMENSION
from stores.whitening import BLOCK_ROWS

OFFLINE: Final[dict[str, str | bool | int | float | list[str]]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
# Candidates for each of the hundred that are wanted, and as wide a search.
OVER_FETCH: Final = 8


def main() -> None:
    said = build(place_of(Path(sys.argv[1]), open_repository(Path(sys.argv[2]))))
    sys.stdout.write(json.dumps(said))


def build(place: Place) -> dict[str, float]:
    """The graph over what the side file has: wall and processor seconds of its making, and bytes."""
    file = file_of(place)
    file.unlink(missing_ok=True)
    with database.reading(place) as connection:
        found = quantized_vectors.opened(connection, place.codes)
    assert found is not None
    with opened(file, write=True) as graph:
        graph.execute(f"CREATE TABLE places (place INTEGER, vector FLOAT[{EMBEDDING_DIMENSION}])")
        for start in range(0, len(found.rows), BLOCK_ROWS):
            block = _block(found, start)  # noqa: F841 - the statement reads it
            graph.execute("INSERT INTO places FROM block")
        started, used = time.perf_counter(), time.process_time()
        graph.execute("CREATE INDEX graph ON places USING HNSW (vector) WITH (metric = 'ip')")
        seconds, used = time.perf_counter() - started, time.process_time() - used
    return {"seconds": seconds, "processor": used, "bytes": file.stat().st_size}


def file_of(place: Place) -> Path:
    return place.folder / "graph.duckdb"


@contextmanager
def opened(file: Path, *, write: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
    (extension,) = Path(str(files("duckdb_extension_vss"))).rglob("*.duckdb_extension")
    with duckdb.connect(str(file), read_only=not write, config=OFFLINE) as connection:
        connection.execute(f"LOAD '{extension}'")
        connection.execute("SET hnsw_enable_experimental_persistence = true")
        yield connection


def nearest(
    graph: duckdb.DuckDBPyConnection, found: Codes, query: Floats, depth: int, kept: Bools | None = None
) -> Ints:
    """The rows of the nearest places: more than are wanted from the graph, the best of them by their vectors.

    Of rows that are not `kept` none is given.
    """
    graph.execute(f"SET hnsw_ef_search = {OVER_FETCH * depth}")
    sql = (
        f"SELECT place FROM places ORDER BY array_negative_inner_product(vector, $1::FLOAT[{EMBEDDING_DIMENSION}]) "
        f"LIMIT {OVER_FETCH * depth}"
    )
    rows = graph.execute(sql, [query.tolist()]).fetchnumpy()["place"].astype(np.int64)
    rows = rows if kept is None else rows[kept[rows]]
    placed = found.space.placed(found.rows[rows].astype(np.float64))
    scores = placed @ query / np.linalg.norm(placed, axis=1)
    return rows[np.argsort(-scores)[:depth]]


def hunks(connection: duckdb.DuckDBPyConnection, found: Codes) -> Ints:
    """A hunk of each row."""
    table = connection.execute(
        "SELECT hunk_id, text_digest FROM hunks ORDER BY hunk_id DESC"
    ).to_arrow_table()
    by_row = np.zeros(len(found.rows), np.int64)
    by_row[found.rows_of(digests(table.column(1).combine_chunks()))] = table.column(0).to_numpy()
    return by_row


def _block(found: Codes, start: int) -> pa.Table:
    placed = found.space.placed(found.rows[start : start + BLOCK_ROWS].astype(np.float64))
    placed /= np.linalg.norm(placed, axis=1, keepdims=True)
    vectors = pa.FixedSizeListArray.from_arrays(
        pa.array(placed.astype(np.float32).reshape(-1)), EMBEDDING_DIMENSION
    )
    return pa.table({"place": np.arange(start, start + len(placed), dtype=np.int32), "vector": vectors})


if __name__ == "__main__":
    main()
