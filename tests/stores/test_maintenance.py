"""Compaction of an index: equal content, memory limits, full disks, kills and concurrent writers; deletion."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from stores import (
    database,
    duckdb_engine,
    history,
    index_location,
    locks,
    maintenance,
    migrations,
    schema,
    writer,
)
from stores.duckdb_engine import SPILL_PREFIX
from stores.errors import OutOfMemory, StorageError
from stores.index_location import ForeignFolder, IndexLocation
from stores.locks import IndexBusy
from tests.stores import schema_1
from tests.stores.batches import (
    CURRENT_VERSIONS,
    SampleCommit,
    make_batch,
    make_head_change,
    make_location,
    make_sha,
)
from tests.stores.processes import run_script

# DuckDB appends this to every error caused by the memory limit.
OUT_OF_MEMORY_HINT = "Possible solutions: * Increasing the memory limit (SET memory_limit='...GB')"

# Script that compacts; after each table it prints the table's name and waits for a line on stdin.
COPY_BY_STEPS = """
from stores import maintenance
copy_table = maintenance._copy_table
def copy_and_wait(connection, table):
    copy_table(connection, table)
    print(table)
    sys.stdin.readline()
maintenance._copy_table = copy_and_wait
maintenance.compact(location)
"""


@pytest.fixture
def location(tmp_path: Path) -> IndexLocation:
    location = make_location(tmp_path)
    for number in range(4):
        with database.open_for_writing(location) as connection:
            writer.record_run_start(
                connection,
                location,
                head="h" * 40,
                unreachable=["u" * 40],
                components=CURRENT_VERSIONS,
                branch_patterns=(),
            )
            commits = [SampleCommit(number * 30 + n, {"a": 1, f"w{n}": 2}, {"f": 1}) for n in range(30)]
            writer.replace_batch(connection, make_batch(commits))
    with database.open_for_writing(location) as connection:
        writer.replace_head(connection, make_head_change(["a.py", "b.py"], ["f", "g"]))
    return location


def read_sorted(connection: duckdb.DuckDBPyConnection) -> dict[str, list[Any]]:
    """Return the sorted rows of every table, without `repository.clustered_hunks`."""
    tables = {name: connection.execute(f"FROM {name} ORDER BY ALL").fetchall() for name in schema.TABLES}
    column = schema.REPOSITORY.get_field_index("clustered_hunks")
    tables["repository"] = [row[:column] + row[column + 1 :] for row in tables["repository"]]
    return tables


def read_content(location: IndexLocation) -> dict[str, list[Any]]:
    """Return the sorted rows of every table."""
    with database.open_for_reading(location) as connection:
        return read_sorted(connection)


def read_in_order(location: IndexLocation) -> dict[str, list[Any]]:
    """Return the rows of the tables whose order compaction keeps, in stored order."""
    with database.open_for_reading(location) as connection:
        names = [name for name in schema.TABLES if name != "repository" and not name.endswith("_postings")]
        return {name: connection.execute(f"FROM {name}").fetchall() for name in names}


def is_clustered(location: IndexLocation) -> bool:
    """Return whether all postings are stored in the order of their terms."""
    with database.open_for_reading(location) as connection:
        for table in ("hunk_postings", "symbol_postings", "head_postings"):
            rows = [row[:2] for row in connection.execute(f"FROM {table}").fetchall()]
            if rows != sorted(rows):
                return False
    return True


def test_compaction_keeps_the_content(location: IndexLocation) -> None:
    """Compaction keeps all rows, views and macros, clusters postings by term and leaves no free blocks."""
    before = read_content(location), read_in_order(location)
    maintenance.compact(location)
    assert (read_content(location), read_in_order(location)) == before
    assert is_clustered(location)
    assert location.database.stat().st_mode & 0o777 == 0o600
    with database.open_for_reading(location) as connection:
        assert connection.execute("SELECT clustered_hunks FROM repository").fetchall() == [(120,)]
        assert len(schema_1.describe_full_text(connection)) == 15
        [(free_blocks,)] = connection.execute(
            "SELECT free_blocks FROM pragma_database_size() WHERE database_name = 'ix'"
        ).fetchall()
        assert free_blocks == 0


def test_tables_copied_in_slices(location: IndexLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a table is copied in slices, no row is lost, duplicated or moved at their borders."""
    commits = [SampleCommit(200 + n, {"a": 1, f"w{n % 90}": 2}, {"f": 1}) for n in range(600)]
    with database.open_for_writing(location) as connection:
        writer.replace_batch(connection, make_batch(commits))
        writer.replace_batch(connection, make_batch(commits[200:300]))
    monkeypatch.setattr(maintenance, "COPY_SLICE_ROWS", 100)
    monkeypatch.setattr(maintenance, "SORT_SLICE_ROWS", 50)
    before = read_content(location), read_in_order(location)
    with database.open_for_reading(location) as connection:
        slice_counts = {
            table: len(list(maintenance._split_into_slices(connection, table))) for table in schema.TABLES
        }
    assert min(slice_counts[table] for table in ("hunks", "vectors", "hunk_postings")) > 5
    maintenance.compact(location)
    assert (read_content(location), read_in_order(location)) == before
    assert is_clustered(location)


@pytest.mark.parametrize(
    "error",
    [
        duckdb.OutOfMemoryException("could not allocate block of size 256.0 KiB"),
        duckdb.TransactionException(
            f"Failed to commit: failed to pin block of size 256.0 KiB {OUT_OF_MEMORY_HINT}"
        ),
        duckdb.IOException(
            f'Database "fresh" has been invalidated because checkpointing failed. {OUT_OF_MEMORY_HINT}'
        ),
    ],
)
def test_retry_after_out_of_memory(
    location: IndexLocation, monkeypatch: pytest.MonkeyPatch, error: duckdb.Error
) -> None:
    """A copy that runs out of memory starts again with a higher limit; no row is lost or duplicated."""
    limits = record_limits(monkeypatch, error, failing_copies=[9])
    before = read_content(location), read_in_order(location)
    maintenance.compact(location)
    assert (read_content(location), read_in_order(location)) == before
    assert limits == limits[:1] * 10 + limits[-1:] * len(schema.TABLES)
    assert limits[0] != limits[-1]
    maintenance.compact(location)
    assert (read_content(location), read_in_order(location)) == before


def test_error_while_creating_tables(location: IndexLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the tables of the copy cannot be created, the error is raised and the temporary file is deleted."""
    monkeypatch.setattr(
        migrations, "load_tables_sql", lambda: "CREATE TABLE half (a INTEGER); SELECT error('invalid DDL')"
    )
    with pytest.raises(duckdb.InvalidInputException, match="invalid DDL"):
        maintenance.compact(location)
    assert not list(location.folder.glob(f"{maintenance.TEMP_FILE}*"))


def test_out_of_memory_at_the_last_limit(location: IndexLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the last limit is too low, its error is raised, the index is unchanged, and no temporary file remains."""
    record_limits(monkeypatch, duckdb.OutOfMemoryException("none left"), failing_copies=[0, 1, 2])
    before = read_content(location), read_in_order(location)
    with pytest.raises(OutOfMemory):
        maintenance.compact(location)
    assert (read_content(location), read_in_order(location)) == before
    assert not list(location.folder.glob(f"{maintenance.TEMP_FILE}*"))


def test_no_retry_on_full_disk(location: IndexLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk the copy is not tried again, and the temporary file is deleted."""
    disk_full = duckdb.TransactionException("Failed to commit: Could not write file: No space left on device")
    limits = record_limits(monkeypatch, disk_full, failing_copies=[9])
    with pytest.raises(StorageError, match=r"No space left on device: .*index\.duckdb"):
        maintenance.compact(location)
    assert len(limits) == 10
    assert not list(location.folder.glob(f"{maintenance.TEMP_FILE}*"))


def test_real_out_of_memory(location: IndexLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB's error for rows that exceed the limit is recognised, and the copy is tried with the next limit."""
    with database.open_for_writing(location) as connection:
        writer.replace_batch(connection, make_batch([SampleCommit(200 + n, {"a": 1}) for n in range(1_000)]))
        diff = "array_to_string(list_transform(range(1000), i -> md5((i * hunk_id)::VARCHAR)), chr(10))"
        connection.execute(f"UPDATE hunks SET diff = {diff} WHERE hunk_id >= 200")
    before = read_content(location), read_in_order(location)
    limits = record_limits(monkeypatch)
    monkeypatch.setattr(
        duckdb_engine, "LOW_MEMORY_LIMITS", ("16MB", "32MB", *duckdb_engine.LOW_MEMORY_LIMITS)
    )
    maintenance.compact(location)
    assert (read_content(location), read_in_order(location)) == before
    assert len(set(limits)) > 1 and len(limits) > len(schema.TABLES)


def record_limits(
    monkeypatch: pytest.MonkeyPatch, error: duckdb.Error | None = None, failing_copies: Sequence[int] = ()
) -> list[str]:
    """Return a list that gets the memory limit of every copy of a table; the copies with these indices fail."""
    limits: list[str] = []
    copy_table = maintenance._copy_table

    def copy_and_record(connection: duckdb.DuckDBPyConnection, table: str) -> None:
        [(limit,)] = connection.execute("SELECT current_setting('memory_limit')").fetchall()
        limits.append(limit)
        copy_table(connection, table)
        if error and len(limits) - 1 in failing_copies:
            raise error

    monkeypatch.setattr(maintenance, "_copy_table", copy_and_record)
    return limits


def test_unused_vectors_are_dropped(location: IndexLocation) -> None:
    """Vectors of texts that no row has any more are not copied."""
    with database.open_for_writing(location) as connection:
        writer.replace_batch(
            connection, writer.Batch(covered_commits=make_batch([SampleCommit(0)]).covered_commits)
        )
        assert len(read_sorted(connection)["vectors"]) == 240
    maintenance.compact(location)
    assert len(read_content(location)["vectors"]) == 238


def test_batches_after_compaction(location: IndexLocation) -> None:
    """Batches can be written to a compacted index."""
    maintenance.compact(location)
    with database.open_for_writing(location) as connection:
        writer.replace_batch(connection, make_batch([SampleCommit(120), SampleCommit(0)]))
    assert [len(read_content(location)[table]) for table in ("commits", "hunks")] == [121, 121]


def test_old_side_files_are_deleted(location: IndexLocation) -> None:
    """The file with vectors that earlier versions wrote is deleted, also if it is unfinished."""
    for name in ("index.duckdb.codes", "index.duckdb.codes.draft"):
        (location.folder / name).touch()
    maintenance.compact_if_needed(location)
    assert not list(location.folder.glob("*.codes*")) and location.database.exists()


def test_spilled_rows_of_killed_readers_are_deleted(location: IndexLocation) -> None:
    """The end of an index run deletes the spilled rows of ended processes, not those of running ones."""
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    spill_directories = [location.folder / f"{SPILL_PREFIX}{pid}-0123" for pid in (ended.pid, os.getpid())]
    for directory in spill_directories:
        directory.mkdir()
        (directory / "part").touch()
    maintenance.compact_if_needed(location)
    assert [directory.exists() for directory in spill_directories] == [False, True]


def test_small_index_is_not_compacted(location: IndexLocation) -> None:
    """A small index is not copied; only its log is checkpointed."""
    assert database.get_wal_size(location)
    inode = location.database.stat().st_ino
    assert not maintenance.compact_if_needed(location)
    assert location.database.stat().st_ino == inode
    assert not database.get_wal_size(location)


@pytest.mark.parametrize("limit", ["MIN_TAIL_HUNKS", "MAX_FREE_BYTES"])
def test_compaction_thresholds(location: IndexLocation, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    """Many unclustered postings or free blocks cause a compaction, after which none is needed."""
    with database.open_for_writing(location) as connection:
        connection.execute("CREATE TABLE filler AS SELECT random() AS number FROM range(500_000)")
        writer.replace_batch(connection, make_batch([SampleCommit(120)]))
        connection.execute("CHECKPOINT")
        connection.execute("DROP TABLE filler")
        connection.execute("CHECKPOINT")
    monkeypatch.setattr(maintenance, limit, 50)
    monkeypatch.setattr(maintenance, "MAX_FREE_SHARE", 0.01)
    assert maintenance.compact_if_needed(location)
    assert not maintenance.compact_if_needed(location)


def test_concurrent_batch_discards_the_copy(location: IndexLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a batch was committed during the copy, the copy is discarded."""
    fsync_file = index_location.fsync_file

    def write_then_fsync(file: Path) -> None:
        with database.open_for_writing(location) as connection:
            writer.replace_batch(connection, make_batch([SampleCommit(1000)]))
        fsync_file(file)

    monkeypatch.setattr(index_location, "fsync_file", write_then_fsync)
    maintenance.compact(location)
    assert len(read_content(location)["commits"]) == 121
    assert not (location.folder / maintenance.TEMP_FILE).exists()


@pytest.mark.parametrize("tables", [1, 7, len(schema.TABLES)])
def test_killed_compaction(location: IndexLocation, tables: int) -> None:
    """A kill after any table leaves the index intact, and the next run deletes the temporary file."""
    before = read_content(location)
    with run_script(COPY_BY_STEPS, location.home) as process:
        assert process.stdout is not None and process.stdin is not None
        for table in range(tables):
            if table:
                process.stdin.write("next\n")
                process.stdin.flush()
            assert process.stdout.readline()
        process.kill()
    assert list(location.folder.glob(f"{maintenance.TEMP_FILE}*"))
    assert read_content(location) == before
    maintenance.compact_if_needed(location)
    assert not list(location.folder.glob(f"{maintenance.TEMP_FILE}*"))


def test_engine_settings_are_restored(location: IndexLocation) -> None:
    """After a compaction, readers have the usual threads and memory limit."""
    settings = "SELECT current_setting('threads'), current_setting('memory_limit')"
    with database.open_for_reading(location) as connection:
        before = connection.execute(settings).fetchall()
    maintenance.compact(location)
    with database.open_for_reading(location) as connection:
        assert connection.execute(settings).fetchall() == before


def create_small_index(location: IndexLocation) -> IndexLocation:
    with database.open_for_writing(location) as connection:
        writer.record_run_start(
            connection,
            location,
            head="h" * 40,
            unreachable=[],
            components=CURRENT_VERSIONS,
            branch_patterns=(),
        )
        writer.replace_batch(connection, make_batch([SampleCommit(0)]))
    return location


def test_delete_removes_everything(tmp_path: Path) -> None:
    """Deletion removes the database, its log and side files; empty lock files and other programs' files stay."""
    location = create_small_index(make_location(tmp_path))
    assert location.wal.exists()
    (location.folder / "index.duckdb.draft").touch()
    (location.folder / "notes.txt").touch()
    maintenance.delete_index(location)
    remaining = {path.name: path.stat().st_size for path in location.folder.iterdir()}
    assert remaining == {locks.GATE_LOCK: 0, locks.INDEX_LOCK: 0, "notes.txt": 0}
    maintenance.delete_index(location)
    with database.open_for_reading(create_small_index(location)) as connection:
        assert history.list_recorded_commits(connection) == [make_sha(0)]


def test_delete_while_a_reader_is_active(tmp_path: Path) -> None:
    """An index is not deleted while it is open for reading."""
    location = create_small_index(make_location(tmp_path))
    with database.open_for_reading(location), pytest.raises(IndexBusy):
        maintenance.delete_index(location, wait=0.05)
    assert location.database.exists()


@pytest.mark.parametrize(
    "name", ["..", ".", "", "/", "../elsewhere-01", "a/../../elsewhere-01", "inner/deep"]
)
def test_delete_refuses_other_directories(tmp_path: Path, name: str) -> None:
    """Nothing is deleted if the directory is not a direct child of the home."""
    (tmp_path / "home" / "inner" / "deep").mkdir(parents=True)
    (tmp_path / "home" / "a").mkdir()
    (tmp_path / "elsewhere-01").mkdir()
    files = [folder / "index.duckdb" for folder in (tmp_path, tmp_path / "elsewhere-01", tmp_path / "home")]
    for file in files:
        file.touch()
    with pytest.raises(ForeignFolder):
        maintenance.delete_index(make_location(tmp_path / "home", name))
    assert all(file.exists() for file in files)


def test_delete_follows_no_symlink(tmp_path: Path) -> None:
    """A symlink in place of an index directory is refused; a home behind a symlink is accepted."""
    other = create_small_index(make_location(tmp_path / "home", "other-01"))
    (tmp_path / "home" / "link-01").symlink_to(other.folder)
    with pytest.raises(ForeignFolder):
        maintenance.delete_index(make_location(tmp_path / "home", "link-01"))
    assert other.database.exists()
    (tmp_path / "alias").symlink_to(tmp_path / "home")
    maintenance.delete_index(make_location(tmp_path / "alias", "other-01"))
    assert not other.database.exists()
