"""Standard streams that are closed or full, or that have a locale without UTF-8."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.bench.indexes import compute_fingerprint, open_index
from tests.repos import Repo
from tests.serve.commands import ROOT, create_timeout_repo, run_index

OUTPUT_ERROR = "error: Could not write the output: No space left on device\n"
LINEAGE = (sys.executable, "-m", "serve.cli.entry")
PROGRAMS = {
    "lineage": LINEAGE,
    "lineage-mcp": (sys.executable, "-m", "serve.mcp.relay"),
    "mindmap": (sys.executable, "-m", "serve.cli.mindmap"),
}
INITIALIZE_REQUEST = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    '"capabilities":{},"clientInfo":{"name":"test","version":"1"}}}\n'
)
STATUS = ("status",)
QUERY = ("query", "--no-rerank", "-q", "timeout")
INDEX = ("index", "--no-progress")
# An ASCII locale, with Python's UTF-8 mode and locale coercion off.
ASCII_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.fixture(scope="module")
def indexed_repo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Repo, Path]:
    """Repository whose paths and messages are not all ASCII, and the home of its index."""
    folder = tmp_path_factory.mktemp("indexed")
    repo = create_timeout_repo(folder / "ö")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LINEAGE_HOME", str(folder / "home"))
        assert run_index(repo, "--no-progress", "--encoder", "static") == 0
    return repo, folder / "home"


@pytest.fixture
def repo(indexed_repo: tuple[Repo, Path], home: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:  # noqa: ARG001 - no daemon
    """Repository whose index the programs find."""
    monkeypatch.setenv("LINEAGE_HOME", str(indexed_repo[1]))
    return indexed_repo[0]


def build_child_environment(**variables: str) -> dict[str, str]:
    """Return the test's environment without PYTHONUNBUFFERED, with these variables."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return inherited | {"PYTHONPATH": str(ROOT), "LINEAGE_LOG": "warn"} | variables


def run_with_redirection(redirection: str, *command: str | Path, **variables: str) -> tuple[int, str, str]:
    """Run a command in a shell with this redirection; return its exit code, stdout and stderr."""
    result = subprocess.run(
        ["sh", "-c", f'"$@" {redirection}', "sh", *map(str, command)],
        env=build_child_environment(**variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    return result.returncode, result.stdout.decode(), result.stderr.decode()


@pytest.mark.parametrize(
    ("command", "unbuffered"), [(STATUS, ""), (QUERY, "1"), (INDEX, "1"), (("doctor",), "")]
)
def test_full_disk_fails(repo: Repo, command: tuple[str, ...], unbuffered: str) -> None:
    """If the output cannot be written, every command prints one line about it and exits with 1."""
    result = run_with_redirection(">/dev/full", *LINEAGE, *command, repo.path, PYTHONUNBUFFERED=unbuffered)
    assert result == (1, "", OUTPUT_ERROR)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_partly_written_output_fails(repo: Repo, tmp_path: Path, unbuffered: str) -> None:
    """If only the beginning of the output can be written, the command fails."""
    output = tmp_path / "answer"
    limited = ("sh", "-c", 'ulimit -f 1; exec "$@"', "sh")
    result = run_with_redirection(
        f">'{output}'", *limited, *LINEAGE, *QUERY, repo.path, PYTHONUNBUFFERED=unbuffered
    )
    assert result == (1, "", OUTPUT_ERROR.replace("No space left on device", "File too large"))
    assert 0 < output.stat().st_size <= 1024


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_slow_reader_gets_all_output(repo: Repo, unbuffered: str) -> None:
    """A full non-blocking pipe gets the complete output in the end."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    command = (*LINEAGE, *QUERY, repo.path)
    with suppress(BlockingIOError):
        while True:
            os.write(writing, b" " * 4096)
    process = subprocess.Popen(
        [*map(str, command)],
        env=build_child_environment(PYTHONUNBUFFERED=unbuffered),
        stdin=subprocess.DEVNULL,
        stdout=writing,
    )
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=3)
        answer = pipe.read()
    assert process.wait() == 0
    assert json.loads(answer)["hits"]


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("program", "option"),
    [("lineage", "--help"), ("lineage", "--version"), ("lineage-mcp", "--help"), ("mindmap", "--version")],
)
def test_full_disk_fails_in_every_program(program: str, option: str) -> None:
    """Every program reports a failed write in the same way."""
    assert run_with_redirection(">/dev/full", *PROGRAMS[program], option) == (1, "", OUTPUT_ERROR)


@pytest.mark.parametrize(
    ("command", "redirection"),
    [
        (STATUS, ">&-"),
        (STATUS, "2>&-"),
        (QUERY, "<&- >&-"),
        (QUERY, "<&- >&- 2>&-"),
        (INDEX, "<&-"),
        (INDEX, "<&- >&- 2>&-"),
    ],
)
def test_closed_streams_are_harmless(repo: Repo, command: tuple[str, ...], redirection: str) -> None:
    """A command works with closed streams; open ones get the usual output."""
    code, out, err = run_with_redirection(redirection, *LINEAGE, *command, repo.path)
    assert (code, err) == (0, "")
    assert bool(out) == (">&-" not in redirection.replace("2>&-", ""))


def test_unwritable_stderr_is_harmless(repo: Repo, tmp_path: Path) -> None:
    """A failed write to stderr changes neither the exit code nor stdout."""
    assert run_with_redirection("2>/dev/full", *LINEAGE, "status", repo.path)[0] == 0
    assert run_with_redirection("2>/dev/full", *LINEAGE, "status", tmp_path / "nowhere")[:2] == (1, "")
    assert run_with_redirection(">/dev/full 2>/dev/full", *LINEAGE, "status", repo.path) == (1, "", "")


def test_output_is_utf8_in_any_locale(repo: Repo, tmp_path: Path) -> None:
    """Output is UTF-8, even if the locale or the user requests ASCII."""
    plain = Repo.create(tmp_path / "plain")
    plain.commit_file("a.py", "a = 1\n", "Add a")
    code, out, err = run_with_redirection(
        "", *LINEAGE, *INDEX, plain.path, "--workers", "1", "--encoder", "static", **ASCII_LOCALE
    )
    assert (code, err) == (0, "") and "█" in out
    code, out, err = run_with_redirection("", *LINEAGE, "status", repo.path, PYTHONIOENCODING="ascii")
    assert (code, err) == (0, "") and str(repo.path) in out


def test_index_is_the_same_in_any_locale(tmp_path: Path, home: Path) -> None:
    """Rows are the same in every locale, also with non-ASCII names in attributes and ignore files."""
    repo = Repo.create(tmp_path / "größe")
    repo.commit_file(
        ".gitattributes", "é.py diff=python\nö.txt -diff\nü.py linguist-generated\n", "Tell them apart"
    )
    repo.commit_file(".lineageignore", "weg/\nø*\n", "Leave some out")
    for content in ("def a():\n    b = 1\n", "def a():\n    b = 2\n"):
        for name in ("é.py", "ö.txt", "maß/é.py", "maß/ü.py", "weg/ñ.py", "ø.py"):
            repo.write(name, content)
        repo.commit("Assign b")
    rows = []
    for name, locale in {"ascii": ASCII_LOCALE, "utf-8": {"PYTHONUTF8": "1"}}.items():
        variables = locale | {"LINEAGE_HOME": str(home / name)}
        code, _, err = run_with_redirection(
            "", *LINEAGE, "index", repo.path, "--encoder", "static", "--no-progress", **variables
        )
        assert (code, err) == (0, "")
        rows.append(compute_fingerprint(repo.path, home / name))
        explanation = run_with_redirection(
            "", *LINEAGE, "explain", "--json", "maß/é.py", repo.path, **variables
        )[1]
        assert len(json.loads(explanation)["hits"]) == 2
    assert rows[0] == rows[1]
    with open_index(repo.path, home / "ascii") as index:
        paths = index.execute("SELECT DISTINCT file_path FROM hunks ORDER BY 1").fetchall()
    assert [path for (path,) in paths] == [".gitattributes", ".lineageignore", "maß/é.py", "é.py", "ö.txt"]


def test_terminal_output_is_utf8_in_any_locale(repo: Repo) -> None:
    """Terminal output is UTF-8 in every locale."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*LINEAGE, "query", "--no-rerank", "-q", "describe the timeout", repo.path],
        env=build_child_environment(PYTHONIOENCODING="ascii"),
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    output = b""
    try:
        while part := os.read(master, 1 << 16):
            output += part
    except OSError:  # Linux reports the closed other end as an error
        pass
    os.close(master)
    assert process.wait(timeout=60) == 0
    assert "docs/ü.md" in output.decode() and "Traceback" not in output.decode()


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    "command", [PROGRAMS["lineage-mcp"], (*PROGRAMS["mindmap"], "mcp")], ids=["lineage", "mindmap"]
)
def test_servers_report_lost_client(command: tuple[str, ...], repo: Repo, tmp_path: Path) -> None:
    """A server reports a failed write, exits without a client, and answers in UTF-8."""
    options = {
        "cwd": repo.path,
        "env": build_child_environment(**ASCII_LOCALE, MINDMAP_DATA_DIR=str(tmp_path / "maps")),
    }

    def run_server(redirection: str) -> tuple[int, bytes, bytes]:
        shell = ["sh", "-c", f'(printf %s "$0"; sleep 2) | "$@" {redirection}', INITIALIZE_REQUEST, *command]
        result = subprocess.run(shell, capture_output=True, timeout=60, check=False, **options)  # type: ignore[call-overload]
        return result.returncode, result.stdout, result.stderr

    assert run_server(">/dev/full") == (1, b"", OUTPUT_ERROR.encode())
    assert run_server(">&-")[::2] == (0, b"")
    assert run_server("<&-") == (0, b"", b"")
    code, out, err = run_server("")
    assert (code, err) == (0, b"") and out.startswith(b'{"jsonrpc"')
