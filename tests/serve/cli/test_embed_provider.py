"""`lineage index --embed-provider`: each row of what the specification says of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pipeline.encoders import accelerated, base, providers
from pipeline.encoders.accelerated import AcceleratedEncoder
from stores import database
from tests.pipeline.histories import interleaved, place
from tests.repos import Repo
from tests.serve.commands import lineage

CUDA = "CUDA_VISIBLE_DEVICES"
INSTALL = "pip install 'history-lineage[cuda]'"


@pytest.fixture
def repo(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    monkeypatch.delenv(CUDA, raising=False)
    assert not home.exists()
    return interleaved(tmp_path / "repo", rounds=1)


def stored(repo: Repo, home: Path) -> tuple[str, np.ndarray]:
    """The embedding model that is recorded, and the vectors in the order of their digests."""
    with database.reading(place(repo, home)) as connection:
        rows = connection.execute("SELECT embedding FROM vectors ORDER BY text_digest").fetchall()
        [(model,)] = connection.execute(
            "SELECT version FROM metadata WHERE component = 'embedding_model'"
        ).fetchall()
    return model, np.array([row[0] for row in rows], np.float32)


def elsewhere(_provider: str, _threads: int, home: Path) -> object:
    """What an accelerator would run, on the CPU that the machine has."""
    return AcceleratedEncoder("cpu", home)


@pytest.mark.parametrize("devices", [None, "", "-1"])
def test_auto_without_devices(repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch, devices: str) -> None:
    """Without an accelerator, or with CUDA told to hide all devices, `auto` embeds on the CPU."""
    if devices is not None:
        monkeypatch.setenv(CUDA, devices)
    assert lineage("index", repo.path, "--embed-provider", "auto") == 0
    assert not (home / "models").exists()


@pytest.mark.skipif("cuda" in providers.built_in(), reason="this build has it")
@pytest.mark.parametrize("flags", [[], ["--embed-provider", "auto"], ["--embed-provider", "cuda"]])
def test_cuda_is_not_passed_over(
    repo: Repo,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    flags: list[str],
) -> None:
    """Where devices are named, and where cuda is, a build without it fails and says what to install."""
    monkeypatch.setenv(CUDA, "0")
    assert lineage("index", repo.path, *flags) == 1
    assert INSTALL in (said := capsys.readouterr().err) and "--embed-provider cpu" in said
    assert not place(repo, home).database.exists()


@pytest.mark.skipif("cuda" in providers.built_in(), reason="this build has it")
def test_a_refused_rebuild_deletes_nothing(repo: Repo, home: Path) -> None:
    """A provider that cannot run is found out before the old index goes."""
    assert lineage("index", repo.path) == 0
    before = stored(repo, home)[1]
    assert lineage("index", repo.path, "--rebuild", "--yes", "--embed-provider", "cuda") == 1
    assert (stored(repo, home)[1] == before).all()


@pytest.mark.skipif("coreml" in providers.built_in(), reason="this build has it")
def test_coreml_is_of_macos(repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    """Asked for coreml, another system's build says whose it is."""
    assert lineage("index", repo.path, "--embed-provider", "coreml") == 1
    assert "CoreML comes with macOS builds" in capsys.readouterr().err


def test_cpu_with_devices_named(repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`cpu` is the CPU, whatever the environment says of devices."""
    monkeypatch.setenv(CUDA, "0")
    assert lineage("index", repo.path, "--embed-provider", "cpu") == 0
    assert not (home / "models").exists()


def test_queries_embed_on_the_cpu(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A question needs no accelerator: it is asked of an index of any provider with devices named or not."""
    assert lineage("index", repo.path, "--embed-provider", "cpu") == 0
    capsys.readouterr()
    monkeypatch.setenv(CUDA, "0")
    assert lineage("query", repo.path, "--query", "a function", "--no-rerank") == 0
    assert '"hits"' in capsys.readouterr().out


@pytest.mark.parametrize("provider", ["cuda", "coreml"])
def test_one_vector_space(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], provider: str
) -> None:
    """An accelerator's index has the same texts, near vectors, and the same embedding model on record."""
    assert lineage("index", repo.path, "--embed-provider", "cpu") == 0
    ours = stored(repo, home)
    made: Callable[[str, int, Path], object] = elsewhere
    monkeypatch.setattr(accelerated, "encoder_for", made)
    monkeypatch.setattr(providers, "check", lambda _: None)
    assert lineage("index", repo.path, "--rebuild", "--yes", "--embed-provider", provider) == 0
    theirs = stored(repo, home)
    assert ours[0] == theirs[0] == base.EMBEDDING_MODEL
    assert (ours[1] * theirs[1]).sum(1).mean() >= 0.99
    assert (home / "models" / "minilm-fp32.onnx").exists()
    capsys.readouterr()
    assert lineage("status", repo.path) == 0
    assert "compatibility: compatible" in capsys.readouterr().out
