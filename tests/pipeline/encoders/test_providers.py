"""Choice of the execution provider, and the FP32 encoder: agreement with the CPU encoder, model file, batch shapes.

The tests of the encoder run the same model file as CUDA and CoreML, on the CPU.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.encoders import onnx_graph, providers
from pipeline.encoders.base import MAX_TOKENS, OnnxEncoder, load_tokenizer
from pipeline.encoders.providers import (
    AcceleratedEncoder,
    BatchShape,
    ProviderUnavailable,
    check_built_in,
    choose_provider,
    create_encoder,
)
from tests.pipeline.encoders.test_base import REFERENCE, load_fp32_vectors

Floats = NDArray[np.float32]

ROOT: Final = Path(__file__).parents[3]
TEXT_COUNT: Final = 10


@pytest.mark.parametrize("requested", ["cpu", "coreml", "cuda"])
@pytest.mark.parametrize("has_cuda_devices", [False, True])
def test_a_named_provider_is_chosen(requested: str, has_cuda_devices: bool) -> None:
    """A provider given by name is chosen with and without CUDA devices."""
    assert choose_provider(requested, has_cuda_devices=has_cuda_devices) == requested


@pytest.mark.parametrize(
    ("platform", "built_in", "has_cuda_devices", "provider"),
    [
        ("linux", {"cpu"}, False, "cpu"),
        ("linux", {"cpu", "cuda"}, False, "cpu"),
        ("linux", {"cpu"}, True, "cuda"),
        ("darwin", {"cpu", "coreml"}, False, "coreml"),
        ("darwin", {"cpu"}, False, "cpu"),
        ("darwin", {"cpu", "coreml"}, True, "cuda"),
        ("linux", {"cpu", "coreml"}, False, "cpu"),
    ],
)
def test_auto(
    monkeypatch: pytest.MonkeyPatch, platform: str, built_in: set[str], has_cuda_devices: bool, provider: str
) -> None:
    """`auto` is cuda if CUDA devices are set, else coreml on a macOS build that has it, else the CPU."""
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(providers, "list_built_in_providers", lambda: frozenset(built_in))
    assert choose_provider("auto", has_cuda_devices=has_cuda_devices) == provider


def test_the_cpu_is_always_available() -> None:
    """Every build runs on the CPU."""
    assert "cpu" in providers.list_built_in_providers()
    check_built_in("cpu")


def test_the_cpu_error_needs_no_hint() -> None:
    """An error of the CPU provider has no hint, because there is no alternative to it."""
    assert (
        str(providers._build_unavailable_error("cpu", "x")) == "ONNX Runtime cannot run the encoder on cpu: x"
    )


@pytest.mark.skipif("cuda" in providers.list_built_in_providers(), reason="this build has it")
def test_the_error_has_an_installation_hint() -> None:
    """The error for cuda names the extra, and how to replace the package that shares its directory."""
    with pytest.raises(ProviderUnavailable) as error:
        check_built_in("cuda")
    text = str(error.value)
    assert "built without cuda" in text and "pip install 'history-lineage[cuda]'" in text
    assert "pip uninstall --yes onnxruntime" in text and "--embed-provider cpu" in text


@pytest.mark.skipif("cuda" in providers.list_built_in_providers(), reason="this build has it")
def test_a_fallback_to_the_cpu_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A build that claims a provider but runs on the CPU raises an error, and the runtime prints nothing."""
    monkeypatch.setattr(providers, "check_built_in", lambda _: None)
    model = providers.ensure_fp32_model(tmp_path)
    with pytest.warns(UserWarning, match="not in available"), pytest.raises(ProviderUnavailable) as error:
        providers.create_provider_session("cuda", model, dimensions={})
    assert str(error.value).startswith("ONNX Runtime cannot run the encoder on cuda: ")
    assert capfd.readouterr() == ("", "")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def encoder(home: Path) -> AcceleratedEncoder:
    return AcceleratedEncoder("cpu", home)


@pytest.fixture(scope="module")
def texts() -> list[str]:
    with np.load(REFERENCE) as reference:
        recorded: list[str] = json.loads(reference["texts"].tobytes())
    return recorded[:TEXT_COUNT]


@pytest.fixture(scope="module")
def vectors(encoder: AcceleratedEncoder, texts: list[str]) -> Floats:
    return encoder.encode(texts)


def test_vectors_agree_with_the_cpu_encoder(vectors: Floats, texts: list[str]) -> None:
    """Over real hunks the mean cosine to the bundled encoder and to the original weights is at least 0.99."""
    tokenizer = load_tokenizer()
    # The reference vectors are of more tokens.
    is_whole = [len(tokenizer.encode(text).ids) < MAX_TOKENS for text in texts]
    assert sum(is_whole) >= TEXT_COUNT / 2
    for reference, rows in (
        (OnnxEncoder().encode(texts), vectors),
        (load_fp32_vectors()[:TEXT_COUNT][is_whole], vectors[is_whole]),
    ):
        cosines = (rows * reference).sum(1)
        assert cosines.mean() >= 0.99
        assert cosines.min() >= 0.98


def test_rows_are_unit_vectors(encoder: AcceleratedEncoder, vectors: Floats) -> None:
    """Vectors are float32 of length 1 in the order of the texts; without texts the array is empty."""
    assert vectors.dtype == np.dtype(np.float32)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
    assert encoder.encode([]).shape == (0, encoder.dimension)


def test_any_text_has_a_vector(encoder: AcceleratedEncoder) -> None:
    """Empty, undecodable and very long texts have a unit vector."""
    rows = encoder.encode(["", "\udc80 typed in latin-1", "日本語 🎉", "x" * 10**6, "commit " * 300])
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("shape", [BatchShape(64, 32), BatchShape(1, 1), BatchShape(2, 256, is_fixed=True)])
def test_batch_shapes_do_not_change_vectors(
    home: Path, monkeypatch: pytest.MonkeyPatch, texts: list[str], vectors: Floats, shape: BatchShape
) -> None:
    """A text's vector is the same in every batch shape, except for rounding."""
    monkeypatch.setitem(providers.BATCH_SHAPES, "cpu", shape)
    rows = AcceleratedEncoder("cpu", home).encode(texts[:5])
    assert np.abs(rows - vectors[:5]).max() < 1e-5


def test_the_model_name_does_not_depend_on_the_provider(encoder: AcceleratedEncoder) -> None:
    """Both encoders have the same name and dimension; the CPU uses the bundled encoder."""
    assert (encoder.name, encoder.dimension) == (OnnxEncoder.name, OnnxEncoder.dimension)
    assert isinstance(create_encoder("cpu", Path("nowhere")), OnnxEncoder)


def test_the_session_uses_the_requested_provider(encoder: AcceleratedEncoder) -> None:
    """The runtime's first provider is the requested one."""
    assert encoder._session.get_providers()[0] == "CPUExecutionProvider"


def test_the_fp32_model_has_the_recorded_digest() -> None:
    """The FP32 model is the same to the byte on every machine."""
    assert (
        hashlib.sha256(onnx_graph.build_fp32_model(onnx_graph.read_encoder_weights())).hexdigest()
        == providers.FP32_SHA256
    )


def test_a_damaged_fp32_model_is_rebuilt(tmp_path: Path) -> None:
    """An intact file is left alone, a damaged one is rebuilt; only its owner can read it."""
    file = providers.ensure_fp32_model(tmp_path / "home")
    created = file.stat()
    assert created.st_mode & 0o777 == 0o600 and file.parent.stat().st_mode & 0o777 == 0o700
    assert providers.ensure_fp32_model(tmp_path / "home").stat().st_ino == created.st_ino
    with file.open("r+b") as stream:
        stream.seek(1_000_000)
        stream.write(b"damage")
    assert providers.ensure_fp32_model(tmp_path / "home").stat().st_ino != created.st_ino
    assert providers._is_intact(file)
    assert {entry.name for entry in file.parent.iterdir()} == {providers.FP32_FILE, providers.BUILD_LOCK}


def test_a_killed_build_leaves_no_partial_file(tmp_path: Path) -> None:
    """After a kill before the last step there is no model file, and the next call builds it."""
    program = (
        "import os; from pathlib import Path; from pipeline.encoders import providers\n"
        "providers.os.fsync = lambda _: os._exit(9)\n"
        f"providers.ensure_fp32_model(Path({str(tmp_path)!r}))"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 9
    assert not (tmp_path / providers.FP32_DIRECTORY / providers.FP32_FILE).exists()
    assert providers.ensure_fp32_model(tmp_path).exists()
    assert {entry.name for entry in (tmp_path / providers.FP32_DIRECTORY).iterdir()} == {
        providers.FP32_FILE,
        providers.BUILD_LOCK,
    }


def test_importing_loads_no_heavy_library() -> None:
    """Importing the module loads neither the runtime, the tokenizer nor numpy."""
    program = (
        "import sys; import pipeline.encoders.providers\n"
        "print(sorted({'onnxruntime', 'tokenizers', 'numpy'} & sys.modules.keys()))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout == "[]\n"
