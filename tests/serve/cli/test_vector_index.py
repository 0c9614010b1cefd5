"""`lineage index --vector-index`: the HNSW index is written, kept by later runs, and deleted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stores.vector_search import HnswIndex
from tests.pipeline.histories import create_interleaved_repo, get_location
from tests.repos import Repo
from tests.serve.commands import read_output, run_index, run_lineage


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """Repository with 17 commits."""
    return create_interleaved_repo(tmp_path / "repo", rounds=1)


def test_queries_use_the_hnsw_index(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A query takes its candidates from the HNSW index, except with a filter, or after a run with `none`."""
    assert run_index(repo) == 0
    capsys.readouterr()
    query = ("query", str(repo.path), "-q", "greeter", "--json")
    expected = json.loads(read_output(capsys, *query))["hits"]
    assert run_index(repo, "--incremental", "--vector-index", "hnsw") == 0
    capsys.readouterr()
    calls = []
    find_candidates = HnswIndex.find_candidates

    def record(*arguments: object) -> object:
        calls.append(arguments)
        return find_candidates(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(HnswIndex, "find_candidates", record)
    assert json.loads(read_output(capsys, *query))["hits"] == expected
    call_count = len(calls)
    assert call_count == 2  # the first one reads the file
    read_output(capsys, *query, "--path", "*.py")
    assert len(calls) == call_count + 1  # only the one that reads the file
    assert run_index(repo, "--vector-index", "none") == 0
    assert not get_location(repo, home).hnsw.exists()
    capsys.readouterr()
    calls.clear()
    assert json.loads(read_output(capsys, *query))["hits"] == expected
    assert not calls


def test_later_runs_keep_the_hnsw_index(repo: Repo, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Later runs without the option, also with `--rebuild`, write a stale HNSW index again.

    `--profile` and `lineage doctor` show that queries use an HNSW index.
    """
    file = get_location(repo, home).hnsw
    assert run_index(repo, "--vector-index", "hnsw", "--profile") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["vector_index"] == "hnsw"
    inode = file.stat().st_ino
    for number in range(3):
        repo.commit_file(f"new{number}.py", f"x = {number}\n", f"Add number {number}")
    assert run_index(repo) == 0
    assert file.stat().st_ino != inode
    assert run_index(repo, "--rebuild", "--yes") == 0
    assert file.exists()
    capsys.readouterr()
    run_lineage("doctor", repo.path)
    assert "HNSW of " in capsys.readouterr().out


@pytest.mark.parametrize("state", ["missing", "damaged"])
def test_doctor_names_the_vector_index(
    repo: Repo, home: Path, state: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`lineage doctor` says that queries scan all vectors without a usable HNSW index."""
    assert run_index(repo) == 0
    if state == "damaged":
        get_location(repo, home).hnsw.write_bytes(b"no database")
    capsys.readouterr()
    code = run_lineage("doctor", repo.path)
    out = capsys.readouterr().out
    assert "queries scan all vectors" in out
    assert ("cannot be read" in out) == (state == "damaged"), code
