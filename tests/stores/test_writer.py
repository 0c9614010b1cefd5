"""Batches go in whole, in any cut, and out again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stores import database, history, locks, migrations, schema, writer
from stores.index_location import ForeignFolder, Place
from stores.locks import IndexBusy
from stores.writer import Batch, HeadChange
from tests.stores.batches import CURRENT, Document, batch, digest, head, place_in, sha, vectors

# What lexical ranking is made of: the postings by word and commit, and the statistics of BM25.
RELATION = """
SELECT '{table}', term, commit_sha, frequency
FROM {table} JOIN terms USING (term_id) JOIN hunks USING (hunk_id)"""
STATISTICS = "SELECT count(*), avg(word_count), avg(symbol_word_count) FROM hunks"


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        migrations.migrate(made)
        made.execute("INSERT INTO repository VALUES ('id', '/path', NULL, NULL, NULL, NULL, 0, NULL)")
        yield made


def relation(connection: duckdb.DuckDBPyConnection) -> list[Any]:
    tables = " UNION ALL ".join(RELATION.format(table=name) for name in ("hunk_postings", "symbol_postings"))
    return connection.execute(f"{tables} ORDER BY ALL").fetchall() + connection.execute(STATISTICS).fetchall()


def counts(connection: duckdb.DuckDBPyConnection) -> dict[str, int]:
    return {
        table: connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0] for table in schema.TABLES
    }


def terms(connection: duckdb.DuckDBPyConnection) -> list[str]:
    return [term for (term,) in connection.execute("SELECT term FROM terms ORDER BY term_id").fetchall()]


WORDS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 5), max_size=5)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=12), st.data())
def test_any_cut_gives_the_same_index(documents: list[Any], data: st.DataObject) -> None:
    """However documents are cut into batches, words, their numbers and BM25's statistics are the same."""
    made = [Document(number, words, symbols) for number, (words, symbols) in enumerate(documents)]
    cuts = sorted(data.draw(st.sets(st.integers(1, len(made)))) | {len(made)})
    starts = [0, *cuts[:-1]]
    results = []
    for stretches in ([made], [made[start:end] for start, end in zip(starts, cuts, strict=True)]):
        with duckdb.connect() as connection:
            migrations.migrate(connection)
            for stretch in stretches:
                writer.replace_batch(connection, batch(stretch))
            results.append((relation(connection), terms(connection)))
    assert results[0] == results[1]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(st.lists(WORDS, min_size=2, max_size=8), st.data())
def test_replacing_equals_rebuilding(documents: list[Any], data: st.DataObject) -> None:
    """An index in which some commits were replaced equals one that never had their first rows."""
    last = [Document(number, words) for number, words in enumerate(documents)]
    again = data.draw(st.lists(st.sampled_from(last), unique_by=lambda one: one.commit))
    first = [replace(one, words={"old": 1}) if one in again else one for one in last]
    results = []
    for stretches in ([last], [first, again]):
        with duckdb.connect() as connection:
            migrations.migrate(connection)
            for stretch in stretches:
                writer.replace_batch(connection, batch(stretch))
            results.append(relation(connection))
    assert results[0] == results[1]


def test_words_are_numbered_by_first_appearance(connection: duckdb.DuckDBPyConnection) -> None:
    """A word's number says when it first appeared: by document, then by alphabet, whichever lane had it."""
    writer.replace_batch(connection, batch([Document(0, {"b": 1, "a": 2}, {"z": 1}), Document(1, {"c": 1})]))
    writer.replace_batch(connection, batch([Document(2, {"a": 1, "aa": 1})]))
    assert terms(connection) == ["a", "b", "z", "c", "aa"]


def test_replaced_commit_leaves_nothing_behind(connection: duckdb.DuckDBPyConnection) -> None:
    """Writing a commit again replaces its hunks, symbols and words."""
    writer.replace_batch(connection, batch([Document(0, {"a": 1}, {"f": 1}), Document(1)]))
    before = counts(connection)
    writer.replace_batch(connection, batch([Document(0, {"a": 1}, {"f": 1})]))
    assert counts(connection) == before
    writer.replace_batch(connection, Batch(covered=[sha(0), sha(1)]))
    left = {table for table, count in counts(connection).items() if count}
    assert left == {"repository", "migrations", "terms", "vectors"}


def test_each_text_is_stored_once(connection: duckdb.DuckDBPyConnection) -> None:
    """A text that several hunks share, in one batch or in several, has one vector."""
    writer.replace_batch(connection, batch([Document(0, text="same"), Document(1, text="same")]))
    writer.replace_batch(connection, batch([Document(2, text="same")]))
    twice = Batch(vectors=pa.concat_tables([vectors([digest("new")]), vectors([digest("new")])]))
    writer.replace_batch(connection, twice)
    rows = connection.execute("SELECT count(*), count(DISTINCT text_digest) FROM vectors").fetchall()
    assert rows == [(5, 5)]
    assert history.known_digests(connection, [digest("same"), digest("other")]) == {digest("same")}


def test_vectors_come_back_bit_for_bit(connection: duckdb.DuckDBPyConnection) -> None:
    """What the encoder made is what is read."""
    given_rows = vectors([digest("a"), digest("b")])
    writer.replace_batch(connection, Batch(vectors=given_rows))
    read = connection.execute("FROM vectors").to_arrow_table()
    assert read.column("embedding").to_pylist() == given_rows.column("embedding").to_pylist()


def test_unreadable_commits_are_remembered_until_read(connection: duckdb.DuckDBPyConnection) -> None:
    """A commit that could not be read is remembered with its last reason, until it is read."""
    for reason in ("missing tree", "missing blob"):
        rows = pa.Table.from_pylist([{"commit_sha": sha(0), "reason": reason}], schema.UNREADABLE)
        writer.replace_batch(connection, Batch(covered=[sha(0)], unreadable=rows, watermark=sha(0)))
    assert [one.reason for one in history.unreadable(connection)] == ["missing blob"]
    writer.replace_batch(connection, Batch(covered=[sha(0)]))
    assert history.unreadable(connection) == ()


def test_watermark_moves_with_its_batch_only(connection: duckdb.DuckDBPyConnection) -> None:
    """A batch without a watermark leaves it; an empty batch with one moves it."""
    writer.replace_batch(connection, batch([Document(0)]))
    writer.replace_batch(connection, batch([Document(1)], watermark=False))
    seen = history.status(connection)
    assert seen is not None and (seen.last_indexed_commit, seen.commits) == (sha(0), 2)
    writer.replace_batch(connection, Batch(covered=[sha(2)], watermark=sha(2)))
    moved = history.status(connection)
    assert moved is not None and moved.last_indexed_commit == sha(2)
    assert history.recorded(connection, [sha(0), sha(2)]) == {sha(0)}


def test_failed_batch_leaves_nothing(connection: duckdb.DuckDBPyConnection) -> None:
    """A batch that cannot be written whole is not written at all."""
    whole = batch([Document(0)])
    words = whole.hunk_words
    unknown = words.set_column(2, "frequency", pa.nulls(words.num_rows, pa.int32()))
    broken = replace(whole, hunk_words=unknown)
    with pytest.raises(duckdb.ConstraintException):
        writer.replace_batch(connection, broken)
    assert history.all_recorded(connection) == []
    writer.replace_batch(connection, whole)
    assert history.all_recorded(connection) == [sha(0)]


def test_head_is_replaced_by_file(connection: duckdb.DuckDBPyConnection) -> None:
    """Only the files named are replaced, with their symbols, chunks and words."""
    writer.replace_head(connection, head(["a.py", "b.py"], ["f", "g"]))
    writer.replace_head(connection, head(["a.py"], ["h"], blob="c" * 40))
    assert history.head_files(connection) == {"a.py": "c" * 40, "b.py": "b" * 40}
    rows = connection.execute(
        "SELECT file_path, name, term FROM head_symbols"
        " LEFT JOIN head_postings USING (symbol_id) LEFT JOIN terms USING (term_id) ORDER BY ALL"
    ).fetchall()
    assert rows == [("a.py", "h", "h"), ("b.py", "f", "f"), ("b.py", "g", "g")]
    writer.replace_head(connection, HeadChange(replaced_paths=["a.py", "b.py"]))
    assert [counts(connection)[table] for table in schema.TABLES if table.startswith("head_")] == [0] * 4


def test_a_pass_begins(connection: duckdb.DuckDBPyConnection) -> None:
    """The beginning of a pass says whose index it is and what HEAD does not reach; the watermark stays."""
    connection.execute("DELETE FROM repository")
    place = replace(place_in(Path("/home")), path=Path("/bad\udcff"))
    writer.begin_pass(connection, place, head="1" * 40, unreached=[sha(7)], components=CURRENT)
    writer.replace_batch(connection, batch([Document(0)]))
    writer.begin_pass(connection, place, head="2" * 40, unreached=[sha(8), sha(9)], components=CURRENT)
    seen = history.status(connection)
    assert seen is not None
    assert (seen.path, seen.head_commit, seen.last_indexed_commit) == ("/bad\\xff", "2" * 40, sha(0))
    assert history.unreached(connection) == {sha(8), sha(9)}


def indexed(place: Place, documents: Sequence[Document] = (Document(0),)) -> Place:
    with database.writing(place) as connection:
        writer.begin_pass(connection, place, head="h" * 40, unreached=[], components=CURRENT)
        writer.replace_batch(connection, batch(documents))
    return place


def test_delete_removes_everything(tmp_path: Path) -> None:
    """Deleting takes the database, its log and side files; empty lock files and strangers' files stay."""
    place = indexed(place_in(tmp_path))
    assert place.wal.exists()
    (place.folder / "index.duckdb.draft").touch()
    (place.folder / "notes.txt").touch()
    writer.delete_index(place)
    left = {path.name: path.stat().st_size for path in place.folder.iterdir()}
    assert left == {locks.DOOR: 0, locks.LOCK: 0, "notes.txt": 0}
    writer.delete_index(place)
    with database.reading(indexed(place)) as connection:
        assert history.all_recorded(connection) == [sha(0)]


def test_delete_waits_for_readers(tmp_path: Path) -> None:
    """An index that is being read is not deleted."""
    place = indexed(place_in(tmp_path))
    with database.reading(place), pytest.raises(IndexBusy):
        writer.delete_index(place, wait=0.05)
    assert place.database.exists()


@pytest.mark.parametrize(
    "name", ["..", ".", "", "/", "../elsewhere-01", "a/../../elsewhere-01", "inner/deep"]
)
def test_delete_refuses_a_path_outside(tmp_path: Path, name: str) -> None:
    """A folder that is not directly under the home is never touched."""
    (tmp_path / "home" / "inner" / "deep").mkdir(parents=True)
    (tmp_path / "home" / "a").mkdir()
    (tmp_path / "elsewhere-01").mkdir()
    files = [folder / "index.duckdb" for folder in (tmp_path, tmp_path / "elsewhere-01", tmp_path / "home")]
    for file in files:
        file.touch()
    with pytest.raises(ForeignFolder):
        writer.delete_index(place_in(tmp_path / "home", name))
    assert all(file.exists() for file in files)


def test_delete_follows_no_link(tmp_path: Path) -> None:
    """A link in the home, to outside or to another index, is refused; a home behind a link is not."""
    other = indexed(place_in(tmp_path / "home", "other-01"))
    (tmp_path / "home" / "link-01").symlink_to(other.folder)
    with pytest.raises(ForeignFolder):
        writer.delete_index(place_in(tmp_path / "home", "link-01"))
    assert other.database.exists()
    (tmp_path / "alias").symlink_to(tmp_path / "home")
    writer.delete_index(place_in(tmp_path / "alias", "other-01"))
    assert not other.database.exists()
