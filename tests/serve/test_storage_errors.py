"""Commands in a home that cannot be used as it should be: one line each, and what can be answered is."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from stores import index_location
from stores.database import BLOCK_SIZE
from stores.index_location import Place
from stores.locks import DOOR
from tests.pipeline.histories import place
from tests.readonly_fs import read_only
from tests.repos import Repo
from tests.serve.commands import ROOT, indexed, lineage, timeouts

COMMANDS = ("index", "status", "query")


@pytest.fixture
def repo(tmp_path: Path, home: Path) -> Repo:
    assert not home.exists()
    return timeouts(tmp_path / "repo")


def asked(command: str, repo: Repo, *flags: str) -> int:
    question = ("--query", "timeout", "--no-rerank") if command == "query" else ()
    return lineage(command, *question, repo.path, *flags)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_home_that_is_a_file(
    repo: Repo, home: Path, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    """It is not taken for a home without indexes."""
    home.write_text("mine")
    assert asked(command, repo) == 1
    out, complaints = capfd.readouterr()
    assert (out, complaints) == (
        "",
        f"error: Indexes cannot be kept in {home}: it is no folder, and none can be made there.\n"
        "  LINEAGE_HOME must name a folder, or where one can be made.\n",
    )
    assert home.read_text() == "mine"


def test_explaining_needs_no_home(repo: Repo, home: Path) -> None:
    """Blame is git's, and is answered all the same."""
    home.write_text("mine")
    assert lineage("explain", "src/tcp.py", repo.path) == 0


def test_an_index_that_may_not_be_read_takes_nothing_from_blame(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Why it was not asked is said beside the answer."""
    assert indexed(repo) == 0
    (place(repo, home).folder / DOOR).unlink()
    read_only(home, monkeypatch)
    assert lineage("explain", "src/tcp.py", repo.path) == 0
    out, _ = capfd.readouterr()
    assert '"commit_sha"' in out and "Read-only file system" in out


def test_a_home_that_may_only_be_read(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whoever reads is answered, a hook's run that finds nothing to do, too; whoever would write is told why not."""
    assert indexed(repo) == 0
    place(repo, home).folder.chmod(0o755)
    read_only(home, monkeypatch)
    assert [asked("status", repo), asked("query", repo), asked("index", repo, "--incremental")] == [0, 0, 0]
    assert "Read-only" not in "".join(capfd.readouterr())
    repo.commit_file("src/udp.py", "u = 1\n", "More")
    for flags in (["--incremental"], [], ["--rebuild", "--yes"]):
        assert asked("index", repo, *flags) == 1
        complaint = capfd.readouterr().err
        assert complaint.startswith(f"error: Read-only file system: {home}")
        assert complaint.endswith("LINEAGE_HOME names another folder for indexes.\n")


@pytest.mark.parametrize("flags", [["--rebuild", "--yes"], [], ["--incremental"]], ids=" ".join)
def test_a_folder_elsewhere_stays_as_it_is(
    repo: Repo, home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], flags: list[str]
) -> None:
    """Behind a link under the index's name nothing is written, deleted, or closed to others."""
    foreign = tmp_path / "foreign"
    foreign.mkdir(mode=0o755)
    (foreign / "index.duckdb").write_text("another's")
    home.mkdir()
    place(repo, home).folder.symlink_to(foreign)
    assert asked("index", repo, *flags) == 1
    assert "nothing in it was touched" in capfd.readouterr().err
    assert stat.S_IMODE(foreign.stat().st_mode) == 0o755
    assert {file.name: file.read_text() for file in foreign.iterdir()} == {"index.duckdb": "another's"}


@pytest.mark.parametrize(
    "command", [("status",), ("index", "--incremental"), ("index", "--force"), ("query",)]
)
def test_a_damaged_index(
    repo: Repo, home: Path, capfd: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    """Whichever command reads the block that is not what it was, says so and names what helps."""
    assert indexed(repo) == 0
    where = place(repo, home)
    whole = where.database.read_bytes()
    said = [_damaged(where, whole, block, repo, command) for block in range(12_288, len(whole), BLOCK_SIZE)]
    assert set(said) <= {0, 1} and 1 in said
    errors = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(errors) == said.count(1)
    assert all("index.duckdb cannot be opened" in error for error in errors)


def _damaged(where: Place, whole: bytes, block: int, repo: Repo, command: tuple[str, ...]) -> int:
    where.wal.unlink(missing_ok=True)
    where.database.write_bytes(whole[: block + 200] + b"x" * 200 + whole[block + 400 :])
    return asked(command[0], repo, *command[1:], *(["--workers", "1"] if command[0] == "index" else []))


def test_a_disk_without_room(repo: Repo, home: Path) -> None:
    """A run that finds no room says so; the same command with room does the rest."""
    program = (
        "import resource, sys\n"
        "from serve.cli.app import main\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)\n"
        "sys.exit(main(['index', sys.argv[2], '--workers', '1', '--no-progress']))\n"
    )
    for room in (0, 1_000, 50_000, 600_000):
        done = subprocess.run(
            [sys.executable, "-c", program, str(room), str(repo.path)],
            cwd=ROOT,
            env=os.environ.copy(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"error: File too large: {home}"), done.stderr
        assert "what was committed is kept" in done.stderr
    assert indexed(repo) == 0
    assert index_location.PLACE in {file.name for file in place(repo, home).folder.iterdir()}
