"""Index runs with an index of schema 2, in which commits without hunks had no row in `hunks`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline import write
from pipeline.git.repository import open_repository
from stores import database, history, migrations
from stores.migrations import SCHEMA_VERSION
from tests.bench.indexes import compute_fingerprint
from tests.pipeline.histories import create_interleaved_repo, get_location, run_index, turn_into_schema_2
from tests.repos import Repo

# Number of commits of the repository without hunks: three merges and an empty commit.
COMMITS_WITHOUT_HUNKS = 4


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return create_interleaved_repo(tmp_path / "repo", rounds=3)


@pytest.mark.parametrize("has_new_commit", [True, False])
def test_index_of_schema_2_gets_the_rows(repo: Repo, tmp_path: Path, *, has_new_commit: bool) -> None:
    """A run reads new commits, and of the old ones only those without hunks. The rows equal those of a new index."""
    run_index(repo, tmp_path / "old")
    turn_into_schema_2(repo, tmp_path / "old")
    if has_new_commit:
        repo.commit_file("main.py", "def turn():\n    return 99\n", "Turn once more")
    assert run_index(repo, tmp_path / "old").commits == COMMITS_WITHOUT_HUNKS + has_new_commit
    run_index(repo, tmp_path / "new")
    assert compute_fingerprint(repo.path, tmp_path / "old") == compute_fingerprint(
        repo.path, tmp_path / "new"
    )
    assert run_index(repo, tmp_path / "old").commits == 0


def test_interrupted_run_continues(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the run is interrupted, the watermark stays at HEAD, and the next run reads the remaining commits."""
    run_index(repo, tmp_path)
    turn_into_schema_2(repo, tmp_path)
    write_batch = write.write_batch

    def write_one_batch(*arguments: Any, **options: Any) -> None:
        write_batch(*arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(write, "write_batch", write_one_batch)
    with pytest.raises(KeyboardInterrupt):
        run_index(repo, tmp_path, commit_batch=1)
    monkeypatch.undo()
    with database.open_for_reading(get_location(repo, tmp_path)) as connection:
        status = history.load_index_summary(connection)
    assert status and (status.last_indexed_commit, status.completed_commit) == (repo.head, None)
    assert run_index(repo, tmp_path).commits == COMMITS_WITHOUT_HUNKS - 1


def test_pruned_commits_are_not_read_again(tmp_path: Path) -> None:
    """A commit without hunks that git has deleted stays recorded, and is not reported as unreadable."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "a = 1\n", "First")
    gone = repo.commit("Nothing")
    run_index(repo, tmp_path)
    turn_into_schema_2(repo, tmp_path)
    repo.git("reset", "--quiet", "--hard", "HEAD~1")
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "--quiet", "--prune=now")
    assert not open_repository(repo.path).contains(gone)
    summary = run_index(repo, tmp_path)
    assert (summary.commits, summary.unreadable_commits) == (0, ())


def test_migration_keeps_a_complete_index(tmp_path: Path) -> None:
    """An index in which every commit has hunks needs no run after the migration."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "a = 1\n", "First")
    run_index(repo, tmp_path)
    turn_into_schema_2(repo, tmp_path)
    with database.open_for_reading(get_location(repo, tmp_path)) as connection:
        assert migrations.read_schema_version(connection) == SCHEMA_VERSION
        status = history.load_index_summary(connection)
    assert status and status.completed_commit == repo.head
