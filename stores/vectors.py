"""Vector lane: exact search over the hunks' vectors, whitened per index.

All texts of one repository share a large common component, which says which repository it is and nothing
else. A `Space`, learnt from the index itself, takes the mean away and evens out the principal axes; the query
goes through the same transform. The database keeps raw vectors, and so does `similarities`, which is plain
cosine. Vectors arrive in batches, so memory does not grow with the index.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stores import filters
from stores.filters import Where
from stores.lexical import LANE_DEPTH, PREFERRED_PATH, Ranked
from stores.versions import EMBEDDING_DIMENSION

Floats: TypeAlias = npt.NDArray[np.float64]

# Two or three texts per axis: below that the smallest variances are noise, and evening out would raise it.
FEWEST_TO_WHITEN: Final = 1_000
# Two dozen texts per axis settle its variance to a third, which evening out makes a twelfth.
MOST_TO_LEARN_FROM: Final = 10_000
# variance ** -1/4 is half way to equal axes: full whitening made noise as loud as meaning.
EVENING: Final = -0.25
# An axis with less than this share of the largest variance carries rounding errors.
FLATTEST_AXIS: Final = 1e-6
# 4,096 rows of 384 doubles are 12 MB: large enough for one product to pay, small beside everything else.
BATCH_ROWS: Final = 4_096
# Cosines that agree to nine digits count as equal, so that the order of a sum cannot decide a tie.
DIGITS: Final = 9
# Cosines of whitened texts lie near 0.2 for chance and 0.6 for kin: a tenth is worth about as much as the
# full-text lanes' factor.
PREFERRED_COSINE: Final = PREFERRED_PATH / 15


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """Where texts are compared: `mean` taken away, `axes` (a square matrix) applied, rows normalised."""

    mean: Floats
    axes: Floats | None

    @classmethod
    def raw(cls) -> Space:
        """Vectors as the encoder made them."""
        return cls(np.zeros(EMBEDDING_DIMENSION), None)

    def place(self, rows: Floats) -> Floats:
        """Unit rows in this space."""
        if self.axes is None:
            return _unit(rows)
        return _unit((rows - self.mean) @ self.axes)


# Distinct texts among the documents HEAD reaches, filtered or not. Digests are hashes: the first ones in
# their order are a fair sample, and the same one however the index grew.
_SAMPLE: Final = """
WITH {documents},
sample AS (SELECT DISTINCT text_digest FROM documents ORDER BY text_digest LIMIT $limit)
SELECT text_digest, embedding FROM vectors WHERE text_digest IN (SELECT text_digest FROM sample)"""

_KEPT: Final = """
WITH {documents}
SELECT text_digest, embedding FROM vectors
WHERE text_digest IN (SELECT text_digest FROM documents WHERE kept)"""

_BEST: Final = """
WITH {documents}
SELECT hunk_id, score + CASE WHEN preferred THEN {preferred} ELSE 0 END AS score,
       commit_date, commit_sha, file_path
FROM documents JOIN vector_scores USING (text_digest)
WHERE kept
ORDER BY {best_first} LIMIT $limit"""

_SIMILAR: Final = """
SELECT hunk_id, embedding FROM hunks JOIN vectors USING (text_digest)
WHERE hunk_id IN (SELECT unnest($hunks::BIGINT[]))"""


def learn(connection: duckdb.DuckDBPyConnection, where: Where) -> Space:
    """The space of this index: its own mean and axes, or the raw one while it is small."""
    clause = filters.documents(Where(reach=where.reach))
    sql = _SAMPLE.format(documents=clause.sql)
    count, total, products = 0, np.zeros(EMBEDDING_DIMENSION), np.zeros((EMBEDDING_DIMENSION,) * 2)
    for _, rows in _read(connection, sql, {**clause.parameters, "limit": MOST_TO_LEARN_FROM}):
        count += len(rows)
        total += rows.sum(axis=0)
        products += rows.T @ rows
    return _whitening(count, total, products) if count >= FEWEST_TO_WHITEN else Space.raw()


def ask(
    connection: duckdb.DuckDBPyConnection,
    query: npt.NDArray[np.float32],
    where: Where,
    *,
    space: Space | None = None,
    limit: int = LANE_DEPTH,
) -> tuple[Ranked, ...]:
    """The hunks whose texts lie nearest to the query's vector, best first."""
    scores = _scores(connection, query, where, space or learn(connection, where))
    clause = filters.documents(where)
    sql = _BEST.format(documents=clause.sql, preferred=PREFERRED_COSINE, best_first=filters.BEST_FIRST)
    connection.register("vector_scores", scores)
    rows = connection.execute(sql, {**clause.parameters, "limit": limit}).fetchall()
    connection.unregister("vector_scores")
    return tuple(Ranked(*row) for row in rows)


def similarities(
    connection: duckdb.DuckDBPyConnection, query: npt.NDArray[np.float32], hunks: list[int]
) -> dict[int, float]:
    """Plain cosine between the query and each of these hunks' texts."""
    wanted = _unit(np.asarray(query, dtype=np.float64))
    found: dict[int, float] = {}
    for ids, rows in _read(connection, _SIMILAR, {"hunks": hunks}):
        cosines = np.round(_unit(rows) @ wanted, DIGITS)
        found.update(zip(ids.to_pylist(), cosines.tolist(), strict=True))
    return found


def _scores(
    connection: duckdb.DuckDBPyConnection, query: npt.NDArray[np.float32], where: Where, space: Space
) -> pa.Table:
    """The cosine of each distinct text that passes the filters."""
    wanted = space.place(np.asarray(query, dtype=np.float64)[np.newaxis])[0]
    clause = filters.documents(where)
    digests: list[pa.Array] = []
    scores: list[Floats] = []
    for keys, rows in _read(connection, _KEPT.format(documents=clause.sql), clause.parameters):
        digests.append(keys)
        scores.append(np.round(space.place(rows) @ wanted, DIGITS))
    column = pa.array(np.concatenate(scores) if scores else np.zeros(0))
    return pa.table({"text_digest": pa.chunked_array(digests, type=pa.binary()), "score": column})


def _read(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: dict[str, filters.Parameter]
) -> Iterator[tuple[pa.Array, Floats]]:
    """Batches of (first column, vectors) of a query that selects a key and an embedding.

    The vectors stand in one buffer, which the next batch overwrites: fresh pages cost more than the copy.
    """
    buffer = np.empty((BATCH_ROWS, EMBEDDING_DIMENSION))
    for batch in connection.execute(sql, parameters).to_arrow_reader(BATCH_ROWS):
        rows = buffer[: batch.num_rows]
        flat = batch.column(1).flatten().to_numpy(zero_copy_only=False)
        np.copyto(rows, flat.reshape(-1, EMBEDDING_DIMENSION))
        yield batch.column(0), rows


def _whitening(count: int, total: Floats, products: Floats) -> Space:
    mean = total / count
    variances, directions = np.linalg.eigh(products / count - np.outer(mean, mean))
    variances = np.maximum(variances, variances[-1] * FLATTEST_AXIS)
    # Turned back to the original axes: directions of equal variance come in any order, the product does not.
    return Space(mean, (directions * variances**EVENING) @ directions.T)


def _unit(rows: Floats) -> Floats:
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows / np.where(lengths == 0, 1, lengths))
