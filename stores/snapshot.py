"""Snapshot of an index as NumPy arrays: hunks, postings, query filters as masks over the hunks, and top-k selection.

The position of a hunk is its index in the snapshot, which is sorted by content: newest commit first, then by sha and
path. Among equal scores the lower position comes first, so a ranking does not depend on hunk ids.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeAlias

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stores import history, schema
from stores.database import fetch_int
from stores.filters import (
    QueryFilter,
    QuotedSymbol,
    build_filter_condition,
    build_preference_condition,
)
from stores.history import ReachabilityDelta

Ints: TypeAlias = npt.NDArray[np.int64]
SmallInts: TypeAlias = npt.NDArray[np.unsignedinteger[Any]]
Bools: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float64]
Digests: TypeAlias = npt.NDArray[np.bytes_]

# Maximum number of hunks that a lane, the ranking by one retriever, returns.
LANE_DEPTH: Final = 100
# Factor of the score of a hunk in a preferred path. With 1.5, a much better match elsewhere still ranks higher.
PREFERRED_PATH_BOOST: Final = 1.5
# Maximum number of postings to keep in memory, at 3 or 4 bytes each, enough for about 30,000 hunks. If there are
# more, none is kept, and each query reads the postings of its terms.
MAX_CACHED_POSTINGS: Final = 2_000_000
# Tables of postings, and their column with the id of the document: a hunk, or a symbol at HEAD.
POSTINGS_TABLES: Final = {
    "hunk_postings": "hunk_id",
    "symbol_postings": "hunk_id",
    "head_postings": "symbol_id",
}
# All postings of a table. `key`: its column in POSTINGS_TABLES.
POSTINGS: Final = "SELECT term_id, {key}, frequency FROM {table}"
_COUNT_POSTINGS: Final = " + ".join(f"(SELECT count(*) FROM {table})" for table in POSTINGS_TABLES)

# Hunks in the order of positions. `file_path_bytes` orders paths that differ only in bytes that are not UTF-8.
_HUNKS: Final = """
SELECT hunk_id, text_digest, word_count, symbol_word_count, commit_date, commit_sha, file_path
FROM hunks JOIN commits USING (commit_sha)
ORDER BY commit_date DESC, commit_sha, file_path, file_path_bytes"""
# SQL for the name of the innermost enclosing symbol. For Rust's `impl Display for Event` it is `Event`.
INNERMOST_PARENT: Final = "split_part(split_part(parent, '.', -1), ' ', -1)"
_SYMBOLS: Final = f"""
SELECT symbol_id, word_count, file_path, name, {INNERMOST_PARENT} AS parent
FROM head_symbols ORDER BY symbol_id"""
_MASK_SQL: Final = """
SELECT hunk_id, {included} AS included, {preferred} AS preferred
FROM hunks JOIN commits USING (commit_sha)"""


@dataclass(frozen=True, slots=True, eq=False)
class PositionLookup:
    """Map from row numbers of a table, such as hunk ids, to positions in the snapshot.

    `positions`: position by row number; -1 for a row that is not in the snapshot.
    """

    positions: Ints

    @classmethod
    def from_rows(cls, rows: Ints) -> PositionLookup:
        """Build the map. `rows`: the row number at each position."""
        # The last entry stays -1. It stands for all higher row numbers.
        positions = np.full(rows.max(initial=-1) + 2, -1, dtype=np.int64)
        positions[rows] = np.arange(len(rows))
        return cls(positions)

    def find_positions(self, rows: Ints) -> Ints:
        """Return the positions of these rows; -1 for a row that is not in the snapshot."""
        return self.positions[np.minimum(rows, len(self.positions) - 1)]


@dataclass(frozen=True, slots=True, eq=False)
class Hunks:
    """Columns of the hunks that HEAD reaches, by position. A hunk is the diff of one file in one commit.

    - `ids`: hunk id at each position. `positions`: position of each hunk id.
    - `text_digests`: keys of the table `vectors`.
    - `word_counts`, `symbol_word_counts`: document lengths for BM25.
    - `file_indices`: number of the hunk's path; the distinct paths are numbered from 0.
    - `commit_info`: columns with commit date, sha and path.
    """

    ids: Ints
    positions: PositionLookup
    text_digests: pa.Array
    word_counts: Ints
    symbol_word_counts: Ints
    file_indices: Ints
    commit_info: pa.Table

    def __len__(self) -> int:
        return len(self.ids)

    def mask_hunks_by_commit(self, commits: Collection[str]) -> Bools:
        """Return the mask of the hunks that belong to one of these commits."""
        shas = pa.array(commits, pa.string())
        return np.asarray(pc.is_in(self.commit_info.column("commit_sha"), shas), dtype=np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class HeadSymbols:
    """Columns of the symbols at HEAD, in the order of their ids.

    - `positions`: index of each symbol id in the columns.
    - `word_counts`: document lengths for BM25.
    - `file_indices`: as in `Hunks`; -1 for a file without hunks.
    - `parents`: name of the innermost enclosing symbol; empty at top level.
    """

    positions: PositionLookup
    word_counts: Ints
    file_indices: Ints
    names: pa.Array
    parents: pa.Array

    def count_matched_parts(self, quoted_symbols: tuple[QuotedSymbol, ...]) -> Ints:
        """Return how many parts of a quoted symbol each symbol has: 0, 1 (name) or 2 (also parent)."""
        names = pa.array([quoted.name for quoted in quoted_symbols], pa.string())
        full_names = pa.array([str(quoted) for quoted in quoted_symbols if quoted.parent], pa.string())
        has_name = pc.is_in(self.names, names)
        has_parent = pc.is_in(pc.binary_join_element_wise(self.parents, self.names, "."), full_names)
        return np.asarray(has_name, dtype=np.int64) + np.asarray(has_parent, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class PostingsTable:
    """Postings of one table in memory, sorted by term id.

    - `starts`: index of the first posting of each term id; the last element is the number of postings.
    - `documents`: position of the hunk or symbol of each posting.
    - `frequencies`: number of occurrences of the term in the document.
    """

    starts: SmallInts
    documents: SmallInts
    frequencies: SmallInts

    @classmethod
    def from_rows(cls, rows: pa.Table, positions: PositionLookup) -> PostingsTable:
        """Build the table from columns with term id, document id and frequency.

        Postings of documents without a position, such as unreachable hunks, are left out.
        """
        term_ids, document_ids, frequencies = (column.to_numpy() for column in rows.columns)
        documents = positions.find_positions(document_ids)
        is_included = documents >= 0
        term_ids = term_ids[is_included]
        order = np.argsort(term_ids, kind="stable")
        starts = np.concatenate(([0], np.cumsum(np.bincount(term_ids))))
        sorted_columns = (column[is_included][order] for column in (documents, frequencies))
        return cls(
            *(
                column.astype(np.min_scalar_type(column.max(initial=0)))
                for column in (starts, *sorted_columns)
            )
        )

    @property
    def bytes(self) -> int:
        """Memory in bytes."""
        return self.starts.nbytes + self.documents.nbytes + self.frequencies.nbytes

    def find_postings(self, term_ids: Ints) -> tuple[Ints, Ints, Ints]:
        """Return the postings of these terms: index of the term in `term_ids`, document and frequency."""
        last = len(self.starts) - 1  # stands for all higher ids, which have no postings
        starts, ends = (
            self.starts[np.minimum(ids, last)].astype(np.int64) for ids in (term_ids, term_ids + 1)
        )
        counts = ends - starts
        # For each term, the consecutive rows from its start to its end.
        rows = np.repeat(ends - np.cumsum(counts), counts) + np.arange(counts.sum())
        term_indices = np.repeat(np.arange(len(term_ids)), counts)
        return term_indices, self.documents[rows].astype(np.int64), self.frequencies[rows].astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class PostingsCache:
    """All terms and postings of a snapshot in memory. Without it, a query takes 1 ms more for each table.

    `terms`: in alphabetical order. `term_ids`: their ids. `tables`: by their names in `POSTINGS_TABLES`.
    """

    terms: pa.Array
    term_ids: Ints
    tables: Mapping[str, PostingsTable]

    @property
    def bytes(self) -> int:
        """Approximate memory in bytes."""
        own_bytes = int(self.terms.nbytes) + self.term_ids.nbytes
        return own_bytes + sum(table.bytes for table in self.tables.values())

    def find_terms(self, terms: Iterable[str]) -> list[tuple[int, str]]:
        """Return id and text of those terms that the index has, by ascending id."""
        rows = ((bisect_left(self.terms, term, key=pa.StringScalar.as_py), term) for term in set(terms))
        return sorted(
            (int(self.term_ids[row]), term)
            for row, term in rows
            if row < len(self.terms) and self.terms[row].as_py() == term
        )


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """Hunks that one HEAD reaches, and symbols at HEAD.

    `file_count`: number of distinct paths of the hunks. `postings`: None if each query reads the postings of its
    terms from the index.
    """

    hunks: Hunks
    symbols: HeadSymbols
    file_count: int
    postings: PostingsCache | None = None

    def with_postings(self, connection: duckdb.DuckDBPyConnection) -> Snapshot:
        """Return a copy with all postings, or this snapshot if there are more than MAX_CACHED_POSTINGS."""
        if fetch_int(connection, f"SELECT {_COUNT_POSTINGS}") > MAX_CACHED_POSTINGS:
            return self
        terms = connection.execute("SELECT term, term_id FROM terms ORDER BY term").to_arrow_table()
        tables = {}
        for table, key in POSTINGS_TABLES.items():
            rows = connection.execute(POSTINGS.format(key=key, table=table)).to_arrow_table()
            tables[table] = PostingsTable.from_rows(rows, self.get_positions(table))
        cache = PostingsCache(terms.column(0).combine_chunks(), to_int_array(terms.column(1)), tables)
        return replace(self, postings=cache)

    def get_positions(self, table: str) -> PositionLookup:
        """Return the map from the document ids of a table of postings to their positions."""
        return (self.symbols if table == "head_postings" else self.hunks).positions

    @property
    def bytes(self) -> int:
        """Approximate memory in bytes."""
        hunks, symbols = self.hunks, self.symbols
        columns = (
            hunks.ids,
            hunks.positions.positions,
            hunks.text_digests,
            hunks.word_counts,
            hunks.symbol_word_counts,
            hunks.file_indices,
            hunks.commit_info,
            symbols.positions.positions,
            symbols.word_counts,
            symbols.file_indices,
            symbols.names,
            symbols.parents,
        )
        return sum(int(column.nbytes) for column in columns) + (self.postings.bytes if self.postings else 0)


class RankedHunk(NamedTuple):
    """Hunk in the ranking of a retriever, with its commit and path."""

    hunk_id: int
    score: float
    commit_date: datetime
    commit_sha: str
    file_path: str


def load_snapshot(connection: duckdb.DuckDBPyConnection, reachability: ReachabilityDelta) -> Snapshot:
    """Load the hunks and symbols of an open index. `reachability`: which commits the current HEAD reaches."""
    rows = connection.execute(_HUNKS).to_arrow_table()
    rows = rows.filter(_find_reachable(connection, rows.column("commit_sha"), reachability))
    path_dictionary = rows.column("file_path").combine_chunks().dictionary_encode()
    ids = to_int_array(rows.column("hunk_id"))
    hunks = Hunks(
        ids=ids,
        positions=PositionLookup.from_rows(ids),
        text_digests=rows.column("text_digest").combine_chunks().cast(schema.DIGEST),
        word_counts=to_int_array(rows.column("word_count")),
        symbol_word_counts=to_int_array(rows.column("symbol_word_count")),
        file_indices=to_int_array(path_dictionary.indices),
        commit_info=rows.select(["commit_date", "commit_sha", "file_path"]),
    )
    return Snapshot(
        hunks, _load_symbols(connection, path_dictionary.dictionary), len(path_dictionary.dictionary)
    )


@dataclass(frozen=True, slots=True, eq=False)
class FilterMask:
    """Masks over the hunks of a snapshot.

    `is_included`: hunks that meet all conditions. `is_preferred`: hunks that match a preferred path.
    """

    is_included: Bools
    is_preferred: Bools


def apply_filter(
    connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, query_filter: QueryFilter
) -> FilterMask:
    """Return the masks of this filter for the hunks of a snapshot."""
    hunks = snapshot.hunks
    is_included, is_preferred = np.ones(len(hunks), np.bool_), np.zeros(len(hunks), np.bool_)
    if query_filter.has_conditions or query_filter.preferred_paths:
        condition, parameters = build_filter_condition(query_filter)
        preference, patterns = build_preference_condition(query_filter.preferred_paths)
        sql = _MASK_SQL.format(included=condition, preferred=preference)
        table = connection.execute(sql, {**parameters, **patterns}).to_arrow_table()
        positions = hunks.positions.find_positions(to_int_array(table.column("hunk_id")))
        is_reachable = positions >= 0
        reachable_positions = positions[is_reachable]
        is_included[reachable_positions] = table.column("included").to_numpy()[is_reachable]
        is_preferred[reachable_positions] = table.column("preferred").to_numpy()[is_reachable]
    for commit_filter in query_filter.commit_filters:
        is_included &= hunks.mask_hunks_by_commit(commit_filter.commits)
    return FilterMask(is_included, is_preferred)


def select_top_k(
    snapshot: Snapshot, scores: Floats, is_eligible: Bools, limit: int
) -> tuple[RankedHunk, ...]:
    """Return the `limit` eligible hunks with the highest scores, best first.

    `scores`, `is_eligible`: one element per position.
    """
    positions = np.flatnonzero(is_eligible)
    return select_top_k_at(snapshot, positions, scores[positions], limit)


def select_top_k_at(
    snapshot: Snapshot, positions: Ints, scores: Floats, limit: int
) -> tuple[RankedHunk, ...]:
    """Return the `limit` hunks with the highest scores among those at these positions, best first.

    `positions`: ascending. `scores`: score at each of them.
    """
    top_indices = _select_top_indices(scores, limit)
    hunks = snapshot.hunks
    commit_info = hunks.commit_info.take(positions[top_indices])
    columns = (
        hunks.ids[positions[top_indices]].tolist(),
        scores[top_indices].tolist(),
        commit_info.column("commit_date").to_numpy().tolist(),  # `to_pylist` takes ten times as long
        commit_info.column("commit_sha").to_pylist(),
        commit_info.column("file_path").to_pylist(),
    )
    return tuple(map(RankedHunk._make, zip(*columns, strict=True)))


def to_int_array(column: Any) -> Ints:
    """Convert an Arrow column of integers without nulls to an array of 64-bit integers."""
    numbers: Ints = column.to_numpy().astype(np.int64)
    return numbers


def to_digest_array(column: pa.Array) -> Digests:
    """Convert an Arrow column of digests to an array of fixed-length byte strings."""
    digests = column.cast(schema.DIGEST)
    width = schema.DIGEST.byte_width
    return np.frombuffer(digests.buffers()[1], f"S{width}", len(digests), digests.offset * width)


def _load_symbols(connection: duckdb.DuckDBPyConnection, paths: pa.Array) -> HeadSymbols:
    """Load the symbols at HEAD. `paths`: distinct paths of the hunks, in the order of `Hunks.file_indices`."""
    rows = connection.execute(_SYMBOLS).to_arrow_table()
    files = pc.fill_null(pc.index_in(rows.column("file_path"), paths), -1)
    return HeadSymbols(
        positions=PositionLookup.from_rows(to_int_array(rows.column("symbol_id"))),
        word_counts=to_int_array(rows.column("word_count")),
        file_indices=to_int_array(files),
        names=rows.column("name").combine_chunks(),
        parents=rows.column("parent").combine_chunks(),
    )


def _find_reachable(
    connection: duckdb.DuckDBPyConnection, commits: pa.ChunkedArray, reachability: ReachabilityDelta
) -> pa.ChunkedArray:
    """Return a mask of the commits that HEAD reaches.

    This is not done in SQL, because binding each commit as a parameter takes 0.1 ms.
    """
    added = pc.is_in(commits, pa.array(reachability.added_commits, pa.string()))
    if reachability.lists_all_commits:
        return added
    removed = pa.array(
        [*history.load_unreachable_commits(connection), *reachability.removed_commits], pa.string()
    )
    return pc.or_(added, pc.invert(pc.is_in(commits, removed)))


def _select_top_indices(scores: Floats, limit: int) -> Ints:
    """Return the indices of the `limit` highest scores, best first, and lower indices first among equal scores."""
    indices = np.arange(len(scores))
    if len(scores) > limit > 0:
        rank = len(scores) - limit  # in ascending order
        lowest_selected_score = np.partition(scores, rank)[rank]
        indices = np.flatnonzero(scores >= lowest_selected_score)
    return indices[np.argsort(-scores[indices], kind="stable")][:limit]
