"""The commit-graph: writing it, and its corrected dates."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from errno import EACCES, EMFILE
from pathlib import Path

import pytest

from pipeline.git import commit_graph
from pipeline.git.commit_graph import compute_corrected_dates
from pipeline.git.git_cli import GitOutput, GitProgram
from pipeline.git.repository import Repository, open_repository
from tests.repos import FIRST_DATE, Repo, read_dates

WRONG_DATES = [datetime(1970, 1, 1, 5, tzinfo=UTC), datetime(2099, 1, 1, tzinfo=UTC)]


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo.create(tmp_path / 'with "quotes": and \\')
    for number in range(5):
        repo.commit_file("a.py", f"{number}\n")
    return repo


def test_git_uses_the_commit_graph(repo: Repo, tmp_path: Path) -> None:
    """The graph is valid and covers HEAD's history, and the repository is unchanged."""
    files_before = sorted((repo.path / ".git").rglob("*"))
    repository, graph_dir = open_repository(repo.path), tmp_path / "graph"
    commit_graph.refresh(repository, graph_dir)
    git = commit_graph.create_git_program(repository, graph_dir)
    assert git.run("commit-graph", "verify", f"--object-dir={graph_dir}").exit_code == 0
    assert (graph_dir / "info" / "commit-graph").stat().st_size > 1_000
    assert git.run("rev-list", "HEAD").stdout.decode().split() == repo.git("rev-list", "HEAD").split()
    assert git.run("cat-file", "-p", "HEAD:a.py").stdout == b"4\n"
    assert sorted((repo.path / ".git").rglob("*")) == files_before


def test_a_stale_graph_is_rewritten(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph is rewritten if it lacks many commits or its tip is no commit, but not if it lacks a few commits."""
    graph_dir, tip_file = tmp_path / "graph", tmp_path / "graph" / "tip"
    commit_graph.refresh(open_repository(repo.path), graph_dir)
    old_head = repo.head
    new_head = repo.commit_file("a.py", "new\n")
    commit_graph.refresh(open_repository(repo.path), graph_dir)
    assert tip_file.read_text() == old_head
    monkeypatch.setattr(commit_graph, "STALE_AFTER_COMMITS", 1)
    commit_graph.refresh(open_repository(repo.path), graph_dir)
    assert tip_file.read_text() == new_head
    for content in ("0" * 40, "", new_head[:12], "HEAD", "\xff"):
        tip_file.write_text(content, encoding="latin-1")
        commit_graph.refresh(open_repository(repo.path), graph_dir)
        assert tip_file.read_text() == new_head


@pytest.mark.parametrize(("is_large", "seconds"), [(True, 900.0), (False, 10.0)])
def test_timeout_for_writing(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_large: bool, seconds: float
) -> None:
    """git gets more time for a large history, which is recognized by counting commits up to a limit, without a walk."""
    monkeypatch.setattr(commit_graph, "SMALL_HISTORY_COMMITS", 4 if is_large else 5)
    monkeypatch.delattr(Repository, "walk")
    timeouts: dict[str, float | None] = {}
    run = GitProgram.run

    def record_timeout(
        git: GitProgram,
        *arguments: str | bytes,
        stdin: bytes | None = None,
        timeout_seconds: float | None = None,
    ) -> GitOutput:
        timeouts[str(arguments[0])] = timeout_seconds
        return run(git, *arguments, stdin=stdin, timeout_seconds=timeout_seconds)

    monkeypatch.setattr(GitProgram, "run", record_timeout)
    commit_graph.refresh(open_repository(repo.path), tmp_path / "graph")
    assert (tmp_path / "graph" / "tip").read_text() == repo.head
    assert timeouts["commit-graph"] == seconds


def test_a_history_that_cannot_be_counted(repo: Repo, tmp_path: Path) -> None:
    """For a history that lacks a commit, no graph is written."""
    sha = repo.git("rev-parse", "HEAD~2")
    (repo.path / ".git" / "objects" / sha[:2] / sha[2:]).unlink()
    commit_graph.refresh(open_repository(repo.path), tmp_path / "graph")
    assert not list((tmp_path / "graph" / "info").iterdir())


def test_a_stale_lock_is_removed(repo: Repo, tmp_path: Path) -> None:
    """A new lock file of git prevents writing the graph; an old one is deleted."""
    graph_dir = tmp_path / "graph"
    lock_file = graph_dir / "info" / "commit-graph.lock"
    lock_file.parent.mkdir(parents=True)
    lock_file.touch()
    commit_graph.refresh(open_repository(repo.path), graph_dir)
    assert lock_file.exists() and not (graph_dir / "info" / "commit-graph").exists()
    stale_time = time.time() - commit_graph.STALE_LOCK_SECONDS - 1
    os.utime(lock_file, (stale_time, stale_time))
    commit_graph.refresh(open_repository(repo.path), graph_dir)
    assert not lock_file.exists() and (graph_dir / "info" / "commit-graph").exists()


@pytest.mark.parametrize(("error_number", "is_replaced"), [(EMFILE, False), (EACCES, True)])
def test_graph_that_cannot_be_read_now(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error_number: int, is_replaced: bool
) -> None:
    """A graph that cannot be read at the moment is not replaced, unless permission to read it is missing."""
    commit_graph.refresh(open_repository(repo.path), tmp_path)
    file = commit_graph.get_graph_file(tmp_path)
    written = file.stat().st_mtime_ns

    def fail(_: Path) -> bytes:
        raise OSError(error_number, "no reading")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", fail)
        assert commit_graph.is_damaged(tmp_path)
        commit_graph.refresh(open_repository(repo.path), tmp_path)
    assert (file.stat().st_mtime_ns != written) == is_replaced
    assert not commit_graph.is_damaged(tmp_path)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"CGPH" + b"\xff" * 3_000])
def test_a_damaged_graph_changes_no_answer(repo: Repo, tmp_path: Path, content: bytes) -> None:
    """With an empty or damaged graph, blame gives the same answer."""
    repository, graph_dir = open_repository(repo.path), tmp_path / "graph"
    commit_graph.refresh(repository, graph_dir)
    (graph_dir / "info" / "commit-graph").chmod(0o600)
    (graph_dir / "info" / "commit-graph").write_bytes(content)
    output = commit_graph.create_git_program(repository, graph_dir).run("blame", "--porcelain", "--", "a.py")
    assert (output.exit_code, output.stdout[:40].decode()) == (0, repo.head)


@pytest.mark.parametrize("name", ["graph", "graph/info"])
def test_a_file_in_place_of_a_directory_is_replaced(repo: Repo, tmp_path: Path, name: str) -> None:
    """The next index run writes the graph, as `lineage doctor` says of a damaged one."""
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"")
    commit_graph.refresh(open_repository(repo.path), tmp_path / "graph")
    assert commit_graph.get_graph_file(tmp_path / "graph").is_file()


def test_a_pipe_in_place_of_the_graph(repo: Repo, tmp_path: Path) -> None:
    """A pipe in place of the graph or its tip file is not read, which would block. The next index run replaces it."""
    repository = open_repository(repo.path)
    commit_graph.refresh(repository, tmp_path)
    graph_file = commit_graph.get_graph_file(tmp_path)
    graph_file.unlink()
    os.mkfifo(graph_file)
    assert commit_graph.is_damaged(tmp_path)
    assert commit_graph.create_git_program(repository, tmp_path).commit_graph_dir is None
    commit_graph.refresh(repository, tmp_path)
    assert not commit_graph.is_damaged(tmp_path)
    (tmp_path / "tip").unlink()
    os.mkfifo(tmp_path / "tip")
    commit_graph.refresh(repository, tmp_path)
    assert (tmp_path / "tip").read_text() == repo.head


def test_a_shallow_clone_has_no_graph(repo: Repo, tmp_path: Path) -> None:
    """For a shallow clone, git writes no graph. It works without a graph."""
    shallow = repo.clone(tmp_path / "shallow", "--depth=2")
    repository, graph_dir = open_repository(shallow.path), tmp_path / "graph"
    commit_graph.refresh(repository, graph_dir)
    assert (
        commit_graph.create_git_program(repository, graph_dir).run("rev-list", "--count", "HEAD").stdout
        == b"2\n"
    )


def test_an_empty_repository_has_no_graph(tmp_path: Path) -> None:
    """In a repository without commits no graph is written."""
    repo = Repo.create(tmp_path / "repo")
    commit_graph.refresh(open_repository(repo.path), tmp_path / "graph")
    assert not (tmp_path / "graph").exists()


def create_history(path: Path) -> Repo:
    """Create a history with merges, equal dates, a date in 1970, and a date in 2099 on another branch."""
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
    """Dates of commits that the graph lacks are computed from the repository, unless too many commits are missing."""
    repo = create_history(tmp_path / "repo")
    write_graph(repo, tmp_path / "graph")
    repo.commit("Later", date=WRONG_DATES[0])
    repo.branch("side")
    repo.commit("Side", date=FIRST_DATE)
    repo.switch("main")
    repo.merge("side")
    assert compute(repo, tmp_path / "graph") == compute_by_definition(repo)
    monkeypatch.setattr(commit_graph, "MAX_MISSING_COMMITS", 3)
    assert compute(repo, tmp_path / "graph") == compute_by_definition(repo)
    monkeypatch.setattr(commit_graph, "MAX_MISSING_COMMITS", 2)
    assert compute(repo, tmp_path / "graph") is None


def test_without_a_graph(tmp_path: Path) -> None:
    """Without a graph, or with a graph without corrected dates, no dates are returned."""
    repo = create_history(tmp_path / "repo")
    assert compute(repo, tmp_path / "graph") is None
    repo.git("config", "commitGraph.generationVersion", "1")
    write_graph(repo, tmp_path / "graph")
    assert (tmp_path / "graph" / "info" / "commit-graph").exists()
    assert compute(repo, tmp_path / "graph") is None


@pytest.mark.parametrize("content", [b"", b"nonsense", b"CGPH" + b"\xff" * 3_000])
def test_damaged_graph(tmp_path: Path, content: bytes) -> None:
    """For a damaged graph, no dates are returned, whatever it contains."""
    repo = create_history(tmp_path / "repo")
    graph_file = tmp_path / "graph" / "info" / "commit-graph"
    graph_file.parent.mkdir(parents=True)
    graph_file.write_bytes(content)
    assert compute(repo, tmp_path / "graph") is None


def test_truncated_graph(tmp_path: Path) -> None:
    """For a graph that is truncated anywhere, the right dates are returned, or none."""
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
    """The graph stores 34 bits of a date. For a later date, no dates are returned."""
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
