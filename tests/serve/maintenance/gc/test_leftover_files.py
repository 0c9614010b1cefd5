"""`lineage gc`: files of killed runs and daemons, vectors of other models, kills during the deletion."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from pipeline.encoders.base import EMBEDDING_MODEL, STATIC_MODEL
from serve.daemon.process import DaemonPaths
from serve.maintenance import gc
from serve.maintenance.gc import DeletableItem, ItemKind, NotDeletedError
from stores import database, embedding_cache, index_location, locks, maintenance
from stores.compatibility import EMBEDDING_DIMENSION
from stores.duckdb_engine import SPILL_PREFIX
from stores.embedding_cache import CacheUnusable
from stores.index_location import IndexLocation
from tests.repos import Repo
from tests.serve import sample_index
from tests.serve.commands import run_index
from tests.serve.maintenance.gc.helpers import delete_items, find_items, find_location, list_recorded_commits
from tests.serve.processes import start_lineage


def run_process() -> int:
    """Return the id of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def test_leftovers_of_killed_runs_are_deleted(repo: Repo, home: Path) -> None:
    """Temporary files, spilled rows and a stale lock of the commit-graph are deleted; the index stays."""
    location = find_location(repo, home)
    for name in (
        maintenance.TEMP_FILE,
        f"{maintenance.TEMP_FILE}.wal",
        "place.json.4711",
        f"{SPILL_PREFIX}{run_process()}-0123/part",
        "git/info/x.lock",
    ):
        file = location.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * 1000)
    [item] = find_items(home)[ItemKind.LEFTOVER]
    assert item.size_bytes >= 5000
    delete_items(home)
    assert find_items(home) == {}
    assert len(list_recorded_commits(repo, home)) == 1


def test_spilled_rows_of_a_running_process_stay(repo: Repo, home: Path) -> None:
    """gc and a rebuild delete no rows that the engine of a running process has spilled, and may read again."""
    location = find_location(repo, home)
    file = location.folder / f"{SPILL_PREFIX}{os.getpid()}-0123" / "part"
    file.parent.mkdir()
    file.touch()
    assert find_items(home) == {}
    maintenance.delete_leftover_files(location)
    maintenance.delete_index(location)
    assert file.exists()


def fill_cache(location: IndexLocation, model: str, count: int) -> None:
    """Store this number of vectors in the cache, as an index run does."""
    keys = [number.to_bytes(16, "big") for number in range(count)]
    vectors = np.random.default_rng(count).random((count, EMBEDDING_DIMENSION), np.float32)
    rows = [keys, keys, vectors.tolist()]
    entries = pa.table(
        [
            pa.array(row, column_type)
            for row, column_type in zip(rows, embedding_cache.ENTRY_SCHEMA.types, strict=True)
        ],
        schema=embedding_cache.ENTRY_SCHEMA,
    )
    with embedding_cache.open_cache(location, model) as cache:
        assert cache is not None
        cache.store(entries)


def count_cached_vectors(location: IndexLocation) -> list[tuple[str, int]]:
    with duckdb.connect(str(location.embeddings), read_only=True) as connection:
        return connection.execute("SELECT embed_model, count(*) FROM embeddings GROUP BY ALL").fetchall()


def test_vectors_of_another_model_are_deleted(repo: Repo, home: Path) -> None:
    """Cached vectors of another model are deleted, those of the current one stay, and the file shrinks."""
    location = find_location(repo, home)
    file = location.embeddings
    fill_cache(location, "former", 3_000)
    fill_cache(location, EMBEDDING_MODEL, 1_000)
    before = file.stat().st_size
    [item] = find_items(home)[ItemKind.CACHE]
    assert item.description.startswith("3,000 cached vectors") and item.size_bytes == before * 3 // 4
    (location.folder / embedding_cache.TEMP_FILE).write_bytes(b"of a run that was killed")
    delete_items(home)
    assert count_cached_vectors(location) == [(EMBEDDING_MODEL, 1_000)]
    assert file.stat().st_size < before // 2 and file.stat().st_mode & 0o777 == 0o600
    assert find_items(home) == {}
    file.write_bytes(b"damaged" * 5_000)
    with pytest.raises(
        CacheUnusable, match=f"The embedding cache {file} cannot be used: .* valid DuckDB"
    ) as error:
        item.delete()
    assert "the next index run replaces it" in error.value.hint
    assert find_items(home) == {}
    shutil.rmtree(repo.path)
    (repo.path.parent / "neighbour").mkdir(exist_ok=True)
    delete_items(home)
    assert not location.folder.exists()


def test_vectors_of_the_index_encoder_are_kept(repo: Repo, home: Path) -> None:
    """With an index of the static encoder, the vectors of that encoder stay."""
    options = ("--encoder", "static", "--embed-cache", "semantic")
    assert run_index(repo, "--rebuild", "--yes", *options) == 0
    location = find_location(repo, home)
    expected = count_cached_vectors(location)
    assert [model for model, _ in expected] == [STATIC_MODEL] and find_items(home) == {}
    fill_cache(location, EMBEDDING_MODEL, 3)
    delete_items(home)
    assert count_cached_vectors(location) == expected


def test_files_of_a_running_index_run_are_kept(
    repo: Repo, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """During an index run the files of its index stay; other items are deleted and an error is raised."""
    location = find_location(repo, home)
    (location.folder / maintenance.TEMP_FILE).write_bytes(b"x")
    other = home / "gone-0123456789abcdef"
    other.mkdir()
    with (location.folder / locks.RUN_LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(NotDeletedError, match="1 of 2 items could not be deleted"):
            delete_items(home)
    assert "running for this repository" in capsys.readouterr().err
    assert (location.folder / maintenance.TEMP_FILE).exists() and not other.exists()


def test_dead_socket_is_deleted(home: Path) -> None:
    """The socket of a killed daemon is deleted, that of a running one is not."""
    paths = DaemonPaths(home)
    paths.create_directories()
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind(str(paths.socket))
        daemon.listen()
        assert find_items(home) == {}
    [item] = find_items(home)[ItemKind.LEFTOVER]
    assert item.description == str(paths.socket)
    delete_items(home)
    assert not paths.socket.exists()


def test_half_deleted_index_is_deleted(repo: Repo, home: Path) -> None:
    """If a deletion is killed between its steps, the next one completes it."""
    location = find_location(repo, home)
    shutil.rmtree(repo.path)
    (repo.path.parent / "neighbour").mkdir(exist_ok=True)
    with locks.acquire_run_lock(location):
        maintenance.delete_index(location)  # the first deletion was killed here
    assert [item.reason for item in find_items(home)[ItemKind.LEFTOVER]] == ["its index was deleted"]
    delete_items(home)
    assert not location.folder.exists()


def test_kill_at_any_time_keeps_the_index_intact(repo: Repo, home: Path) -> None:
    """After kill -9 at any time the index is intact and has all needed commits; the next run completes the work."""
    for number in range(20):
        repo.commit_file(f"lost{number}.py", f"def lost{number}():\n    vanish()\n")
    sample_index.build_index(repo, home)
    repo.git("reset", "--quiet", "--hard", "HEAD~20")
    repo.commit_file("kept.py", "def kept(): ...\n")
    sample_index.build_index(repo, home)
    repo.git("reflog", "expire", "--expire=now", "--all")
    location, expected = find_location(repo, home), set(repo.git("rev-list", "HEAD").split())
    for tenths in range(2, 22, 4):
        process = start_lineage("gc", "--yes")
        time.sleep(tenths / 10)
        process.kill()
        process.communicate()
        with database.open_for_reading(location) as connection:
            assert (
                maintenance.read_all_rows(connection) and maintenance.find_broken_invariants(connection) == {}
            )
        assert expected <= list_recorded_commits(repo, home)
    delete_items(home)
    assert list_recorded_commits(repo, home) == expected and find_items(home) == {}


def test_other_directories_are_ignored(home: Path) -> None:
    """Directories that are no index are ignored."""
    for name in ("models", "daemon", "notes-0123", "notes-0123456789abcdef"):
        (home / name).mkdir(parents=True)
    (home / "notes-0123456789abcdef" / "diary.txt").touch()
    assert [location.repo_id for location in maintenance.list_index_directories(home)] == [
        "notes-0123456789abcdef"
    ]
    assert find_items(home) == {} and list(index_location.list_indexes(home)) == []


def test_format_size() -> None:
    """Sizes have decimal units, and control characters are escaped."""
    assert [gc.format_size(size) for size in (0, 1500, 2_000_000, 3_210_000_000)] == [
        "0 B",
        "1.5 kB",
        "2.0 MB",
        "3.2 GB",
    ]
    assert "\x1b" not in gc.format_item(DeletableItem(ItemKind.INDEX, "\x1b[31m", "", 0, lambda: None))
