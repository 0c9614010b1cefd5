"""Every route: what it answers, how, and what it answers to what it cannot do."""

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
from mindmap.map_store import Maps
from mindmap.nodes import NewNode, add_nodes, note
from serve.viewer import documents
from serve.viewer.handlers import HEADERS
from tests.mindmap.sample_maps import NOON, a_map, moment
from tests.serve.viewer.helpers import Asking

ROUTES = ["/", "/app.js", "/logo.png", "/favicon.png", "/api/mindmaps", "/api/mindmaps/{}", "/api/status"]


@pytest.mark.parametrize(
    ("path", "name", "kind"),
    [
        ("/", "index.html", "text/html; charset=utf-8"),
        ("/app.js", "app.js", "text/javascript; charset=utf-8"),
        ("/logo.png", "logo.png", "image/png"),
        ("/favicon.png", "favicon.png", "image/png"),
    ],
)
def test_page(asking: Asking, tmp_path: Path, path: str, name: str, kind: str) -> None:
    """The page's four files are sent as what they are, and anew once they were built anew."""
    file = tmp_path / "page" / name
    answer = asking.ask(path)
    assert (answer.status, answer.content, answer.headers["content-type"]) == (200, file.read_bytes(), kind)
    file.write_bytes(b"built anew")
    os.utime(file, ns=(1, 1))
    assert asking.ask(path, If_None_Match=answer.headers["etag"]).content == b"built anew"
    file.unlink()
    assert asking.ask(path).error == (404, "not_built")


def test_summaries(asking: Asking, maps: Maps, document: Mindmap) -> None:
    """All ten fields of each map, the one changed last on top."""
    other = note(a_map(workspace="/workspace"), "Later", moment(5)).document
    maps.create(other)
    first, second = asking.ask("/api/mindmaps").json
    assert (first["id"], first["workspacePath"], first["updatedAt"]) == (other.id, "/workspace", moment(5))
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
    assert [one["id"] for one in asking.ask("/api/mindmaps").json] == [document.id]


def test_document(asking: Asking, maps: Maps, document: Mindmap) -> None:
    """A map is sent as it stands in its file, and as it stands now."""
    assert asking.ask(f"/api/mindmaps/{document.id}").content == encode(document)
    maps.change(document.id, lambda found: note(found, "Something new", moment(1)))
    assert asking.ask(f"/api/mindmaps/{document.id}").json["activityLog"][0]["message"] == "Something new"
    assert asking.ask("/api/mindmaps/mm_none").error == (404, "no_such_mindmap")


def test_broken_files(asking: Asking, maps: Maps, document: Mindmap) -> None:
    """A file that cannot be shown is named with its reason, keeps nothing else from being shown, and stays."""
    (maps.path / "cut.json").write_bytes(encode(document)[:-50])
    (maps.path / "other.json").write_text('{"title": 7}')
    (maps.path / "link.json").symlink_to(maps.path / f"{document.id}.json")
    (maps.path / "folder.json").mkdir()
    assert [one["id"] for one in asking.ask("/api/mindmaps").json] == [document.id]
    problems = {one["id"]: one for one in asking.ask("/api/status").json["problems"]}
    assert {name: one["code"] for name, one in problems.items()} == {
        "cut": "damaged_mindmap",
        "folder": "not_a_plain_file",
        "link": "not_a_plain_file",
        "other": "foreign_mindmap",
    }
    assert all(one["message"] and one["hint"] for one in problems.values())
    for name, one in problems.items():
        assert asking.ask(f"/api/mindmaps/{name}").error == (500, one["code"])
    assert (maps.path / "cut.json").exists()
    (maps.path / "cut.json").write_bytes(encode(document))
    assert asking.ask("/api/mindmaps/cut").json["id"] == "cut"


@pytest.mark.parametrize("form", FORMATS)
def test_export(asking: Asking, document: Mindmap, form: str) -> None:
    """A map is exported as the command exports it, as a file to keep."""
    answer = asking.ask(f"/api/mindmaps/{document.id}/export?format={form}")
    assert answer.content.decode() == FORMATS[form](document)
    assert answer.headers["content-disposition"].startswith(f'attachment; filename="{document.id}.')
    assert asking.ask(f"/api/mindmaps/{document.id}/export?format=svg").error == (400, "bad_request")


def test_status(asking: Asking, maps: Maps) -> None:
    """The viewer says how it stands."""
    said = asking.ask("/api/status").json
    assert said["dataDir"] == str(maps.path) and said["watching"] == "events"
    assert said["problems"] == [] and said["listeners"] == 0
    with asking.listening() as listener:
        listener.next()
        assert asking.ask("/api/status").json["listeners"] == 1


@pytest.mark.parametrize("route", [*ROUTES, "/nothing", "/api/sync-git"])
def test_headers(asking: Asking, document: Mindmap, route: str) -> None:
    """Every answer keeps a browser to what the page needs, errors too; nothing says which server this is."""
    answer = asking.ask(route.format(document.id))
    wanted = {name.lower(): value for name, value in HEADERS.items()}
    if answer.status != 200:
        wanted["cache-control"] = "no-store"
    assert wanted.items() <= answer.headers.items()
    assert "default-src 'none'" in wanted["content-security-policy"]
    assert "unsafe" not in wanted["content-security-policy"]
    assert "server" not in answer.headers


@pytest.mark.parametrize("route", ROUTES)
def test_not_modified(asking: Asking, document: Mindmap, route: str) -> None:
    """Whoever has the answer is told so, and HEAD says all but the content."""
    target = route.format(document.id)
    answer = asking.ask(target)
    again = asking.ask(target, If_None_Match=answer.headers["etag"])
    assert (again.status, again.content, again.headers["etag"]) == (304, b"", answer.headers["etag"])
    assert asking.ask(target, If_None_Match='W/"another"').content == answer.content
    head = asking.ask(target, "HEAD")
    assert (head.status, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(answer.content))
    assert head.headers["etag"] == answer.headers["etag"]


def test_changed_etag(asking: Asking, maps: Maps, document: Mindmap) -> None:
    """A map that changed is sent again to who has the old one."""
    target = f"/api/mindmaps/{document.id}"
    tag = asking.ask(target).headers["etag"]
    maps.change(document.id, lambda found: note(found, "Something new", moment(1)))
    answer = asking.ask(target, If_None_Match=tag)
    assert answer.status == 200 and answer.headers["etag"] != tag


@pytest.mark.parametrize(
    ("accepted", "packed"),
    [("gzip, deflate, br", True), ("br;q=1.0, gzip;q=0.5", True), ("gzip;q=0", False), ("identity", False)],
)
def test_packing(asking: Asking, maps: Maps, accepted: str, *, packed: bool) -> None:
    """Large answers are packed for who can unpack them; small ones and images for nobody."""
    document = a_map(*({"label": f"Node {number} of many"} for number in range(100)))
    maps.create(document)
    answer = asking.ask(f"/api/mindmaps/{document.id}", Accept_Encoding=accepted)
    assert answer.headers["vary"] == "Accept-Encoding"
    assert (answer.headers.get("content-encoding") == "gzip") is packed
    assert (gzip.decompress(answer.content) if packed else answer.content) == encode(document)
    assert ("content-encoding" in asking.ask("/", Accept_Encoding=accepted).headers) is packed
    for target in ("/logo.png", "/api/mindmaps"):
        assert "content-encoding" not in asking.ask(target, Accept_Encoding=accepted).headers


@pytest.mark.parametrize(("is_written_meanwhile", "most"), [(False, 1), (True, 60)])
def test_read_once(
    asking: Asking, maps: Maps, monkeypatch: pytest.MonkeyPatch, *, is_written_meanwhile: bool, most: int
) -> None:
    """Two hundred who ask for a large map at the same time have it read and encoded once.

    While it is being written it is read for those who asked since it was read last, all of them together.
    """
    encoded: list[str] = []

    def counting(document: Mindmap) -> bytes:
        encoded.append(document.id)
        return encode(document)

    monkeypatch.setattr(documents, "encode", counting)
    document = a_map()
    batch = [NewNode(f"Step {number}") for number in range(1_000)]
    for number in range(5):
        document = add_nodes(document, ROOT, batch, moment(number)).document
    maps.create(document)
    if not is_written_meanwhile:
        time.sleep(documents.TICK_NANOSECONDS / 1e9)
    else:
        monkeypatch.setattr(documents, "TICK_NANOSECONDS", 10**12)
    with ThreadPoolExecutor(40) as pool:
        answers = list(pool.map(lambda _: asking.ask(f"/api/mindmaps/{document.id}").content, range(200)))
    assert len(encoded) <= most
    assert set(answers) == {encode(document)}


def test_writes_within_a_tick(maps: Maps, document: Mindmap) -> None:
    """Two writes that leave the same size at the same moment are two maps; nothing of the first is kept."""
    shown, file = documents.Documents(maps.path), maps.path / f"{document.id}.json"
    before, now = encode(document), time.time_ns()
    for content in (before, before.replace(b"Lexer", b"Lexxr")):
        file.write_bytes(content)
        os.utime(file, ns=(now, now))
        assert shown.body(document.id, time.monotonic()).content == content
        (summary,), _ = shown.listed(time.monotonic())
        assert summary.id == document.id
    os.utime(file, ns=(1, 1))
    assert shown.body(document.id, time.monotonic()) is shown.body(document.id, time.monotonic())


def test_little_is_kept(maps: Maps, document: Mindmap, monkeypatch: pytest.MonkeyPatch) -> None:
    """Maps that nobody asked for lately are let go where they would take too much room, and read again."""
    monkeypatch.setattr(documents, "KEPT_BYTES", 1_000)
    shown = documents.Documents(maps.path)
    others = [a_map({"label": "x" * 600}) for _ in range(3)]
    for other in others:
        maps.create(other)
    time.sleep(documents.TICK_NANOSECONDS / 1e9)
    for one in (document, *others, document):
        assert shown.body(one.id, time.monotonic()).content == encode(one)
    assert len(shown._bodies) == 1
    monkeypatch.setattr(documents, "KEPT_BYTES", 3_000)
    for one in (*others[:2], others[0], others[2]):
        shown.body(one.id, time.monotonic())
    assert others[0].id in shown._bodies and others[1].id not in shown._bodies


def test_wrong_methods(asking: Asking, document: Mindmap) -> None:
    """A method that a route does not have is refused with those it has."""
    for target in (
        "/",
        "/api/mindmaps",
        f"/api/mindmaps/{document.id}",
        "/events",
        "/api/status",
        "/api/why",
    ):
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE"):
            answer = asking.ask(target, method)
            assert answer.error == (405, "method_not_allowed"), (target, method)
            assert answer.headers["allow"].startswith("GET")
    answer = asking.ask("/api/sync-git")
    assert (answer.error, answer.headers["allow"]) == ((405, "method_not_allowed"), "POST")


def test_nothing_there(asking: Asking) -> None:
    """A path that is none is answered like everything else."""
    for target in ("/nothing", "/api", "/api/mindmaps/", "/index.html", "/static/app.js", "/app.js/"):
        status, code = asking.ask(target).error
        assert (status, code) in ((404, "no_such_route"), (400, "bad_mindmap_id")), target
    assert json.loads(asking.ask("/nothing").content)["error"]["message"] == "There is nothing at /nothing."
