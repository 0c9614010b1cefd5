"""Mindmap files among real processes: no write lost, no reader sees half of one, nothing leads out of the folder."""

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
from pathlib import Path
from typing import Never

import pytest

from mindmap.document import DamagedMindmap, ForeignMindmap, encode
from mindmap.map_store import Maps
from mindmap.nodes import note
from stores import mindmap_files
from stores.errors import LineageError
from stores.mindmap_files import Folder
from tests.mindmap.sample_maps import NOON, a_map

ROOT = Path(__file__).parent.parent.parent
# Adds nodes one by one, and says each that it was told is there.
WRITER = """
import sys
from pathlib import Path
from mindmap.nodes import add_nodes
from mindmap.map_store import Maps
from mindmap.document import now
from mindmap.nodes import NewNode
maps, mindmap_id, name, times = Maps(Path(sys.argv[1])), sys.argv[2], sys.argv[3], int(sys.argv[4])
for number in range(times):
    maps.change(mindmap_id, lambda document: add_nodes(document, "root", [NewNode(f"{name}-{number}")], now()))
    print(f"{name}-{number}", flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "data")


def files(folder: Folder) -> dict[Path, tuple[int, int]]:
    """What is in the folder, and when it was written."""
    found = {path: path.stat() for path in folder.path.rglob("*")}
    return {path: (status.st_ino, status.st_mtime_ns) for path, status in found.items()}


def writer(folder: Folder, mindmap_id: str, name: str, times: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(folder.path), mindmap_id, name, str(times)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_no_write_is_lost(folder: Folder) -> None:
    """Of several processes on one map, some killed at any moment, every write that was told of is there."""
    document = a_map()
    maps = Maps(folder.path)
    maps.create(document)
    chance = random.Random(5)  # noqa: S311 - repeatable moments
    processes = [
        writer(folder, document.id, f"w{number}", 1_000 if number < 2 else 30) for number in range(4)
    ]
    for doomed in processes[:2]:
        time.sleep(0.3 + chance.random() / 2)
        doomed.send_signal(signal.SIGKILL)
        json.loads(folder.read(document.id))
    said = [line for process in processes for line in process.communicate(timeout=120)[0].splitlines()]
    labels = Counter(node.label for node in maps.read(document.id).nodes.values())
    assert len(said) >= 60
    assert all(labels[label] == 1 for label in said)
    # A killed process may have written one that it could not tell of any more.
    assert sum(labels.values()) - 1 - len(said) in (0, 1, 2)
    assert sorted(path.name for path in folder.path.iterdir() if path.name.startswith("mm_")) == [
        f"{document.id}.json"
    ]


def test_owner_only(folder: Folder) -> None:
    """Files and the folder made for them are their owner's alone, whatever the umask."""
    before = os.umask(0)
    try:
        Maps(folder.path).create(a_map())
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [folder.path, *folder.path.rglob("*")]}
    assert all(mode in (0o600, 0o700) for mode in modes.values()), modes


@pytest.mark.parametrize(
    "mindmap_id",
    ["../x", "a/b", "", ".", "..", "a\0b", "mm_x.json", "mm x", "mm_é", "mm_x\n", "x" * 129, "/etc/passwd"],
)
def test_ids(folder: Folder, mindmap_id: str) -> None:
    """An id is checked at every look-up, so that none points out of the folder."""
    held = b"{}"
    for look_up in (
        lambda: folder.read(mindmap_id),
        lambda: folder.create(mindmap_id, held),
        lambda: folder.changing(mindmap_id).__enter__(),
    ):
        with pytest.raises(mindmap_files.BadMindmapId):
            look_up()
    assert not folder.path.exists()


def test_no_such_map(folder: Folder) -> None:
    """The error names the id and the folder, and what is there."""
    with pytest.raises(mindmap_files.NoSuchMindmap, match="There is none at all yet"):
        folder.read("mm_gone")
    for number in range(7):
        folder.create(f"mm_{number}", b"{}")
    with pytest.raises(mindmap_files.NoSuchMindmap, match=r"There are mm_.+ and 2 more\."):
        folder.read("mm_gone")
    with pytest.raises(mindmap_files.NoSuchMindmap), folder.changing("mm_gone"):
        pass
    assert not (folder.path / mindmap_files.lock_of("mm_gone")).exists()
    with pytest.raises(mindmap_files.MindmapTaken):
        folder.create("mm_1", b"{}")


def test_only_plain_files(folder: Folder, tmp_path: Path) -> None:
    """A link, a folder or a pipe under a map's name is refused, and keeps nobody from the others."""
    Maps(folder.path).create(a_map())
    secret = tmp_path / "secret.json"
    secret.write_bytes(encode(a_map()))
    (folder.path / "mm_link.json").symlink_to(secret)
    (folder.path / "mm_folder.json").mkdir()
    os.mkfifo(folder.path / "mm_pipe.json")
    for name in ("mm_link", "mm_folder", "mm_pipe"):
        with pytest.raises(mindmap_files.NotAPlainFile, match="is not a plain file"):
            folder.read(name)
        with pytest.raises(mindmap_files.NotAPlainFile), folder.changing(name):
            pass
        with pytest.raises(mindmap_files.NotAPlainFile):
            folder.remove(name)
    listed = Maps(folder.path).listed()
    assert len(listed.summaries) == 1
    assert len(listed.problems) == 3
    assert secret.exists()


def test_too_large(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file over the limit is neither read nor written; what was there stays."""
    monkeypatch.setattr(mindmap_files, "LARGEST_BYTES", 2_000)
    document = a_map()
    maps = Maps(folder.path)
    maps.create(document)
    with pytest.raises(mindmap_files.MindmapTooLarge, match="at most 2,000"):
        maps.change(document.id, lambda found: note(found, "x" * 3_000, NOON))
    assert maps.read(document.id) == document
    (folder.path / "mm_large.json").write_bytes(b" " * 2_001)
    with pytest.raises(mindmap_files.MindmapTooLarge, match="2,001 bytes"):
        maps.read("mm_large")
    maps.delete("mm_large")
    assert folder.ids() == [document.id]
    with pytest.raises(mindmap_files.NoSuchMindmap):
        maps.delete("mm_large")


def test_many_problems_are_a_few_words(folder: Folder) -> None:
    """Of very many files that cannot be read the first are named and the others counted."""
    for number in range(60):
        folder.create(f"mm_{number}", b'{"format": 7}' if number % 2 else b"{")
    for _ in range(2):
        problems = Maps(folder.path).listed().problems
        assert (len(problems), problems[-1]) == (11, "And 50 more.")


def test_damaged_is_left_by_readers(folder: Folder) -> None:
    """Whoever only looks is told of a damaged file, reads its neighbours, and changes nothing in the folder."""
    maps = Maps(folder.path)
    document = a_map()
    maps.create(document)
    (folder.path / "mm_cut.json").write_bytes(b'{"title": "cu')
    before = files(folder)
    for _ in range(2):
        listed = maps.listed()
        assert [line.id for line in listed.summaries] == [document.id]
        assert len(listed.problems) == 1 and "mm_cut is damaged" in listed.problems[0]
        assert maps.latest() == document
        with pytest.raises(DamagedMindmap, match="It was left as it is"):
            maps.read("mm_cut")
    assert files(folder) == before


def test_damaged_is_set_aside(folder: Folder) -> None:
    """Whoever would write a damaged file moves it out of the way unchanged; it is told to everybody who looks."""
    maps = Maps(folder.path)
    document = a_map()
    maps.create(document)
    (folder.path / "mm_cut.json").write_bytes(b'{"title": "cu')
    with pytest.raises(DamagedMindmap, match="Nothing of it was changed: it is now"):
        maps.change("mm_cut", lambda found: note(found, "x", NOON))
    first, second = maps.listed(), maps.listed()
    assert [line.id for line in first.summaries] == [line.id for line in second.summaries] == [document.id]
    (aside,) = folder.path.glob("mm_cut.json.damaged-*")
    assert len(first.problems) == len(second.problems) == 1
    assert str(aside) in first.problems[0] and str(aside) in second.problems[0]
    assert "name it mm_cut.json" in second.problems[0]
    assert aside.read_bytes() == b'{"title": "cu'
    with pytest.raises(mindmap_files.NoSuchMindmap, match="was damaged and is kept in"):
        maps.read("mm_cut")
    aside.rename(folder.path / "old")
    assert maps.listed().problems == []


def test_foreign_is_left(folder: Folder) -> None:
    """Sound JSON that is no map stays where it is: a newer version may know it."""
    maps = Maps(folder.path)
    folder.create("mm_later", b'{"format": 7}')
    with pytest.raises(ForeignMindmap, match="A newer version may read it"):
        maps.change("mm_later", lambda found: note(found, "x", NOON))
    assert len(maps.listed().problems) == 1
    assert folder.read("mm_later") == b'{"format": 7}'


def test_failed_write_leaves_the_map(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the disk is full the map stays as it was, without leftovers, and the error says so."""
    maps = Maps(folder.path)
    document = a_map()
    maps.create(document)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(mindmap_files.FolderUnusable, match="No space left on device"):
        maps.change(document.id, lambda found: note(found, "x", NOON))
    assert maps.read(document.id) == document
    assert not list(folder.path.glob(".mm_*"))


def test_left_draft_is_no_harm(folder: Folder, tmp_path: Path) -> None:
    """What a killed process left is written over, and never through a link that stands there."""
    maps = Maps(folder.path)
    document = a_map()
    maps.create(document)
    (tmp_path / "secret").write_text("secret")
    (folder.path / f".{document.id}.tmp").symlink_to(tmp_path / "secret")
    maps.change(document.id, lambda found: note(found, "x", NOON))
    assert (tmp_path / "secret").read_text() == "secret"
    assert len(list(folder.path.iterdir())) == 2
    (folder.path / f".{document.id}.tmp").write_text("{")
    maps.delete(document.id)
    assert [path.name for path in folder.path.rglob("*")] == [".locks"]


def test_deleted_under_a_waiting_writer(folder: Folder) -> None:
    """Whoever waited for a map that was deleted meanwhile is told so, and does not bring it back."""
    document = a_map()
    maps = Maps(folder.path)
    maps.create(document)
    with folder.changing(document.id) as held:
        process = writer(folder, document.id, "w", 1)
        time.sleep(0.5)
        held.remove()
    process.communicate(timeout=60)
    assert process.returncode == 1
    assert folder.ids() == []
    assert [path.name for path in folder.path.rglob("*")] == [".locks"]
    maps.create(document)
    assert maps.read(document.id) == document


def test_stopped_writer(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for a map has an end, and says what to do."""
    monkeypatch.setattr(mindmap_files, "WAIT_SECONDS", 0.1)
    folder.create("mm_1", b"{}")
    with (
        folder.changing("mm_1"),
        pytest.raises(mindmap_files.MindmapBusy, match="end the other process"),
        folder.changing("mm_1"),
    ):
        pass


def test_no_edit_writes_nothing(folder: Folder) -> None:
    """An edit that has nothing to do leaves the file untouched."""
    maps = Maps(folder.path)
    document = a_map()
    maps.create(document)
    before = (folder.path / f"{document.id}.json").stat()
    assert maps.change(document.id, lambda _: None) == (document, None)
    after = (folder.path / f"{document.id}.json").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    maps.delete(document.id)
    assert maps.listed() == type(maps.listed())([], [])


@dataclass
class NameOnly:
    """A folder's entry that the system tells nothing else of."""

    name: str

    def stat(self, **_: object) -> Never:
        raise PermissionError(13, "Permission denied")


def test_a_file_that_may_not_be_looked_at(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system tells nothing of a file but its name, it is listed all the same."""
    monkeypatch.setattr(Folder, "_entries", lambda _: [NameOnly("mm_1.json")])
    assert folder.ids() == ["mm_1"]


def test_unusable_folder(tmp_path: Path) -> None:
    """A file in the folder's place is named, with the setting that names another."""
    (tmp_path / "data").write_text("")
    with pytest.raises(LineageError, match="MINDMAP_DATA_DIR"):
        Maps(tmp_path / "data").create(a_map())
    assert Maps(tmp_path / "data").listed().summaries == []
