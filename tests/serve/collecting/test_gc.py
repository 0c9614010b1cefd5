"""`lineage gc`: only what nobody can miss goes, it is shown before, and what stays is as if it had been made anew."""

from __future__ import annotations

import fcntl
import os
import pty
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from pipeline.encoder import EMBEDDING_MODEL, OnnxEncoder
from pipeline.git.repository import open_repository
from pipeline.run import Options, Pass
from serve.collecting import fate as fates
from serve.collecting import page
from serve.collecting.collect import Kept, collect
from serve.collecting.garbage import Garbage, Kind
from serve.collecting.survey import survey
from serve.daemon.address import Address
from serve.placing import place_of
from stores import compaction, database, embeddings, integrity, litter, pruning, runs, writing
from stores.places import Place
from stores.versions import EMBEDDING_DIMENSION
from tests.repos import Repo
from tests.serve import indexed
from tests.serve.test_cli import lineage, start


@pytest.fixture
def repo(tmp_path: Path, home: Path) -> Repo:
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("src/tcp.py", "def connect():\n    timeout()\n", "Add a timeout to connect")
    indexed.index(repo, home)
    return repo


def place(repo: Repo, home: Path) -> Place:
    return place_of(home, open_repository(repo.path))


def found(home: Path) -> dict[Kind, list[Garbage]]:
    kinds: dict[Kind, list[Garbage]] = {}
    for one in survey(home):
        kinds.setdefault(one.kind, []).append(one)
    return kinds


def sweep(home: Path, *, absent: bool = False) -> None:
    collect(home, yes=True, absent=absent, ask=None)


def recorded(repo: Repo, home: Path) -> set[str]:
    with database.reading(place(repo, home)) as connection:
        return {sha for (sha,) in connection.execute("SELECT commit_sha FROM commits").fetchall()}


@pytest.mark.usefixtures("repo")
def test_nothing_to_collect(home: Path) -> None:
    """An index that is in use has no garbage, and no home has none."""
    assert found(home) == {}
    assert lineage("gc") == (0, "Nothing to collect.\n", "")
    shutil.rmtree(home)
    assert lineage("gc", "--yes") == (0, "Nothing to collect.\n", "")
    assert not home.exists()


def test_shown_before_deleted(repo: Repo, home: Path) -> None:
    """Without --yes, and without a person to ask, the list is all there is."""
    other = Repo.create(repo.path.parent / "kept")
    folder = place(repo, home).folder
    shutil.rmtree(repo.path)
    code, out, err = lineage("gc")
    assert (code, err) == (0, "")
    first, total, how = out.splitlines()
    assert first.endswith(f"index of {repo.path}: the repository was deleted")
    assert total.endswith(" in 1.") and how == "Nothing was deleted; `lineage gc --yes` does it."
    assert folder.exists()
    code, out, _ = lineage("gc", "--yes")
    assert code == 0 and out.splitlines()[-1].startswith("Collected 1, about ")
    assert not folder.exists() and home.exists() and other.path.exists()


def test_a_person_is_asked(repo: Repo, home: Path) -> None:
    """On a terminal one question decides; no is the default."""
    folder = place(repo, home).folder
    (repo.path.parent / "neighbour").mkdir()
    shutil.rmtree(repo.path)
    for answer, stays in ((b"\n", True), (b"y\n", False)):
        ours, theirs = pty.openpty()
        process = start("gc", stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        os.write(ours, answer)
        said = b"".join(read_all(ours))
        assert process.wait(60) == 0
        os.close(ours)
        assert b"Delete 1? [y/N]" in said
        assert folder.exists() is stays


def read_all(descriptor: int) -> Iterator[bytes]:
    while True:
        try:
            part = os.read(descriptor, 4096)
        except OSError:  # Linux's way to say that the other end is closed
            return
        if not part:
            return
        yield part


def test_an_unmounted_disk(repo: Repo, home: Path, tmp_path: Path) -> None:
    """What may only be unmounted stays with --yes, and goes when that is said too."""
    disk = tmp_path / "disk"
    disk.mkdir()
    moved = Repo.create(disk / "repo")
    moved.commit_file("a.py", "a = 1\n")
    indexed.index(moved, home)
    folder = place(moved, home).folder
    shutil.rmtree(disk / "repo")  # what is left is an empty folder, as without its disk
    [garbage] = found(home)[Kind.INDEX]
    assert not garbage.sure and "may not be mounted" in garbage.why
    sweep(home)
    assert folder.exists()
    assert "--absent" in lineage("gc")[1]
    assert lineage("gc", "--absent")[0] == 2
    sweep(home, absent=True)
    assert not folder.exists() and place(repo, home).folder.exists()


@pytest.mark.parametrize(
    ("path", "sure"),
    [
        ("/media/me/stick/repo", False),
        ("/Volumes/Disk/repo", False),
        ("/nowhere/repo", False),
        ("/repo", False),
    ],
)
def test_where_disks_come_and_go(path: str, sure: bool) -> None:
    """Under the folders of mounts, and at the root, nothing that is missing is taken for deleted."""
    became = fates.fate(Place(Path("/home"), "repo-0123456789abcdef", Path(path), "a" * 40))
    assert became.reason and became.sure is sure


def test_no_repository_any_more(repo: Repo, home: Path) -> None:
    """A work tree without its `.git` has no history left; a damaged `.git` is not touched."""
    (repo.path / ".git" / "HEAD").write_text("ref: nowhere/at all\n", encoding="ascii")
    assert found(home) == {}
    shutil.rmtree(repo.path / ".git")
    [garbage] = found(home)[Kind.INDEX]
    assert garbage.sure and "no repository any more" in garbage.why


def test_another_repository_in_its_place(repo: Repo, home: Path) -> None:
    """A repository without the first commit of the index has an index of its own."""
    old = place(repo, home).folder
    shutil.rmtree(repo.path)
    again = Repo.create(repo.path)
    again.commit_file("b.py", "b = 1\n", "Something else")
    indexed.index(again, home)
    [garbage] = found(home)[Kind.INDEX]
    assert garbage.why == "another repository is there now"
    sweep(home)
    assert not old.exists() and place(again, home).database.exists()


def test_it_came_back_meanwhile(repo: Repo, home: Path, tmp_path: Path) -> None:
    """Between list and deletion somebody puts the repository back: the index stays."""
    folder = place(repo, home).folder
    aside = repo.path.rename(tmp_path / "aside")
    [garbage] = found(home)[Kind.INDEX]
    aside.rename(repo.path)
    garbage.sweep()
    assert (folder / "index.duckdb").exists()


def test_a_folder_outside_the_home(repo: Repo, home: Path, tmp_path: Path) -> None:
    """A link to a folder elsewhere is neither listed nor followed."""
    folder = place(repo, home).folder
    outside = folder.rename(tmp_path / "outside")
    folder.symlink_to(outside)
    shutil.rmtree(repo.path)
    assert found(home) == {}
    with pytest.raises(writing.RefusedDeletion):
        writing.delete_index(Place(home, folder.name, repo.path, None))
    assert (outside / "index.duckdb").exists()


def test_what_is_not_ours_stays(repo: Repo, home: Path) -> None:
    """A file that somebody put into an index folder outlives the index."""
    folder = place(repo, home).folder
    (folder / "notes.txt").write_text("mine", encoding="ascii")
    shutil.rmtree(repo.path)
    sweep(home)
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_only_what_nothing_reaches(repo: Repo, home: Path, tmp_path: Path) -> None:
    """A branch, a tag, a reflog, a stash and the HEAD of another work tree each keep a commit."""
    lost = {}
    for keeper in ("branch", "tag", "worktree", "stash", "reflog", "nothing"):
        repo.git("switch", "--quiet", "--detach", "main")
        lost[keeper] = repo.commit_file(f"{keeper}.py", f"def {keeper}(): ...\n")
        indexed.index(repo, home)
    repo.switch("main")
    indexed.index(repo, home)
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
    indexed.index(repo, home)
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
        assert integrity.broken_promises(connection) == {}


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


def test_leftovers_of_killed_runs(repo: Repo, home: Path) -> None:
    """Drafts, spilt rows, a log without its index and a stale lock of the commit-graph go; the index stays."""
    where = place(repo, home)
    for name in (
        compaction.DRAFT,
        f"{compaction.DRAFT}.wal",
        "place.json.4711",
        "spill/part",
        "git/info/x.lock",
    ):
        file = where.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * 1000)
    [garbage] = found(home)[Kind.LEFTOVER]
    assert garbage.bytes >= 5000
    sweep(home)
    assert found(home) == {}
    assert len(recorded(repo, home)) == 1


def cache(where: Place, model: str, count: int) -> None:
    """Keep so many vectors in the cache, as a run does."""
    keys = [number.to_bytes(16, "big") for number in range(count)]
    chance = np.random.default_rng(count).random((count, EMBEDDING_DIMENSION), np.float32)
    rows = [keys, keys, chance.tolist()]
    entries = pa.table(
        [pa.array(row, kind) for row, kind in zip(rows, embeddings.ENTRIES.types, strict=True)],
        schema=embeddings.ENTRIES,
    )
    with embeddings.opened(where, model) as opened:
        assert opened is not None
        opened.keep(entries)


def cached(where: Place) -> list[tuple[str, int]]:
    with duckdb.connect(str(where.embeddings), read_only=True) as connection:
        return connection.execute("SELECT embed_model, count(*) FROM embeddings GROUP BY ALL").fetchall()


def test_vectors_of_another_model(repo: Repo, home: Path) -> None:
    """Cached vectors that no run looks up go, ours stay, and the room is given back."""
    where = place(repo, home)
    file = where.embeddings
    cache(where, "former", 3_000)
    cache(where, EMBEDDING_MODEL, 1_000)
    before = file.stat().st_size
    [garbage] = found(home)[Kind.CACHE]
    assert garbage.what.startswith("3,000 cached vectors") and garbage.bytes == before * 3 // 4
    (where.folder / pruning.DRAFT).write_bytes(b"of a run that was killed")
    sweep(home)
    assert cached(where) == [(EMBEDDING_MODEL, 1_000)]
    assert file.stat().st_size < before // 2 and file.stat().st_mode & 0o777 == 0o600
    assert found(home) == {}
    file.write_bytes(b"damaged")
    assert found(home) == {}
    shutil.rmtree(repo.path)
    (repo.path.parent / "neighbour").mkdir(exist_ok=True)
    sweep(home)
    assert not where.folder.exists()


def test_a_run_at_work_keeps_its_files(repo: Repo, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """While a run holds the index nothing of it goes; the rest does, and the exit code tells."""
    where = place(repo, home)
    (where.folder / compaction.DRAFT).write_bytes(b"x")
    other = home / "gone-0123456789abcdef"
    other.mkdir()
    with (where.folder / "run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Kept, match="1 of 2 stay"):
            sweep(home)
    assert "at work on this repository" in capsys.readouterr().err
    assert (where.folder / compaction.DRAFT).exists() and not other.exists()


def test_a_dead_socket(home: Path) -> None:
    """The socket of a killed daemon goes, that of a living one does not."""
    address = Address(home)
    address.prepare()
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind(str(address.socket))
        daemon.listen()
        assert found(home) == {}
    [garbage] = found(home)[Kind.LEFTOVER]
    assert garbage.what == str(address.socket)
    sweep(home)
    assert not address.socket.exists()


def test_killed_on_the_way(repo: Repo, home: Path) -> None:
    """Killed between its steps, the next one ends what was begun."""
    where = place(repo, home)
    shutil.rmtree(repo.path)
    (repo.path.parent / "neighbour").mkdir(exist_ok=True)
    with runs.sole_run(where):
        writing.delete_index(where)  # and here the first one was killed
    assert [one.why for one in found(home)[Kind.LEFTOVER]] == ["its index was deleted"]
    sweep(home)
    assert not where.folder.exists()


def test_killed_at_any_moment(repo: Repo, home: Path) -> None:
    """Killed with -9 wherever it is, the index stays whole and keeps what is needed; the next one ends the work."""
    for number in range(20):
        repo.commit_file(f"lost{number}.py", f"def lost{number}():\n    vanish()\n")
    indexed.index(repo, home)
    repo.git("reset", "--quiet", "--hard", "HEAD~20")
    repo.commit_file("kept.py", "def kept(): ...\n")
    indexed.index(repo, home)
    repo.git("reflog", "expire", "--expire=now", "--all")
    where, kept = place(repo, home), set(repo.git("rev-list", "HEAD").split())
    for tenths in range(2, 22, 4):
        process = start("gc", "--yes")
        time.sleep(tenths / 10)
        process.kill()
        process.communicate()
        with database.reading(where) as connection:
            assert integrity.read_all(connection) and integrity.broken_promises(connection) == {}
        assert kept <= recorded(repo, home)
    sweep(home)
    assert recorded(repo, home) == kept and found(home) == {}


def test_litter_knows_its_folders(home: Path) -> None:
    """Folders that are no index are not looked at, whatever is in them."""
    for name in ("models", "daemon", "notes-0123", "notes-0123456789abcdef"):
        (home / name).mkdir(parents=True)
    (home / "notes-0123456789abcdef" / "diary.txt").touch()
    assert list(litter.empty_folders(home)) == [] == list(litter.indexes(home))


def test_amounts() -> None:
    """Bytes as a person reads them, and no control character of a path."""
    assert [page.amount(size) for size in (0, 1500, 2_000_000, 3_210_000_000)] == [
        "0 B",
        "1.5 kB",
        "2.0 MB",
        "3.2 GB",
    ]
    assert "\x1b" not in page.line(Garbage(Kind.INDEX, "\x1b[31m", "", 0, lambda: None))
