"""`lineage explain`: output, exit codes and imported modules."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pipeline.git.git_cli import parse_version, read_version
from serve.explain import target
from tests.repos import Repo
from tests.serve.commands import (
    ROOT,
    create_timeout_repo,
    list_loaded_packages,
    refuse_to_read,
    run_captured,
)
from tests.serve.processes import run_lineage, run_on_terminal
from tests.serve.sample_index import build_index


@pytest.fixture
def repo(tmp_path: Path, home: Path) -> Repo:  # noqa: ARG001 - isolates the user's indexes
    """Repository with two commits about timeouts; `home` keeps the tests out of the user's indexes."""
    return create_timeout_repo(tmp_path / "repo")


def test_explain_prints_json_when_piped(repo: Repo, home: Path) -> None:
    """When piped, an explanation is the specified JSON, with related commits."""
    repo.commit_file("src/tcp.py", "def connect():\n    timeout(3)\n", "Wait three seconds")
    build_index(repo, home)
    code, out, err = run_captured("explain", "src/tcp.py", str(repo.path), "--lines", "2:")
    document = json.loads(out)
    assert (code, err, list(document)) == (0, "", ["hits", "meta"])
    assert [hit["commit_message"] for hit in document["hits"]] == ["Wait three seconds"]
    assert list(document["meta"]) == ["index_status", "hint", "explain"]
    explained = document["meta"]["explain"]
    assert [commit["commit_message"] for commit in explained.pop("related_commits")] == [
        "Add a timeout to connect"
    ]
    assert [step["commit_message"] for step in explained.pop("evolution")] == ["Add a timeout to connect"]
    assert explained == {
        "lines_queried": [2, 2],
        "commits_unique": 1,
        "blame_coverage": 1.0,
        "limitation": None,
    }
    assert document["hits"][0]["diff_excerpt"].startswith("@@ -1,2 +1,2 @@\n def connect():\n-    timeout()")


def test_explain_omits_diffs_and_related_commits(repo: Repo, home: Path) -> None:
    """Options omit parts of the answer, and a missing file is not an error."""
    build_index(repo, home)
    options = ("--no-diff", "--no-related", "--ignore-whitespace", "--follow-moves")
    _, out, _ = run_captured("explain", "tcp.py", *options, cwd=repo.path / "src")
    document = json.loads(out)
    assert "diff_excerpt" not in document["hits"][0]
    assert "related_commits" not in document["meta"]["explain"]
    code, out, _ = run_captured("explain", "nowhere.py", str(repo.path))
    assert code == 0
    assert json.loads(out)["meta"]["explain"]["limitation"].startswith("nowhere.py does not exist in HEAD")


def test_suggested_commands_have_the_path(repo: Repo, tmp_path: Path) -> None:
    """Commands in the limitations have the PATH argument."""
    repo.commit_file("src/tcp.py", "def connect():\n    timeout(3)\n", "Wait three seconds")
    shallow = repo.clone(tmp_path / "shallow", "--depth=2")
    _, out, _ = run_captured("explain", "src/tcp.py", str(shallow.path))
    explained = json.loads(out)["meta"]["explain"]
    assert f"`git -C {shallow.path} fetch --unshallow`" in explained["limitation"]
    assert f"`lineage index {shallow.path}`" in explained["evolution_limitation"]


def test_explain_follows_lines_back(repo: Repo, home: Path) -> None:
    """Earlier commits of the lines are listed by default, and not with --no-evolution."""
    repo.commit_file("src/tcp.py", "def connect():\n    timeout( )\n", "Add a space")
    build_index(repo, home)
    arguments = ("explain", "src/tcp.py", str(repo.path), "--lines", "2")
    explained = json.loads(run_captured(*arguments)[1])["meta"]["explain"]
    (step,) = explained["evolution"]
    assert (step["step"], step["commit_message"], step["lines"]) == (
        "introduced",
        "Add a timeout to connect",
        [2],
    )
    assert (step["text"], step["provenance"]) == ("timeout()", "EXACT")
    assert "evolution" not in json.loads(run_captured(*arguments, "--no-evolution")[1])["meta"]["explain"]


def test_explain_accepts_non_utf8_names(repo: Repo, home: Path) -> None:
    """A file name that is not UTF-8 is accepted and printed with escapes."""
    repo.write(b"caf\xe9.py", "x\n")
    repo.commit("Bytes")
    build_index(repo, home)
    code, out, _ = run_captured("explain", os.fsdecode(b"caf\xe9.py"), str(repo.path))
    assert code == 0
    assert json.loads(out)["hits"][0]["file_path"] == "caf\\xe9.py"


def test_explain_is_formatted_on_a_terminal(repo: Repo, home: Path) -> None:
    """On a terminal the lines are printed next to their commits, and JSON only with --json."""
    build_index(repo, home)
    page = run_on_terminal("explain", "src/tcp.py", str(repo.path))
    assert "Add a timeout to connect" in page
    assert "│ " in page and "def connect():" in page
    assert len(json.loads(run_on_terminal("explain", "src/tcp.py", str(repo.path), "--json"))["hits"]) == 1


def test_explain_fails_with_an_unreadable_file(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a file exists but cannot be read, the answer says why and the exit code is 1."""
    monkeypatch.setattr(target, "_read_regular_file", refuse_to_read)
    code, out, _ = run_captured("explain", "src/tcp.py", str(repo.path), "--no-daemon")
    assert code == 1
    reason = "src/tcp.py cannot be read: Permission denied."
    assert json.loads(out)["meta"]["explain"]["limitation"] == reason


def test_explain_fails_with_git(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """If git cannot read the history, the answer says so and the exit code is 1; for a missing file it is 0.

    If git has no permission to read an object, the error says so.
    """
    repo.commit_file("src/tcp.py", "def connect():\n    timeout(3)\n", "Wait three seconds")
    blob = repo.git("rev-parse", "HEAD~1:src/tcp.py")
    (repo.path / ".git/objects" / blob[:2] / blob[2:]).unlink()
    code, out, _ = run_captured("explain", "src/tcp.py", str(repo.path))
    assert (code, json.loads(out)["hits"]) == (1, [])
    assert json.loads(out)["meta"]["explain"]["limitation"]
    assert run_captured("explain", "absent.py", str(repo.path))[0] == 0
    directory, access = repo.path / ".git/objects" / blob[:2], os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != directory and access(path, mode))
    code, _, error = run_captured("explain", "src/tcp.py", str(repo.path), "--no-daemon")
    assert code == 1 and error.startswith(f"error: Permission denied: {directory}\n")


def test_explain_loads_no_model(repo: Repo, home: Path) -> None:
    """An explanation imports neither the encoder's runtime nor a parser nor Arrow."""
    build_index(repo, home)
    loaded = list_loaded_packages(
        f"from serve.cli.app import main; main(['explain', 'src/tcp.py', {str(repo.path)!r}])"
    )
    assert not loaded & {"onnxruntime", "tokenizers", "tree_sitter", "rich", "pyarrow", "numpy"}


@pytest.mark.parametrize("name", [".git-blame-ignore-revs", "src"])
@pytest.mark.parametrize("section", ["include", 'includeIf "hasconfig:remote.*.url:https://localhost/"'])
def test_missing_global_ignore_revs_file(repo: Repo, tmp_path: Path, name: str, section: str) -> None:
    """There is an answer even if the global blame.ignoreRevsFile is missing or a directory, for which git fails.

    The other settings stay in force, including those of an included file that libgit2 does not read.
    """
    if "hasconfig" in section and parse_version(read_version()) < (2, 36):
        pytest.skip("this git has no such include")
    repo.git("remote", "add", "origin", "https://localhost/")
    repo.write("src/tcp.py", "def connect():\r\n    timeout()\r\n")
    settings = f"[blame]\n\tignoreRevsFile = {name}\n"
    includes = f'[{section}]\n\tpath = more\n[includeIf "gitdir:/**/*.path"]\n\tpath = other\n'
    (tmp_path / ".gitconfig").write_text(settings + includes)
    (tmp_path / "more").write_text("[core]\n\tautocrlf\n\teol = crlf\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    code, out, _ = run_lineage("explain", "src/tcp.py", str(repo.path), env=environment)
    document = json.loads(out)
    assert code == 0
    assert document["meta"]["explain"]["limitation"] is None
    assert [hit["blame_lines"] for hit in document["hits"]] == [[1, 2]]
