"""Commit messages and their vectors, for those who weigh a commit by what it says of itself.

Vector lane: exact search over the hunks' vectors, whitened per index.

All texts of one repository share a large common component, which says which repository it is and nothing
else. A `Space`, learnt from the index itself, takes the mean away and evens out the principal axes; the query,
which has half of that component, goes through the same transform. `similarities`, which people see, are plain cosines.

Vectors are read once and kept as they are stored. An index with too many of them has a side file of codes that
is scanned instead. Where that is missing, they are read again for each question, in the same blocks, so that memory
does not grow with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa

from stores import history, quantized_search, quantized_vectors
from stores.filters import Chosen
from stores.quantized_search import Asking, Coded, CodesDamaged
from stores.quantized_vectors import matrix
from stores.snapshot import (
    LANE_DEPTH,
    PREFERRED_PATH,
    Digests,
    Floats,
    Ints,
    Ranked,
    Snapshot,
    best,
    best_of,
    digests,
)
from stores.types import EMBEDDING_DIMENSION
from stores.whitening import BLOCK_ROWS, MOST_TO_LEARN_FROM, Space, Vectors, learnt, unit

# How much the message counts beside the hunk. As a lane of their own messages lowered fusion; a quarter here raised
# nDCG@10 of this lane by 0.02 to 0.04 for written questions and sentences of bodies, by 0.01 and nothing for news
# fragments, for which two fifths lowered it by 0.01 and 0.02.
MESSAGE_SHARE: Final = 0.25
# Nine messages in ten are shorter. Of a longer one the beginning tells what was done; the rest quotes logs and mails.
LONGEST_READ: Final = 4_000
# 64 MB of vectors; of a longer history each question reads those of its own candidates.
MOST_KEPT: Final = 64_000_000 // (4 * EMBEDDING_DIMENSION)

_MESSAGES: Final = """
SELECT commit_sha, left(message, {longest}) AS message, embedding
FROM commits LEFT JOIN vectors ON text_digest = message_digest"""


@dataclass(frozen=True, slots=True, eq=False)
class Messages:
    """Messages by commit: `places` leads from a sha to its row of `texts` and of `vectors` (zeros: has none)."""

    places: dict[str, int]
    texts: pa.ChunkedArray
    vectors: Vectors

    @property
    def bytes(self) -> int:
        """About how many bytes it keeps."""
        return int(self.texts.nbytes) + self.vectors.nbytes + 150 * len(self.places)

    def texts_of(self, shas: Sequence[str]) -> list[str]:
        """The text of each of these commits, which must be among them."""
        texts: list[str] = self.texts.take(pa.array(self._rows(shas), pa.int64())).to_pylist()
        return texts

    def vectors_of(self, shas: Sequence[str]) -> Vectors:
        """The vector of each of these commits, which must be among them."""
        return self.vectors[self._rows(shas)]

    def _rows(self, shas: Sequence[str]) -> list[int]:
        return [self.places[sha] for sha in shas]


def every(connection: duckdb.DuckDBPyConnection) -> Messages | None:
    """All messages; None where they are too many to keep."""
    ((count,),) = connection.execute("SELECT count(*) FROM commits").fetchall()
    return _read_messages(connection, "") if count <= MOST_KEPT else None


def some(connection: duckdb.DuckDBPyConnection, shas: Sequence[str]) -> Messages:
    """The messages of these commits."""
    # As constants: bound as a list they keep the scan from skipping row groups.
    listed = ", ".join(f"'{sha}'" for sha in shas) or "NULL"
    return _read_messages(connection, f" WHERE commit_sha IN ({listed})")


def _read_messages(connection: duckdb.DuckDBPyConnection, which: str) -> Messages:
    rows = connection.execute(_MESSAGES.format(longest=LONGEST_READ) + which).to_arrow_table()
    embedded = rows.column("embedding").combine_chunks()
    vectors = np.zeros((len(rows), EMBEDDING_DIMENSION), np.float32)
    vectors[embedded.is_valid().to_numpy(zero_copy_only=False)] = matrix(embedded.drop_null())
    places = {sha: row for row, sha in enumerate(rows.column("commit_sha").to_pylist())}
    return Messages(places, rows.column("message"), vectors)


# Cosines that agree to nine digits count as equal, so that the order of a sum cannot decide a tie.
DIGITS: Final = 9
# Cosines of whitened texts lie near 0.2 for chance and 0.6 for kin: a tenth is worth about as much as the
# full-text lanes' factor.
PREFERRED_COSINE: Final = PREFERRED_PATH / 15

_ALL: Final = "SELECT text_digest, embedding FROM vectors"
_OF_HUNKS: Final = """
SELECT hunk_id, embedding FROM hunks JOIN vectors USING (text_digest) WHERE hunk_id IN ({hunks})"""


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """A snapshot's distinct texts: the space they are compared in and each one's length there.

    `rows` are their vectors as stored; None where there are too many to keep. `coded` is what the side file has
    of them: with it, lengths are not needed, and there are none.
    """

    digests: Digests
    space: Space
    lengths: Floats
    rows: Vectors | None
    coded: Coded | None = None

    @property
    def bytes(self) -> int:
        """About how many bytes it keeps; the digests are the snapshot's."""
        kept = sum(part.nbytes for part in (self.space.axes, self.lengths, self.rows) if part is not None)
        return kept + (self.coded.bytes if self.coded else 0)


def load(
    connection: duckdb.DuckDBPyConnection,
    snapshot: Snapshot,
    *,
    space: Space | None = None,
    side: Path | None = None,
) -> Texts:
    """The texts of a snapshot, in their own space unless another is given: the raw one while they are few.

    `side` is where the side file is, if there is one.
    """
    texts = snapshot.texts
    few = len(texts) <= history.MOST_KEPT_ROWS
    if (
        not few
        and side is not None
        and space is None
        and (found := quantized_vectors.opened(connection, side))
    ):
        coded = Coded.of(found, snapshot, lambda late: _first(connection, late, len(late)))
        return Texts(texts, found.space, np.zeros(0), None, coded)
    rows = _first(connection, texts, len(texts)) if few else None
    # Digests are hashes: the first ones in their order are a fair sample, and the same one however the index grew.
    space = space or learnt(_first(connection, texts, MOST_TO_LEARN_FROM) if rows is None else rows)
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
    if texts.coded is not None:
        try:
            near, scores = _near(texts.coded, chosen, query, limit)
            return best_of(snapshot, near, scores, limit)
        except CodesDamaged:
            texts.coded.codes.discard()
            texts = load(connection, snapshot, space=texts.space)
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
    rows = of_hunks(connection, snapshot, texts, hunks)
    return dict(zip(hunks, cosines(rows, query).tolist(), strict=True))


def of_hunks(
    connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, texts: Texts, hunks: Sequence[int]
) -> Vectors:
    """The stored vectors of these hunks' texts, a row for each; zeros for a text that has none."""
    positions = snapshot.hunks.positions.at(np.array(hunks, dtype=np.int64))
    if texts.coded is not None:
        try:
            return texts.coded.sound(texts.coded.rows[positions])
        except CodesDamaged:
            texts.coded.codes.discard()
    if texts.rows is not None:
        return texts.rows[snapshot.hunks.texts[positions]]
    found = _of_hunks(connection, hunks) if hunks else {}
    nothing = np.zeros(EMBEDDING_DIMENSION, np.float32)
    return np.array([found.get(hunk, nothing) for hunk in hunks]).reshape(-1, EMBEDDING_DIMENSION)


def cosines(rows: Vectors | Floats, query: Vectors | Floats) -> Floats:
    """The cosine between the query and each row; 0 for a row of zeros."""
    wide = rows.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1)
    return np.round(wide @ unit(query) / np.where(lengths == 0, 1, lengths), DIGITS)


def _near(coded: Coded, chosen: Chosen, query: Vectors, limit: int) -> tuple[Ints, Floats]:
    space = coded.codes.space
    placed = space.asked(query.astype(np.float64))
    direction = space.axes @ unit(placed)
    offset = float(space.mean @ direction)

    def exact(rows: Vectors) -> Floats:
        block = rows.astype(np.float64)
        return _rounded(block @ direction, offset, np.linalg.norm(space.placed(block), axis=1))

    asking = Asking(np.flatnonzero(chosen.kept), chosen.preferred, PREFERRED_COSINE)
    return quantized_search.scores(coded, asking, placed, exact, limit=limit)


def _cosines(connection: duckdb.DuckDBPyConnection, texts: Texts, query: Vectors) -> Floats:
    """The cosine of query and text, for each text."""
    space = texts.space
    # (row - mean) @ axes @ wanted, with the products that are the same for every row made once.
    direction = space.axes @ unit(space.asked(query.astype(np.float64)))
    offset = float(space.mean @ direction)
    products = np.full(len(texts.digests), offset)
    for places, block in _blocks(connection, texts.digests, texts.rows):
        products[places] = block @ direction
    return _rounded(products, offset, texts.lengths)


def _rounded(products: Floats, offset: float, lengths: Floats) -> Floats:
    return np.round((products - offset) / np.where(lengths == 0, 1, lengths), DIGITS)


def _blocks(
    connection: duckdb.DuckDBPyConnection, texts: Digests, rows: Vectors | None
) -> Iterator[tuple[Ints | slice, Floats]]:
    """The texts' vectors in blocks, each with its texts' places: from memory, or else from the index."""
    if rows is not None:
        yield from _slices(rows)
        return
    for places, found in _read_vectors(connection, texts):
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
    for places, found in _read_vectors(connection, texts[:count]):
        rows[places] = found
    return rows


def _read_vectors(connection: duckdb.DuckDBPyConnection, texts: Digests) -> Iterator[tuple[Ints, Vectors]]:
    """The stored vectors of these texts, each with its text's place, in the order of the table."""
    if not len(texts):
        return
    for batch in connection.execute(_ALL).to_arrow_reader(BLOCK_ROWS):
        keys = digests(batch.column(0))
        places = np.minimum(np.searchsorted(texts, keys), len(texts) - 1)
        asked = texts[places] == keys
        yield places[asked], matrix(batch.column(1))[asked]


def _of_hunks(connection: duckdb.DuckDBPyConnection, hunks: Sequence[int]) -> dict[int, Vectors]:
    # As constants: bound as a list they keep the scan from skipping row groups.
    rows = connection.execute(_OF_HUNKS.format(hunks=", ".join(map(str, hunks)))).to_arrow_table()
    found = matrix(rows.column(1).combine_chunks())
    return dict(zip(rows.column(0).to_pylist(), found, strict=True))
