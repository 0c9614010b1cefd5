"""Index runs with missing objects, a moving HEAD and interruptions."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline import walk, write
from pipeline.git.repository import open_repository
from pipeline.walk import compute_reachability_delta
from serve import index_status
from serve.cli import index as index_command
from serve.cli.index import IndexOptions
from stores import database, history
from tests.bench.indexes import compute_fingerprint
from tests.pipeline.histories import create_interleaved_repo, get_location, hide_object, run_index
from tests.repos import Repo


def get_excluded_commits(repo: Repo, home: Path) -> set[str]:
    """Return the recorded commits that answers about HEAD exclude."""
    with database.open_for_reading(get_location(repo, home)) as connection:
        status = history.load_index_summary(connection)
        assert status is not None
        opened = open_repository(repo.path)
        change = compute_reachability_delta(opened, opened.read_head(), status.head_commit)
        return (history.load_unreachable_commits(connection) | set(change.removed_commits)) - set(
            change.added_commits
        )


def compute_unreachable_commits(repo: Repo, home: Path) -> set[str]:
    """Return the recorded commits that HEAD does not reach, according to git."""
    with database.open_for_reading(get_location(repo, home)) as connection:
        return set(history.list_recorded_commits(connection)) - set(repo.git("rev-list", "HEAD").splitlines())


def get_unreadable_commits(repo: Repo, home: Path) -> list[str]:
    with database.open_for_reading(get_location(repo, home)) as connection:
        return [entry.commit_sha for entry in history.load_unreadable_commits(connection)]


def get_head_symbols(repo: Repo, home: Path) -> set[str]:
    with database.open_for_reading(get_location(repo, home)) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM head_symbols").fetchall()}


def is_up_to_date(repo: Repo, home: Path) -> bool:
    """Return whether `--incremental` reports that the index is at HEAD."""
    opened, location = open_repository(repo.path), get_location(repo, home)
    return index_command._describe_if_complete(opened, location, IndexOptions()) is not None


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """Create a repository with the branches `side` and `main`, each with a commit of its own."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "def base(): pass\n", "Base")
    repo.branch("side")
    repo.commit_file("z.py", "def zebra(): pass\n", "On the side")
    repo.switch("main")
    repo.commit_file("m.py", "def okapi(): pass\n", "On main")
    return repo


def test_head_moves_while_run_waits(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a user switches branches during a run, answers at each HEAD exclude commits that this HEAD does not reach."""
    home = tmp_path / "home"
    for branch in ("side", "main"):
        repo.switch(branch)
        run_index(repo, home)
    start_run = write.start_run

    def switch_branch_first(*args: object, **kwargs: object) -> object:
        repo.switch("side")
        return start_run(*args, **kwargs)  # type: ignore[arg-type]  # passed through unchanged

    monkeypatch.setattr(write, "start_run", switch_branch_first)
    run_index(repo, home)
    assert get_excluded_commits(repo, home) == compute_unreachable_commits(repo, home) != set()
    repo.switch("main")
    assert get_excluded_commits(repo, home) == compute_unreachable_commits(repo, home) != set()


def test_index_is_readable_during_walk(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run does not lock the index during the walk, which takes seconds for a long history."""
    home = tmp_path / "home"
    run_index(repo, home)
    list_candidates = walk.list_candidate_commits
    commit_counts: list[int] = []

    def read_index_first(*args: object) -> list[str]:
        with database.open_for_reading(get_location(repo, home), wait=5) as connection:
            status = history.load_index_summary(connection)
            commit_counts.append(status.commits if status else 0)
        return list_candidates(*args)  # type: ignore[arg-type]  # passed through unchanged

    monkeypatch.setattr(write, "list_candidate_commits", read_index_first)
    run_index(repo, home)
    assert commit_counts == [2]


def test_unreadable_commit_of_another_branch(repo: Repo, tmp_path: Path) -> None:
    """An unreadable commit is retried by each run at a HEAD that reaches it, and by no other run."""
    home = tmp_path / "home"
    repo.switch("side")
    zebra = repo.head
    repo.commit_file("y.py", "def yak(): pass\n", "Child")
    for _ in range(2):
        repo.switch("side")
        with hide_object(repo, f"{zebra}:z.py"):
            assert [entry.commit_sha for entry in run_index(repo, home).unreadable_commits] == [zebra]
            assert not is_up_to_date(repo, home)
            repo.switch("main")
            assert run_index(repo, home).unreadable_commits == ()
            assert is_up_to_date(repo, home) and get_unreadable_commits(repo, home) == []
            assert get_excluded_commits(repo, home) == compute_unreachable_commits(repo, home)
    repo.git("reset", "--quiet", "--hard", "HEAD~1")  # below both
    run_index(repo, home)
    repo.switch("side")
    assert run_index(repo, home).commits == 1
    assert (get_unreadable_commits(repo, home), get_excluded_commits(repo, home)) == (
        [],
        compute_unreachable_commits(repo, home),
    )


def test_interrupted_run_keeps_unreadable_commits(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an interrupted run at another HEAD, the next run still retries the unreadable commit."""
    home = tmp_path / "home"
    repo.switch("side")
    zebra = repo.head
    repo.commit_file("y.py", "def yak(): pass\n", "Child")
    with hide_object(repo, f"{zebra}:z.py"):
        run_index(repo, home)
    repo.git("checkout", "--quiet", "--detach", f"{zebra}~1")

    def raise_interrupt(*_: object, **__: object) -> object:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(write, "finish_run", raise_interrupt)
        run_index(repo, home)
    repo.switch("side")
    assert run_index(repo, home).commits == 1
    assert get_unreadable_commits(repo, home) == []


def test_interrupted_run_then_reset(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If HEAD is reset after an interrupted run, the next run restores the symbols that HEAD had before."""
    home = tmp_path / "home"
    run_index(repo, home)
    old_head = repo.head
    repo.commit_file("m.py", "def walrus(): pass\n", "Turn it into a walrus")

    def raise_interrupt(*_: object, **__: object) -> object:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(write, "finish_run", raise_interrupt)
        run_index(repo, home)
    assert "walrus" in get_head_symbols(repo, home)
    repo.git("reset", "--quiet", "--hard", old_head)
    assert not is_up_to_date(repo, home)
    run_index(repo, home)
    assert is_up_to_date(repo, home)
    assert get_head_symbols(repo, home) == {"base", "okapi"}


@pytest.mark.parametrize("missing", ["HEAD:src", "HEAD:src/a.py"])
def test_unreadable_part_of_head_is_retried(tmp_path: Path, missing: str) -> None:
    """If a directory or file of HEAD is unreadable, the run reports it, and the next run adds its symbols."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("top.py", "def top(): pass\n")
    repo.commit_file("src/a.py", "def old(): pass\n")
    home = tmp_path / "home"
    run_index(repo, home)
    repo.commit_file("src/a.py", "def new(): pass\n")
    with hide_object(repo, missing):
        summary = run_index(repo, home)
        assert summary.unreadable_head_files == (("src/a.py",) if missing == "HEAD:src/a.py" else ())
        assert bool(summary.head_error) == (missing == "HEAD:src")
        assert not is_up_to_date(repo, home)
        assert get_head_symbols(repo, home) == {"top", "old"}
    run_index(repo, home)
    assert is_up_to_date(repo, home)
    run_index(repo, tmp_path / "clean")
    assert get_head_symbols(repo, home) == {"top", "new"}
    assert compute_fingerprint(repo.path, home) == compute_fingerprint(repo.path, tmp_path / "clean")


def test_force_keeps_symbols_of_unreadable_file(tmp_path: Path) -> None:
    """`force` keeps the symbols of a file that is unreadable."""
    repo = create_interleaved_repo(tmp_path / "repo", rounds=1)
    run_index(repo, tmp_path / "home")
    old_symbols = get_head_symbols(repo, tmp_path / "home")
    with hide_object(repo, "HEAD:greeter.py"):
        assert run_index(repo, tmp_path / "home", force=True).unreadable_head_files == ("greeter.py",)
    assert get_head_symbols(repo, tmp_path / "home") == old_symbols


def test_deepened_clone_is_behind(tmp_path: Path) -> None:
    """Commits that `--unshallow` fetched count as behind HEAD until a run indexes them."""
    origin = Repo.create(tmp_path / "origin")
    for number in range(5):
        origin.commit_file("a.py", f"a = {number}\n", f"Change {number}")
    clone = origin.clone(tmp_path / "clone", "--depth=2")
    home = tmp_path / "home"
    run_index(clone, home)
    assert count_commits_behind(clone, home) == 0
    clone.git("fetch", "--quiet", "--unshallow")
    assert count_commits_behind(clone, home) == 4
    run_index(clone, home)
    assert count_commits_behind(clone, home) == 0


def count_commits_behind(repo: Repo, home: Path) -> int:
    return index_status.load_status_at_path(repo.path, home)[1].commits_behind
