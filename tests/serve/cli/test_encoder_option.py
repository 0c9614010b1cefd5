"""`lineage index --encoder`: queries use the index's encoder, and an index never mixes two."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline import component_versions
from pipeline.encoders.base import EMBEDDING_MODEL, STATIC_MODEL
from pipeline.encoders.cross_encoder import CROSS_ENCODER
from pipeline.options import EncoderName
from serve.backend import Engine
from serve.find_types import FindRequest
from serve.index_status import load_status_at_path
from stores import database, locks
from stores.locks import Deadline
from tests.pipeline.histories import create_interleaved_repo, get_location
from tests.repos import Repo
from tests.serve.commands import run_index, run_lineage
from tests.serve.sample_index import WordEncoder


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """Repository with 17 commits, embedded by a simple computation."""
    monkeypatch.setattr(
        "pipeline.encoders.base.OnnxEncoder.encode", lambda _, texts: WordEncoder().encode(texts)
    )
    return create_interleaved_repo(tmp_path / "repo", rounds=1)


def load_recorded_model(repo: Repo, home: Path) -> str:
    """Return the embedding model recorded in the index."""
    with database.open_for_reading(get_location(repo, home)) as connection:
        [(model,)] = connection.execute(
            "SELECT version FROM metadata WHERE component = 'embedding_model'"
        ).fetchall()
    return str(model)


def list_loaded_models(engine: Engine) -> tuple[str, ...]:
    """Return the names of the models that the engine has loaded."""
    return engine.models.names


def load_encoder_and_verdict(repo: Repo, home: Path) -> tuple[EncoderName, str]:
    """Return the encoder of the index and its compatibility verdict."""
    _, index_status = load_status_at_path(repo.path, home)
    return index_status.encoder_name, str(index_status.verdict)


def test_default_encoder(repo: Repo, home: Path) -> None:
    """Without the option, the sentence encoder is used."""
    assert run_index(repo) == 0
    assert load_recorded_model(repo, home) == EMBEDDING_MODEL
    assert load_encoder_and_verdict(repo, home) == (EncoderName.MINILM, "compatible")


def test_static_encoder(repo: Repo, home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The static encoder is recorded, compatible, used for queries, and kept by later runs without the option."""
    assert run_index(repo, "--encoder", "static") == 0
    assert load_recorded_model(repo, home) == STATIC_MODEL
    assert load_encoder_and_verdict(repo, home) == (EncoderName.STATIC, "compatible")
    repo.commit_file("pause.py", "def pause():\n    return None\n", "Add a pause between greetings")
    assert run_index(repo, "--incremental") == 0  # as in the hooks, without the option
    assert load_recorded_model(repo, home) == STATIC_MODEL
    capfd.readouterr()
    assert run_lineage("query", repo.path, "-q", "pause between greetings", "--json") == 0
    answer = json.loads(capfd.readouterr().out)
    assert answer["hits"][0]["commit_message"] == "Add a pause between greetings"
    assert 0.3 < answer["hits"][0]["similarity"] <= 1


@pytest.mark.parametrize(("before", "now"), [("minilm", "static"), ("static", "minilm")])
def test_switching_requires_rebuild(
    repo: Repo, home: Path, capfd: pytest.CaptureFixture[str], before: str, now: str
) -> None:
    """A switch is refused with the command that makes it. A later rebuild without the option keeps the encoder."""
    names = {"minilm": EMBEDDING_MODEL, "static": STATIC_MODEL}
    run_index(repo, "--encoder", before)
    capfd.readouterr()
    for flags in ([], ["--incremental"]):
        assert run_index(repo, *flags, "--encoder", now) == 1
        error = capfd.readouterr().err
        assert f"needs rebuild (embedding_model {names[before]}, now {names[now]})" in error
        assert f"lineage index --rebuild --yes --encoder {now}" in error
    assert load_encoder_and_verdict(repo, home) == (EncoderName(before), "compatible")
    assert run_lineage("query", repo.path, "-q", "greet") == 0
    assert run_index(repo, "--rebuild", "--yes") == 0
    assert load_recorded_model(repo, home) == names[before]
    assert run_index(repo, "--rebuild", "--yes", "--encoder", now) == 0
    assert load_recorded_model(repo, home) == names[now]
    assert load_encoder_and_verdict(repo, home) == (EncoderName(now), "compatible")


def test_new_static_version_requires_rebuild(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """An index that was made with an older word table requires a rebuild, which uses the new table."""
    run_index(repo, "--encoder", "static")
    monkeypatch.setattr(component_versions, "STATIC_MODEL", "static/next")
    assert load_encoder_and_verdict(repo, home)[1].startswith(
        f"needs rebuild (embedding_model {STATIC_MODEL}, now static/next"
    )
    capfd.readouterr()
    assert run_index(repo) == 1
    assert f"Run `lineage index --rebuild --yes {repo.path}`." in capfd.readouterr().err
    assert run_index(repo, "--rebuild", "--yes") == 0
    assert load_encoder_and_verdict(repo, home) == (EncoderName.STATIC, "compatible")


@pytest.mark.parametrize("provider", ["cuda", "coreml"])
def test_static_encoder_refuses_accelerator(
    repo: Repo, home: Path, capfd: pytest.CaptureFixture[str], provider: str
) -> None:
    """Naming an accelerator for the static encoder is an error before anything is created."""
    assert run_index(repo, "--encoder", "static", "--embed-provider", provider) == 2
    assert f"--embed-provider {provider} cannot run the encoder static" in capfd.readouterr().err
    assert not home.exists() or not list(home.glob("*/index.duckdb"))


def test_one_process_uses_both_encoders(repo: Repo, tmp_path: Path, home: Path) -> None:
    """An engine loads the encoder of an index at the first query of this index, and unloads all encoders together."""
    other = create_interleaved_repo(tmp_path / "other", rounds=1)
    run_index(repo, "--encoder", "static")
    run_index(other)
    engine = Engine(home)
    assert list_loaded_models(engine) == ()
    for path in (repo.path, other.path):
        assert engine.find(FindRequest("greet"), path).hits
    assert list_loaded_models(engine) == (STATIC_MODEL, EMBEDDING_MODEL, f"{CROSS_ENCODER}/full")
    engine.unload()
    assert list_loaded_models(engine) == ()


def test_rebuild_of_unreadable_index_warns(repo: Repo, home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A rebuild that cannot read the recorded encoder and branches warns and uses the defaults."""
    assert run_index(repo, "--encoder", "static") == 0
    get_location(repo, home).database.write_bytes(b"no database")
    assert run_index(repo, "--rebuild", "--yes") == 0
    assert (
        "The options recorded in the index cannot be read."
        " Rebuilding it with --encoder minilm --embed-cache off --head-only."
    ) in " ".join(capfd.readouterr().err.split())
    assert load_recorded_model(repo, home) == EMBEDDING_MODEL


def test_busy_index_keeps_its_encoder(repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebuild that finds the index busy waits and then fails, instead of guessing the encoder."""
    assert run_index(repo, "--encoder", "static") == 0
    open_for_reading = database.open_for_reading
    with monkeypatch.context() as patch:
        patch.setattr(database, "open_for_reading", lambda here, **_: open_for_reading(here, wait=0.1))
        with locks.acquire_index(get_location(repo, home).folder, exclusive=True, deadline=Deadline.after(1)):
            assert run_index(repo, "--rebuild", "--yes") == 1
    assert load_recorded_model(repo, home) == STATIC_MODEL
