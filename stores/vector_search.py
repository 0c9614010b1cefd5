"""Vector lane, the ranking of hunks by cosine similarity to the query, and vectors of commit messages.

A query scans the 8-bit codes of all texts, or of the candidates that an optional HNSW index finds. The ranking uses
whitened vectors; the similarities in answers are cosines of vectors that are not whitened. Hunks whose texts have no
vector yet are not in the ranking.

The HNSW index of DuckDB's VSS extension is in its own database file, which is optional and can be deleted at any time.
It finds the candidates of a search. A candidate has the same score as in a scan, but some of the nearest texts can be
missing among the candidates. Texts that are not in the file are always candidates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stores import schema
from stores.compatibility import EMBEDDING_DIMENSION
from stores.database import fetch_int, format_literals
from stores.duckdb_engine import (
    MissingExtension,
    build_spill_path,
    load_extensions,
    make_files_private,
    read_batches,
)
from stores.history import ReachabilityDelta
from stores.index_location import DATABASE_FILE
from stores.snapshot import (
    LANE_DEPTH,
    PREFERRED_PATH_BOOST,
    FilterMask,
    Floats,
    Ints,
    RankedHunk,
    Snapshot,
    load_snapshot,
    select_top_k_at,
    to_digest_array,
    to_int_array,
)
from stores.vectors import (
    MAX_TEXTS_TO_FIT,
    WHITENING_BLOCK_ROWS,
    QuantizedVectors,
    Vectors,
    Whitening,
    fit_whitening,
    normalize,
    to_matrix,
)

# Parameter `ef_search` of HNSW, the length of its queue. A longer one finds more of the nearest vectors and is slower.
EF_SEARCH: Final = 200
# Number of candidates that the HNSW index finds for each requested text.
CANDIDATES_PER_TEXT: Final = 4
# The HNSW file is stale if more than this share of the texts was added or deleted since it was written.
MAX_STALE_SHARE: Final = 0.05

_CREATE_TABLE: Final = f"CREATE TABLE hnsw.vectors (text_digest BLOB, vector FLOAT[{EMBEDDING_DIMENSION}])"
_CREATE_INDEX: Final = "CREATE INDEX hnsw ON hnsw.vectors USING HNSW (vector) WITH (metric = 'ip')"
_FIND_NEAREST: Final = f"""
SELECT text_digest FROM hnsw.vectors
ORDER BY array_negative_inner_product(vector, ?::FLOAT[{EMBEDDING_DIMENSION}]) LIMIT ?"""

# Weight of the message's cosine when `serve.search.retrieval` averages it with a hunk's own cosine. See "Vector lane"
# in README.md.
MESSAGE_WEIGHT: Final = 0.25
# Longer messages are cut. Nine in ten messages are shorter. Longer ones describe the change first, then quote logs and
# mails.
MAX_MESSAGE_CHARS: Final = 4_000
# Number of commits whose messages and vectors are kept in memory, about 60 MB. In a longer history, each query reads
# the messages and vectors of its candidates.
MAX_CACHED_MESSAGES: Final = 100_000

# If less than this share of the texts pass the filters, only their vectors are read, else all are scanned. Reading one
# row takes three times as long as scanning it. With one text in fifty, reading took 2 ms, a scan 31 ms.
MAX_GATHERED_SHARE: Final = 0.25
# Cosines are rounded to nine decimals, so that the order of summation cannot decide a tie.
COSINE_DECIMALS: Final = 9
# Added to the cosine of a hunk in a preferred path. Whitened cosines are near 0.2 for unrelated texts and 0.6 for
# related ones, so 0.1 has about the effect of the factor in the full-text lanes.
PREFERRED_PATH_COSINE_BOOST: Final = PREFERRED_PATH_BOOST / 15

_VECTORS_SQL: Final = "SELECT text_digest, codes, scale FROM vectors SEMI JOIN hunks USING (text_digest)"
_DIGESTS_SQL: Final = "SELECT text_digest FROM vectors SEMI JOIN hunks USING (text_digest)"
_ALL_ROWS: Final = slice(None)
# Number of vectors that are read at a time.
_READ_ROWS: Final = 16_384
_MESSAGES_SQL: Final = """
SELECT commit_sha, left(message, {longest}) AS message, codes, scale
FROM commits LEFT JOIN vectors ON text_digest = message_digest"""


@dataclass(frozen=True, slots=True, eq=False)
class HnswIndex:
    """Open HNSW index. A row is the index of a text in `digests`.

    - `digests`: digests of the texts of the index.
    - `new_rows`: rows of the texts that are not in the file.
    - `stale_share`: number of texts added or deleted since the file was written, divided by the number of all texts.
    - `bytes`: size of the file.
    """

    connection: duckdb.DuckDBPyConnection
    digests: pa.Array
    new_rows: Ints
    stale_share: float
    bytes: int

    @property
    def is_stale(self) -> bool:
        """True if too many texts have changed. Then no search uses the file, and the next index run replaces it."""
        return self.stale_share > MAX_STALE_SHARE

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    def find_candidates(self, whitened_query: Floats, count: int) -> Ints:
        """Return the rows of the texts that may be among the `count` nearest to the query."""
        limit = CANDIDATES_PER_TEXT * count
        with self.connection.cursor() as cursor:
            cursor.execute(f"SET hnsw_ef_search = {max(EF_SEARCH, limit)}")
            nearest = (
                cursor.execute(_FIND_NEAREST, [whitened_query.tolist(), limit]).to_arrow_table().column(0)
            )
        rows = pc.index_in(nearest.combine_chunks().cast(self.digests.type), self.digests).drop_null()
        return np.concatenate((to_int_array(rows), self.new_rows))


def open_hnsw_index(file: Path, digests: pa.Array) -> HnswIndex | None:
    """Open the HNSW index for the texts with these digests; None if there is no usable file."""
    if not file.is_file():
        return None
    with ExitStack() as stack, suppress(duckdb.Error, OSError, MissingExtension):
        connection = stack.enter_context(_connect(file, read_only=True))
        indexed_digests = (
            connection.execute("SELECT text_digest FROM hnsw.vectors").to_arrow_table().column(0)
        )
        is_indexed = np.asarray(pc.is_in(digests, indexed_digests.combine_chunks().cast(digests.type)))
        new_rows = np.flatnonzero(~is_indexed)
        deleted_count = len(indexed_digests) - int(is_indexed.sum())
        stale_share = (len(new_rows) + deleted_count) / max(1, len(digests))
        index = HnswIndex(connection, digests, new_rows, stale_share, file.stat().st_size)
        index.find_candidates(np.zeros(EMBEDDING_DIMENSION), 1)  # reads the file, which may be damaged
        stack.pop_all()
        return index
    return None


def write_hnsw_index(file: Path, digests: pa.Array, blocks: Iterable[Vectors]) -> None:
    """Write the HNSW index of the texts with these digests.

    `blocks`: their whitened vectors of length 1, in the same order. Raises MissingExtension without VSS. A killed run
    leaves a temporary file, which the next run deletes.
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
    """Return a connection to a new in-memory database, with the HNSW file attached as `hnsw`."""
    connection = duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "temp_directory": build_spill_path(file.parent),
        },
    )
    try:
        load_extensions(connection, ["vss"])
        connection.execute("SET hnsw_enable_experimental_persistence = true")
        path_literal = str(file).replace("'", "''")
        connection.execute(f"ATTACH '{path_literal}' AS hnsw{' (READ_ONLY)' if read_only else ''}")
    except BaseException:
        connection.close()
        raise
    return connection


@dataclass(frozen=True, slots=True, eq=False)
class CommitMessages:
    """Commit messages and their vectors.

    - `row_by_sha`: row of each commit in `messages` and `vectors`.
    - `messages`: cut to MAX_MESSAGE_CHARS.
    - `vectors`: zeros for a message without a vector.
    """

    row_by_sha: dict[str, int]
    messages: pa.ChunkedArray
    vectors: QuantizedVectors

    @property
    def bytes(self) -> int:
        """Approximate memory in bytes. An entry of `row_by_sha` takes about 150."""
        return int(self.messages.nbytes) + self.vectors.bytes + 150 * len(self.row_by_sha)

    def get_messages(self, shas: Sequence[str]) -> list[str]:
        """Return the messages of these commits, which must all be loaded."""
        messages: list[str] = self.messages.take(pa.array(self._find_rows(shas))).to_pylist()
        return messages

    def get_vectors(self, shas: Sequence[str]) -> Vectors:
        """Return the vectors of the messages of these commits, which must all be loaded."""
        return self.vectors.take(self._find_rows(shas)).decode()

    def _find_rows(self, shas: Sequence[str]) -> Ints:
        return np.array([self.row_by_sha[sha] for sha in shas], dtype=np.int64)


def load_all_messages(connection: duckdb.DuckDBPyConnection) -> CommitMessages | None:
    """Load the messages of all recorded commits; return None if there are more than MAX_CACHED_MESSAGES."""
    count = fetch_int(connection, "SELECT count(*) FROM commits")
    return _read_messages(connection, "") if count <= MAX_CACHED_MESSAGES else None


def load_messages(connection: duckdb.DuckDBPyConnection, shas: Sequence[str]) -> CommitMessages:
    """Load the messages of these commits."""
    return _read_messages(connection, f" WHERE commit_sha IN ({format_literals(shas)})")


@dataclass(frozen=True, slots=True, eq=False)
class WhitenedQuery:
    """Encoded query, whitened for the texts of one index.

    `unit`: whitened query, scaled to length 1. `direction`, `offset`: the cosine of a vector is the product
    of the vector and `direction`, less `offset`, divided by the norm of the whitened vector.
    """

    unit: Floats
    direction: Floats
    offset: float


@dataclass(frozen=True, slots=True, eq=False)
class TextVectors:
    """Vectors of the texts of an index's hunks.

    - `rows`: row in `vectors` of the text of each hunk of a snapshot; -1 if the text has no vector yet.
    - `norms`: length of each whitened vector; 1 for a vector of length 0, so that one can divide by it.
    - `hnsw`: HNSW index of the texts; None if searches scan all vectors.
    """

    rows: Ints
    vectors: QuantizedVectors
    whitening: Whitening
    norms: Vectors
    hnsw: HnswIndex | None = None

    @property
    def bytes(self) -> int:
        """Approximate memory in bytes."""
        size = self.rows.nbytes + self.vectors.bytes + self.whitening.axes.nbytes + self.norms.nbytes
        return size + (self.hnsw.bytes if self.hnsw else 0)

    def whiten_query(self, query: Vectors) -> WhitenedQuery:
        """Return the query for searches in these vectors."""
        unit = normalize(self.whitening.transform_query(query.astype(np.float64)))
        # The score of a vector is (vector - mean) @ axes @ unit, divided by its norm.
        direction = self.whitening.axes @ unit
        return WhitenedQuery(unit, direction, float(self.whitening.mean @ direction))

    def compute_scores(self, query: WhitenedQuery, rows: Ints | slice = _ALL_ROWS) -> Floats:
        """Return the cosine between the whitened query and the whitened vector of each of these rows."""
        products = self.vectors.take(rows).multiply(query.direction) - query.offset
        return np.asarray(products / self.norms[rows])


def load_text_vectors(
    connection: duckdb.DuckDBPyConnection,
    snapshot: Snapshot,
    *,
    whitening: Whitening | None = None,
    hnsw_file: Path | None = None,
) -> TextVectors:
    """Load the vectors of a snapshot's texts.

    `whitening`: transform to use; if None, one is fitted to these vectors. `hnsw_file`: file of the HNSW index, which
    need not exist.
    """
    digests, vectors = _read_vectors(connection)
    text_vectors = _build_text_vectors(snapshot, digests, vectors, whitening)
    hnsw = open_hnsw_index(hnsw_file, digests) if hnsw_file else None
    if hnsw is not None and hnsw.is_stale:
        hnsw.close()
        hnsw = None
    return replace(text_vectors, hnsw=hnsw)


def load_hnsw_index(connection: duckdb.DuckDBPyConnection, file: Path) -> HnswIndex | None:
    """Open the HNSW index of the connected index, even if it is stale; None if there is no usable file."""
    digests = connection.execute(_DIGESTS_SQL).to_arrow_table().column(0)
    return open_hnsw_index(file, digests.combine_chunks().cast(schema.DIGEST))


def refresh_hnsw_index(connection: duckdb.DuckDBPyConnection, file: Path) -> None:
    """Write the HNSW index of the connected index if there is none, or if it is stale."""
    hnsw = load_hnsw_index(connection, file)
    if hnsw is not None:
        hnsw.close()
    if hnsw is None or hnsw.is_stale:
        digests, vectors = _read_vectors(connection)
        snapshot = load_snapshot(connection, ReachabilityDelta())
        text_vectors = _build_text_vectors(snapshot, digests, vectors, None)
        write_hnsw_index(file, digests, _iterate_whitened_blocks(text_vectors))


def _build_text_vectors(
    snapshot: Snapshot, digests: pa.Array, vectors: QuantizedVectors, whitening: Whitening | None
) -> TextVectors:
    """Match the hunks to their vectors, fit the whitening if it is None, and compute the norms."""
    rows = to_int_array(pc.fill_null(pc.index_in(snapshot.hunks.text_digests, digests), -1))
    if whitening is None:
        used_rows = np.unique(rows[rows >= 0])
        # Digests are hashes, so the lowest are a random sample that does not depend on the order of indexing.
        sample = used_rows[np.argsort(to_digest_array(digests)[used_rows])][:MAX_TEXTS_TO_FIT]
        whitening = fit_whitening(vectors.take(sample).decode())
    norms = vectors.compute_norms(whitening.mean, whitening.axes).astype(np.float32)
    return TextVectors(rows, vectors, whitening, np.where(norms == 0, np.float32(1), norms))


def _iterate_whitened_blocks(text_vectors: TextVectors) -> Iterator[Vectors]:
    """Yield the whitened vectors of all texts, scaled to length 1, in blocks of WHITENING_BLOCK_ROWS."""
    for start in range(0, len(text_vectors.vectors), WHITENING_BLOCK_ROWS):
        rows = slice(start, start + WHITENING_BLOCK_ROWS)
        block = text_vectors.vectors.take(rows).decode().astype(np.float64)
        yield (text_vectors.whitening.transform(block) / text_vectors.norms[rows, None]).astype(np.float32)


def search(
    snapshot: Snapshot,
    text_vectors: TextVectors,
    query: WhitenedQuery,
    mask: FilterMask,
    *,
    limit: int = LANE_DEPTH,
) -> tuple[RankedHunk, ...]:
    """Return the hunks whose texts are most similar to the query, best first."""
    positions = np.flatnonzero(mask.is_included & (text_vectors.rows >= 0))
    rows = text_vectors.rows[positions]
    hnsw = text_vectors.hnsw
    has_preferred_hunks = bool(mask.is_preferred.any())
    # The HNSW index considers neither filters nor preferred paths.
    if hnsw is not None and mask.is_included.all() and not has_preferred_hunks:
        is_candidate = np.isin(rows, hnsw.find_candidates(query.unit, limit))
        positions = positions[is_candidate]
        scores = text_vectors.compute_scores(query, rows[is_candidate])
    elif len(rows) < MAX_GATHERED_SHARE * len(text_vectors.vectors):
        scores = text_vectors.compute_scores(query, rows)
    else:
        scores = text_vectors.compute_scores(query).take(rows)  # faster than `[rows]`
    if has_preferred_hunks:
        scores += PREFERRED_PATH_COSINE_BOOST * mask.is_preferred[positions]
    return select_top_k_at(snapshot, positions, scores, limit)


def get_hunk_vectors(snapshot: Snapshot, text_vectors: TextVectors, hunk_ids: Sequence[int]) -> Vectors:
    """Return the vectors of the texts of these hunks, a row for each.

    The row is zeros for a text without a vector, and for a hunk that is not in the snapshot.
    """
    positions = snapshot.hunks.positions.find_positions(np.array(hunk_ids, dtype=np.int64))
    rows = np.full(len(positions), -1)
    rows[positions >= 0] = text_vectors.rows[positions[positions >= 0]]
    vectors = np.zeros((len(rows), EMBEDDING_DIMENSION), np.float32)
    vectors[rows >= 0] = text_vectors.vectors.take(rows[rows >= 0]).decode()
    return vectors


def compute_cosine_similarities(vectors: Vectors | Floats, query: Vectors | Floats) -> Floats:
    """Return the cosine between the query and each row of `vectors`; 0 for a row of zeros."""
    vectors64 = vectors.astype(np.float64)
    norms = np.linalg.norm(vectors64, axis=1)
    return np.round(vectors64 @ normalize(query) / np.where(norms == 0, 1, norms), COSINE_DECIMALS)


def _read_messages(connection: duckdb.DuckDBPyConnection, condition: str) -> CommitMessages:
    """Read the messages of the commits that meet the condition, an SQL clause ` WHERE ...` or empty."""
    rows = connection.execute(_MESSAGES_SQL.format(longest=MAX_MESSAGE_CHARS) + condition).to_arrow_table()
    codes, scales = (rows.column(name).combine_chunks() for name in ("codes", "scale"))
    row_by_sha = {sha: row for row, sha in enumerate(rows.column("commit_sha").to_pylist())}
    return CommitMessages(row_by_sha, rows.column("message"), QuantizedVectors.from_columns(codes, scales))


def _read_vectors(connection: duckdb.DuckDBPyConnection) -> tuple[pa.Array, QuantizedVectors]:
    """Return the digests and vectors of all hunk texts, in table order."""
    # The count includes messages, so the arrays are too long. The system allocates only the pages that are written.
    count = fetch_int(connection, "SELECT count(*) FROM vectors")
    codes, scales = np.empty((count, EMBEDDING_DIMENSION), np.int8), np.empty(count, np.float32)
    digests, end = [], 0
    for batch in read_batches(connection, _VECTORS_SQL, _READ_ROWS):
        block = slice(end, end := end + len(batch))
        digests.append(batch.column(0).cast(schema.DIGEST))
        codes[block] = to_matrix(batch.column(1))
        scales[block] = batch.column(2).to_numpy()
    all_digests = pa.chunked_array(digests, schema.DIGEST).combine_chunks()
    return all_digests, QuantizedVectors(codes[:end], scales[:end])
