"""`lineage index` command: output, refusals and effects."""

from __future__ import annotations

import json
import os
import pty
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from serve.cli.index_output import format_duration
from stores import database, locks
from tests.bench.indexes import compute_fingerprint, list_index_files
from tests.pipeline.histories import create_interleaved_repo, get_location, hide_object, turn_into_schema_2
from tests.repos import Repo
from tests.serve.commands import HEAVY_PACKAGES, list_loaded_packages, read_output, run_lineage

ROOT = Path(__file__).parents[3]
PROFILE = {
    "commit_walk_ms",
    "diff_extract_ms",
    "tree_sitter_parse_ms",
    "text_build_ms",
    "embed_ms",
    "storage_write_ms",
    "fts_insert_ms",
    "head_symbols_ms",
    "total_diff_bytes",
    "total_added_lines",
}


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """Repository with 17 commits on two interleaved branches."""
    return create_interleaved_repo(tmp_path / "repo", rounds=2)


def test_summary_lists_phases(repo: Repo, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The summary has a header, the phases sorted by time, each at most 100 %, and an explanation of the times."""
    assert run_lineage("index", repo.path, "--workers", "1") == 0
    header, *phases, note = capsys.readouterr().out.splitlines()
    assert header.startswith("indexed in ") and header.endswith(" - 16 commits, 13 hunks, 6 HEAD symbols")
    phase_names = [line.split()[0] for line in phases]
    assert (
        set(phase_names) <= {"embed", "storage", "diff", "parse", "text", "symbols", "fts"}
        and "embed" in phase_names
    )
    shares = [int(line.split()[-1].removesuffix("%")) for line in phases]
    assert shares == sorted(shares, reverse=True) and 0 <= shares[-1] <= shares[0] <= 100
    assert "wall time" in note
    assert home.exists()


def test_profile_is_one_json_line(repo: Repo, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--profile` ends with a JSON line that has exactly the specified fields, and the resources in use."""
    assert run_lineage("index", repo.path, "--profile", "--workers", "2", "--commit-batch", "5") == 0
    line = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert all(type(line.pop(name)) is int for name in PROFILE - {"total_added_lines", "embed_ms"})
    assert line.pop("total_added_lines") > 0 and line.pop("embed_ms") > 0
    assert line.pop("threads") > 0
    assert line == {"workers": 2, "commit_batch": 5, "embed_provider": "cpu", "vector_index": "none"}
    assert home.exists()


def test_incremental_at_head_writes_nothing(
    repo: Repo, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At HEAD, an incremental run says so and leaves every file of the index unchanged."""
    run_lineage("index", repo.path)
    before = list_index_files(repo.path, home)
    capsys.readouterr()
    assert run_lineage("index", "--incremental", repo.path) == 0
    assert capsys.readouterr().out == f"index up-to-date at {repo.head}\n"
    assert run_lineage("index", "--incremental", "--profile", repo.path) == 0
    line = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert line == dict.fromkeys(PROFILE, 0)
    assert list_index_files(repo.path, home) == before


def test_incremental_at_head_after_an_upgrade(
    repo: Repo, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At HEAD, the first incremental run on an index of schema 2 reads the commits without hunks again.

    The next run reads no commit.
    """
    run_lineage("index", repo.path)
    turn_into_schema_2(repo, home)
    capsys.readouterr()
    assert run_lineage("index", "--incremental", repo.path, "--workers", "1") == 0
    assert capsys.readouterr().out.splitlines()[0].endswith(" - 3 commits, 0 hunks, 0 HEAD symbols")
    assert run_lineage("index", "--incremental", repo.path) == 0
    assert capsys.readouterr().out == f"index up-to-date at {repo.head}\n"


@pytest.mark.parametrize(
    ("component", "message"),
    [
        ("embedding_model", "The index needs rebuild (embedding_model minilm/0, now"),
        (
            "reranker_model",
            "The index is query-compatible, refresh recommended (reranker_model minilm/0, now",
        ),
    ],
)
def test_incremental_at_head_names_the_verdict(
    repo: Repo, home: Path, capsys: pytest.CaptureFixture[str], component: str, message: str
) -> None:
    """At HEAD, an incremental run of an incompatible index says which component differs and what to run."""
    run_lineage("index", repo.path)
    with database.open_for_writing(get_location(repo, home)) as connection:
        connection.execute("UPDATE metadata SET version = 'minilm/0' WHERE component = ?", [component])
        connection.execute("UPDATE made_by SET version = 'minilm/0' WHERE component = ?", [component])
    capsys.readouterr()
    assert run_lineage("index", "--incremental", repo.path) == 0
    output = capsys.readouterr()
    assert output.out == f"index up-to-date at {repo.head}\n"
    assert message in output.err and "lineage index --" in output.err


def test_incremental_at_head_is_light(repo: Repo, home: Path) -> None:
    """At HEAD, an incremental run imports nothing to compute, parse or draw."""
    run_lineage("index", repo.path)
    loaded = list_loaded_packages(
        f"from serve.cli.app import main; main(['index', '--incremental', {str(repo.path)!r}])"
    )
    assert loaded & set(HEAVY_PACKAGES.split()) == {"duckdb", "pygit2"}
    assert home.exists()


def test_incremental_indexes_a_new_commit(repo: Repo, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Behind HEAD, an incremental run indexes only the new commits."""
    run_lineage("index", repo.path)
    repo.commit_file("new.py", "def fresh():\n    pass\n", "Something new")
    capsys.readouterr()
    assert run_lineage("index", "--incremental", repo.path) == 0
    assert " - 1 commit, 1 hunk, 1 HEAD symbol" in capsys.readouterr().out
    assert home.exists()


def test_run_without_new_commits(repo: Repo, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run without new commits prints how many commits the index has."""
    run_lineage("index", repo.path)
    capsys.readouterr()
    assert run_lineage("index", repo.path) == 0
    header, *_, last = capsys.readouterr().out.splitlines()
    assert header.endswith(" - 0 commits, 0 hunks, 0 HEAD symbols")
    assert last == "nothing new; the index has 16 commits"
    assert run_lineage("index", repo.path, "--force") == 0
    assert "nothing new" not in capsys.readouterr().out
    assert home.exists()


@pytest.mark.parametrize(
    ("flags", "message"),
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
        (["--head-only", "--all-branches"], "--head-only conflicts with --branch"),
        (["--branch", "mian"], "No branch or tag matches 'mian'.\n  Did you mean main?"),
        (["--branch", " "], "A branch pattern is empty."),
        (["--branch", "x" * 4_097], "A branch pattern has 4,097 characters. At most 4,096 are possible."),
    ],
)
def test_conflicting_options_are_refused(
    repo: Repo, home: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    """Conflicting options are refused before anything happens, with what to do instead."""
    assert run_lineage("index", repo.path, *flags) == 2
    assert message in capsys.readouterr().err
    assert not home.exists()


@pytest.mark.parametrize("pattern", ["file", "fi*", "refs/tags/file"])
def test_branch_that_names_no_commit(
    repo: Repo, home: Path, capsys: pytest.CaptureFixture[str], pattern: str
) -> None:
    """If a pattern matches only a tag of a file, the error says so, and how to find the tags of commits."""
    repo.git("tag", "file", repo.git("hash-object", "-w", "--stdin", stdin=b"text"))
    assert run_lineage("index", repo.path, "--branch", pattern) == 2
    error = capsys.readouterr().err
    assert f"{pattern!r} matches only references to objects that are no commits of this clone." in error
    assert "Did you mean" not in error
    assert f"`git -C {repo.path} for-each-ref` lists all with their types." in error
    assert not home.exists()


def test_branches(repo: Repo, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A branch that is named once is indexed by later runs too. Only queries with a range find its commits."""
    repo.branch("topic/x", "HEAD~1")
    lost = repo.commit_file("topic.py", "needle = 1\n", "Add a needle")
    repo.switch("main")
    assert run_lineage("index", repo.path, "--skip-vectors", "--branch", "topic/*") == 0
    assert home.exists()
    capsys.readouterr()

    def find(*options: str) -> list[str]:
        document = json.loads(read_output(capsys, "grep", "needle", repo.path, *options))
        assert "not indexed" not in str(document["meta"].get("hint"))
        return [hit["commit_sha"] for hit in document["hits"]]

    assert (find("--range", "main..topic/x"), find()) == ([lost], [])
    assert "branches: HEAD, topic/*\n" in f"{read_output(capsys, 'status', repo.path)}\n"
    run_lineage("index", repo.path, "--skip-vectors", "--incremental", "--head-only")
    assert "branches:" not in read_output(capsys, "status", repo.path)
    assert find("--range", "topic/x", "--since", "1990") == [lost]


@pytest.mark.parametrize("content", [f"{'1' * 40}\n", "", "junk\n"], ids=["missing", "empty", "junk"])
def test_damaged_branch_is_named(repo: Repo, home: Path, content: str) -> None:
    """A branch without a readable commit is named at the end of the run. A tag of a file is not."""
    repo.git("tag", "v1")
    repo.git("tag", "file", repo.git("hash-object", "-w", "--stdin", stdin=b"text"))
    (repo.path / ".git/refs/heads/broken").write_text(content, encoding="ascii")
    result = run_index(repo, home, "--all-branches", "--branch", "refs/tags")
    assert "is missing or damaged (1): refs/heads/broken." in result.stderr


@pytest.mark.parametrize("content", [f"{'1' * 40}\n", ""], ids=["missing", "empty"])
def test_damaged_branch_by_its_name(
    repo: Repo, home: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    """If a pattern matches only branches that cannot be read, the error names them. A tag of a file is not named."""
    repo.git("tag", "broken", repo.git("hash-object", "-w", "--stdin", stdin=b"text"))
    (repo.path / ".git/refs/heads/broken").write_text(content, encoding="ascii")
    assert run_lineage("index", repo.path, "--branch", "broken") == 2
    assert "The commit of refs/heads/broken is missing or damaged.\n  Run `git" in capsys.readouterr().err
    assert not home.exists()


def test_incremental_at_head_names_a_damaged_branch(repo: Repo, home: Path, tmp_path: Path) -> None:
    """At HEAD, an incremental run names the branches that it cannot read, as other runs do; also for several paths."""
    run_index(repo, home, "--all-branches")
    (repo.path / ".git/refs/heads/broken").write_text("", encoding="ascii")
    other = Repo.create(tmp_path / "other")
    other.commit_file("a.py", "a = 1\n")
    for paths in ([], [str(other.path)]):
        result = run_index(repo, home, "--incremental", *paths)
        assert f"index up-to-date at {repo.head}\n" in result.stdout
        assert "is missing or damaged (1): refs/heads/broken." in result.stderr


def test_rebuild_replaces_the_index(repo: Repo, home: Path) -> None:
    """A rebuild deletes the index, including its write-ahead log, and creates a clean one."""
    run_lineage("index", repo.path)
    clean = compute_fingerprint(repo.path, home)
    location = get_location(repo, home)
    location.wal.write_bytes(b"not a log of this database")
    location.database.write_bytes(b"not a database")
    assert run_lineage("index", repo.path, "--rebuild", "--yes") == 0
    assert compute_fingerprint(repo.path, home) == clean


def test_huge_commit_batch(repo: Repo, home: Path) -> None:
    """A huge --commit-batch indexes everything in one transaction."""
    assert run_lineage("index", repo.path, "--commit-batch", str(2**70)) == 0
    assert home.exists()


@pytest.mark.parametrize(
    ("flags", "defaults"),
    [
        ((), "with --encoder minilm --embed-cache off --head-only."),
        (("--encoder", "static"), "with --embed-cache off --head-only."),
        (("--embed-cache", "semantic", "--head-only"), "with --encoder minilm."),
        (("--encoder", "static", "--embed-cache", "off", "--head-only"), ""),
    ],
)
def test_rebuild_of_damaged_index_names_its_defaults(
    repo: Repo, home: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], defaults: str
) -> None:
    """A rebuild of a damaged index cannot read the options of earlier runs, and says which defaults it uses."""
    run_lineage("index", repo.path, "--encoder", "static", "--embed-cache", "semantic")
    get_location(repo, home).database.write_bytes(b"not a database")
    capsys.readouterr()
    assert run_lineage("index", repo.path, "--rebuild", "--yes", *flags) == 0
    error = capsys.readouterr().err
    assert ("cannot be read" in error) == bool(defaults)
    assert defaults in error


def test_rebuild_deletes_only_under_home(
    repo: Repo, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rebuild does not follow an index directory that links out of LINEAGE_HOME."""
    run_lineage("index", repo.path)
    location = get_location(repo, home)
    location.folder.rename(tmp_path / "elsewhere")
    location.folder.symlink_to(tmp_path / "elsewhere")
    assert run_lineage("index", repo.path, "--rebuild", "--yes") == 1
    assert "Nothing was changed" in capsys.readouterr().err
    assert (tmp_path / "elsewhere" / location.database.name).exists()


def test_damaged_index_names_rebuild_command(
    repo: Repo, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is not a database causes an error that names the rebuild command."""
    run_lineage("index", repo.path)
    get_location(repo, home).database.write_bytes(b"garbage" * 1000)
    assert run_lineage("index", repo.path) == 1
    assert "lineage index --rebuild --yes" in capsys.readouterr().err


def test_no_repository_or_no_commits_fails(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a repository or without commits, the error says what to do, and nothing is created."""
    assert run_lineage("index", tmp_path) == 1
    assert "not in a git repository" in capsys.readouterr().err
    assert run_lineage("index", Repo.create(tmp_path / "empty").path) == 1
    assert "Commit something" in capsys.readouterr().err
    assert not list(home.glob("*/*.duckdb"))


def test_index_files_are_private(repo: Repo, home: Path) -> None:
    """Only the owner can read the files of the index, whatever the umask, because diffs may contain secrets."""
    before = os.umask(0)
    try:
        run_lineage("index", repo.path)
    finally:
        os.umask(before)
    paths = [home, *home.rglob("*")]
    assert paths and all(stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 for path in paths)


def test_events_every_hundred_commits(tmp_path: Path, home: Path) -> None:
    """There is one log event per hundred commits; LINEAGE_LOG=warn silences them."""
    repo = Repo.create(tmp_path / "repo")
    stream = b"".join(
        b"commit refs/heads/main\ncommitter A <a@b> %d +0000\ndata 4\nn%03d\n" % (1_600_000_000 + n, n)
        for n in range(250)
    )
    repo.git("fast-import", "--quiet", stdin=stream)
    options = ["--rebuild", "--yes", "--skip-vectors", "--workers", "1"]
    command = [sys.executable, "-m", "serve.cli.app", "index", str(repo.path), *options]
    environment = os.environ | {"LINEAGE_HOME": str(home)}
    log = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    ).stderr
    events = [line for line in log.splitlines() if "event=indexing" in line]
    assert [line.split("commits=")[1].split()[0] for line in events] == ["100", "200"]
    quiet_run = subprocess.run(
        command,
        cwd=ROOT,
        env=environment | {"LINEAGE_LOG": "warn"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert quiet_run.stderr == ""


def test_progress_bar_only_on_a_terminal(repo: Repo, home: Path) -> None:
    """On a terminal stderr shows a progress bar; `--no-progress` removes it."""
    output = run_on_terminal("index", str(repo.path), "--encoder", "static", home=home)
    assert "commits" in output and "hunks" in output and "left" in output
    assert "left" not in run_on_terminal(
        "index", str(repo.path), "--rebuild", "--yes", "--no-progress", home=home
    )


def run_on_terminal(*arguments: str, home: Path) -> str:
    """Return what the command writes to a terminal on stderr."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "serve.cli.app", *arguments],
        cwd=ROOT,
        env=os.environ | {"LINEAGE_HOME": str(home), "TERM": "xterm", "COLUMNS": "120"},
        stdout=subprocess.DEVNULL,
        stderr=slave,
    )
    os.close(slave)
    output = b""
    try:
        while chunk := os.read(master, 65_536):
            output += chunk
    except OSError:  # Linux reports the closed other end as an error
        pass
    os.close(master)
    assert process.wait() == 0
    return output.decode(errors="replace")


def test_second_run_names_the_first(repo: Repo, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second index run of the same repository fails and names the running process."""
    with locks.acquire_run_lock(get_location(repo, home)):
        assert run_lineage("index", repo.path) == 1
    assert f"process {os.getpid()}" in capsys.readouterr().err


def test_other_embedding_model_is_refused(repo: Repo, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run on an index of another embedding model fails and names the rebuild."""
    run_lineage("index", repo.path)
    with database.open_for_writing(get_location(repo, home)) as connection:
        connection.execute("UPDATE metadata SET version = 'other' WHERE component = 'embedding_model'")
    assert run_lineage("index", repo.path) == 1
    assert "lineage index --rebuild --yes" in capsys.readouterr().err


@pytest.mark.usefixtures("home")
def test_no_readable_commit_is_an_error(repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that can read no commit at all fails, and says why and what to do."""
    for tree in set(repo.git("log", "--format=%T").split()):
        (repo.path / ".git" / "objects" / tree[:2] / tree[2:]).unlink(missing_ok=True)
    assert run_lineage("index", repo.path) == 1
    errors = capsys.readouterr().err
    assert "commits could be read" in errors and " fsck" in errors


def test_unreadable_commits_are_reported(repo: Repo, home: Path) -> None:
    """A run with unreadable commits succeeds and reports their number and reason at the end."""
    blob = repo.git("rev-parse", "HEAD:main.py")
    (repo.path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    result = run_index(repo, home)
    assert "could not be read" in result.stderr and f"object {blob} is missing" in result.stderr
    assert result.stdout.startswith("indexed in")


def test_missing_alternate(tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing alternate is an error if no commit can be read, and does not matter if some can."""
    repo = Repo.create(tmp_path / "other")
    first = repo.commit_file("a.py", "a = 1\n")
    repo.commit_file("b.py", "b = 1\n")
    objects = repo.path / ".git" / "objects"
    (objects / "info" / "alternates").write_text("/nowhere/objects\n")
    with hide_object(repo, "HEAD:a.py"):
        assert f"that could not be read (1): {first[:12]}" in run_index(repo, home).stderr
        run_lineage("doctor", repo.path)
        assert f"1 not indexed: {first[:12]}" in capsys.readouterr().out
        with hide_object(repo, "HEAD:b.py"):
            assert run_lineage("index", "--rebuild", "--yes", repo.path) == 1
    assert "the object directory /nowhere/objects, which" in capsys.readouterr().err


def run_index(repo: Repo, home: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run `lineage index` as a process."""
    return subprocess.run(
        [sys.executable, "-m", "serve.cli.app", "index", str(repo.path), *options],
        cwd=ROOT,
        env=os.environ | {"LINEAGE_HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
    )


def test_partial_clone_remedy_works(tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For a partial clone, the error names another remedy than `git fsck`, and the remedy works."""
    repo = Repo.create(tmp_path / "origin")
    repo.git("config", "uploadpack.allowFilter", "true")
    for number in range(2):
        repo.commit_file("a.py", f"{number}\n")
    clone = repo.clone(tmp_path / "partial", "--filter=blob:none")
    assert run_lineage("index", clone.path) == 1
    error = capsys.readouterr().err
    assert (
        "is missing" in error
        and f"`git -C {clone.path} fetch --refetch --no-filter` (git 2.36 or newer)" in error
        and "fsck" not in error
    )
    clone.git("fetch", "--quiet", "--refetch", "--no-filter")
    assert "could not be read" not in run_index(clone, home).stderr


def test_missing_path_is_an_error(repo: Repo, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing path is an error, even if a repository contains its parent directory."""
    assert run_lineage("index", repo.path / "nonexistent") == 1
    assert "nonexistent does not exist" in capsys.readouterr().err
    assert not home.exists()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0204, "20 ms"),
        (0.9996, "1.0 s"),
        (12.34, "12.3 s"),
        (59.97, "1 min 00 s"),
        (61.2, "1 min 01 s"),
        (3600, "60 min 00 s"),
    ],
)
def test_format_duration(seconds: float, text: str) -> None:
    """Durations are formatted for users."""
    assert format_duration(seconds) == text


def test_run_writes_commit_graph_beside_index(repo: Repo, home: Path) -> None:
    """The index directory gets git's commit-graph for HEAD; the repository itself gets none."""
    run_lineage("index", repo.path)
    git_directory = get_location(repo, home).git_directory
    assert (git_directory / "info" / "commit-graph").exists()
    assert (git_directory / "tip").read_text() == repo.head
    assert not (repo.path / ".git/objects/info/commit-graph").exists()
