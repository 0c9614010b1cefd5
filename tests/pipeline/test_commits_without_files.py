"""Rows of commits that change no file themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from stores import database, history
from tests.pipeline.histories import create_interleaved_repo, get_location, run_index
from tests.repos import Repo


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return create_interleaved_repo(tmp_path / "repo", rounds=3)


def read_message_rows(repo: Repo, home: Path) -> list[tuple[object, ...]]:
    sql = """
    SELECT message, change_kind, content_kind, language, diff, semantic_text
    FROM hunks JOIN commits USING (commit_sha) WHERE file_path = '' ORDER BY message"""
    with database.open_for_reading(get_location(repo, home)) as connection:
        return connection.execute(sql).fetchall()


def test_commits_without_files_have_one_row(repo: Repo, tmp_path: Path) -> None:
    """An empty commit and each clean merge have one row, which is not counted as a hunk."""
    summary = run_index(repo, tmp_path)
    assert (summary.commits, summary.hunks) == (23, 19)
    assert read_message_rows(repo, tmp_path) == [
        *(
            (
                f"Bring in topic {number}",
                "merged",
                "message",
                None,
                f" topic{number}.py\n",
                f"Bring in topic {number}\nchange: merged\ntopic{number}.py",
            )
            for number in range(3)
        ),
        ("Nothing at all", "empty", "message", None, "", "Nothing at all\nchange: empty"),
    ]
    with database.open_for_reading(get_location(repo, tmp_path)) as connection:
        status = history.load_index_summary(connection)
    assert status and (status.commits, status.hunks) == (23, 19)


def test_merges_of_ignored_files_have_no_rows(tmp_path: Path) -> None:
    """A merge that brings only ignored files has no rows, but the watermark moves to it."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "a = 1\n", "First")
    repo.branch("side")
    repo.commit_file("package-lock.json", "{}", "Lock")
    repo.switch("main")
    repo.merge("side", message="Merge the lock")
    assert run_index(repo, tmp_path).indexed_commits == 1
    with database.open_for_reading(get_location(repo, tmp_path)) as connection:
        status = history.load_index_summary(connection)
    assert status and status.last_indexed_commit == status.completed_commit == repo.head
