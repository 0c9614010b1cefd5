"""A large index made of a real one: hunks whose vectors are neighbours of the real ones."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stores import database
from stores.index_location import Place
from stores.types import EMBEDDING_DIMENSION
from stores.whitening import Vectors

SEED: Final = 7
ROWS_AT_ONCE: Final = 20_000
# Each is a real vector, drawn towards another one, and moved as a third and a fourth differ: so the neighbours
# spread along the axes that the real ones spread along, as more history of the same project would.
MOST_DRAWN: Final = 0.4
MOVED: Final = 0.15

_VECTORS: Final = "SELECT embedding FROM vectors SEMI JOIN hunks USING (text_digest) ORDER BY text_digest"
_HUNKS: Final = """
INSERT INTO hunks
WITH real AS (SELECT row_number() OVER (ORDER BY hunk_id) - 1 AS number, * FROM hunks WHERE hunk_id < $real)
SELECT real.* EXCLUDE (number) REPLACE (
    fresh.hunk_id AS hunk_id, fresh.text_digest AS text_digest,
    'grown/' || fresh.hunk_id || '/' || file_path AS file_path, '' AS diff, '' AS semantic_text,
    0 AS word_count, 0 AS symbol_word_count)
FROM fresh JOIN real ON real.number = fresh.hunk_id % (SELECT count(*) FROM real)"""


def grow(place: Place, hunks: int) -> None:
    """Add hunks to an index until it has so many."""
    chance = np.random.default_rng(SEED)
    with database.writing(place) as connection:
        connection.execute("SET memory_limit = '4GB'")
        real = _matrix(connection.execute(_VECTORS).to_arrow_table().column(0).combine_chunks())
        [(count, first)] = connection.execute("SELECT count(*), max(hunk_id) + 1 FROM hunks").fetchall()
        for start in range(first, first + hunks - count, ROWS_AT_ONCE):
            numbers = np.arange(start, min(start + ROWS_AT_ONCE, first + hunks - count))
            fresh = _fresh(real, numbers, chance)
            connection.execute("INSERT INTO vectors SELECT text_digest, embedding FROM fresh")
            connection.execute(_HUNKS, {"real": first})
            del fresh
        connection.execute("CHECKPOINT")


def questions(place: Place, count: int) -> Vectors:
    """Vectors of the history's own messages: what people write of such changes."""
    messages = "FROM vectors SEMI JOIN commits ON text_digest = message_digest"
    sql = f"SELECT embedding {messages} ORDER BY text_digest LIMIT $1"
    with database.reading(place) as connection:
        return _matrix(connection.execute(sql, [count]).to_arrow_table().column(0).combine_chunks())


def _fresh(real: Vectors, numbers: npt.NDArray[np.int64], chance: np.random.Generator) -> pa.Table:
    count = len(numbers)
    one, other, from_, to = (real[chance.integers(0, len(real), count)] for _ in range(4))
    drawn = chance.uniform(0, MOST_DRAWN, (count, 1)).astype(np.float32)
    rows = one + drawn * (other - one) + np.float32(MOVED) * (to - from_)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    digests = [chance.bytes(16) for _ in range(count)]
    embeddings = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), EMBEDDING_DIMENSION)
    return pa.table(
        {"hunk_id": numbers, "text_digest": pa.array(digests, pa.binary()), "embedding": embeddings}
    )


def _matrix(column: pa.Array) -> Vectors:
    return np.array(column.flatten().to_numpy(zero_copy_only=False)).reshape(-1, EMBEDDING_DIMENSION)


def room(place: Place) -> dict[str, int]:
    """Bytes of the index and of its side file."""
    return {file.name: file.stat().st_size for file in (place.database, place.codes) if Path(file).exists()}
