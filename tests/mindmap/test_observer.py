"""Observers of workspaces: moved, deleted, recreated, ignored and too many directories."""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from watchdog.events import DirCreatedEvent, FileSystemEventHandler

from mindmap import observer
from mindmap.document import Mindmap, utc_now
from mindmap.file_events import WatchStatus
from mindmap.map_store import MapStore
from mindmap.nodes import set_workspace
from mindmap.observer import EVENT_DELAY_SECONDS, WorkspaceObserver
from mindmap.watcher import LAST_BATCH_SECONDS, Watcher
from tests.mindmap.sample_maps import create_map
from tests.mindmap.watcher_helpers import (
    TIMEOUT_SECONDS,
    create_watched_map,
    find_git,
    read_actions_by_path,
    read_files_by_path,
    wait_until,
)
from tests.repos import Repo


@pytest.fixture(autouse=True)
def frequent_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check workspaces often, so that tests do not wait long."""
    monkeypatch.setattr("mindmap.watcher.CHECK_SECONDS", 0.2)


def list_watched_directories(top: Path) -> set[str]:
    """Return the directories at and below `top` that the kernel watches for this process, by their last two names."""
    inodes = list_watched_inodes()
    paths: list[Path] = []
    for path in (Path(directory) for directory, _, _ in os.walk(top)):
        with suppress(FileNotFoundError):
            paths += [path] if path.stat().st_ino in inodes else []
    return {"/".join(path.parts[-2:]) if path.name != "repo" else "repo" for path in paths}


def list_watched_inodes() -> list[int]:
    """Return the inode of each inotify watch that the kernel holds for this process."""
    inodes: list[int] = []
    for file in Path("/proc/self/fdinfo").iterdir():
        with suppress(OSError):
            inodes += [
                int(inode, 16) for inode in re.findall(r"^inotify .*?\bino:(\w+)", file.read_text(), re.M)
            ]
    return inodes


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_directory_moved_out_of_the_workspace(
    store: MapStore, watcher: Watcher, repo: Repo, tmp_path: Path
) -> None:
    """Files in a directory moved out of the workspace count as deleted; later changes there are not recorded."""
    repo.write("deep/er/untracked.py", "x\n")
    mindmap_id = create_watched_map(store, watcher, repo.path)
    repo.write("deep/er/known.py", "x\n")
    wait_until(store, mindmap_id, lambda document: "deep/er/known.py" in read_actions_by_path(document))
    (repo.path / "deep").rename(tmp_path / "out")
    (tmp_path / "out/er/gone.py").write_text("elsewhere\n")
    (tmp_path / "out/er/elsewhere.py").write_text("x\n")
    deleted = {"deep/er/gone.py": "delete", "deep/er/known.py": "delete"}
    wait_until(store, mindmap_id, lambda document: read_actions_by_path(document) == deleted)
    wait_for(lambda: list_watched_directories(repo.path.parent) == {"repo"})
    (tmp_path / "out/er/gone.py").write_text("still elsewhere\n")
    repo.write("deep/er/new.py", "again\n")
    document = wait_until(
        store, mindmap_id, lambda document: "deep/er/new.py" in read_actions_by_path(document)
    )
    assert read_actions_by_path(document) == {**deleted, "deep/er/new.py": "create"}
    wait_for(lambda: list_watched_directories(repo.path.parent) == {"repo", "repo/deep", "deep/er"})


def test_directory_moved_within_the_workspace(store: MapStore, watcher: Watcher, repo: Repo) -> None:
    """A directory that is moved within the workspace is watched in its new place, unless git ignores it there."""
    mindmap_id = create_watched_map(store, watcher, repo.path)
    (repo.path / "deep").rename(repo.path / "deeper")
    moved = {"deep/er/gone.py": "delete", "deeper/er/gone.py": "create"}
    wait_until(store, mindmap_id, lambda document: read_actions_by_path(document) == moved)
    repo.write("deeper/er/gone.py", "later\n")
    wait_until(
        store, mindmap_id, lambda document: read_actions_by_path(document)["deeper/er/gone.py"] == "modify"
    )
    wait_for(lambda: list_watched_directories(repo.path.parent) == {"repo", "repo/deeper", "deeper/er"})
    (repo.path / "deeper/er").rename(repo.path / "er.log")
    wait_until(
        store, mindmap_id, lambda document: read_actions_by_path(document)["deeper/er/gone.py"] == "delete"
    )
    wait_for(lambda: list_watched_directories(repo.path.parent) == {"repo", "repo/deeper"})
    assert "er.log/gone.py" not in read_actions_by_path(store.read(mindmap_id))


@pytest.mark.parametrize("moved", ["outer/repo", "outer"], ids=["itself", "its parent"])
def test_moved_workspace(store: MapStore, watcher: Watcher, repo: Repo, tmp_path: Path, moved: str) -> None:
    """A workspace that is moved away is not followed; a new directory at its path is watched again."""
    workspace, away = tmp_path / "outer/repo", tmp_path / "away"
    workspace.parent.mkdir()
    repo.path.rename(workspace)
    mindmap_id = create_watched_map(store, watcher, workspace)
    (tmp_path / moved).rename(away)
    moved_workspace = away if moved == "outer/repo" else away / "repo"
    (moved_workspace / "old.py").unlink()
    (moved_workspace / "saved.py").write_text("elsewhere\n")
    wait_for(lambda: list_watched_directories(moved_workspace) == set())
    workspace.mkdir(parents=True)
    wait_for(lambda: list_watched_directories(workspace) == {"repo"})
    (workspace / "back.py").write_text("x\n")
    wait_until(store, mindmap_id, lambda document: "back.py" in read_actions_by_path(document))
    (moved_workspace / "saved.py").write_text("elsewhere still\n")
    watcher.stop()
    assert read_actions_by_path(store.read(mindmap_id)) == {"back.py": "create"}


def test_recreated_workspace(store: MapStore, watcher: Watcher, repo: Repo) -> None:
    """A workspace that is deleted and recreated is watched again without a call."""
    mindmap_id = create_watched_map(store, watcher, repo.path)
    for path in sorted(repo.path.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    repo.path.rmdir()
    repo.path.mkdir()
    wait_until(
        store, mindmap_id, lambda document: read_actions_by_path(document).get("deep/er/gone.py") == "delete"
    )
    wait_for(lambda: list_watched_directories(repo.path.parent) == {"repo"})
    (repo.path / "back.py").write_text("x\n")
    wait_until(store, mindmap_id, lambda document: read_actions_by_path(document).get("back.py") == "create")


def test_map_that_got_another_workspace(
    store: MapStore, watcher: Watcher, repo: Repo, tmp_path: Path
) -> None:
    """A map that got another workspace does not record changes in the first one, even if that comes back."""
    mindmap_id = create_watched_map(store, watcher, repo.path)
    repo.path.rename(tmp_path / "away")
    other = Repo.create(tmp_path / "other")
    store.change(mindmap_id, lambda document: set_workspace(document, str(other.path), utc_now()))
    assert watcher.watch(mindmap_id, str(other.path)).is_watched
    (tmp_path / "away").rename(repo.path)
    wait_for(lambda: list_watched_directories(repo.path) == set())
    repo.write("old.py", "first\n")
    other.write("b.py", "second\n")
    assert set(
        read_actions_by_path(
            wait_until(store, mindmap_id, lambda document: "b.py" in read_actions_by_path(document))
        )
    ) == {"b.py"}


def test_map_moved_to_another_workspace(
    store: MapStore, watcher: Watcher, repo: Repo, tmp_path: Path
) -> None:
    """A workspace whose only map moves to another one is no longer watched, even if nothing changes in it."""
    mindmap_id = create_watched_map(store, watcher, repo.path)
    other = Repo.create(tmp_path / "other")
    store.change(mindmap_id, lambda document: set_workspace(document, str(other.path), utc_now()))
    assert watcher.watch(mindmap_id, str(other.path)).is_watched
    wait_for(lambda: list_watched_directories(repo.path) == set())
    other.write("b.py", "x\n")
    wait_until(store, mindmap_id, lambda document: read_actions_by_path(document) == {"b.py": "create"})


def has_files(count: int, document: Mindmap) -> bool:
    return len(read_files_by_path(document)) == count


def test_map_moved_by_another_process(store: MapStore, watcher: Watcher, repo: Repo, tmp_path: Path) -> None:
    """A map that another process moves to another workspace records no changes of the first one, and leaves it."""
    moved, witness = (create_watched_map(store, watcher, repo.path) for _ in range(2))
    store.change(moved, lambda document: set_workspace(document, str(tmp_path / "other"), utc_now()))
    # The second batch begins after the first is recorded in every map.
    for count, path in enumerate(("a.py", "b.py"), 1):
        repo.write(path, "x\n")
        wait_until(store, witness, partial(has_files, count))
    assert read_actions_by_path(store.read(moved)) == {}
    assert [watcher.watch_status(each).is_watched for each in (moved, witness)] == [False, True]


@pytest.mark.parametrize("_", range(3))
def test_events_right_before_stop(store: MapStore, repo: Repo, tmp_path: Path, _: int) -> None:
    """Events right before `stop` are recorded, the delayed half of a rename too, and `stop` returns soon."""
    watcher = Watcher(store, find_git)
    mindmap_id = create_watched_map(store, watcher, repo.path)
    (repo.path / "saved.py").rename(tmp_path / "out.py")
    repo.write("old.py", "last\n")
    start = time.monotonic()
    watcher.stop()
    assert time.monotonic() - start < EVENT_DELAY_SECONDS + LAST_BATCH_SECONDS
    assert read_actions_by_path(store.read(mindmap_id)) == {"old.py": "modify", "saved.py": "delete"}


def test_watching_during_events(store: MapStore, watcher: Watcher, repo: Repo, tmp_path: Path) -> None:
    """Starting watches while another workspace has many events does not deadlock."""
    create_watched_map(store, watcher, repo.path)
    other = create_map()
    store.create(other)
    stopped = threading.Event()

    def write() -> None:
        while not stopped.is_set():
            repo.write("old.py", str(time.monotonic()))

    def watch_many() -> None:
        for number in range(40):
            folder = tmp_path / f"other{number}"
            folder.mkdir()
            watcher.watch(other.id, str(folder))

    writer, watch_thread = (threading.Thread(target=target, daemon=True) for target in (write, watch_many))
    writer.start()
    watch_thread.start()
    watch_thread.join(TIMEOUT_SECONDS)
    stopped.set()
    assert not watch_thread.is_alive()
    writer.join(TIMEOUT_SECONDS)


def test_home_is_not_watched(
    store: MapStore, watcher: Watcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The home directory and its parents are not watched, with a reason; a directory in it is."""
    home = tmp_path / "home"
    (home / "project").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    document = create_map()
    store.create(document)
    for path, reason in (
        ("/", "a parent of your home directory"),
        (tmp_path, "a parent"),
        (home, "is your home"),
    ):
        for _ in range(2):
            status = watcher.watch(document.id, str(path))
            assert not status.is_watched
            assert reason in status.message and "Give the directory of one project" in status.message
    assert not list_watched_directories(home)
    assert watcher.watch(document.id, str(home / "project")) == WatchStatus(is_watched=True)


def test_limit_of_watched_directories(
    store: MapStore, repo: Repo, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If there are too many directories, some are watched; the limit is logged once and reported to one caller."""
    for number in range(9):
        repo.write(f"f{number}/a.py", "x\n")
    monkeypatch.setattr(observer, "MAX_WATCHES", 5)
    watcher = Watcher(store, find_git)
    document = create_map(workspace=str(repo.path))
    store.create(document)
    with caplog.at_level(logging.WARNING):
        first = watcher.watch(document.id, str(repo.path))
        second = watcher.watch(document.id, str(repo.path))
        repo.write("f10/a.py", "x\n")
        repo.write("last.py", "x\n")
        wait_until(store, document.id, lambda document: len(document.nodes) > 1)
    assert first.is_watched and "The limit of 5 watched directories" in first.message
    assert second == WatchStatus(is_watched=True)
    assert len(list_watched_directories(repo.path.parent)) == 5
    assert len([record for record in caplog.records if "limit of 5" in record.getMessage()]) == 1
    watcher.stop()


def test_share_of_system_watches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most a quarter of the system's watches is used."""
    monkeypatch.setattr(observer, "SYSTEM_LIMIT_FILE", tmp_path / "limit")
    assert observer.compute_max_watches() == observer.MAX_WATCHES
    (tmp_path / "limit").write_text("4096\n")
    assert observer.compute_max_watches() == 1024


def test_directory_found_twice(
    tmp_path: Path, recwarn: pytest.WarningsRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    """A directory that is found twice, as while it is being filled, is watched once and without a warning."""
    workspace_observer = WorkspaceObserver(
        os.fsencode(tmp_path), FileSystemEventHandler(), lambda _: False, logging.getLogger().warning
    )
    wait_for(lambda: not list_watched_inodes())
    (tmp_path / "new").mkdir()  # before the start, so that the kernel reports no event that arrives later
    workspace_observer.start()
    try:
        for _ in range(2):
            workspace_observer.on_any_event(DirCreatedEvent(str(tmp_path / "new")))
        assert len(list_watched_inodes()) == 2
        workspace_observer.unwatch_directory(os.fsencode(tmp_path / "new"))
        assert len(list_watched_inodes()) == 1
    finally:
        workspace_observer.stop()
    assert not recwarn.list and not caplog.records


def test_ignored_directories_are_not_watched(store: MapStore, watcher: Watcher, repo: Repo) -> None:
    """A directory that git ignores is not watched, whether it existed before, is new, or is newly ignored."""
    repo.write(".gitignore", "/venv/\n/later/\n")
    repo.write("venv/lib/x/a.py", "x\n")
    repo.write("venv2/a.py", "x\n")
    repo.write("node_modules/x/a.js", "x\n")
    mindmap_id = create_watched_map(store, watcher, repo.path)
    root = {"repo", "repo/deep", "deep/er"}
    assert list_watched_directories(repo.path.parent) == {*root, "repo/venv2"}
    repo.write("later/lib/x/a.py", "x\n")
    repo.write("now/lib/a.py", "x\n")
    wait_for(
        lambda: list_watched_directories(repo.path.parent) == {*root, "repo/venv2", "repo/now", "now/lib"}
    )
    repo.write(".gitignore", "/venv2/\n")
    wait_for(lambda: {*root, "repo/venv", "later/lib"} < list_watched_directories(repo.path.parent))
    wait_for(lambda: "repo/venv2" not in list_watched_directories(repo.path.parent))
    repo.write("venv/lib/x/b.py", "x\n")
    document = wait_until(
        store, mindmap_id, lambda document: "venv/lib/x/b.py" in read_actions_by_path(document)
    )
    assert "later/lib/x/a.py" not in read_actions_by_path(document)


def test_tracked_file_in_an_ignored_directory(store: MapStore, watcher: Watcher, repo: Repo) -> None:
    """A directory that git ignores but tracks a file of is watched."""
    repo.write(".gitignore", "out/\n")
    repo.write("out/kept.py", "x\n")
    repo.git("add", "--force", "out/kept.py")
    repo.commit("Keep it")
    mindmap_id = create_watched_map(store, watcher, repo.path)
    repo.write("out/kept.py", "y\n")
    repo.write("out/other.py", "y\n")
    wait_until(
        store, mindmap_id, lambda document: read_actions_by_path(document) == {"out/kept.py": "modify"}
    )


def test_without_git(
    store: MapStore, repo: Repo, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a git program files are recorded too, with a warning that ignore rules do not apply."""
    monkeypatch.setenv("PATH", "")
    watcher = Watcher(store, find_git)
    with caplog.at_level(logging.WARNING):
        mindmap_id = create_watched_map(store, watcher, repo.path)
        (repo.path / "a.log").write_text("x\n")
        wait_until(store, mindmap_id, lambda document: read_actions_by_path(document) == {"a.log": "create"})
        (repo.path / "b.log").write_text("x\n")
        wait_until(store, mindmap_id, lambda document: len(read_files_by_path(document)) == 2)
    watcher.stop()
    messages = [
        record.getMessage() for record in caplog.records if "git was not found" in record.getMessage()
    ]
    assert len(messages) == len(set(messages)) == 2


def test_recursive_observer(store: MapStore, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recursive watch of other systems attaches files too."""
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    watcher = Watcher(store, find_git)
    mindmap_id = create_watched_map(store, watcher, repo.path)
    repo.write("old.py", "x\n")
    repo.write("new/a.py", "x\n")
    wait_until(
        store, mindmap_id, lambda document: set(read_actions_by_path(document)) == {"old.py", "new/a.py"}
    )
    watcher.stop()
