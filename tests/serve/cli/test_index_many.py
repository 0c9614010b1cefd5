"""`lineage index` of several repositories."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pipeline import write
from pipeline.encoders.static import StaticEncoder
from stores import database, locks, maintenance
from stores.index_location import IndexLocation
from tests.bench.indexes import compute_fingerprint
from tests.pipeline.histories import get_location
from tests.repos import Repo
from tests.serve.commands import run_lineage

STATIC = ("--encoder", "static", "--workers", "1")


@pytest.fixture
def repos(tmp_path: Path) -> list[Repo]:
    """Three repositories in `src`, of two commits each."""
    repos = [Repo.create(tmp_path / "src" / name) for name in ("one", "two", "three")]
    for repo in repos:
        repo.commit_file("a.py", f"def {repo.path.name}():\n    pass\n", f"Add {repo.path.name}")
        repo.commit_file("b.md", "# Text\n", "Describe it")
    return repos


def remove_times(output: str) -> list[str]:
    return [re.sub(r" in [\d.]+ m?s", "", line) for line in output.splitlines()]


def count_vectors(repo: Repo, home: Path) -> tuple[int, int]:
    """Return the numbers of commits and of vectors in an index."""
    with database.open_for_reading(get_location(repo, home)) as connection:
        counts = connection.execute("SELECT (SELECT count(*) FROM commits), (SELECT count(*) FROM vectors)")
        commits, vectors = counts.fetchone() or (0, 0)
        return commits, vectors


def test_all_are_extracted_before_one_is_embedded(
    repos: list[Repo], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All repositories are extracted before one is embedded. Each index equals that of a run with only its path."""
    one, two, _ = repos
    assert run_lineage("index", one.path, two.path, *STATIC) == 0
    assert remove_times(capsys.readouterr().out) == [
        f"{one.path}: indexed by words - 2 commits, 2 hunks, 1 HEAD symbol",
        f"{two.path}: indexed by words - 2 commits, 2 hunks, 1 HEAD symbol",
        f"{one.path}: embedded 4 texts",
        f"{two.path}: embedded 4 texts",
    ]
    fingerprint = compute_fingerprint(two.path, home)
    assert run_lineage("index", two.path, "--rebuild", "--yes", *STATIC) == 0
    assert compute_fingerprint(two.path, home) == fingerprint


def test_model_is_loaded_once(repos: list[Repo], home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoder keeps its model between the repositories."""
    unloaded: list[StaticEncoder] = []
    monkeypatch.setattr(StaticEncoder, "unload", unloaded.append)
    assert run_lineage("index", *(repo.path for repo in repos), *STATIC) == 0
    assert unloaded == [] and all(count_vectors(repo, home) == (2, 4) for repo in repos)


def test_failing_repository_does_not_stop_the_others(
    repos: list[Repo], home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A path without a repository, a busy index and a damaged index are reported. The other repositories are indexed.

    The exit code is 1.
    """
    one, two, three = repos
    run_lineage("index", two.path, *STATIC)
    get_location(two, home).database.write_bytes(b"no database" * 1000)
    plain = tmp_path / "plain"
    plain.mkdir()
    capsys.readouterr()
    with locks.acquire_run_lock(get_location(three, home)):
        assert run_lineage("index", plain, two.path, three.path, one.path, *STATIC) == 1
    output = capsys.readouterr()
    assert remove_times(output.out)[-1] == f"{one.path}: embedded 4 texts"
    assert f"{plain}: error: {plain} is not in a git repository." in output.err
    assert (
        f"{two.path}: error: The index" in output.err
        and f"`lineage index --rebuild --yes {two.path}`" in output.err
    )
    assert f"{three.path}: error: " in output.err and "running" in output.err
    assert (
        f"error: 3 of 4 repositories could not be indexed: {plain}, {two.path}, {three.path}." in output.err
    )
    assert count_vectors(one, home) == (2, 4)


def test_failure_between_the_stages(
    repos: list[Repo], home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a repository fails before its texts are embedded, it can be searched by words, and the others are embedded."""
    one, two, _ = repos
    finish_extraction, calls = write.finish_extraction, []

    def fail_third_time(*arguments: object, **options: object) -> object:
        calls.append(arguments)
        if len(calls) == 3:
            raise database.DamagedIndex("The index is damaged.")
        return finish_extraction(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(write, "finish_extraction", fail_third_time)
    assert run_lineage("index", one.path, two.path, *STATIC) == 1
    output = capsys.readouterr()
    assert f"{one.path}: error: The index is damaged." in output.err
    assert count_vectors(one, home) == (2, 0) and count_vectors(two, home) == (2, 4)


def test_recursive(repos: list[Repo], home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--recursive` indexes all repositories below a directory, and says so if there is none."""
    assert run_lineage("index", "--recursive", tmp_path / "src", "--skip-vectors", *STATIC) == 0
    one, two, three = (f"{repo.path}: indexed by words - 2 commits, 2 hunks, 1 HEAD symbol" for repo in repos)
    assert remove_times(capsys.readouterr().out) == [one, three, two]
    assert count_vectors(repos[0], home) == (2, 0)
    (tmp_path / "empty").mkdir()
    assert run_lineage("index", "--recursive", tmp_path / "empty") == 1
    assert f"There is no git repository below {tmp_path / 'empty'}." in capsys.readouterr().err
    assert run_lineage("index", "--recursive", tmp_path / "absent") == 2


@pytest.mark.usefixtures("home")
def test_size_of_diffs(repos: list[Repo], capsys: pytest.CaptureFixture[str]) -> None:
    """`--profile` has the size of all diffs in bytes, not in characters."""
    one = repos[0]
    run_lineage("index", one.path, *STATIC)
    one.commit_file("text.md", "\N{EURO SIGN}\n")
    capsys.readouterr()
    run_lineage("index", one.path, "--profile", "--incremental", *STATIC)
    _, header, diff = one.git_bytes("show", "--format=", "HEAD").partition(b"\n@@")
    profile = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert profile["total_diff_bytes"] == len(header.lstrip() + diff)


def test_incremental_and_profile(repos: list[Repo], home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An incremental run names the repositories at HEAD; `--profile` prints a JSON line for each, of both stages."""
    one, two, _ = repos
    run_lineage("index", one.path, *STATIC)
    capsys.readouterr()
    assert run_lineage("index", one.path, two.path, "--incremental", "--profile", *STATIC) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{one.path}: index up-to-date at {one.head}"
    profiles = [json.loads(line) for line in lines if line.startswith("{")]
    assert [profile["repository"] for profile in profiles] == [str(one.path), str(two.path)]
    assert profiles[0]["total_diff_bytes"] == 0 < profiles[1]["total_diff_bytes"]
    assert profiles[1]["workers"] == 1 and count_vectors(two, home) == (2, 4)


def test_rebuild_deletes_once(
    repos: list[Repo], home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `--rebuild`, the stage that embeds keeps what the first stage has extracted."""
    one, two, _ = repos
    run_lineage("index", one.path, two.path, *STATIC)
    deleted: list[IndexLocation] = []

    def delete_index(location: IndexLocation) -> None:
        deleted.append(location)
        maintenance.delete_index(location)

    monkeypatch.setattr("pipeline.run.delete_index", delete_index)
    assert run_lineage("index", one.path, two.path, "--rebuild", "--yes", *STATIC) == 0
    assert [location.path for location in deleted] == [one.path, two.path]
    assert remove_times(capsys.readouterr().out)[-1] == f"{two.path}: embedded 4 texts"
    assert count_vectors(one, home) == (2, 4)


def test_interruption_ends_the_whole_run(
    repos: list[Repo], home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C ends the run of all repositories with the usual exit code, and says how to continue."""
    write_batch, calls = write.write_batch, []

    def interrupt_second_time(*arguments: object, **options: object) -> None:
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        write_batch(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(write, "write_batch", interrupt_second_time)
    assert run_lineage("index", *(repo.path for repo in repos), *STATIC) == 130
    assert "stopped with 3 of 3 repositories unfinished. Run the same command" in capsys.readouterr().err
    assert len(calls) == 2 and count_vectors(repos[0], home) == (2, 0)


def test_wizard_asks_about_one_repository(repos: list[Repo], home: Path) -> None:
    """The wizard refuses several repositories."""
    assert run_lineage("index", "-i", repos[0].path, repos[1].path) == 2
    assert not home.exists()
