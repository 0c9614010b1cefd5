"""`lineage index --encoder`: an index is asked with what made it, and never mixes the two."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline import component_versions
from pipeline.encoders.base import EMBEDDING_MODEL, STATIC_MODEL
from pipeline.encoders.cross_encoder import CROSS_ENCODER
from pipeline.options import Encoding
from serve.api_types import FindRequest
from serve.engine import Engine
from serve.index_status import of_path
from stores import database, locks
from stores.locks import Deadline
from tests.pipeline.histories import interleaved, place
from tests.repos import Repo
from tests.serve.commands import indexed, lineage
from tests.serve.sample_index import WordEncoder


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    monkeypatch.setattr(
        "pipeline.encoders.base.OnnxEncoder.encode", lambda _, texts: WordEncoder().encode(texts)
    )
    return interleaved(tmp_path / "repo", rounds=1)


def recorded(repo: Repo, home: Path) -> str:
    with database.reading(place(repo, home)) as connection:
        [(model,)] = connection.execute(
            "SELECT version FROM metadata WHERE component = 'embedding_model'"
        ).fetchall()
    return str(model)


def loaded(engine: Engine) -> tuple[str, ...]:
    return engine.models.loaded


def stands(repo: Repo, home: Path) -> tuple[Encoding, str]:
    _, standing = of_path(repo.path, home)
    return standing.encoding, str(standing.verdict)


def test_the_usual_one(repo: Repo, home: Path) -> None:
    """Without the flag, the sentence encoder."""
    assert indexed(repo) == 0
    assert recorded(repo, home) == EMBEDDING_MODEL
    assert stands(repo, home) == (Encoding.MINILM, "compatible")


def test_the_table(repo: Repo, home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Recorded as embedding model, compatible, asked with the table, and gone on with by runs that do not name it."""
    assert indexed(repo, "--encoder", "static") == 0
    assert recorded(repo, home) == STATIC_MODEL
    assert stands(repo, home) == (Encoding.STATIC, "compatible")
    repo.commit_file("pause.py", "def pause():\n    return None\n", "Add a pause between greetings")
    assert indexed(repo, "--incremental") == 0  # as the hooks do it
    assert recorded(repo, home) == STATIC_MODEL
    capfd.readouterr()
    assert lineage("query", repo.path, "-q", "pause between greetings", "--json") == 0
    said = json.loads(capfd.readouterr().out)
    assert said["hits"][0]["commit_message"] == "Add a pause between greetings"
    assert 0.3 < said["hits"][0]["similarity"] <= 1


@pytest.mark.parametrize(("before", "now"), [("minilm", "static"), ("static", "minilm")])
def test_switching(repo: Repo, home: Path, capfd: pytest.CaptureFixture[str], before: str, now: str) -> None:
    """Refused, with the command that does it, and nothing changed; a rebuild keeps the encoder unless told."""
    names = {"minilm": EMBEDDING_MODEL, "static": STATIC_MODEL}
    indexed(repo, "--encoder", before)
    capfd.readouterr()
    assert indexed(repo, "--encoder", now) == 1
    said = capfd.readouterr().err
    assert f"needs rebuild (embedding_model {names[before]}, now {names[now]})" in said
    assert f"lineage index --rebuild --yes --encoder {now}" in said
    assert stands(repo, home) == (Encoding(before), "compatible")
    assert lineage("query", repo.path, "-q", "greet") == 0
    assert indexed(repo, "--rebuild", "--yes") == 0
    assert recorded(repo, home) == names[before]
    assert indexed(repo, "--rebuild", "--yes", "--encoder", now) == 0
    assert recorded(repo, home) == names[now]
    assert stands(repo, home) == (Encoding(now), "compatible")


def test_another_version_of_the_table(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """An index of an older table asks for a rebuild, which makes it with the newer one."""
    indexed(repo, "--encoder", "static")
    monkeypatch.setattr(component_versions, "STATIC_MODEL", "static/next")
    assert stands(repo, home)[1].startswith(f"needs rebuild (embedding_model {STATIC_MODEL}, now static/next")
    capfd.readouterr()
    assert indexed(repo) == 1
    assert f"Run `lineage index --rebuild --yes {repo.path}`." in capfd.readouterr().err
    assert indexed(repo, "--rebuild", "--yes") == 0
    assert stands(repo, home) == (Encoding.STATIC, "compatible")


@pytest.mark.parametrize("provider", ["cuda", "coreml"])
def test_a_table_needs_no_accelerator(
    repo: Repo, home: Path, capfd: pytest.CaptureFixture[str], provider: str
) -> None:
    """Naming one is an error, before anything is made."""
    assert indexed(repo, "--encoder", "static", "--embed-provider", provider) == 2
    assert f"--embed-provider {provider} does not run the encoder static" in capfd.readouterr().err
    assert not home.exists() or not list(home.glob("*/index.duckdb"))


def test_one_process_asks_both(repo: Repo, tmp_path: Path, home: Path) -> None:
    """What a daemon holds: for each index the encoder that made it, loaded when it is first asked, let go together."""
    other = interleaved(tmp_path / "other", rounds=1)
    indexed(repo, "--encoder", "static")
    indexed(other)
    engine = Engine(home)
    assert loaded(engine) == ()
    for path in (repo.path, other.path):
        assert engine.find(FindRequest("greet"), path).hits
    assert loaded(engine) == (STATIC_MODEL, EMBEDDING_MODEL, f"{CROSS_ENCODER}/full")
    engine.let_go()
    assert loaded(engine) == ()


def test_an_unreadable_index_is_told_of_before_it_is_made_anew(
    repo: Repo, home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A rebuild that cannot know which encoder there was says so, and takes the usual."""
    assert indexed(repo, "--encoder", "static") == 0
    place(repo, home).database.write_bytes(b"no database")
    assert indexed(repo, "--rebuild", "--yes") == 0
    assert "What the index was made with cannot be read" in capfd.readouterr().err
    assert recorded(repo, home) == EMBEDDING_MODEL


def test_a_busy_index_keeps_its_encoder(repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebuild that meets an index in use waits and then leaves it, instead of guessing what it was made with."""
    assert indexed(repo, "--encoder", "static") == 0
    reading = database.reading
    with monkeypatch.context() as patch:
        patch.setattr(database, "reading", lambda here, **_: reading(here, wait=0.1))
        with locks.entered(place(repo, home).folder, exclusive=True, deadline=Deadline.after(1)):
            assert indexed(repo, "--rebuild", "--yes") == 1
    assert recorded(repo, home) == STATIC_MODEL
