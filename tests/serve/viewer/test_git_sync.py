"""Git sync requests of the page."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from mindmap.document import Mindmap, encode
from mindmap.map_store import MapStore
from stores import mindmap_files
from tests.mindmap.sample_maps import assert_consistent, create_map
from tests.repos import Repo
from tests.serve.viewer.helpers import ViewerClient


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("src/a.py", "one\ntwo\n")
    repo.write("src/a.py", "one\n2\nthree\n")
    repo.write("new.py", "x\n")
    return repo


def test_sync(client: ViewerClient, maps: MapStore, repo: Repo) -> None:
    """Every file that differs from HEAD is attached to the task in progress; the response contains the new map."""
    document = create_map({"label": "Now", "status": "in_progress"}, workspace=str(repo.path))
    maps.create(document)
    with client.listen() as listener:
        listener.receive_event()
        answer = client.post("/api/sync-git", {"mindmapId": document.id})
        assert listener.receive_event()["id"] == document.id
    assert (answer.status, set(answer.json), answer.json["synced"]) == (200, {"synced", "mindmap"}, 2)
    synced_map = maps.read(document.id)
    assert_consistent(synced_map)
    assert answer.json["mindmap"] == client.request(f"/api/mindmaps/{document.id}").json
    (node,) = [node for node in synced_map.nodes.values() if node.label == "Now"]
    assert {touch.path: (touch.action, touch.summary) for touch in node.files} == {
        "src/a.py": ("modify", "Git modify (+2/-1 lines)"),
        "new.py": ("create", "Git create (+1/-0 lines)"),
    }
    assert synced_map.activity_log[0].message == "Git sync: 2 files"


def test_nothing_to_sync(client: ViewerClient, maps: MapStore, repo: Repo) -> None:
    """Without changed files, nothing is written."""
    repo.commit("All of it")
    document = create_map(workspace=str(repo.path))
    maps.create(document)
    answer = client.post("/api/sync-git", {"mindmapId": document.id})
    assert (answer.status, answer.json["synced"]) == (200, 0)
    assert maps.directory.read(document.id) == encode(document)


def test_workspace_of_the_request(
    client: ViewerClient, maps: MapStore, repo: Repo, document: Mindmap
) -> None:
    """A map without a workspace gets the one in the request; a map with a workspace rejects another one."""
    request = {"mindmapId": document.id}
    assert client.post("/api/sync-git", request).error == (409, "no_workspace")
    with_workspace = {**request, "workspacePath": str(repo.path)}
    assert client.post("/api/sync-git", with_workspace).json["synced"] == 2
    assert maps.read(document.id).workspace_path == str(repo.path)
    assert client.post("/api/sync-git", request).json["synced"] == 2
    other_workspace = {**request, "workspacePath": str(maps.path)}
    assert client.post("/api/sync-git", other_workspace).error == (400, "bad_path")


@pytest.mark.parametrize(
    ("workspace", "error"),
    [
        ("relative", (400, "bad_path")),
        ("/nowhere/at/all", (400, "bad_path")),
        ("", (400, "bad_text")),
        ("/x\0y", (400, "bad_text")),
        ("{plain}", (422, "not_a_repository")),
        ("{bare}", (422, "no_work_tree")),
    ],
)
def test_invalid_workspace(
    client: ViewerClient,
    maps: MapStore,
    document: Mindmap,
    tmp_path: Path,
    workspace: str,
    error: tuple[int, str],
) -> None:
    """A workspace that git cannot sync is rejected with the reason, and the map stays unchanged."""
    (tmp_path / "plain").mkdir()
    Repo.create(tmp_path / "bare", bare=True)
    path = workspace.format(plain=tmp_path / "plain", bare=tmp_path / "bare")
    request = {"mindmapId": document.id, "workspacePath": path}
    assert client.post("/api/sync-git", request).error == error
    assert maps.directory.read(document.id) == encode(document)


@pytest.mark.parametrize(
    ("body", "error"),
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
def test_invalid_body(client: ViewerClient, body: bytes, error: tuple[int, str]) -> None:
    """A malformed body and an unknown map are rejected with their error."""
    assert client.post("/api/sync-git", body).error == error


@pytest.mark.parametrize(
    "media_type",
    [None, "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"],
)
def test_content_type(client: ViewerClient, document: Mindmap, media_type: str | None) -> None:
    """Only the JSON content type is accepted: HTML forms of other sites cannot send it."""
    request = {"mindmapId": document.id}
    assert client.post("/api/sync-git", request, Content_Type=media_type).error == (415, "not_json")
    for right in ("application/json", "Application/JSON; charset=utf-8"):
        assert client.post("/api/sync-git", request, Content_Type=right).error == (409, "no_workspace")


def test_map_locked_by_another_process(
    client: ViewerClient, maps: MapStore, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync waits for a map locked by another process, then fails; reading the map still works."""
    monkeypatch.setattr(mindmap_files, "WAIT_SECONDS", 0.3)
    document = create_map(workspace=str(repo.path))
    maps.create(document)
    with maps.directory.lock(document.id):
        assert client.post("/api/sync-git", {"mindmapId": document.id}).error == (409, "mindmap_busy")
        assert client.request(f"/api/mindmaps/{document.id}").content == encode(document)
    assert client.post("/api/sync-git", {"mindmapId": document.id}).json["synced"] == 2


def test_concurrent_syncs(client: ViewerClient, maps: MapStore, repo: Repo) -> None:
    """Concurrent syncs all succeed, and attach each file once."""
    document = create_map({"label": "Now", "status": "in_progress"}, workspace=str(repo.path))
    maps.create(document)
    responses = []
    threads = [
        threading.Thread(
            target=lambda: responses.append(client.post("/api/sync-git", {"mindmapId": document.id}))
        )
        for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer.status for answer in responses] == [200] * 12
    assert_consistent(maps.read(document.id))
    assert sum(len(node.files) for node in maps.read(document.id).nodes.values()) == 2
