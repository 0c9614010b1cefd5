"""Git sync from the page: what it attaches, what it answers, what it refuses."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from mindmap.document import Mindmap, encode
from mindmap.map_store import Maps
from stores import mindmap_files
from tests.mindmap.sample_maps import a_map, check
from tests.repos import Repo
from tests.serve.viewer.helpers import Asking


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("src/a.py", "one\ntwo\n")
    repo.write("src/a.py", "one\n2\nthree\n")
    repo.write("new.py", "x\n")
    return repo


def test_sync(asking: Asking, maps: Maps, repo: Repo) -> None:
    """Every file that differs from HEAD is attached to the task in progress; the answer is the map as it is now."""
    document = a_map({"label": "Now", "status": "in_progress"}, workspace=str(repo.path))
    maps.create(document)
    with asking.listening() as listener:
        listener.next()
        answer = asking.post("/api/sync-git", {"mindmapId": document.id})
        assert listener.next()["id"] == document.id
    assert (answer.status, set(answer.json), answer.json["synced"]) == (200, {"synced", "mindmap"}, 2)
    kept = maps.read(document.id)
    check(kept)
    assert answer.json["mindmap"] == asking.ask(f"/api/mindmaps/{document.id}").json
    (node,) = [node for node in kept.nodes.values() if node.label == "Now"]
    assert {touch.path: (touch.action, touch.summary) for touch in node.files} == {
        "src/a.py": ("modify", "Git modify (+2/-1 lines)"),
        "new.py": ("create", "Git create (+1/-0 lines)"),
    }
    assert kept.activity_log[0].message == "Git sync: 2 files"


def test_nothing_to_sync(asking: Asking, maps: Maps, repo: Repo) -> None:
    """Where nothing differs nothing is written."""
    repo.commit("All of it")
    document = a_map(workspace=str(repo.path))
    maps.create(document)
    answer = asking.post("/api/sync-git", {"mindmapId": document.id})
    assert (answer.status, answer.json["synced"]) == (200, 0)
    assert maps.folder.read(document.id) == encode(document)


def test_workspace_is_given(asking: Asking, maps: Maps, repo: Repo, document: Mindmap) -> None:
    """A map without a workspace needs one in the request, and keeps it; another than its own is refused."""
    said = {"mindmapId": document.id}
    assert asking.post("/api/sync-git", said).error == (409, "no_workspace")
    given = {**said, "workspacePath": str(repo.path)}
    assert asking.post("/api/sync-git", given).json["synced"] == 2
    assert maps.read(document.id).workspace_path == str(repo.path)
    assert asking.post("/api/sync-git", said).json["synced"] == 2
    elsewhere = {**said, "workspacePath": str(maps.path)}
    assert asking.post("/api/sync-git", elsewhere).error == (400, "bad_path")


@pytest.mark.parametrize(
    ("workspace", "wanted"),
    [
        ("relative", (400, "bad_path")),
        ("/nowhere/at/all", (400, "bad_path")),
        ("", (400, "bad_text")),
        ("/x\0y", (400, "bad_text")),
        ("{plain}", (422, "not_a_repository")),
        ("{bare}", (422, "no_work_tree")),
    ],
)
def test_workspaces_that_are_none(
    asking: Asking, maps: Maps, document: Mindmap, tmp_path: Path, workspace: str, wanted: tuple[int, str]
) -> None:
    """A workspace that git cannot sync is refused with the reason, and the map is not tied to it."""
    (tmp_path / "plain").mkdir()
    Repo.create(tmp_path / "bare", bare=True)
    named = workspace.format(plain=tmp_path / "plain", bare=tmp_path / "bare")
    said = {"mindmapId": document.id, "workspacePath": named}
    assert asking.post("/api/sync-git", said).error == wanted
    assert maps.folder.read(document.id) == encode(document)


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (b"", (400, "bad_request")),
        (b"{", (400, "bad_request")),
        (b"[]", (400, "bad_request")),
        (b"{}", (400, "bad_request")),
        (b'{"mindmapId": 7}', (400, "bad_request")),
        (b'{"mindmapId": "mm_1", "workspace": "/x"}', (400, "bad_request")),
        (b'{"mindmapId": "\xff"}', (400, "bad_request")),
        (b"[" * 60_000, (400, "bad_request")),
        (b'{"mindmapId": "../mm_1"}', (400, "bad_mindmap_id")),
        (b'{"mindmapId": ""}', (400, "bad_mindmap_id")),
        (b'{"mindmapId": "mm_none"}', (404, "no_such_mindmap")),
    ],
)
def test_bodies_that_are_none(asking: Asking, body: bytes, wanted: tuple[int, str]) -> None:
    """What cannot be read, and what names no map, is refused as such."""
    assert asking.post("/api/sync-git", body).error == wanted


@pytest.mark.parametrize(
    "kind", [None, "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
def test_content_types(asking: Asking, document: Mindmap, kind: str | None) -> None:
    """Only what is said to be JSON is read: a form of another site can say anything but that."""
    said = {"mindmapId": document.id}
    assert asking.post("/api/sync-git", said, Content_Type=kind).error == (415, "not_json")
    for right in ("application/json", "Application/JSON; charset=utf-8"):
        assert asking.post("/api/sync-git", said, Content_Type=right).error == (409, "no_workspace")


def test_kept_by_another(asking: Asking, maps: Maps, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """A map that another process keeps is waited for, for a while, and then that is said; looking on goes on."""
    monkeypatch.setattr(mindmap_files, "WAIT_SECONDS", 0.3)
    document = a_map(workspace=str(repo.path))
    maps.create(document)
    with maps.folder.changing(document.id):
        assert asking.post("/api/sync-git", {"mindmapId": document.id}).error == (409, "mindmap_busy")
        assert asking.ask(f"/api/mindmaps/{document.id}").content == encode(document)
    assert asking.post("/api/sync-git", {"mindmapId": document.id}).json["synced"] == 2


def test_syncs_at_the_same_time(asking: Asking, maps: Maps, repo: Repo) -> None:
    """Impatient clicks are all answered, and attach each file once."""
    document = a_map({"label": "Now", "status": "in_progress"}, workspace=str(repo.path))
    maps.create(document)
    answers = []
    clicks = [
        threading.Thread(
            target=lambda: answers.append(asking.post("/api/sync-git", {"mindmapId": document.id}))
        )
        for _ in range(12)
    ]
    for click in clicks:
        click.start()
    for click in clicks:
        click.join()
    assert [answer.status for answer in answers] == [200] * 12
    check(maps.read(document.id))
    assert sum(len(node.files) for node in maps.read(document.id).nodes.values()) == 2
