"""Write transactions that are interrupted between two statements: by an error, by Ctrl-C, by kill -9."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from stores import database, migrations, writer
from stores.writer import Batch, RefreshedRows
from tests.stores.batches import (
    CURRENT_VERSIONS,
    SampleCommit,
    make_batch,
    make_head_change,
    make_location,
    make_sha,
)
from tests.stores.processes import read_line, run_script, wait_for_exit

Write = Callable[[Any], object]


class InterruptedConnection:
    """Connection that calls a function instead of executing the statement at a position, counted from 1."""

    def __init__(self, connection: Any, position: int, interrupt: Callable[[], object]) -> None:
        self.connection = connection
        self.position = position
        self.interrupt = interrupt
        self.executed = 0

    def execute(self, *arguments: Any) -> Any:
        """Execute a statement, or interrupt at its position."""
        self.executed += 1
        if self.executed == self.position:
            self.interrupt()
        return self.connection.execute(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)


def first_batch() -> Batch:
    return make_batch([SampleCommit(number, {"old": 1, "shared": 1}, {"name": 1}) for number in range(3)])


def second_batch() -> Batch:
    """A batch that replaces a commit of the first one and adds others, with new terms."""
    return make_batch([SampleCommit(number, {"new": 2, "shared": 1}, {"other": 1}) for number in range(2, 6)])


def write_second_batch(connection: Any) -> object:
    return writer.replace_batch(connection, second_batch())


def write_head(connection: Any) -> object:
    return writer.replace_head(connection, make_head_change(["a.py", "c.py"], ["Second", "Third"]))


def refresh_first_batch(connection: Any) -> object:
    rows = make_batch([SampleCommit(number, {"new": 2}, {"other": 1}) for number in range(3)])
    return writer.refresh_rows(
        connection,
        RefreshedRows(
            hunks=rows.hunks,
            hunk_symbols=rows.hunk_symbols,
            hunk_terms=rows.hunk_terms,
            symbol_terms=rows.symbol_terms,
        ),
    )


def end_run(connection: Any) -> object:
    return writer.record_run_end(
        connection, make_sha(9), CURRENT_VERSIONS, is_head_rebuilt=True, is_complete=True, branch_tips=()
    )


def read_tables(connection: duckdb.DuckDBPyConnection) -> dict[str, list[Any]]:
    """Return all rows of all tables, without the times of writing."""
    names = connection.execute(
        "SELECT table_name FROM duckdb_tables() WHERE NOT temporary ORDER BY 1"
    ).fetchall()
    tables = {name: connection.execute(f"FROM {name} ORDER BY ALL").fetchall() for (name,) in names}
    tables["repository"] = connection.execute("SELECT * EXCLUDE (indexed_at) FROM repository").fetchall()
    return tables


def create_index(connection: Any) -> None:
    """Fill an index with a first batch and a HEAD snapshot."""
    connection.execute("INSERT INTO repository VALUES ('id', '/path', NULL, NULL, NULL, NULL, 0, NULL)")
    writer.replace_batch(connection, first_batch())
    writer.replace_head(connection, make_head_change(["a.py", "b.py"], ["First"]))


@pytest.mark.parametrize("write", [write_second_batch, write_head, refresh_first_batch, end_run])
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_interrupted_transaction_changes_nothing(write: Write, error: type[BaseException]) -> None:
    """An error or Ctrl-C before any statement of a transaction leaves every table as it was, and it can be repeated."""

    def interrupt() -> None:
        raise error

    with duckdb.connect() as connection:
        migrations.migrate(connection)
        create_index(connection)
        before = read_tables(connection)
        position = 1
        while True:
            interrupted = InterruptedConnection(connection, position, interrupt)
            try:
                write(interrupted)
            except error:
                assert read_tables(connection) == before, f"before statement {position}"
                position += 1
            else:
                break
        assert position > 5
        assert read_tables(connection) != before


# Writes the batch in a fork of the process for each position on stdin, and prints the exit code of the fork.
KILL_SCRIPT = """
import os, signal
from tests.stores.test_transactions import InterruptedConnection, write_second_batch
kill = lambda: os.kill(os.getpid(), signal.SIGKILL)
for position in iter(sys.stdin.readline, ""):
    pid = os.fork()
    if not pid:
        with database.open_for_writing(location) as connection:
            write_second_batch(InterruptedConnection(connection, int(position), kill))
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_killed_transaction_changes_nothing(tmp_path: Path) -> None:
    """kill -9 before any statement of a batch leaves the index, its watermark included, as the batch before left it."""
    location = make_location(tmp_path)
    with database.open_for_writing(location) as connection:
        create_index(connection)
        before = read_tables(connection)
    position, exit_code = 1, -signal.SIGKILL
    with run_script(KILL_SCRIPT, tmp_path) as process:
        while exit_code == -signal.SIGKILL:
            assert process.stdin is not None
            process.stdin.write(f"{position}\n")
            process.stdin.flush()
            exit_code = int(read_line(process))
            assert exit_code in {0, -signal.SIGKILL}, wait_for_exit(process)
            with database.open_for_reading(location) as connection:
                after = read_tables(connection)
            assert (after == before) is (exit_code != 0), f"before statement {position}"
            position += 2
    assert position > 10
