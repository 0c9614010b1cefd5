"""`lineage gc` and the indexes of repositories that are gone: shown before they go, and only what nobody can miss."""

from __future__ import annotations

import os
import pty
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from serve.maintenance import gc as fates
from serve.maintenance.gc import Kind
from stores import writer
from stores.index_location import ForeignFolder, Place
from tests.repos import Repo
from tests.serve import sample_index
from tests.serve.maintenance.gc.helpers import found, place, sweep
from tests.serve.processes import lineage, start


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
    assert first.endswith(f"index of {repo.path}: the repository was deleted or moved")
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
    sample_index.index(moved, home)
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
    sample_index.index(again, home)
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
    with pytest.raises(ForeignFolder):
        writer.delete_index(Place(home, folder.name, repo.path, None))
    assert (outside / "index.duckdb").exists()


def test_what_is_not_ours_stays(repo: Repo, home: Path) -> None:
    """A file that somebody put into an index folder outlives the index."""
    folder = place(repo, home).folder
    (folder / "notes.txt").write_text("mine", encoding="ascii")
    shutil.rmtree(repo.path)
    sweep(home)
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
