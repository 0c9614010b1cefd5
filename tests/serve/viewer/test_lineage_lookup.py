"""The lineage of a touched file: what `lineage explain` says, for what the map holds and nothing else."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from msgspec.structs import replace

from mindmap.document import FileTouch, Mindmap, Node
from mindmap.file_touches import Touch, attach_to
from mindmap.map_store import Maps
from mindmap.nodes import new_map
from serve.api_types import ExplainAnswer, ExplainRequest, FindAnswer
from serve.api_types import document as published
from serve.backend import Own
from serve.viewer import state
from tests.mindmap.sample_maps import NOON
from tests.repos import Repo
from tests.serve.sample_index import index
from tests.serve.viewer.helpers import Asking, page, viewing


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
def asking(tmp_path: Path, maps: Maps, home: Path) -> Iterator[Asking]:
    with viewing(maps.path, page(tmp_path / "page"), Own(home)) as asking:
        yield asking


def touching(maps: Maps, workspace: Path | None, *touches: Touch) -> Mindmap:
    document = new_map("Work", str(workspace) if workspace else None, NOON)
    document = attach_to(document, None, touches, "Touched", NOON).document
    maps.create(document)
    return document


def asked(document: Mindmap, path: str, lines: str = "") -> str:
    return "/api/why?" + urlencode({"mindmap": document.id, "path": path, "lines": lines})


def test_why(asking: Asking, maps: Maps, repo: Repo, home: Path) -> None:
    """The answer is the one that `lineage explain` prints, for the whole file and for some of its lines."""
    index(repo, home)
    document = touching(maps, repo.path, Touch("src/ü.py"))
    for lines, start, end in (("", 1, 0), ("2", 2, 2), ("1-2", 1, 2)):
        answer = asking.ask(asked(document, "src/ü.py", lines))
        said = Own(home).explain(ExplainRequest("src/ü.py", start, end, include_related=True), repo.path)
        assert answer.status == 200
        assert answer.json == as_json(said)
    assert [hit["commit_message"].strip() for hit in answer.json["hits"]] == ["Count in digits", "Begin"]
    assert answer.json["meta"]["explain"]["blame_coverage"] == 1.0


def test_workspace_inside_a_repository(asking: Asking, maps: Maps, repo: Repo) -> None:
    """Paths count from the workspace, which may be a folder of the repository."""
    repo.commit_file("src/other.py", "inner\n", "The inner one")
    document = touching(maps, repo.path / "src", Touch("other.py"))
    (hit,) = asking.ask(asked(document, "other.py")).json["hits"]
    assert (hit["file_path"], hit["commit_message"].strip()) == ("src/other.py", "The inner one")


def test_not_indexed(asking: Asking, maps: Maps, repo: Repo) -> None:
    """Without an index git alone answers, and a hint says how to have more."""
    document = touching(maps, repo.path, Touch("src/ü.py"))
    said = asking.ask(asked(document, "src/ü.py")).json
    assert said["hits"] and said["meta"]["index_status"]["last_indexed_commit"] is None
    assert "lineage index" in said["meta"]["hint"]


def test_files_without_lineage(asking: Asking, maps: Maps, repo: Repo) -> None:
    """A file that git does not know, or that is gone, is answered with what can be said."""
    repo.write("new.py", "x\n")
    document = touching(maps, repo.path, Touch("new.py"), Touch("gone.py"))
    for path in ("new.py", "gone.py"):
        said = asking.ask(asked(document, path)).json
        assert said["hits"] == [] and path in said["meta"]["explain"]["limitation"]


def test_only_what_the_map_holds(asking: Asking, maps: Maps, repo: Repo, tmp_path: Path) -> None:
    """A file that the map does not hold is refused, and so is one it holds outside of its workspace."""
    (tmp_path / "secret.py").write_text("secret\n")
    document = touching(
        maps, repo.path, Touch("src/ü.py"), Touch(str(tmp_path / "secret.py")), Touch("out/passwd")
    )
    for path in ("other.py", "../secret.py", "/etc/passwd", "src/../other.py", "src", "", "a\0b"):
        assert asking.ask(asked(document, path)).error == (404, "not_touched"), path
    for path in (str(tmp_path / "secret.py"), "out/passwd"):
        assert asking.ask(asked(document, path)).error == (400, "bad_path"), path
    forged = Node(id="n_1", label="Forged", parent="root", files=(FileTouch(path="../secret.py"),))
    root = replace(document.nodes["root"], children=(*document.nodes["root"].children, "n_1"))
    forged_map = replace(document, nodes={**document.nodes, "root": root, "n_1": forged}, id="mm_forged")
    maps.create(forged_map)
    assert asking.ask(asked(forged_map, "../secret.py")).error == (400, "bad_path")


def test_renamed(asking: Asking, maps: Maps, repo: Repo) -> None:
    """A file is found under the path it had before, too."""
    repo.rename("other.py", "renamed.py")
    document = touching(maps, repo.path, Touch("renamed.py", "rename", previous_path="other.py"))
    assert asking.ask(asked(document, "renamed.py")).status == 200
    assert asking.ask(asked(document, "other.py")).status == 200


def test_refusals(asking: Asking, maps: Maps, repo: Repo, tmp_path: Path) -> None:
    """What is wrong with the question, the map or the workspace is said."""
    document = touching(maps, repo.path, Touch("src/ü.py"))
    assert asking.ask(f"/api/why?mindmap={document.id}").error == (400, "bad_request")
    assert asking.ask("/api/why?mindmap=mm_none&path=x").error == (404, "no_such_mindmap")
    assert asking.ask(asked(document, "src/ü.py", "2-1")).error == (400, "bad_lines")
    homeless = touching(maps, None, Touch("a.py"))
    assert asking.ask(asked(homeless, "a.py")).error == (409, "no_workspace")
    (tmp_path / "plain").mkdir()
    plain = touching(maps, tmp_path / "plain", Touch("a.py"))
    assert asking.ask(asked(plain, "a.py")).error == (422, "not_a_repository")


class Stuck:
    """Answers nothing until it is let go."""

    def __init__(self) -> None:
        self.free = threading.Event()

    def find(self, *_: object) -> FindAnswer:
        raise NotImplementedError

    def explain(self, *_: object) -> ExplainAnswer:
        self.free.wait(30)
        raise NotImplementedError


def test_others_are_answered_meanwhile(
    tmp_path: Path, maps: Maps, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lineage that takes forever is given up, and nobody waits for it; too many at once are refused."""
    monkeypatch.setattr(state, "WORK_SECONDS", 1.0)
    monkeypatch.setattr(state, "MOST_WAITING", 6)
    document = touching(maps, repo.path, Touch("src/ü.py"))
    stuck = Stuck()
    with viewing(maps.path, page(tmp_path / "page"), stuck) as asking:
        answers: list[tuple[int, str]] = []
        asks = [
            threading.Thread(target=lambda: answers.append(asking.ask(asked(document, "src/ü.py")).error))
            for _ in range(8)
        ]
        for ask in asks:
            ask.start()
        time.sleep(0.2)
        began = time.monotonic()
        assert asking.ask(f"/api/mindmaps/{document.id}").status == 200
        assert time.monotonic() - began < 10  # and not when the stuck ones are let go
        for ask in asks:
            ask.join()
        assert sorted(answers) == [(503, "too_busy")] * 2 + [(504, "took_too_long")] * 6
        stuck.free.set()


def as_json(answer: ExplainAnswer) -> object:
    """The answer as it comes out of JSON."""
    return json.loads(json.dumps(published(answer)))
