"""The `lineage` command: output, exit codes and imported modules."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from pipeline.git.repository import open_repository
from serve import config, index_status, repositories
from serve.cli import app
from stores import database
from tests.repos import Repo
from tests.serve.commands import (
    HEAVY_PACKAGES,
    ROOT,
    create_timeout_repo,
    list_loaded_packages,
    run_captured,
)
from tests.serve.processes import run_lineage, run_on_terminal, start_lineage, use_default_signal_handler
from tests.serve.sample_index import build_index

DELETED_DIRECTORY_ERROR = "error: The working directory no longer exists.\n  Change to another directory"


@pytest.fixture
def repo(tmp_path: Path, home: Path) -> Repo:  # noqa: ARG001 - isolates the user's indexes
    """Repository with two commits about timeouts; `home` keeps the tests out of the user's indexes."""
    return create_timeout_repo(tmp_path / "repo")


def test_incompatible_index_names_rebuild_command(repo: Repo, home: Path) -> None:
    """A query of an index with incompatible vectors fails, and the error names the rebuild command."""
    build_index(repo, home, embedding_model="another")
    code, out, err = run_captured("query", str(repo.path), "--query", "timeout")
    assert (code, out) == (1, "")
    assert "needs rebuild (embedding_model another" in err
    assert "lineage index --rebuild --yes" in err
    assert "Traceback" not in err


def test_query_prints_utf8_json_when_piped(repo: Repo, home: Path) -> None:
    """When piped, a query prints JSON as UTF-8 in any locale and from any directory of the repository."""
    build_index(repo, home)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
    }
    code, out, err = run_lineage(
        "query", "-q", "describe timeout", "-k", "1", cwd=repo.path / "docs", env=environment
    )
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert document["hits"][0]["file_path"] == "docs/ü.md"
    assert document["hits"][0]["commit_message"].rstrip() == "Describe the timeout ✓"
    assert "compatibility" not in document["meta"]


def test_query_text_as_arguments(repo: Repo, home: Path, tmp_path: Path) -> None:
    """A query can be one argument before PATH, several arguments without PATH, or the option --query beside PATH."""
    build_index(repo, home)
    text = "describe timeout in src files"
    expected = run_captured("query", repo.path, "-q", text)[1]
    assert json.loads(expected)["hits"]
    for arguments in ((text,), text.split(), ("describe", "timeout in src", "files")):
        assert run_captured("query", *arguments, cwd=repo.path) == (0, expected, "")
    for path in (repo.path, repo.path / "docs"):
        assert run_captured("query", text, path, cwd=tmp_path) == (0, expected, "")
    expected_of_word = run_captured("query", repo.path, "-q", "timeout")[1]
    assert run_captured("query", "timeout", ".", cwd=repo.path) == (0, expected_of_word, "")
    assert run_captured("query", "timeout", repo.path, cwd=tmp_path) == (0, expected_of_word, "")
    code, out, err = run_captured("query", text, "absent", cwd=repo.path)
    assert (code, out) == (1, "") and "does not exist" in err
    names = ("--repository", repo.path.name, "--no-rerank")
    assert run_captured("query", *names, text)[1] == run_captured("query", *names, "-q", text)[1] != ""


def test_query_without_index_has_hint(repo: Repo, home: Path) -> None:
    """Without an index, a query has no hits and a hint, and exits with 0."""
    code, out, _ = run_captured("query", str(repo.path), "-q", "timeout")
    assert code == 0
    assert json.loads(out)["hits"] == []
    assert "lineage index" in json.loads(out)["meta"]["hint"]
    assert not home.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["query"], "The query is missing.\n  Describe the change: `lineage query --query 'how was it done"),
        (["query", "src"], "`lineage query src --query 'how was it done before?'`."),
        (["query", "."], "The query is missing.\n"),
        (["query", ""], "The query is empty"),
        (
            ["query", "src", "what's new"],
            "'src' is a path, and may also be a word of the query.\n  Use `lineage query src --query "
            "'what'\"'\"'s new'` or `lineage query --query 'src what'\"'\"'s new'`.",
        ),
        (
            ["query", "new", "src"],
            "Use `lineage query src --query new` or `lineage query --query 'new src'`.",
        ),
        *(
            (
                ["query", *words],
                f"{path!r} does not exist.\n  Correct the path. If it is a word of the query, use `lineage query ",
            )
            for path in ("/typo", "./typo", "../typo", "~/typo")
            for words in (["new", path], ["new", "text", path], [path, "new"], [path, "new text"])
        ),
        (
            ["query", "-q", "how", "was", "it done"],
            "The query is not quoted: it ends at the first space.\n"
            "  Quote it: `lineage query --query 'how was it done'`.",
        ),
        (["query", "-q", "how was", "src", "docs"], "There is more than one PATH."),
        (["query", "-q", "x", "--since", "soon"], "'soon' is not a date or an age"),
        (["query", "-q", "x", "--path", "!"], "is not a path filter"),
        (["query", "-q", "x", "--path", "app/[post-id]/page.tsx"], r"part of a name: `app/\[post-id\]/`"),
        (["query", "-q", "x", "--author", "\udcff"], "The author filter contains invalid text"),
        (["query", "-q", ""], "The query is empty"),
        (["query", "-q", "x" * 100_001], "The query is longer than 100,000 characters"),
        (
            ["query", "-q", "x", "--k", "many"],
            "Invalid value for '--k' / '-k': it should be a valid integer\n",
        ),
        (["index", "--resources", "all"], "Invalid value for '--resources': 'all' is not one of 'auto', "),
        (["query", "-q", "x", "--author", ""], "The author filter is empty"),
        (["query", "-q", "x", "--range", "mian.."], "no commit 'mian'.\n  Did you mean main?"),
        (["grep", "x", "--range", "--all"], "'--all' is not a revision"),
        (["status", "--nonsense"], "No such option: --nonsense\n  `lineage status --help` lists"),
        (["nonsense"], "nonsense"),
        (["explain"], "FILE"),
        (["explain", ""], "This is not a file name"),
        (["explain", "src/tcp.py", "--lines", "5-7"], "'5-7' is not a range of lines"),
        (["explain", "src/tcp.py", "--lines", "0:"], "Lines count from 1"),
        (["explain", "src/tcp.py", "--lines", "3:2"], "ends at line 2, before it starts"),
    ],
)
def test_usage_error_goes_to_stderr(
    repo: Repo,
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A wrong option prints one clear error on stderr and nothing on stdout, and exits with 2."""
    monkeypatch.chdir(repo.path)
    code = app.main(arguments)
    out, err = capfd.readouterr()
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert message in err
    assert "Traceback" not in err


def test_usage_error_of_the_program(repo: Repo) -> None:
    """The program exits with 2 after a usage error."""
    code, out, err = run_lineage("status", "--nonsense", cwd=repo.path)
    assert (code, out) == (2, "")
    assert err.startswith("error: No such option: --nonsense\n")


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("command", [["status"], ["query", "-q", "x"], ["explain", "a.py"]])
def test_outside_a_repository_fails(tmp_path: Path, command: list[str]) -> None:
    """Outside a repository, the error says so and the exit code is 1."""
    for name, message in ((".", "is not in a git repository"), ("missing", "does not exist")):
        code, out, err = run_captured(*command, str(tmp_path / name))
        assert (code, out) == (1, "")
        assert message in err


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    "command",
    [
        "query -q x --no-daemon",
        "explain a.py",
        "status",
        "index",
        "init",
        "register --client cursor --project . --write",
    ],
)
def test_deleted_working_directory_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    """In a deleted working directory, every command with a relative path reports it and exits with 1."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    code = app.main(command.split())
    out, err = capfd.readouterr()
    assert (code, out) == (1, "")
    assert err.startswith(DELETED_DIRECTORY_ERROR)


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("command", ["query -q x", "index --incremental --embed-provider cpu"])
def test_program_in_a_deleted_working_directory_fails(tmp_path: Path, command: str) -> None:
    """In a deleted working directory, the program reports it even before it has read the arguments."""
    (tmp_path / "gone").mkdir()
    script = f"cd gone && rmdir ../gone && exec {sys.executable} -m serve.cli.entry {command}"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith(DELETED_DIRECTORY_ERROR)


def test_absolute_path_works_in_a_deleted_directory(repo: Repo, tmp_path: Path) -> None:
    """A command with an absolute path works in a deleted working directory."""
    (tmp_path / "gone").mkdir()
    command = f"{sys.executable} -m serve.cli.entry status {repo.path}"
    result = subprocess.run(
        ["sh", "-c", f"cd gone && rmdir ../gone && exec {command}"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.startswith(f"repo: {repo.path}\n")


def test_status_prints_six_lines(repo: Repo, home: Path) -> None:
    """Status prints exactly its six lines, before and after indexing."""
    location = repositories.locate_index(home, open_repository(repo.path))
    repository_lines = f"repo: {repo.path}\nid: {location.repo_id}\n"
    unindexed_lines = (
        "last_indexed_commit: <none>\nindexed_at: <none>\ncommits_behind_head: 2\ncompatibility: <none>\n"
    )
    assert run_captured("status", str(repo.path)) == (0, repository_lines + unindexed_lines, "")
    build_index(repo, home, revision="HEAD~1")
    _, status = index_status.load_status_at_path(repo.path, home)
    assert status.indexed_at is not None
    assert run_captured("status", str(repo.path / "src")) == (
        0,
        f"{repository_lines}last_indexed_commit: {repo.git('rev-parse', 'HEAD~1')}\n"
        f"indexed_at: {status.indexed_at.isoformat(timespec='seconds')}Z\n"
        "commits_behind_head: 1\ncompatibility: compatible\n",
        "",
    )


@pytest.mark.parametrize(
    ("versions", "verdict", "remedy"),
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
def test_status_names_remedy(
    repo: Repo, home: Path, versions: dict[str, Any], verdict: str, remedy: list[str]
) -> None:
    """Status succeeds for every compatibility verdict. It names the remedy, unless the verdict itself names it."""
    build_index(repo, home, **versions)
    code, out, _ = run_captured("status", cwd=repo.path)
    assert code == 0
    assert [line for line in out.splitlines() if line.startswith(f"compatibility: {verdict}")]
    assert [line for line in out.splitlines() if line.startswith("remedy: ")] == remedy


def test_init_installs_and_removes_hooks(repo: Repo) -> None:
    """`init` installs and removes hooks and says what it did; if it refuses, the error says what to do."""
    code, out, err = run_captured("init", str(repo.path / "src"), "--write-agent-md")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "created      .git/hooks/post-commit"
    code, out, _ = run_captured("init", str(repo.path), "--remove")
    assert (code, out.splitlines()[-1]) == (0, "deleted      AGENTS.md")
    (repo.path / ".git/hooks/post-commit").write_text("#!/usr/bin/python3\n")
    code, out, err = run_captured("init", str(repo.path))
    assert (code, out) == (1, "")
    assert err.startswith("error: ") and "--force" in err
    assert run_captured("init", str(repo.path), "--force", "--remove")[0] == 2


def test_register_writes_and_removes_entry(tmp_path: Path) -> None:
    """`register` shows the complete file on stdout. With --write it creates the file; --remove deletes it."""
    program = tmp_path / "bin" / "lineage-mcp"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    environment = {
        "HOME": str(tmp_path),
        "LINEAGE_HOME": str(tmp_path / "ü"),
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
    }
    code, out, err = run_captured("register", "--client", "cursor", env=environment)
    entry = json.loads(out)["mcpServers"]["lineage"]
    assert (code, Path(entry["command"]).name) == (0, "lineage-mcp")
    assert entry["env"] == {"LINEAGE_HOME": str(tmp_path / "ü")}
    assert f"Add this to {tmp_path}/.cursor/mcp.json" in err
    assert run_captured("register", "--client", "cursor", "--write", env=environment)[0] == 0
    assert (tmp_path / ".cursor/mcp.json").read_text() == out
    code, output, _ = run_captured("register", "--client", "cursor", "--remove", env=environment)
    assert (code, (tmp_path / ".cursor/mcp.json").exists()) == (0, False)
    assert output.startswith("Deleted ")
    code, _, err = run_captured("register", "--write", env=environment)
    assert (code, "No client is named" in err) == (2, True)


def test_register_client_that_starts_servers_elsewhere(repo: Repo, tmp_path: Path) -> None:
    """If a client starts servers in another directory, its entry has the path of the repository.

    Outside of repositories, --write is an error and the entry stays.
    """
    file = tmp_path / ".codeium/windsurf/mcp_config.json"
    environment = {"HOME": str(tmp_path), "LINEAGE_HOME": str(tmp_path / "home")}
    register = partial(run_captured, "register", "--client", "windsurf", env=environment)
    code, _, err = register("--write", cwd=tmp_path)
    assert code == 1 and f"{tmp_path} is not in a git repository" in err
    assert "The entry for Windsurf needs the path of a repository. Run the command in that" in err
    assert not file.exists() and register("--write", cwd=repo.path)[0] == 0
    assert register("--write", cwd=tmp_path)[0] == 1
    assert json.loads(file.read_text())["mcpServers"]["lineage"]["args"] == [str(repo.path)]
    assert json.loads(register(cwd=tmp_path)[1])["mcpServers"]["lineage"]["args"] == []
    assert register("--remove", cwd=tmp_path)[0] == 0 and not file.exists()


def test_import_is_light() -> None:
    """Importing the command imports no database, model, parser, server or drawing library."""
    assert not list_loaded_packages("import serve.cli.app") & set(HEAVY_PACKAGES.split())


def test_init_and_register_are_light(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """`init` and `register` import no database, model or MCP library."""
    monkeypatch.setenv("HOME", str(repo.path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    heavy = set(HEAVY_PACKAGES.split()) - {"pygit2"}
    assert (
        not list_loaded_packages(f"from serve.cli.app import main; main(['init', {str(repo.path)!r}])")
        & heavy
    )
    assert (
        not list_loaded_packages(
            "from serve.cli.app import main; main(['register', '--remove', '--client', 'zed'])"
        )
        & heavy
    )


def test_status_loads_no_model(repo: Repo, home: Path) -> None:
    """Status imports neither the encoder's runtime nor a parser."""
    build_index(repo, home)
    loaded = list_loaded_packages(f"from serve.cli.app import main; main(['status', {str(repo.path)!r}])")
    assert not loaded & {"onnxruntime", "tokenizers", "tree_sitter", "rich"}


def test_version_matches_pyproject() -> None:
    """--version prints the program name and the version in pyproject.toml."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert version(config.DISTRIBUTION) == declared
    assert run_lineage("--version") == (0, f"lineage {declared}\n", "")


def test_no_arguments_prints_help() -> None:
    """Without arguments, the command prints its help."""
    _, out, err = run_captured()
    assert "query" in out + err
    assert "status" in out + err


def test_h_means_help() -> None:
    """`-h` prints the help of every command, also of commands in groups."""
    for command in ((), ("index",), ("daemon", "list")):
        assert run_captured(*command, "-h") == run_captured(*command, "--help")


@pytest.fixture
def busy_index(repo: Repo, home: Path) -> Iterator[None]:
    """Hold an index of an earlier schema open for writing. A query waits for it, because a copy cannot be migrated."""
    build_index(repo, home)
    with database.open_for_writing(repositories.locate_index(home, open_repository(repo.path))) as connection:
        connection.execute("UPDATE migrations SET version = version - 1")
        yield


@pytest.mark.usefixtures("busy_index")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_ends_waiting_query_silently(repo: Repo, number: signal.Signals) -> None:
    """Ctrl-C, `kill` and a closed terminal end a waiting query silently, with the shell's exit code for it."""
    with use_default_signal_handler(number):
        process = start_lineage("query", str(repo.path), "-q", "timeout")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=4)
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (128 + number, b"", b"")


def test_interrupt_during_a_statement() -> None:
    """An interrupt during a DuckDB statement is reported as an interrupt, not as an unexpected error."""
    program = (
        "import os, signal, threading, duckdb\n"
        "from serve.cli import terminal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "try: duckdb.sql('SELECT max(hash(a)) FROM range(100_000_000_000) numbers(a)').fetchall()\n"
        "except BaseException as error: print(terminal.describe_failure(error))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stdout == "Failure(message='', exit_code=130)\n"


def test_closed_pipe_ends_silently(repo: Repo, home: Path) -> None:
    """A closed pipe ends the program silently, with the shell's exit code for it."""
    build_index(repo, home)
    reader, writer = os.pipe()
    os.close(reader)
    try:
        code, _, err = run_lineage("status", str(repo.path), stdout=writer)
    finally:
        os.close(writer)
    assert (code, err) == (141, "")


def test_query_is_formatted_on_a_terminal(repo: Repo, home: Path) -> None:
    """On a terminal a query prints colored text, and JSON only with --json."""
    build_index(repo, home)
    page = run_on_terminal("query", str(repo.path), "-q", "timeout")
    assert "Describe the timeout ✓" in page
    assert "\x1b[" in page
    document = json.loads(run_on_terminal("query", str(repo.path), "-q", "timeout", "--json"))
    assert len(document["hits"]) == 2
