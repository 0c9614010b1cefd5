"""Vector lane: exact search over the hunks' vectors, whitened per index.

All texts of one repository share a large common component, which says which repository it is and nothing
else. A `Space`, learnt from the index itself, takes the mean away and evens out the principal axes; the query
goes through the same transform. `similarities`, which people see, are plain cosines.

Vectors are read once and kept as they are stored; an index with too many of them is read again for each
question, in the same blocks, so that memory does not grow with it. What depends on all of them, the space and
each text's length in it, is small and always kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stores.filters import Chosen
from stores.ranking import LANE_DEPTH, PREFERRED_PATH, Floats, Ranked, best
from stores.snapshot import Digests, Ints, Snapshot, digests
from stores.versions import EMBEDDING_DIMENSION

Vectors: TypeAlias = npt.NDArray[np.float32]

# Two or three texts per axis: below that the smallest variances are noise, and evening out would raise it.
FEWEST_TO_WHITEN: Final = 1_000
# Two dozen texts per axis settle its variance to a third, which evening out makes a twelfth.
MOST_TO_LEARN_FROM: Final = 10_000
# variance ** -1/4 is half way to equal axes: full whitening made noise as loud as meaning.
EVENING: Final = -0.25
# An axis with less than this share of the largest variance carries rounding errors.
FLATTEST_AXIS: Final = 1e-6
# 2,048 rows of 384 doubles are 6 MB: large enough for one product to pay, small beside everything else.
BLOCK_ROWS: Final = 2_048
# 128 MB of vectors, those of a history of some 40,000 commits: reading more than that for each question takes
# longer than anybody wants to wait, and keeping more takes memory that other programs want.
MOST_KEPT_ROWS: Final = 128_000_000 // (4 * EMBEDDING_DIMENSION)
# Cosines that agree to nine digits count as equal, so that the order of a sum cannot decide a tie.
DIGITS: Final = 9
# Cosines of whitened texts lie near 0.2 for chance and 0.6 for kin: a tenth is worth about as much as the
# full-text lanes' factor.
PREFERRED_COSINE: Final = PREFERRED_PATH / 15

_ALL: Final = "SELECT text_digest, embedding FROM vectors"
_OF_HUNKS: Final = """
SELECT hunk_id, embedding FROM hunks JOIN vectors USING (text_digest) WHERE hunk_id IN ({hunks})"""


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """Where texts are compared: `mean` taken away, `axes` (a square matrix) applied, rows normalised."""

    mean: Floats
    axes: Floats

    @classmethod
    def raw(cls) -> Space:
        """Vectors as the encoder made them."""
        return cls(np.zeros(EMBEDDING_DIMENSION), np.eye(EMBEDDING_DIMENSION))

    def placed(self, rows: Floats) -> Floats:
        """The rows in this space, not normalised."""
        return np.asarray((rows - self.mean) @ self.axes)


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """A snapshot's distinct texts: the space they are compared in and each one's length there.

    `rows` are their vectors as stored; None where there are too many to keep.
    """

    digests: Digests
    space: Space
    lengths: Floats
    rows: Vectors | None

    @property
    def bytes(self) -> int:
        """About how many bytes it keeps; the digests are the snapshot's."""
        return self.space.axes.nbytes + self.lengths.nbytes + (0 if self.rows is None else self.rows.nbytes)


def load(connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, *, space: Space | None = None) -> Texts:
    """The texts of a snapshot, in their own space unless another is given: the raw one while they are few."""
    texts = snapshot.texts
    rows = _first(connection, texts, len(texts)) if len(texts) <= MOST_KEPT_ROWS else None
    # Digests are hashes: the first ones in their order are a fair sample, and the same one however the index grew.
    space = space or _learnt(_first(connection, texts, MOST_TO_LEARN_FROM) if rows is None else rows)
    lengths = np.zeros(len(texts))
    for places, block in _blocks(connection, texts, rows):
        lengths[places] = np.linalg.norm(space.placed(block), axis=1)
    return Texts(texts, space, lengths, rows)


def ask(
    connection: duckdb.DuckDBPyConnection,
    snapshot: Snapshot,
    texts: Texts,
    query: Vectors,
    chosen: Chosen,
    *,
    limit: int = LANE_DEPTH,
) -> tuple[Ranked, ...]:
    """The hunks whose texts lie nearest to the query's vector, best first."""
    scores = _cosines(connection, texts, query)[snapshot.hunks.texts]
    return best(snapshot, scores + PREFERRED_COSINE * chosen.preferred, chosen.kept, limit)


def similarities(
    connection: duckdb.DuckDBPyConnection,
    snapshot: Snapshot,
    texts: Texts,
    query: Vectors,
    hunks: Sequence[int],
) -> dict[int, float]:
    """Plain cosine between the query and each of these hunks' texts."""
    if texts.rows is None:
        found = _of_hunks(connection, hunks)
    else:
        positions = snapshot.hunks.positions.at(np.array(hunks, dtype=np.int64))
        found = dict(zip(hunks, texts.rows[snapshot.hunks.texts[positions]], strict=True))
    wanted = _unit(query)
    return {hunk: round(float(_unit(row) @ wanted), DIGITS) for hunk, row in found.items()}


def _cosines(connection: duckdb.DuckDBPyConnection, texts: Texts, query: Vectors) -> Floats:
    """The cosine of query and text, for each text."""
    space = texts.space
    # (row - mean) @ axes @ wanted, with the products that are the same for every row made once.
    direction = space.axes @ _unit(space.placed(query.astype(np.float64)))
    offset = space.mean @ direction
    products = np.full(len(texts.digests), offset)
    for places, block in _blocks(connection, texts.digests, texts.rows):
        products[places] = block @ direction
    lengths = np.where(texts.lengths == 0, 1, texts.lengths)
    return np.round((products - offset) / lengths, DIGITS)


def _learnt(sample: Vectors) -> Space:
    """The space of the texts' own mean and axes, learnt from the first of them."""
    count = min(len(sample), MOST_TO_LEARN_FROM)
    if count < FEWEST_TO_WHITEN:
        return Space.raw()
    total, products = np.zeros(EMBEDDING_DIMENSION), np.zeros((EMBEDDING_DIMENSION,) * 2)
    for _, block in _slices(sample[:count]):
        total += block.sum(axis=0)
        products += block.T @ block
    mean = total / count
    variances, directions = np.linalg.eigh(products / count - np.outer(mean, mean))
    if variances[-1] <= 0:  # all texts in one point have no axes
        return Space.raw()
    variances = np.maximum(variances, variances[-1] * FLATTEST_AXIS)
    # Turned back to the original axes: directions of equal variance come in any order, the product does not.
    return Space(mean, (directions * variances**EVENING) @ directions.T)


def _blocks(
    connection: duckdb.DuckDBPyConnection, texts: Digests, rows: Vectors | None
) -> Iterator[tuple[Ints | slice, Floats]]:
    """The texts' vectors in blocks, each with its texts' places: from memory, or else from the index."""
    if rows is not None:
        yield from _slices(rows)
        return
    for places, found in _read(connection, texts):
        yield places, found.astype(np.float64)


def _slices(rows: Vectors) -> Iterator[tuple[slice, Floats]]:
    """All rows in blocks, which stand in one buffer: fresh pages cost more than the copy."""
    buffer = np.empty((min(len(rows), BLOCK_ROWS), EMBEDDING_DIMENSION))
    for start in range(0, len(rows), BLOCK_ROWS):
        places = slice(start, min(start + BLOCK_ROWS, len(rows)))
        block = buffer[: places.stop - start]
        np.copyto(block, rows[places])
        yield places, block


def _first(connection: duckdb.DuckDBPyConnection, texts: Digests, count: int) -> Vectors:
    """The vectors of the first texts; zeros for a text that has none."""
    rows = np.zeros((min(count, len(texts)), EMBEDDING_DIMENSION), np.float32)
    for places, found in _read(connection, texts[:count]):
        rows[places] = found
    return rows


def _read(connection: duckdb.DuckDBPyConnection, texts: Digests) -> Iterator[tuple[Ints, Vectors]]:
    """The stored vectors of these texts, each with its text's place, in the order of the table."""
    if not len(texts):
        return
    for batch in connection.execute(_ALL).to_arrow_reader(BLOCK_ROWS):
        keys = digests(batch.column(0))
        places = np.minimum(np.searchsorted(texts, keys), len(texts) - 1)
        asked = texts[places] == keys
        yield places[asked], _matrix(batch.column(1))[asked]


def _of_hunks(connection: duckdb.DuckDBPyConnection, hunks: Sequence[int]) -> dict[int, Vectors]:
    # As constants: bound as a list they keep the scan from skipping row groups.
    rows = connection.execute(_OF_HUNKS.format(hunks=", ".join(map(str, hunks)))).to_arrow_table()
    found = _matrix(rows.column(1).combine_chunks())
    return dict(zip(rows.column(0).to_pylist(), found, strict=True))


def _matrix(column: pa.Array) -> Vectors:
    return np.asarray(column.flatten().to_numpy(zero_copy_only=False)).reshape(-1, EMBEDDING_DIMENSION)


def _unit(row: npt.NDArray[Any]) -> Floats:
    wide = np.asarray(row, dtype=np.float64)
    return wide / (np.linalg.norm(wide) or 1.0)
