"""Commands with an unusable LINEAGE_HOME: each prints one error, and what can be answered is answered."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from stores import index_location
from stores.database import BLOCK_SIZE
from stores.index_location import IndexLocation
from stores.locks import GATE_LOCK
from tests.pipeline.histories import get_location
from tests.processes import respect_permissions
from tests.readonly_fs import make_read_only
from tests.repos import Repo
from tests.serve.commands import ROOT, create_timeout_repo, run_index, run_lineage

COMMANDS = ("index", "status", "query")
READING_COMMANDS = (
    "explain src/tcp.py",
    "status",
    "status --all",
    "query timeout",
    "query --all timeout",
    "query --repository . timeout",
)


@pytest.fixture
def repo(tmp_path: Path, home: Path) -> Repo:
    """Repository with two commits about timeouts, without an index."""
    assert not home.exists()
    return create_timeout_repo(tmp_path / "repo")


def run_command(command: str, repo: Repo, *flags: str) -> int:
    """Run a command on the repository; return its exit code."""
    arguments = ("--query", "timeout", "--no-rerank") if command == "query" else ()
    return run_lineage(command, *arguments, repo.path, *flags)


@pytest.mark.parametrize("command", COMMANDS)
def test_home_that_is_a_file(repo: Repo, home: Path, capfd: pytest.CaptureFixture[str], command: str) -> None:
    """A home that is a file is an error, not a home without indexes."""
    home.write_text("mine")
    assert run_command(command, repo) == 1
    out, error = capfd.readouterr()
    assert (out, error) == (
        "",
        f"error: Indexes cannot be stored in {home}: it is not a directory and cannot be created.\n"
        "  Set LINEAGE_HOME to a directory, or to a path where one can be created.\n",
    )
    assert home.read_text() == "mine"


@pytest.mark.parametrize("command", COMMANDS)
def test_home_that_is_not_utf8(
    repo: Repo,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    command: str,
) -> None:
    """A home that is not UTF-8, in which DuckDB can open no file, is an error before anything is written."""
    monkeypatch.setenv("LINEAGE_HOME", str(tmp_path / "\udcff"))
    assert run_command(command, repo) == 1
    assert capfd.readouterr().err == (
        f"error: LINEAGE_HOME is not UTF-8, so no index can be stored there: '{tmp_path}/\\udcff'.\n"
        "  Set LINEAGE_HOME to a path with UTF-8 characters only.\n"
    )
    assert run_lineage("explain", "src/tcp.py", repo.path) == 0


def test_explain_needs_no_home(repo: Repo, home: Path) -> None:
    """An explanation works without a usable home."""
    home.write_text("mine")
    assert run_lineage("explain", "src/tcp.py", repo.path) == 0


def test_explain_without_index_permission(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """An explanation works without permission to read the index, and says so."""
    assert run_index(repo) == 0
    (get_location(repo, home).folder / GATE_LOCK).unlink()
    make_read_only(home, monkeypatch)
    assert run_lineage("explain", "src/tcp.py", repo.path) == 0
    out, _ = capfd.readouterr()
    assert '"commit_sha"' in out and "Read-only file system" in out


@pytest.mark.parametrize("level", ["home", "folder", "database"])
def test_unreadable_index(repo: Repo, home: Path, level: str) -> None:
    """An index that may not be read, as one of another user, is named and does not count as missing."""
    assert run_index(repo) == 0
    unreadable = home if level == "home" else getattr(get_location(repo, home), level)
    unreadable.chmod(0)
    try:
        outputs = {command: run_without_privileges(command, repo) for command in READING_COMMANDS}
        assert run_without_privileges("show HEAD", repo)
    finally:
        unreadable.chmod(0o700)
    for command, output in outputs.items():
        assert str(home) in output, command
        assert "Permission denied" in output or "can be read" in output or "cannot be read" in output, command
        assert "not indexed" not in output and "There is no index" not in output, command


def run_without_privileges(command: str, repo: Repo) -> str:
    """Run a command in a process that respects file permissions also as root; return stdout, or stderr if it fails."""
    process = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys\nfrom serve.cli.app import main\nsys.exit(main())",
            *command.split(),
        ],
        cwd=repo.path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        preexec_fn=respect_permissions,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in process.stderr
    return process.stderr if process.returncode else process.stdout


def test_read_only_home(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Reading commands and an incremental run at HEAD work; commands that must write fail with the reason."""
    assert run_index(repo) == 0
    get_location(repo, home).folder.chmod(0o755)
    make_read_only(home, monkeypatch)
    assert [
        run_command("status", repo),
        run_command("query", repo),
        run_command("index", repo, "--incremental"),
    ] == [0, 0, 0]
    assert "Read-only" not in "".join(capfd.readouterr())
    repo.commit_file("src/udp.py", "u = 1\n", "More")
    for flags in (["--incremental"], [], ["--rebuild", "--yes"]):
        assert run_command("index", repo, *flags) == 1
        error = capfd.readouterr().err
        assert error.startswith(f"error: Read-only file system: {home}")
        assert error.endswith("For an index, LINEAGE_HOME sets another directory.\n")


@pytest.mark.parametrize("flags", [["--rebuild", "--yes"], [], ["--incremental"]], ids=" ".join)
def test_linked_index_directory_is_not_changed(
    repo: Repo, home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], flags: list[str]
) -> None:
    """Nothing is written, deleted or restricted in a directory that the index directory links to."""
    foreign = tmp_path / "foreign"
    foreign.mkdir(mode=0o755)
    (foreign / "index.duckdb").write_text("another's")
    home.mkdir()
    get_location(repo, home).folder.symlink_to(foreign)
    assert run_command("index", repo, *flags) == 1
    assert "Nothing was changed" in capfd.readouterr().err
    assert stat.S_IMODE(foreign.stat().st_mode) == 0o755
    assert {file.name: file.read_text() for file in foreign.iterdir()} == {"index.duckdb": "another's"}


@pytest.mark.parametrize(
    "command", [("status",), ("index", "--incremental"), ("index", "--force"), ("query",)]
)
def test_damaged_index_is_reported(
    repo: Repo, home: Path, capfd: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    """Every command that reads a damaged block reports it and names a remedy."""
    assert run_index(repo) == 0
    location = get_location(repo, home)
    content = location.database.read_bytes()
    exit_codes = [
        run_on_damaged_block(location, content, block, repo, command)
        for block in range(12_288, len(content), BLOCK_SIZE)
    ]
    assert set(exit_codes) <= {0, 1} and 1 in exit_codes
    errors = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(errors) == exit_codes.count(1)
    assert all("index.duckdb cannot be read" in error for error in errors)


def run_on_damaged_block(
    location: IndexLocation, content: bytes, block: int, repo: Repo, command: tuple[str, ...]
) -> int:
    """Damage one block of the index and run a command on it."""
    location.wal.unlink(missing_ok=True)
    location.database.write_bytes(content[: block + 200] + b"x" * 200 + content[block + 400 :])
    return run_command(command[0], repo, *command[1:], *(["--workers", "1"] if command[0] == "index" else []))


def test_full_disk_fails_and_next_run_continues(repo: Repo, home: Path) -> None:
    """A run on a full disk fails with the reason; the same command continues once there is space."""
    program = (
        "import resource, sys\n"
        "from serve.cli.app import main\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)\n"
        "sys.exit(main(['index', sys.argv[2], '--workers', '1', '--no-progress']))\n"
    )
    for max_bytes in (0, 1_000, 50_000, 600_000):
        result = subprocess.run(
            [sys.executable, "-c", program, str(max_bytes), str(repo.path)],
            cwd=ROOT,
            env=os.environ | {"LINEAGE_LOG": "warn"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (result.returncode, result.stdout) == (1, "")
        assert result.stderr.startswith(f"error: File too large: {home}"), result.stderr
        assert "Committed data is kept" in result.stderr
    assert run_index(repo) == 0
    assert index_location.LOCATION_FILE in {file.name for file in get_location(repo, home).folder.iterdir()}
