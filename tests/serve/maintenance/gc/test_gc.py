"""`lineage gc`: listing, confirmation, and indexes of repositories that no longer exist."""

from __future__ import annotations

import errno
import json
import os
import pty
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serve.cli.render import format_status_table
from serve.cli.terminal import FAILED
from serve.maintenance import gc
from serve.maintenance.gc import NOTHING_TO_DELETE, ItemKind, check_repository
from serve.repositories import list_repositories
from stores import locks, maintenance
from stores.index_location import LOCATION_FILE, ForeignFolder, IndexLocation, list_indexes
from tests.repos import Repo
from tests.serve import sample_index
from tests.serve.commands import run_captured, run_lineage
from tests.serve.maintenance.gc.helpers import delete_items, find_items, find_location
from tests.serve.processes import start_lineage


@pytest.mark.usefixtures("repo")
def test_nothing_to_delete(home: Path) -> None:
    """An index that is needed has nothing to delete, and neither has a missing index directory."""
    assert find_items(home) == {}
    assert run_captured("gc") == (0, f"{NOTHING_TO_DELETE}\n", "")
    shutil.rmtree(home)
    assert run_captured("gc", "--yes") == (0, f"{NOTHING_TO_DELETE}\n", "")
    assert not home.exists()


def test_items_are_listed_before_deletion(repo: Repo, home: Path) -> None:
    """Without --yes and without a terminal the items are only listed."""
    other = Repo.create(repo.path.parent / "kept")
    folder = find_location(repo, home).folder
    shutil.rmtree(repo.path)
    code, out, err = run_captured("gc")
    assert (code, err) == (0, "")
    first, total, next_step = out.splitlines()
    assert first.endswith(f"index of {repo.path}: the repository was deleted or moved")
    assert total.endswith(" in 1 item.")
    assert next_step == "Nothing was deleted. Run `lineage gc --yes` to delete the items."
    assert folder.exists()
    code, out, _ = run_captured("gc", "--yes")
    assert code == 0 and out.splitlines()[-1].startswith("Deleted 1 item, about ")
    assert not folder.exists() and home.exists() and other.path.exists()


def test_terminal_user_is_asked(repo: Repo, home: Path) -> None:
    """On a terminal the user is asked once; the default is no."""
    folder = find_location(repo, home).folder
    (repo.path.parent / "neighbour").mkdir()
    shutil.rmtree(repo.path)
    for answer, should_exist in ((b"\n", True), (b"y\n", False)):
        terminal, program_terminal = pty.openpty()
        process = start_lineage(
            "gc", stdin=program_terminal, stdout=program_terminal, stderr=program_terminal
        )
        os.close(program_terminal)
        os.write(terminal, answer)
        output = b"".join(read_all(terminal))
        assert process.wait(60) == 0
        os.close(terminal)
        assert b"Delete 1 item? [y/N]" in output
        assert folder.exists() is should_exist


def read_all(descriptor: int) -> Iterator[bytes]:
    while True:
        try:
            chunk = os.read(descriptor, 4096)
        except OSError:  # on Linux: the other end is closed
            return
        if not chunk:
            return
        yield chunk


def test_unmounted_disk_needs_absent(repo: Repo, home: Path, tmp_path: Path) -> None:
    """With --yes alone an index on a disk that may be unmounted stays; --absent deletes it too."""
    disk = tmp_path / "disk"
    disk.mkdir()
    disk_repo = Repo.create(disk / "repo")
    disk_repo.commit_file("a.py", "a = 1\n")
    sample_index.build_index(disk_repo, home)
    folder = find_location(disk_repo, home).folder
    shutil.rmtree(disk / "repo")  # an empty directory is left, as after unmounting
    [item] = find_items(home)[ItemKind.INDEX]
    assert not item.is_certain and "may not be mounted" in item.reason
    delete_items(home)
    assert folder.exists()
    assert "--absent" in run_captured("gc")[1]
    assert run_captured("gc", "--absent")[0] == 2
    delete_items(home, include_uncertain=True)
    assert not folder.exists() and find_location(repo, home).folder.exists()


@pytest.mark.parametrize(
    ("path", "is_certain"),
    [
        ("/media/me/stick/repo", False),
        ("/Volumes/Disk/repo", False),
        ("/nowhere/repo", False),
        ("/repo", False),
    ],
)
def test_missing_path_on_a_mount_is_uncertain(path: str, is_certain: bool) -> None:
    """A missing path below a mount directory or at the root is not considered deleted."""
    status = check_repository(IndexLocation(Path("/home"), "repo-0123456789abcdef", Path(path), "a" * 40))
    assert status.reason and status.is_certain is is_certain


def test_work_tree_without_git_directory(repo: Repo, home: Path) -> None:
    """The index of a work tree without `.git` can be deleted; with a damaged `.git` it stays."""
    (repo.path / ".git" / "HEAD").write_text("ref: nowhere/at all\n", encoding="ascii")
    assert find_items(home) == {}
    shutil.rmtree(repo.path / ".git")
    [item] = find_items(home)[ItemKind.INDEX]
    assert item.is_certain and "no longer exists" in item.reason


def test_file_at_the_path(repo: Repo, home: Path) -> None:
    """The index of a directory that a file has replaced can be deleted."""
    shutil.rmtree(repo.path)
    repo.path.touch()
    [item] = find_items(home)[ItemKind.INDEX]
    assert item.is_certain and item.reason == "the repository no longer exists"


def test_another_repository_at_the_path(repo: Repo, home: Path) -> None:
    """If another repository has the path now, the old index is deleted and the new one stays."""
    old_folder = find_location(repo, home).folder
    shutil.rmtree(repo.path)
    new_repo = Repo.create(repo.path)
    new_repo.commit_file("b.py", "b = 1\n", "Something else")
    sample_index.build_index(new_repo, home)
    [item] = find_items(home)[ItemKind.INDEX]
    assert item.reason == "another repository has its path now"
    delete_items(home)
    assert not old_folder.exists() and find_location(new_repo, home).database.exists()


def test_clone_made_shallow_is_uncertain(repo: Repo, home: Path, tmp_path: Path) -> None:
    """If `git fetch --depth` cuts the first commit off, `lineage gc --yes` keeps the index."""
    repo.commit_file("b.py", "b = 1\n")
    folder = find_location(repo, home).folder
    repo.git("clone", "--bare", str(repo.path), str(tmp_path / "source.git"))
    repo.git("fetch", "--depth", "1", f"file://{tmp_path}/source.git", "main")
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "--prune=now")
    [item] = find_items(home)[ItemKind.INDEX]
    assert item.reason == "the shallow clone at its path lacks its first commit" and not item.is_certain
    assert run_lineage("gc", "--yes") == 0 and folder.exists()


def test_restored_repository_keeps_its_index(repo: Repo, home: Path, tmp_path: Path) -> None:
    """If the repository is restored between list and deletion, the index stays."""
    folder = find_location(repo, home).folder
    moved_path = repo.path.rename(tmp_path / "aside")
    [item] = find_items(home)[ItemKind.INDEX]
    moved_path.rename(repo.path)
    item.delete()
    assert (folder / "index.duckdb").exists()


def test_linked_index_directory_is_ignored(repo: Repo, home: Path, tmp_path: Path) -> None:
    """A link to a directory elsewhere is neither listed nor followed."""
    folder = find_location(repo, home).folder
    outside = folder.rename(tmp_path / "outside")
    folder.symlink_to(outside)
    shutil.rmtree(repo.path)
    assert find_items(home) == {}
    with pytest.raises(ForeignFolder):
        maintenance.delete_index(IndexLocation(home, folder.name, repo.path, None))
    assert (outside / "index.duckdb").exists()


def test_foreign_files_are_kept(repo: Repo, home: Path) -> None:
    """A file that lineage did not write is not deleted with the index."""
    folder = find_location(repo, home).folder
    (folder / "notes.txt").write_text("mine", encoding="ascii")
    shutil.rmtree(repo.path)
    delete_items(home)
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("content", ["{", "[]", None], ids=["cut", "other", "missing"])
def test_index_with_damaged_location_file(repo: Repo, home: Path, content: str | None) -> None:
    """Without a readable `place.json`, the index is listed with the path that it has itself, and not deleted."""
    location = find_location(repo, home)
    file = location.folder / LOCATION_FILE
    file.unlink() if content is None else file.write_text(content)
    assert [listed.path for listed in list_indexes(home)] == [repo.path]
    assert format_status_table(home).splitlines()[1].startswith(repo.path.name)
    assert [repository.path for repository in list_repositories(home)] == [str(repo.path)]
    assert find_items(home) == {}
    shutil.rmtree(repo.path)
    assert len(find_items(home)) == 1


def test_index_whose_location_file_names_another_path(repo: Repo, home: Path, tmp_path: Path) -> None:
    """While the repository that an index records itself exists, an edited `place.json` changes nothing.

    Queries then search the repository, and its index is not offered for deletion. If the user moved the repository, the
    edited file counts.
    """
    location = find_location(repo, home)
    file = location.folder / LOCATION_FILE
    (tmp_path / "other").mkdir()
    for name in ("absent", "other", "\\ud800"):
        file.write_text(
            json.dumps({"path": str(repo.path), "first_commit": "a" * 40}).replace("/repo", f"/{name}")
        )
        assert [listed.path for listed in list_indexes(home)] == [repo.path]
        assert [repository.path for repository in list_repositories(home)] == [str(repo.path)]
        assert find_items(home) == {}
    file.write_text(json.dumps({"path": str(tmp_path / "moved"), "first_commit": location.first_commit}))
    repo.path.rename(tmp_path / "moved")
    assert [repository.path for repository in list_repositories(home)] == [str(tmp_path / "moved")]


def test_unreadable_index_directory(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """An index directory without permissions is named, the others are listed and deleted, and the command fails."""
    absent = find_location(repo, home).folder
    shutil.rmtree(repo.path)
    folder = home / "other-0123456789abcdef"
    folder.mkdir()
    stat = os.stat

    def refuse(path: Any, *args: Any, **options: Any) -> os.stat_result:
        if str(path) == f"{folder}/.":  # root may read everything
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return stat(path, *args, **options)

    monkeypatch.setattr(os, "stat", refuse)
    assert run_lineage("gc", "--yes") == FAILED
    output, errors = capfd.readouterr()
    assert "Deleted 1 item" in output and not absent.exists() and folder.exists()
    assert f"warning: {folder} cannot be read. It is left out.\n" in errors
    assert "error: Not all index directories could be read.\n" in errors


def test_an_index_in_use_is_named(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """An index that another process holds is not checked, and a warning says so after a short wait."""
    location = find_location(repo, home)
    monkeypatch.setattr(gc, "INDEX_WAIT_SECONDS", 0.0)
    with locks.acquire_index(location.folder, exclusive=True, deadline=locks.Deadline.after(0)):
        delete_items(home)
    output, errors = capfd.readouterr()
    assert output == f"{NOTHING_TO_DELETE}\n"
    assert errors.startswith(
        f"warning: The index of {repo.path} is not checked. The index is still in use by "
    )
