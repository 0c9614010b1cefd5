"""Lineage of a file that a map contains."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from msgspec.structs import replace

from mindmap.document import ROOT, FileTouch, Mindmap, Node
from mindmap.file_touches import TouchInput, attach_files
from mindmap.map_store import MapStore
from mindmap.nodes import create_mindmap
from serve.backend import InProcessBackend
from serve.explain_types import ExplainAnswer, ExplainRequest
from serve.find_types import FindAnswer
from serve.viewer import state
from tests.mindmap.sample_maps import NOON
from tests.repos import Repo
from tests.serve.sample_index import build_index
from tests.serve.viewer.helpers import ViewerClient, start_viewer, write_page_files


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("src/ü.py", "one\ntwo\n", "Begin")
    repo.commit_file("src/ü.py", "one\n2\n", "Count in digits")
    repo.commit_file("other.py", "other\n", "Another")
    repo.symlink("out", "/etc")
    repo.symlink("link.py", "other.py")
    repo.commit("Links")
    return repo


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def client(tmp_path: Path, maps: MapStore, home: Path) -> Iterator[ViewerClient]:
    with start_viewer(maps.path, write_page_files(tmp_path / "page"), InProcessBackend(home)) as client:
        yield client


def create_map_with_files(maps: MapStore, workspace: Path | None, *touches: TouchInput) -> Mindmap:
    document = create_mindmap("Work", str(workspace) if workspace else None, NOON)
    document = attach_files(document, ROOT, touches, "Touched", NOON)
    maps.create(document)
    return document


def build_lineage_url(document: Mindmap, path: str, lines: str = "") -> str:
    return "/api/why?" + urlencode({"mindmap": document.id, "path": path, "lines": lines})


def test_lineage(client: ViewerClient, maps: MapStore, repo: Repo, home: Path) -> None:
    """The answer equals that of `lineage explain`, for the whole file and for a range of lines."""
    build_index(repo, home)
    document = create_map_with_files(maps, repo.path, TouchInput("src/ü.py"))
    for lines, start, end in (("", 1, 0), ("2", 2, 2), ("1-2", 1, 2)):
        answer = client.request(build_lineage_url(document, "src/ü.py", lines))
        expected = InProcessBackend(home).explain(
            ExplainRequest("src/ü.py", start, end, include_related=True), repo.path
        )
        assert answer.status == 200
        assert answer.json == to_json(expected)
    assert [hit["commit_message"].strip() for hit in answer.json["hits"]] == ["Count in digits", "Begin"]
    assert answer.json["meta"]["explain"]["blame_coverage"] == 1.0


def test_workspace_inside_a_repository(client: ViewerClient, maps: MapStore, repo: Repo) -> None:
    """Paths are relative to the workspace, which may be a directory inside the repository."""
    repo.commit_file("src/other.py", "inner\n", "The inner one")
    document = create_map_with_files(maps, repo.path / "src", TouchInput("other.py"))
    (hit,) = client.request(build_lineage_url(document, "other.py")).json["hits"]
    assert (hit["file_path"], hit["commit_message"].strip()) == ("src/other.py", "The inner one")


def test_not_indexed(client: ViewerClient, maps: MapStore, repo: Repo) -> None:
    """Without an index, the answer comes from git only and a hint names the index command."""
    document = create_map_with_files(maps, repo.path, TouchInput("src/ü.py"))
    answer = client.request(build_lineage_url(document, "src/ü.py")).json
    assert answer["hits"] and answer["meta"]["index_status"]["last_indexed_commit"] is None
    assert "lineage index" in answer["meta"]["hint"]


def test_files_without_lineage(client: ViewerClient, maps: MapStore, repo: Repo) -> None:
    """An untracked or missing file gets an answer without hits that states the limitation."""
    repo.write("new.py", "x\n")
    document = create_map_with_files(maps, repo.path, TouchInput("new.py"), TouchInput("gone.py"))
    for path in ("new.py", "gone.py"):
        answer = client.request(build_lineage_url(document, path)).json
        assert answer["hits"] == [] and path in answer["meta"]["explain"]["limitation"]


def test_only_files_in_map(client: ViewerClient, maps: MapStore, repo: Repo, tmp_path: Path) -> None:
    """Files that are not in the map or lie outside its workspace are rejected."""
    (tmp_path / "secret.py").write_text("secret\n")
    document = create_map_with_files(
        maps,
        repo.path,
        TouchInput("src/ü.py"),
        TouchInput(str(tmp_path / "secret.py")),
        TouchInput("out/passwd"),
    )
    for path in ("other.py", "../secret.py", "/etc/passwd", "src/../other.py", "src", "", "a\0b"):
        assert client.request(build_lineage_url(document, path)).error == (404, "not_touched"), path
    for path in (str(tmp_path / "secret.py"), "out/passwd"):
        assert client.request(build_lineage_url(document, path)).error == (400, "bad_path"), path
    forged = Node(id="n_1", label="Forged", parent="root", files=(FileTouch(path="../secret.py"),))
    root = replace(document.nodes["root"], children=(*document.nodes["root"].children, "n_1"))
    forged_map = replace(document, nodes={**document.nodes, "root": root, "n_1": forged}, id="mm_forged")
    maps.create(forged_map)
    assert client.request(build_lineage_url(forged_map, "../secret.py")).error == (400, "bad_path")


def test_renamed_file(client: ViewerClient, maps: MapStore, repo: Repo) -> None:
    """A renamed file is found under its old path, too."""
    repo.rename("other.py", "renamed.py")
    document = create_map_with_files(
        maps, repo.path, TouchInput("renamed.py", "rename", previous_path="other.py")
    )
    assert client.request(build_lineage_url(document, "renamed.py")).status == 200
    assert client.request(build_lineage_url(document, "other.py")).status == 200


def test_errors(client: ViewerClient, maps: MapStore, repo: Repo, tmp_path: Path) -> None:
    """Invalid requests, unknown maps and unusable workspaces give their own errors."""
    document = create_map_with_files(maps, repo.path, TouchInput("src/ü.py"))
    assert client.request(f"/api/why?mindmap={document.id}").error == (400, "bad_request")
    assert client.request("/api/why?mindmap=mm_none&path=x").error == (404, "no_such_mindmap")
    assert client.request(build_lineage_url(document, "src/ü.py", "2-1")).error == (400, "bad_lines")
    map_without_workspace = create_map_with_files(maps, None, TouchInput("a.py"))
    assert client.request(build_lineage_url(map_without_workspace, "a.py")).error == (409, "no_workspace")
    (tmp_path / "plain").mkdir()
    map_outside_git = create_map_with_files(maps, tmp_path / "plain", TouchInput("a.py"))
    assert client.request(build_lineage_url(map_outside_git, "a.py")).error == (422, "not_a_repository")


class BlockedBackend:
    """Backend that blocks until `released` is set."""

    def __init__(self) -> None:
        self.released = threading.Event()

    def find(self, *_: object) -> FindAnswer:
        raise NotImplementedError

    def find_in_repositories(self, *_: object) -> FindAnswer:
        raise NotImplementedError

    def explain(self, *_: object) -> ExplainAnswer:
        self.released.wait(30)
        raise NotImplementedError


def test_blocked_lineage(tmp_path: Path, maps: MapStore, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """A blocked lineage request times out without delaying others; too many at once are rejected."""
    monkeypatch.setattr(state, "SLOW_TASK_SECONDS", 1.0)
    monkeypatch.setattr(state, "MAX_SLOW_TASKS", 6)
    document = create_map_with_files(maps, repo.path, TouchInput("src/ü.py"))
    backend = BlockedBackend()
    with start_viewer(maps.path, write_page_files(tmp_path / "page"), backend) as client:
        errors: list[tuple[int, str]] = []
        threads = [
            threading.Thread(
                target=lambda: errors.append(client.request(build_lineage_url(document, "src/ü.py")).error)
            )
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        time.sleep(0.2)
        started_at = time.monotonic()
        assert client.request(f"/api/mindmaps/{document.id}").status == 200
        assert time.monotonic() - started_at < 10  # answered while the others are blocked
        for thread in threads:
            thread.join()
        assert sorted(errors) == [(503, "too_busy")] * 2 + [(504, "took_too_long")] * 6
        backend.released.set()


def to_json(answer: ExplainAnswer) -> object:
    """Return the answer as parsed JSON."""
    return json.loads(json.dumps(answer.to_json_dict()))


def build_commit_url(document: Mindmap, sha: str, path: str = "") -> str:
    return "/api/commit?" + urlencode({"mindmap": document.id, "commit": sha, "path": path})


def test_commit(client: ViewerClient, maps: MapStore, repo: Repo) -> None:
    """A commit that wrote lines is sent with its message and files, or with the diff of a file."""
    repo.commit_file("src/ü.py", "one\n2\n3\n", "Count on\n\nBecause two is not enough.")
    document = create_map_with_files(maps, repo.path, TouchInput("src/ü.py"))
    sha = client.request(build_lineage_url(document, "src/ü.py", "3")).json["hits"][0]["commit_sha"]
    answer = client.request(build_commit_url(document, sha)).json
    assert answer["commit"]["commit_message"].strip() == "Count on\n\nBecause two is not enough."
    assert [(file["path"], file["added"]) for file in answer["files"]] == [("src/ü.py", 1)]
    assert "+3" in client.request(build_commit_url(document, sha, "src/ü.py")).json["diff"]["text"]


def test_commit_is_cut(
    client: ViewerClient, maps: MapStore, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The diff of a large commit is cut, and the number of omitted lines is sent."""
    monkeypatch.setattr(state, "MAX_COMMIT_TOKENS", 200)
    repo.commit_file("large.py", "line\n" * 1_000, "Grow")
    document = create_map_with_files(maps, repo.path)
    diff = client.request(build_commit_url(document, repo.git("rev-parse", "HEAD").strip(), "large.py")).json[
        "diff"
    ]
    assert len(diff["text"]) < 1_000 and diff["omitted_lines"] > 800


def test_invalid_commits(client: ViewerClient, maps: MapStore, repo: Repo) -> None:
    """Only shas of commits are accepted, in a map with a workspace, and from the viewer's own page."""
    document = create_map_with_files(maps, repo.path)
    sha = repo.git("rev-parse", "HEAD").strip()
    for revision in ("HEAD", "", "main", f"{sha}:src", f"-{sha}", "a..b", "--output=x"):
        assert client.request(build_commit_url(document, revision)).error == (400, "bad_request"), revision
    for revision in ("0" * 40, "0123456"):
        assert client.request(build_commit_url(document, revision)).error == (404, "not_in_repository")
    assert client.request(build_commit_url(document, sha, "none.py")).error == (404, "not_in_repository")
    assert client.request(build_commit_url(document, sha, "../x")).error == (400, "bad_request")
    homeless = create_map_with_files(maps, None)
    assert client.request(build_commit_url(homeless, sha)).error == (409, "no_workspace")
    foreign = client.request(build_commit_url(document, sha), Origin="http://evil.example")
    assert foreign.error == (403, "foreign_origin")
