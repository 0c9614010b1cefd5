"""`lineage gc`: unreachable commits are deleted, and the remaining rows equal a fresh index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.encoders.base import OnnxEncoder
from pipeline.git.repository import open_repository
from pipeline.run import IndexRun, RunOptions
from serve.maintenance.gc import ItemKind
from serve.repositories import locate_index
from stores import database, history, maintenance
from stores.index_location import IndexLocation
from tests.repos import Repo
from tests.serve import sample_index
from tests.serve.maintenance.gc.helpers import delete_items, find_items, list_recorded_commits


def test_only_unreachable_commits_are_deleted(repo: Repo, home: Path, tmp_path: Path) -> None:
    """Commits that a branch, tag, reflog, stash or HEAD of another work tree reaches stay."""
    commits = {}
    for reference in ("branch", "tag", "worktree", "stash", "reflog", "nothing"):
        repo.git("switch", "--quiet", "--detach", "main")
        commits[reference] = repo.commit_file(f"{reference}.py", f"def {reference}(): ...\n")
        sample_index.build_index(repo, home)
    repo.switch("main")
    sample_index.build_index(repo, home)
    repo.git("branch", "kept", commits["branch"])
    repo.git("tag", "kept-too", commits["tag"])
    repo.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "tree"), commits["worktree"])
    repo.git("update-ref", "refs/stash", commits["stash"])
    assert find_items(home) == {}  # the reflog of HEAD has them all
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("update-ref", "--create-reflog", "-m", "as reset does", "refs/heads/moved", commits["reflog"])
    repo.git("update-ref", "refs/heads/moved", "main")
    [item] = find_items(home)[ItemKind.COMMITS]
    assert item.description.startswith("1 commit in the index of ")
    delete_items(home)
    assert list_recorded_commits(repo, home) == {repo.git("rev-parse", "main"), *commits.values()} - {
        commits["nothing"]
    }
    assert find_items(home) == {}


def test_commits_below_the_watermark_are_kept(repo: Repo, home: Path) -> None:
    """Commits below the watermark stay until a run has moved it; a deleted commit can be indexed again."""
    amended = repo.commit_file("src/udp.py", "def broadcast():\n    flood()\n", "Flood the network")
    sample_index.build_index(repo, home)
    repo.git("reset", "--quiet", "--hard", "HEAD~1")
    repo.git("reflog", "expire", "--expire=now", "--all")
    assert find_items(home) == {}
    run_index(repo, home)
    delete_items(home)
    assert amended not in list_recorded_commits(repo, home)
    repo.git("reset", "--quiet", "--hard", amended)
    run_index(repo, home)
    assert amended in list_recorded_commits(repo, home)


def run_index(repo: Repo, home: Path, branch_patterns: tuple[str, ...] = ()) -> IndexLocation:
    repository = open_repository(repo.path)
    location = locate_index(home, repository)
    IndexRun(repository, location, RunOptions(branch_patterns=branch_patterns), OnnxEncoder()).run()
    return location


def test_remaining_rows_equal_a_fresh_index(home: Path, tmp_path: Path) -> None:
    """The remaining rows, vectors, words and statistics equal a fresh index, and the file shrinks."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("src/tcp.py", "def connect():\n    timeout()\n", "Add a timeout to connect")
    repo.branch("aside")
    for number in range(30):
        body = "".join(f"def lost{number}_{n}():\n    vanish({n})\n" for n in range(40))
        repo.commit_file(f"lost{number}.py", body, f"Lose {number}")
    location = run_index(repo, home)
    repo.switch("main")
    repo.commit_file("src/tcp.py", "def connect():\n    timeout(3)\n", "Wait for three seconds")
    run_index(repo, home)
    repo.git("branch", "-D", "aside")
    repo.git("reflog", "expire", "--expire=now", "--all")
    before = location.database.stat().st_size
    [item] = find_items(home)[ItemKind.COMMITS]
    assert before > item.size_bytes > before // 2
    delete_items(home)
    assert location.database.stat().st_size < before
    fresh = run_index(repo, tmp_path / "fresh")
    assert load_content(location) == load_content(fresh)
    with database.open_for_reading(location) as connection:
        assert maintenance.find_broken_invariants(connection) == {}


# Without ids of rows and terms, which depend on earlier runs.
CONTENT_QUERIES = {
    "commits": "SELECT * FROM commits",
    "hunks": "SELECT * EXCLUDE hunk_id FROM hunks",
    "symbols": "SELECT * EXCLUDE hunk_id, commit_sha, file_path FROM hunk_symbols JOIN hunks USING (hunk_id)",
    "vectors": "FROM vectors",
    "terms": "SELECT term FROM terms",
    "words": "SELECT term, frequency, file_path, commit_sha FROM hunk_postings"
    " JOIN terms USING (term_id) JOIN hunks USING (hunk_id)",
    "names": "SELECT term, frequency, file_path, commit_sha FROM symbol_postings"
    " JOIN terms USING (term_id) JOIN hunks USING (hunk_id)",
    "head": "SELECT term, frequency, name FROM head_postings"
    " JOIN terms USING (term_id) JOIN head_symbols USING (symbol_id)",
    "unreached": "FROM unreached",
    "repository": "SELECT repo_id, last_indexed_commit, head_commit FROM repository",
}


def load_content(location: IndexLocation) -> dict[str, list[Any]]:
    with database.open_for_reading(location) as connection:
        return {
            name: connection.execute(f"FROM ({sql}) ORDER BY ALL").fetchall()
            for name, sql in CONTENT_QUERIES.items()
        }


def test_truncated_history_is_kept(repo: Repo, home: Path, tmp_path: Path) -> None:
    """If a clone becomes shallow, indexed commits that are cut off stay."""
    repo.commit_file("b.py", "b = 1\n")
    clone = repo.clone(tmp_path / "clone")
    run_index(clone, home)
    clone.git("fetch", "--quiet", "--depth=1")
    clone.git("reflog", "expire", "--expire=now", "--all")
    assert ItemKind.COMMITS not in find_items(home)


def load_branch_tips(repo: Repo, home: Path) -> frozenset[str]:
    with database.open_for_reading(locate_index(home, open_repository(repo.path))) as connection:
        return history.load_branch_tips(connection)


def test_deleted_branch(repo: Repo, home: Path) -> None:
    """The commits of an indexed branch are kept while it exists, and deleted with its tip afterwards."""
    repo.branch("topic")
    repo.commit_file("topic.py", "topic = 1\n")
    ignored = repo.commit_file("package-lock.json", "{}\n")
    repo.switch("main")
    run_index(repo, home, branch_patterns=("topic",))
    assert load_branch_tips(repo, home) == {ignored}
    assert ItemKind.COMMITS not in find_items(home)
    repo.git("branch", "-D", "topic")
    repo.git("reflog", "expire", "--expire=now", "--all")
    delete_items(home)
    assert load_branch_tips(repo, home) == frozenset()
    assert list_recorded_commits(repo, home) == set(repo.git("rev-list", "HEAD").split())


def test_damaged_history_is_kept(repo: Repo, home: Path) -> None:
    """If a reference is broken, no commit is considered unreachable."""
    lost = repo.commit_file("b.py", "b = 1\n")
    run_index(repo, home)
    repo.git("reset", "--quiet", "--hard", "HEAD~1")
    run_index(repo, home)
    repo.git("reflog", "expire", "--expire=now", "--all")
    assert find_items(home)[ItemKind.COMMITS]
    (repo.path / ".git" / "refs" / "heads" / "broken").write_text("1" * 40 + "\n", encoding="ascii")
    assert find_items(home) == {}
    assert lost in list_recorded_commits(repo, home)
