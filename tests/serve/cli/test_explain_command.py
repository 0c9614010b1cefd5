"""`lineage explain` as a process: output, exit codes, what it loads."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.repos import Repo
from tests.serve.commands import ROOT, loaded_by, timeouts
from tests.serve.processes import lineage, on_terminal
from tests.serve.sample_index import index


@pytest.fixture
def repo(tmp_path: Path, home: Path) -> Repo:  # noqa: ARG001 - no test may meet the person's own indexes
    return timeouts(tmp_path / "repo")


def test_explain_answers(repo: Repo, home: Path) -> None:
    """Piped, an explanation is the specified document, related commits with it."""
    repo.commit_file("src/tcp.py", "def connect():\n    timeout(3)\n", "Wait three seconds")
    index(repo, home)
    code, out, err = lineage("explain", "src/tcp.py", str(repo.path), "--lines", "2:")
    document = json.loads(out)
    assert (code, err, list(document)) == (0, "", ["hits", "meta"])
    assert [hit["commit_message"] for hit in document["hits"]] == ["Wait three seconds"]
    assert list(document["meta"]) == ["index_status", "hint", "explain"]
    explained = document["meta"]["explain"]
    assert [commit["commit_message"] for commit in explained.pop("related_commits")] == [
        "Add a timeout to connect"
    ]
    assert explained == {
        "lines_queried": [2, 2],
        "commits_unique": 1,
        "blame_coverage": 1.0,
        "limitation": None,
    }
    assert document["hits"][0]["diff_excerpt"].startswith("@@ -1,2 +1,2 @@\n def connect():\n-    timeout()")


def test_explain_less(repo: Repo, home: Path) -> None:
    """What is not wanted is not there, and a missing file is no error."""
    index(repo, home)
    options = ("--no-diff", "--no-related", "--ignore-whitespace", "--follow-moves")
    _, out, _ = lineage("explain", "tcp.py", *options, cwd=repo.path / "src")
    document = json.loads(out)
    assert "diff_excerpt" not in document["hits"][0]
    assert "related_commits" not in document["meta"]["explain"]
    code, out, _ = lineage("explain", "nowhere.py", str(repo.path))
    assert code == 0
    assert json.loads(out)["meta"]["explain"]["limitation"].startswith("nowhere.py does not exist in HEAD")


def test_explain_takes_any_bytes(repo: Repo, home: Path) -> None:
    """A name that is not UTF-8 comes in from the shell and goes out as text."""
    repo.write(b"caf\xe9.py", "x\n")
    repo.commit("Bytes")
    index(repo, home)
    code, out, _ = lineage("explain", os.fsdecode(b"caf\xe9.py"), str(repo.path))
    assert code == 0
    assert json.loads(out)["hits"][0]["file_path"] == "caf\\xe9.py"


def test_explain_on_a_terminal(repo: Repo, home: Path) -> None:
    """On a terminal the lines stand beside their commits, and JSON comes when asked for."""
    index(repo, home)
    page = on_terminal("explain", "src/tcp.py", str(repo.path))
    assert "Add a timeout to connect" in page
    assert "│ " in page and "def connect():" in page
    assert len(json.loads(on_terminal("explain", "src/tcp.py", str(repo.path), "--json"))["hits"]) == 1


def test_explain_loads_no_model(repo: Repo, home: Path) -> None:
    """An explanation touches neither the encoder's runtime nor a parser nor Arrow."""
    index(repo, home)
    loaded = loaded_by(f"from serve.cli.app import main; main(['explain', 'src/tcp.py', {str(repo.path)!r}])")
    assert not loaded & {"onnxruntime", "tokenizers", "tree_sitter", "rich", "pyarrow", "numpy"}


def test_ignore_file_named_for_all_repositories(repo: Repo, tmp_path: Path) -> None:
    """A person's own blame.ignoreRevsFile that this repository lacks, which stops git, does not stop an answer."""
    repo.write("src/tcp.py", "def connect():\r\n    timeout()\r\n")
    settings = "[blame]\n\tignoreRevsFile = .git-blame-ignore-revs\n[core]\n\tautocrlf\n\teol = crlf\n"
    (tmp_path / ".gitconfig").write_text(settings)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    code, out, _ = lineage("explain", "src/tcp.py", str(repo.path), env=environment)
    document = json.loads(out)
    assert code == 0
    assert document["meta"]["explain"]["limitation"] is None
    assert [hit["blame_lines"] for hit in document["hits"]] == [[1, 2]]
