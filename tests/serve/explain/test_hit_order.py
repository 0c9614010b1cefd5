"""Order of hits and related commits: newest first, but never a commit before its descendant."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pipeline.git import commit_graph
from pipeline.git.commit_graph import create_git_program
from pipeline.git.repository import open_repository
from serve.evidence import EvidenceLoader
from serve.explain_types import ExplainAnswer
from serve.repositories import locate_index
from tests.repos import FIRST_DATE, Repo
from tests.serve.explain.helpers import create_five_line_repo, explain, list_hit_commits, list_line_commits
from tests.serve.sample_index import build_index

WRONG_DATES = {
    "skewed": FIRST_DATE - timedelta(hours=30),
    "1970": datetime(1970, 1, 1, tzinfo=UTC),
    "2099": datetime(2099, 1, 1, tzinfo=UTC),
}


@pytest.mark.parametrize("wrong_date", WRONG_DATES.values(), ids=WRONG_DATES)
@pytest.mark.parametrize("position", [1, 2, 3])
@pytest.mark.parametrize("is_indexed", [False, True])
def test_order_follows_the_graph_where_a_date_is_wrong(
    tmp_path: Path, home: Path, wrong_date: datetime, position: int, is_indexed: bool
) -> None:
    """A commit whose date is wrong stays between its child and its parent, in hits and in related commits."""
    repo = Repo.create(tmp_path / "repo")
    for number in range(1, 5):
        repo.write("a.py", "".join(f"line {n}\n" for n in range(1, number + 1)))
        date = FIRST_DATE + timedelta(days=number)
        repo.commit(f"Commit {number}", date=wrong_date if number == position else date)
    if is_indexed:
        build_index(repo, home)
        repository = open_repository(repo.path)
        commit_graph.refresh(repository, locate_index(home, repository).git_directory)
    answer = explain(repo, home, "a.py", include_related=True)
    assert list_hit_commits(answer) == repo.git("rev-list", "--topo-order", "HEAD").split()
    if is_indexed:
        answer = explain(repo, home, "a.py", 2, 2, include_related=True)
        assert list_related_subjects(answer) == ["Commit 4", "Commit 3", "Commit 1"]


def list_related_subjects(answer: ExplainAnswer) -> list[str]:
    return [commit.commit_message for commit in answer.meta.explain.related_commits]


def test_neighbours_follow_the_graph_where_a_date_is_wrong(tmp_path: Path, home: Path) -> None:
    """Neighbours in the history of a renamed file are right, even if the commit of the rename has a wrong date."""
    repo = Repo.create(tmp_path / "repo")
    lines = [f"line {number}\n" for number in range(1, 9)]
    for number in range(1, 9):
        repo.commit_file("a.py", "".join(lines[:number]), f"Commit {number}")
    clock = repo.clock
    repo.rename("a.py", "b.py")
    repo.commit("Move", date=WRONG_DATES["1970"])
    repo.commit_file("a.py", "another\n", "Take the name", date=clock - timedelta(days=300))
    repo.commit_file("b.py", "".join([*lines, "end\n"]), "Later", date=clock + timedelta(hours=1))
    build_index(repo, home)
    answer = explain(repo, home, "b.py", 7, 7, include_related=True)
    assert list_related_subjects(answer) == ["Move", "Commit 8", "Commit 6", "Commit 5"]
    answer = explain(repo, home, "b.py", 8, 8, include_related=True)
    assert list_related_subjects(answer) == ["Later", "Move", "Commit 7", "Commit 6"]


def test_order_during_a_merge(tmp_path: Path, home: Path) -> None:
    """During a merge, the commits of the merged branch are in order too, although HEAD does not reach them."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "1\n2\n3\n4\n5\n", "First", date=WRONG_DATES["2099"])
    repo.branch("side")
    repo.commit_file("a.py", "side\n2\n3\n4\n5\n", "Side", date=WRONG_DATES["1970"])
    repo.switch("main")
    repo.commit_file("a.py", "1\n2\n3\n4\nmain\n", "Main", date=FIRST_DATE)
    repo.git("merge", "--no-commit", "--no-ff", "side")
    assert [hit.commit_message for hit in explain(repo, home, "a.py").hits] == ["Main", "Side", "First"]


def remove_parents(graph: bytes) -> bytes:
    """Return the content of a commit-graph in which no commit has a parent."""
    damaged = bytearray(graph)
    entries = range(8, 8 + 12 * graph[6], 12)
    starts = {graph[entry : entry + 4]: int.from_bytes(graph[entry + 4 : entry + 12]) for entry in entries}
    commit_count = int.from_bytes(graph[starts[b"OIDL"] - 4 : starts[b"OIDL"]])
    for number in range(commit_count):
        parents = starts[b"CDAT"] + number * 36 + 20
        damaged[parents : parents + 8] = bytes.fromhex("7000000070000000")
    return bytes(damaged)


@pytest.mark.parametrize(
    "damage",
    [
        remove_parents,
        lambda graph: graph[: len(graph) // 2] + b"\xee" * 500,
        lambda _: b"",
        lambda _: b"CGPH",
    ],
    ids=["no parents", "other bytes", "empty", "cut"],
)
def test_damaged_commit_graph_is_not_used_and_written_again(
    tmp_path: Path, home: Path, damage: Callable[[bytes], bytes]
) -> None:
    """Lines have the same commits with a damaged commit-graph as without; the next refresh writes it again."""
    repo = create_five_line_repo(tmp_path / "repo")
    build_index(repo, home)
    repository = open_repository(repo.path)
    graph_dir = locate_index(home, repository).git_directory
    commit_graph.refresh(repository, graph_dir)
    file = commit_graph.get_graph_file(graph_dir)
    intact = file.read_bytes()
    expected = list_line_commits(explain(repo, home, "src/a.py"))
    file.write_bytes(damage(intact))
    answer = explain(repo, home, "src/a.py", include_related=True)
    assert list_line_commits(answer) == expected
    assert len(list_hit_commits(answer)) == 3
    assert EvidenceLoader(repository, graph_dir).git.commit_graph_dir is None
    commit_graph.refresh(repository, graph_dir)
    assert file.read_bytes() == intact
    assert create_git_program(repository, graph_dir).commit_graph_dir == graph_dir
