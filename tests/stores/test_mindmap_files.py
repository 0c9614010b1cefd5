"""Mindmap files: concurrent writers, kills, damaged files, and ids or links that lead out of the directory."""

from __future__ import annotations

import json
import os
import random
import signal
import stat
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Never

import pytest

from mindmap.document import DamagedMindmap, ForeignMindmap, encode
from mindmap.map_store import MapStore
from mindmap.nodes import add_note
from stores import mindmap_files
from stores.errors import LineageError
from stores.mindmap_files import MindmapDirectory
from tests.mindmap.sample_maps import NOON, create_map

ROOT = Path(__file__).parent.parent.parent
# Script that adds nodes one by one, and prints the label of each after it was written.
ADD_NODES = """
import sys
from pathlib import Path
from mindmap.nodes import add_nodes
from mindmap.map_store import MapStore
from mindmap.document import utc_now
from mindmap.nodes import NewNode
maps, mindmap_id, name, count = MapStore(Path(sys.argv[1])), sys.argv[2], sys.argv[3], int(sys.argv[4])
for number in range(count):
    maps.change(mindmap_id, lambda document: add_nodes(document, "root", [NewNode(f"{name}-{number}")], utc_now()))
    print(f"{name}-{number}", flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path) -> MindmapDirectory:
    return MindmapDirectory(tmp_path / "data")


def read_stamps(folder: MindmapDirectory) -> dict[Path, tuple[int, int]]:
    """Return inode and modification time of each file in the directory."""
    status_by_path = {path: path.stat() for path in folder.path.rglob("*")}
    return {path: (status.st_ino, status.st_mtime_ns) for path, status in status_by_path.items()}


def start_writer(folder: MindmapDirectory, mindmap_id: str, name: str, count: int) -> subprocess.Popen[str]:
    """Start a process that adds this many nodes."""
    command = [sys.executable, "-c", ADD_NODES, str(folder.path), mindmap_id, name, str(count)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_no_write_is_lost(folder: MindmapDirectory) -> None:
    """If several processes change a map and some are killed, every reported write is in the map."""
    document = create_map()
    maps = MapStore(folder.path)
    maps.create(document)
    rng = random.Random(5)  # noqa: S311 - repeatable delays
    processes = [
        start_writer(folder, document.id, f"w{number}", 1_000 if number < 2 else 30) for number in range(4)
    ]
    for process in processes[:2]:
        time.sleep(0.3 + rng.random() / 2)
        process.send_signal(signal.SIGKILL)
        json.loads(folder.read(document.id))
    reported_labels = [
        summary for process in processes for summary in process.communicate(timeout=120)[0].splitlines()
    ]
    labels = Counter(node.label for node in maps.read(document.id).nodes.values())
    assert len(reported_labels) >= 60
    assert all(labels[label] == 1 for label in reported_labels)
    # A killed process may have written a node without reporting it.
    assert sum(labels.values()) - 1 - len(reported_labels) in (0, 1, 2)
    assert sorted(path.name for path in folder.path.iterdir() if path.name.startswith("mm_")) == [
        f"{document.id}.json"
    ]


def test_files_are_private(folder: MindmapDirectory) -> None:
    """Only the owner can access the files and the directory, with any umask."""
    before = os.umask(0)
    try:
        MapStore(folder.path).create(create_map())
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [folder.path, *folder.path.rglob("*")]}
    assert all(mode in (0o600, 0o700) for mode in modes.values()), modes


@pytest.mark.parametrize(
    "mindmap_id",
    ["../x", "a/b", "", ".", "..", "a\0b", "mm_x.json", "mm x", "mm_é", "mm_x\n", "x" * 129, "/etc/passwd"],
)
def test_invalid_ids(folder: MindmapDirectory, mindmap_id: str) -> None:
    """Every function refuses an invalid id, so that no path leads out of the directory."""
    for call in (
        lambda: folder.read(mindmap_id),
        lambda: folder.create(mindmap_id, b"{}"),
        lambda: folder.lock(mindmap_id).__enter__(),
    ):
        with pytest.raises(mindmap_files.BadMindmapId):
            call()
    assert not folder.path.exists()


def test_no_such_map(folder: MindmapDirectory) -> None:
    """The error for an unknown id lists some existing ones, and the one for an existing id refuses to create it."""
    with pytest.raises(mindmap_files.NoSuchMindmap, match="No mindmap exists there yet"):
        folder.read("mm_gone")
    for number in range(7):
        folder.create(f"mm_{number}", b"{}")
    with pytest.raises(mindmap_files.NoSuchMindmap, match=r"Existing mindmaps: mm_.+ and 2 more\."):
        folder.read("mm_gone")
    with pytest.raises(mindmap_files.NoSuchMindmap), folder.lock("mm_gone"):
        pass
    assert not (folder.path / mindmap_files.format_lock_path("mm_gone")).exists()
    with pytest.raises(mindmap_files.MindmapExists):
        folder.create("mm_1", b"{}")


def test_special_files_are_refused(folder: MindmapDirectory, tmp_path: Path) -> None:
    """A symlink, directory or pipe with a map's file name is refused, and the other maps stay readable."""
    MapStore(folder.path).create(create_map())
    secret = tmp_path / "secret.json"
    secret.write_bytes(encode(create_map()))
    (folder.path / "mm_link.json").symlink_to(secret)
    (folder.path / "mm_folder.json").mkdir()
    os.mkfifo(folder.path / "mm_pipe.json")
    for name in ("mm_link", "mm_folder", "mm_pipe"):
        with pytest.raises(mindmap_files.NotAPlainFile, match="is not a plain file"):
            folder.read(name)
        with pytest.raises(mindmap_files.NotAPlainFile), folder.lock(name):
            pass
        with pytest.raises(mindmap_files.NotAPlainFile):
            folder.remove(name)
    map_list = MapStore(folder.path).list_maps()
    assert len(map_list.summaries) == 1
    assert len(map_list.problems) == 3
    assert secret.exists()


def test_size_limit(folder: MindmapDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file over the limit is neither read nor written, but can be deleted."""
    monkeypatch.setattr(mindmap_files, "MAX_BYTES", 2_000)
    document = create_map()
    maps = MapStore(folder.path)
    maps.create(document)
    with pytest.raises(mindmap_files.MindmapTooLarge, match="at most 2,000"):
        maps.change(document.id, lambda mindmap: add_note(mindmap, "x" * 3_000, NOON))
    assert maps.read(document.id) == document
    (folder.path / "mm_large.json").write_bytes(b" " * 2_001)
    with pytest.raises(mindmap_files.MindmapTooLarge, match="2,001 bytes"):
        maps.read("mm_large")
    maps.delete("mm_large")
    assert folder.list_ids() == [document.id]
    with pytest.raises(mindmap_files.NoSuchMindmap):
        maps.delete("mm_large")


def test_many_problems(folder: MindmapDirectory) -> None:
    """Of 60 unreadable files the first ten are reported, and the others as a count."""
    for number in range(60):
        folder.create(f"mm_{number}", b'{"format": 7}' if number % 2 else b"{")
    for _ in range(2):
        problems = MapStore(folder.path).list_maps().problems
        assert (len(problems), problems[-1]) == (11, "And 50 more.")


def test_readers_leave_damaged_files(folder: MindmapDirectory) -> None:
    """Readers report a damaged file, read the other maps, and change nothing in the directory."""
    maps = MapStore(folder.path)
    document = create_map()
    maps.create(document)
    (folder.path / "mm_cut.json").write_bytes(b'{"title": "cu')
    before = read_stamps(folder)
    for _ in range(2):
        map_list = maps.list_maps()
        assert [summary.id for summary in map_list.summaries] == [document.id]
        assert len(map_list.problems) == 1 and "mm_cut is damaged" in map_list.problems[0]
        assert maps.read_latest() == document
        with pytest.raises(DamagedMindmap, match="The file was not changed"):
            maps.read("mm_cut")
    assert read_stamps(folder) == before


def test_writer_quarantines_damaged_file(folder: MindmapDirectory) -> None:
    """A writer moves a damaged file to another name, unchanged, and readers report it."""
    maps = MapStore(folder.path)
    document = create_map()
    maps.create(document)
    (folder.path / "mm_cut.json").write_bytes(b'{"title": "cu')
    with pytest.raises(DamagedMindmap, match="unchanged, to"):
        maps.change("mm_cut", lambda mindmap: add_note(mindmap, "x", NOON))
    first, second = maps.list_maps(), maps.list_maps()
    assert (
        [summary.id for summary in first.summaries]
        == [summary.id for summary in second.summaries]
        == [document.id]
    )
    (quarantined_file,) = folder.path.glob("mm_cut.json.damaged-*")
    assert len(first.problems) == len(second.problems) == 1
    assert str(quarantined_file) in first.problems[0] and str(quarantined_file) in second.problems[0]
    assert "rename it to mm_cut.json" in second.problems[0]
    assert quarantined_file.read_bytes() == b'{"title": "cu'
    with pytest.raises(mindmap_files.QuarantinedMindmap, match="was damaged"):
        maps.read("mm_cut")
    quarantined_file.rename(folder.path / "old")
    assert maps.list_maps().problems == []


def test_unknown_format_is_left(folder: MindmapDirectory) -> None:
    """Valid JSON in an unknown format stays unchanged, because a newer version may be able to read it."""
    maps = MapStore(folder.path)
    folder.create("mm_later", b'{"format": 7}')
    with pytest.raises(ForeignMindmap, match="A newer version may be able to read it"):
        maps.change("mm_later", lambda mindmap: add_note(mindmap, "x", NOON))
    assert len(maps.list_maps().problems) == 1
    assert folder.read("mm_later") == b'{"format": 7}'


def test_full_disk(folder: MindmapDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk the map stays unchanged, no temporary file remains, and the error gives the reason."""
    maps = MapStore(folder.path)
    document = create_map()
    maps.create(document)

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(mindmap_files.FolderUnusable, match="No space left on device"):
        maps.change(document.id, lambda mindmap: add_note(mindmap, "x", NOON))
    assert maps.read(document.id) == document
    assert not list(folder.path.glob(".mm_*"))


def test_leftover_temp_file(folder: MindmapDirectory, tmp_path: Path) -> None:
    """A leftover temporary file is replaced, and a symlink in its place is not followed."""
    maps = MapStore(folder.path)
    document = create_map()
    maps.create(document)
    (tmp_path / "secret").write_text("secret")
    (folder.path / f".{document.id}.tmp").symlink_to(tmp_path / "secret")
    maps.change(document.id, lambda mindmap: add_note(mindmap, "x", NOON))
    assert (tmp_path / "secret").read_text() == "secret"
    assert len(list(folder.path.iterdir())) == 2
    (folder.path / f".{document.id}.tmp").write_text("{")
    maps.delete(document.id)
    assert [path.name for path in folder.path.rglob("*")] == [".locks"]


def test_deletion_while_a_writer_waits(folder: MindmapDirectory) -> None:
    """A writer that waited for a map that was deleted meanwhile fails, and does not create it again."""
    document = create_map()
    maps = MapStore(folder.path)
    maps.create(document)
    with folder.lock(document.id) as locked_mindmap:
        process = start_writer(folder, document.id, "w", 1)
        time.sleep(0.5)
        locked_mindmap.remove()
    process.communicate(timeout=60)
    assert process.returncode == 1
    assert folder.list_ids() == []
    assert [path.name for path in folder.path.rglob("*")] == [".locks"]
    maps.create(document)
    assert maps.read(document.id) == document


def test_lock_timeout(folder: MindmapDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the timeout, waiting for a locked map raises an error that says what to do."""
    monkeypatch.setattr(mindmap_files, "WAIT_SECONDS", 0.1)
    folder.create("mm_1", b"{}")
    with (
        folder.lock("mm_1"),
        pytest.raises(mindmap_files.MindmapBusy, match="end the other process"),
        folder.lock("mm_1"),
    ):
        pass


def test_edit_without_change_writes_nothing(folder: MindmapDirectory) -> None:
    """An edit without a change does not write the file."""
    maps = MapStore(folder.path)
    document = create_map()
    maps.create(document)
    before = (folder.path / f"{document.id}.json").stat()
    assert maps.change(document.id, lambda _: None) == (document, None)
    after = (folder.path / f"{document.id}.json").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    maps.delete(document.id)
    assert maps.list_maps() == type(maps.list_maps())([], [])


@dataclass
class UnreadableEntry:
    """Directory entry of which only the name can be read."""

    name: str

    def stat(self, **_: object) -> Never:
        raise PermissionError(13, "Permission denied")


def test_file_without_readable_status(folder: MindmapDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is listed even if its status cannot be read."""
    monkeypatch.setattr(MindmapDirectory, "_scan", lambda _: [UnreadableEntry("mm_1.json")])
    assert folder.list_ids() == ["mm_1"]


def test_data_directory_is_a_file(tmp_path: Path) -> None:
    """If the data directory is a file, the error names the setting to change."""
    (tmp_path / "data").write_text("")
    store = MapStore(tmp_path / "data")
    for call in (partial(store.create, create_map()), store.list_maps):
        with pytest.raises(LineageError, match="MINDMAP_DATA_DIR"):
            call()
