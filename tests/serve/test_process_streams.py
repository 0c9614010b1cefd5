"""What a program is started with: streams that are closed, or full, or of a locale that knows no letters."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.bench.indexes import fingerprint, opened
from tests.repos import Repo
from tests.serve.commands import ROOT, indexed, timeouts

LOST = "error: The answer could not be written: No space left on device\n"
LINEAGE = (sys.executable, "-m", "serve.cli.entry")
PROGRAMS = {
    "lineage": LINEAGE,
    "lineage-mcp": (sys.executable, "-m", "serve.mcp.lineage_server"),
    "mindmap": (sys.executable, "-m", "serve.cli.mindmap"),
}
HELLO = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    '"capabilities":{},"clientInfo":{"name":"test","version":"1"}}}\n'
)
# A locale whose encoding is ASCII, and nothing that would make more of it.
PLAIN = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.fixture
def repo(tmp_path: Path, home: Path) -> Iterator[Repo]:
    """A repository with an index, whose paths and messages are not all ASCII."""
    repo = timeouts(tmp_path / "ö")
    assert indexed(repo, "--no-progress") == 0 and home.exists()
    yield repo


def environment(**said: str) -> dict[str, str]:
    """The test's own, without what would have Python write at once."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return kept | {"PYTHONPATH": str(ROOT)} | said


def shell(redirected: str, *command: str | Path, **said: str) -> tuple[int, str, str]:
    """Exit code, answer and complaints of a command that a shell starts with its streams so."""
    done = subprocess.run(
        ["sh", "-c", f'"$@" {redirected}', "sh", *map(str, command)],
        env=environment(**said),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.parametrize("at_once", ["", "1"])
@pytest.mark.parametrize(
    "asked", [("status",), ("query", "-q", "timeout"), ("index", "--no-progress"), ("doctor",)], ids=" ".join
)
def test_a_full_disk_for_the_answer(repo: Repo, asked: tuple[str, ...], at_once: str) -> None:
    """Whatever command it is: one line says that its answer is lost, and the exit code that it failed."""
    said = shell(">/dev/full", *LINEAGE, *asked, repo.path, PYTHONUNBUFFERED=at_once)
    assert said == (1, "", LOST)


@pytest.mark.parametrize("at_once", ["", "1"])
def test_a_disk_that_fills_up(repo: Repo, tmp_path: Path, at_once: str) -> None:
    """Of an answer that finds room for its beginning the rest is not lost in silence."""
    answer = tmp_path / "answer"
    limited = ("sh", "-c", 'ulimit -f 1; exec "$@"', "sh")
    said = shell(
        f">'{answer}'", *limited, *LINEAGE, "query", "-q", "timeout", repo.path, PYTHONUNBUFFERED=at_once
    )
    assert said == (1, "", LOST.replace("No space left on device", "File too large"))
    assert 0 < answer.stat().st_size <= 1024


@pytest.mark.parametrize("at_once", ["", "1"])
def test_a_reader_that_is_slow(repo: Repo, at_once: str) -> None:
    """A pipe that takes nothing for now gets the whole answer in the end."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    asked = (*LINEAGE, "query", "-q", "timeout", repo.path)
    with suppress(BlockingIOError):
        while True:
            os.write(writing, b" " * 4096)
    process = subprocess.Popen(
        [*map(str, asked)],
        env=environment(PYTHONUNBUFFERED=at_once),
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
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("asked", ["--help", "--version"])
def test_a_full_disk_for_any_program(program: str, asked: str) -> None:
    """Each of our programs says the same of it."""
    assert shell(">/dev/full", *PROGRAMS[program], asked) == (1, "", LOST)


@pytest.mark.parametrize("redirected", [">&-", "<&- >&-", "<&- >&- 2>&-", "2>&-", "<&-"])
@pytest.mark.parametrize(
    "asked", [("status",), ("query", "-q", "timeout"), ("index", "--no-progress")], ids=" ".join
)
def test_closed_streams(repo: Repo, asked: tuple[str, ...], redirected: str) -> None:
    """A command does what it does, though nobody can read of it; what can be read is as ever."""
    code, answer, complaints = shell(redirected, *LINEAGE, *asked, repo.path)
    assert (code, complaints) == (0, "")
    assert bool(answer) == (">&-" not in redirected.replace("2>&-", ""))


def test_complaints_that_nobody_can_read(repo: Repo, tmp_path: Path) -> None:
    """They take nothing from the exit code, nor from the answer."""
    assert shell("2>/dev/full", *LINEAGE, "status", repo.path)[0] == 0
    assert shell("2>/dev/full", *LINEAGE, "status", tmp_path / "nowhere")[:2] == (1, "")
    assert shell(">/dev/full 2>/dev/full", *LINEAGE, "status", repo.path) == (1, "", "")


def test_any_locale(repo: Repo, tmp_path: Path) -> None:
    """What is said is UTF-8, where the locale, or the person, says ASCII, too."""
    plain = Repo.create(tmp_path / "plain")
    plain.commit_file("a.py", "a = 1\n", "Add a")
    code, answer, complaints = shell(
        "", *LINEAGE, "index", plain.path, "--no-progress", "--workers", "1", **PLAIN
    )
    assert (code, complaints) == (0, "") and "█" in answer
    code, answer, complaints = shell("", *LINEAGE, "status", repo.path, PYTHONIOENCODING="ascii")
    assert (code, complaints) == (0, "") and str(repo.path) in answer


def test_paths_in_any_locale(tmp_path: Path, home: Path) -> None:
    """Rows are the same in every locale, whatever attributes and ignore files say of letters that it has not."""
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
    for name, locale in {"ascii": PLAIN, "utf-8": {"PYTHONUTF8": "1"}}.items():
        said = locale | {"LINEAGE_HOME": str(home / name)}
        code, _, complaints = shell(
            "", *LINEAGE, "index", repo.path, "--encoder", "static", "--no-progress", **said
        )
        assert (code, complaints) == (0, "")
        rows.append(fingerprint(repo.path, home / name))
        why = shell("", *LINEAGE, "explain", "--json", "maß/é.py", repo.path, **said)[1]
        assert len(json.loads(why)["hits"]) == 2
    assert rows[0] == rows[1]
    with opened(repo.path, home / "ascii") as index:
        paths = index.execute("SELECT DISTINCT file_path FROM hunks ORDER BY 1").fetchall()
    assert [path for (path,) in paths] == [".gitattributes", ".lineageignore", "maß/é.py", "é.py", "ö.txt"]


def test_a_terminal_of_any_locale(repo: Repo) -> None:
    """So are the pages for people."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*LINEAGE, "query", "-q", "describe the timeout", repo.path],
        env=environment(PYTHONIOENCODING="ascii"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    said = b""
    try:
        while part := os.read(ours, 1 << 16):
            said += part
    except OSError:  # the terminal's way of saying that nobody writes any more
        pass
    os.close(ours)
    assert process.wait(timeout=60) == 0
    assert "docs/ü.md" in said.decode() and "Traceback" not in said.decode()


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    "command", [PROGRAMS["lineage-mcp"], (*PROGRAMS["mindmap"], "mcp")], ids=["lineage", "mindmap"]
)
def test_servers(command: tuple[str, ...], repo: Repo, tmp_path: Path) -> None:
    """A server whose client cannot be written to says so; one without a client ends; its answers are UTF-8."""
    said = {"cwd": repo.path, "env": environment(**PLAIN, MINDMAP_DATA_DIR=str(tmp_path / "maps"))}

    def served(redirected: str) -> tuple[int, bytes, bytes]:
        shell = ["sh", "-c", f'(printf %s "$0"; sleep 2) | "$@" {redirected}', HELLO, *command]
        done = subprocess.run(shell, capture_output=True, timeout=60, check=False, **said)  # type: ignore[call-overload]
        return done.returncode, done.stdout, done.stderr

    assert served(">/dev/full") == (1, b"", LOST.encode())
    assert served(">&-")[::2] == (0, b"")
    assert served("<&-") == (0, b"", b"")
    code, answer, complaints = served("")
    assert (code, complaints) == (0, b"") and answer.startswith(b'{"jsonrpc"')
