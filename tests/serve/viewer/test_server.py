"""Responses of every route: content, headers, caching, compression, errors."""

from __future__ import annotations

import gzip
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mindmap.document import ROOT, Mindmap, encode
from mindmap.export import FORMATS
from mindmap.map_store import MapStore
from mindmap.nodes import NewNode, add_nodes, add_note
from serve.viewer import state, watcher
from serve.viewer.handlers import RESPONSE_HEADERS
from stores.mindmap_files import make_quarantine_name
from tests.mindmap.sample_maps import NOON, create_map, create_timestamp
from tests.serve.viewer.helpers import ViewerClient

ROUTES = ["/", "/app.js", "/logo.png", "/favicon.png", "/api/mindmaps", "/api/mindmaps/{}", "/api/status"]


@pytest.mark.parametrize(
    ("path", "name", "media_type"),
    [
        ("/", "index.html", "text/html; charset=utf-8"),
        ("/app.js", "app.js", "text/javascript; charset=utf-8"),
        ("/logo.png", "logo.png", "image/png"),
        ("/favicon.png", "favicon.png", "image/png"),
    ],
)
def test_page_files(client: ViewerClient, tmp_path: Path, path: str, name: str, media_type: str) -> None:
    """The page's four files are sent with their media types, and again after a rebuild."""
    file = tmp_path / "page" / name
    answer = client.request(path)
    assert (answer.status, answer.content, answer.headers["content-type"]) == (
        200,
        file.read_bytes(),
        media_type,
    )
    file.write_bytes(b"new build")
    os.utime(file, ns=(1, 1))
    assert client.request(path, If_None_Match=answer.headers["etag"]).content == b"new build"
    file.unlink()
    assert client.request(path).error == (404, "not_built")


def test_map_list(client: ViewerClient, maps: MapStore, document: Mindmap) -> None:
    """The list contains all ten fields of each map, most recently changed first."""
    other = add_note(create_map(workspace="/workspace"), "Later", create_timestamp(5)).document
    maps.create(other)
    first, second = client.request("/api/mindmaps").json
    assert (first["id"], first["workspacePath"], first["updatedAt"]) == (
        other.id,
        "/workspace",
        create_timestamp(5),
    )
    assert second == {
        "id": document.id,
        "title": "A map",
        "workspacePath": None,
        "updatedAt": NOON,
        "createdAt": NOON,
        "nodeCount": 3,
        "completedTasks": 1,
        "totalTasks": 2,
        "activeTask": "Parse headers",
        "fileCount": 0,
    }
    maps.delete(other.id)
    assert [entry["id"] for entry in client.request("/api/mindmaps").json] == [document.id]


def test_map(client: ViewerClient, maps: MapStore, document: Mindmap) -> None:
    """A map is sent as stored in its file, including the latest change."""
    assert client.request(f"/api/mindmaps/{document.id}").content == encode(document)
    maps.change(document.id, lambda current: add_note(current, "Something new", create_timestamp(1)))
    assert client.request(f"/api/mindmaps/{document.id}").json["activityLog"][0]["message"] == "Something new"
    assert client.request("/api/mindmaps/mm_none").error == (404, "no_such_mindmap")
    (maps.path / make_quarantine_name("mm_cut")).write_bytes(b"")
    assert client.request("/api/mindmaps/mm_cut").error == (404, "quarantined_mindmap")


def test_damaged_files(client: ViewerClient, maps: MapStore, document: Mindmap) -> None:
    """Unreadable files are reported with the reason, stay on disk, and do not hide other maps."""
    (maps.path / "cut.json").write_bytes(encode(document)[:-50])
    (maps.path / "other.json").write_text('{"title": 7}')
    (maps.path / "link.json").symlink_to(maps.path / f"{document.id}.json")
    (maps.path / "folder.json").mkdir()
    assert [entry["id"] for entry in client.request("/api/mindmaps").json] == [document.id]
    problems = {problem["id"]: problem for problem in client.request("/api/status").json["problems"]}
    assert {name: problem["code"] for name, problem in problems.items()} == {
        "cut": "damaged_mindmap",
        "folder": "not_a_plain_file",
        "link": "not_a_plain_file",
        "other": "foreign_mindmap",
    }
    assert all(problem["message"] and problem["hint"] for problem in problems.values())
    for name, problem in problems.items():
        assert client.request(f"/api/mindmaps/{name}").error == (500, problem["code"])
    assert (maps.path / "cut.json").exists()
    (maps.path / "cut.json").write_bytes(encode(document))
    assert client.request("/api/mindmaps/cut").json["id"] == "cut"


@pytest.mark.parametrize("format_name", FORMATS)
def test_export(client: ViewerClient, document: Mindmap, format_name: str) -> None:
    """A map is exported in every format, as a download."""
    answer = client.request(f"/api/mindmaps/{document.id}/export?format={format_name}")
    assert answer.content.decode() == FORMATS[format_name](document)
    assert answer.headers["content-disposition"].startswith(f'attachment; filename="{document.id}.')
    assert client.request(f"/api/mindmaps/{document.id}/export?format=svg").error == (400, "bad_request")


def test_status(client: ViewerClient, maps: MapStore) -> None:
    """The status contains data directory and its default, watch mode, problems and the number of listeners."""
    status = client.request("/api/status").json
    assert status["dataDir"] == str(maps.path) and status["watching"] == "events"
    assert status["defaultDataDir"] == str(Path.home() / ".mindmap" / "data")
    assert status["problems"] == [] and status["listeners"] == 0
    with client.listen() as listener:
        listener.receive_event()
        assert client.request("/api/status").json["listeners"] == 1


@pytest.mark.parametrize("route", [*ROUTES, "/nothing", "/api/sync-git"])
def test_headers(client: ViewerClient, document: Mindmap, route: str) -> None:
    """Every response, errors included, has the security headers and no `Server` header."""
    answer = client.request(route.format(document.id))
    expected = {name.lower(): value for name, value in RESPONSE_HEADERS.items()}
    if answer.status != 200:
        expected["cache-control"] = "no-store"
    assert expected.items() <= answer.headers.items()
    assert "default-src 'none'" in expected["content-security-policy"]
    assert "unsafe" not in expected["content-security-policy"]
    assert "server" not in answer.headers


@pytest.mark.parametrize("route", ROUTES)
def test_not_modified(client: ViewerClient, document: Mindmap, route: str) -> None:
    """A matching ETag gives 304, another one the content, and HEAD the headers without content."""
    target = route.format(document.id)
    answer = client.request(target)
    repeated_answer = client.request(target, If_None_Match=answer.headers["etag"])
    assert (repeated_answer.status, repeated_answer.content, repeated_answer.headers["etag"]) == (
        304,
        b"",
        answer.headers["etag"],
    )
    assert client.request(target, If_None_Match='W/"another"').content == answer.content
    head = client.request(target, "HEAD")
    assert (head.status, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(answer.content))
    assert head.headers["etag"] == answer.headers["etag"]


def test_changed_etag(client: ViewerClient, maps: MapStore, document: Mindmap) -> None:
    """A changed map has a new ETag and is sent again."""
    target = f"/api/mindmaps/{document.id}"
    tag = client.request(target).headers["etag"]
    maps.change(document.id, lambda current: add_note(current, "Something new", create_timestamp(1)))
    answer = client.request(target, If_None_Match=tag)
    assert answer.status == 200 and answer.headers["etag"] != tag


@pytest.mark.parametrize(
    ("accepted", "is_compressed"),
    [("gzip, deflate, br", True), ("br;q=1.0, gzip;q=0.5", True), ("gzip;q=0", False), ("identity", False)],
)
def test_compression(client: ViewerClient, maps: MapStore, accepted: str, *, is_compressed: bool) -> None:
    """Large text responses are compressed for clients that accept gzip; small ones and images never are."""
    document = create_map(*({"label": f"Node {number} of many"} for number in range(100)))
    maps.create(document)
    answer = client.request(f"/api/mindmaps/{document.id}", Accept_Encoding=accepted)
    assert answer.headers["vary"] == "Accept-Encoding"
    assert (answer.headers.get("content-encoding") == "gzip") is is_compressed
    assert (gzip.decompress(answer.content) if is_compressed else answer.content) == encode(document)
    assert ("content-encoding" in client.request("/", Accept_Encoding=accepted).headers) is is_compressed
    for target in ("/logo.png", "/api/mindmaps"):
        assert "content-encoding" not in client.request(target, Accept_Encoding=accepted).headers


@pytest.mark.parametrize(("is_being_written", "max_loads"), [(False, 1), (True, 60)])
def test_concurrent_requests_share_a_load(
    client: ViewerClient,
    maps: MapStore,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_being_written: bool,
    max_loads: int,
) -> None:
    """Two hundred concurrent requests for a large map load and encode it once.

    While the map is being written, all requests since the last load share the next load.
    """
    encoded_ids: list[str] = []

    def encode_and_count(document: Mindmap) -> bytes:
        encoded_ids.append(document.id)
        return encode(document)

    monkeypatch.setattr(state, "encode", encode_and_count)
    document = create_map()
    batch = [NewNode(f"Step {number}") for number in range(1_000)]
    for number in range(5):
        document = add_nodes(document, ROOT, batch, create_timestamp(number)).document
    maps.create(document)
    if not is_being_written:
        time.sleep(watcher.MTIME_RESOLUTION_NS / 1e9)
    else:
        monkeypatch.setattr(watcher, "MTIME_RESOLUTION_NS", 10**12)
    with ThreadPoolExecutor(40) as pool:
        contents = list(
            pool.map(lambda _: client.request(f"/api/mindmaps/{document.id}").content, range(200))
        )
    assert len(encoded_ids) <= max_loads
    assert set(contents) == {encode(document)}


def test_writes_with_equal_timestamps(
    maps: MapStore, document: Mindmap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After two writes with equal size and time, the second content is served, from cache and summary."""
    # Only the kernel sets the ctime, so two writes of a test seldom have the same.
    monkeypatch.setattr(
        watcher.FileSignature, "__eq__", lambda one, other: one.modified_ns == other.modified_ns
    )
    cache, file = state.DocumentCache(maps.path), maps.path / f"{document.id}.json"
    before, now = encode(document), time.time_ns()
    for content, label in (
        (before, "Parse headers"),
        (before.replace(b"headers", b"HEADERS"), "Parse HEADERS"),
    ):
        file.write_bytes(content)
        os.utime(file, ns=(now, now))
        assert cache.load_json(document.id, time.monotonic()) == content
        (summary,), _ = cache.list_maps(time.monotonic())
        assert summary.active_task == label
    os.utime(file, ns=(1, 1))
    assert cache.load_json(document.id, time.monotonic()) is cache.load_json(document.id, time.monotonic())


def test_cache_eviction(maps: MapStore, document: Mindmap, monkeypatch: pytest.MonkeyPatch) -> None:
    """Least recently used maps are evicted above the cache limit, and loaded again on request."""
    monkeypatch.setattr(state, "MAX_CACHE_BYTES", 2_000)
    cache = state.DocumentCache(maps.path)
    others = [create_map({"label": "x" * 600}) for _ in range(3)]
    for other in others:
        maps.create(other)
    time.sleep(watcher.MTIME_RESOLUTION_NS / 1e9)

    def load(requested_map: Mindmap) -> bytes:
        content = cache.load_json(requested_map.id, time.monotonic())
        assert content == encode(requested_map)
        return content

    first = [load(requested_map) for requested_map in (document, *others)]
    assert load(others[2]) is first[3]  # the only one that fits
    assert load(document) is not first[0]
    monkeypatch.setattr(state, "MAX_CACHE_BYTES", 3_000)
    cache = state.DocumentCache(maps.path)
    contents = [load(requested_map) for requested_map in (*others[:2], others[0], others[2])]
    assert load(others[0]) is contents[0]
    assert load(others[1]) is not contents[1]


def test_unsupported_methods(client: ViewerClient, document: Mindmap) -> None:
    """An unsupported method gives 405 with the allowed methods."""
    for target in (
        "/",
        "/api/mindmaps",
        f"/api/mindmaps/{document.id}",
        "/events",
        "/api/status",
        "/api/why",
    ):
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE"):
            answer = client.request(target, method)
            assert answer.error == (405, "method_not_allowed"), (target, method)
            assert answer.headers["allow"].startswith("GET")
    answer = client.request("/api/sync-git")
    assert (answer.error, answer.headers["allow"]) == ((405, "method_not_allowed"), "POST")


def test_unknown_paths(client: ViewerClient) -> None:
    """An unknown path gives a JSON error."""
    for target in ("/nothing", "/api", "/api/mindmaps/", "/index.html", "/static/app.js", "/app.js/"):
        status, code = client.request(target).error
        assert (status, code) in ((404, "no_such_route"), (400, "bad_mindmap_id")), target
    assert (
        json.loads(client.request("/nothing").content)["error"]["message"] == "There is nothing at /nothing."
    )
