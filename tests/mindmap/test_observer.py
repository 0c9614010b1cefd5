"""Folders under watch that are moved, deleted, made again, ignored, or too many: real folders, real observers."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mindmap import inotify_observer
from mindmap.document import now
from mindmap.file_events import Watching
from mindmap.map_store import Maps
from mindmap.nodes import settle_in
from mindmap.observer import WholeTrees
from mindmap.watcher import LAST_SECONDS, QUIET_SECONDS, Watcher
from tests.mindmap.sample_maps import a_map
from tests.mindmap.watcher_helpers import PATIENCE, actions, files, git_for, until, watched
from tests.repos import Repo


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look often whether folders are the same, or the tests would wait."""
    monkeypatch.setattr("mindmap.watcher.LOOK_SECONDS", 0.2)


def folders(watcher: Watcher) -> set[str]:
    """The folders that are watched, of all workspaces, by their last two names; every watch is of one of them."""
    observer = watcher._observer
    assert isinstance(observer, inotify_observer.SparingObserver)
    paths: list[Path] = []

    def each_watch_has_its_folder() -> bool:
        paths[:] = [
            Path(os.fsdecode(path))
            for watch in list(observer._emitter_for_watch)
            if (group := observer._group(watch)) is not None
            for path in list(group._active_callbacks_by_watch.values())
        ]
        return len(paths) >= len(observer._descriptor._watch_for_wd)

    # Of one that comes or goes one place knows before the other.
    eventually(each_watch_has_its_folder)
    return {"/".join(path.parts[-2:]) if path.name != "repo" else "repo" for path in paths}


def eventually(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_folder_moved_out(maps: Maps, watcher: Watcher, repo: Repo, tmp_path: Path) -> None:
    """A folder that is moved out of the workspace takes its files away, and what happens in it then is not told."""
    repo.write("deep/er/untracked.py", "x\n")
    mindmap_id = watched(maps, watcher, repo.path)
    repo.write("deep/er/known.py", "x\n")
    until(maps, mindmap_id, lambda document: "deep/er/known.py" in actions(document))
    (repo.path / "deep").rename(tmp_path / "out")
    (tmp_path / "out/er/gone.py").write_text("elsewhere\n")
    (tmp_path / "out/er/elsewhere.py").write_text("x\n")
    gone = {"deep/er/gone.py": "delete", "deep/er/known.py": "delete"}
    until(maps, mindmap_id, lambda document: actions(document) == gone)
    assert folders(watcher) == {"repo"}
    (tmp_path / "out/er/gone.py").write_text("still elsewhere\n")
    repo.write("deep/er/new.py", "again\n")
    document = until(maps, mindmap_id, lambda document: "deep/er/new.py" in actions(document))
    assert actions(document) == {**gone, "deep/er/new.py": "create"}
    assert folders(watcher) == {"repo", "repo/deep", "deep/er"}


def test_folder_moved_within(maps: Maps, watcher: Watcher, repo: Repo) -> None:
    """A folder that is moved within the workspace is watched where it is now, unless git ignores it there."""
    mindmap_id = watched(maps, watcher, repo.path)
    (repo.path / "deep").rename(repo.path / "deeper")
    moved = {"deep/er/gone.py": "delete", "deeper/er/gone.py": "create"}
    until(maps, mindmap_id, lambda document: actions(document) == moved)
    repo.write("deeper/er/gone.py", "later\n")
    until(maps, mindmap_id, lambda document: actions(document)["deeper/er/gone.py"] == "modify")
    assert folders(watcher) == {"repo", "repo/deeper", "deeper/er"}
    (repo.path / "deeper/er").rename(repo.path / "er.log")
    until(maps, mindmap_id, lambda document: actions(document)["deeper/er/gone.py"] == "delete")
    eventually(lambda: folders(watcher) == {"repo", "repo/deeper"})
    assert "er.log/gone.py" not in actions(maps.read(mindmap_id))


@pytest.mark.parametrize("moved", ["outer/repo", "outer"], ids=["itself", "its parent"])
def test_workspace_moved(maps: Maps, watcher: Watcher, repo: Repo, tmp_path: Path, moved: str) -> None:
    """A workspace that is moved away is not followed, and is watched again when a folder of its name is there."""
    place, away = tmp_path / "outer/repo", tmp_path / "away"
    place.parent.mkdir()
    repo.path.rename(place)
    mindmap_id = watched(maps, watcher, place)
    (tmp_path / moved).rename(away)
    inside = away if moved == "outer/repo" else away / "repo"
    (inside / "old.py").unlink()
    (inside / "saved.py").write_text("elsewhere\n")
    time.sleep(1.5)
    assert files(maps.read(mindmap_id)) == {}
    place.mkdir(parents=True)
    eventually(lambda: folders(watcher) == {"repo"})
    (place / "back.py").write_text("x\n")
    until(maps, mindmap_id, lambda document: "back.py" in actions(document))
    (inside / "saved.py").write_text("elsewhere still\n")
    time.sleep(1.0)
    assert actions(maps.read(mindmap_id)) == {"back.py": "create"}


def test_workspace_deleted_and_made_again(maps: Maps, watcher: Watcher, repo: Repo) -> None:
    """A workspace that is deleted and made again is watched again, though nobody asks."""
    mindmap_id = watched(maps, watcher, repo.path)
    for path in sorted(repo.path.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    repo.path.rmdir()
    repo.path.mkdir()
    until(maps, mindmap_id, lambda document: actions(document).get("deep/er/gone.py") == "delete")
    eventually(lambda: folders(watcher) == {"repo"})
    (repo.path / "back.py").write_text("x\n")
    until(maps, mindmap_id, lambda document: actions(document).get("back.py") == "create")


def test_map_with_another_workspace(maps: Maps, watcher: Watcher, repo: Repo, tmp_path: Path) -> None:
    """A map whose workspace went and that got another hears no more of the first when that is there again."""
    mindmap_id = watched(maps, watcher, repo.path)
    repo.path.rename(tmp_path / "away")
    other = Repo.create(tmp_path / "other")
    maps.change(mindmap_id, lambda document: settle_in(document, str(other.path), now()))
    assert watcher.watch(mindmap_id, str(other.path)).is_on
    (tmp_path / "away").rename(repo.path)
    time.sleep(0.5)
    repo.write("old.py", "first\n")
    other.write("b.py", "second\n")
    assert set(actions(until(maps, mindmap_id, lambda document: "b.py" in actions(document)))) == {"b.py"}


@pytest.mark.parametrize("_", range(3))
def test_last_instant(maps: Maps, repo: Repo, tmp_path: Path, _: int) -> None:
    """What happened right before the end is recorded, what a rename keeps waiting too, and the end is soon."""
    watcher = Watcher(maps, git_for)
    mindmap_id = watched(maps, watcher, repo.path)
    (repo.path / "saved.py").rename(tmp_path / "out.py")
    repo.write("old.py", "last\n")
    began = time.monotonic()
    watcher.stop()
    assert time.monotonic() - began < QUIET_SECONDS + LAST_SECONDS
    assert actions(maps.read(mindmap_id)) == {"old.py": "modify", "saved.py": "delete"}


def test_watched_while_it_is_forgotten(maps: Maps, watcher: Watcher, repo: Repo) -> None:
    """A map that comes to a workspace just as its last one goes keeps it under watch."""
    mindmap_id = watched(maps, watcher, repo.path)
    (one,) = watcher._watched.values()
    watcher._forget(one)
    repo.write("old.py", "x\n")
    until(maps, mindmap_id, lambda document: bool(actions(document)))


def test_watching_under_load(maps: Maps, watcher: Watcher, repo: Repo, tmp_path: Path) -> None:
    """Workspaces are taken under watch while another is told of much: nobody waits for the other forever."""
    watched(maps, watcher, repo.path)
    other = a_map()
    maps.create(other)
    ended = threading.Event()

    def write() -> None:
        while not ended.is_set():
            repo.write("old.py", str(time.monotonic()))

    def watch_many() -> None:
        for number in range(40):
            folder = tmp_path / f"other{number}"
            folder.mkdir()
            watcher.watch(other.id, str(folder))

    writing, watching = (threading.Thread(target=target, daemon=True) for target in (write, watch_many))
    writing.start()
    watching.start()
    watching.join(PATIENCE)
    ended.set()
    assert not watching.is_alive()
    writing.join(PATIENCE)


def test_what_may_not_be_watched(
    maps: Maps, watcher: Watcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The home folder and what is above it are not watched, and the reason is said; a folder in it may be."""
    home = tmp_path / "home"
    (home / "project").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    document = a_map()
    maps.create(document)
    for path, what in (("/", "more than your home folder"), (tmp_path, "more than"), (home, "is your home")):
        for _ in range(2):
            answer = watcher.watch(document.id, str(path))
            assert not answer.is_on
            assert what in answer.remark and "Name the folder of one project" in answer.remark
    assert watcher._observer is None
    assert watcher.watch(document.id, str(home / "project")) == Watching(is_on=True)


def test_own_limit(
    maps: Maps, repo: Repo, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of very many folders some are watched; that the others are not is said once, to the log and to who asks."""
    for number in range(9):
        repo.write(f"f{number}/a.py", "x\n")
    monkeypatch.setattr(inotify_observer, "MOST_WATCHES", 5)
    watcher = Watcher(maps, git_for)
    document = a_map(workspace=str(repo.path))
    maps.create(document)
    with caplog.at_level(logging.WARNING):
        first = watcher.watch(document.id, str(repo.path))
        second = watcher.watch(document.id, str(repo.path))
        repo.write("f10/a.py", "x\n")
        time.sleep(0.3)
    assert first.is_on and "5 folders are watched, and no more" in first.remark
    assert second == Watching(is_on=True)
    assert len(folders(watcher)) == 5
    assert len([record for record in caplog.records if "no more" in record.getMessage()]) == 1
    watcher.stop()


def test_share_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However little the system allows, most of it is left to others."""
    monkeypatch.setattr(inotify_observer, "ALLOWED", tmp_path / "allowed")
    assert inotify_observer.most_watches() == inotify_observer.MOST_WATCHES
    (tmp_path / "allowed").write_text("8192\n")
    assert inotify_observer.most_watches() == 2048


def test_ignored_folders(maps: Maps, watcher: Watcher, repo: Repo) -> None:
    """A folder that git ignores is not watched, be it there before, made later, or ignored from now on."""
    repo.write(".gitignore", "/venv/\n/later/\n")
    repo.write("venv/lib/x/a.py", "x\n")
    repo.write("venv2/a.py", "x\n")
    repo.write("node_modules/x/a.js", "x\n")
    mindmap_id = watched(maps, watcher, repo.path)
    root = {"repo", "repo/deep", "deep/er"}
    assert folders(watcher) == {*root, "repo/venv2"}
    repo.write("later/lib/x/a.py", "x\n")
    repo.write("now/lib/a.py", "x\n")
    eventually(lambda: folders(watcher) == {*root, "repo/venv2", "repo/now", "now/lib"})
    repo.write(".gitignore", "/venv2/\n")
    eventually(lambda: {*root, "repo/venv", "later/lib"} < folders(watcher))
    eventually(lambda: "repo/venv2" not in folders(watcher))
    repo.write("venv/lib/x/b.py", "x\n")
    document = until(maps, mindmap_id, lambda document: "venv/lib/x/b.py" in actions(document))
    assert "later/lib/x/a.py" not in actions(document)


def test_tracked_in_an_ignored_folder(maps: Maps, watcher: Watcher, repo: Repo) -> None:
    """A folder that git would ignore and yet has a file of is watched."""
    repo.write(".gitignore", "out/\n")
    repo.write("out/kept.py", "x\n")
    repo.git("add", "--force", "out/kept.py")
    repo.commit("Keep it")
    mindmap_id = watched(maps, watcher, repo.path)
    repo.write("out/kept.py", "y\n")
    repo.write("out/other.py", "y\n")
    until(maps, mindmap_id, lambda document: actions(document) == {"out/kept.py": "modify"})


def test_without_git(
    maps: Maps, repo: Repo, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a git program files are recorded all the same, and that its rules are not kept is said."""
    monkeypatch.setenv("PATH", "")
    watcher = Watcher(maps, git_for)
    with caplog.at_level(logging.WARNING):
        mindmap_id = watched(maps, watcher, repo.path)
        (repo.path / "a.log").write_text("x\n")
        until(maps, mindmap_id, lambda document: actions(document) == {"a.log": "create"})
        (repo.path / "b.log").write_text("x\n")
        until(maps, mindmap_id, lambda document: len(files(document)) == 2)
    watcher.stop()
    said = [record.getMessage() for record in caplog.records if "git was not found" in record.getMessage()]
    assert len(said) == len(set(said)) == 2


def test_elsewhere(maps: Maps, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system tells of whole trees, its own observer serves as well."""
    monkeypatch.setattr("mindmap.watcher.observer", lambda _: WholeTrees())
    watcher = Watcher(maps, git_for)
    mindmap_id = watched(maps, watcher, repo.path)
    repo.write("old.py", "x\n")
    repo.write("new/a.py", "x\n")
    until(maps, mindmap_id, lambda document: set(actions(document)) == {"old.py", "new/a.py"})
    watcher.stop()
