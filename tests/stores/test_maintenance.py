"""A compact copy says the same as the original in less room, and takes its place in one step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from stores import database, duckdb_engine, index_location, maintenance, migrations, schema, writer
from stores.errors import Refused
from stores.index_location import Place
from tests.stores.batches import CURRENT, Document, batch, head, place_in
from tests.stores.processes import running

# What the engine says behind every error for lack of memory.
REMEDY = "Possible solutions: * Increasing the memory limit (SET memory_limit='...GB')"

COPY_BY_STEPS = """
from stores import maintenance
copied = maintenance._copy_table
def copy(connection, table):
    copied(connection, table)
    say(table)
    sys.stdin.readline()
maintenance._copy_table = copy
maintenance.compact(place)
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = place_in(tmp_path)
    for number in range(4):
        with database.writing(place) as connection:
            writer.begin_pass(connection, place, head="h" * 40, unreached=["u" * 40], components=CURRENT)
            documents = [Document(number * 30 + n, {"a": 1, f"w{n}": 2}, {"f": 1}) for n in range(30)]
            writer.replace_batch(connection, batch(documents))
    with database.writing(place) as connection:
        writer.replace_head(connection, head(["a.py", "b.py"], ["f", "g"]))
    return place


def content(connection: duckdb.DuckDBPyConnection) -> dict[str, list[Any]]:
    """Every row of every table, in an order that does not depend on where they lie."""
    tables = {name: connection.execute(f"FROM {name} ORDER BY ALL").fetchall() for name in schema.TABLES}
    mark = schema.REPOSITORY.get_field_index("clustered_hunks")
    tables["repository"] = [row[:mark] + row[mark + 1 :] for row in tables["repository"]]
    return tables


def read(place: Place) -> dict[str, list[Any]]:
    with database.reading(place) as connection:
        return content(connection)


def lying(place: Place) -> dict[str, list[Any]]:
    """Every row of the tables that keep their order, as they lie."""
    with database.reading(place) as connection:
        kept = [name for name in schema.TABLES if name != "repository" and not name.endswith("_postings")]
        return {name: connection.execute(f"FROM {name}").fetchall() for name in kept}


def clustered(place: Place) -> bool:
    """Whether all postings lie in the order of their words."""
    with database.reading(place) as connection:
        for table in ("hunk_postings", "symbol_postings", "head_postings"):
            rows = [row[:2] for row in connection.execute(f"FROM {table}").fetchall()]
            if rows != sorted(rows):
                return False
    return True


def test_copy_says_the_same(place: Place) -> None:
    """Compacting changes where rows lie, not what they say; postings lie clustered by word afterwards."""
    before = read(place), lying(place)
    maintenance.compact(place)
    assert (read(place), lying(place)) == before
    assert clustered(place)
    assert place.database.stat().st_mode & 0o777 == 0o600
    with database.reading(place) as connection:
        assert connection.execute("SELECT clustered_hunks FROM repository").fetchall() == [(120,)]
        [(free,)] = connection.execute(
            "SELECT free_blocks FROM pragma_database_size() WHERE database_name = 'ix'"
        ).fetchall()
        assert free == 0


def test_many_slices_say_the_same(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table is copied a part at a time: no row is lost, doubled or moved where parts meet."""
    documents = [Document(200 + n, {"a": 1, f"w{n % 90}": 2}, {"f": 1}) for n in range(600)]
    with database.writing(place) as connection:
        writer.replace_batch(connection, batch(documents))
        writer.replace_batch(connection, batch(documents[200:300]))
    monkeypatch.setattr(maintenance, "COPIED_ROWS", 100)
    monkeypatch.setattr(maintenance, "ORDERED_ROWS", 50)
    before = read(place), lying(place)
    with database.reading(place) as connection:
        parts = {table: len(list(maintenance._slices(connection, table))) for table in schema.TABLES}
    assert min(parts[table] for table in ("hunks", "vectors", "hunk_postings")) > 5
    maintenance.compact(place)
    assert (read(place), lying(place)) == before
    assert clustered(place)


@pytest.mark.parametrize(
    "error",
    [
        duckdb.OutOfMemoryException("could not allocate block of size 256.0 KiB"),
        duckdb.TransactionException(f"Failed to commit: failed to pin block of size 256.0 KiB {REMEDY}"),
        duckdb.IOException(f'Database "fresh" has been invalidated because checkpointing failed. {REMEDY}'),
    ],
)
def test_a_copy_that_runs_out_of_memory_begins_anew(
    place: Place, monkeypatch: pytest.MonkeyPatch, error: duckdb.Error
) -> None:
    """With more; of what the first had copied no row is lost, or there twice, and the next copy finds nothing of it."""
    given = failing(monkeypatch, error, tables=[9])
    before = read(place), lying(place)
    maintenance.compact(place)
    assert (read(place), lying(place)) == before
    assert given == given[:1] * 10 + given[-1:] * len(schema.TABLES)
    assert given[0] != given[-1]
    maintenance.compact(place)
    assert (read(place), lying(place)) == before


def test_tables_that_cannot_be_made_hide_no_error(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A draft that fails before its first row is taken away like any other, and what went wrong is told."""
    monkeypatch.setattr(migrations, "tables_sql", lambda: "CREATE TABLE half (a INTEGER); SELECT error('no')")
    with pytest.raises(duckdb.InvalidInputException, match="no"):
        maintenance.compact(place)
    assert not list(place.folder.glob(f"{maintenance.DRAFT}*"))


def test_memory_that_is_not_enough_is_said_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last limit's error is the copy's; the index stays as it was, and no draft stays."""
    failing(monkeypatch, duckdb.OutOfMemoryException("none left"), tables=[0, 1, 2])
    before = read(place), lying(place)
    with pytest.raises(duckdb.OutOfMemoryException):
        maintenance.compact(place)
    assert (read(place), lying(place)) == before
    assert not list(place.folder.glob(f"{maintenance.DRAFT}*"))


def test_a_full_disk_is_not_filled_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """What more memory does not mend is not tried with more, and what was written is deleted."""
    full = duckdb.TransactionException("Failed to commit: Could not write file: No space left on device")
    given = failing(monkeypatch, full, tables=[9])
    with pytest.raises(Refused, match=r"No space left on device: .*index\.duckdb"):
        maintenance.compact(place)
    assert len(given) == 10
    assert not list(place.folder.glob(f"{maintenance.DRAFT}*"))


def test_memory_really_runs_out(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of rows that do not fit into a limit the engine says what is taken for lack of memory."""
    with database.writing(place) as connection:
        writer.replace_batch(connection, batch([Document(200 + n, {"a": 1}) for n in range(1_000)]))
        diff = "array_to_string(list_transform(range(1000), i -> md5((i * hunk_id)::VARCHAR)), chr(10))"
        connection.execute(f"UPDATE hunks SET diff = {diff} WHERE hunk_id >= 200")
    before = read(place), lying(place)
    given = failing(monkeypatch)
    monkeypatch.setattr(duckdb_engine, "FRUGAL_LIMITS", ("16MB", "32MB", *duckdb_engine.FRUGAL_LIMITS))
    maintenance.compact(place)
    assert (read(place), lying(place)) == before
    assert len(set(given)) > 1 and len(given) > len(schema.TABLES)


def failing(
    patch: pytest.MonkeyPatch, error: duckdb.Error | None = None, tables: Sequence[int] = ()
) -> list[str]:
    """Have these of all copies of tables fail, counted from the first on; the limits they are made in, as they come."""
    given: list[str] = []
    copy = maintenance._copy_table

    def noted(connection: duckdb.DuckDBPyConnection, table: str) -> None:
        [(limit,)] = connection.execute("SELECT current_setting('memory_limit')").fetchall()
        given.append(limit)
        copy(connection, table)
        if error and len(given) - 1 in tables:
            raise error

    patch.setattr(maintenance, "_copy_table", noted)
    return given


def test_texts_nobody_has_are_left_behind(place: Place) -> None:
    """A vector whose commits were replaced does not come along."""
    with database.writing(place) as connection:
        writer.replace_batch(connection, writer.Batch(covered=batch([Document(0)]).covered))
        assert len(content(connection)["vectors"]) == 240
    maintenance.compact(place)
    assert len(read(place)["vectors"]) == 238


def test_batches_go_on_after_a_copy(place: Place) -> None:
    """A compact index takes further batches like any other."""
    maintenance.compact(place)
    with database.writing(place) as connection:
        writer.replace_batch(connection, batch([Document(120), Document(0)]))
    assert [len(read(place)[table]) for table in ("commits", "hunks")] == [121, 121]


def test_small_or_tidy_index_is_left_alone(place: Place) -> None:
    """Nothing is copied while there is little to gain; what is left to replay is checkpointed, though."""
    assert database.wal_size(place)
    inode = place.database.stat().st_ino
    assert not maintenance.tidy(place)
    assert place.database.stat().st_ino == inode
    assert not database.wal_size(place)


@pytest.mark.parametrize("limit", ["SHORTEST_TAIL_HUNKS", "MOST_FREE_BYTES"])
def test_worth_it(place: Place, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    """A long tail of unclustered words, or much free room, is reason enough; afterwards there is none."""
    with database.writing(place) as connection:
        connection.execute("CREATE TABLE filler AS SELECT random() AS number FROM range(500_000)")
        writer.replace_batch(connection, batch([Document(120)]))
        connection.execute("CHECKPOINT")
        connection.execute("DROP TABLE filler")
        connection.execute("CHECKPOINT")
    monkeypatch.setattr(maintenance, limit, 50)
    monkeypatch.setattr(maintenance, "MOST_FREE_SHARE", 0.01)
    assert maintenance.tidy(place)
    assert not maintenance.tidy(place)


def test_a_writer_that_came_between_wins(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a batch was committed while the copy was made, the copy is thrown away."""
    sync = index_location.sync

    def write_then_sync(draft: Path) -> None:
        with database.writing(place) as connection:
            writer.replace_batch(connection, batch([Document(1000)]))
        sync(draft)

    monkeypatch.setattr(index_location, "sync", write_then_sync)
    maintenance.compact(place)
    assert len(read(place)["commits"]) == 121
    assert not (place.folder / maintenance.DRAFT).exists()


@pytest.mark.parametrize("tables", [1, 7, len(schema.TABLES)])
def test_killed_copy_harms_nothing(place: Place, tables: int) -> None:
    """Killed after any table, a copy leaves the index whole, and the next run clears up."""
    before = read(place)
    with running(COPY_BY_STEPS, place.home) as process:
        assert process.stdout is not None and process.stdin is not None
        for table in range(tables):
            if table:
                process.stdin.write("on\n")
                process.stdin.flush()
            assert process.stdout.readline()
        process.kill()
    assert list(place.folder.glob(f"{maintenance.DRAFT}*"))
    assert read(place) == before
    maintenance.tidy(place)
    assert not list(place.folder.glob(f"{maintenance.DRAFT}*"))


def test_the_engine_is_left_as_it_was(place: Place) -> None:
    """A copy's calm settings are not what the next reader finds."""
    said = "SELECT current_setting('threads'), current_setting('memory_limit')"
    with database.reading(place) as connection:
        before = connection.execute(said).fetchall()
    maintenance.compact(place)
    with database.reading(place) as connection:
        assert connection.execute(said).fetchall() == before
