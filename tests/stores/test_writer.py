"""Writing and replacing batches and HEAD files, and replacing outdated symbols and terms of recorded hunks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stores import compatibility, database, history, migrations, schema, writer
from stores.compatibility import HISTORY_PART, RowVersion
from stores.writer import Batch, HeadChange, RefreshedRows
from tests.stores.batches import (
    CURRENT_VERSIONS,
    SampleCommit,
    compute_digest,
    make_batch,
    make_head_change,
    make_location,
    make_sha,
    make_vectors,
    open_empty_index,
)

# The data of full-text ranking: postings by term and commit, and the statistics of BM25.
POSTINGS = """
SELECT '{table}', term, commit_sha, frequency
FROM {table} JOIN terms USING (term_id) JOIN hunks USING (hunk_id)"""
STATISTICS = "SELECT count(*), avg(word_count), avg(symbol_word_count) FROM hunks"


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with open_empty_index() as new_connection:
        yield new_connection


def read_ranking_data(connection: duckdb.DuckDBPyConnection) -> list[Any]:
    tables = " UNION ALL ".join(POSTINGS.format(table=name) for name in ("hunk_postings", "symbol_postings"))
    return connection.execute(f"{tables} ORDER BY ALL").fetchall() + connection.execute(STATISTICS).fetchall()


def count_rows(connection: duckdb.DuckDBPyConnection) -> dict[str, int]:
    return {
        table: connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0] for table in schema.TABLES
    }


def read_terms(connection: duckdb.DuckDBPyConnection) -> list[str]:
    return [term for (term,) in connection.execute("SELECT term FROM terms ORDER BY term_id").fetchall()]


WORDS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 5), max_size=5)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=12), st.data())
def test_batch_size_does_not_matter(commits: list[Any], data: st.DataObject) -> None:
    """Postings, term ids and BM25 statistics do not depend on how commits are split into batches."""
    all_commits = [SampleCommit(number, words, symbols) for number, (words, symbols) in enumerate(commits)]
    cuts = sorted(data.draw(st.sets(st.integers(1, len(all_commits)))) | {len(all_commits)})
    starts = [0, *cuts[:-1]]
    results = []
    for batches in (
        [all_commits],
        [all_commits[start:end] for start, end in zip(starts, cuts, strict=True)],
    ):
        with duckdb.connect() as connection:
            migrations.migrate(connection)
            for batch_commits in batches:
                writer.replace_batch(connection, make_batch(batch_commits))
            results.append((read_ranking_data(connection), read_terms(connection)))
    assert results[0] == results[1]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(st.lists(WORDS, min_size=2, max_size=8), st.data())
def test_replacing_equals_rebuilding(commits: list[Any], data: st.DataObject) -> None:
    """An index in which commits were replaced equals one that was written once."""
    final = [SampleCommit(number, words) for number, words in enumerate(commits)]
    replaced = data.draw(st.lists(st.sampled_from(final), unique_by=lambda commit: commit.number))
    first = [replace(commit, words={"old": 1}) if commit in replaced else commit for commit in final]
    results = []
    for batches in ([final], [first, replaced]):
        with duckdb.connect() as connection:
            migrations.migrate(connection)
            for batch_commits in batches:
                writer.replace_batch(connection, make_batch(batch_commits))
            results.append(read_ranking_data(connection))
    assert results[0] == results[1]


def test_term_ids_follow_first_appearance(connection: duckdb.DuckDBPyConnection) -> None:
    """Term ids are assigned by first commit, then alphabetically, for hunk and symbol terms together."""
    writer.replace_batch(
        connection, make_batch([SampleCommit(0, {"b": 1, "a": 2}, {"z": 1}), SampleCommit(1, {"c": 1})])
    )
    writer.replace_batch(connection, make_batch([SampleCommit(2, {"a": 1, "aa": 1})]))
    assert read_terms(connection) == ["a", "b", "z", "c", "aa"]


def test_commit_is_replaced(connection: duckdb.DuckDBPyConnection) -> None:
    """Writing a commit again replaces its hunks, symbols and postings."""
    writer.replace_batch(connection, make_batch([SampleCommit(0, {"a": 1}, {"f": 1}), SampleCommit(1)]))
    before = count_rows(connection)
    writer.replace_batch(connection, make_batch([SampleCommit(0, {"a": 1}, {"f": 1})]))
    assert count_rows(connection) == before
    writer.replace_batch(connection, Batch(covered_commits=[make_sha(0), make_sha(1)]))
    remaining = {table for table, count in count_rows(connection).items() if count}
    assert remaining == {"repository", "migrations", "terms", "vectors"}


def test_each_text_is_stored_once(connection: duckdb.DuckDBPyConnection) -> None:
    """A text of several hunks, in one batch or in several, has one vector."""
    writer.replace_batch(connection, make_batch([SampleCommit(0, text="same"), SampleCommit(1, text="same")]))
    writer.replace_batch(connection, make_batch([SampleCommit(2, text="same")]))
    twice = Batch(
        vectors=pa.concat_tables(
            [make_vectors([compute_digest("new")]), make_vectors([compute_digest("new")])]
        )
    )
    writer.replace_batch(connection, twice)
    rows = connection.execute("SELECT count(*), count(DISTINCT text_digest) FROM vectors").fetchall()
    assert rows == [(5, 5)]


def test_vectors_are_quantized(connection: duckdb.DuckDBPyConnection) -> None:
    """A vector is stored as 8-bit codes times a scale, at most half a scale from each of its numbers."""
    vectors = make_vectors([compute_digest("a"), compute_digest("b")])
    writer.replace_batch(connection, Batch(vectors=vectors))
    rows = connection.execute("SELECT text_digest, codes, scale FROM vectors").fetchall()
    assert [digest for digest, *_ in rows] == vectors.column("text_digest").to_pylist()
    for embedding, (_, codes, scale) in zip(vectors.column("embedding").to_pylist(), rows, strict=True):
        assert max(map(abs, codes)) == 127
        assert np.array(codes) * scale == pytest.approx(np.array(embedding), abs=0.5001 * scale)


def test_unreadable_commits(connection: duckdb.DuckDBPyConnection) -> None:
    """An unreadable commit is recorded with its last reason, until it is read."""
    for reason in ("missing tree", "missing blob"):
        rows = pa.Table.from_pylist([{"commit_sha": make_sha(0), "reason": reason}], schema.UNREADABLE)
        writer.replace_batch(
            connection, Batch(covered_commits=[make_sha(0)], unreadable=rows, watermark=make_sha(0))
        )
    assert [commit.reason for commit in history.load_unreadable_commits(connection)] == ["missing blob"]
    writer.replace_batch(connection, Batch(covered_commits=[make_sha(0)]))
    assert history.load_unreadable_commits(connection) == ()


def test_watermark(connection: duckdb.DuckDBPyConnection) -> None:
    """A batch without a watermark keeps the last one; an empty batch with one changes it."""
    writer.replace_batch(connection, make_batch([SampleCommit(0)]))
    writer.replace_batch(connection, make_batch([SampleCommit(1)], watermark=False))
    summary = history.load_index_summary(connection)
    assert summary is not None and (summary.last_indexed_commit, summary.commits) == (make_sha(0), 2)
    writer.replace_batch(connection, Batch(covered_commits=[make_sha(2)], watermark=make_sha(2)))
    changed_summary = history.load_index_summary(connection)
    assert changed_summary is not None and changed_summary.last_indexed_commit == make_sha(2)
    assert history.find_recorded_commits(connection, [make_sha(0), make_sha(2)]) == {make_sha(0)}


def test_failed_batch_writes_nothing(connection: duckdb.DuckDBPyConnection) -> None:
    """A batch that fails is not written at all, and can be written later."""
    valid = make_batch([SampleCommit(0)])
    terms = valid.hunk_terms
    without_frequency = terms.set_column(2, "frequency", pa.nulls(terms.num_rows, pa.int32()))
    invalid = replace(valid, hunk_terms=without_frequency)
    with pytest.raises(duckdb.ConstraintException):
        writer.replace_batch(connection, invalid)
    assert history.list_recorded_commits(connection) == []
    writer.replace_batch(connection, valid)
    assert history.list_recorded_commits(connection) == [make_sha(0)]


def test_head_files_are_replaced(connection: duckdb.DuckDBPyConnection) -> None:
    """Only the given files are replaced, with their symbols, chunks and postings."""
    writer.replace_head(connection, make_head_change(["a.py", "b.py"], ["f", "g"]))
    writer.replace_head(connection, make_head_change(["a.py"], ["h"], blob="c" * 40))
    assert history.load_head_files(connection) == {"a.py": "c" * 40, "b.py": "b" * 40}
    rows = connection.execute(
        "SELECT file_path, name, term FROM head_symbols"
        " LEFT JOIN head_postings USING (symbol_id) LEFT JOIN terms USING (term_id) ORDER BY ALL"
    ).fetchall()
    assert rows == [("a.py", "h", "h"), ("b.py", "f", "f"), ("b.py", "g", "g")]
    writer.replace_head(connection, HeadChange(replaced_paths=["a.py", "b.py"]))
    assert [count_rows(connection)[table] for table in schema.TABLES if table.startswith("head_")] == [0] * 4


def test_record_run_start(connection: duckdb.DuckDBPyConnection) -> None:
    """The start of a run records repository, HEAD, unreachable commits and branch patterns, and keeps the watermark."""
    connection.execute("DELETE FROM repository")
    location = replace(make_location(Path("/home")), path=Path("/bad\udcff"))
    writer.record_run_start(
        connection,
        location,
        head="1" * 40,
        unreachable=[make_sha(7)],
        components=CURRENT_VERSIONS,
        branch_patterns=["x"],
    )
    writer.replace_batch(connection, make_batch([SampleCommit(0)]))
    writer.record_run_start(
        connection,
        location,
        head="2" * 40,
        unreachable=[make_sha(8), make_sha(9)],
        components=CURRENT_VERSIONS,
        branch_patterns=["z", "a"],
    )
    summary = history.load_index_summary(connection)
    assert summary is not None
    assert (summary.path, summary.head_commit, summary.last_indexed_commit) == (
        "/bad\\xff",
        "2" * 40,
        make_sha(0),
    )
    assert history.load_unreachable_commits(connection) == {make_sha(8), make_sha(9)}
    assert history.load_branch_patterns(connection) == ("z", "a")


def test_refreshed_postings_are_not_clustered(tmp_path: Path) -> None:
    """The next compaction sorts the new postings: they are at the end of the table, as those of new hunks are."""
    location = make_location(tmp_path)
    with database.open_for_writing(location) as connection:
        writer.record_run_start(
            connection, location, head="h", unreachable=[], components=CURRENT_VERSIONS, branch_patterns=()
        )
        writer.replace_batch(connection, make_batch([SampleCommit(number) for number in range(5)]))
        connection.execute("UPDATE repository SET clustered_hunks = 5")
        rows = make_batch([SampleCommit(number) for number in range(3, 5)])
        writer.refresh_rows(
            connection,
            RefreshedRows(
                hunks=pa.table(rows.hunks).set_column(0, "hunk_id", pa.array([3, 4])),
                hunk_symbols=rows.hunk_symbols.slice(0, 0),
                hunk_terms=rows.hunk_terms.slice(0, 0),
                symbol_terms=rows.symbol_terms.slice(0, 0),
            ),
        )
        assert connection.execute("SELECT clustered_hunks FROM repository").fetchall() == [(3,)]


def test_refresh_of_unknown_version(tmp_path: Path) -> None:
    """Rows of a component without a recorded version have the current one after a refresh."""
    location = make_location(tmp_path)
    newer = replace(CURRENT_VERSIONS, words_version="2")
    with database.open_for_writing(location) as connection:
        writer.record_run_start(
            connection, location, head="h", unreachable=[], components=CURRENT_VERSIONS, branch_patterns=()
        )
        writer.replace_batch(connection, make_batch([SampleCommit(0)]))
        connection.execute("UPDATE made_by SET version = NULL WHERE component = 'words_version'")
        writer.record_run_start(
            connection, location, head="h", unreachable=[], components=newer, branch_patterns=()
        )
        commits = writer.start_refresh(connection, ["words_version"])
        assert commits["hunk_ids"].to_pylist() == [[0]]
        started = compatibility.load_recorded_versions(connection).select_row_versions("words_version")
        assert {row.version for row in started} == {None, "2"}
        writer.finish_refresh(connection, ["words_version"])
        assert compatibility.load_recorded_versions(connection).select_row_versions("words_version") == (
            RowVersion(HISTORY_PART, "words_version", "2"),
        )
