"""Index runs that index branches besides HEAD: rewritten, deleted and merged branches, interruptions."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from pipeline import write
from pipeline.git.errors import UnreadableObject
from pipeline.git.repository import Repository, open_repository
from pipeline.options import EmbedCacheMode
from pipeline.walk import list_branch_candidates
from serve.cli.index import IndexOptions, _describe_if_complete
from stores import database, history
from stores.connections import IndexWriter
from stores.history import IndexSummary
from tests.bench.indexes import compute_fingerprint
from tests.pipeline.histories import get_location, hide_object, run_index
from tests.repos import Repo, create_once

ALL = ("refs/heads",)


@create_once
def create_repo(path: Path) -> Repo:
    """Branches `main` (HEAD), `topic/a`, `topic/b` on top of it, and `old`, each with commits of its own."""
    repo = Repo.create(path)
    repo.commit_file("base.py", "def base(): pass\n", "Base")
    repo.branch("old")
    repo.commit_file("old.py", "def old(): pass\n", "Old")
    repo.switch("main")
    repo.branch("topic/a")
    repo.commit_file("a1.py", "def one(): pass\n", "A1")
    repo.commit_file("a2.py", "def two(): pass\n", "A2")
    repo.branch("topic/b")
    repo.commit_file("b.py", "def three(): pass\n", "B")
    repo.switch("main")
    repo.commit_file("main.py", "def main(): pass\n", "Main")
    return repo


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return create_repo(tmp_path / "repo")


def load_summary(repo: Repo, home: Path) -> IndexSummary:
    with database.open_for_reading(get_location(repo, home)) as connection:
        summary = history.load_index_summary(connection)
    assert summary
    return summary


def check_commits(repo: Repo, home: Path, *revisions: str) -> None:
    """Check that the index has the commits of these revisions, and lists those that HEAD does not reach."""
    expected = set(repo.git("rev-list", *revisions).split())
    with database.open_for_reading(get_location(repo, home)) as connection:
        assert set(history.list_recorded_commits(connection)) == expected
        unreachable = history.load_unreachable_commits(connection)
        rows = connection.execute("SELECT count(*) FROM unreached").fetchall()
    assert unreachable == expected - set(repo.git("rev-list", "HEAD").split())
    assert rows == [(len(unreachable),)]


def is_current(repo: Repo, home: Path, **options: Any) -> bool:
    """Return whether `--incremental` has nothing to do."""
    opened, location = open_repository(repo.path), get_location(repo, home)
    return _describe_if_complete(opened, location, IndexOptions(**options)) is not None


def test_branches_are_indexed_besides_head(repo: Repo, tmp_path: Path) -> None:
    """Commits of the matching branches are recorded, and marked if HEAD does not reach them. The watermark is HEAD."""
    run_index(repo, tmp_path, branch_patterns=("topic/*",), commit_batch=1)
    check_commits(repo, tmp_path, "main", "topic/b")
    assert load_summary(repo, tmp_path).last_indexed_commit == repo.head
    assert is_current(repo, tmp_path)


def test_run_without_patterns_starts_no_git(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a run with branch patterns starts git, to list the refs."""
    monkeypatch.setattr(write, "create_git_program", None)
    run_index(repo, tmp_path)
    check_commits(repo, tmp_path, "main")
    with pytest.raises(TypeError):
        run_index(repo, tmp_path, branch_patterns=ALL)


def test_damaged_refs_keep_the_recorded_tips(repo: Repo, tmp_path: Path) -> None:
    """A run that cannot list the refs fails; the next one continues from the recorded branches."""
    run_index(repo, tmp_path, branch_patterns=ALL)
    packed_refs = repo.path / ".git/packed-refs"
    packed_refs.write_text("no reference\n", encoding="ascii")
    with pytest.raises(UnreadableObject, match="the references cannot be read"):
        run_index(repo, tmp_path)
    packed_refs.unlink()
    assert is_current(repo, tmp_path)


def test_later_runs_continue_with_the_branches(repo: Repo, tmp_path: Path) -> None:
    """A run without options indexes the new commits of the branches that match the recorded patterns."""
    run_index(repo, tmp_path, branch_patterns=("topic/*",))
    repo.switch("topic/a")
    repo.commit_file("a3.py", "a = 3\n", "A3")
    repo.branch("topic/c", "main")
    repo.commit_file("c.py", "c = 1\n", "C")
    repo.switch("main")
    assert not is_current(repo, tmp_path)
    assert run_index(repo, tmp_path).commits == 2
    check_commits(repo, tmp_path, "main", "topic/a", "topic/b", "topic/c")
    assert is_current(repo, tmp_path)
    assert run_index(repo, tmp_path).commits == 0


def test_patterns_are_added_and_forgotten(repo: Repo, tmp_path: Path) -> None:
    """A run adds its patterns to the recorded ones. A rebuild keeps them; `head_only` deletes them."""
    run_index(repo, tmp_path, branch_patterns=("topic/a",))
    assert not is_current(repo, tmp_path, branch_patterns=("old",))
    run_index(repo, tmp_path, branch_patterns=("old", "topic/a"))
    assert is_current(repo, tmp_path, branch_patterns=("old",))
    check_commits(repo, tmp_path, "main", "topic/a", "old")
    run_index(repo, tmp_path, rebuild=True)
    check_commits(repo, tmp_path, "main", "topic/a", "old")
    assert not is_current(repo, tmp_path, head_only=True)
    run_index(repo, tmp_path, rebuild=True, head_only=True)
    check_commits(repo, tmp_path, "main")
    assert is_current(repo, tmp_path, head_only=True)


def test_deleted_and_rewritten_branches(repo: Repo, tmp_path: Path) -> None:
    """Commits that a branch no longer has stay recorded until `lineage gc`, like commits of a rewritten HEAD."""
    run_index(repo, tmp_path, branch_patterns=ALL)
    lost = repo.git("rev-parse", "topic/b", "old").split()
    repo.git("branch", "-D", "old")
    repo.switch("topic/b")
    repo.commit("Rewritten", amend=True)
    repo.switch("main")
    assert not is_current(repo, tmp_path)
    run_index(repo, tmp_path)
    check_commits(repo, tmp_path, "--branches", *lost)
    with database.open_for_reading(get_location(repo, tmp_path)) as connection:
        tips = history.load_branch_tips(connection)
    assert tips == set(repo.git("rev-parse", "main", "topic/a", "topic/b").split())
    assert is_current(repo, tmp_path)


def test_merged_branch(repo: Repo, tmp_path: Path) -> None:
    """After a merge, only the merge commit is read. HEAD now reaches the commits of the branch, which are indexed."""
    run_index(repo, tmp_path, branch_patterns=ALL)
    repo.merge("topic/a")
    assert run_index(repo, tmp_path).commits == 1
    check_commits(repo, tmp_path, "--branches")


@pytest.mark.parametrize("name", ["topic/b", "old"])
def test_switch_to_a_branch(repo: Repo, tmp_path: Path, name: str) -> None:
    """When HEAD moves to an indexed branch, no commit is read again, and the rows equal those of a new index."""
    run_index(repo, tmp_path, branch_patterns=ALL)
    repo.switch(name)
    assert run_index(repo, tmp_path).commits == 0
    check_commits(repo, tmp_path, "--branches")
    run_index(repo, tmp_path / "new", branch_patterns=ALL)
    assert compute_fingerprint(repo.path, tmp_path) == compute_fingerprint(repo.path, tmp_path / "new")


@pytest.mark.parametrize("written_batches", range(6))
def test_interrupted_run(
    repo: Repo, tmp_path: Path, written_batches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an interruption at any batch the marks are right, and the next run completes the branches."""
    write_batch = write.write_batch
    batches: list[tuple[Any, ...]] = []

    def stop_later(*arguments: Any) -> str | None:
        if len(batches) == written_batches:
            raise KeyboardInterrupt
        batches.append(arguments)
        return write_batch(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(write, "write_batch", stop_later)
        with pytest.raises(KeyboardInterrupt):
            run_index(repo, tmp_path, branch_patterns=ALL, commit_batch=1)
    recorded = ["--no-walk", *(batch.shas[0] for _, batch, *_ in batches)]
    check_commits(repo, tmp_path, *(recorded if batches else ["--max-count=0", "HEAD"]))
    watermark = load_summary(repo, tmp_path).last_indexed_commit
    assert watermark is None or repo.git("merge-base", "--is-ancestor", watermark, "HEAD") == ""
    assert not is_current(repo, tmp_path)
    run_index(repo, tmp_path)
    check_commits(repo, tmp_path, "--branches")
    run_index(repo, tmp_path / "new", branch_patterns=ALL)
    assert compute_fingerprint(repo.path, tmp_path) == compute_fingerprint(repo.path, tmp_path / "new")


def test_interrupted_rebuild_keeps_the_settings(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rebuild that is interrupted while it walks the history keeps the patterns and the cache mode."""
    run_index(repo, tmp_path, branch_patterns=("topic",), embed_cache=EmbedCacheMode.DIFF)

    def interrupt(*_: object) -> list[str]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(write, "list_candidate_commits", interrupt)
        run_index(repo, tmp_path, rebuild=True)
    run_index(repo, tmp_path)
    assert write.load_branch_patterns(get_location(repo, tmp_path)) == ("topic",)
    assert (
        write.get_cache_mode(write.load_index_versions(get_location(repo, tmp_path))) is EmbedCacheMode.DIFF
    )


def test_interrupted_embedding_of_branches(repo: Repo, tmp_path: Path) -> None:
    """The index is not up to date while texts of a branch have no vector, even if all texts of HEAD have one."""
    run_index(repo, tmp_path)
    assert is_current(repo, tmp_path)
    assert run_index(repo, tmp_path, branch_patterns=ALL, skip_vectors=True).pending_texts
    assert not is_current(repo, tmp_path)
    assert run_index(repo, tmp_path).pending_texts == 0
    assert is_current(repo, tmp_path)


def test_tip_that_changes_only_ignored_files(repo: Repo, tmp_path: Path) -> None:
    """If the last commit of a branch changes only ignored files, it has no rows, but the index is up to date."""
    repo.switch("old")
    repo.commit_file("package-lock.json", "{}\n", "Lock")
    repo.switch("main")
    run_index(repo, tmp_path, branch_patterns=("old",))
    assert is_current(repo, tmp_path)


def test_unreadable_commit_of_a_branch(repo: Repo, tmp_path: Path) -> None:
    """Each run tries again to read an unreadable commit of a branch, and records it as soon as it is readable."""
    with hide_object(repo, "topic/a^{tree}"):
        summary = run_index(repo, tmp_path, branch_patterns=ALL)
        unreadable = {entry.commit_sha for entry in summary.unreadable_commits}
        assert unreadable == set(repo.git("rev-parse", "topic/a", "topic/b").split())
        assert run_index(repo, tmp_path).unreadable_commits
        with IndexWriter(get_location(repo, tmp_path)) as writer:
            start = write.start_run(writer, open_repository(repo.path), repo.head, None)
        assert start.branch_commits == unreadable == set(start.pending_commits)
    assert not is_current(repo, tmp_path)
    assert run_index(repo, tmp_path).unreadable_commits == ()
    check_commits(repo, tmp_path, "--branches")


def test_walk_of_branches_reads_only_what_is_new(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each candidate is listed once, parents first. The walk stops at commits of HEAD and at recorded tips."""
    repository = open_repository(repo.path)
    tips = repo.git("rev-parse", "old", "topic/a", "topic/b", "main").split()
    head_commits = repository.walk(repo.head)
    walked = list_branch_candidates(repository, tips, head_commits, watermark=None)
    assert sorted(walked) == sorted(repo.git("rev-list", *tips, "^main").split())
    assert walked.index(tips[1]) < walked.index(tips[2])
    read: list[str] = []
    read_parents = repository.read_parents

    def read_and_record(sha: str) -> tuple[str, ...]:
        read.append(sha)
        return read_parents(sha)

    monkeypatch.setattr(repository, "read_parents", read_and_record)
    assert list_branch_candidates(repository, tips, [], repo.head, [tips[1]]) == [tips[0], tips[2]]
    assert read == [tips[0], tips[2]]
    read.clear()
    monkeypatch.setattr(repository, "walk", None)
    assert list_branch_candidates(repository, tips, [], repo.head, tips) == []
    assert list_branch_candidates(repository, [repo.head], [], repo.head) == []
    assert read == []


def test_first_run_walks_head_once(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The history of HEAD is walked once, both to list its commits and to find those that branches share with it."""
    walked: list[tuple[str, ...]] = []
    walk = Repository.walk

    def walk_and_record(self: Repository, tip: str, *, hide: Iterable[str] = ()) -> list[str]:
        walked.append((tip, *hide))
        return walk(self, tip, hide=hide)

    monkeypatch.setattr(Repository, "walk", walk_and_record)
    run_index(repo, tmp_path, branch_patterns=ALL)
    assert walked == [(repo.head,)]
    check_commits(repo, tmp_path, "--branches")
