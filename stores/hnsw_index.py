"""HNSW index of DuckDB's VSS extension over the whitened vectors of an index, in a database file of its own.

The file is optional and can be deleted at any time. It gives the candidates of a search; `vector_search` computes the
same scores for them as the scan does. Some of the nearest texts can be missing. Texts that are not in the file are
always candidates.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stores.duckdb_engine import MissingExtension, load_extensions, make_files_private
from stores.index_location import DATABASE_FILE
from stores.snapshot import Floats, Ints, to_int_array
from stores.types import EMBEDDING_DIMENSION
from stores.whitening import Vectors

# Length of the search queue. A longer one finds more of the nearest vectors and is slower.
EF_SEARCH: Final = 200
# Candidates for each requested text.
CANDIDATES_PER_TEXT: Final = 4
# Share of the texts that may have been added or deleted since the file was written.
MAX_STALE_SHARE: Final = 0.05

_CONFIG: Final[dict[str, str | bool | int | float | list[str]]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_CREATE_TABLE: Final = f"CREATE TABLE hnsw.vectors (text_digest BLOB, vector FLOAT[{EMBEDDING_DIMENSION}])"
_CREATE_INDEX: Final = "CREATE INDEX hnsw ON hnsw.vectors USING HNSW (vector) WITH (metric = 'ip')"
_FIND_NEAREST: Final = f"""
SELECT text_digest FROM hnsw.vectors
ORDER BY array_negative_inner_product(vector, ?::FLOAT[{EMBEDDING_DIMENSION}]) LIMIT ?"""


@dataclass(frozen=True, slots=True, eq=False)
class HnswIndex:
    """Open HNSW index.

    `digests`: digest of each text, by row. `new_rows`: rows of texts that are not in the file. `stale_share`: share
    of the texts that were added or deleted since the file was written. `bytes`: size of the file.
    """

    connection: duckdb.DuckDBPyConnection
    digests: pa.Array
    new_rows: Ints
    stale_share: float
    bytes: int

    @property
    def is_stale(self) -> bool:
        """True if so many texts have changed that no search uses the file and the next index run replaces it."""
        return self.stale_share > MAX_STALE_SHARE

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    def find_candidates(self, whitened_query: Floats, count: int) -> Ints:
        """Return the rows of the texts that may be among the `count` nearest."""
        limit = CANDIDATES_PER_TEXT * count
        with self.connection.cursor() as cursor:
            cursor.execute(f"SET hnsw_ef_search = {max(EF_SEARCH, limit)}")
            nearest = (
                cursor.execute(_FIND_NEAREST, [whitened_query.tolist(), limit]).to_arrow_table().column(0)
            )
        rows = pc.index_in(nearest.combine_chunks().cast(self.digests.type), self.digests).drop_null()
        return np.concatenate((to_int_array(rows), self.new_rows))


def open_hnsw_index(file: Path, digests: pa.Array) -> HnswIndex | None:
    """Open the HNSW index for these texts; None if there is no usable file."""
    if not file.exists():
        return None
    with ExitStack() as stack, suppress(duckdb.Error, OSError, MissingExtension):
        connection = stack.enter_context(_connect(file, read_only=True))
        known = connection.execute("SELECT text_digest FROM hnsw.vectors").to_arrow_table().column(0)
        is_known = np.asarray(pc.is_in(digests, known.combine_chunks().cast(digests.type)))
        changed_count = len(digests) + len(known) - 2 * int(is_known.sum())
        stale_share = changed_count / max(1, len(digests))
        index = HnswIndex(connection, digests, np.flatnonzero(~is_known), stale_share, file.stat().st_size)
        index.find_candidates(np.zeros(EMBEDDING_DIMENSION), 1)  # reads the file, which may be damaged
        stack.pop_all()
        return index
    return None


def write_hnsw_index(file: Path, digests: pa.Array, blocks: Iterable[Vectors]) -> None:
    """Write the file for these texts. `blocks`: their whitened vectors of length 1, in the same order.

    Raises MissingExtension without VSS. A killed run leaves a temporary file, which the next run deletes.
    """
    temp_file = file.with_name(f"{DATABASE_FILE}.draft.hnsw")
    temp_file.unlink(missing_ok=True)
    with make_files_private(), _connect(temp_file) as connection:
        connection.execute(_CREATE_TABLE)
        start = 0
        for block in blocks:
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(block.reshape(-1)), EMBEDDING_DIMENSION)
            rows = pa.table({"text_digest": digests[start : start + len(block)], "vector": vectors})
            connection.register("rows", rows)
            connection.execute("INSERT INTO hnsw.vectors FROM rows")
            connection.unregister("rows")
            start += len(block)
        connection.execute(_CREATE_INDEX)
    temp_file.replace(file)


def _connect(file: Path, *, read_only: bool = False) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:", config=_CONFIG)
    try:
        load_extensions(connection, ["vss"])
        connection.execute("SET hnsw_enable_experimental_persistence = true")
        path_literal = str(file).replace("'", "''")
        connection.execute(f"ATTACH '{path_literal}' AS hnsw{' (READ_ONLY)' if read_only else ''}")
    except BaseException:
        connection.close()
        raise
    return connection
