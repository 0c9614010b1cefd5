"""Enlargement of a real index with synthetic hunks whose vectors are similar to the real ones."""

from __future__ import annotations

from typing import Final

import duckdb
import numpy as np
import pyarrow as pa

from stores import database, schema
from stores.index_location import IndexLocation
from stores.vectors import QuantizedVectors, Vectors, quantize_table

SEED: Final = 7
ROWS_PER_BATCH: Final = 20_000
# A synthetic vector interpolates between two real ones and adds a share of the difference of two others, so that it
# varies along the same axes as real ones.
MAX_INTERPOLATION: Final = 0.4
NOISE_SHARE: Final = 0.15

_VECTORS: Final = "SELECT codes, scale FROM vectors SEMI JOIN hunks USING (text_digest) ORDER BY text_digest"
_HUNKS: Final = """
INSERT INTO hunks
WITH real AS (SELECT row_number() OVER (ORDER BY hunk_id) - 1 AS number, * FROM hunks WHERE hunk_id < $real)
SELECT real.* EXCLUDE (number) REPLACE (
    new_rows.hunk_id AS hunk_id, new_rows.text_digest AS text_digest,
    'grown/' || new_rows.hunk_id || '/' || file_path AS file_path, '' AS diff, '' AS semantic_text,
    0 AS word_count, 0 AS symbol_word_count)
FROM new_rows JOIN real ON real.number = new_rows.hunk_id % (SELECT count(*) FROM real)"""


def enlarge_index(location: IndexLocation, hunks: int) -> None:
    """Add synthetic hunks until the index has `hunks` of them."""
    generator = np.random.default_rng(SEED)
    with database.open_for_writing(location) as connection:
        connection.execute("SET memory_limit = '4GB'")
        real = _read_vectors(connection, _VECTORS)
        [(count, first)] = connection.execute("SELECT count(*), max(hunk_id) + 1 FROM hunks").fetchall()
        for start in range(first, first + hunks - count, ROWS_PER_BATCH):
            numbers = np.arange(start, min(start + ROWS_PER_BATCH, first + hunks - count))
            embeddings = _create_embeddings(real, len(numbers), generator)
            new_vectors = quantize_table(embeddings)
            new_rows = pa.table({"hunk_id": numbers, "text_digest": embeddings.column("text_digest")})
            with database.register_tables(connection, new_vectors=new_vectors, new_rows=new_rows):
                connection.execute("INSERT INTO vectors FROM new_vectors")
                connection.execute(_HUNKS, {"real": first})
        connection.execute("CHECKPOINT")


def load_query_vectors(location: IndexLocation, count: int) -> Vectors:
    """Return vectors of commit messages of the repository, to use as queries."""
    messages = "FROM vectors SEMI JOIN commits ON text_digest = message_digest"
    with database.open_for_reading(location) as connection:
        return _read_vectors(connection, f"SELECT codes, scale {messages} ORDER BY text_digest LIMIT {count}")


def _read_vectors(connection: duckdb.DuckDBPyConnection, sql: str) -> Vectors:
    columns = connection.execute(sql).to_arrow_table().combine_chunks().columns
    return QuantizedVectors.from_columns(*(column.combine_chunks() for column in columns)).decode()


def _create_embeddings(real: Vectors, count: int, generator: np.random.Generator) -> pa.Table:
    start, end, noise_start, noise_end = (real[generator.integers(0, len(real), count)] for _ in range(4))
    shares = generator.uniform(0, MAX_INTERPOLATION, (count, 1)).astype(np.float32)
    rows = start + shares * (end - start) + np.float32(NOISE_SHARE) * (noise_end - noise_start)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    digests = pa.array([generator.bytes(16) for _ in range(count)], schema.DIGEST)
    embeddings = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), type=schema.VECTOR)
    return pa.table([digests, embeddings], schema=schema.EMBEDDINGS)
