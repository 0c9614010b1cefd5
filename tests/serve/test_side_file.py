"""A large index from the outside: `lineage index` sees to its side file, and answers do not depend on it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stores import history, quantized_vectors
from tests.pipeline.histories import interleaved, place
from tests.repos import Repo
from tests.serve.commands import lineage


@pytest.fixture
def repo(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    assert not home.exists()
    monkeypatch.setattr(history, "MOST_KEPT_ROWS", 5)
    return interleaved(tmp_path / "repo", rounds=2)


def answer(
    repo: Repo, capsys: pytest.CaptureFixture[str], *filters: str, query: str = "write a function"
) -> str:
    capsys.readouterr()
    assert lineage("query", repo.path, "--query", query, "--no-rerank", "--json", *filters) == 0
    return capsys.readouterr().out


def test_answers_are_the_same(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the side file, without it, and with all vectors in memory: one answer, filtered or not."""
    assert lineage("index", repo.path) == 0
    file = place(repo, home).codes
    assert file.exists()
    asked: list[tuple[str, ...]] = [(), ("--path", "*.py"), ("--since", "2000-01-01"), ("--author", "nobody")]
    with_it = [answer(repo, capsys, *filters) for filters in asked]
    file.unlink()
    assert [answer(repo, capsys, *filters) for filters in asked] == with_it
    monkeypatch.setattr(history, "MOST_KEPT_ROWS", 1_000)
    assert [answer(repo, capsys, *filters) for filters in asked] == with_it


@pytest.mark.parametrize("flags", [["--incremental"], []])
@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_it_is_made_again_by_itself(
    repo: Repo, home: Path, capsys: pytest.CaptureFixture[str], flags: list[str], damage: str
) -> None:
    """Where it is missing or damaged, the next run makes it, also one that has nothing else to do."""
    assert lineage("index", repo.path) == 0
    file = place(repo, home).codes
    size = file.stat().st_size
    file.unlink() if damage == "missing" else os.truncate(file, size // 2)
    assert lineage("index", repo.path, *flags) == 0
    assert "indexed in" in capsys.readouterr().out
    assert file.stat().st_size == size
    assert lineage("index", repo.path, "--incremental") == 0
    assert "index up-to-date" in capsys.readouterr().out


@pytest.mark.parametrize("tail", [0.0, 1.0])
def test_new_commits_are_found(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tail: float
) -> None:
    """What is committed after the file was made is found, whether the file is made anew for it or not."""
    monkeypatch.setattr(quantized_vectors, "LONGEST_TAIL_SHARE", tail)
    assert lineage("index", repo.path) == 0
    inode = place(repo, home).codes.stat().st_ino
    repo.commit_file("zebra.py", "def zebra_crossing():\n    pass\n", "Let the zebra cross")
    assert lineage("index", repo.path, "--incremental") == 0
    assert (place(repo, home).codes.stat().st_ino == inode) == bool(tail)
    assert "Let the zebra cross" in answer(repo, capsys, query="the crossing of zebras")


def test_a_rebuild_begins_without_it(repo: Repo, home: Path) -> None:
    """`--rebuild` deletes it with the index and makes it anew."""
    assert lineage("index", repo.path) == 0
    place(repo, home).codes.write_bytes(b"of another time")
    assert lineage("index", repo.path, "--rebuild", "--yes") == 0
    assert place(repo, home).codes.stat().st_size > 1_000
