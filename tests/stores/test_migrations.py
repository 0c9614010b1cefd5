"""Migrations of indexes with an older schema."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from pipeline.component_versions import get_component_versions
from pipeline.encoders.cross_encoder import CROSS_ENCODER
from pipeline.git.repository import open_repository
from serve.find_types import FindRequest
from serve.index_status import load_status_at_path
from serve.repositories import locate_index
from serve.search.find_pattern import find_pattern
from stores import compatibility, database, index_location, migrations
from stores.compatibility import CompatibilityStatus, RowVersion
from stores.database import NotIndexed
from stores.index_location import IndexLocation
from stores.migrations import MIGRATIONS, SCHEMA_HISTORY, SCHEMA_VERSION, MigrationFailed
from stores.schema import TABLES
from stores.vectors import quantize_table
from tests.bench.indexes import compute_fingerprint
from tests.pipeline.histories import run_index
from tests.repos import Repo
from tests.serve.sample_index import WordEncoder
from tests.stores import schema_1
from tests.stores.batches import make_location
from tests.stores.processes import read_line, run_script, wait_for_exit

# Script that runs a migration, and waits before it is recorded and committed.
MIGRATE_AND_WAIT = """
from stores import migrations
migrate = migrations.MIGRATIONS[2]
def migrate_and_wait(connection):
    migrate(connection)
    print("migrated")
    sys.stdin.read()
migrations.MIGRATIONS[2] = migrate_and_wait
location = index_location.IndexLocation(location.home, "{repo_id}", location.path, None)
with database.open_for_writing(location): pass
"""


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return schema_1.create_repo(tmp_path / "repo")


@pytest.fixture
def location(repo: Repo, tmp_path: Path) -> IndexLocation:
    new_location = locate_index(tmp_path / "home", open_repository(repo.path))
    schema_1.create_index(new_location)
    return new_location


def test_every_version_has_a_migration() -> None:
    """Every schema version has a description, and every one but the first has a migration."""
    assert list(SCHEMA_HISTORY) == [1, *MIGRATIONS]
    assert max(SCHEMA_HISTORY) == SCHEMA_VERSION


def test_migrated_tables_are_current(location: IndexLocation, tmp_path: Path) -> None:
    """A migrated index has the same tables, views and macros as a new one, with the same columns."""
    with database.open_for_writing(make_location(tmp_path)) as connection:
        new_tables = schema_1.describe_tables(connection)
        full_text = schema_1.describe_full_text(connection)
    assert len(full_text) == 15
    with database.open_for_reading(location) as connection:
        assert schema_1.describe_tables(connection) == new_tables
        assert schema_1.describe_full_text(connection) == full_text
        assert set(new_tables) == set(TABLES)
        versions = connection.execute("SELECT version FROM migrations ORDER BY ALL").fetchall()
    assert versions == [(version,) for version in SCHEMA_HISTORY]


def test_query_after_an_upgrade(repo: Repo, location: IndexLocation) -> None:
    """A query migrates the index, once; only the reranker needs a refresh then."""
    answer = find_pattern(
        FindRequest("retry connection", 1), repo.path, location.home, load_encoder=WordEncoder
    )
    assert [hit.commit_sha for hit in answer.hits] == [repo.head]
    assert answer.meta.compatibility.status == "query_compatible_needs_refresh"
    before = location.database.stat().st_mtime_ns, database.compute_fingerprint(location)
    verdict = str(load_status_at_path(repo.path, location.home)[1].verdict)
    assert f"(reranker_model none, now {CROSS_ENCODER}; run `lineage index --force`)" in verdict
    assert (location.database.stat().st_mtime_ns, database.compute_fingerprint(location)) == before


def test_index_run_after_migration(repo: Repo, location: IndexLocation, tmp_path: Path) -> None:
    """An index run on a migrated index gives the same content as a new index."""
    repo.commit_file("net.py", "def connect():\n    timeout(9)\n", "Wait longer")
    run_index(repo, location.home)
    run_index(repo, tmp_path / "fresh")
    assert compute_fingerprint(repo.path, location.home) == compute_fingerprint(repo.path, tmp_path / "fresh")


def test_vectors_are_converted(location: IndexLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors stored as floats become codes, the same as those of new vectors, also in several steps."""
    with duckdb.connect(str(location.database)) as connection:
        embeddings = connection.execute("FROM vectors ORDER BY text_digest").to_arrow_table()
    assert embeddings.num_rows == 6
    monkeypatch.setattr(migrations, "_CONVERTED_ROWS", 4)
    with database.open_for_reading(location) as connection:
        vectors = connection.execute("FROM vectors ORDER BY text_digest").to_arrow_table()
    assert vectors.to_pylist() == quantize_table(embeddings).to_pylist()


def test_words_find_migrated_hunks(location: IndexLocation) -> None:
    """The full-text index of a migrated index has the hunks that were written before the migration."""
    score = "fts_main_hunks.match_bm25(hunk_id, 'retrying connections')"
    sql = (
        f"SELECT message FROM hunks JOIN commits USING (commit_sha) ORDER BY {score} DESC NULLS LAST LIMIT 1"
    )
    with database.open_for_reading(location) as connection:
        assert "etry" in connection.execute(sql).fetchall()[0][0]


def test_row_versions_are_migrated(location: IndexLocation) -> None:
    """Versions are recorded only for components with rows: of the parsers, those of languages in the index."""
    with database.open_for_reading(location) as connection:
        recorded = compatibility.load_recorded_versions(connection)
    parsers = {
        (row.part, row.component) for row in recorded.row_versions if row.component.startswith("parser_")
    }
    assert parsers == {
        (part, f"parser_{name}") for part in ("history", "head") for name in ("python", "typescript")
    }
    assert recorded.confirmed == replace(get_component_versions("off"), reranker_model="none")


def test_missing_metadata_is_unknown(repo: Repo, location: IndexLocation) -> None:
    """Rows without recorded versions stay unknown after the migration and every run except a rebuild."""
    execute(location, "DELETE FROM metadata")
    verdict = load_status_at_path(repo.path, location.home)[1].verdict
    assert verdict and verdict.status is CompatibilityStatus.UNKNOWN
    assert verdict.missing == compatibility.COMPONENT_NAMES
    verdict_after_force = run_index(repo, location.home, force=True).verdict
    assert verdict_after_force.status is CompatibilityStatus.UNKNOWN
    assert (
        "chunker_version" not in verdict_after_force.missing
        and "semantic_text_version" in verdict_after_force.missing
    )
    assert verdict_after_force.remedy == "lineage index --rebuild --yes"
    assert run_index(repo, location.home, rebuild=True).verdict.status is CompatibilityStatus.COMPATIBLE


def test_unfinished_first_run_is_migrated(repo: Repo, location: IndexLocation) -> None:
    """After an unfinished first run with schema 1 the status is unknown until a run finishes."""
    execute(location, "UPDATE metadata SET complete = FALSE")
    verdict = load_status_at_path(repo.path, location.home)[1].verdict
    assert verdict and (verdict.status, verdict.remedy) == (CompatibilityStatus.UNKNOWN, "lineage index")
    assert run_index(repo, location.home).verdict.status is CompatibilityStatus.COMPATIBLE


def test_old_component_version_is_migrated(location: IndexLocation) -> None:
    """The version that schema 1 recorded for a component becomes the version of its rows."""
    execute(location, "UPDATE metadata SET version = '0' WHERE component = 'words_version'")
    with database.open_for_reading(location) as connection:
        recorded = compatibility.load_recorded_versions(connection)
    assert {
        RowVersion("history", "words_version", "0"),
        RowVersion("head", "words_version", "0"),
    } <= recorded.row_versions
    assert (
        compatibility.check_compatibility(recorded, get_component_versions()).status
        is CompatibilityStatus.NEEDS_REFRESH
    )


@pytest.mark.parametrize("open_index", [database.open_for_reading, database.open_for_writing])
def test_failed_migration_changes_nothing(
    location: IndexLocation,
    monkeypatch: pytest.MonkeyPatch,
    open_index: Callable[[IndexLocation], AbstractContextManager[object]],
) -> None:
    """A failed migration leaves the index unchanged, and the next opening migrates it."""
    before = read_state(location)
    monkeypatch.setitem(MIGRATIONS, 2, make_failing_migration(MIGRATIONS[2]))
    with pytest.raises(MigrationFailed, match=r"no room"), open_index(location):
        pass
    assert read_state(location) == before
    monkeypatch.undo()
    with database.open_for_reading(location) as connection:
        assert migrations.read_schema_version(connection) == SCHEMA_VERSION


def test_killed_migration_changes_nothing(location: IndexLocation) -> None:
    """`kill -9` before the commit leaves the index unchanged, and the next opening migrates it."""
    before = read_state(location)
    script = MIGRATE_AND_WAIT.replace("{repo_id}", location.repo_id)
    with run_script(script, location.home) as process:
        assert read_line(process) == "migrated"
        process.send_signal(signal.SIGKILL)
        wait_for_exit(process)
    assert read_state(location) == before
    with database.open_for_reading(location) as connection:
        assert migrations.read_schema_version(connection) == SCHEMA_VERSION


def test_migration_in_read_only_directory(location: IndexLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a read-only directory the error gives the reason, and does not report damage."""

    def refuse(_: IndexLocation) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(index_location, "create_index_directory", refuse)
    with pytest.raises(MigrationFailed, match="Permission denied"), database.open_for_reading(location):
        pass


def test_empty_database_is_not_indexed(tmp_path: Path) -> None:
    """A database without tables is no index, and is not migrated."""
    location = make_location(tmp_path)
    index_location.create_index_directory(location)
    with duckdb.connect(str(location.database)):
        pass
    with pytest.raises(NotIndexed), database.open_for_reading(location):
        pass


def execute(location: IndexLocation, sql: str) -> None:
    with duckdb.connect(str(location.database)) as connection:
        connection.execute(sql)


def read_state(location: IndexLocation) -> dict[str, object]:
    """Return the columns of all tables, the schema version and the metadata, without migrating."""
    with duckdb.connect(str(location.database), read_only=not location.wal.exists()) as connection:
        metadata = connection.execute(
            "SELECT (SELECT max(version) FROM migrations), * FROM metadata"
        ).fetchall()
        return {"tables": schema_1.describe_tables(connection), "metadata": metadata}


def make_failing_migration(
    migrate: Callable[[duckdb.DuckDBPyConnection], None],
) -> Callable[[duckdb.DuckDBPyConnection], None]:
    def migrate_and_fail(connection: duckdb.DuckDBPyConnection) -> None:
        migrate(connection)
        raise duckdb.IOException("no room")

    return migrate_and_fail
