"""Workspaces under watch: real files, real observers, real maps."""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from watchdog.observers.inotify_c import (
    WATCHDOG_ALL_EVENTS,
    CallbackId,
    InotifyEvent,
    InotifyFD,
    WatchDescriptor,
)

from mindmap.document import ROOT, Edited, Mindmap, now
from mindmap.file_events import Kind, Pending
from mindmap.file_touches import TOUCHED_FILES, Touch, attach
from mindmap.map_store import Maps
from mindmap.watcher import Watcher
from tests.mindmap.sample_maps import NOON, a_map, id_of
from tests.mindmap.watcher_helpers import actions, files, git_for, until, watched
from tests.repos import Repo


def test_files_are_attached(maps: Maps, watcher: Watcher, repo: Repo) -> None:
    """What is created, modified and deleted goes to the active task in one batch; what is ignored does not."""
    mindmap_id = watched(maps, watcher, repo.path)
    repo.write("new/deep/new.py", "new\n")
    repo.write("old.py", "changed\n")
    (repo.path / "deep/er/gone.py").unlink()
    repo.write("fleeting.py", "x")
    (repo.path / "fleeting.py").unlink()
    for name in ("a.log", "node_modules/x/a.js", "a.tmp", "a.swp", "a~", "build/out", "data/m.json"):
        repo.write(name, "x\n")
    (repo.path / "last.py").symlink_to("old.py")
    document = until(maps, mindmap_id, lambda document: "last.py" in actions(document))
    assert actions(document) == {
        "new/deep/new.py": "create",
        "old.py": "modify",
        "deep/er/gone.py": "delete",
        "last.py": "create",
    }
    assert files(document)["old.py"].summary == "Auto-detected file modify"
    assert document.activity_log[0].message == "Auto-detected changes of 4 files"
    repo.write("new/deep/new.py", "newer\n")
    document = until(maps, mindmap_id, lambda document: actions(document)["new/deep/new.py"] == "modify")
    assert document.activity_log[0].message == "Auto-detected file modify: new/deep/new.py"
    assert document.activity_log[0].file == "new/deep/new.py"


def save_over(path: Path) -> None:
    """As many editors do: write beside, rename over."""
    draft = path.with_name(f"{path.name}.1234")
    draft.write_text("saved\n")
    draft.replace(path)


def save_behind(path: Path) -> None:
    """As others do: rename the old away, write anew."""
    path.rename(path.with_name(f"{path.name}~"))
    path.write_text("saved\n")


@pytest.mark.parametrize("save", [save_over, save_behind])
def test_saving_by_rename(maps: Maps, watcher: Watcher, repo: Repo, save: Callable[[Path], None]) -> None:
    """An editor that saves by renaming has modified the file, and nothing else."""
    mindmap_id = watched(maps, watcher, repo.path)
    save(repo.path / "saved.py")
    save_over(repo.path / "made.py")
    document = until(maps, mindmap_id, lambda document: {"saved.py", "made.py"} <= actions(document).keys())
    assert actions(document) == {"saved.py": "modify", "made.py": "create"}


def test_thousands_at_once(maps: Maps, watcher: Watcher, repo: Repo) -> None:
    """Thousands of files in new folders are all attached."""
    mindmap_id = watched(maps, watcher, repo.path)
    for number in range(3_000):
        repo.write(f"new/{number % 50}/f{number}.py", "x\n")
    until(maps, mindmap_id, lambda document: len(files(document)) == 3_000)


def test_without_a_task_and_without_git(maps: Maps, watcher: Watcher, tmp_path: Path) -> None:
    """Without an active task there is a node for touched files; a folder outside git is watched as well."""
    (tmp_path / "plain").mkdir()
    document = a_map(workspace=str(tmp_path / "plain"))
    maps.create(document)
    watcher.watch(document.id, str(tmp_path / "plain"))
    (tmp_path / "plain" / "a.log").write_text("x")
    document = until(maps, document.id, lambda document: len(document.nodes) > 1)
    assert set(files(document, TOUCHED_FILES)) == {"a.log"}


def test_two_servers(maps: Maps, watcher: Watcher, repo: Repo) -> None:
    """Of two servers that watch one workspace, one records an event."""
    mindmap_id = watched(maps, watcher, repo.path)
    other = Watcher(maps, git_for)
    other.watch(mindmap_id, str(repo.path))
    repo.write("a.py", "x\n")
    repo.write("b.py", "x\n")
    until(maps, mindmap_id, lambda document: len(files(document)) == 2)
    other.stop()
    time.sleep(1.0)
    entries = [entry for entry in maps.read(mindmap_id).activity_log if entry.message.startswith("Auto")]
    assert len(entries) == 1


def test_a_write_that_is_told_of_late(tmp_path: Path) -> None:
    """A write happened when its file says so: what an agent says of it is not older for being heard of sooner."""
    (tmp_path / "a.py").write_text("x\n")
    time.sleep(0.1)
    said = now()
    time.sleep(0.1)
    for told, is_news in ((now(), False), ("2100-01-01T00:00:00.000Z", True)):
        pending = Pending()
        pending.add(b"a.py", Kind.MODIFIED, told)
        (event,) = pending.settled(os.fsencode(tmp_path))
        assert (event.at > said) == is_news
    (tmp_path / "a.py").write_text("y\n")
    pending.add(b"a.py", Kind.MODIFIED, now())
    (event,) = pending.settled(os.fsencode(tmp_path))
    assert event.at > said


def test_agent_was_first(maps: Maps, watcher: Watcher, repo: Repo) -> None:
    """What the agent says of a file it saved is not said over, on whatever node; its rename stays a rename."""
    mindmap_id = watched(maps, watcher, repo.path)
    (repo.path / "old.py").rename(repo.path / "new.py")
    repo.write("saved.py", "changed\n")
    given = [Touch("new.py", "rename", "old.py", summary="Named for what it does")]
    maps.change(mindmap_id, lambda document: _attached(document, id_of(document, "Task"), given))
    maps.change(
        mindmap_id, lambda document: _attached(document, ROOT, [Touch("saved.py", summary="Rewritten")])
    )
    repo.write("other.py", "x\n")
    document = until(maps, mindmap_id, lambda document: "other.py" in actions(document))
    assert actions(document) == {"new.py": "rename", "other.py": "create"}
    assert [touch.path for touch in document.nodes[ROOT].files] == ["saved.py"]
    repo.write("new.py", "later\n")
    before = files(document)["new.py"].timestamp
    document = until(maps, mindmap_id, lambda document: files(document)["new.py"].timestamp > before)
    touch = files(document)["new.py"]
    assert (touch.action, touch.summary) == ("rename", "Named for what it does")


def test_deletion_under_a_renamed_name(maps: Maps, watcher: Watcher, repo: Repo) -> None:
    """A file that came to have the old name of a renamed one can be deleted like any other."""
    mindmap_id = watched(maps, watcher, repo.path)
    (repo.path / "old.py").rename(repo.path / "new.py")
    given = [Touch("new.py", "rename", "old.py")]
    maps.change(mindmap_id, lambda document: _attached(document, id_of(document, "Task"), given))
    repo.write("old.py", "another\n")
    document = until(maps, mindmap_id, lambda document: "old.py" in actions(document))
    (repo.path / "old.py").unlink()
    document = until(maps, mindmap_id, lambda document: actions(document)["old.py"] == "delete")
    assert actions(document) == {"new.py": "rename", "old.py": "delete"}


def _attached(document: Mindmap, node: str, touches: list[Touch]) -> Edited:
    return Edited(attach(document, node, touches, "Touched", now()), "Touched")


def test_many_maps_and_folders(maps: Maps, watcher: Watcher, repo: Repo, tmp_path: Path) -> None:
    """Each map hears of its own workspace; a map that is deleted is heard of no more, and keeps nobody from others."""
    other = Repo.create(tmp_path / "other")
    first, second, third = (watched(maps, watcher, path) for path in (repo.path, repo.path, other.path))
    maps.delete(second)
    repo.write("a.py", "x\n")
    other.write("b.py", "x\n")
    assert actions(until(maps, first, lambda document: bool(actions(document)))) == {"a.py": "create"}
    assert actions(until(maps, third, lambda document: bool(actions(document)))) == {"b.py": "create"}
    assert maps.folder.ids() in ([first, third], [third, first])


def test_deleted_workspace(maps: Maps, watcher: Watcher, repo: Repo) -> None:
    """A workspace that was deleted and is there again is watched again when asked."""
    mindmap_id = watched(maps, watcher, repo.path)
    shutil.rmtree(repo.path)
    until(maps, mindmap_id, lambda document: actions(document).get("old.py") == "delete")
    repo.path.mkdir()
    assert watcher.watch(mindmap_id, str(repo.path)).is_on
    (repo.path / "back.py").write_text("x")
    until(maps, mindmap_id, lambda document: actions(document).get("back.py") == "create")
    shutil.rmtree(repo.path)
    time.sleep(0.8)
    assert not watcher.watch(mindmap_id, str(repo.path)).is_on


def test_limit_is_said_once(
    maps: Maps, repo: Repo, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the system has no more watches to give it is said once, and what is watched is recorded."""
    give = InotifyFD.add_callback

    def give_one(self: InotifyFD, path: bytes, *rest: Any) -> object:
        if path != os.fsencode(repo.path):
            raise OSError(28, "inotify watch limit reached")
        return give(self, path, *rest)

    monkeypatch.setattr(InotifyFD, "add_callback", give_one)
    watcher = Watcher(maps, git_for)
    with caplog.at_level(logging.WARNING):
        mindmap_id = watched(maps, watcher, repo.path)
        repo.write("deep/new/a.py", "x\n")
        repo.write("top.py", "x\n")
        document = until(maps, mindmap_id, lambda document: "top.py" in actions(document))
    watcher.stop()
    assert actions(document) == {"top.py": "create"}
    assert [record.getMessage() for record in caplog.records if "limit" in record.getMessage()] == [
        caplog.records[0].getMessage()
    ]
    assert "fs.inotify.max_user_watches" in caplog.text


def test_last_batch(maps: Maps, repo: Repo) -> None:
    """What happened just before the end is recorded, and the end does not take long."""
    watcher = Watcher(maps, git_for)
    mindmap_id = watched(maps, watcher, repo.path)
    repo.write("old.py", "last\n")
    time.sleep(0.2)
    began = time.monotonic()
    watcher.stop()
    assert time.monotonic() - began < 1.5
    assert actions(maps.read(mindmap_id)) == {"old.py": "modify"}


def test_data_directory_in_the_workspace(watcher: Watcher, maps: Maps, tmp_path: Path) -> None:
    """Maps kept inside a workspace are no work of anybody."""
    document = a_map({"label": "Task", "status": "in_progress"}, workspace=str(tmp_path))
    maps.create(document)
    watcher.watch(document.id, str(tmp_path))
    (tmp_path / "a.py").write_text("x")
    document = until(maps, document.id, lambda document: bool(actions(document)))
    time.sleep(1.0)
    assert set(actions(maps.read(document.id))) == {"a.py"}


def test_first_and_last_decide(tmp_path: Path) -> None:
    """How a file began and how it ends is all that counts of what happened between."""
    for name in ("kept", "made"):
        (tmp_path / name).write_text("x")
    pending = Pending()
    for path, kinds in {
        b"kept": (Kind.DELETED, Kind.CREATED, Kind.MODIFIED),
        b"made": (Kind.CREATED, Kind.MODIFIED),
        b"gone": (Kind.MODIFIED, Kind.DELETED),
        b"fleeting": (Kind.CREATED, Kind.DELETED),
        b"folder": (Kind.CREATED,),
        b"moved/away": (Kind.CREATED, Kind.MODIFIED),
    }.items():
        for kind in kinds:
            pending.add(path, kind, NOON)
    (tmp_path / "folder").mkdir()
    settled = {
        event.path: event.action(was_known=False) for event in pending.take().settled(os.fsencode(tmp_path))
    }
    assert settled == {
        b"kept": "modify",
        b"made": "create",
        b"gone": "delete",
        b"fleeting": None,
    }
    assert not pending


def test_folders_in_folders(maps: Maps, watcher: Watcher, repo: Repo) -> None:
    """Folders that are made faster than they can be watched lose no file, and the observer is none the worse."""
    mindmap_id = watched(maps, watcher, repo.path)
    for number in range(200):
        repo.write(f"new/{number}/a/b/c/d/e/f.py", "x\n")
    until(maps, mindmap_id, lambda document: len(files(document)) == 200)
    repo.write("old.py", "later\n")
    until(maps, mindmap_id, lambda document: "old.py" in actions(document))


class Deaf:
    """Is told of what happens in a folder, and does nothing about it."""

    def on_event(self, _: InotifyEvent) -> None: ...

    def on_watch_deleted(self, _: WatchDescriptor) -> None: ...

    def on_queue_overflow(self) -> None: ...


def test_folder_found_twice(tmp_path: Path) -> None:
    """A folder that is found twice, which happens while it is being filled, is watched once, without a word."""
    from mindmap.inotify_observer import SparingInotify

    inotify, group = SparingInotify(lambda _: None, 10), Deaf()
    first = inotify.add_callback(os.fsencode(tmp_path), WATCHDOG_ALL_EVENTS, group, CallbackId(1))
    assert inotify.add_callback(os.fsencode(tmp_path), WATCHDOG_ALL_EVENTS, group, CallbackId(1)) == first
