"""The `lineage` command as a process: output, exit codes, what it loads."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from pipeline.git.repository import open_repository
from serve import config, index_status, repositories
from stores import database
from tests.repos import Repo
from tests.serve.commands import HEAVY, ROOT, loaded_by, timeouts
from tests.serve.processes import heard, lineage, on_terminal, start
from tests.serve.sample_index import index


@pytest.fixture
def repo(tmp_path: Path, home: Path) -> Repo:  # noqa: ARG001 - no test may meet the person's own indexes
    return timeouts(tmp_path / "repo")


def test_needs_rebuild(repo: Repo, home: Path) -> None:
    """An index whose vectors mean something else is refused, and the error names the command."""
    index(repo, home, embedding_model="another")
    code, out, err = lineage("query", str(repo.path), "--query", "timeout")
    assert (code, out) == (1, "")
    assert "needs rebuild (embedding_model another" in err
    assert "lineage index --rebuild --yes" in err
    assert "Traceback" not in err


def test_query_answers(repo: Repo, home: Path) -> None:
    """Piped, a query prints the document as UTF-8, whatever the locale says, from any path inside."""
    index(repo, home)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
    }
    code, out, err = lineage(
        "query", "-q", "describe timeout", "-k", "1", cwd=repo.path / "docs", env=environment
    )
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert document["hits"][0]["file_path"] == "docs/ü.md"
    assert document["hits"][0]["commit_message"].rstrip() == "Describe the timeout ✓"
    assert "compatibility" not in document["meta"]


def test_query_without_index(repo: Repo, home: Path) -> None:
    """Without an index: zero hits, a hint, exit code 0."""
    code, out, _ = lineage("query", str(repo.path), "-q", "timeout")
    assert code == 0
    assert json.loads(out)["hits"] == []
    assert "lineage index" in json.loads(out)["meta"]["hint"]
    assert not home.exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["query"], "No question was asked.\n  Ask with --query: `lineage query --query"),
        (["query", "what's new"], "`lineage query --query 'what'\"'\"'s new'`."),
        (
            ["query", "how", "new"],
            "No question was asked.\n  Ask with --query: `lineage query --query 'how new'`.",
        ),
        (["query", "src", "new"], "`lineage query src --query new`."),
        (["query", "src"], '`lineage query src --query "how was it done before?"`.'),
        (
            ["query", "-q", "how", "was", "it done"],
            "The question ends at its first space.\n  Ask with --query: `lineage query --query 'how was it done'`.",
        ),
        (["query", "-q", "x", "--since", "soon"], "'soon' is not a date or an age"),
        (["query", "-q", "x", "--path", "!"], "is not a path filter"),
        (["query", "-q", "x", "--path", "app/[post-id]/page.tsx"], r"escaped: `app/\[post-id\]/`"),
        (["query", "-q", "x", "--author", "\udcff"], "The author filter has a part that is no text"),
        (["query", "-q", ""], "The query is empty"),
        (["query", "-q", "x" * 100_001], "The query is longer than 100,000 characters"),
        (
            ["query", "-q", "x", "--k", "many"],
            "Invalid value for '--k' / '-k': it should be a valid integer\n",
        ),
        (["index", "--resources", "all"], "Invalid value for '--resources': 'all' is not one of 'auto', "),
        (["query", "-q", "x", "--author", ""], "The author filter is empty"),
        (["status", "--nonsense"], "No such option: --nonsense\n  `lineage status --help` lists"),
        (["nonsense"], "nonsense"),
        (["explain"], "FILE"),
        (["explain", ""], "That is no file name"),
        (["explain", "src/tcp.py", "--lines", "5"], "'5' is not a range of lines"),
        (["explain", "src/tcp.py", "--lines", "0:"], "Lines count from 1"),
        (["explain", "src/tcp.py", "--lines", "3:2"], "ends at line 2, before it starts"),
    ],
)
def test_misuse(repo: Repo, arguments: list[str], says: str) -> None:
    """A wrong option is one clear error on stderr, nothing on stdout, exit code 2."""
    code, out, err = lineage(*arguments, cwd=repo.path)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert says in err
    assert "Traceback" not in err


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("command", [["status"], ["query", "-q", "x"], ["explain", "a.py"]])
def test_outside_a_repository(tmp_path: Path, command: list[str]) -> None:
    """Outside a repository the error says so, exit code 1."""
    for name, lacking in ((".", "is not in a git repository"), ("missing", "does not exist")):
        code, out, err = lineage(*command, str(tmp_path / name))
        assert (code, out) == (1, "")
        assert lacking in err


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    "command",
    [
        "query -q x",
        "query -q x --no-daemon",
        "explain a.py",
        "status",
        "index",
        "index --incremental --embed-provider cpu",
        "init",
        "register --client cursor --project . --write",
    ],
)
def test_in_a_deleted_folder(tmp_path: Path, command: str) -> None:
    """Where the working directory is gone, every command that counts paths from it says so, exit code 1."""
    (tmp_path / "gone").mkdir()
    script = f"cd gone && rmdir ../gone && exec {sys.executable} -m serve.cli.entry {command}"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: The working directory no longer exists.\n  Go to another")


def test_a_deleted_folder_is_no_matter_elsewhere(repo: Repo, tmp_path: Path) -> None:
    """What needs no working directory goes on without one."""
    (tmp_path / "gone").mkdir()
    command = f"{sys.executable} -m serve.cli.entry status {repo.path}"
    done = subprocess.run(
        ["sh", "-c", f"cd gone && rmdir ../gone && exec {command}"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(f"repo: {repo.path}\n")


def test_status(repo: Repo, home: Path) -> None:
    """Status prints exactly its six lines, before and after indexing, and loads no model."""
    place = repositories.place_of(home, open_repository(repo.path))
    common = f"repo: {repo.path}\nid: {place.repo_id}\n"
    none = "last_indexed_commit: <none>\nindexed_at: <none>\ncommits_behind_head: 2\ncompatibility: <none>\n"
    assert lineage("status", str(repo.path)) == (0, common + none, "")
    index(repo, home, upto="HEAD~1")
    _, stands = index_status.of_path(repo.path, home)
    assert stands.indexed_at is not None
    assert lineage("status", str(repo.path / "src")) == (
        0,
        f"{common}last_indexed_commit: {repo.git('rev-parse', 'HEAD~1')}\n"
        f"indexed_at: {stands.indexed_at.isoformat(timespec='seconds')}Z\n"
        "commits_behind_head: 1\ncompatibility: compatible\n",
        "",
    )


@pytest.mark.parametrize(
    ("changed", "says", "remedy"),
    [
        (
            {"embedding_model": "another"},
            "needs rebuild (embedding_model another",
            ["remedy: lineage index --rebuild --yes"],
        ),
        ({"parser_python": "0"}, "query-compatible, refresh recommended (parser_python 0", []),
        ({"parser_java": "0"}, "compatible", []),  # nothing here is Java
        (
            {"words_version": None},
            "unknown (no metadata for words_version)",
            ["remedy: lineage index --force"],
        ),
    ],
)
def test_status_shows_the_verdict(
    repo: Repo, home: Path, changed: dict[str, Any], says: str, remedy: list[str]
) -> None:
    """Status answers under every verdict, and names the command that helps where the verdict does not."""
    index(repo, home, **changed)
    code, out, _ = lineage("status", cwd=repo.path)
    assert code == 0
    assert [line for line in out.splitlines() if line.startswith(f"compatibility: {says}")]
    assert [line for line in out.splitlines() if line.startswith("remedy: ")] == remedy


def test_init(repo: Repo) -> None:
    """Hooks go in and out by the command, which says what it did; a refusal is an error with a way out."""
    code, out, err = lineage("init", str(repo.path / "src"), "--write-agent-md")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "created      .git/hooks/post-commit"
    code, out, _ = lineage("init", str(repo.path), "--remove")
    assert (code, out.splitlines()[-1]) == (0, "deleted      AGENTS.md")
    (repo.path / ".git/hooks/post-commit").write_text("#!/usr/bin/python3\n")
    code, out, err = lineage("init", str(repo.path))
    assert (code, out) == (1, "")
    assert err.startswith("error: ") and "--force" in err
    assert lineage("init", str(repo.path), "--force", "--remove")[0] == 2


def test_register(tmp_path: Path) -> None:
    """What is shown on stdout is a file's whole content; --write and --remove do and undo it."""
    program = tmp_path / "bin" / "lineage-mcp"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "HOME": str(tmp_path),
        "LINEAGE_HOME": str(tmp_path / "ü"),
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
    }
    code, out, err = lineage("register", "--client", "cursor", env=environment)
    entry = json.loads(out)["mcpServers"]["lineage"]
    assert (code, Path(entry["command"]).name) == (0, "lineage-mcp")
    assert entry["env"] == {"LINEAGE_HOME": str(tmp_path / "ü")}
    assert f"This goes into {tmp_path}/.cursor/mcp.json" in err
    assert lineage("register", "--client", "cursor", "--write", env=environment)[0] == 0
    assert (tmp_path / ".cursor/mcp.json").read_text() == out
    code, said, _ = lineage("register", "--client", "cursor", "--remove", env=environment)
    assert (code, (tmp_path / ".cursor/mcp.json").exists()) == (0, False)
    assert "was deleted" in said
    code, _, err = lineage("register", "--write", env=environment)
    assert (code, "Whose configuration?" in err) == (2, True)


def test_the_door_is_light() -> None:
    """Importing the command loads no database, model, parser, server or drawing library."""
    assert not loaded_by("import serve.cli.app") & set(HEAVY.split())


def test_init_and_register_load_no_server(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hooks and clients' files are written without a database, a model or the protocol's library."""
    monkeypatch.setenv("HOME", str(repo.path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    heavy = set(HEAVY.split()) - {"pygit2"}
    assert not loaded_by(f"from serve.cli.app import main; main(['init', {str(repo.path)!r}])") & heavy
    assert (
        not loaded_by("from serve.cli.app import main; main(['register', '--remove', '--client', 'zed'])")
        & heavy
    )


def test_status_loads_no_model(repo: Repo, home: Path) -> None:
    """Status never touches the encoder's runtime or a parser."""
    index(repo, home)
    loaded = loaded_by(f"from serve.cli.app import main; main(['status', {str(repo.path)!r}])")
    assert not loaded & {"onnxruntime", "tokenizers", "tree_sitter", "rich"}


def test_version() -> None:
    """--version names the program and the version the project declares."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert version(config.DISTRIBUTION) == declared
    assert lineage("--version") == (0, f"lineage {declared}\n", "")


def test_help_without_arguments() -> None:
    """Alone, the command explains itself."""
    _, out, err = lineage()
    assert "query" in out + err
    assert "status" in out + err


def test_short_help() -> None:
    """`-h` is what many type first, of commands in groups too."""
    for command in ((), ("index",), ("daemon", "list")):
        assert lineage(*command, "-h") == lineage(*command, "--help")


@pytest.fixture
def busy(repo: Repo, home: Path) -> Iterator[None]:
    """A writer that holds the index."""
    index(repo, home)
    with database.writing(repositories.place_of(home, open_repository(repo.path))):
        yield


@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupt(repo: Repo, number: signal.Signals) -> None:
    """Ctrl-C, `kill` and a terminal that closes end a waiting query silently, with the shell's code for it."""
    with heard(number):
        process = start("query", str(repo.path), "-q", "timeout")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=4)
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (128 + number, b"", b"")


def test_interrupted_statement() -> None:
    """Ctrl-C while DuckDB is at work is Ctrl-C, and no failure that nobody foresaw."""
    program = (
        "import os, signal, threading, duckdb\n"
        "from serve.cli import exit_codes\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "try: duckdb.sql('SELECT max(hash(a)) FROM range(100_000_000_000) numbers(a)').fetchall()\n"
        "except BaseException as error: print(exit_codes.failure(error))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "Failure(text='', code=130)\n"


def test_closed_pipe(repo: Repo, home: Path) -> None:
    """A reader that went away ends the program silently, with the shell's code for it."""
    index(repo, home)
    reader, writer = os.pipe()
    os.close(reader)
    try:
        code, _, err = lineage("status", str(repo.path), stdout=writer)
    finally:
        os.close(writer)
    assert (code, err) == (141, "")


def test_terminal_gets_a_page(repo: Repo, home: Path) -> None:
    """On a terminal a query is a coloured page, and JSON when asked for."""
    index(repo, home)
    page = on_terminal("query", str(repo.path), "-q", "timeout")
    assert "Describe the timeout ✓" in page
    assert "\x1b[" in page
    document = json.loads(on_terminal("query", str(repo.path), "-q", "timeout", "--json"))
    assert len(document["hits"]) == 2
