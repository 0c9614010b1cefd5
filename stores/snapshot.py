"""What every question about one state of an index reads: the hunks HEAD reaches, and HEAD's symbols.

Hunks are known by their position in the order of content: newest commit first, then by sha and path. Positions
never depend on row numbers, which depend on how the index grew, so of equal scores the lower position leads.

What a lane gives: its best hunks, of equal scores the one that leads by content.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stores import history, schema
from stores.types import Reach

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Digests: TypeAlias = npt.NDArray[np.bytes_]

# The last column parts paths that are no text and look the same as text.
_HUNKS: Final = """
SELECT hunk_id, text_digest, word_count, symbol_word_count, commit_date, commit_sha, file_path
FROM hunks JOIN commits USING (commit_sha)
ORDER BY commit_date DESC, commit_sha, file_path, file_path_bytes"""
_SYMBOLS: Final = "SELECT symbol_id, word_count, file_path, name FROM head_symbols ORDER BY symbol_id"


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """Row numbers of a table -> positions; -1 for rows that are not among them."""

    positions: Ints

    @classmethod
    def of(cls, rows: Ints) -> Numbers:
        """The position of each of these rows is its place in the array."""
        positions = np.full(rows.max(initial=-1) + 2, -1, dtype=np.int64)
        positions[rows] = np.arange(len(rows))
        return cls(positions)

    def at(self, rows: Ints) -> Ints:
        """The positions of these rows."""
        return self.positions[np.minimum(rows, len(self.positions) - 1)]


@dataclass(frozen=True, slots=True, eq=False)
class Hunks:
    """The hunks HEAD reaches, by position.

    `words` and `symbol_words` are document lengths of BM25, `texts` places among the snapshot's distinct texts,
    `files` places among its paths; `shown` has commit date, sha and path.
    """

    ids: Ints
    positions: Numbers
    texts: Ints
    words: Ints
    symbol_words: Ints
    files: Ints
    shown: pa.Table

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True, eq=False)
class HeadSymbols:
    """The symbols of the HEAD snapshot, in the order of their ids; `files` as in `Hunks`, -1 for other files."""

    positions: Numbers
    words: Ints
    files: Ints
    names: pa.Array

    def named(self, names: tuple[str, ...]) -> Bools:
        """Which symbols have one of these names."""
        return np.asarray(pc.is_in(self.names, pa.array(names, pa.string())), dtype=np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """One state of an index, as one HEAD sees it; `texts` are digests of the hunks' distinct texts, in order."""

    hunks: Hunks
    symbols: HeadSymbols
    texts: Digests
    files: int

    @property
    def bytes(self) -> int:
        """About how many bytes it keeps."""
        hunks, symbols = self.hunks, self.symbols
        arrays = (hunks.ids, hunks.texts, hunks.words, hunks.symbol_words, hunks.files, self.texts)
        others = (hunks.positions.positions, symbols.positions.positions, symbols.words, symbols.files)
        kept = sum(array.nbytes for array in (*arrays, *others))
        return int(kept + hunks.shown.nbytes + symbols.names.nbytes)


def load(connection: duckdb.DuckDBPyConnection, reach: Reach) -> Snapshot:
    """The snapshot of an opened index."""
    rows = connection.execute(_HUNKS).to_arrow_table()
    rows = rows.filter(_reached(connection, rows.column("commit_sha"), reach))
    texts, places = np.unique(digests(rows.column("text_digest").combine_chunks()), return_inverse=True)
    paths = rows.column("file_path").combine_chunks().dictionary_encode()
    ids = integers(rows.column("hunk_id"))
    hunks = Hunks(
        ids=ids,
        positions=Numbers.of(ids),
        texts=places.astype(np.int64),
        words=integers(rows.column("word_count")),
        symbol_words=integers(rows.column("symbol_word_count")),
        files=integers(paths.indices),
        shown=rows.select(["commit_date", "commit_sha", "file_path"]),
    )
    return Snapshot(hunks, _symbols(connection, paths.dictionary), texts, len(paths.dictionary))


def _reached(
    connection: duckdb.DuckDBPyConnection, commits: pa.ChunkedArray, reach: Reach
) -> pa.ChunkedArray:
    # Not in the statement: a list of commits takes a tenth of a millisecond for each to bind.
    back = pc.is_in(commits, pa.array(reach.back, pa.string()))
    if reach.complete:
        return back
    gone = pa.array([*history.unreached(connection), *reach.gone], pa.string())
    return pc.or_(back, pc.invert(pc.is_in(commits, gone)))


def integers(column: Any) -> Ints:
    """An Arrow column of whole numbers that are all there."""
    numbers: Ints = column.to_numpy().astype(np.int64)
    return numbers


def digests(column: pa.Array) -> Digests:
    """An Arrow column of digests, to compare and to sort."""
    fixed = column.cast(schema.DIGEST)
    width = schema.DIGEST.byte_width
    return np.frombuffer(fixed.buffers()[1], f"S{width}", len(fixed), fixed.offset * width)


def _symbols(connection: duckdb.DuckDBPyConnection, paths: pa.Array) -> HeadSymbols:
    rows = connection.execute(_SYMBOLS).to_arrow_table()
    files = pc.fill_null(pc.index_in(rows.column("file_path"), paths), -1)
    return HeadSymbols(
        positions=Numbers.of(integers(rows.column("symbol_id"))),
        words=integers(rows.column("word_count")),
        files=integers(files),
        names=rows.column("name").combine_chunks(),
    )


Floats: TypeAlias = npt.NDArray[np.float64]

LANE_DEPTH: Final = 100
# A path named in the query is a strong hint, not a filter: half again leaves room for a far better match.
PREFERRED_PATH: Final = 1.5


@dataclass(frozen=True, slots=True)
class Ranked:
    """One hunk of a lane's ranking; everything but the score identifies it by content."""

    hunk_id: int
    score: float
    commit_date: datetime
    commit_sha: str
    file_path: str


def best(snapshot: Snapshot, scores: Floats, eligible: Bools, limit: int) -> tuple[Ranked, ...]:
    """The eligible hunks of the highest scores, best first; `scores` has one for each position."""
    positions = np.flatnonzero(eligible)
    return best_of(snapshot, positions, scores[positions], limit)


def best_of(snapshot: Snapshot, positions: Ints, scores: Floats, limit: int) -> tuple[Ranked, ...]:
    """Of the hunks at these positions, which ascend, those of the highest scores, best first."""
    chosen = _highest(scores, limit)
    shown = snapshot.hunks.shown.take(positions[chosen]).to_pydict()
    ids = snapshot.hunks.ids[positions[chosen]].tolist()
    return tuple(Ranked(*row) for row in zip(ids, scores[chosen].tolist(), *shown.values(), strict=True))


def _highest(scores: Floats, limit: int) -> Ints:
    chosen = np.arange(len(scores))
    if len(scores) > limit > 0:
        chosen = np.flatnonzero(scores >= np.partition(scores, len(scores) - limit)[len(scores) - limit])
    # A stable sort keeps positions ascending where scores are equal.
    return chosen[np.argsort(-scores[chosen], kind="stable")][:limit]
