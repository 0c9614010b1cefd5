"""A whole pass: what it leaves does not depend on how it was run, or how often it was stopped."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline import head_symbols, run
from pipeline.extract import Extracted, Task
from pipeline.git.errors import NothingToIndex
from pipeline.git.repository import Repository
from pipeline.head_symbols import Outlined, Slice
from pipeline.parse import outline
from pipeline.run import Progress
from pipeline.syntax.grammars import Grammar
from pipeline.workers import Workers
from stores import database, history, maintenance
from tests.bench.indexes import fingerprint
from tests.pipeline.histories import index, interleaved, place
from tests.repos import Repo
from tests.serve.sample_index import WordEncoder

ROOT = Path(__file__).parents[2]
SLOWLY = """
import sys, time
from pathlib import Path
from tests.pipeline.histories import index
from tests.repos import Repo
from tests.serve.sample_index import WordEncoder
encode = WordEncoder.encode
def slowly(self, texts):
    time.sleep(0.1)
    return encode(self, texts)
WordEncoder.encode = slowly
index(Repo(Path(sys.argv[1])), Path(sys.argv[2]), commit_batch=2)
"""


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    return interleaved(tmp_path_factory.mktemp("interleaved") / "repo")


@pytest.fixture(scope="module")
def clean(repo: Repo, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """What one undisturbed pass leaves."""
    home = tmp_path_factory.mktemp("clean")
    index(repo, home)
    return fingerprint(repo.path, home)


@pytest.mark.parametrize(("batch", "workers"), [(1, 1), (7, 1), (3, 2), (100, 2)])
def test_rows_do_not_depend_on_batches_or_workers(
    repo: Repo, clean: object, tmp_path: Path, batch: int, workers: int
) -> None:
    """However the work is cut and spread, the rows are the same, vectors bit for bit."""
    index(repo, tmp_path, commit_batch=batch, jobs=workers)
    assert fingerprint(repo.path, tmp_path) == clean


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stops=st.lists(st.integers(0, 45), min_size=1, max_size=4))
def test_an_incremental_index_equals_a_full_one(
    repo: Repo, clean: object, tmp_path_factory: pytest.TempPathFactory, stops: list[int]
) -> None:
    """Indexing along the way, at any commits of any branch in any order, ends where one pass ends.

    Each pass on the way leaves out exactly what its HEAD does not reach.
    """
    home = tmp_path_factory.mktemp("incremental")
    shas = repo.git("rev-list", "main").splitlines()
    for stop in stops:
        repo.switch(shas[stop % len(shas)], detach=True)
        index(repo, home, commit_batch=5)
        reached = set(repo.git("rev-list", "HEAD").splitlines())
        with database.reading(place(repo, home)) as connection:
            assert history.unreached(connection) == set(history.all_recorded(connection)) - reached
    repo.switch("main")
    index(repo, home)
    assert fingerprint(repo.path, home) == clean


def test_a_pass_knows_nothing_of_the_one_before_it(tmp_path: Path) -> None:
    """One process, a shallow clone, and what a fetch brings between two passes: every commit is read."""
    origin = Repo.create(tmp_path / "origin")
    for number in range(4):
        origin.commit_file("a.py", f"a = {number}\n", f"Change {number}")
    clone = origin.clone(tmp_path / "clone", "--depth=2")
    assert len(index(clone, tmp_path).unreadable) == 1
    clone.git("fetch", "--quiet", "--unshallow")
    assert index(clone, tmp_path).unreadable == ()


@pytest.mark.parametrize("after", [1, 6, 14])
def test_a_killed_pass_goes_on_where_it_was(repo: Repo, clean: object, tmp_path: Path, after: int) -> None:
    """`kill -9` after some batches loses none of them; the next pass ends with the rows of a clean one."""
    command = [sys.executable, "-c", SLOWLY, str(repo.path), str(tmp_path)]
    process = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
    while recorded(repo, tmp_path) < after and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = recorded(repo, tmp_path)
    assert before >= after
    summary = index(repo, tmp_path)
    assert fingerprint(repo.path, tmp_path) == clean
    assert summary.commits <= clean_commits(clean) - before + 2


def recorded(repo: Repo, home: Path) -> int:
    try:
        with database.reading(place(repo, home)) as connection:
            status = history.status(connection)
    except database.NotIndexed:
        return 0
    return status.commits if status else 0


def clean_commits(clean: object) -> int:
    assert isinstance(clean, dict)
    return int(clean["commits"][0])


def test_a_pass_with_nothing_to_do_changes_no_row(repo: Repo, clean: object, tmp_path: Path) -> None:
    """A second pass over the same HEAD finds nothing."""
    index(repo, tmp_path)
    summary = index(repo, tmp_path)
    assert (summary.commits, summary.hunks, summary.head_symbols) == (0, 0, 0)
    assert fingerprint(repo.path, tmp_path) == clean


def test_ignored_commits_leave_no_rows_and_are_passed(repo: Repo, tmp_path: Path) -> None:
    """A commit that changes only ignored files is not recorded; empty commits and merges keep their message."""
    index(repo, tmp_path)
    with database.reading(place(repo, tmp_path)) as connection:
        status = history.status(connection)
        messages = {m for (m,) in connection.execute("SELECT message FROM commits").fetchall()}
    assert status and status.last_indexed_commit == repo.head
    assert "Only what is ignored" not in messages
    assert {"Nothing at all", "Bring in topic 0"} <= messages


def test_progress_moves_with_the_watermark(repo: Repo, tmp_path: Path) -> None:
    """First it is told what there is to do, then each batch with the commits done so far and the last of them."""
    heard: list[Progress] = []
    index(repo, tmp_path, heard, commit_batch=10)
    total = len(repo.git("rev-list", "HEAD").splitlines())
    assert [now.commits for now in heard] == [0, *range(10, total, 10), total]
    assert {now.total for now in heard} == {total}
    assert heard[-1].watermark == repo.head


def test_force_extracts_head_symbols_only(repo: Repo, clean: object, tmp_path: Path) -> None:
    """`--force` makes every HEAD symbol anew and leaves history as it is."""
    first = index(repo, tmp_path)
    again = index(repo, tmp_path, force=True)
    assert (again.commits, again.head_symbols) == (0, first.head_symbols) and first.head_symbols > 0
    assert fingerprint(repo.path, tmp_path) == clean


def test_only_changed_files_are_parsed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One new commit costs the outline of the one file it changed."""
    repo = interleaved(tmp_path / "repo", rounds=2)
    index(repo, tmp_path / "home")
    outlined: list[str] = []

    def told(source: bytes, grammar: Grammar) -> object:
        outlined.append(grammar.name)
        return outline(source, grammar)

    monkeypatch.setattr(head_symbols, "outline", told)
    repo.commit_file("main.py", "def turned():\n    return 1\n", "Turn away")
    index(repo, tmp_path / "home")
    assert outlined == ["python"]


def test_the_snapshot_stands_in_line_behind_the_history(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HEAD's files are handed out with the batches, so that workers go on while the last ones are written."""
    handed: list[str] = []
    work = head_symbols.work

    def noted(task: Task | Slice) -> Extracted | Outlined:
        handed.append(type(task).__name__)
        return work(task)

    monkeypatch.setattr(run, "work", noted)
    index(repo, tmp_path, commit_batch=100)
    assert handed == [*["Task"] * (len(handed) - 1), "Slice"] and len(handed) > 1


def test_a_deleted_file_leaves_the_snapshot(tmp_path: Path) -> None:
    """Symbols of a file that HEAD no longer has are gone."""
    repo = interleaved(tmp_path / "repo", rounds=1)
    index(repo, tmp_path / "home")
    repo.remove("greeter.py")
    repo.commit("No greeting any more")
    index(repo, tmp_path / "home")
    with database.reading(place(repo, tmp_path / "home")) as connection:
        assert "greeter.py" not in history.head_files(connection)
        names = {n for (n,) in connection.execute("SELECT name FROM head_symbols").fetchall()}
    assert "Greeter" not in names and "turn" in names


def test_unreadable_commits_are_tried_again(tmp_path: Path) -> None:
    """A missing object costs its commit only; once it is back, the next pass takes the commit up."""
    repo = interleaved(tmp_path / "repo", rounds=1)
    sha = repo.git("log", "--format=%H", "-1", "--grep=Turn 0.1")
    blob = repo.git("rev-parse", f"{sha}:main.py")
    loose = repo.path / ".git" / "objects" / blob[:2] / blob[2:]
    content = loose.read_bytes()
    loose.unlink()
    home = tmp_path / "home"
    assert index(repo, home).unreadable
    assert index(repo, home).unreadable
    loose.write_bytes(content)
    assert not index(repo, home).unreadable
    index(repo, tmp_path / "clean")
    assert fingerprint(repo.path, home) == fingerprint(repo.path, tmp_path / "clean")


def test_the_index_is_made_compact_in_the_room_of_models_and_packs(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass has given back what it read with before the whole index may be copied."""
    done: list[str] = []
    noting(monkeypatch, WordEncoder, "encode", done)
    noting(monkeypatch, WordEncoder, "unload", done)
    noting(monkeypatch, Repository, "let_go", done)
    noting(monkeypatch, Workers, "dismiss", done)
    noting(monkeypatch, maintenance, "tidy", done)
    index(repo, tmp_path)
    first, *rest = done
    assert first == "let_go"
    assert [name for name in rest if name != "encode"][:3] == ["dismiss", "unload", "tidy"]
    assert "encode" in rest and "encode" not in rest[rest.index("unload") :]


def noting(patch: pytest.MonkeyPatch, owner: object, name: str, done: list[str]) -> None:
    """Have each call of a function noted."""
    called = getattr(owner, name)

    def noted(*given: object, **named: object) -> object:
        done.append(name)
        return called(*given, **named)

    patch.setattr(owner, name, noted)


def test_no_commits_is_said(tmp_path: Path) -> None:
    """A repository without commits is an error that says what to do."""
    with pytest.raises(NothingToIndex, match="Commit something"):
        index(Repo.create(tmp_path / "repo"), tmp_path / "home")


def test_unreadable_head_tree_keeps_the_snapshot(tmp_path: Path) -> None:
    """Without HEAD's tree the history before it is indexed all the same."""
    repo = interleaved(tmp_path / "repo", rounds=1)
    tree = repo.git("rev-parse", "HEAD^{tree}")
    repo.commit_file("extra.py", "x = 1\n")
    tree = repo.git("rev-parse", "HEAD^{tree}")
    (repo.path / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    summary = index(repo, tmp_path / "home")
    assert len(summary.unreadable) == 1 and summary.commits > 5 and summary.head_symbols == 0
