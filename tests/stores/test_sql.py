"""SQL connections: views, macros and the examples of stores/README.md."""

from __future__ import annotations

import re
import signal
import threading
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest

from pipeline.git.repository import open_repository
from serve import repositories
from serve.cli.terminal import is_interrupt
from serve.repositories import locate_index, open_sql
from stores import database, sql
from stores.errors import LineageError
from tests.repos import Repo
from tests.serve.sample_index import WordEncoder, build_index

PAGE = (Path(__file__).parents[2] / "stores" / "README.md").read_text(encoding="utf-8")
SECTION = PAGE[PAGE.index("\n## SQL\n") : PAGE.index("\n## Reading a copy\n")]
EXAMPLES = dict(re.findall(r"^\*\*(.+?)\*\*.*?```sql\n(.+?)```", SECTION, re.DOTALL | re.MULTILINE))
APP = "class Flask:\n    def dispatch_request(self):\n        {}\n"


@pytest.fixture
def repo(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """Repository with two releases, and one commit that HEAD no longer reaches; vectors are those of words."""
    monkeypatch.setattr(repositories, "_get_encoder", lambda _: WordEncoder())
    new_repo = Repo.create(tmp_path / "repo")
    new_repo.write("tests/test_app.py", "def test_close():\n    close()\n\n\n# end\n")
    new_repo.commit_file("src/flask/app.py", APP.format("close(timeout)"), "Close the session")
    new_repo.git("tag", "1.0")
    new_repo.write("tests/test_app.py", "def test_keep():\n    keep()\n")
    new_repo.commit_file("src/flask/app.py", APP.format("keep(connection)"), "Keep the connection open")
    new_repo.git("tag", "--annotate", "--message", "Release", "1.1")
    new_repo.git("tag", "blob", "HEAD:src/flask/app.py")
    new_repo.commit_file("discarded.py", "keep(connection)\n", "Keep the connection twice")
    build_index(new_repo, home)
    new_repo.git("tag", "discarded")
    new_repo.git("reset", "--hard", "--quiet", "HEAD~1")
    build_index(new_repo, home)
    return new_repo


def run_sql(repo: Repo, home: Path, statement: str) -> list[tuple[Any, ...]]:
    with open_sql(repo.path, home) as index:
        rows: list[tuple[Any, ...]] = index.connection.execute(statement).fetchall()
        return rows


def test_examples_are_complete() -> None:
    """The page has the six examples."""
    assert list(EXAMPLES) == [
        "Churn by directory",
        "Authors of a symbol",
        "BM25",
        "Nearest hunks",
        "Co-changed files",
        "Hunks by release",
    ]


def test_examples(repo: Repo, home: Path) -> None:
    """Each example of the page gives the rows that git would give."""
    results = {name: run_sql(repo, home, example) for name, example in EXAMPLES.items()}
    assert [row[:2] for row in results["Churn by directory"]] == [("tests", 2), ("src/flask", 2)]
    assert [row[:2] for row in results["Authors of a symbol"]] == [("Ada Lovelace", 2)]
    assert results["BM25"][0][2:] == ("src/flask/app.py", "Close the session")
    assert results["Nearest hunks"][0][2:] == ("src/flask/app.py", "Keep the connection open")
    assert results["Co-changed files"] == [("tests/test_app.py", 2)]
    assert results["Hunks by release"] == [("1.0", 1, 2), ("1.1", 1, 2)]


def test_views_leave_out_discarded_commits(repo: Repo, home: Path) -> None:
    """No view or macro has commits that HEAD does not reach; tags of other objects are not listed."""
    assert run_sql(repo, home, "SELECT count(*) FROM commits") == [(3,)]
    for rows in ("changes", "search_hunks('keep the connection', 9)", "similar_hunks(embed('keep'), 9)"):
        paths = "SELECT DISTINCT file_path FROM " + rows
        assert ("discarded.py",) not in run_sql(repo, home, paths)
        assert ("src/flask/app.py",) in run_sql(repo, home, paths)
    assert run_sql(repo, home, "SELECT name FROM tags ORDER BY name") == [("1.0",), ("1.1",), ("discarded",)]


def test_limits_of_macros(repo: Repo, home: Path) -> None:
    """The macros return at most `n` rows, best first, and 10 by default."""
    ranked = run_sql(repo, home, "SELECT score FROM search_hunks('close the session keep')")
    assert ranked == sorted(ranked, reverse=True) and len(ranked) == 4
    assert run_sql(repo, home, "SELECT score FROM search_hunks('close the session keep', 2)") == ranked[:2]
    assert len(run_sql(repo, home, "FROM similar_hunks(embed('keep'), 3)")) == 3


def test_similarity_is_that_of_the_vectors(repo: Repo, home: Path) -> None:
    """A text is as similar to itself as the 8-bit codes allow."""
    condition = "commit_date = (SELECT min(commit_date) FROM commits) AND file_path = 'src/flask/app.py'"
    text = f"(SELECT semantic_text FROM hunks JOIN commits USING (commit_sha) WHERE {condition})"
    statement = f"SELECT similarity, subject, file_path FROM similar_hunks(embed({text}), 1)"
    [(similarity, *change)] = run_sql(repo, home, statement)
    assert similarity == pytest.approx(1, abs=0.001)
    assert change == ["Close the session", "src/flask/app.py"]


def test_restricted_connection_is_not_reused(repo: Repo, home: Path) -> None:
    """After a statement of a user, the index can be opened again in the same process."""
    location = locate_index(home, open_repository(repo.path))
    for _ in range(2):
        run_sql(repo, home, "SELECT 1")
        with database.open_for_reading(location) as connection:
            assert database.fetch_int(connection, "SELECT count(*) FROM commits") == 3


def test_unknown_encoder(repo: Repo, home: Path) -> None:
    """`embed` fails with a hint for an index of an encoder that this version lacks; other statements work."""
    location = locate_index(home, open_repository(repo.path))
    with database.open_for_writing(location) as connection:
        connection.execute("UPDATE made_by SET version = 'other' WHERE component = 'embedding_model'")
    assert run_sql(repo, home, "SELECT count(*) FROM changes") == [(4,)]
    with pytest.raises(LineageError, match="built with the encoder other") as caught:
        run_sql(repo, home, "SELECT embed('text')")
    assert "lineage index --rebuild" in caught.value.hint
    assert not isinstance(caught.value, sql.SqlError)


def test_error_before_the_statement(repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the program's own statements is not reported as one of the user's statement."""
    monkeypatch.setattr(sql, "_CREATE_TAGS", "SELEC")
    with pytest.raises(duckdb.ParserException):
        run_sql(repo, home, "SELECT 1")


def test_internal_error_of_a_statement(repo: Repo, home: Path) -> None:
    """An internal error of DuckDB is the statement's, not damage of the index, which other statements can read."""
    # DuckDB 1.5 raises the error because external access is off.
    statement = "CALL enable_profiling(format = 'json', save_location = '/nowhere/profile.json'); SELECT 1"
    for _ in range(2):
        with pytest.raises(sql.SqlError, match="INTERNAL Error: ") as caught:
            run_sql(repo, home, statement)
        assert "\n" not in caught.value.message and "lineage doctor" in caught.value.hint
        assert run_sql(repo, home, "SELECT count(*) FROM changes") == [(4,)]
    assert not locate_index(home, open_repository(repo.path)).damage.exists()


@pytest.mark.parametrize("error_class", [duckdb.InternalException, duckdb.SerializationException])
def test_statement_that_quotes_a_message_about_damage(
    repo: Repo, home: Path, error_class: type[duckdb.Error]
) -> None:
    """An error that repeats words of the statement is no damage, and none is recorded."""
    with pytest.raises(sql.SqlError, match="Corrupt"), open_sql(repo.path, home):
        raise error_class("INTERNAL Error: Corrupt database file")
    assert run_sql(repo, home, "SELECT count(*) FROM changes") == [(4,)]


def test_damaged_block_in_a_statement(repo: Repo, home: Path) -> None:
    """DuckDB's message about a damaged block is reported as damage, and recorded."""
    message = "IO Error: Corrupt database file: computed checksum 1 does not match stored checksum 2"
    with pytest.raises(database.DamagedIndex, match="Corrupt database file"), open_sql(repo.path, home):
        raise duckdb.IOException(message)
    with pytest.raises(database.DamagedIndex, match="Corrupt database file"):
        run_sql(repo, home, "SELECT 1")


def test_lost_message(repo: Repo, home: Path) -> None:
    """If DuckDB reports another thread's interruption in place of the error, the statement runs again."""
    calls: list[int] = []

    def fail() -> None:
        calls.append(len(calls))
        with open_sql(repo.path, home):
            raise duckdb.InterruptException("INTERRUPT Error: Interrupted!")

    with pytest.raises(sql.LostMessageError, match="did not report why"):
        sql.retry_lost_message(fail)
    assert len(calls) == 1 + sql.MAX_RETRIES


def test_tag_that_is_not_utf8(repo: Repo, home: Path) -> None:
    """Bytes of a tag's name that are not UTF-8 are escaped."""
    repo.git("tag", "caf\udce9")
    assert ("caf\\xe9",) in run_sql(repo, home, "SELECT name FROM tags")


def test_interrupt_of_embed(repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while `embed` computes a vector ends the statement, and is no error of it."""

    def interrupt(_: str | None, __: str) -> list[float]:
        raise KeyboardInterrupt

    monkeypatch.setattr(repositories, "_encode", interrupt)
    with pytest.raises(KeyboardInterrupt), open_sql(repo.path, home) as index:
        index.connection.execute("SELECT embed(file_path) FROM hunks")


def test_embed_of_null(repo: Repo, home: Path) -> None:
    """`embed` of null is null."""
    assert run_sql(repo, home, "SELECT embed(NULL) IS NULL") == [(True,)]


def test_interrupt_stops_the_statement(repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends a running statement and closes the index, although the statement would run for hours."""
    started = threading.Event()

    def interrupt() -> None:
        started.wait(60)
        time.sleep(0.3)  # from the first statement to the second
        signal.raise_signal(signal.SIGINT)

    def mark_start(_: str | None, text: str) -> list[float]:
        started.set()
        row: list[float] = WordEncoder().encode([text])[0].tolist()
        return row

    monkeypatch.setattr(repositories, "_encode", mark_start)
    thread = threading.Thread(target=interrupt)
    thread.start()
    slow = "SELECT count(*) FROM range(1_000_000_000_000) WHERE hash(range) = 1"
    with (
        pytest.raises(RuntimeError, match="interrupted") as raised,
        open_sql(repo.path, home) as index,
    ):
        index.connection.execute(f"SELECT embed(file_path) FROM hunks; {slow}")
    thread.join()
    assert is_interrupt(raised.value)
    assert run_sql(repo, home, "SELECT 1") == [(1,)]
