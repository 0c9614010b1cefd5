"""`lineage sql`: formats, input, errors, restrictions and the prompt."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import duckdb
import pytest
from pyarrow import parquet

from pipeline.git.repository import open_repository
from serve.cli import sql
from serve.repositories import locate_index
from stores import database
from stores.duckdb_engine import SPILL_PREFIX
from tests.repos import Repo
from tests.serve import commands
from tests.serve.cli.terminals import CONTROL_C, ENTER, Terminal
from tests.serve.processes import run_on_terminal, start_lineage, use_default_signal_handler

CONTROL_D = "\x04"
ROWS = "SELECT * FROM (VALUES (1, 'a,b', NULL, [1, 2]), (2, 'ü\n', 0.5, [])) rows (n, text, share, list)"
SPILL_THEN_HANG = """
CREATE TEMP TABLE spilled AS SELECT hash(range) FROM range(4_000_000);
SELECT levenshtein(repeat('x', 300_000), repeat('y', 300_000))"""
RUN_IN_LITTLE_MEMORY = """
import sys
from serve.cli import app
from stores import duckdb_engine

duckdb_engine.MEMORY_LIMIT = "20MB"
sys.exit(app.main(sys.argv[1:]))"""
SLOW = "SELECT count(*) FROM range(1_000_000_000_000) WHERE hash(range) = 1"


@pytest.fixture(autouse=True)
def _home(shared_index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINEAGE_HOME", str(shared_index))


@pytest.fixture
def prompt(shared_repo: Repo, shared_index: Path) -> Iterator[Terminal]:
    """Return a prompt; the test ends it."""
    terminal = Terminal("sql", folder=shared_repo.path, LINEAGE_HOME=str(shared_index))
    terminal.wait_for("lineage>")
    yield terminal
    (shared_index / "sql_history").unlink(missing_ok=True)


def run_sql(repo: Repo, *arguments: str, stdin: str | None = None) -> tuple[int, str, str]:
    with pytest.MonkeyPatch.context() as patch:
        if stdin is not None:
            patch.setattr("sys.stdin", io.StringIO(stdin))
        return commands.run_captured("sql", repo.path, *arguments)


def test_table_on_a_terminal(shared_repo: Repo) -> None:
    """On a terminal, the rows are a table without control characters."""
    sql = "SELECT 'a\x1b[2J' AS name, 1.5 AS score, NULL AS nothing"
    output = run_on_terminal("sql", str(shared_repo.path), "-c", sql)
    cells = [line.split() for line in re.sub(r"\x1b\[\d*m", "", output).splitlines()]
    assert cells[0] == ["name", "score", "nothing"]
    assert cells[2] == ["a\N{SYMBOL FOR ESCAPE}[2J", "1.5", "NULL"]


def test_csv_on_a_terminal(shared_repo: Repo, capfd: pytest.CaptureFixture[str]) -> None:
    """On a terminal, neither the header nor the rows of CSV have control characters."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout.isatty", lambda: True)
        sql = "SELECT 'a\x1b[2J' AS \"b\x1b[2J\""
        assert commands.run_lineage("sql", shared_repo.path, "--format", "csv", "-c", sql) == 0
    assert capfd.readouterr().out == "b\N{SYMBOL FOR ESCAPE}[2J\na\N{SYMBOL FOR ESCAPE}[2J\n"


def test_long_table_is_cut(shared_repo: Repo) -> None:
    """A table ends after 200 rows, and a note says how to get all."""
    code, out, err = run_sql(shared_repo, "--format", "table", "-c", "FROM range(300)")
    assert (code, len(out.splitlines())) == (0, 202)
    assert err == "These are the first 200 rows; `--format csv` prints all.\n"


def test_table_when_piped(shared_repo: Repo) -> None:
    """Where there is no terminal, a long value of a table is complete."""
    statement = "SELECT unnest([repeat('x', 300), 'y']) AS x, 1 AS n"
    code, out, _ = run_sql(shared_repo, "--format", "table", "-c", statement)
    *_, long_line, short_line = out.splitlines()
    assert (code, long_line.split()) == (0, ["x" * 300, "1"])
    assert short_line.split() == ["y", "1"]
    assert len(short_line) < 200  # it is not as wide as the long value


def test_csv_when_piped(shared_repo: Repo) -> None:
    """When piped, the rows are CSV with a header: null is empty, and lists are JSON."""
    code, out, err = run_sql(shared_repo, "-c", ROWS)
    assert (code, err) == (0, "")
    assert list(csv.reader(io.StringIO(out))) == [
        ["n", "text", "share", "list"],
        ["1", "a,b", "", "[1, 2]"],
        ["2", "ü\n", "0.5", "[]"],
    ]


def test_many_rows(shared_repo: Repo) -> None:
    """All rows are printed, even if there are more than one fetch returns."""
    assert run_sql(shared_repo, "-c", "FROM range(2_500)")[1].split() == ["range", *map(str, range(2_500))]


def test_json(shared_repo: Repo) -> None:
    """JSON is an array of objects, also without rows; binary data is in hex, and numbers that JSON lacks are null."""
    sql = "SELECT 'ü' AS text, 'a'::BLOB AS data, 'nan'::FLOAT AS number, TIMESTAMP '2020-01-02 03:04:05' AS time"
    assert json.loads(run_sql(shared_repo, "--format", "json", "-c", sql)[1]) == [
        {"text": "ü", "data": "61", "number": None, "time": "2020-01-02T03:04:05"}
    ]
    assert json.loads(run_sql(shared_repo, "--format", "json", "-c", f"{sql} LIMIT 0")[1]) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("MAP {DATE '2020-01-01': 1}", {"2020-01-01": 1}),
        ("['nan'::DOUBLE, 1]", [None, 1]),
        ("{'a': ['inf'::FLOAT]}", {"a": [None]}),
        ("[1.5, 0.10]", [1.5, 0.1]),
        ("[12345678901234567890.5]", ["12345678901234567890.5"]),
    ],
)
def test_nested_values_are_json(shared_repo: Repo, value: str, expected: object) -> None:
    """Map keys are texts, numbers that JSON lacks are null, and decimals are numbers, at every depth, in CSV too."""
    sql = f"SELECT {value} AS x"
    assert json.loads(run_sql(shared_repo, "--format", "json", "-c", sql)[1]) == [{"x": expected}]
    [row] = csv.DictReader(run_sql(shared_repo, "--format", "csv", "-c", sql)[1].splitlines())
    assert json.loads(row["x"]) == expected


def test_json_with_two_columns_of_one_name(shared_repo: Repo, capfd: pytest.CaptureFixture[str]) -> None:
    """Two columns with the same name are an error, because a JSON object cannot have both values."""
    sql = "SELECT 1 AS a, 2 AS a"
    assert commands.run_lineage("sql", shared_repo.path, "--format", "json", "-c", sql) == 2
    assert "Two columns are called 'a'." in capfd.readouterr().err


def test_parquet(shared_repo: Repo, tmp_path: Path) -> None:
    """Parquet has the types of the columns."""
    file = tmp_path / "rows.parquet"
    with file.open("wb") as output:
        process = start_lineage(
            "sql", str(shared_repo.path), "--format", "parquet", "-c", "FROM hunks", stdout=output
        )
        process.communicate(timeout=60)
    assert process.returncode == 0
    table = parquet.read_table(file)
    assert table.num_rows == 2
    assert str(table.schema.field("word_count").type) == "int32"


def test_parquet_on_a_terminal(shared_repo: Repo, shared_index: Path) -> None:
    """Binary output is not printed on a terminal."""
    arguments = ("sql", "--format", "parquet", "-c", "SELECT 1")
    terminal = Terminal(*arguments, folder=shared_repo.path, LINEAGE_HOME=str(shared_index))
    terminal.wait_for("Parquet is binary")
    assert terminal.wait_for_exit() == 2


def test_statements_from_stdin(shared_repo: Repo) -> None:
    """Without -c, piped statements run, and the result of the last one is printed."""
    statements = "CREATE TEMP TABLE numbers AS FROM range(3);\nSELECT sum(range) AS total\nFROM numbers;\n"
    assert run_sql(shared_repo, stdin=statements) == (0, "total\n3\n", "")
    assert run_sql(shared_repo, stdin="SET VARIABLE threads = 1; -- nothing") == (0, "", "")
    assert run_sql(shared_repo, stdin='SELECT true AS "Success"') == (0, "Success\nTrue\n", "")


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_statement_that_is_not_utf8(shared_repo: Repo, locale: str) -> None:
    """A byte that is not UTF-8 is a usage error, both in an argument and in stdin, which is UTF-8 in any locale."""
    command = [sys.executable, "-m", "serve.cli.entry", "sql", str(shared_repo.path)]
    environment = {
        **os.environ,
        "PYTHONPATH": str(commands.ROOT),
        "LC_ALL": locale,
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
    }
    for arguments, stdin in (((b"-c", b"SELECT 'caf\xe9'"), b""), ((), b"SELECT 'caf\xe9'")):
        result = subprocess.run(
            [*command, *arguments], input=stdin, capture_output=True, env=environment, check=False
        )
        assert (result.returncode, result.stdout) == (2, b"")
        assert result.stderr == b"error: The SQL contains invalid text: '\\udce9'.\n  Pass valid UTF-8.\n"
    result = subprocess.run(
        command, input="SELECT 'é' AS e".encode(), capture_output=True, env=environment, check=True
    )
    assert result.stdout.decode() == "e\né\n"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELEC 1", "syntax error"),
        ("SELECT a FROM nowhere", "nowhere does not exist"),
        ("DELETE FROM commits", "read-only mode"),
        ("CREATE TABLE copied AS FROM commits", "read-only mode"),
        ("COPY commits TO 'commits.csv'", "disabled by configuration"),
        ("FROM read_text('/etc/hostname')", "disabled by configuration"),
        ("ATTACH 'other.duckdb'", "disabled by configuration"),
        ("INSTALL httpfs", "disabled by configuration"),
        ("FROM 'https://example.org/rows.csv'", "disabled by configuration"),
        ("SET enable_external_access = true", "`lineage sql` does not allow changes of DuckDB's settings."),
        ("SET threads = 1000000", "`lineage sql` does not allow changes of DuckDB's settings."),
        ("FROM sys", "sys does not exist"),
    ],
)
def test_refused_statement(
    shared_repo: Repo, capfd: pytest.CaptureFixture[str], statement: str, message: str
) -> None:
    """An invalid statement, a write, or access to files, network or Python gives one message and exit code 1."""
    code = commands.run_lineage("sql", shared_repo.path, "-c", statement)
    out, err = capfd.readouterr()
    assert (code, out) == (1, "")
    assert err.startswith("error: ") and message in err
    assert "Traceback" not in err


@pytest.mark.parametrize("output_format", ["csv", "json", "parquet"])
def test_error_after_the_first_rows(
    shared_repo: Repo, capfd: pytest.CaptureFixture[str], output_format: str
) -> None:
    """A statement that fails while its rows are written gives one message and exit code 1, in each format."""
    statement = "SELECT CASE WHEN range > 900_000 THEN error('late') END FROM range(1_000_000)"
    code = commands.run_lineage("sql", shared_repo.path, "--format", output_format, "-c", statement)
    out, err = capfd.readouterr()
    assert (code, out) == (1, "")
    assert err.startswith("error: ") and "Invalid Input Error: late" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("output_format", ["table", "csv", "json"])
def test_time_with_a_zone(
    shared_repo: Repo, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, output_format: str
) -> None:
    """A time with a time zone is printed in UTC, whatever the time zone of the machine."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    statement = "SELECT TIMESTAMPTZ '2026-02-03 04:05:06+01' AS t"
    arguments = ("sql", shared_repo.path, "--format", output_format, "-c", statement)
    assert commands.run_lineage(*arguments) == 0
    assert "2026-02-03T03:05:06+00:00" in capfd.readouterr().out


def test_interval_in_parquet(shared_repo: Repo, capfd: pytest.CaptureFixture[str]) -> None:
    """A column that Parquet cannot hold is an error that says what to do."""
    arguments = ("sql", shared_repo.path, "--format", "parquet", "-c", "SELECT INTERVAL 1 MONTH AS i")
    assert commands.run_lineage(*arguments) == 2
    out, err = capfd.readouterr()
    assert out == "" and err.startswith("error: Parquet cannot hold a column: ") and "Cast the column" in err


def test_lost_message(
    shared_repo: Repo, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement whose error DuckDB does not report runs again, and only the rows of the last run are printed."""
    write_rows = sql.WRITERS[sql.Format.CSV]
    failures = [duckdb.InterruptException("INTERRUPT Error: Interrupted!")]

    def write(names: Sequence[str], result: sql.Result, output: IO[bytes]) -> None:
        write_rows(names, result, output)
        if failures:
            raise failures.pop()

    monkeypatch.setitem(sql.WRITERS, sql.Format.CSV, write)
    assert commands.run_lineage("sql", shared_repo.path, "--format", "csv", "-c", "SELECT 1 AS n") == 0
    assert capfd.readouterr() == ("n\n1\n", "")


def test_closed_pipe(shared_repo: Repo) -> None:
    """The command ends silently when the reader of its output has enough."""
    process = start_lineage("sql", str(shared_repo.path), "-c", "FROM range(300_000)")
    assert process.stdout
    assert process.stdout.readline() == b"range\n"
    process.stdout.close()
    assert (process.communicate(timeout=60)[1], process.returncode) == (b"", 141)


def test_slow_reader_does_not_hold_the_index(shared_repo: Repo, shared_index: Path) -> None:
    """The index can be written to while a pager has not read the whole output."""
    process = start_lineage("sql", str(shared_repo.path), "-c", "FROM range(300_000)")
    assert process.stdout
    assert process.stdout.readline() == b"range\n"
    with database.open_for_writing(locate_index(shared_index, open_repository(shared_repo.path)), wait=5):
        assert process.poll() is None
    assert process.communicate(timeout=60)[0].endswith(b"299999\n")


def test_without_an_index(tmp_path: Path) -> None:
    """Without an index, the error names the command that creates an index."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "a = 1\n", "Add a")
    code, out, err = run_sql(repo, "-c", "SELECT 1")
    assert (code, out) == (1, "")
    assert "lineage index" in err


def test_extensions_are_loaded(shared_repo: Repo) -> None:
    """The functions of both extensions exist."""
    functions = (
        "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_name IN ('stem', 'vss_match')"
    )
    assert sorted(run_sql(shared_repo, "-c", functions)[1].split()) == ["function_name", "stem", "vss_match"]


def test_prompt(prompt: Terminal, shared_index: Path) -> None:
    """The prompt runs statements of several lines, reports errors and goes on, keeps a history and ends at Ctrl-D."""
    prompt.press(f"SELECT 40{ENTER}")
    prompt.wait_for("...>")
    prompt.press(f"+ 2 AS answer;{ENTER}")
    prompt.wait_for(" 42")
    prompt.press(f"SELEC;{ENTER}")
    prompt.wait_for("error: Parser Error")
    prompt.press(f"SELECT 'still ' || 'there';{ENTER}")
    prompt.wait_for("still there")
    prompt.wait_for_prompt("lineage>")
    prompt.press(CONTROL_D)
    assert prompt.wait_for_exit() == 0
    history = shared_index / "sql_history"
    assert "+ 2 AS answer;" in history.read_text(encoding="utf-8").splitlines()
    assert history.stat().st_mode & 0o777 == 0o600


def test_interrupt_at_the_prompt(prompt: Terminal) -> None:
    """Ctrl-C stops a running statement or discards an unfinished one; the prompt goes on."""
    prompt.press(f"{SLOW};{ENTER}")
    prompt.wait_for("= 1;")
    prompt.press(CONTROL_C)
    prompt.wait_for("interrupted\nlineage>")
    prompt.press(f"SELECT unfinished{ENTER}")
    prompt.wait_for_input("...>")
    prompt.press(CONTROL_C)
    prompt.wait_for("...>\nlineage>")
    prompt.press(f"SELECT 6 * 7 AS answer;{ENTER}")
    prompt.wait_for(" 42")
    prompt.press(f"exit{ENTER}")
    assert prompt.wait_for_exit() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_during_one_long_function(
    shared_repo: Repo, shared_index: Path, number: signal.Signals
) -> None:
    """A signal ends the command within seconds, also while DuckDB computes a value that takes minutes.

    The rows that DuckDB has written to temporary files are deleted.
    """
    folder = locate_index(shared_index, open_repository(shared_repo.path)).folder
    with use_default_signal_handler(number):
        process = subprocess.Popen(
            [sys.executable, "-c", RUN_IN_LITTLE_MEMORY, "sql", str(shared_repo.path), "-c", SPILL_THEN_HANG],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(commands.ROOT)},
        )
    with pytest.raises(subprocess.TimeoutExpired):
        process.communicate(timeout=5)
    assert list(folder.glob(f"{SPILL_PREFIX}*/*"))
    process.send_signal(number)
    assert process.communicate(timeout=20) == (b"", b"")
    assert process.returncode == 128 + number
    assert not list(folder.glob(f"{SPILL_PREFIX}*"))


def test_prompt_does_not_hold_the_index(prompt: Terminal, shared_repo: Repo, shared_index: Path) -> None:
    """Between statements the index can be written to."""
    prompt.press(f"SELECT 6 * 7 AS answer;{ENTER}")
    prompt.wait_for(" 42")
    location = locate_index(shared_index, open_repository(shared_repo.path))
    with database.open_for_writing(location, wait=5):
        pass
    prompt.wait_for_prompt("lineage>")
    prompt.press(CONTROL_D)
    assert prompt.wait_for_exit() == 0
