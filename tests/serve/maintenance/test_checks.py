"""Checks of the index, with really damaged, locked and outdated indexes."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from pathlib import Path

import duckdb
import pytest

from pipeline.git import commit_graph
from pipeline.git.repository import open_repository
from serve.maintenance import checks
from stores import database
from stores.errors import OutOfMemory
from stores.index_location import IndexLocation
from stores.locks import GATE_LOCK, RUN_LOCK
from tests.repos import Repo
from tests.serve import sample_index
from tests.serve.maintenance.helpers import (
    OK,
    PROBLEM,
    WARNING,
    find_failed_checks,
    run_checks,
    snapshot_files,
)


def test_index_is_not_a_database(repo: Repo, location: IndexLocation) -> None:
    """A file that is no database is a problem, and the other checks run."""
    location.database.write_bytes(b"no database" * 1000)
    assert find_failed_checks(repo.path) == {"index": PROBLEM}
    assert "--rebuild" in run_checks(repo.path)["index"].remedy


def test_damaged_block_is_detected(repo: Repo, location: IndexLocation) -> None:
    """A flipped bit in any block with rows is detected."""
    with database.open_for_writing(location) as connection:
        database.checkpoint_wal(connection, location)
    intact = location.database.read_bytes()
    block = 1 << 18
    detected = 0
    for start in range(3 * 4096, len(intact), block):
        damaged = bytearray(intact)
        damaged[start + 4096] ^= 1
        location.database.write_bytes(damaged)
        detected += run_checks(repo.path)["index"].verdict is PROBLEM
    assert detected == len(range(3 * 4096, len(intact), block))


@pytest.mark.parametrize(
    ("number", "found", "remedy"),
    [
        (signal.SIGSEGV, "damaged: DuckDB crashed", "index --rebuild --yes"),
        (signal.SIGABRT, "damaged: DuckDB crashed", "index --rebuild --yes"),
        (signal.SIGKILL, "There is not enough memory.", "raise the memory limit"),
    ],
)
def test_crash_of_the_reading_process(
    repo: Repo, location: IndexLocation, monkeypatch: pytest.MonkeyPatch, number: int, found: str, remedy: str
) -> None:
    """If the process that reads the index crashes, the index is damaged. If the system kills it, memory ran out."""
    assert location.database.exists()
    monkeypatch.setattr(checks, "_read_index", lambda _: os.kill(os.getpid(), number))
    result = run_checks(repo.path)["index"]
    assert result.verdict is PROBLEM
    assert found in result.found and remedy in result.remedy


def test_error_in_the_reading_process(
    repo: Repo, location: IndexLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of the process that reads the index is reported as it is."""

    def fail(_: object) -> None:
        raise OutOfMemory

    assert location.database.exists()
    monkeypatch.setattr(checks, "_read_index", fail)
    assert run_checks(repo.path)["index"].found == "There is not enough memory."


def test_inconsistent_rows(repo: Repo, location: IndexLocation) -> None:
    """Rows that another program deleted are reported by what is missing."""
    with database.open_for_writing(location) as connection:
        connection.execute("UPDATE repository SET completed_commit = last_indexed_commit")
        connection.execute("DELETE FROM vectors")
        connection.execute("DELETE FROM commits")
    result = run_checks(repo.path)["index"]
    assert result.verdict is PROBLEM
    assert "1 hunks without a commit, 1 hunks without a vector" in result.found


def test_newer_schema(repo: Repo, location: IndexLocation) -> None:
    """An index with a newer schema is reported as such, not as damaged."""
    with duckdb.connect(str(location.database)) as connection:
        connection.execute("INSERT INTO migrations VALUES (999, now()::TIMESTAMP)")
    assert "schema 999" in run_checks(repo.path)["index"].found


def test_other_model_and_commits_behind(repo: Repo, home: Path) -> None:
    """Vectors of another model and commits behind HEAD are reported with the commands that fix them."""
    sample_index.build_index(repo, home, embedding_model="another")
    repo.commit_file("b.py", "b = 1\n")
    results = run_checks(repo.path)
    assert results["compatibility"].verdict is PROBLEM
    assert "--rebuild --yes" in results["compatibility"].remedy
    assert results["freshness"].found == "1 commit behind HEAD"


def test_damaged_commit_graph_is_named(repo: Repo, location: IndexLocation) -> None:
    """A commit-graph whose checksum is wrong is a warning, which `lineage index` removes."""
    assert "commit-graph" not in run_checks(repo.path)
    commit_graph.refresh(open_repository(repo.path), location.git_directory)
    assert run_checks(repo.path)["commit-graph"].verdict is OK
    file = commit_graph.get_graph_file(location.git_directory)
    file.write_bytes(file.read_bytes()[:-30] + bytes(30))
    result = run_checks(repo.path)["commit-graph"]
    assert result.verdict is WARNING
    assert str(file) in result.found
    assert "lineage index" in result.remedy


def test_missing_lock_files(repo: Repo, location: IndexLocation) -> None:
    """An index without lock files is not opened, because opening would create them."""
    (location.folder / GATE_LOCK).unlink()
    before = snapshot_files(location.folder)
    assert find_failed_checks(repo.path) == {"index": WARNING}
    assert snapshot_files(location.folder) == before


def test_locked_index_names_its_process(
    repo: Repo, location: IndexLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that has locked the index is named with its process id."""
    monkeypatch.setattr(checks, "INDEX_TIMEOUT_SECONDS", 0.2)
    with database.open_for_writing(location):
        results = run_checks(repo.path)
    assert results["index"].verdict is PROBLEM
    assert "still in use by" in results["index"].found
    if sys.platform == "linux":
        assert f"process {os.getpid()}" in results["index"].found
        assert f"open in process {os.getpid()}" in results["locks"].found


def test_running_index_run_is_named(repo: Repo, location: IndexLocation) -> None:
    """A running index run is no problem and is distinguished from other users of the index."""
    if sys.platform != "linux":
        pytest.skip("only Linux lists the holders of a lock")
    with (location.folder / RUN_LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = run_checks(repo.path)["locks"]
    assert result.verdict is OK and result.found.startswith(f"an index run: process {os.getpid()}")


def test_large_write_ahead_log(repo: Repo, location: IndexLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large write-ahead log and one without an index are warnings."""
    with database.open_for_writing(location) as connection:
        connection.execute("CREATE TABLE filler AS FROM range(9)")
    assert location.wal.exists()
    monkeypatch.setattr(checks, "MAX_OPEN_WAL_BYTES", 10)
    assert run_checks(repo.path)["write-ahead log"].verdict is WARNING
    location.database.unlink()
    assert "has no index" in run_checks(repo.path)["write-ahead log"].found
