"""Index runs: the rows do not depend on batches, workers or interruptions."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import joblib
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline import head_symbols, run, workers
from pipeline.extract import ExtractedBatch, ExtractTask
from pipeline.git.errors import NothingToIndex
from pipeline.git.repository import Repository, open_repository
from pipeline.head_symbols import HeadSlice, ParsedFiles
from pipeline.run import IndexRun, Progress, RunOptions
from pipeline.syntax.grammars import Grammar
from pipeline.syntax.outline import parse_outline
from stores import database, history, locks, maintenance
from stores.errors import OutOfMemory
from tests.bench.indexes import compute_fingerprint
from tests.pipeline.histories import create_interleaved_repo, get_location, run_index
from tests.repos import Repo
from tests.serve.sample_index import WordEncoder

ROOT = Path(__file__).parents[2]
# Program that indexes a repository, 0.1 s slower for each batch. Arguments: repository, data directory.
SLOW_RUN = """
import sys, time
from pathlib import Path
from tests.pipeline.histories import run_index
from tests.repos import Repo
from tests.serve.sample_index import WordEncoder
encode = WordEncoder.encode
def encode_slowly(self, texts):
    time.sleep(0.1)
    return encode(self, texts)
WordEncoder.encode = encode_slowly
run_index(Repo(Path(sys.argv[1])), Path(sys.argv[2]), commit_batch=2)
"""


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    return create_interleaved_repo(tmp_path_factory.mktemp("interleaved") / "repo")


@pytest.fixture(scope="module")
def full_run_fingerprint(repo: Repo, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """Return the fingerprint of the rows of a single uninterrupted run."""
    home = tmp_path_factory.mktemp("full")
    run_index(repo, home)
    return compute_fingerprint(repo.path, home)


@pytest.mark.parametrize(
    ("batch", "workers", "backend"),
    [
        (1, 1, "loky"),
        (7, 1, "threading"),
        (3, 2, None),
        (100, 2, None),
        (3, 4, "loky"),
        (3, 4, "threading"),
    ],
)
def test_rows_do_not_depend_on_batches_or_workers(
    repo: Repo, full_run_fingerprint: object, tmp_path: Path, batch: int, workers: int, backend: str | None
) -> None:
    """Rows and vectors are identical for any batch size, number of workers and backend. `test_cluster` tests Dask."""
    with joblib.parallel_config(backend=backend) if backend else nullcontext():
        run_index(repo, tmp_path, commit_batch=batch, jobs=workers)
    assert compute_fingerprint(repo.path, tmp_path) == full_run_fingerprint


def test_ambient_number_of_workers(repo: Repo, full_run_fingerprint: object, tmp_path: Path) -> None:
    """A run without a number of workers uses the number that `joblib.parallel_config` sets."""
    location = get_location(repo, tmp_path)
    with joblib.parallel_config(n_jobs=2), locks.acquire_run_lock(location):
        index_run = IndexRun(
            open_repository(repo.path), location, RunOptions(commit_batch=3), WordEncoder(), None, None
        )
        assert index_run.run().workers == 2
    assert compute_fingerprint(repo.path, tmp_path) == full_run_fingerprint


def test_run_without_memory_leaves_the_index_unchanged(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rebuild fails before it deletes the index if there is too little memory to finish."""
    run_index(repo, tmp_path)
    fingerprint = compute_fingerprint(repo.path, tmp_path)
    monkeypatch.setattr(workers, "MIN_FREE_BYTES", 1 << 60)
    with pytest.raises(OutOfMemory):
        run_index(repo, tmp_path, rebuild=True)
    assert compute_fingerprint(repo.path, tmp_path) == fingerprint


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stops=st.lists(st.integers(0, 45), min_size=1, max_size=4))
def test_incremental_runs_equal_a_full_run(
    repo: Repo, full_run_fingerprint: object, tmp_path_factory: pytest.TempPathFactory, stops: list[int]
) -> None:
    """Runs at any commits in any order, then at HEAD, give the rows of a single run.

    After each run, the index lists exactly the recorded commits that HEAD does not reach as unreachable.
    """
    home = tmp_path_factory.mktemp("incremental")
    shas = repo.git("rev-list", "main").splitlines()
    for stop in stops:
        repo.switch(shas[stop % len(shas)], detach=True)
        run_index(repo, home, commit_batch=5)
        reached_commits = set(repo.git("rev-list", "HEAD").splitlines())
        with database.open_for_reading(get_location(repo, home)) as connection:
            assert (
                history.load_unreachable_commits(connection)
                == set(history.list_recorded_commits(connection)) - reached_commits
            )
    repo.switch("main")
    run_index(repo, home)
    assert compute_fingerprint(repo.path, home) == full_run_fingerprint


def test_runs_in_one_process_share_no_state(tmp_path: Path) -> None:
    """After a fetch deepens a shallow clone, a second run in the same process reads the boundary commit."""
    origin = Repo.create(tmp_path / "origin")
    for number in range(4):
        origin.commit_file("a.py", f"a = {number}\n", f"Change {number}")
    clone = origin.clone(tmp_path / "clone", "--depth=2")
    assert len(run_index(clone, tmp_path).unreadable_commits) == 1
    clone.git("fetch", "--quiet", "--unshallow")
    assert run_index(clone, tmp_path).unreadable_commits == ()


@pytest.mark.parametrize("min_commits", [1, 6, 14])
def test_run_after_kill_continues(
    repo: Repo, full_run_fingerprint: object, tmp_path: Path, min_commits: int
) -> None:
    """After `kill -9` the next run completes the index and writes at most one batch of commits again."""
    command = [sys.executable, "-c", SLOW_RUN, str(repo.path), str(tmp_path)]
    process = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
    while count_recorded_commits(repo, tmp_path) < min_commits and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    recorded_count = count_recorded_commits(repo, tmp_path)
    assert recorded_count >= min_commits
    summary = run_index(repo, tmp_path)
    assert compute_fingerprint(repo.path, tmp_path) == full_run_fingerprint
    assert summary.commits <= count_full_run_commits(full_run_fingerprint) - recorded_count + 2


def count_recorded_commits(repo: Repo, home: Path) -> int:
    try:
        with database.open_for_reading(get_location(repo, home)) as connection:
            status = history.load_index_summary(connection)
    except database.NotIndexed:
        return 0
    return status.commits if status else 0


def count_full_run_commits(full_run_fingerprint: object) -> int:
    assert isinstance(full_run_fingerprint, dict)
    return int(full_run_fingerprint["commits"][0])


def test_second_run_changes_nothing(repo: Repo, full_run_fingerprint: object, tmp_path: Path) -> None:
    """A second run over the same HEAD writes no row."""
    run_index(repo, tmp_path)
    summary = run_index(repo, tmp_path)
    assert (summary.commits, summary.hunks, summary.head_symbols) == (0, 0, 0)
    assert compute_fingerprint(repo.path, tmp_path) == full_run_fingerprint


def test_ignored_commits_have_no_rows(repo: Repo, tmp_path: Path) -> None:
    """A commit that changes only ignored files is not recorded. Empty commits and merges are recorded."""
    run_index(repo, tmp_path)
    with database.open_for_reading(get_location(repo, tmp_path)) as connection:
        status = history.load_index_summary(connection)
        messages = {m for (m,) in connection.execute("SELECT message FROM commits").fetchall()}
    assert status and status.last_indexed_commit == repo.head
    assert "Only what is ignored" not in messages
    assert {"Nothing at all", "Bring in topic 0"} <= messages


def test_progress_reports(repo: Repo, tmp_path: Path) -> None:
    """Progress is reported before the first batch, after each batch with the watermark, and then for the texts."""
    all_reports: list[Progress] = []
    run_index(repo, tmp_path, all_reports, commit_batch=10)
    total = len(repo.git("rev-list", "HEAD").splitlines())
    reports = [progress for progress in all_reports if not progress.total_texts]
    assert [progress.processed_commits for progress in reports] == [0, *range(10, total, 10), total]
    assert {progress.total_commits for progress in all_reports} == {total}
    assert reports[-1].watermark == repo.head
    first, *_, last = all_reports[len(reports) :]
    assert first.embedded_texts == 0 < last.embedded_texts == last.total_texts == first.total_texts


def test_force_rewrites_only_head_symbols(repo: Repo, full_run_fingerprint: object, tmp_path: Path) -> None:
    """`force` rewrites every HEAD symbol and no commit."""
    first_summary = run_index(repo, tmp_path)
    summary = run_index(repo, tmp_path, force=True)
    assert (summary.commits, summary.head_symbols) == (0, first_summary.head_symbols)
    assert first_summary.head_symbols > 0
    assert compute_fingerprint(repo.path, tmp_path) == full_run_fingerprint


def test_only_changed_files_are_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a commit that changes one file, a run parses only this file of HEAD."""
    repo = create_interleaved_repo(tmp_path / "repo", rounds=2)
    run_index(repo, tmp_path / "home")
    parsed_grammars: list[str] = []

    def record_and_parse(source: bytes, grammar: Grammar) -> object:
        parsed_grammars.append(grammar.name)
        return parse_outline(source, grammar)

    monkeypatch.setattr(head_symbols, "parse_outline", record_and_parse)
    repo.commit_file("main.py", "def turned():\n    return 1\n", "Turn away")
    run_index(repo, tmp_path / "home")
    assert parsed_grammars == ["python"]


def test_head_tasks_follow_commit_tasks(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sequence has the tasks of all batches of commits, and then the tasks that parse HEAD."""
    task_types: list[str] = []
    run_task = head_symbols.run_task

    def record_and_run(task: ExtractTask | HeadSlice) -> tuple[ExtractedBatch | ParsedFiles, ...]:
        task_types.append(type(task).__name__)
        return run_task(task)

    monkeypatch.setattr(run, "run_task", record_and_run)
    run_index(repo, tmp_path, commit_batch=100)
    assert task_types == [*["ExtractTask"] * (len(task_types) - 1), "HeadSlice"] and len(task_types) > 1


def test_deleted_file_leaves_head_snapshot(tmp_path: Path) -> None:
    """Symbols of a file that HEAD no longer has are deleted."""
    repo = create_interleaved_repo(tmp_path / "repo", rounds=1)
    run_index(repo, tmp_path / "home")
    repo.remove("greeter.py")
    repo.commit("No greeting any more")
    run_index(repo, tmp_path / "home")
    with database.open_for_reading(get_location(repo, tmp_path / "home")) as connection:
        assert "greeter.py" not in history.load_head_files(connection)
        names = {n for (n,) in connection.execute("SELECT name FROM head_symbols").fetchall()}
    assert "Greeter" not in names and "turn" in names


def test_unreadable_commits_are_retried(tmp_path: Path) -> None:
    """A missing object makes only its commit unreadable; once restored, the next run indexes the commit."""
    repo = create_interleaved_repo(tmp_path / "repo", rounds=1)
    sha = repo.git("log", "--format=%H", "-1", "--grep=Turn 0.1")
    blob = repo.git("rev-parse", f"{sha}:main.py")
    object_file = repo.path / ".git" / "objects" / blob[:2] / blob[2:]
    content = object_file.read_bytes()
    object_file.unlink()
    home = tmp_path / "home"
    assert run_index(repo, home).unreadable_commits
    assert run_index(repo, home).unreadable_commits
    object_file.write_bytes(content)
    assert not run_index(repo, home).unreadable_commits
    run_index(repo, tmp_path / "full_run")
    assert compute_fingerprint(repo.path, home) == compute_fingerprint(repo.path, tmp_path / "full_run")


def test_memory_is_freed_before_compaction(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory of the repository and the encoder is released before compaction, which may copy the index."""
    calls: list[str] = []
    record_calls(monkeypatch, WordEncoder, "encode", calls)
    record_calls(monkeypatch, WordEncoder, "unload", calls)
    record_calls(monkeypatch, Repository, "release_memory", calls)
    record_calls(monkeypatch, maintenance, "compact_if_needed", calls)
    run_index(repo, tmp_path)
    first_call, *other_calls = calls
    assert first_call == "release_memory"
    assert [name for name in other_calls if name != "encode"][:2] == ["unload", "compact_if_needed"]
    assert "encode" in other_calls and "encode" not in other_calls[other_calls.index("unload") :]


def record_calls(patch: pytest.MonkeyPatch, owner: object, name: str, calls: list[str]) -> None:
    """Append the function's name to `calls` at each call."""
    function = getattr(owner, name)

    def record_and_call(*args: object, **kwargs: object) -> object:
        calls.append(name)
        return function(*args, **kwargs)

    patch.setattr(owner, name, record_and_call)


def test_repository_without_commits(tmp_path: Path) -> None:
    """A repository without commits is an error with a hint."""
    with pytest.raises(NothingToIndex, match="Commit something"):
        run_index(Repo.create(tmp_path / "repo"), tmp_path / "home")


def test_unreadable_head_tree(tmp_path: Path) -> None:
    """If HEAD's tree is missing, the other commits are indexed, without symbols of HEAD."""
    repo = create_interleaved_repo(tmp_path / "repo", rounds=1)
    repo.commit_file("extra.py", "x = 1\n")
    tree = repo.git("rev-parse", "HEAD^{tree}")
    (repo.path / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    summary = run_index(repo, tmp_path / "home")
    assert len(summary.unreadable_commits) == 1 and summary.commits > 5 and summary.head_symbols == 0
