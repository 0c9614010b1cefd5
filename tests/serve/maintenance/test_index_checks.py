"""Each check of an index finds what it is for when that is really broken."""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path

import duckdb
import pytest

from serve.maintenance import index_checks
from stores import database
from stores.index_location import Place
from tests.repos import Repo
from tests.serve import sample_index
from tests.serve.maintenance.helpers import OK, PROBLEM, WARNING, everything, found, ill


def test_not_a_database(repo: Repo, place: Place) -> None:
    """A file that is no database is a problem, and every other check is made all the same."""
    place.database.write_bytes(b"no database" * 1000)
    assert ill(repo.path) == {"index": PROBLEM}
    assert "--rebuild" in found(repo.path)["index"].remedy


def test_damage_deep_in_the_file(repo: Repo, place: Place) -> None:
    """A flipped bit in any block that holds rows is found, wherever it lies."""
    with database.writing(place) as connection:
        database.settle(connection, place)
    whole = place.database.read_bytes()
    block = 1 << 18
    hit = 0
    for start in range(3 * 4096, len(whole), block):
        torn = bytearray(whole)
        torn[start + 4096] ^= 1
        place.database.write_bytes(torn)
        hit += found(repo.path)["index"].verdict is PROBLEM
    assert hit == len(range(3 * 4096, len(whole), block))


def test_rows_that_disagree(repo: Repo, place: Place) -> None:
    """Whole blocks with rows that another program took out are told by what is missing."""
    with database.writing(place) as connection:
        connection.execute("DELETE FROM vectors")
        connection.execute("DELETE FROM commits")
    said = found(repo.path)["index"]
    assert said.verdict is PROBLEM
    assert "1 hunks without their commit, 1 hunks without a vector" in said.found


def test_newer_schema(repo: Repo, place: Place) -> None:
    """An index of a newer program is told from a damaged one."""
    with duckdb.connect(str(place.database)) as connection:
        connection.execute("INSERT INTO migrations VALUES (999, now()::TIMESTAMP)")
    assert "schema 999" in found(repo.path)["index"].found


def test_another_model_and_commits_behind(repo: Repo, home: Path) -> None:
    """Vectors of another model, and commits that are not indexed, are told with their commands."""
    sample_index.index(repo, home, embedding_model="another")
    repo.commit_file("b.py", "b = 1\n")
    said = found(repo.path)
    assert said["compatibility"].verdict is PROBLEM
    assert "--rebuild --yes" in said["compatibility"].remedy
    assert said["freshness"].found == "1 commit behind HEAD"


def test_missing_lock_files(repo: Repo, place: Place) -> None:
    """An index whose lock files are gone is left alone, since opening would make them."""
    (place.folder / "door.lock").unlink()
    before = everything(place.folder)
    assert ill(repo.path) == {"index": WARNING}
    assert everything(place.folder) == before


def test_somebody_holds_the_index(repo: Repo, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that keeps the index to itself is named, with its number and command."""
    monkeypatch.setattr(index_checks, "PATIENCE_SECONDS", 0.2)
    with database.writing(place):
        said = found(repo.path)
    assert said["index"].verdict is PROBLEM
    assert "in use by another process" in said["index"].found
    if sys.platform == "linux":
        assert f"process {os.getpid()}" in said["index"].found
        assert f"open in process {os.getpid()}" in said["locks"].found


def test_an_index_run_is_named(repo: Repo, place: Place) -> None:
    """A run at work is no fault: it is told apart from others that have the index open."""
    if sys.platform != "linux":
        pytest.skip("only Linux lists who holds a lock")
    with (place.folder / "run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        said = found(repo.path)["locks"]
    assert said.verdict is OK and said.found.startswith(f"an index run: process {os.getpid()}")


def test_a_long_log(repo: Repo, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that every opening replays is worth a run; one without an index is worth a rebuild."""
    with database.writing(place) as connection:
        connection.execute("CREATE TABLE filler AS FROM range(9)")
    assert place.wal.exists()
    monkeypatch.setattr(index_checks, "LARGEST_HELD_WAL", 10)
    assert found(repo.path)["write-ahead log"].verdict is WARNING
    place.database.unlink()
    assert "no index beside it" in found(repo.path)["write-ahead log"].found
