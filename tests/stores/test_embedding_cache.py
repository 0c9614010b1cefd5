"""Embedding cache: lookup, replacement, kills, and damaged or locked files."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from stores import database, embedding_cache
from stores.embedding_cache import ENTRY_SCHEMA, LOOKUP_SCHEMA
from stores.index_location import IndexLocation
from tests.stores.batches import compute_digest, make_location, make_vectors
from tests.stores.processes import read_line, run_script, wait_for_exit

# Script that opens the cache and stores an entry for each number on stdin, until it is killed.
STORE_ENTRIES = """
from tests.stores.test_embedding_cache import make_entries
from stores import embedding_cache
with embedding_cache.open_cache(location, "model") as cache:
    for number in map(int, sys.stdin):
        cache.store(make_entries([(f"c{number}", f"t{number}")]))
        print(number)
"""
# Script that has the file open without taking the locks.
OPEN_WITHOUT_LOCKS = """
import duckdb
with duckdb.connect(str(location.embeddings)):
    print("opened"); sys.stdin.read()
"""


@pytest.fixture
def location(tmp_path: Path) -> IndexLocation:
    return make_location(tmp_path / "home")


def make_entries(pairs: Sequence[tuple[str, str]]) -> pa.Table:
    """Return entries for (content, text) pairs, each with the vector of its text."""
    texts = [compute_digest(text) for _, text in pairs]
    contents = pa.array([compute_digest(content) for content, _ in pairs], ENTRY_SCHEMA.field(0).type)
    vectors = make_vectors(texts)
    columns = [contents, *(vectors.column(name) for name in ("text_digest", "embedding"))]
    return pa.table(columns, schema=ENTRY_SCHEMA)


def make_lookup(pairs: Sequence[tuple[str, str]]) -> pa.Table:
    """Return the keys of (content, text) pairs, as `EmbeddingCache.look_up` takes them."""
    return make_entries(pairs).select(LOOKUP_SCHEMA.names)


def find_digests(
    location: IndexLocation, pairs: Sequence[tuple[str, str]], model: str = "model"
) -> set[bytes]:
    """Return the digests of the texts that the cache has."""
    with embedding_cache.open_cache(location, model) as cache:
        assert cache is not None
        return set(cache.look_up(make_lookup(pairs)).column("text_digest").to_pylist())


def store(location: IndexLocation, pairs: Sequence[tuple[str, str]], model: str = "model") -> int:
    """Store entries; return the number of all entries."""
    with embedding_cache.open_cache(location, model) as cache:
        assert cache is not None
        cache.store(make_entries(pairs))
        return cache.count()


def test_stored_entry_is_found(location: IndexLocation) -> None:
    """An entry is returned unchanged, and only for the same content, text and model."""
    store(location, [("a", "x"), ("b", "y")])
    with embedding_cache.open_cache(location, "model") as cache:
        assert cache is not None
        rows = cache.look_up(make_lookup([("b", "y"), ("c", "z")]))
    assert rows.equals(make_entries([("b", "y")]).select(["text_digest", "embedding"]))
    assert find_digests(location, [("b", "x")]) == set()
    assert find_digests(location, [("b", "y")], "another model") == set()


def test_one_entry_per_content_and_model(location: IndexLocation) -> None:
    """A content stored again, even with another text, replaces its entry for the same model."""
    assert store(location, [("a", "x"), ("a", "x"), ("b", "y")]) == 2
    assert store(location, [("a", "x2")]) == 2
    assert store(location, [("a", "x")], "another model") == 3
    assert find_digests(location, [("a", "x"), ("a", "x2"), ("b", "y")]) == {
        compute_digest("x2"),
        compute_digest("y"),
    }


def test_text_of_several_contents(location: IndexLocation) -> None:
    """A text stored for several contents is found once."""
    store(location, [("a", "x"), ("b", "x")])
    with embedding_cache.open_cache(location, "model") as cache:
        assert cache is not None
        assert cache.look_up(make_lookup([("a", "x"), ("b", "x")])).num_rows == 1


def test_files_are_private(location: IndexLocation) -> None:
    """Only the owner can read the cache, its log and its lock, because vectors reveal something about the code."""
    with embedding_cache.open_cache(location, "model") as cache:
        assert cache is not None
        cache.store(make_entries([("a", "x")]))
        files = [path for path in location.folder.iterdir() if path.name.startswith("embeddings")]
        assert len(files) == 3
        assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in files)


@pytest.mark.parametrize("content", [b"not a database" * 1000, b""])
def test_damaged_file_is_replaced(
    location: IndexLocation, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    """A file that is not a database is replaced by an empty cache, with a warning."""
    store(location, [("a", "x")])
    location.embeddings.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        assert store(location, [("b", "y")]) == 1
    assert "cannot read the embedding cache" in caplog.text
    assert find_digests(location, [("a", "x"), ("b", "y")]) == {compute_digest("y")}


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
@pytest.mark.parametrize("name", ["embeddings.duckdb", "embeddings.duckdb.wal"])
def test_something_else_in_place_of_the_cache(
    location: IndexLocation, caplog: pytest.LogCaptureFixture, name: str, make: Callable[[Path], None]
) -> None:
    """With a directory or a pipe in place of the file or its log, a run works without the cache."""
    store(location, [("a", "x")])
    (location.folder / name).unlink(missing_ok=True)
    make(location.folder / name)
    assert store(location, [("b", "y")]) == 0
    assert f"{name} is no regular file" in caplog.text
    assert embedding_cache.count_unused_entries(location, "other") == (0, 0)


def test_damaged_blocks(location: IndexLocation, caplog: pytest.LogCaptureFixture) -> None:
    """Damaged blocks are detected when they are read, and the file is replaced too."""
    pairs = [(f"c{n}", f"t{n}") for n in range(3_000)]
    store(location, pairs)
    content = bytearray(location.embeddings.read_bytes())
    content[20_000:-1] = bytes(len(content) - 20_001)
    location.embeddings.write_bytes(content)
    assert find_digests(location, pairs) == set()
    assert "cannot read the embedding cache" in caplog.text
    assert store(location, pairs[:1]) == 1


def test_other_database_is_replaced(location: IndexLocation, caplog: pytest.LogCaptureFixture) -> None:
    """A database with other columns is replaced."""
    store(location, [])
    location.embeddings.unlink()
    with database.open_for_writing(location) as connection:
        connection.execute(database.build_attach_statement(location.embeddings, "other"))
        connection.execute("CREATE TABLE other.embeddings (key VARCHAR)")
        connection.execute("DETACH other")
    assert store(location, [("a", "x")]) == 1
    assert "cannot read the embedding cache" in caplog.text


def test_lack_of_memory_deletes_nothing(location: IndexLocation, caplog: pytest.LogCaptureFixture) -> None:
    """If a lookup gets no memory, the run continues without the cache, and all entries stay."""
    pairs = [(f"c{n}", f"t{n}") for n in range(1_000)]
    store(location, pairs)
    with embedding_cache.open_cache(location, "model") as cache:
        assert cache is not None and cache._engine is not None
        cache._engine.execute("SET memory_limit = '1MB'")
        assert cache.look_up(make_lookup(pairs)).num_rows == 0
        cache.store(make_entries([("a", "x")]))
        assert cache.count() == 0
    assert "Reading the embedding cache failed" in caplog.text
    assert len(find_digests(location, pairs)) == len(pairs)


def test_count_of_an_unusable_file(location: IndexLocation, caplog: pytest.LogCaptureFixture) -> None:
    """A file that can no longer be read has no entries to count."""
    store(location, [("a", "x")])
    with embedding_cache.open_cache(location, "model") as cache:
        assert cache is not None and cache._engine is not None
        cache._engine.execute("DROP TABLE embeddings")
        assert cache.count() == 0
    assert "cannot read the embedding cache" in caplog.text


def test_locked_file_is_not_used(location: IndexLocation, caplog: pytest.LogCaptureFixture) -> None:
    """While another program has the file open, the run works without the cache, and no entry is lost."""
    store(location, [("a", "x")])
    with run_script(OPEN_WITHOUT_LOCKS, location.home) as other_process:
        assert read_line(other_process) == "opened"
        assert find_digests(location, [("a", "x")]) == set()
    assert "continues without it" in caplog.text
    assert find_digests(location, [("a", "x")]) == {compute_digest("x")}


def test_kill_loses_no_stored_entry(location: IndexLocation) -> None:
    """`kill -9` loses no entry that was stored."""
    with run_script(STORE_ENTRIES, location.home) as process:
        assert process.stdin is not None
        for number in range(5):
            print(number, file=process.stdin, flush=True)
            assert read_line(process) == str(number)
        process.kill()
        wait_for_exit(process)
    pairs = [(f"c{number}", f"t{number}") for number in range(6)]
    assert find_digests(location, pairs) == {compute_digest(text) for _, text in pairs[:5]}
