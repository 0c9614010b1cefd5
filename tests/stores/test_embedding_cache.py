"""The embedding cache: one entry a content and model, whole after a kill, never a reason to fail."""

from __future__ import annotations

import logging
import stat
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from stores import database, embedding_cache
from stores.embedding_cache import ASKED, ENTRIES
from stores.index_location import Place
from tests.stores.batches import digest, place_in, vectors
from tests.stores.processes import finished, line, running

# Opens the cache and keeps an entry for each number it is told, until it is killed.
KEEPING = """
from tests.stores.test_embedding_cache import entries
from stores import embedding_cache
with embedding_cache.opened(place, "model") as cache:
    for number in map(int, sys.stdin):
        cache.keep(entries([(f"c{number}", f"t{number}")]))
        say(number)
"""
STRANGER = """
import duckdb
with duckdb.connect(str(place.embeddings)):
    say("in"); sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return place_in(tmp_path / "home")


def entries(pairs: Sequence[tuple[str, str]]) -> pa.Table:
    """Contents with the texts made of them, each with that text's vector."""
    texts = [digest(text) for _, text in pairs]
    contents = pa.array([digest(content) for content, _ in pairs], ENTRIES.field(0).type)
    made = vectors(texts)
    columns = [contents, *(made.column(name) for name in ("text_digest", "embedding"))]
    return pa.table(columns, schema=ENTRIES)


def asked(pairs: Sequence[tuple[str, str]]) -> pa.Table:
    return entries(pairs).select(ASKED.names)


def found(place: Place, pairs: Sequence[tuple[str, str]], model: str = "model") -> set[bytes]:
    with embedding_cache.opened(place, model) as cache:
        assert cache is not None
        return set(cache.known(asked(pairs)).column("text_digest").to_pylist())


def keep(place: Place, pairs: Sequence[tuple[str, str]], model: str = "model") -> int:
    with embedding_cache.opened(place, model) as cache:
        assert cache is not None
        cache.keep(entries(pairs))
        return cache.count()


def test_what_is_kept_is_found(place: Place) -> None:
    """An entry comes back bit for bit, for its content, its text and its model alone."""
    keep(place, [("a", "x"), ("b", "y")])
    with embedding_cache.opened(place, "model") as cache:
        assert cache is not None
        rows = cache.known(asked([("b", "y"), ("c", "z")]))
    assert rows.equals(entries([("b", "y")]).select(["text_digest", "embedding"]))
    assert found(place, [("b", "x")]) == set()
    assert found(place, [("b", "y")], "another model") == set()


def test_one_entry_a_content_and_model(place: Place) -> None:
    """A content met again, with another text made of it or twice at once, has one entry: the newest."""
    assert keep(place, [("a", "x"), ("a", "x"), ("b", "y")]) == 2
    assert keep(place, [("a", "x2")]) == 2
    assert keep(place, [("a", "x")], "another model") == 3
    assert found(place, [("a", "x"), ("a", "x2"), ("b", "y")]) == {digest("x2"), digest("y")}


def test_several_contents_of_one_text(place: Place) -> None:
    """A text that was made of several contents is found once."""
    keep(place, [("a", "x"), ("b", "x")])
    with embedding_cache.opened(place, "model") as cache:
        assert cache is not None
        assert cache.known(asked([("a", "x"), ("b", "x")])).num_rows == 1


def test_files_are_the_owners_alone(place: Place) -> None:
    """Vectors say something of the code: nobody else can read them, nor their log."""
    with embedding_cache.opened(place, "model") as cache:
        assert cache is not None
        cache.keep(entries([("a", "x")]))
        made = [path for path in place.folder.iterdir() if path.name.startswith("embeddings")]
        assert len(made) == 3
        assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in made)


@pytest.mark.parametrize("content", [b"not a database" * 1000, b""])
def test_a_damaged_file_gives_way(place: Place, caplog: pytest.LogCaptureFixture, content: bytes) -> None:
    """What is no database is replaced by a fresh cache, with a warning."""
    keep(place, [("a", "x")])
    place.embeddings.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        assert keep(place, [("b", "y")]) == 1
    assert "begun anew" in caplog.text
    assert found(place, [("a", "x"), ("b", "y")]) == {digest("y")}


def test_damage_deep_in_the_file(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """Blocks that are not what they were are met when they are read, and end the same way."""
    many = [(f"c{n}", f"t{n}") for n in range(3_000)]
    keep(place, many)
    whole = bytearray(place.embeddings.read_bytes())
    whole[20_000:-1] = bytes(len(whole) - 20_001)
    place.embeddings.write_bytes(whole)
    assert found(place, many) == set()
    assert "begun anew" in caplog.text
    assert keep(place, many[:1]) == 1


def test_another_database_gives_way(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """A database of other columns is no cache of ours."""
    keep(place, [])
    place.embeddings.unlink()
    with database.writing(place) as connection:
        connection.execute(database.attachment(place.embeddings, "other"))
        connection.execute("CREATE TABLE other.embeddings (key VARCHAR)")
        connection.execute("DETACH other")
    assert keep(place, [("a", "x")]) == 1
    assert "begun anew" in caplog.text


def test_a_file_in_strange_hands_is_left_alone(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """A program that holds the file costs the use of it, and nothing in it."""
    keep(place, [("a", "x")])
    with running(STRANGER, place.home) as stranger:
        assert line(stranger) == "in"
        assert found(place, [("a", "x")]) == set()
    assert "goes without it" in caplog.text
    assert found(place, [("a", "x")]) == {digest("x")}


def test_a_killed_pass_keeps_what_it_kept(place: Place) -> None:
    """`kill -9` loses no entry that was kept."""
    with running(KEEPING, place.home) as process:
        assert process.stdin is not None
        for number in range(5):
            print(number, file=process.stdin, flush=True)
            assert line(process) == str(number)
        process.kill()
        finished(process)
    pairs = [(f"c{number}", f"t{number}") for number in range(6)]
    assert found(place, pairs) == {digest(text) for _, text in pairs[:5]}
