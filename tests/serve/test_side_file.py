"""Side file of a large index: `lineage index` maintains it, and answers do not depend on it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from stores import history, index_copy, locks, quantized_vectors
from stores.locks import Deadline
from tests.pipeline.histories import create_interleaved_repo, get_location
from tests.repos import Repo
from tests.serve.commands import run_lineage


@pytest.fixture
def repo(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    assert not home.exists()
    monkeypatch.setattr(history, "MAX_ROWS_IN_MEMORY", 5)
    return create_interleaved_repo(tmp_path / "repo", rounds=2)


def query_json(
    repo: Repo, capsys: pytest.CaptureFixture[str], *filters: str, query: str = "write a function"
) -> str:
    capsys.readouterr()
    assert run_lineage("query", repo.path, "--query", query, "--no-rerank", "--json", *filters) == 0
    return capsys.readouterr().out


def test_answers_do_not_depend_on_the_side_file(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Answers are the same with the side file, without it, and with all vectors in memory."""
    assert run_lineage("index", repo.path) == 0
    file = get_location(repo, home).quantized_vectors
    assert file.exists()
    filters_list: list[tuple[str, ...]] = [
        (),
        ("--path", "*.py"),
        ("--since", "2000-01-01"),
        ("--author", "nobody"),
    ]
    expected = [query_json(repo, capsys, *filters) for filters in filters_list]
    file.unlink()
    assert [query_json(repo, capsys, *filters) for filters in filters_list] == expected
    monkeypatch.setattr(history, "MAX_ROWS_IN_MEMORY", 1_000)
    assert [query_json(repo, capsys, *filters) for filters in filters_list] == expected


def test_answers_from_a_copy(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """While another process holds the index, a copy of it and the side file give the same hits."""
    assert run_lineage("index", repo.path) == 0
    expected = json.loads(query_json(repo, capsys))
    monkeypatch.setattr(index_copy, "COPY_AFTER_SECONDS", 0.1)
    folder = get_location(repo, home).folder
    with locks.acquire_index(folder, exclusive=True, deadline=Deadline.after(1)):
        answer = json.loads(query_json(repo, capsys))
    assert answer["hits"] == expected["hits"] != []
    assert "holds the index" in answer["meta"]["hint"]


@pytest.mark.parametrize("options", [["--incremental"], []])
@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_damaged_side_file_is_recreated(
    repo: Repo, home: Path, capsys: pytest.CaptureFixture[str], options: list[str], damage: str
) -> None:
    """The next index run recreates a missing or damaged side file, even without new commits."""
    assert run_lineage("index", repo.path) == 0
    file = get_location(repo, home).quantized_vectors
    size = file.stat().st_size
    file.unlink() if damage == "missing" else os.truncate(file, size // 2)
    assert run_lineage("index", repo.path, *options) == 0
    assert "indexed in" in capsys.readouterr().out
    assert file.stat().st_size == size
    assert run_lineage("index", repo.path, "--incremental") == 0
    assert "index up-to-date" in capsys.readouterr().out


@pytest.mark.parametrize("max_tail_share", [0.0, 1.0])
def test_new_commits_are_found(
    repo: Repo,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    max_tail_share: float,
) -> None:
    """Commits made after the side file are found, whether or not the file is written again."""
    monkeypatch.setattr(quantized_vectors, "MAX_TAIL_SHARE", max_tail_share)
    assert run_lineage("index", repo.path) == 0
    inode = get_location(repo, home).quantized_vectors.stat().st_ino
    repo.commit_file("zebra.py", "def zebra_crossing():\n    pass\n", "Let the zebra cross")
    assert run_lineage("index", repo.path, "--incremental") == 0
    assert (get_location(repo, home).quantized_vectors.stat().st_ino == inode) == bool(max_tail_share)
    assert "Let the zebra cross" in query_json(repo, capsys, query="the crossing of zebras")


def test_rebuild_recreates_the_side_file(repo: Repo, home: Path) -> None:
    """`--rebuild` deletes the side file with the index and creates a new one."""
    assert run_lineage("index", repo.path) == 0
    get_location(repo, home).quantized_vectors.write_bytes(b"outdated")
    assert run_lineage("index", repo.path, "--rebuild", "--yes") == 0
    assert get_location(repo, home).quantized_vectors.stat().st_size > 1_000
