"""Compatibility verdicts of all commands after component changes and interrupted index runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline import component_versions, write
from serve.api_types import Compatibility
from serve.find_types import FindRequest
from serve.index_status import build_index_hints, describe_run_time, load_status_at_path
from serve.search.find_pattern import find_pattern
from stores import database, locks
from stores.compatibility import CompatibilityStatus
from tests.pipeline.histories import create_interleaved_repo, get_location
from tests.repos import FIRST_DATE, Repo
from tests.serve.commands import run_captured, run_index, run_lineage
from tests.serve.maintenance.helpers import run_checks
from tests.serve.sample_index import WordEncoder


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """Repository with 9 commits, embedded by a simple computation."""
    monkeypatch.setattr(
        "pipeline.encoders.base.OnnxEncoder.encode", lambda _, texts: WordEncoder().encode(texts)
    )
    return create_interleaved_repo(tmp_path / "repo", rounds=1)


def load_verdict(repo: Repo, home: Path) -> str:
    """Return the verdict of the repository's index."""
    return str(load_status_at_path(repo.path, home)[1].verdict)


def stop_at_second_call(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with an interruption by the user in place of the second call."""
    calls = iter([function])

    def call(*arguments: Any, **options: Any) -> Any:
        return next(calls, raise_keyboard_interrupt)(*arguments, **options)

    return call


def set_component_version(monkeypatch: pytest.MonkeyPatch, constant: str, value: str = "9") -> None:
    """Change the version of a component."""
    monkeypatch.setattr(component_versions, constant, value)


@pytest.mark.parametrize("constant", ["CHUNKER_VERSION", "CROSS_ENCODER", "PARSER_VERSION", "WORDS_VERSION"])
def test_changed_derived_component_needs_refresh(
    repo: Repo,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    constant: str,
) -> None:
    """A refresh is recommended, queries are answered, and `--force` makes the index compatible."""
    assert run_index(repo) == 0
    set_component_version(monkeypatch, constant)
    before = load_verdict(repo, home)
    assert before.startswith("query-compatible, refresh recommended (")
    assert before.endswith("now 9; run `lineage index --force`)")
    capfd.readouterr()
    assert run_lineage("query", repo.path, "-q", "greet") == 0
    answer = json.loads(capfd.readouterr().out)
    assert answer["meta"]["compatibility"]["status"] == "query_compatible_needs_refresh"
    assert answer["hits"] and "now 9" in answer["meta"]["hint"]
    assert run_index(repo, "--force") == 0
    output = capfd.readouterr()
    assert load_verdict(repo, home) == "compatible" and "recommended" not in output.err
    is_history_refreshed = constant in {"PARSER_VERSION", "WORDS_VERSION"}
    assert ("indexed hunks again" in output.out) is is_history_refreshed


@pytest.mark.parametrize(
    "constant", ["EMBEDDING_MODEL", "EMBEDDING_DIMENSION", "SCHEMA_VERSION", "SEMANTIC_TEXT_VERSION"]
)
def test_changed_vectors_need_rebuild(
    repo: Repo,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    constant: str,
) -> None:
    """Queries and index runs are refused, explanations work, and a rebuild fixes the index."""
    assert run_index(repo) == 0
    set_component_version(monkeypatch, constant)
    capfd.readouterr()
    component = "schema" if constant == "SCHEMA_VERSION" else constant.lower()
    assert load_verdict(repo, home).startswith(f"needs rebuild ({component} ")
    commands: tuple[list[str | Path], ...] = (
        ["query", repo.path, "-q", "greet"],
        ["index", repo.path],
        ["index", repo.path, "--force"],
    )
    for command in commands:
        assert run_lineage(*command) == 1
        assert "lineage index --rebuild --yes" in capfd.readouterr().err
    assert run_lineage("explain", "greeter.py", repo.path) == 0
    explained = json.loads(capfd.readouterr().out)
    assert explained["hits"] and explained["meta"]["compatibility"]["status"] == "needs_rebuild"
    assert run_index(repo, "--rebuild", "--yes") == 0
    assert load_verdict(repo, home) == "compatible"
    assert run_lineage("query", repo.path, "-q", "greet") == 0


@pytest.mark.parametrize("flags", [[], ["--force"]])
def test_missing_metadata_is_unknown(repo: Repo, home: Path, flags: list[str]) -> None:
    """Without metadata the verdict is unknown, until an index run records the versions."""
    run_index(repo)
    with database.open_for_writing(get_location(repo, home)) as connection:
        connection.execute("DELETE FROM metadata")
    assert load_verdict(repo, home) == "unknown (no metadata for any component until a run ends)"
    assert run_index(repo, *flags) == 0
    assert load_verdict(repo, home) == "compatible"


@pytest.mark.parametrize("flags", [[], ["--rebuild", "--yes"]])
@pytest.mark.parametrize("stage", ["write_batch", "write_head", "finish_extraction"])
def test_interrupted_first_run(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch, stage: str, flags: list[str]
) -> None:
    """After an interrupted first run the verdict is unknown until `--incremental` completes the index."""
    if flags:
        run_index(repo)
    with monkeypatch.context() as patch:
        patch.setattr(write, stage, raise_keyboard_interrupt)
        assert run_index(repo, *flags) == 130
    assert load_verdict(repo, home) == "unknown (no metadata for any component until a run ends)"
    remaining = (
        f", {load_status_at_path(repo.path, home)[1].commits_behind} commits are left"
        if stage == "write_batch"
        else ""
    )
    assert list(build_index_hints(load_status_at_path(repo.path, home)[1])) == [
        f"The first index run has not ended{remaining}: run `lineage index`."
    ]
    results = run_checks(repo.path)
    assert results["freshness"].found == f"the first index run has not ended{remaining}"
    assert "compatibility" not in results
    assert run_index(repo, "--incremental") == 0
    assert load_verdict(repo, home) == "compatible"
    assert count_head_symbols(repo, home) > 0


def test_active_run(repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """During a run, hints tell its progress and what answers cover; they advise no run and judge no weak hits.

    Neither do `lineage status` and `lineage doctor`.
    """
    location = get_location(repo, home)
    with monkeypatch.context() as patch:
        patch.setattr(write, "write_batch", stop_at_second_call(write.write_batch))
        assert run_index(repo, "--commit-batch", "2") == 130
    remaining = load_status_at_path(repo.path, home)[1].commits_behind
    assert remaining > 0
    request = FindRequest("a walrus on a bicycle")
    with locks.acquire_run_lock(location):
        status = load_status_at_path(repo.path, home)[1]
        (hint,) = build_index_hints(status)
        answer = find_pattern(request, repo.path, home)
        _, output, _ = run_captured("status", repo.path)
        check = run_checks(repo.path)["freshness"]
    assert "\nvectors: vectors for 0 % of the changes; an index run adds the others" in output
    assert "remedy: " not in output and "`lineage index`" not in output
    assert (check.verdict.value, check.found) == ("ok", "an index run is at work")
    _, output, _ = run_captured("status", repo.path)
    assert f"\nremedy: lineage index {repo.path}\n" in output and "`lineage index" in output
    share = status.commits * 100 // (status.commits + remaining)
    assert hint == (
        f"An index run is at work: {share} % of the commits are indexed, {remaining} commits left; "
        f"answers cover the commits up to {FIRST_DATE:%Y-%m-%d}."
    )
    assert answer.meta.hint == hint
    assert answer.meta.compatibility == Compatibility("unknown", "no index run has ended")
    assert "run `lineage index`" in (find_pattern(request, repo.path, home).meta.hint or "")


@pytest.mark.parametrize("is_unknown", [False, True])
def test_active_forced_run(repo: Repo, home: Path, is_unknown: bool) -> None:
    """While a run refreshes a complete index, status, doctor and hints say so instead of advising `--force`."""
    run_index(repo)
    location = get_location(repo, home)
    # The process in which doctor reads the index has this program's versions, so change the recorded ones.
    with database.open_for_writing(location) as connection:
        connection.execute("UPDATE metadata SET version = '0' WHERE component = 'chunker_version'")
        if is_unknown:
            connection.execute("UPDATE metadata SET version = NULL WHERE component = 'reranker_model'")
    advice = f"lineage index --force {repo.path}"
    assert advice in run_captured("status", repo.path)[1]
    with locks.acquire_run_lock(location):
        _, output, _ = run_captured("status", repo.path)
        check = run_checks(repo.path)["compatibility"]
        (hint,) = build_index_hints(load_status_at_path(repo.path, home)[1])
    assert "; an index run is at work)\n" in output and "--force" not in output
    assert check.found.endswith("; an index run is at work)") and not check.remedy
    assert hint.endswith("; an index run is at work).")
    assert advice in run_captured("status", repo.path)[1]


def test_time_of_a_first_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hint of a repository without an index says how many commits there are and how long the run takes."""
    monkeypatch.setattr("serve.index_status.count_usable_cpus", lambda: 2)
    assert describe_run_time(6_000) == (
        " It has 6,000 commits: all can be found by words after about 20 seconds, "
        "and by meaning after about 5 minutes."
    )
    assert not describe_run_time(100)


def test_pending_vectors_are_a_warning(repo: Repo, home: Path) -> None:
    """Until the texts are embedded, checks and hints of answers that use vectors name the share that has them."""
    run_index(repo, "--skip-vectors")
    assert load_verdict(repo, home) == "compatible"
    status = load_status_at_path(repo.path, home)[1]
    assert list(build_index_hints(status)) == []
    assert list(build_index_hints(status, uses_vectors=True)) == [
        "The index has vectors for 0 % of the changes; other changes are found by words only: run `lineage index`."
    ]
    results = run_checks(repo.path)
    assert results["vectors"].found == "vectors for 0 % of the changes"
    assert results["index"].verdict.value == "ok"
    assert run_index(repo, "--incremental") == 0
    assert "vectors" not in run_checks(repo.path)
    assert not list(build_index_hints(load_status_at_path(repo.path, home)[1], uses_vectors=True))


def test_interrupted_forced_run_needs_refresh(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an interrupted `--force` both versions recommend a refresh, until a run completes."""
    run_index(repo)
    symbol_count = count_head_symbols(repo, home)
    with monkeypatch.context() as newer:
        set_component_version(newer, "CHUNKER_VERSION")
        with newer.context() as patch:
            patch.setattr(write, "finish_extraction", raise_keyboard_interrupt)
            assert run_index(repo, "--force") == 130
        assert load_verdict(repo, home).startswith(
            "query-compatible, refresh recommended (chunker_version 1, now 9"
        )
        assert count_head_symbols(repo, home) == symbol_count
    assert load_verdict(repo, home).startswith(
        "query-compatible, refresh recommended (chunker_version 9, now 1"
    )
    assert run_index(repo, "--force") == 0
    assert load_verdict(repo, home) == "compatible"


def test_unreadable_head_tree_needs_refresh(repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If HEAD's tree cannot be read, `--force` does not record the new version."""
    run_index(repo)
    set_component_version(monkeypatch, "CHUNKER_VERSION")
    tree = repo.git("rev-parse", "HEAD^{tree}")
    (repo.path / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    assert run_index(repo, "--force") == 0
    verdict = load_status_at_path(repo.path, home)[1].verdict
    assert verdict is not None and verdict.status is CompatibilityStatus.NEEDS_REFRESH


def test_unreadable_commit_keeps_outdated_symbols(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """If a commit cannot be read again, `--force` names it and what to do, and the verdict stays."""
    run_index(repo)
    set_component_version(monkeypatch, "PARSER_VERSION")
    sha = repo.git("rev-list", "--max-count=1", "HEAD", "--", "main.py")
    (repo.path / ".git" / "objects" / sha[:2] / sha[2:]).unlink()
    capfd.readouterr()
    assert run_index(repo, "--force") == 0
    errors = capfd.readouterr().err
    assert "Commits could not be extracted again (" in errors and sha[:12] in errors
    assert f"`lineage index --force {repo.path}` tries again" in errors
    assert f"parser_python 1, now 9; run `lineage index --force {repo.path}`" in errors
    assert load_verdict(repo, home).startswith(
        "query-compatible, refresh recommended (parser_python 1, now 9"
    )


@pytest.mark.usefixtures("home")
def test_answers_at_an_unborn_branch_name_it(repo: Repo) -> None:
    """If HEAD names a branch that does not exist, no answer blames the path, the symbol or the index for it."""
    assert run_index(repo) == 0
    repo.git("switch", "--orphan", "orphan")
    commands = (
        ("index", "--all-branches"),
        ("status",),
        ("related", "main.py"),
        ("trace", "greet"),
        ("grep", "greet"),
        ("explain", "main.py"),
        ("show", "HEAD"),
        ("doctor",),
    )
    for command in commands:
        _, output, errors = run_captured(*command, cwd=repo.path)
        text = output + errors
        assert "names the branch 'orphan', which does not exist" in text, command
        assert "Run `git switch NAME` with the name of a branch" in text
        for wrong_reason in ("no commits yet", "may ignore this path", "Case matters"):
            assert wrong_reason not in text


def raise_keyboard_interrupt(*_: object, **__: object) -> None:
    """Raise KeyboardInterrupt, in place of a stage of the run."""
    raise KeyboardInterrupt


def count_head_symbols(repo: Repo, home: Path) -> int:
    """Return the number of HEAD symbols in the index."""
    with database.open_for_reading(get_location(repo, home)) as connection:
        return int(connection.execute("SELECT count(*) FROM head_symbols").fetchall()[0][0])
