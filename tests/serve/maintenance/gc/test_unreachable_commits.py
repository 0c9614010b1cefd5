"""Commits that nothing reaches go, and what stays is as if it had been made anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.encoders.base import OnnxEncoder
from pipeline.git.repository import open_repository
from pipeline.run import Options, Pass
from serve.maintenance.gc import Kind
from serve.repositories import place_of
from stores import database, maintenance
from stores.index_location import Place
from tests.repos import Repo
from tests.serve import sample_index
from tests.serve.maintenance.gc.helpers import found, recorded, sweep


def test_only_what_nothing_reaches(repo: Repo, home: Path, tmp_path: Path) -> None:
    """A branch, a tag, a reflog, a stash and the HEAD of another work tree each keep a commit."""
    lost = {}
    for keeper in ("branch", "tag", "worktree", "stash", "reflog", "nothing"):
        repo.git("switch", "--quiet", "--detach", "main")
        lost[keeper] = repo.commit_file(f"{keeper}.py", f"def {keeper}(): ...\n")
        sample_index.index(repo, home)
    repo.switch("main")
    sample_index.index(repo, home)
    repo.git("branch", "kept", lost["branch"])
    repo.git("tag", "kept-too", lost["tag"])
    repo.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "tree"), lost["worktree"])
    repo.git("update-ref", "refs/stash", lost["stash"])
    assert found(home) == {}  # the reflog of HEAD has them all
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("update-ref", "--create-reflog", "-m", "as reset does", "refs/heads/moved", lost["reflog"])
    repo.git("update-ref", "refs/heads/moved", "main")
    [garbage] = found(home)[Kind.COMMITS]
    assert garbage.what.startswith("1 commit in the index of ")
    sweep(home)
    assert recorded(repo, home) == {repo.git("rev-parse", "main"), *lost.values()} - {lost["nothing"]}
    assert found(home) == {}


def test_the_watermark_stays(repo: Repo, home: Path) -> None:
    """What the index promises to know stays until a run has moved the promise; then it can go and come back."""
    amended = repo.commit_file("src/udp.py", "def broadcast():\n    flood()\n", "Flood the network")
    sample_index.index(repo, home)
    repo.git("reset", "--quiet", "--hard", "HEAD~1")
    repo.git("reflog", "expire", "--expire=now", "--all")
    assert found(home) == {}
    run(repo, home)
    sweep(home)
    assert amended not in recorded(repo, home)
    repo.git("reset", "--quiet", "--hard", amended)
    run(repo, home)
    assert amended in recorded(repo, home)


def run(repo: Repo, home: Path) -> Place:
    repository = open_repository(repo.path)
    where = place_of(home, repository)
    Pass(repository, where, Options(), OnnxEncoder(threads=1)).run()
    return where


def test_as_if_made_anew(home: Path, tmp_path: Path) -> None:
    """What is left equals a fresh index: rows, vectors, words and their statistics; and the room is given back."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("src/tcp.py", "def connect():\n    timeout()\n", "Add a timeout to connect")
    repo.branch("aside")
    for number in range(30):
        body = "".join(f"def lost{number}_{n}():\n    vanish({n})\n" for n in range(40))
        repo.commit_file(f"lost{number}.py", body, f"Lose {number}")
    where = run(repo, home)
    repo.switch("main")
    repo.commit_file("src/tcp.py", "def connect():\n    timeout(3)\n", "Wait for three seconds")
    run(repo, home)
    repo.git("branch", "-D", "aside")
    repo.git("reflog", "expire", "--expire=now", "--all")
    before = where.database.stat().st_size
    [garbage] = found(home)[Kind.COMMITS]
    assert before > garbage.bytes > before // 2
    sweep(home)
    assert where.database.stat().st_size < before
    fresh = run(repo, tmp_path / "fresh")
    assert content(where) == content(fresh)
    with database.reading(where) as connection:
        assert maintenance.broken_promises(connection) == {}


# Rows by what they say: numbers of rows and of words depend on what came before.
CONTENT = {
    "commits": "SELECT * FROM commits",
    "hunks": "SELECT * EXCLUDE hunk_id FROM hunks",
    "symbols": "SELECT * EXCLUDE hunk_id, commit_sha, file_path FROM hunk_symbols JOIN hunks USING (hunk_id)",
    "vectors": "SELECT text_digest, embedding FROM vectors",
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


def content(where: Place) -> dict[str, list[Any]]:
    with database.reading(where) as connection:
        return {
            name: connection.execute(f"FROM ({sql}) ORDER BY ALL").fetchall() for name, sql in CONTENT.items()
        }


def test_cut_history_is_kept(repo: Repo, home: Path, tmp_path: Path) -> None:
    """A clone that becomes shallow keeps what its index knows of what was cut off."""
    repo.commit_file("b.py", "b = 1\n")
    clone = repo.clone(tmp_path / "clone")
    run(clone, home)
    clone.git("fetch", "--quiet", "--depth=1")
    clone.git("reflog", "expire", "--expire=now", "--all")
    assert Kind.COMMITS not in found(home)


def test_a_damaged_history_is_kept(repo: Repo, home: Path) -> None:
    """Where git cannot say what its branches reach, nothing is taken for unreached."""
    lost = repo.commit_file("b.py", "b = 1\n")
    run(repo, home)
    repo.git("reset", "--quiet", "--hard", "HEAD~1")
    run(repo, home)
    repo.git("reflog", "expire", "--expire=now", "--all")
    assert found(home)[Kind.COMMITS]
    (repo.path / ".git" / "refs" / "heads" / "broken").write_text("1" * 40 + "\n", encoding="ascii")
    assert found(home) == {}
    assert lost in recorded(repo, home)
