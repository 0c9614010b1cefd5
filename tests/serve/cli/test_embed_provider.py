"""`lineage index --embed-provider`: selection of the hardware and errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pipeline.encoders import base, providers
from pipeline.encoders.base import Encoder
from pipeline.encoders.providers import AcceleratedEncoder, ProviderUnavailable
from stores import database
from tests.pipeline.histories import create_interleaved_repo, get_location
from tests.repos import Repo
from tests.serve.commands import run_lineage

CUDA = "CUDA_VISIBLE_DEVICES"
CREATE_ENCODER = providers.create_encoder
INSTALL = "pip install 'history-lineage[cuda]'"


@pytest.fixture
def repo(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """Repository with an index home; CUDA_VISIBLE_DEVICES is unset."""
    monkeypatch.delenv(CUDA, raising=False)
    assert not home.exists()
    return create_interleaved_repo(tmp_path / "repo", rounds=1)


def load_vectors(repo: Repo, home: Path) -> tuple[str, np.ndarray]:
    """Return the recorded embedding model and the vectors in the order of their digests."""
    with database.open_for_reading(get_location(repo, home)) as connection:
        rows = connection.execute("SELECT codes, scale FROM vectors ORDER BY text_digest").fetchall()
        [(model,)] = connection.execute(
            "SELECT version FROM metadata WHERE component = 'embedding_model'"
        ).fetchall()
    return model, np.array([np.array(codes) * scale for codes, scale in rows], np.float32)


def create_cpu_encoder(_provider: str, home: Path) -> object:
    """Create the accelerator's encoder on the CPU."""
    return AcceleratedEncoder("cpu", home)


def create_cpu_encoder_only(provider: str, home: Path) -> Encoder:
    """Create an encoder as on a machine whose accelerator does not start."""
    if provider != "cpu":
        raise ProviderUnavailable(f"{provider} does not start.", hint="Install its driver.")
    return CREATE_ENCODER(provider, home)


@pytest.mark.parametrize("devices", [None, "", "-1"])
def test_auto_without_devices_uses_the_cpu(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch, devices: str
) -> None:
    """Without an accelerator, or with all CUDA devices hidden, `auto` embeds on the CPU."""
    if devices is not None:
        monkeypatch.setenv(CUDA, devices)
    assert run_lineage("index", repo.path, "--embed-provider", "auto") == 0
    assert not (home / "models").exists()


@pytest.mark.skipif("cuda" in providers.list_built_in_providers(), reason="this build has it")
def test_missing_cuda_is_an_error(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If cuda is requested, a build without it fails and says what to install."""
    monkeypatch.setenv(CUDA, "0")
    assert run_lineage("index", repo.path, "--embed-provider", "cuda") == 1
    assert INSTALL in (error := capsys.readouterr().err) and "--embed-provider cpu" in error
    assert not get_location(repo, home).database.exists()


@pytest.mark.skipif("cuda" in providers.list_built_in_providers(), reason="this build has it")
@pytest.mark.parametrize("devices", ["0", "NoDevFiles"])
@pytest.mark.parametrize("is_built_in", [False, True])
def test_auto_falls_back_to_the_cpu(
    repo: Repo,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    devices: str,
    is_built_in: bool,
) -> None:
    """If CUDA devices are named but CUDA does not run, `auto` embeds on the CPU and gives the reason once."""
    monkeypatch.setenv(CUDA, devices)
    if is_built_in:  # the build has cuda and only the session fails
        monkeypatch.setattr(providers, "list_built_in_providers", lambda: frozenset({"cpu", "cuda"}))
        monkeypatch.setattr(providers, "check_built_in", lambda _: None)
        monkeypatch.setattr(providers, "create_encoder", create_cpu_encoder_only)
    assert run_lineage("index", repo.path) == 0
    assert capsys.readouterr().err.count("Embedding on the CPU.") == 1
    assert len(load_vectors(repo, home)[1])


@pytest.mark.skipif("cuda" in providers.list_built_in_providers(), reason="this build has it")
def test_rebuild_with_missing_provider_deletes_nothing(repo: Repo, home: Path) -> None:
    """A missing provider is detected before a rebuild deletes the old index."""
    assert run_lineage("index", repo.path) == 0
    before = load_vectors(repo, home)[1]
    assert run_lineage("index", repo.path, "--rebuild", "--yes", "--embed-provider", "cuda") == 1
    assert (load_vectors(repo, home)[1] == before).all()


@pytest.mark.skipif("coreml" in providers.list_built_in_providers(), reason="this build has it")
def test_coreml_requires_macos(repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    """On other systems, the error for coreml names macOS."""
    assert run_lineage("index", repo.path, "--embed-provider", "coreml") == 1
    assert "CoreML comes with ONNX Runtime for macOS" in capsys.readouterr().err


def test_cpu_ignores_named_devices(repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`cpu` embeds on the CPU, even if CUDA_VISIBLE_DEVICES names devices."""
    monkeypatch.setenv(CUDA, "0")
    assert run_lineage("index", repo.path, "--embed-provider", "cpu") == 0
    assert not (home / "models").exists()


def test_queries_embed_on_the_cpu(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Queries need no accelerator, whether or not devices are named."""
    assert run_lineage("index", repo.path, "--embed-provider", "cpu") == 0
    capsys.readouterr()
    monkeypatch.setenv(CUDA, "0")
    assert run_lineage("query", repo.path, "--query", "a function", "--no-rerank") == 0
    assert '"hits"' in capsys.readouterr().out


@pytest.mark.parametrize("provider", ["cuda", "coreml"])
def test_providers_share_vector_space(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], provider: str
) -> None:
    """With an accelerator, an index has the same texts and model name as with the CPU, and similar vectors."""
    assert run_lineage("index", repo.path, "--embed-provider", "cpu") == 0
    cpu_vectors = load_vectors(repo, home)
    create_encoder: Callable[[str, Path], object] = create_cpu_encoder
    monkeypatch.setattr(providers, "create_encoder", create_encoder)
    monkeypatch.setattr(providers, "check_built_in", lambda _: None)
    assert run_lineage("index", repo.path, "--rebuild", "--yes", "--embed-provider", provider) == 0
    accelerator_vectors = load_vectors(repo, home)
    assert cpu_vectors[0] == accelerator_vectors[0] == base.EMBEDDING_MODEL
    assert (cpu_vectors[1] * accelerator_vectors[1]).sum(1).mean() >= 0.99
    assert (home / "models" / "minilm-fp32.onnx").exists()
    capsys.readouterr()
    assert run_lineage("status", repo.path) == 0
    assert "compatibility: compatible" in capsys.readouterr().out
