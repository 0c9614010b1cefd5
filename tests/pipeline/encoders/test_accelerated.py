"""The unquantized encoder: the bundled one's space, whole files, and shapes that change nothing.

What is run here is the very file that CUDA and CoreML run, on the CPU.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

from pipeline.encoders import accelerated, onnx_graph
from pipeline.encoders.accelerated import AcceleratedEncoder, Shape, encoder_for
from pipeline.encoders.base import OnnxEncoder
from tests.pipeline.encoders.test_base import REFERENCE, fp32_vectors

Floats = NDArray[np.float32]

ROOT: Final = Path(__file__).parents[3]
SOME: Final = 150


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
    return recorded[:SOME]


@pytest.fixture(scope="module")
def vectors(encoder: AcceleratedEncoder, texts: list[str]) -> Floats:
    return encoder.encode(texts)


def test_one_space(vectors: Floats, texts: list[str]) -> None:
    """Over real hunks the mean cosine to the bundled encoder and to the model's own weights is at least 0.99."""
    for others in (OnnxEncoder().encode(texts), fp32_vectors()[:SOME]):
        cosines = (vectors * others).sum(1)
        assert cosines.mean() >= 0.99
        assert cosines.min() >= 0.98


def test_rows_are_unit_vectors(encoder: AcceleratedEncoder, vectors: Floats) -> None:
    """Rows are 32-bit floats of length 1 in the order of their texts; no text gives no row."""
    assert vectors.dtype == np.dtype(np.float32)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
    assert encoder.encode([]).shape == (0, encoder.dimension)


def test_any_text_has_a_vector(encoder: AcceleratedEncoder) -> None:
    """Empty, undecodable or endless: every text gets a unit vector, beside any other."""
    rows = encoder.encode(["", "\udc80 typed in latin-1", "日本語 🎉", "x" * 10**6, "commit " * 300])
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("shape", [Shape(64, 32), Shape(1, 1), Shape(8, 256, fixed=True)])
def test_shapes_change_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch, texts: list[str], vectors: Floats, shape: Shape
) -> None:
    """Alone, beside others, or in a run of one fixed shape: a text keeps its vector, but for rounding."""
    monkeypatch.setitem(accelerated.SHAPES, "cpu", shape)
    rows = AcceleratedEncoder("cpu", home).encode(texts[:11])
    assert np.abs(rows - vectors[:11]).max() < 1e-5


def test_one_model_whatever_runs_it(encoder: AcceleratedEncoder) -> None:
    """An index records one embedding model, and the CPU's encoder is the bundled one."""
    assert (encoder.name, encoder.dimension) == (OnnxEncoder.name, OnnxEncoder.dimension)
    assert isinstance(encoder_for("cpu", 1, Path("nowhere")), OnnxEncoder)


def test_the_session_runs_where_it_was_asked_to(encoder: AcceleratedEncoder) -> None:
    """The provider that the runtime assigned is the one that was asked for."""
    assert encoder._session.get_providers()[0] == "CPUExecutionProvider"


def test_the_digest_stands_for_the_file() -> None:
    """What is made of the bundled encoder is what the digest says; and so it is whole to the byte."""
    assert hashlib.sha256(onnx_graph.made()).hexdigest() == accelerated.DIGEST


def test_kept_and_made_again(tmp_path: Path) -> None:
    """A file that is there is left alone; a damaged one is made again; it is its owner's alone."""
    file = accelerated.kept(tmp_path / "home")
    made = file.stat()
    assert made.st_mode & 0o777 == 0o600 and file.parent.stat().st_mode & 0o777 == 0o700
    assert accelerated.kept(tmp_path / "home").stat().st_ino == made.st_ino
    with file.open("r+b") as opened:
        opened.seek(1_000_000)
        opened.write(b"damage")
    assert accelerated.kept(tmp_path / "home").stat().st_ino != made.st_ino
    assert accelerated._is_whole(file)
    assert {one.name for one in file.parent.iterdir()} == {accelerated.NAME, accelerated.LOCK}


def test_a_killed_making_leaves_nothing_half_done(tmp_path: Path) -> None:
    """Killed before its last step, it leaves no file under the name, and the next one makes it."""
    program = (
        "import os; from pathlib import Path; from pipeline.encoders import accelerated\n"
        "accelerated.os.fsync = lambda _: os._exit(9)\n"
        f"accelerated.kept(Path({str(tmp_path)!r}))"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 9
    assert not (tmp_path / accelerated.FOLDER / accelerated.NAME).exists()
    assert accelerated.kept(tmp_path).exists()
    assert {one.name for one in (tmp_path / accelerated.FOLDER).iterdir()} == {
        accelerated.NAME,
        accelerated.LOCK,
    }


def test_the_bundled_file_is_read_as_the_runtime_reads_it() -> None:
    """Every tensor's shape and bytes are there: what is written is read back, and runs."""
    tensors = onnx_graph.constants(onnx_graph.BUNDLED.read_bytes())
    assert tensors["words"].shape == (30_522, 384) and tensors["positions"].dtype == np.float32
    double = np.array([[2.0, 0.5], [-1.0, 3.0]], np.float32)
    node = onnx_graph.Node("MatMul", ("x", "double"), "y", {})
    model = onnx_graph.model(
        "tiny", [node], {"double": double}, inputs={"x": ("n", 2)}, outputs={"y": ("n", 2)}, opset=17
    )
    assert (onnx_graph.constants(model)["double"] == double).all()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    given = np.array([[1.0, 1.0]], np.float32)
    assert session.run(None, {"x": given})[0].tolist() == (given @ double).tolist()


def test_the_door_is_light() -> None:
    """Importing it loads neither the runtime, the tokenizer nor numpy."""
    program = (
        "import sys; import pipeline.encoders.accelerated\n"
        "print(sorted({'onnxruntime', 'tokenizers', 'numpy'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
