"""What killed runs, daemons and former models left goes; what is in use stays."""

from __future__ import annotations

import fcntl
import shutil
import socket
import time
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from pipeline.encoders.base import EMBEDDING_MODEL, STATIC_MODEL
from serve.daemon.process import Address
from serve.maintenance import gc
from serve.maintenance.gc import Garbage, Kept, Kind
from stores import database, embedding_cache, locks, maintenance, writer
from stores.index_location import Place
from stores.types import EMBEDDING_DIMENSION
from tests.repos import Repo
from tests.serve import sample_index
from tests.serve.maintenance.gc.helpers import found, place, recorded, sweep
from tests.serve.processes import lineage, start


def test_leftovers_of_killed_runs(repo: Repo, home: Path) -> None:
    """Drafts, spilt rows, a log without its index and a stale lock of the commit-graph go; the index stays."""
    where = place(repo, home)
    for name in (
        maintenance.DRAFT,
        f"{maintenance.DRAFT}.wal",
        "place.json.4711",
        "spill/part",
        "git/info/x.lock",
    ):
        file = where.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * 1000)
    [garbage] = found(home)[Kind.LEFTOVER]
    assert garbage.bytes >= 5000
    sweep(home)
    assert found(home) == {}
    assert len(recorded(repo, home)) == 1


def cache(where: Place, model: str, count: int) -> None:
    """Keep so many vectors in the cache, as a run does."""
    keys = [number.to_bytes(16, "big") for number in range(count)]
    chance = np.random.default_rng(count).random((count, EMBEDDING_DIMENSION), np.float32)
    rows = [keys, keys, chance.tolist()]
    entries = pa.table(
        [pa.array(row, kind) for row, kind in zip(rows, embedding_cache.ENTRIES.types, strict=True)],
        schema=embedding_cache.ENTRIES,
    )
    with embedding_cache.opened(where, model) as opened:
        assert opened is not None
        opened.keep(entries)


def cached(where: Place) -> list[tuple[str, int]]:
    with duckdb.connect(str(where.embeddings), read_only=True) as connection:
        return connection.execute("SELECT embed_model, count(*) FROM embeddings GROUP BY ALL").fetchall()


def test_vectors_of_another_model(repo: Repo, home: Path) -> None:
    """Cached vectors that no run looks up go, ours stay, and the room is given back."""
    where = place(repo, home)
    file = where.embeddings
    cache(where, "former", 3_000)
    cache(where, EMBEDDING_MODEL, 1_000)
    before = file.stat().st_size
    [garbage] = found(home)[Kind.CACHE]
    assert garbage.what.startswith("3,000 cached vectors") and garbage.bytes == before * 3 // 4
    (where.folder / embedding_cache.DRAFT).write_bytes(b"of a run that was killed")
    sweep(home)
    assert cached(where) == [(EMBEDDING_MODEL, 1_000)]
    assert file.stat().st_size < before // 2 and file.stat().st_mode & 0o777 == 0o600
    assert found(home) == {}
    file.write_bytes(b"damaged")
    assert found(home) == {}
    shutil.rmtree(repo.path)
    (repo.path.parent / "neighbour").mkdir(exist_ok=True)
    sweep(home)
    assert not where.folder.exists()


def test_vectors_of_the_encoder_that_the_index_has(repo: Repo, home: Path) -> None:
    """Where the index is made by the static encoder, its vectors are the ones that stay."""
    chosen = ("--encoder", "static", "--embed-cache", "semantic")
    assert lineage("index", str(repo.path), "--rebuild", "--yes", *chosen)[0] == 0
    where = place(repo, home)
    ours = cached(where)
    assert [model for model, _ in ours] == [STATIC_MODEL] and found(home) == {}
    cache(where, EMBEDDING_MODEL, 3)
    sweep(home)
    assert cached(where) == ours


def test_a_run_at_work_keeps_its_files(repo: Repo, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """While a run holds the index nothing of it goes; the rest does, and the exit code tells."""
    where = place(repo, home)
    (where.folder / maintenance.DRAFT).write_bytes(b"x")
    other = home / "gone-0123456789abcdef"
    other.mkdir()
    with (where.folder / "run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Kept, match="1 of 2 stay"):
            sweep(home)
    assert "at work on this repository" in capsys.readouterr().err
    assert (where.folder / maintenance.DRAFT).exists() and not other.exists()


def test_a_dead_socket(home: Path) -> None:
    """The socket of a killed daemon goes, that of a living one does not."""
    address = Address(home)
    address.prepare()
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind(str(address.socket))
        daemon.listen()
        assert found(home) == {}
    [garbage] = found(home)[Kind.LEFTOVER]
    assert garbage.what == str(address.socket)
    sweep(home)
    assert not address.socket.exists()


def test_killed_on_the_way(repo: Repo, home: Path) -> None:
    """Killed between its steps, the next one ends what was begun."""
    where = place(repo, home)
    shutil.rmtree(repo.path)
    (repo.path.parent / "neighbour").mkdir(exist_ok=True)
    with locks.sole_run(where):
        writer.delete_index(where)  # and here the first one was killed
    assert [one.why for one in found(home)[Kind.LEFTOVER]] == ["its index was deleted"]
    sweep(home)
    assert not where.folder.exists()


def test_killed_at_any_moment(repo: Repo, home: Path) -> None:
    """Killed with -9 wherever it is, the index stays whole and keeps what is needed; the next one ends the work."""
    for number in range(20):
        repo.commit_file(f"lost{number}.py", f"def lost{number}():\n    vanish()\n")
    sample_index.index(repo, home)
    repo.git("reset", "--quiet", "--hard", "HEAD~20")
    repo.commit_file("kept.py", "def kept(): ...\n")
    sample_index.index(repo, home)
    repo.git("reflog", "expire", "--expire=now", "--all")
    where, kept = place(repo, home), set(repo.git("rev-list", "HEAD").split())
    for tenths in range(2, 22, 4):
        process = start("gc", "--yes")
        time.sleep(tenths / 10)
        process.kill()
        process.communicate()
        with database.reading(where) as connection:
            assert maintenance.read_all(connection) and maintenance.broken_promises(connection) == {}
        assert kept <= recorded(repo, home)
    sweep(home)
    assert recorded(repo, home) == kept and found(home) == {}


def test_litter_knows_its_folders(home: Path) -> None:
    """Folders that are no index are not looked at, whatever is in them."""
    for name in ("models", "daemon", "notes-0123", "notes-0123456789abcdef"):
        (home / name).mkdir(parents=True)
    (home / "notes-0123456789abcdef" / "diary.txt").touch()
    assert list(maintenance.empty_folders(home)) == [] == list(maintenance.indexes(home))


def test_amounts() -> None:
    """Bytes as a person reads them, and no control character of a path."""
    assert [gc.amount(size) for size in (0, 1500, 2_000_000, 3_210_000_000)] == [
        "0 B",
        "1.5 kB",
        "2.0 MB",
        "3.2 GB",
    ]
    assert "\x1b" not in gc.line(Garbage(Kind.INDEX, "\x1b[31m", "", 0, lambda: None))
