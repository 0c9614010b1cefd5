"""The verdict, whichever command is asked, as components really change and passes are really cut short."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline import component_versions, write
from serve.index_status import index_hints, of_path
from stores import database
from stores.compatibility import Status
from tests.pipeline.histories import interleaved, place
from tests.repos import Repo
from tests.serve.commands import indexed, lineage
from tests.serve.maintenance.helpers import found
from tests.serve.sample_index import WordEncoder


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    monkeypatch.setattr(
        "pipeline.encoders.base.OnnxEncoder.encode", lambda _, texts: WordEncoder().encode(texts)
    )
    return interleaved(tmp_path / "repo", rounds=1)


def stands(repo: Repo, home: Path) -> str:
    return str(of_path(repo.path, home)[1].verdict)


def change(monkeypatch: pytest.MonkeyPatch, constant: str, value: str = "9") -> None:
    """Another version of a part, at the one place that says which it is."""
    monkeypatch.setattr(component_versions, constant, value)


@pytest.mark.parametrize(
    ("constant", "forced"),
    [
        ("CHUNKER_VERSION", "compatible"),
        ("CROSS_ENCODER", "compatible"),
        ("PARSER_VERSION", "parser_python 1, now 9; run `lineage index --rebuild --yes`"),
        ("SEMANTIC_TEXT_VERSION", "semantic_text_version 1, now 9; run `lineage index --rebuild --yes`"),
        ("WORDS_VERSION", "words_version 1, now 9; run `lineage index --rebuild --yes`"),
    ],
)
def test_a_derived_component_changes(
    repo: Repo,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    constant: str,
    forced: str,
) -> None:
    """Refresh is recommended; `--force` brings what it can, and says what brings the rest; a rebuild brings all."""
    assert indexed(repo) == 0
    change(monkeypatch, constant)
    before = stands(repo, home)
    assert before.startswith("query-compatible, refresh recommended (") and "now 9" in before
    capfd.readouterr()
    assert lineage("query", repo.path, "-q", "greet") == 0
    said = json.loads(capfd.readouterr().out)
    assert said["meta"]["compatibility"]["status"] == "query_compatible_needs_refresh"
    assert said["hits"] and "now 9" in said["meta"]["hint"]
    assert indexed(repo, "--force") == 0
    assert forced in stands(repo, home)
    assert (forced == "compatible") != (
        f"run `lineage index --rebuild --yes {repo.path}`" in capfd.readouterr().err
    )
    assert indexed(repo, "--rebuild", "--yes") == 0
    assert stands(repo, home) == "compatible"


@pytest.mark.parametrize("constant", ["EMBEDDING_MODEL", "EMBEDDING_DIMENSION", "SCHEMA_VERSION"])
def test_vectors_change(
    repo: Repo,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    constant: str,
) -> None:
    """What would mix vectors is refused, a query and an index run alike; an explanation is given; a rebuild mends."""
    assert indexed(repo) == 0
    change(monkeypatch, constant)
    capfd.readouterr()
    assert stands(repo, home).startswith(f"needs rebuild ({constant.lower().removesuffix('_version')} ")
    commands: tuple[list[str | Path], ...] = (
        ["query", repo.path, "-q", "greet"],
        ["index", repo.path],
        ["index", repo.path, "--force"],
    )
    for command in commands:
        assert lineage(*command) == 1
        assert "lineage index --rebuild --yes" in capfd.readouterr().err
    assert lineage("explain", "greeter.py", repo.path) == 0
    explained = json.loads(capfd.readouterr().out)
    assert explained["hits"] and explained["meta"]["compatibility"]["status"] == "needs_rebuild"
    assert indexed(repo, "--rebuild", "--yes") == 0
    assert stands(repo, home) == "compatible"
    assert lineage("query", repo.path, "-q", "greet") == 0


@pytest.mark.parametrize("flags", [[], ["--force"]])
def test_metadata_that_was_never_written(repo: Repo, home: Path, flags: list[str]) -> None:
    """Unknown; after a run, forced or not, what made the rows is vouched for."""
    indexed(repo)
    with database.writing(place(repo, home)) as connection:
        connection.execute("DELETE FROM metadata")
    assert stands(repo, home) == "unknown (no metadata for any component until a run ends)"
    assert indexed(repo, *flags) == 0
    assert stands(repo, home) == "compatible"


@pytest.mark.parametrize("flags", [[], ["--rebuild", "--yes"]])
@pytest.mark.parametrize("stage", ["write_batch", "write_head", "finish"])
def test_a_whole_pass_is_cut_short(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch, stage: str, flags: list[str]
) -> None:
    """Unknown until a pass ends, which hints and doctor say once; `--incremental` ends it, wherever it was cut."""
    if flags:
        indexed(repo)
    with monkeypatch.context() as cut:
        cut.setattr(write, stage, interrupted)
        assert indexed(repo, *flags) == 130
    assert stands(repo, home) == "unknown (no metadata for any component until a run ends)"
    left = f", {of_path(repo.path, home)[1].behind} commits are left" if stage == "write_batch" else ""
    assert list(index_hints(of_path(repo.path, home)[1])) == [
        f"The first index run has not ended{left}: run `lineage index`."
    ]
    said = found(repo.path)
    assert said["freshness"].found == f"the first index run has not ended{left}"
    assert "compatibility" not in said
    assert indexed(repo, "--incremental") == 0
    assert stands(repo, home) == "compatible"
    assert symbols(repo, home) > 0


def test_a_forced_pass_is_cut_short(repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of both versions: refresh is recommended by either program, until one makes all of them."""
    indexed(repo)
    whole = symbols(repo, home)
    with monkeypatch.context() as newer:
        change(newer, "CHUNKER_VERSION")
        with newer.context() as cut:
            cut.setattr(write, "finish", interrupted)
            assert indexed(repo, "--force") == 130
        assert stands(repo, home).startswith(
            "query-compatible, refresh recommended (chunker_version 1, now 9"
        )
        assert symbols(repo, home) == whole
    assert stands(repo, home).startswith("query-compatible, refresh recommended (chunker_version 9, now 1")
    assert indexed(repo, "--force") == 0
    assert stands(repo, home) == "compatible"


def test_a_snapshot_that_could_not_be_made_anew(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where HEAD's tree cannot be read, `--force` vouches for nothing it did not make."""
    indexed(repo)
    change(monkeypatch, "CHUNKER_VERSION")
    tree = repo.git("rev-parse", "HEAD^{tree}")
    (repo.path / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    assert indexed(repo, "--force") == 0
    verdict = of_path(repo.path, home)[1].verdict
    assert verdict is not None and verdict.status is Status.NEEDS_REFRESH


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def symbols(repo: Repo, home: Path) -> int:
    with database.reading(place(repo, home)) as connection:
        return int(connection.execute("SELECT count(*) FROM head_symbols").fetchall()[0][0])
