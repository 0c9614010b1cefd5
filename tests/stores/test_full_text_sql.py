"""Full text search by any DuckDB client: the schemas of `full_text.sql` and the macro of `tokenize.sql`."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.text import count_terms
from stores import database, migrations, schema, writer
from stores.duckdb_engine import load_extensions
from stores.index_location import IndexLocation
from tests.stores.batches import (
    SampleCommit,
    make_batch,
    make_head_change,
    make_location,
    make_sha,
    open_empty_index,
)

ROOT = Path(__file__).parent.parent.parent
TEXTS = ["Retrying connections", "maxRetries", "the timeout of a retry", "parse_header2", "HTTPHeader", "s"]
SCORES = "SELECT {id}, {schema}.match_bm25({key}, $words{options}) FROM {table} WHERE {id} IS NOT NULL"

# A client that knows only DuckDB: it opens the file, or attaches it.
CLIENT = """
import sys
import duckdb
file, how = sys.argv[1:]
if how == "open":
    connection = duckdb.connect(file, read_only=True)
else:
    connection = duckdb.connect()
    connection.execute(f"ATTACH '{file}' AS x (READ_ONLY)")
    print(connection.execute("SELECT term, df FROM x.fts_main_hunks.dict ORDER BY ALL").fetchall())
    connection.execute("USE x")
score = "fts_main_hunks.match_bm25(hunk_id, 'retries of CONNECTIONS')"
print(connection.execute(f"SELECT hunk_id, round({score}, 3) FROM hunks WHERE {score} IS NOT NULL").fetchall())
name_score = "fts_main_head_symbols.match_bm25(symbol_id, 'Retries')"
print(connection.execute(f"SELECT name FROM head_symbols WHERE {name_score} IS NOT NULL").fetchall())
print(connection.execute("SELECT extension_name FROM duckdb_extensions() WHERE loaded").fetchall())
"""


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with open_empty_index() as new_connection:
        yield new_connection


@pytest.fixture
def location(tmp_path: Path) -> IndexLocation:
    """Return the location of an index with two hunks and two symbols of HEAD."""
    new_location = make_location(tmp_path)
    texts = ["Retry the connection", "Close it"]
    with database.open_for_writing(new_location) as connection:
        commits = [SampleCommit(number, count_terms(text)) for number, text in enumerate(texts)]
        writer.replace_batch(connection, make_batch(commits))
        writer.replace_head(connection, make_head_change(["a.py"], ["retri", "close"]))
    return new_location


def tokenize(connection: duckdb.DuckDBPyConnection, text: str) -> Counter[str]:
    sql = "SELECT fts_main_hunks.tokenize($text)"
    return Counter(connection.execute(sql, {"text": text}).fetchall()[0][0])


def compute_reference_scores(
    texts: Mapping[str, str], query: str, *, conjunctive: bool = False, b: float = 0.75
) -> dict[str, float]:
    """Return the scores of DuckDB's full-text extension for texts with the same terms, by their keys."""
    rows = [{"key": key, "text": " ".join(count_terms(text).elements())} for key, text in texts.items()]
    with duckdb.connect() as reference:
        load_extensions(reference, ["fts"])
        reference.register("rows", pa.Table.from_pylist(rows))
        reference.execute("CREATE TABLE texts AS FROM rows")
        reference.execute(
            "PRAGMA create_fts_index('texts', 'key', 'text', stemmer='none', stopwords='none',"
            r" ignore='(\s)+', lower=0, strip_accents=0)"
        )
        options = f", b := {b}, conjunctive := {conjunctive}"
        sql = SCORES.format(id="key", key="key", schema="fts_main_texts", table="texts", options=options)
        return read_scores(reference, sql, " ".join(count_terms(query)))


def read_scores(connection: duckdb.DuckDBPyConnection, sql: str, words: str) -> dict[str, float]:
    rows = connection.execute(sql, {"words": words}).fetchall()
    return {key: score for key, score in rows if score is not None}


TEXT = st.lists(st.sampled_from(TEXTS), min_size=1, max_size=4).map(" ".join)
# A text is inserted for a commit or replaces that of the commit; no text deletes the commit.
CHANGE = st.tuples(st.integers(0, 4), TEXT | st.none(), st.sampled_from(["commit", "commit", "roll back"]))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(CHANGE, min_size=1, max_size=8), TEXT, st.booleans(), st.sampled_from([0.75, 0.3]))
def test_scores_equal_the_extension(
    changes: list[tuple[int, str | None, str]], query: str, conjunctive: bool, b: float
) -> None:
    """Scores are those of DuckDB's extension for the same words, after inserts, deletions and rollbacks."""
    texts: dict[str, str] = {}
    options = f", b := {b}, conjunctive := {conjunctive}"
    sql = SCORES.format(
        id="commit_sha", key="hunk_id", schema="fts_main_hunks", table="hunks", options=options
    )
    with duckdb.connect() as connection:
        migrations.migrate(connection)
        connection.execute("INSERT INTO repository VALUES ('id', '/', NULL, NULL, NULL, NULL, 0, NULL)")
        for number, text, end in changes:
            commits = [] if text is None else [SampleCommit(number, count_terms(text))]
            batch = replace(make_batch(commits), covered_commits=[make_sha(number)])
            if end == "roll back":
                invalid = pa.table({"commit_sha": [make_sha(number)], "reason": pa.nulls(1, pa.string())})
                with pytest.raises(duckdb.ConstraintException):
                    writer.replace_batch(connection, replace(batch, unreadable=invalid))
                continue
            writer.replace_batch(connection, batch)
            texts.pop(make_sha(number), None)
            if text is not None:
                texts[make_sha(number)] = text
        expected = compute_reference_scores(texts, query, conjunctive=conjunctive, b=b) if texts else {}
        assert read_scores(connection, sql, query) == pytest.approx(expected, abs=1e-12)


def test_symbol_scores_equal_the_extension(connection: duckdb.DuckDBPyConnection) -> None:
    """Scores of symbols at HEAD are those of DuckDB's extension, after files were replaced."""
    writer.replace_head(connection, make_head_change(["a.py", "b.py"], ["retri", "close"]))
    writer.replace_head(connection, make_head_change(["b.py"], ["open", "close", "retri"]))
    symbols = "SELECT symbol_id::VARCHAR, name FROM head_symbols"
    texts = dict(connection.execute(symbols).fetchall())
    sql = SCORES.format(
        id="symbol_id::VARCHAR",
        key="symbol_id",
        schema="fts_main_head_symbols",
        table="head_symbols",
        options="",
    )
    assert len(texts) == 5
    assert read_scores(connection, sql, "close retries") == pytest.approx(
        compute_reference_scores(texts, "close retries"), abs=1e-12
    )


def test_views_equal_the_tables_of_the_extension(connection: duckdb.DuckDBPyConnection) -> None:
    """The views have the columns that the extension's tables have, with the rows of its default options."""
    connection.execute("CREATE TABLE reference (key VARCHAR, text VARCHAR)")
    connection.execute("INSERT INTO reference VALUES ('0', 'dog cat dog'), ('1', 'cat')")
    load_extensions(connection, ["fts"])
    connection.execute("PRAGMA create_fts_index('reference', 'key', 'text')")
    commits = [SampleCommit(0, {"dog": 2, "cat": 1}), SampleCommit(1, {"cat": 1})]
    writer.replace_batch(connection, make_batch(commits))
    tables = "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'fts_main_reference'"
    for (table,) in connection.execute(tables).fetchall():
        view = connection.sql(f"FROM fts_main_hunks.{table}")
        assert view.columns == connection.sql(f"FROM fts_main_reference.{table}").columns
    for columns in ("num_docs, avgdl FROM {}.stats", "term, df FROM {}.dict", "len FROM {}.docs"):
        rows = [
            connection.execute(f"SELECT {columns.format(name)} ORDER BY ALL").fetchall()
            for name in ("fts_main_hunks", "fts_main_reference")
        ]
        assert rows[0] == rows[1]
    occurrences = "SELECT docid, term FROM {0}.terms JOIN {0}.dict USING (termid) ORDER BY ALL"
    assert [
        connection.execute(occurrences.format(name)).fetchall()
        for name in ("fts_main_hunks", "fts_main_reference")
    ] == [[(0, "cat"), (0, "dog"), (0, "dog"), (1, "cat")]] * 2


def test_a_field_can_be_chosen(connection: duckdb.DuckDBPyConnection) -> None:
    """Only the field that the extension would have indexed has words."""
    writer.replace_batch(connection, make_batch([SampleCommit(0, {"dog": 1})]))
    sql = "SELECT fts_main_hunks.match_bm25(hunk_id, 'dog', fields := $fields) IS NOT NULL FROM hunks"
    for fields, is_found in {"semantic_text": True, "diff,semantic_text": True, "diff": False}.items():
        assert connection.execute(sql, {"fields": fields}).fetchall() == [(is_found,)]


def test_words_of_a_column(connection: duckdb.DuckDBPyConnection) -> None:
    """The words may differ between rows, as with the extension."""
    writer.replace_batch(
        connection, make_batch([SampleCommit(0, {"retri": 1}), SampleCommit(1, {"close": 1})])
    )
    sql = (
        "SELECT words, hunk_id FROM hunks, (VALUES ('retries'), ('closed')) queries (words)"
        " WHERE fts_main_hunks.match_bm25(hunk_id, words) IS NOT NULL ORDER BY ALL"
    )
    assert connection.execute(sql).fetchall() == [("closed", 1), ("retries", 0)]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(max_codepoint=0x24F, exclude_characters="\u0130")))
def test_tokens_of_any_text(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    """The macro splits and stems a text as `pipeline.text` does."""
    assert tokenize(connection, text) == count_terms(text)


def test_tokens_of_many_words(connection: duckdb.DuckDBPyConnection) -> None:
    """The macro gives the terms of `pipeline.text` for all words of this project, and for those of the Porter rules."""
    files = [*ROOT.glob("*.md"), *ROOT.glob("*/*.md"), *ROOT.glob("*/*.py"), *ROOT.glob("*/*/*.py")]
    text = " ".join({word for file in files for word in re.findall(r"\w+", file.read_text(encoding="utf-8"))})
    stems = ("n", "rat", "hop", "relat", "sens", "toy", "syzyg", "fail", "controll", "trouble", "yesterday")
    endings = re.findall(r"\w+", migrations.read_sql("tokenize.sql"))
    text += " ".join(f"{stem}{ending}" for stem in stems for ending in endings)
    assert len(count_terms(text)) > 5_000
    assert tokenize(connection, text) == count_terms(text)


@pytest.mark.parametrize("how", ["open", "attach"])
def test_any_client(location: IndexLocation, how: str) -> None:
    """A client without the extension scores by words, whether it opens the file or attaches and uses it."""
    command = [sys.executable, "-c", CLIENT, str(location.database), how]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    if how == "attach":
        assert lines.pop(0) == "[('close', 1), ('connect', 1), ('it', 1), ('retri', 1), ('the', 1)]"
    assert lines[:2] == ["[(0, 0.557)]", "[('retri',)]"]
    assert "fts" not in lines[2]


def test_index_with_a_log(tmp_path: Path) -> None:
    """Another client reads the views and macros also from the log, as after a kill before the first checkpoint."""
    location, copy = make_location(tmp_path), tmp_path / "copy.duckdb"
    with database.open_for_writing(location) as connection:
        writer.replace_batch(connection, make_batch([SampleCommit(0, {"retri": 1})]))
        copy.write_bytes(location.database.read_bytes())
        copy.with_name("copy.duckdb.wal").write_bytes(location.wal.read_bytes())
    with duckdb.connect(str(copy)) as connection:
        sql = "SELECT fts_main_hunks.match_bm25(hunk_id, 'retries') IS NOT NULL FROM hunks"
        assert connection.execute(sql).fetchall() == [(True,)]


def test_every_table_of_postings_has_words() -> None:
    """The names that full-text indexes are made with are those of tables and columns."""
    for index in migrations.FULL_TEXT_INDEXES:
        assert {index.key, index.length, index.field} <= set(schema.TABLES[index.table].names)
        assert {index.key, "term_id", "frequency"} <= set(schema.TABLES[index.postings].names)
