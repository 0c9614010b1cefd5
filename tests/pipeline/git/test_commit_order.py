"""Corrected commit dates, read from git's commit-graph."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pipeline.git import commit_graph, commit_order
from pipeline.git.commit_order import compute_corrected_dates
from pipeline.git.repository import open_repository
from tests.repos import FIRST_DATE, Repo

WRONG_DATES = [datetime(1970, 1, 1, 5, tzinfo=UTC), datetime(2099, 1, 1, tzinfo=UTC)]


def create_history(path: Path) -> Repo:
    """Create a history with merges, equal dates, and one date in 1970 and in 2099 on different branches."""
    repo = Repo.create(path)
    for number in range(3):
        repo.commit(f"Commit {number}", date=FIRST_DATE)
    for number, date in enumerate(WRONG_DATES):
        repo.branch(f"side{number}", "HEAD~1")
        repo.commit(f"Wrong date {number}", date=date)
        repo.commit(f"Side {number}", date=FIRST_DATE + timedelta(days=number))
        repo.switch("main")
        repo.clock = FIRST_DATE + timedelta(days=10)
        repo.merge(f"side{number}")
    return repo


def read_dates(repo: Repo) -> dict[str, int]:
    """Return git's committer date of every commit, in seconds."""
    lines = repo.git("log", "--format=%H %ct").splitlines()
    return {sha: int(date) for sha, date in (line.split() for line in lines)}


def compute_by_definition(repo: Repo) -> dict[str, int]:
    """Compute the corrected dates from the parents of every commit."""
    dates = read_dates(repo)
    corrected: dict[str, int] = {}
    for line in repo.git("rev-list", "--topo-order", "--reverse", "--parents", "HEAD").splitlines():
        sha, *parents = line.split()
        corrected[sha] = max([dates[sha], *(corrected[parent] + 1 for parent in parents)])
    return corrected


def write_graph(repo: Repo, graph_dir: Path) -> None:
    commit_graph.refresh(open_repository(repo.path), graph_dir)


def compute(repo: Repo, graph_dir: Path, dates: dict[str, int] | None = None) -> dict[str, int] | None:
    return compute_corrected_dates(open_repository(repo.path), graph_dir, dates or read_dates(repo))


def test_dates_of_the_graph(tmp_path: Path) -> None:
    """Dates are as defined, also where they differ from the committer date by more than 68 years."""
    repo = create_history(tmp_path / "repo")
    write_graph(repo, tmp_path / "graph")
    corrected = compute(repo, tmp_path / "graph")
    assert corrected == compute_by_definition(repo)
    assert max(corrected[sha] - date for sha, date in read_dates(repo).items()) > 2**31


def test_commits_after_the_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits that the graph lacks are read from the repository; too many of them give no answer."""
    repo = create_history(tmp_path / "repo")
    write_graph(repo, tmp_path / "graph")
    repo.commit("Later", date=WRONG_DATES[0])
    repo.branch("side")
    repo.commit("Side", date=FIRST_DATE)
    repo.switch("main")
    repo.merge("side")
    assert compute(repo, tmp_path / "graph") == compute_by_definition(repo)
    monkeypatch.setattr(commit_order, "MAX_MISSING_COMMITS", 3)
    assert compute(repo, tmp_path / "graph") == compute_by_definition(repo)
    monkeypatch.setattr(commit_order, "MAX_MISSING_COMMITS", 2)
    assert compute(repo, tmp_path / "graph") is None


def test_without_a_graph(tmp_path: Path) -> None:
    """Without a graph, or if it has no corrected dates, there is no answer."""
    repo = create_history(tmp_path / "repo")
    assert compute(repo, tmp_path / "graph") is None
    repo.git("config", "commitGraph.generationVersion", "1")
    write_graph(repo, tmp_path / "graph")
    assert (tmp_path / "graph" / "info" / "commit-graph").exists()
    assert compute(repo, tmp_path / "graph") is None


@pytest.mark.parametrize("content", [b"", b"nonsense", b"CGPH" + b"\xff" * 3_000])
def test_damaged_graph(tmp_path: Path, content: bytes) -> None:
    """A damaged graph gives no answer, whatever it contains."""
    repo = create_history(tmp_path / "repo")
    graph_file = tmp_path / "graph" / "info" / "commit-graph"
    graph_file.parent.mkdir(parents=True)
    graph_file.write_bytes(content)
    assert compute(repo, tmp_path / "graph") is None


def test_truncated_graph(tmp_path: Path) -> None:
    """A graph that ends anywhere gives the right dates or no answer."""
    repo = create_history(tmp_path / "repo")
    write_graph(repo, tmp_path / "graph")
    graph_file = tmp_path / "graph" / "info" / "commit-graph"
    content, expected = graph_file.read_bytes(), compute_by_definition(repo)
    answers = []
    graph_file.chmod(0o600)
    for size in range(0, len(content), 3):
        graph_file.write_bytes(content[:size])
        answers.append(compute(repo, tmp_path / "graph"))
    assert None in answers and expected in answers
    assert [answer for answer in answers if answer not in (None, expected)] == []


def test_date_that_the_graph_cannot_store(tmp_path: Path) -> None:
    """The graph stores 34 bits of a date. For a later one there is no answer."""
    repo = create_history(tmp_path / "repo")
    header = f"tree {repo.git('write-tree')}\nparent {repo.head}\nauthor A <a> 0 +0000"
    commit = f"{header}\ncommitter A <a> {2**34} +0000\n\n"
    sha = repo.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=commit.encode())
    repo.git("update-ref", "HEAD", sha)
    write_graph(repo, tmp_path / "graph")
    dates = read_dates(repo)
    assert compute(repo, tmp_path / "graph", dates) is None
    del dates[repo.head]
    assert compute(repo, tmp_path / "graph", dates) is not None
