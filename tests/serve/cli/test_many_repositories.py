"""`lineage query` of several repositories, and `lineage status --all`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from serve.backend import InProcessBackend
from serve.cli.query import print_hits
from serve.find_types import FindRequest
from stores.index_location import LOCATION_FILE
from tests.pipeline.histories import get_location
from tests.repos import Repo
from tests.serve.commands import create_timeout_repo, read_output, run_lineage
from tests.serve.sample_index import build_index


@pytest.fixture(name="repos")
def create_repos(tmp_path: Path, home: Path) -> tuple[Repo, Repo]:
    """Two indexed repositories, the second with one commit more, which is not indexed."""
    one, two = create_timeout_repo(tmp_path / "one"), Repo.create(tmp_path / "two")
    two.commit_file("src/udp.py", "def send():\n    timeout()\n", "Add a timeout to send")
    for repo in (one, two):
        build_index(repo, home)
    two.commit_file("src/new.py", "x = 1\n", "Count")
    return one, two


def read_json(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    document: dict[str, object] = json.loads(capsys.readouterr().out)
    return document


def test_query_all_and_by_name(repos: tuple[Repo, Repo], capsys: pytest.CaptureFixture[str]) -> None:
    """`--all` and `--repository` print the usual document; each hit names its repository, and hints have its path."""
    assert run_lineage("query", "--all", "-q", "timeout to send", "--no-rerank") == 0
    answer = read_json(capsys)
    hits, meta = answer["hits"], answer["meta"]
    assert isinstance(hits, list) and isinstance(meta, dict)
    assert hits[0]["repository"] == "two" and {hit["repository"] for hit in hits} == {"one", "two"}
    assert meta["index_status"]["commits_behind_head"] == 1
    assert meta["hint"].startswith("two: ")
    assert f"`lineage index --incremental {repos[1].path}`" in meta["hint"]
    names = ("--repository", "one", "--repository", repos[1].path)
    assert run_lineage("query", *names, "-q", "timeout", "--no-rerank") == 0
    both = read_json(capsys)["hits"]
    assert isinstance(both, list) and {hit["repository"] for hit in both} == {"one", "two"}
    assert run_lineage("query", repos[0].path, "-q", "timeout", "--no-rerank") == 0
    alone = read_json(capsys)["hits"]
    assert isinstance(alone, list) and alone and not any("repository" in hit for hit in alone)


def test_query_refuses_a_path_with_all_and_unknown_names(
    repos: tuple[Repo, Repo], capsys: pytest.CaptureFixture[str]
) -> None:
    """A path with `--all`, and a name without index, are wrong usage."""
    assert run_lineage("query", repos[0].path, "--all", "-q", "timeout") == 2
    assert "PATH conflicts with --all" in capsys.readouterr().err
    assert run_lineage("query", "--all", "--repository", "one", "-q", "timeout") == 2
    assert "--all conflicts with --repository" in capsys.readouterr().err
    assert run_lineage("query", "--repository", "absent", "-q", "timeout") == 2
    assert "No indexed repository is called 'absent'" in capsys.readouterr().err


@pytest.mark.usefixtures("repos")
def test_words_like_a_missing_path_with_all(capsys: pytest.CaptureFixture[str]) -> None:
    """With `--all`, a word that looks like a path and does not exist is part of the query."""
    for words in (["/api", "timeout"], ["timeout", "./api"]):
        quoted = read_output(capsys, "query", "--all", "-q", " ".join(words), "--no-rerank")
        assert read_output(capsys, "query", "--all", *words, "--no-rerank") == quoted
    assert run_lineage("query", "/api", "timeout") == 2
    assert "'/api' does not exist" in capsys.readouterr().err


@pytest.mark.usefixtures("repos")
def test_hits_on_a_terminal_name_the_repository(home: Path) -> None:
    """On a terminal, the repository is before the path."""
    console = Console(width=100)
    request = FindRequest("timeout to send", k=1, rerank=False)
    answer = InProcessBackend(home).find_in_repositories(request, ["*"], home)
    with console.capture() as capture:
        print_hits(request.text, answer, console)
    assert "\n    two: src/udp.py  added" in capture.get()


def test_path_with_a_line_break(tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line break or escape sequence in a path adds no line and no control character to the output."""
    repo = create_timeout_repo(tmp_path / "a\nid: \x1b[2J")
    repo.commit_file("x\ny.py", "timeout()\n", "Call the timeout")
    build_index(repo, home)
    repo.commit_file("x.py", "x = 1\n", "Count")
    name = "a␊id: ␛[2J"
    assert read_output(capsys, "status", repo.path).splitlines()[0] == f"repo: {tmp_path}/{name}"
    assert read_output(capsys, "status", "--all").splitlines()[1].startswith(f"{name}  ")
    output = read_output(capsys, "query", "--all", "-q", "call the timeout", "--no-rerank", "--text")
    assert f"    {name}: x␊y.py  added" in output and f"{name}: The index is 1 commit behind HEAD" in output
    shutil.rmtree(repo.path)
    assert f"index of {tmp_path}/{name}: " in read_output(capsys, "gc")
    assert f"{tmp_path}/{name} does not exist" in read_output(capsys, "status", "--all")


def test_status_all_is_a_table(
    repos: tuple[Repo, Repo], home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`status --all` has a row for each index, also of damaged ones and of missing repositories."""
    one, two = repos
    for name in ("lost", "torn"):
        build_index(create_timeout_repo(tmp_path / name), home)
    (tmp_path / "lost").rename(tmp_path / "moved")
    get_location(Repo(tmp_path / "torn"), home).database.write_bytes(b"no database" * 1000)
    assert run_lineage("status", "--all") == 0
    header, lost, first, torn, second = capsys.readouterr().out.splitlines()
    assert header.split("  ")[0] == "repository" and header.split()[-1] == "state"
    assert first.split()[:5] == ["one", "2", "0", "100", "%"]
    assert second.split()[:5] == ["two", "1", "1", "100", "%"]
    assert lost.split()[0] == "lost" and lost.endswith(f"{tmp_path / 'lost'} does not exist.")
    assert torn.split()[0] == "torn" and "index" in torn
    assert run_lineage("status", one.path, "--all") == 2
    assert two.path.exists()


def test_status_all_lists_an_index_without_a_known_repository(
    repos: tuple[Repo, Repo], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An index that cannot be read, with a damaged `place.json`, is named by its directory; a rebuild repairs it."""
    one, two = repos
    location = get_location(one, home)
    (location.folder / LOCATION_FILE).write_text("{")
    location.database.write_bytes(b"no database" * 1000)
    assert run_lineage("status", "--all") == 0
    _, second, damaged = capsys.readouterr().out.splitlines()
    assert second.startswith("two ")
    assert damaged.split()[:5] == [location.repo_id, *"----"]
    assert f"{location.folder} is damaged, and its repository is unknown. Run `lineage index" in damaged
    command = ("query", "--all", "-q", "timeout", "--no-rerank", "--text")
    missing_answer = f"No answer from {location.folder}: `lineage status --all` says why."
    assert missing_answer in read_output(capsys, *command)
    two.path.rename(two.path.with_name("moved"))
    named = ("query", "--repository", one.path, "-q", "timeout")
    assert run_lineage(*named) == 1
    reason = f"error: one: no answer, because: The index {location.database} cannot be read: "
    assert capsys.readouterr().err.startswith(reason)
    assert run_lineage(*command) == 1
    assert f"error: {missing_answer} two: no answer, because: " in capsys.readouterr().err
    two.path.with_name("moved").rename(two.path)
    assert run_lineage("index", one.path, "--rebuild", "--yes") == 0
    assert "No answer" not in read_output(capsys, *command)
    assert run_lineage("status", "--all") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == ["one", "two"]


def test_status_all_without_indexes(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without an index, `status --all` and `query --all` say what to do."""
    assert run_lineage("status", "--all") == 0
    assert capsys.readouterr().out == "No repository is indexed. Run `lineage index`.\n"
    assert run_lineage("query", "--all", "-q", "timeout") == 2
    assert "No repository is indexed." in capsys.readouterr().err
    assert not home.exists()
