"""Watcher: changed files are attached to maps, with real files, observers and maps."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from watchdog.events import FileSystemEventHandler
from watchdog.observers.api import BaseObserver

from mindmap.document import ROOT, EditResult, Mindmap, utc_now
from mindmap.file_events import (
    KERNEL_TICK,
    DetectedChanges,
    EventBatch,
    EventKind,
    FileChange,
    WatchStatus,
    detect_changes,
)
from mindmap.file_touches import TOUCHED_FILES, TouchInput, attach_files
from mindmap.map_store import MapStore
from mindmap.observer import NO_WATCH_ALLOWED, OWN_LIMIT_REACHED
from mindmap.watcher import Watcher
from tests.mindmap.sample_maps import NOON, create_map, find_id
from tests.mindmap.watcher_helpers import (
    TIMEOUT_SECONDS,
    create_watched_map,
    find_git,
    read_actions_by_path,
    read_files_by_path,
    wait_until,
)
from tests.repos import Repo


def test_files_are_attached(store: MapStore, watcher: Watcher, repo: Repo) -> None:
    """Created, modified and deleted files attach to the task in progress in one batch; ignored files do not."""
    mindmap_id = create_watched_map(store, watcher, repo.path)
    repo.write("new/deep/new.py", "new\n")
    repo.write("old.py", "changed\n")
    (repo.path / "deep/er/gone.py").unlink()
    repo.write("fleeting.py", "x")
    (repo.path / "fleeting.py").unlink()
    for name in ("a.log", "node_modules/x/a.js", "a.tmp", "a.swp", "a~", "build/out", "data/m.json"):
        repo.write(name, "x\n")
    (repo.path / "last.py").symlink_to("old.py")
    document = wait_until(store, mindmap_id, lambda document: "last.py" in read_actions_by_path(document))
    assert read_actions_by_path(document) == {
        "new/deep/new.py": "create",
        "old.py": "modify",
        "deep/er/gone.py": "delete",
        "last.py": "create",
    }
    assert read_files_by_path(document)["old.py"].summary == "Auto-detected file modify"
    assert document.activity_log[0].message == "Auto-detected changes of 4 files"
    repo.write("new/deep/new.py", "newer\n")
    document = wait_until(
        store, mindmap_id, lambda document: read_actions_by_path(document)["new/deep/new.py"] == "modify"
    )
    assert document.activity_log[0].message == "Auto-detected file modify: new/deep/new.py"
    assert document.activity_log[0].file == "new/deep/new.py"


def save_by_renaming_over(path: Path) -> None:
    """Save like many editors: write another file, rename it over the old one."""
    draft = path.with_name(f"{path.name}.1234")
    draft.write_text("saved\n")
    draft.replace(path)


def save_by_renaming_away(path: Path) -> None:
    """Save like other editors: rename the old file, write a new one."""
    path.rename(path.with_name(f"{path.name}~"))
    path.write_text("saved\n")


@pytest.mark.parametrize("save", [save_by_renaming_over, save_by_renaming_away])
def test_saving_by_rename(
    store: MapStore, watcher: Watcher, repo: Repo, save: Callable[[Path], None]
) -> None:
    """A save by rename is one modification of the file."""
    mindmap_id = create_watched_map(store, watcher, repo.path)
    save(repo.path / "saved.py")
    save_by_renaming_over(repo.path / "made.py")
    document = wait_until(
        store, mindmap_id, lambda document: {"saved.py", "made.py"} <= read_actions_by_path(document).keys()
    )
    assert read_actions_by_path(document) == {"saved.py": "modify", "made.py": "create"}


def test_thousands_at_once(store: MapStore, watcher: Watcher, repo: Repo) -> None:
    """Thousands of files in new directories are all attached."""
    mindmap_id = create_watched_map(store, watcher, repo.path)
    for number in range(3_000):
        repo.write(f"new/{number % 50}/f{number}.py", "x\n")
    wait_until(store, mindmap_id, lambda document: len(read_files_by_path(document)) == 3_000)


def test_without_task_and_git(store: MapStore, watcher: Watcher, tmp_path: Path) -> None:
    """Without a task in progress a node for touched files is created; a directory outside git is watched too."""
    (tmp_path / "plain").mkdir()
    document = create_map(workspace=str(tmp_path / "plain"))
    store.create(document)
    watcher.watch(document.id, str(tmp_path / "plain"))
    (tmp_path / "plain" / "a.log").write_text("x")
    document = wait_until(store, document.id, lambda document: len(document.nodes) > 1)
    assert set(read_files_by_path(document, TOUCHED_FILES)) == {"a.log"}


def test_two_watchers_record_an_event_once(store: MapStore, watcher: Watcher, repo: Repo) -> None:
    """If two watchers watch one workspace, only one records an event."""
    mindmap_id = create_watched_map(store, watcher, repo.path)
    other = Watcher(store, find_git)
    other.watch(mindmap_id, str(repo.path))
    repo.write("a.py", "x\n")
    repo.write("b.py", "x\n")
    wait_until(store, mindmap_id, lambda document: len(read_files_by_path(document)) == 2)
    for each in (other, watcher):
        each.stop()
    entries = [entry for entry in store.read(mindmap_id).activity_log if entry.message.startswith("Auto")]
    assert len(entries) == 1


def test_time_of_a_late_event(tmp_path: Path) -> None:
    """A late event has the time of the write, so it is not newer than a touch recorded in between."""
    (tmp_path / "a.py").write_text("x\n")
    time.sleep(0.1)
    touch_time = utc_now()
    time.sleep(0.1)
    for event_time, is_newer in ((utc_now(), False), ("2100-01-01T00:00:00.000Z", True)):
        batch = EventBatch()
        batch.add_file_event(b"a.py", EventKind.MODIFIED, event_time)
        (event,) = batch.compute_file_changes(os.fsencode(tmp_path))
        assert (event.timestamp > touch_time) == is_newer
    (tmp_path / "a.py").write_text("y\n")
    batch.add_file_event(b"a.py", EventKind.MODIFIED, utc_now())
    (event,) = batch.compute_file_changes(os.fsencode(tmp_path))
    assert event.timestamp > touch_time


def test_changes_with_equal_timestamps() -> None:
    """A change with the time of the file's touch is that touch; other files' changes of that time are recorded."""
    document = attach_files(create_map(), ROOT, [TouchInput("a.py", summary="Split")], "Touched", NOON)

    def list_recorded_paths(timestamp: str) -> list[str]:
        changes = [
            FileChange(path, existed_before=True, exists=True, timestamp=timestamp)
            for path in (b"a.py", b"b.py", b"c.py")
        ]
        edit = DetectedChanges(changes, frozenset(), frozenset(), {}).apply_to(document, utc_now())
        assert edit is not None
        return [touch.path for touch in edit.document.nodes[edit.ids[0]].files]

    assert list_recorded_paths(NOON) == ["b.py", "c.py"]
    assert list_recorded_paths(NOON.replace(".000Z", ".001Z")) == ["a.py", "b.py", "c.py"]


def test_touch_of_the_agent_stays(
    store: MapStore, watcher: Watcher, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event does not replace what the agent logged about a file, on any node; a rename stays a rename."""
    is_logged = threading.Event()

    def detect_when_logged(*arguments: Any) -> DetectedChanges:
        assert is_logged.wait(TIMEOUT_SECONDS)
        return detect_changes(*arguments)

    monkeypatch.setattr("mindmap.watcher.detect_changes", detect_when_logged)
    mindmap_id = create_watched_map(store, watcher, repo.path)
    (repo.path / "old.py").rename(repo.path / "new.py")
    repo.write("saved.py", "changed\n")
    time.sleep(KERNEL_TICK.total_seconds())  # a touch within a tick of the write may be older than the write
    touches = [TouchInput("new.py", "rename", "old.py", summary="Named for what it does")]
    store.change(mindmap_id, lambda document: attach_touches(document, find_id(document, "Task"), touches))
    store.change(
        mindmap_id,
        lambda document: attach_touches(document, ROOT, [TouchInput("saved.py", summary="Rewritten")]),
    )
    repo.write("other.py", "x\n")
    is_logged.set()
    document = wait_until(store, mindmap_id, lambda document: "other.py" in read_actions_by_path(document))
    assert read_actions_by_path(document) == {"new.py": "rename", "other.py": "create"}
    assert [touch.path for touch in document.nodes[ROOT].files] == ["saved.py"]
    repo.write("new.py", "later\n")
    before = read_files_by_path(document)["new.py"].timestamp
    document = wait_until(
        store, mindmap_id, lambda document: read_files_by_path(document)["new.py"].timestamp > before
    )
    touch = read_files_by_path(document)["new.py"]
    assert (touch.action, touch.summary) == ("rename", "Named for what it does")


def test_deletion_of_a_file_with_a_renamed_files_name(store: MapStore, watcher: Watcher, repo: Repo) -> None:
    """The deletion of a new file with the old name of a renamed file is recorded."""
    mindmap_id = create_watched_map(store, watcher, repo.path)
    (repo.path / "old.py").rename(repo.path / "new.py")
    touches = [TouchInput("new.py", "rename", "old.py")]
    store.change(mindmap_id, lambda document: attach_touches(document, find_id(document, "Task"), touches))
    repo.write("old.py", "another\n")
    document = wait_until(store, mindmap_id, lambda document: "old.py" in read_actions_by_path(document))
    (repo.path / "old.py").unlink()
    document = wait_until(
        store, mindmap_id, lambda document: read_actions_by_path(document)["old.py"] == "delete"
    )
    assert read_actions_by_path(document) == {"new.py": "rename", "old.py": "delete"}


def test_renames_by_git(store: MapStore, watcher: Watcher, repo: Repo) -> None:
    """A file that git renames is new under its new name, although git's index has it."""
    repo.commit_file("lib/old.py", "x\n")
    mindmap_id = create_watched_map(store, watcher, repo.path)
    repo.git("mv", "lib/old.py", "lib/new.py")
    document = wait_until(store, mindmap_id, lambda document: len(read_actions_by_path(document)) == 2)
    assert read_actions_by_path(document) == {"lib/old.py": "delete", "lib/new.py": "create"}


def test_committed_files_that_are_created_again(store: MapStore, watcher: Watcher, repo: Repo) -> None:
    """A committed file is modified when it is created again, and not recorded if it has its old content."""
    for name in ("a", "b", "c"):
        repo.commit_file(f"lib/{name}.py", "x\n")
    mindmap_id = create_watched_map(store, watcher, repo.path)
    read = [TouchInput("lib/a.py", "read")]
    store.change(mindmap_id, lambda document: attach_touches(document, find_id(document, "Task"), read))
    (repo.path / "lib").rename(repo.path / "moved")
    (repo.path / "moved").rename(repo.path / "lib")
    repo.write("lib/b.py", "y\n")
    document = wait_until(store, mindmap_id, lambda document: len(read_actions_by_path(document)) == 2)
    assert read_actions_by_path(document) == {"lib/a.py": "read", "lib/b.py": "modify"}
    (repo.path / "lib/c.py").unlink()
    wait_until(store, mindmap_id, lambda document: read_actions_by_path(document).get("lib/c.py") == "delete")
    repo.git("checkout", "--quiet", "lib/c.py")
    document = wait_until(
        store, mindmap_id, lambda document: read_actions_by_path(document).get("lib/c.py") == "modify"
    )
    assert read_actions_by_path(document) == {"lib/a.py": "read", "lib/b.py": "modify", "lib/c.py": "modify"}


@pytest.mark.parametrize(
    "command",
    [
        ("switch", "other"),
        ("reset", "--hard", "other"),
        ("pull", "--ff-only", ".", "other"),
        ("rebase", "other"),
        ("stash",),
    ],
    ids=lambda command: command[0],
)
def test_files_of_a_checkout(store: MapStore, watcher: Watcher, repo: Repo, command: tuple[str, ...]) -> None:
    """Files that git writes or deletes when it moves HEAD are not recorded; files edited meanwhile are."""
    repo.branch("other")
    repo.write("old.py", "other\n")
    repo.write("lib/new.py", "other\n")
    repo.remove("deep")
    repo.commit("Change the other branch")
    repo.switch("main")
    if command[0] == "rebase":
        repo.commit_file("mine.py", "mine\n")
    if command[0] == "stash":
        repo.write("old.py", "mine\n")
    mindmap_id = create_watched_map(store, watcher, repo.path)
    repo.git(*command)
    repo.write("saved.py", "edited\n")
    wait_until(store, mindmap_id, lambda document: "saved.py" in read_actions_by_path(document))
    watcher.stop()  # records the last events
    assert read_actions_by_path(store.read(mindmap_id)) == {"saved.py": "modify"}


def test_changes_that_stay_changes(store: MapStore, watcher: Watcher, repo: Repo) -> None:
    """Files that the agent commits at once, also before a new branch, or gets from the stash, are recorded."""
    mindmap_id = create_watched_map(store, watcher, repo.path)
    repo.commit_file("old.py", "committed\n")
    repo.git("switch", "--create", "topic")
    wait_until(store, mindmap_id, lambda document: len(read_actions_by_path(document)) == 1)
    repo.remove("deep")
    repo.commit("Remove")
    wait_until(store, mindmap_id, lambda document: len(read_actions_by_path(document)) == 2)
    repo.write("saved.py", "edited\n")
    repo.git("stash")
    repo.git("stash", "pop")
    document = wait_until(store, mindmap_id, lambda document: "saved.py" in read_actions_by_path(document))
    assert read_actions_by_path(document) == {
        "old.py": "modify",
        "deep/er/gone.py": "delete",
        "saved.py": "modify",
    }


def test_index_lock(store: MapStore, watcher: Watcher, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes are recorded after a running git command has ended; the lock of a killed one has no effect."""
    monkeypatch.setattr("mindmap.watcher.BATCH_SECONDS", 0.05)
    mindmap_id = create_watched_map(store, watcher, repo.path)
    lock = repo.write(".git/index.lock", "")
    repo.write("old.py", "changed\n")
    time.sleep(0.5)
    assert not read_actions_by_path(store.read(mindmap_id))
    lock.unlink()
    wait_until(store, mindmap_id, lambda document: "old.py" in read_actions_by_path(document))
    os.utime(repo.write(".git/index.lock", ""), (0, 0))
    repo.write("saved.py", "changed\n")
    wait_until(store, mindmap_id, lambda document: "saved.py" in read_actions_by_path(document))


def attach_touches(document: Mindmap, node: str, touches: list[TouchInput]) -> EditResult:
    return EditResult(attach_files(document, node, touches, "Touched", utc_now()), "Touched")


def test_several_maps_and_workspaces(store: MapStore, watcher: Watcher, repo: Repo, tmp_path: Path) -> None:
    """Each map records changes in its own workspace; a deleted map does not affect the others."""
    other = Repo.create(tmp_path / "other")
    first, second, third = (
        create_watched_map(store, watcher, path) for path in (repo.path, repo.path, other.path)
    )
    store.delete(second)
    repo.write("a.py", "x\n")
    other.write("b.py", "x\n")
    assert read_actions_by_path(
        wait_until(store, first, lambda document: bool(read_actions_by_path(document)))
    ) == {"a.py": "create"}
    assert read_actions_by_path(
        wait_until(store, third, lambda document: bool(read_actions_by_path(document)))
    ) == {"b.py": "create"}
    assert store.directory.list_ids() in ([first, third], [third, first])


def test_deleted_workspace(store: MapStore, watcher: Watcher, repo: Repo) -> None:
    """A recreated workspace is watched again by a call."""
    mindmap_id = create_watched_map(store, watcher, repo.path)
    shutil.rmtree(repo.path)
    wait_until(store, mindmap_id, lambda document: read_actions_by_path(document).get("old.py") == "delete")
    repo.path.mkdir()
    assert watcher.watch(mindmap_id, str(repo.path)).is_watched
    (repo.path / "back.py").write_text("x")
    wait_until(store, mindmap_id, lambda document: read_actions_by_path(document).get("back.py") == "create")
    shutil.rmtree(repo.path)
    assert not watcher.watch(mindmap_id, str(repo.path)).is_watched


def test_system_limit_is_logged_once(
    store: MapStore, repo: Repo, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The system's limit of watches is logged once, and changes in watched directories are recorded."""
    schedule = BaseObserver.schedule

    def schedule_only_root(
        self: BaseObserver, handler: FileSystemEventHandler, path: str, **options: Any
    ) -> object:
        if path != str(repo.path):
            raise OSError(errno.ENOSPC, "inotify watch limit reached")
        return schedule(self, handler, path, **options)

    monkeypatch.setattr(BaseObserver, "schedule", schedule_only_root)
    watcher = Watcher(store, find_git)
    with caplog.at_level(logging.WARNING):
        mindmap_id = create_watched_map(store, watcher, repo.path)
        repo.write("deep/new/a.py", "x\n")
        repo.write("top.py", "x\n")
        document = wait_until(store, mindmap_id, lambda document: "top.py" in read_actions_by_path(document))
    watcher.stop()
    assert read_actions_by_path(document) == {"top.py": "create"}
    assert [record.getMessage() for record in caplog.records if "limit" in record.getMessage()] == [
        caplog.records[0].getMessage()
    ]
    assert "fs.inotify.max_user_watches" in caplog.text


@pytest.mark.parametrize("limit", ["watches", "threads"])
def test_limit_of_no_directory(
    store: MapStore, watcher: Watcher, repo: Repo, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    """A limit that prevents every watch is the reason why the workspace is not watched."""

    def refuse_thread(*_: object, **__: object) -> object:
        raise RuntimeError("can't start new thread")

    if limit == "threads":
        monkeypatch.setattr(BaseObserver, "schedule", refuse_thread)
    else:
        monkeypatch.setattr("mindmap.observer.MAX_WATCHES", 0)
    document = create_map(workspace=str(repo.path))
    store.create(document)
    message = f"Cannot watch {repo.path}: {NO_WATCH_ALLOWED}."
    assert watcher.watch(document.id, str(repo.path)) == WatchStatus(is_watched=False, message=message)
    assert not watcher.watch_status(document.id).is_watched


@pytest.mark.parametrize(("error", "is_logged"), [(errno.ENOSPC, True), (errno.ENOENT, False)])
def test_failed_restart_is_logged(
    store: MapStore,
    watcher: Watcher,
    repo: Repo,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: int,
    is_logged: bool,
) -> None:
    """If the observer of a replaced workspace cannot start, that is logged once, except for a missing directory."""
    create_watched_map(store, watcher, repo.path)
    attempts = threading.Semaphore(0)

    def fail(*_: object, **__: object) -> object:
        attempts.release()
        raise OSError(error, os.strerror(error))

    with caplog.at_level(logging.WARNING):
        monkeypatch.setattr("mindmap.watcher.CHECK_SECONDS", 0.05)
        monkeypatch.setattr("mindmap.watcher.BATCH_SECONDS", 0.05)
        monkeypatch.setattr(BaseObserver, "schedule", fail)
        repo.path.rename(repo.path.with_name("moved"))
        repo.path.mkdir()
        for _ in range(3):
            assert attempts.acquire(timeout=TIMEOUT_SECONDS)
    messages = [record.getMessage() for record in caplog.records if record.name == "mindmap.watcher"]
    message = f"event=watch_warning workspace={repo.path} Cannot watch {repo.path}: {os.strerror(error)}."
    assert messages == [message] * is_logged


def test_stopped_watcher_starts_no_observer(
    store: MapStore, watcher: Watcher, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that is still being recorded when `stop` returns does not start the observer again."""
    mindmap_id = create_watched_map(store, watcher, repo.path)
    is_recording, may_end = threading.Event(), threading.Event()
    change = store.change

    def change_slowly(*arguments: Any) -> object:
        is_recording.set()
        assert may_end.wait(TIMEOUT_SECONDS)
        return change(*arguments)

    monkeypatch.setattr(MapStore, "change", lambda _, *arguments: change_slowly(*arguments))
    monkeypatch.setattr("mindmap.watcher.EVENT_DELAY_SECONDS", 0.0)
    monkeypatch.setattr("mindmap.watcher.LAST_BATCH_SECONDS", 0.0)
    repo.write("a.py", "x\n")
    assert is_recording.wait(TIMEOUT_SECONDS)
    watcher.stop()
    may_end.set()
    assert watcher._thread is not None
    watcher._thread.join(TIMEOUT_SECONDS)
    assert read_actions_by_path(store.read(mindmap_id)) == {"a.py": "create"}
    assert not watcher.watch_status(mindmap_id).is_watched


def test_warnings_of_another_workspace(
    store: MapStore,
    watcher: Watcher,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An agent gets each warning about its own workspace, and none about another one."""
    monkeypatch.setattr("mindmap.observer.MAX_WATCHES", 1)
    limit = OWN_LIMIT_REACHED.format(1)
    paths = [tmp_path / "first", tmp_path / "second"]
    for path in paths:
        path.mkdir()
    first, second = (create_watched_map(store, watcher, path) for path in paths)

    def exceed_limit(mindmap_id: str, path: Path) -> None:
        (path / "new").mkdir()
        (path / "a.py").write_text("x\n")
        wait_until(store, mindmap_id, lambda document: bool(read_actions_by_path(document)))

    with caplog.at_level(logging.WARNING):
        exceed_limit(first, paths[0])
        assert watcher.watch(second, str(paths[1])) == WatchStatus(is_watched=True)
        assert watcher.watch(first, str(paths[0])).message == limit
        exceed_limit(second, paths[1])
        assert watcher.watch(second, str(paths[1])).message == limit
    assert [record.getMessage() for record in caplog.records] == [
        f"event=watch_warning workspace={path} {limit}" for path in paths
    ]


def test_maps_in_the_workspace_are_ignored(watcher: Watcher, store: MapStore, tmp_path: Path) -> None:
    """Changes of map files inside the workspace are not recorded."""
    document = create_map({"label": "Task", "status": "in_progress"}, workspace=str(tmp_path))
    store.create(document)
    watcher.watch(document.id, str(tmp_path))
    (tmp_path / "a.py").write_text("x")
    document = wait_until(store, document.id, lambda document: bool(read_actions_by_path(document)))
    watcher.stop()
    assert set(read_actions_by_path(store.read(document.id))) == {"a.py"}


def test_events_are_coalesced(tmp_path: Path) -> None:
    """The first event of a file and its state on disk decide the action."""
    for name in ("kept", "made"):
        (tmp_path / name).write_text("x")
    batch = EventBatch()
    for path, kinds in {
        b"kept": (EventKind.DELETED, EventKind.CREATED, EventKind.MODIFIED),
        b"made": (EventKind.CREATED, EventKind.MODIFIED),
        b"gone": (EventKind.MODIFIED, EventKind.DELETED),
        b"fleeting": (EventKind.CREATED, EventKind.DELETED),
        b"folder": (EventKind.CREATED,),
        b"moved/away": (EventKind.CREATED, EventKind.MODIFIED),
    }.items():
        for kind in kinds:
            batch.add_file_event(path, kind, NOON)
    (tmp_path / "folder").mkdir()
    actions = {
        event.path: event.resolve_action(is_committed=False, is_in_map=False)
        for event in batch.take_all().compute_file_changes(os.fsencode(tmp_path))
    }
    assert actions == {
        b"kept": "modify",
        b"made": "create",
        b"gone": "delete",
        b"fleeting": None,
    }
    assert not batch


def test_nested_new_directories(store: MapStore, watcher: Watcher, repo: Repo) -> None:
    """No file is lost in nested directories that are created faster than they can be watched."""
    mindmap_id = create_watched_map(store, watcher, repo.path)
    for number in range(200):
        repo.write(f"new/{number}/a/b/c/d/e/f.py", "x\n")
    wait_until(store, mindmap_id, lambda document: len(read_files_by_path(document)) == 200)
    repo.write("old.py", "later\n")
    wait_until(store, mindmap_id, lambda document: "old.py" in read_actions_by_path(document))
