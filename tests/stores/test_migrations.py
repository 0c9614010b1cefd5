"""An index of an earlier schema is brought forward once, whole or not at all."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from pipeline.component_versions import components
from pipeline.encoders.cross_encoder import CROSS_ENCODER
from pipeline.git.repository import open_repository
from serve.api_types import FindRequest
from serve.index_status import of_path
from serve.repositories import place_of
from serve.search.find_pattern import find_pattern
from stores import compatibility, database, index_location, migrations
from stores.compatibility import Made, Status
from stores.database import NotIndexed
from stores.index_location import Place
from stores.migrations import MIGRATIONS, FailedMigration
from stores.schema import TABLES
from stores.types import SCHEMA_HISTORY, SCHEMA_VERSION
from tests.bench.indexes import fingerprint
from tests.pipeline.histories import index
from tests.repos import Repo
from tests.serve.sample_index import WordEncoder
from tests.stores import schema_1
from tests.stores.batches import place_in
from tests.stores.processes import finished, line, running

# Brings an index forward up to the record of it, says so, and waits to be killed.
HALFWAY = """
from stores import migrations
step = migrations.MIGRATIONS[2]
def halfway(connection):
    step(connection)
    say("changed")
    sys.stdin.read()
migrations.MIGRATIONS[2] = halfway
with database.writing(place): pass
"""


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return schema_1.history(tmp_path / "repo")


@pytest.fixture
def place(repo: Repo, tmp_path: Path) -> Place:
    found = place_of(tmp_path / "home", open_repository(repo.path))
    schema_1.make(found)
    return found


def test_every_version_has_a_migration() -> None:
    """Each schema version says what it changed, and each but the first has the step that leads to it."""
    numbers = list(range(1, SCHEMA_VERSION + 1))
    assert list(SCHEMA_HISTORY) == numbers
    assert list(MIGRATIONS) == numbers[1:]


def test_a_migrated_index_has_the_current_tables(place: Place, tmp_path: Path) -> None:
    """Whichever schema an index began with, its tables end the same, column by column, in their order."""
    with database.writing(place_in(tmp_path)) as connection:
        fresh = schema_1.tables(connection)
    with database.reading(place) as connection:
        assert schema_1.tables(connection) == fresh
        assert set(fresh) == set(TABLES)
        versions = connection.execute("SELECT version FROM migrations ORDER BY ALL").fetchall()
    assert versions == [(1,), (2,)]


def test_a_question_after_an_upgrade_is_answered(repo: Repo, place: Place) -> None:
    """Reading migrates: the index answers, fits this program but for its reranker, and is migrated once."""
    found = find_pattern(FindRequest("retry connection", 1), repo.path, place.home, encoder=WordEncoder)
    assert [hit.commit_sha for hit in found.hits] == [repo.head]
    assert found.meta.compatibility.status == "query_compatible_needs_refresh"
    before = place.database.stat().st_mtime_ns, database.fingerprint(place)
    verdict = str(of_path(repo.path, place.home)[1].verdict)
    assert f"(reranker_model none, now {CROSS_ENCODER}; run `lineage index --force`)" in verdict
    assert (place.database.stat().st_mtime_ns, database.fingerprint(place)) == before


def test_a_migrated_index_goes_on(repo: Repo, place: Place, tmp_path: Path) -> None:
    """What is indexed on top of an index of the first schema ends where a fresh index ends."""
    repo.commit_file("net.py", "def connect():\n    timeout(9)\n", "Wait longer")
    index(repo, place.home)
    index(repo, tmp_path / "fresh")
    assert fingerprint(repo.path, place.home) == fingerprint(repo.path, tmp_path / "fresh")


def test_what_made_the_rows_is_carried_over(place: Place) -> None:
    """Only components that made rows are noted: of the parsers those whose language is there."""
    with database.reading(place) as connection:
        recorded = compatibility.recorded(connection)
    made = {(one.part, one.component) for one in recorded.made if one.component.startswith("parser_")}
    assert made == {
        (part, f"parser_{name}") for part in ("history", "head") for name in ("python", "typescript")
    }
    assert recorded.vouched == replace(components("off"), reranker_model="none")


def test_never_written_metadata_is_unknown(repo: Repo, place: Place) -> None:
    """Rows whose versions nobody noted stay unknown after the migration, and no pass vouches for them."""
    change(place, "DELETE FROM metadata")
    verdict = of_path(repo.path, place.home)[1].verdict
    assert verdict and verdict.status is Status.UNKNOWN
    assert verdict.missing == compatibility.NAMES
    left = index(repo, place.home, force=True).verdict
    assert left.status is Status.UNKNOWN
    assert "chunker_version" not in left.missing and "semantic_text_version" in left.missing
    assert left.remedy == "lineage index --rebuild --yes"
    assert index(repo, place.home, rebuild=True).verdict.status is Status.COMPATIBLE


def test_an_interrupted_first_pass_of_then(repo: Repo, place: Place) -> None:
    """A pass of the first schema that never ended: unknown, until one ends that finds nothing of another version."""
    change(place, "UPDATE metadata SET complete = FALSE")
    verdict = of_path(repo.path, place.home)[1].verdict
    assert verdict and (verdict.status, verdict.remedy) == (Status.UNKNOWN, "lineage index")
    assert index(repo, place.home).verdict.status is Status.COMPATIBLE


def test_the_oldest_version_then_is_one_now(place: Place) -> None:
    """What the first schema said of a component is what its rows are of."""
    change(place, "UPDATE metadata SET version = '0' WHERE component = 'words_version'")
    with database.reading(place) as connection:
        recorded = compatibility.recorded(connection)
    assert {Made("history", "words_version", "0"), Made("head", "words_version", "0")} <= recorded.made
    assert compatibility.verdict(recorded, components()).status is Status.NEEDS_REFRESH


@pytest.mark.parametrize("opened", [database.reading, database.writing])
def test_a_failed_migration_changes_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch, opened: Callable[[Place], AbstractContextManager[object]]
) -> None:
    """A step that fails half way leaves the old index whole, and the error says what to do."""
    before = state(place)
    monkeypatch.setitem(MIGRATIONS, 2, fail_after(MIGRATIONS[2]))
    with pytest.raises(FailedMigration, match=r"as it was.*no room"), opened(place):
        pass
    assert state(place) == before
    monkeypatch.undo()
    with database.reading(place) as connection:
        assert migrations.applied(connection) == SCHEMA_VERSION


def test_a_killed_migration_changes_nothing(place: Place) -> None:
    """`kill -9` between the change and its record leaves the old index, which the next opening brings forward."""
    before = state(place)
    program = HALFWAY.replace("place)", "found)").replace(
        "step =",
        f"found = index_location.Place(Path({str(place.home)!r}), {place.repo_id!r}, place.path, None)\nstep =",
    )
    with running(program, place.home) as process:
        assert line(process) == "changed"
        process.send_signal(signal.SIGKILL)
        finished(process)
    assert state(place) == before
    with database.reading(place) as connection:
        assert migrations.applied(connection) == SCHEMA_VERSION


def test_a_folder_that_cannot_be_written_is_said(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the file can be read only, the question ends with the reason and not with a word of damage."""

    def refuse(_: Place) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(index_location, "claim", refuse)
    with pytest.raises(FailedMigration, match="Permission denied"), database.reading(place):
        pass


def test_without_tables_there_is_nothing_to_migrate(tmp_path: Path) -> None:
    """An empty file is no index, before and after."""
    place = place_in(tmp_path)
    index_location.claim(place)
    with duckdb.connect(str(place.database)):
        pass
    with pytest.raises(NotIndexed), database.reading(place):
        pass


def change(place: Place, sql: str) -> None:
    with duckdb.connect(str(place.database)) as connection:
        connection.execute(sql)


def state(place: Place) -> dict[str, object]:
    """The tables of the file and what it says of itself, read by somebody who migrates nothing."""
    with duckdb.connect(str(place.database), read_only=not place.wal.exists()) as connection:
        said = connection.execute("SELECT (SELECT max(version) FROM migrations), * FROM metadata").fetchall()
        return {"tables": schema_1.tables(connection), "said": said}


def fail_after(
    step: Callable[[duckdb.DuckDBPyConnection], None],
) -> Callable[[duckdb.DuckDBPyConnection], None]:
    def fails(connection: duckdb.DuckDBPyConnection) -> None:
        step(connection)
        raise duckdb.IOException("no room")

    return fails
