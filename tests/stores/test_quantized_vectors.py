"""Side file with quantized vectors: rankings, damage, and when it is written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from stores import database, history, quantized_search, quantized_vectors, snapshot, vector_search, writer
from stores.filters import QueryFilter, apply_filter
from stores.index_location import IndexLocation
from stores.quantized_vectors import PAGE_BYTES
from stores.snapshot import RankedHunk, Snapshot
from stores.types import ReachabilityDelta
from stores.vector_search import TextVectors
from tests.stores.batches import CURRENT_VERSIONS, SampleCommit, make_batch, make_location
from tests.stores.processes import run_script
from tests.stores.sample_index import SampleHunk, create_index
from tests.stores.search_helpers import NO_FILTER
from tests.stores.test_vector_search import LARGE, QUERY

# Script that deletes and writes the side file, until it is killed.
WRITE_REPEATEDLY = """
from stores import quantized_vectors, history
history.MAX_ROWS_IN_MEMORY = 10
while True:
    location.quantized_vectors.unlink(missing_ok=True)
    print("deleted")
    quantized_vectors.refresh_quantized_file(location)
"""


@pytest.fixture(autouse=True)
def lower_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the indexes of these tests count as large."""
    monkeypatch.setattr(history, "MAX_ROWS_IN_MEMORY", 10)


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with create_index(LARGE) as new_connection:
        yield new_connection


@pytest.fixture
def side_file(connection: duckdb.DuckDBPyConnection, tmp_path: Path) -> Path:
    return write_side_file(connection, tmp_path)


def write_side_file(connection: duckdb.DuckDBPyConnection, folder: Path) -> Path:
    file = folder / "index.duckdb.codes"
    quantized_vectors.write_quantized_file(connection, file, quantized_vectors._describe_origin(connection))
    return file


def load(connection: duckdb.DuckDBPyConnection, side_file: Path | None) -> tuple[Snapshot, TextVectors]:
    loaded_snapshot = snapshot.load_snapshot(connection, ReachabilityDelta())
    return loaded_snapshot, vector_search.load_text_vectors(connection, loaded_snapshot, side_file=side_file)


def search(
    connection: duckdb.DuckDBPyConnection,
    side_file: Path | None,
    query_filter: QueryFilter = NO_FILTER,
    limit: int = 100,
) -> tuple[RankedHunk, ...]:
    """Search with the side file, or exhaustively without one."""
    loaded_snapshot, texts = load(connection, side_file)
    assert (texts.quantized is not None) == (side_file is not None)
    return search_loaded(connection, loaded_snapshot, texts, query_filter, limit)


def search_loaded(
    connection: duckdb.DuckDBPyConnection,
    loaded_snapshot: Snapshot,
    texts: TextVectors,
    query_filter: QueryFilter = NO_FILTER,
    limit: int = 100,
) -> tuple[RankedHunk, ...]:
    mask = apply_filter(connection, loaded_snapshot, query_filter)
    return vector_search.search(connection, loaded_snapshot, texts, QUERY, mask, limit=limit)


def compute_similarities(
    connection: duckdb.DuckDBPyConnection, side_file: Path | None, hunks: Sequence[int]
) -> dict[int, float]:
    loaded_snapshot, texts = load(connection, side_file)
    return vector_search.compute_hunk_similarities(connection, loaded_snapshot, texts, QUERY, hunks)


@pytest.mark.parametrize("limit", [1, 10, 100, 5_000])
@pytest.mark.parametrize(
    "query_filter",
    [
        QueryFilter(),
        QueryFilter(language="rust"),
        QueryFilter(path="1*.py"),
        QueryFilter(path="17.py"),
        QueryFilter(path="none.py"),
        QueryFilter(preferred_paths=("7*",)),
        QueryFilter(language="python", preferred_paths=("7*", "1*")),
    ],
)
def test_equals_exhaustive_search(
    connection: duckdb.DuckDBPyConnection, side_file: Path, query_filter: QueryFilter, limit: int
) -> None:
    """With any filter, rows and scores equal those of the exhaustive search."""
    assert search(connection, side_file, query_filter, limit) == search(connection, None, query_filter, limit)


def test_few_vectors_are_read(
    connection: duckdb.DuckDBPyConnection, side_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The codes select candidates so precisely that few other vectors are read."""
    row_counts: list[int] = []
    read_vectors = quantized_search.QuantizedSnapshot.read_vectors

    def count_and_read(self: quantized_search.QuantizedSnapshot, rows: np.ndarray) -> np.ndarray:
        row_counts.append(len(rows))
        return read_vectors(self, rows)

    monkeypatch.setattr(quantized_search.QuantizedSnapshot, "read_vectors", count_and_read)
    search(connection, side_file, limit=10)
    assert row_counts and 10 <= row_counts[0] < 40


def test_quantization_errors(connection: duckdb.DuckDBPyConnection, side_file: Path) -> None:
    """The quantization errors and norms in the file are correct for every text."""
    file = quantized_vectors.open_quantized_file(connection, side_file)
    assert file is not None
    whitened = file.whitening.transform(file.vectors.astype(np.float64))
    whitened /= np.linalg.norm(whitened, axis=1, keepdims=True)
    decoded = file.quantized.decode(np.arange(len(file.vectors), dtype=np.int32))
    errors = np.linalg.norm(whitened - decoded, axis=1)
    assert (errors <= file.quantized.errors + 1e-6).all() and errors.max() < 0.05
    assert file.quantized.trailing_norms == pytest.approx(
        np.linalg.norm(decoded[:, quantized_vectors.LEADING_DIMENSIONS :], axis=1)
    )


def test_leading_dimensions_have_most_variance(
    connection: duckdb.DuckDBPyConnection, side_file: Path
) -> None:
    """The variance decreases along the dimensions, so the trailing ones contribute little."""
    file = quantized_vectors.open_quantized_file(connection, side_file)
    assert file is not None
    variance = np.square(file.quantized.leading_codes.astype(np.float64)).mean(axis=0)
    assert variance[:100].min() > variance[-100:].max()
    assert np.median(file.quantized.trailing_norms) < 0.5


def test_tail_is_scored(tmp_path: Path) -> None:
    """Texts added after the file was written are ranked with the others, with or without a filter."""
    tail = [
        SampleHunk(500 + n, f"late{n}.rs", language="rust", vector=hunk.vector[::-1])
        for n, hunk in enumerate(LARGE[:40])
    ]
    old_connection, new_connection = create_index(LARGE), create_index([*LARGE, *tail])
    loaded_snapshot, texts = load(new_connection, write_side_file(old_connection, tmp_path))
    assert texts.quantized is not None and len(texts.quantized.tail_vectors) == 40
    exhaustive = vector_search.load_text_vectors(new_connection, loaded_snapshot, whitening=texts.whitening)
    for query_filter in (QueryFilter(), QueryFilter(language="rust"), QueryFilter(path="late*")):
        hits = search_loaded(new_connection, loaded_snapshot, texts, query_filter)
        assert hits == search_loaded(new_connection, loaded_snapshot, exhaustive, query_filter)
    assert any(hit.file_path.startswith("late") for hit in hits)


def test_unreached_texts_are_left_out(tmp_path: Path) -> None:
    """Texts in the file that belong only to unreached commits are not ranked."""
    unreached_hunks = [
        SampleHunk(900, f"unreached{n}.py", vector=(*QUERY.tolist()[:-1], n)) for n in range(20)
    ]
    connection = create_index([*LARGE, *unreached_hunks], unreached=[900])
    hits = search(connection, write_side_file(connection, tmp_path), limit=2_000)
    assert len(hits) == len(LARGE) and not any(hit.file_path.startswith("unreached") for hit in hits)


def test_similarities(connection: duckdb.DuckDBPyConnection, side_file: Path) -> None:
    """Displayed similarities are the cosines of the stored vectors."""
    assert compute_similarities(connection, side_file, [3, 1, 999]) == compute_similarities(
        connection, None, [3, 1, 999]
    )
    assert compute_similarities(connection, None, []) == {}


def test_vectors_are_not_in_memory(connection: duckdb.DuckDBPyConnection, side_file: Path) -> None:
    """With a side file, only one number per hunk and the whitening are in memory."""
    _, texts = load(connection, side_file)
    assert texts.vectors is None and texts.bytes - texts.whitening.axes.nbytes == 4 * len(LARGE)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "truncated": lambda file: os.truncate(file, file.stat().st_size - 1),
    "empty": lambda file: file.write_bytes(b""),
    "other content": lambda file: file.write_bytes(b"garbage" * 10_000),
    "without header": lambda file: overwrite(file, 0, b" " * PAGE_BYTES),
    "of another version": lambda file: file.write_bytes(
        file.read_bytes().replace(b'"version": 2', b'"version": 1', 1)
    ),
    "of another model": lambda file: file.write_bytes(
        file.read_bytes().replace(b'"embedding_model": [', b'"embedding_mode1": [', 1)
    ),
    "with a wrong code": lambda file: overwrite(file, find_code_offset() + 500, b"\x55" * 50),
}


def overwrite(file: Path, offset: int, data: bytes) -> None:
    with file.open("r+b") as stream:
        stream.seek(offset)
        stream.write(data)


def find_code_offset() -> int:
    return quantized_vectors.compute_file_layout(len(LARGE))["first"].offset


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_file_is_not_used(
    connection: duckdb.DuckDBPyConnection, side_file: Path, damage: str
) -> None:
    """A damaged file, or one of another origin, is not used, and the ranking stays the same."""
    expected = search(connection, None)
    DAMAGE[damage](side_file)
    loaded_snapshot, texts = load(connection, side_file)
    assert texts.quantized is None
    assert search_loaded(connection, loaded_snapshot, texts) == expected


def test_damaged_vectors_are_detected(connection: duckdb.DuckDBPyConnection, side_file: Path) -> None:
    """If a vector does not match its code, the vectors of the index are searched, and the file is deleted."""
    expected = search(connection, None)
    loaded_snapshot, texts = load(connection, side_file)
    rows = quantized_vectors.compute_file_layout(len(LARGE))["rows"]
    overwrite(side_file, rows.offset, os.urandom(16) * (rows.bytes // 16))
    assert search_loaded(connection, loaded_snapshot, texts) == expected
    assert not side_file.exists()


def find_best_hit(connection: duckdb.DuckDBPyConnection, side_file: Path) -> tuple[int, int]:
    """Return the id of the best hunk, and the row of its text in the side file."""
    loaded_snapshot, texts = load(connection, side_file)
    assert texts.quantized is not None
    hunk = search(connection, side_file)[0].hunk_id
    return hunk, int(
        texts.quantized.rows[loaded_snapshot.hunks.positions.find_positions(np.array([hunk]))][0]
    )


@pytest.mark.parametrize(
    "data", [b"\xff" * 1536, b"\0" * 1536, bytes([0, 0, 128, 127]) * 384, b"\x55" * 1536]
)
def test_one_damaged_vector(connection: duckdb.DuckDBPyConnection, side_file: Path, data: bytes) -> None:
    """NaN, zero, infinite or wrong values in one vector are detected by similarities and by searches."""
    hunk, row = find_best_hit(connection, side_file)
    loaded_snapshot, texts = load(connection, side_file)
    overwrite(side_file, quantized_vectors.compute_file_layout(len(LARGE))["rows"].offset + 1536 * row, data)
    similarities = vector_search.compute_hunk_similarities(
        connection, loaded_snapshot, texts, QUERY, [hunk, 3]
    )
    assert similarities == compute_similarities(connection, None, [hunk, 3])
    assert not side_file.exists()
    assert search_loaded(connection, loaded_snapshot, texts) == search(connection, None)


@pytest.fixture
def location(tmp_path: Path) -> IndexLocation:
    location = make_location(tmp_path)
    with database.open_for_writing(location) as connection:
        writer.record_run_start(
            connection, location, head="h" * 40, unreached=[], components=CURRENT_VERSIONS
        )
    add_commits(location, range(40))
    return location


def add_commits(location: IndexLocation, numbers: range) -> None:
    with database.open_for_writing(location) as connection:
        writer.replace_batch(connection, make_batch([SampleCommit(number) for number in numbers]))


def count_texts(location: IndexLocation) -> int | None:
    """Return the number of texts in the side file; None without a valid one."""
    with database.open_for_reading(location) as connection:
        file = quantized_vectors.open_quantized_file(connection, location.quantized_vectors)
    return None if file is None else len(file.digests)


def test_written_for_large_index(location: IndexLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is written above the threshold, not rewritten while it is valid, and deleted for a small index."""
    assert quantized_vectors.refresh_quantized_file(location) and count_texts(location) == 40
    assert location.quantized_vectors.stat().st_mode & 0o777 == 0o600
    inode = location.quantized_vectors.stat().st_ino
    assert (
        not quantized_vectors.refresh_quantized_file(location)
        and location.quantized_vectors.stat().st_ino == inode
    )
    monkeypatch.setattr(history, "MAX_ROWS_IN_MEMORY", 40)
    assert not quantized_vectors.refresh_quantized_file(location)
    assert not location.quantized_vectors.exists()


def test_rewritten_when_the_tail_is_long(location: IndexLocation) -> None:
    """The file is written again when the tail has more than a twentieth of the texts."""
    quantized_vectors.refresh_quantized_file(location)
    add_commits(location, range(40, 42))
    assert not quantized_vectors.refresh_quantized_file(location) and count_texts(location) == 40
    add_commits(location, range(42, 44))
    assert quantized_vectors.refresh_quantized_file(location) and count_texts(location) == 44


def test_rewritten_for_another_model(location: IndexLocation) -> None:
    """A file with vectors of another model is not valid for the index, and is written again."""
    quantized_vectors.refresh_quantized_file(location)
    with database.open_for_writing(location) as connection:
        connection.execute("INSERT INTO made_by VALUES ('history', 'embedding_model', 'other')")
        assert quantized_vectors.is_quantized_file_missing(connection, location)
    assert quantized_vectors.refresh_quantized_file(location) and count_texts(location) == 40


def test_deleted_with_the_index(location: IndexLocation) -> None:
    """Deleting the index deletes the file."""
    quantized_vectors.refresh_quantized_file(location)
    writer.delete_index(location)
    assert not location.quantized_vectors.exists()


def test_writing_changes_the_fingerprint(location: IndexLocation) -> None:
    """Writing the file changes the index's fingerprint, so that caches are refreshed."""
    before = database.compute_fingerprint(location)
    quantized_vectors.refresh_quantized_file(location)
    assert database.compute_fingerprint(location) != before


def test_full_disk(location: IndexLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk no file is written, no temporary file remains, and no error is raised."""

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(quantized_vectors, "write_header", fail)
    assert not quantized_vectors.refresh_quantized_file(location)
    assert not list(location.folder.glob("*.codes")) and not list(location.folder.glob("*.draft"))


def test_retry_after_out_of_memory(location: IndexLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    """After running out of memory the file is written with a higher limit, and has the same content."""
    quantized_vectors.refresh_quantized_file(location)
    before = location.quantized_vectors.read_bytes()
    location.quantized_vectors.unlink()
    write_quantized_file, limits = quantized_vectors.write_quantized_file, list[str]()

    def fail_once(connection: duckdb.DuckDBPyConnection, *arguments: Any) -> None:
        [(limit,)] = connection.execute("SELECT current_setting('memory_limit')").fetchall()
        limits.append(limit)
        write_quantized_file(connection, *arguments)
        if len(limits) == 1:
            raise duckdb.OutOfMemoryException("failed to pin block")

    monkeypatch.setattr(quantized_vectors, "write_quantized_file", fail_once)
    assert quantized_vectors.refresh_quantized_file(location)
    assert location.quantized_vectors.read_bytes() == before
    assert len(set(limits)) == 2


def test_kill_while_writing(location: IndexLocation) -> None:
    """After a kill the file is complete or missing, and the next run deletes the temporary file."""
    for attempt in range(4):
        with run_script(WRITE_REPEATEDLY, location.home) as process:
            assert process.stdout is not None
            for _ in range(attempt + 2):
                process.stdout.readline()
            process.kill()
        assert count_texts(location) in (None, 40)
    quantized_vectors.refresh_quantized_file(location)
    assert count_texts(location) == 40
    location.quantized_vectors.unlink()
    quantized_vectors.refresh_quantized_file(location)
    assert not list(location.folder.glob("*.draft"))
