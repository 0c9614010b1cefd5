"""`lineage index`, as a person runs it."""

from __future__ import annotations

import json
import os
import pty
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from serve.cli.index_output import duration
from stores import database, locks
from tests.bench.indexes import files, fingerprint
from tests.pipeline.histories import interleaved, place
from tests.repos import Repo
from tests.serve.commands import HEAVY, lineage, loaded_by

ROOT = Path(__file__).parents[3]
PROFILE = {
    "commit_walk_ms",
    "diff_extract_ms",
    "tree_sitter_parse_ms",
    "embed_ms",
    "storage_write_ms",
    "fts_insert_ms",
    "head_symbols_ms",
    "total_diff_bytes",
    "total_added_lines",
}


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return interleaved(tmp_path / "repo", rounds=2)


def test_summary(repo: Repo, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A header, then the phases by time, none over 100 %, with a word on what kind of time it is."""
    assert lineage("index", repo.path, "--workers", "1") == 0
    header, *phases, kind = capsys.readouterr().out.splitlines()
    assert header.startswith("indexed in ") and header.endswith(" - 16 commits, 13 hunks, 6 HEAD symbols")
    named = [line.split()[0] for line in phases]
    assert set(named) <= {"embed", "storage", "diff", "parse", "symbols", "fts"} and "embed" in named
    shares = [int(line.split()[-1].removesuffix("%")) for line in phases]
    assert shares == sorted(shares, reverse=True) and 0 <= shares[-1] <= shares[0] <= 100
    assert "wall time" in kind
    assert home.exists()


def test_profile_is_one_line_of_integers(repo: Repo, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--profile` ends with a line of JSON that has exactly the specified fields."""
    assert lineage("index", repo.path, "--profile", "--workers", "2", "--commit-batch", "5") == 0
    line = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert set(line) == PROFILE and all(type(value) is int for value in line.values())
    assert line["total_added_lines"] > 0 and line["embed_ms"] > 0
    assert home.exists()


def test_incremental_at_head_writes_nothing(
    repo: Repo, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With HEAD indexed it says so, and leaves every file of the index as it was."""
    lineage("index", repo.path)
    before = files(repo.path, home)
    capsys.readouterr()
    assert lineage("index", "--incremental", repo.path) == 0
    assert capsys.readouterr().out == f"index up-to-date at {repo.head}\n"
    assert lineage("index", "--incremental", "--profile", repo.path) == 0
    line = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert line == dict.fromkeys(PROFILE, 0)
    assert files(repo.path, home) == before


def test_incremental_at_head_computes_nothing(repo: Repo, home: Path) -> None:
    """With HEAD indexed it asks git and the database, and loads nothing to compute, parse or draw with."""
    lineage("index", repo.path)
    loaded = loaded_by(
        f"from serve.cli.app import main; main(['index', '--incremental', {str(repo.path)!r}])"
    )
    assert loaded & set(HEAVY.split()) == {"duckdb", "pygit2"}
    assert home.exists()


def test_incremental_takes_up_a_new_commit(
    repo: Repo, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Behind HEAD it indexes what is new, and no more."""
    lineage("index", repo.path)
    repo.commit_file("new.py", "def fresh():\n    pass\n", "Something new")
    capsys.readouterr()
    assert lineage("index", "--incremental", repo.path) == 0
    assert " - 1 commits, 1 hunks, 1 HEAD symbols" in capsys.readouterr().out
    assert home.exists()


def test_nothing_new(repo: Repo, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run with nothing to do did nothing, and says what is there all the same."""
    lineage("index", repo.path)
    capsys.readouterr()
    assert lineage("index", repo.path) == 0
    header, *_, last = capsys.readouterr().out.splitlines()
    assert header.endswith(" - 0 commits, 0 hunks, 0 HEAD symbols")
    assert last == "nothing new; the index has 16 commits"
    assert lineage("index", repo.path, "--force") == 0
    assert "nothing new" not in capsys.readouterr().out
    assert home.exists()


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--rebuild"], "lineage index --rebuild --yes"),
        (["--rebuild", "--yes", "--incremental"], "conflicts with --incremental"),
        (["--rebuild", "--yes", "--force"], "conflicts with --force"),
        (["--yes"], "--yes confirms --rebuild"),
        (["--commit-batch", "0"], "--commit-batch"),
        (["--workers", "0"], "--workers"),
        (["--threads", "-1"], "--threads"),
        (["--resources", "greedy"], "--resources"),
        (["--embed-provider", "tpu"], "--embed-provider"),
        (["--embed-cache", "some"], "--embed-cache"),
    ],
)
def test_refusals(
    repo: Repo, home: Path, capsys: pytest.CaptureFixture[str], flags: list[str], says: str
) -> None:
    """A bad combination is refused before anything happens, with what to do instead."""
    assert lineage("index", repo.path, *flags) == 2
    assert says in capsys.readouterr().err
    assert not home.exists()


def test_rebuild_starts_from_nothing(repo: Repo, home: Path) -> None:
    """The whole index goes, its write-ahead log included, and a clean one takes its place."""
    lineage("index", repo.path)
    clean = fingerprint(repo.path, home)
    here = place(repo, home)
    here.wal.write_bytes(b"not a log of this database")
    here.database.write_bytes(b"not a database")
    assert lineage("index", repo.path, "--rebuild", "--yes") == 0
    assert fingerprint(repo.path, home) == clean


def test_a_transaction_of_everything(repo: Repo, home: Path) -> None:
    """However large the number is that was meant to say so."""
    assert lineage("index", repo.path, "--commit-batch", str(2**70)) == 0
    assert home.exists()


@pytest.mark.parametrize(
    ("flags", "taken"),
    [
        ((), "--encoder minilm --embed-cache off,"),
        (("--encoder", "static"), "with --embed-cache off,"),
        (("--embed-cache", "semantic"), "with --encoder minilm,"),
        (("--encoder", "static", "--embed-cache", "off"), ""),
    ],
)
def test_a_rebuild_says_what_it_takes(
    repo: Repo, home: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], taken: str
) -> None:
    """Where a damaged index does not say how it was made, nothing is changed about it in silence."""
    lineage("index", repo.path, "--encoder", "static", "--embed-cache", "semantic")
    place(repo, home).database.write_bytes(b"not a database")
    capsys.readouterr()
    assert lineage("index", repo.path, "--rebuild", "--yes", *flags) == 0
    said = capsys.readouterr().err
    assert ("cannot be read" in said) == bool(taken)
    assert taken in said


def test_rebuild_deletes_only_under_home(
    repo: Repo, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An index folder that leads out of LINEAGE_HOME is not followed."""
    lineage("index", repo.path)
    here = place(repo, home)
    here.folder.rename(tmp_path / "elsewhere")
    here.folder.symlink_to(tmp_path / "elsewhere")
    assert lineage("index", repo.path, "--rebuild", "--yes") == 1
    assert "nothing in it was touched" in capsys.readouterr().err
    assert (tmp_path / "elsewhere" / here.database.name).exists()


def test_a_damaged_index_names_the_rebuild(
    repo: Repo, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is no database is an error that says how to get a new one."""
    lineage("index", repo.path)
    place(repo, home).database.write_bytes(b"garbage" * 1000)
    assert lineage("index", repo.path) == 1
    assert "lineage index --rebuild --yes" in capsys.readouterr().err


def test_no_repository_and_no_commits(tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Outside a repository, and in one without commits, the error says what to do; nothing is made."""
    assert lineage("index", tmp_path) == 1
    assert "not in a git repository" in capsys.readouterr().err
    assert lineage("index", Repo.create(tmp_path / "empty").path) == 1
    assert "Commit something" in capsys.readouterr().err
    assert not list(home.glob("*/*.duckdb"))


def test_index_files_are_the_owners_alone(repo: Repo, home: Path) -> None:
    """Diffs hold secrets: no file of the index can be read by anyone else, whatever the umask."""
    before = os.umask(0)
    try:
        lineage("index", repo.path)
    finally:
        os.umask(before)
    made = [home, *home.rglob("*")]
    assert made and all(stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 for path in made)


def test_events_every_hundred_commits(tmp_path: Path, home: Path) -> None:
    """Each hundred commits is one line on stderr; LINEAGE_LOG silences it."""
    repo = Repo.create(tmp_path / "repo")
    stream = b"".join(
        b"commit refs/heads/main\ncommitter A <a@b> %d +0000\ndata 4\nn%03d\n" % (1_600_000_000 + n, n)
        for n in range(250)
    )
    repo.git("fast-import", "--quiet", stdin=stream)
    run = [sys.executable, "-m", "serve.cli.app", "index", str(repo.path), "--rebuild", "--yes"]
    surroundings = os.environ | {"LINEAGE_HOME": str(home)}
    loud = subprocess.run(run, cwd=ROOT, env=surroundings, capture_output=True, text=True, check=True).stderr
    told = [line for line in loud.splitlines() if "event=indexing" in line]
    assert [line.split("commits=")[1].split()[0] for line in told] == ["100", "200"]
    quiet = subprocess.run(
        run, cwd=ROOT, env=surroundings | {"LINEAGE_LOG": "warn"}, capture_output=True, text=True, check=True
    )
    assert quiet.stderr == ""


def test_a_bar_on_a_terminal_only(repo: Repo, home: Path) -> None:
    """On a terminal stderr shows commits, hunks and rate; `--no-progress` leaves it out."""
    shown = on_a_terminal("index", str(repo.path), home=home)
    assert "commits" in shown and "hunks" in shown and "left" in shown
    assert "left" not in on_a_terminal(
        "index", str(repo.path), "--rebuild", "--yes", "--no-progress", home=home
    )


def on_a_terminal(*arguments: str, home: Path) -> str:
    """What the command writes to its terminal on stderr."""
    mine, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "serve.cli.app", *arguments],
        cwd=ROOT,
        env=os.environ | {"LINEAGE_HOME": str(home), "TERM": "xterm", "COLUMNS": "120"},
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    written = b""
    try:
        while chunk := os.read(mine, 65_536):
            written += chunk
    except OSError:  # Linux reports the closed other end as an error
        pass
    os.close(mine)
    assert process.wait() == 0
    return written.decode(errors="replace")


def test_a_second_run_names_the_first(repo: Repo, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two runs over one repository do not meet: the second says who is at work."""
    with locks.sole_run(place(repo, home)):
        assert lineage("index", repo.path) == 1
    assert f"process {os.getpid()}" in capsys.readouterr().err


def test_other_vectors_are_refused(repo: Repo, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An index of another embedding model is not mixed with; the rebuild is named."""
    lineage("index", repo.path)
    with database.writing(place(repo, home)) as connection:
        connection.execute("UPDATE metadata SET version = 'other' WHERE component = 'embedding_model'")
    assert lineage("index", repo.path) == 1
    assert "lineage index --rebuild --yes" in capsys.readouterr().err


def test_unreadable_commits_are_said_at_the_end(repo: Repo, home: Path) -> None:
    """How many commits could not be read, and why, stands at the end; the run succeeds."""
    blob = repo.git("rev-parse", "HEAD:main.py")
    (repo.path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    done = run(repo, home)
    assert "could not be read" in done.stderr and f"object {blob} is missing" in done.stderr
    assert done.stdout.startswith("indexed in")


def run(repo: Repo, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "serve.cli.app", "index", str(repo.path)],
        cwd=ROOT,
        env=os.environ | {"LINEAGE_HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
    )


def test_a_partial_clone_is_told_how_to_become_whole(tmp_path: Path, home: Path) -> None:
    """git finds nothing wrong with it, so its own check would name nothing; what is advised works."""
    repo = Repo.create(tmp_path / "origin")
    repo.git("config", "uploadpack.allowFilter", "true")
    for number in range(2):
        repo.commit_file("a.py", f"{number}\n")
    clone = repo.clone(tmp_path / "partial", "--filter=blob:none")
    said = run(clone, home).stderr
    assert (
        "is missing" in said
        and f"`git -C {clone.path} fetch --refetch --no-filter`" in said
        and "fsck" not in said
    )
    clone.git("fetch", "--quiet", "--refetch", "--no-filter")
    assert "could not be read" not in run(clone, home).stderr


def test_a_path_that_is_not_there_is_no_repository(
    repo: Repo, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistyped folder is not taken for the repository around it."""
    assert lineage("index", repo.path / "nonexistent") == 1
    assert "nonexistent does not exist" in capsys.readouterr().err
    assert not home.exists()


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0204, "20 ms"), (12.34, "12.3 s"), (61.2, "1 min 01 s"), (3600, "60 min 00 s")]
)
def test_durations(seconds: float, text: str) -> None:
    """Times read as a person says them."""
    assert duration(seconds) == text


def test_a_run_leaves_git_a_commit_graph(repo: Repo, home: Path) -> None:
    """Beside the index lies git's commit-graph for HEAD; the repository itself has none."""
    lineage("index", repo.path)
    lent = place(repo, home).graph
    assert (lent / "info" / "commit-graph").exists()
    assert (lent / "tip").read_text() == repo.head
    assert not (repo.path / ".git/objects/info/commit-graph").exists()
