"""The bundled encoder: deterministic, close to fp32, silent and interruptible."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

from pipeline.encoders import base
from pipeline.encoders.base import (
    EMBEDDING_MODEL,
    MAX_TEXT_CHARACTERS,
    MODELS_DIR,
    OnnxEncoder,
    create_bundled_encoder,
)
from pipeline.options import EncoderName

Floats = NDArray[np.float32]

load_model: Final = base.load_model  # the tests of this process share what it loads

ROOT: Final = Path(__file__).parents[3]
REFERENCE: Final = ROOT / "tests" / "data" / "encoder_reference.npz"
# Number of tokens of a text from which its reference vector was computed.
REFERENCE_TOKENS: Final = 256
# Digests of `minilm.onnx` and `tokenizer.json` by model name. A changed file gives other vectors and needs a new name.
FILE_DIGESTS: Final = {
    "all-MiniLM-L6-v2/int8/4": (
        "e639a92ddcbc3845e10b3459b8978085df2a9564320adfef0603a41a21b356dd",
        "5fd1c882abbd30517dced455a2c9768945ec726b96727927e4959348d9de550b",
    )
}


@pytest.fixture(scope="module")
def encoder() -> OnnxEncoder:
    return OnnxEncoder()


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Sixty hunks of this project's history."""
    with np.load(REFERENCE) as reference:
        recorded: list[str] = json.loads(reference["texts"].tobytes())
    return recorded


def load_fp32_vectors() -> Floats:
    with np.load(REFERENCE) as reference:
        recorded: Floats = reference["vectors"].astype(np.float32)
    recorded /= np.linalg.norm(recorded, axis=1, keepdims=True)
    return recorded


def test_agrees_with_fp32(texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean cosine of hunks to the unquantized model is at least 0.99, the minimum at least 0.98.

    The 60 hunks include those 20 of a sample of 500 that agree least.
    """
    monkeypatch.setattr(base, "load_model", load_model)
    monkeypatch.setattr(base, "MAX_TOKENS", REFERENCE_TOKENS)
    cosines = (OnnxEncoder().encode(texts) * load_fp32_vectors()).sum(1)
    assert len(cosines) == 60
    assert cosines.mean() >= 0.99
    assert cosines.min() >= 0.98


def test_agrees_with_fp32_on_plain_language(encoder: OnnxEncoder) -> None:
    """The cosines of three sentences are close to the unquantized model's."""
    sentences = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    vectors = encoder.encode(sentences)
    unquantized = [[1.0, 0.6821, 0.1811], [0.6821, 1.0, 0.1942], [0.1811, 0.1942, 1.0]]
    assert vectors @ vectors.T == pytest.approx(np.array(unquantized), abs=0.03)


def test_a_change_is_near_its_purpose(encoder: OnnxEncoder) -> None:
    """A change is nearer to its own description than to another change's."""
    descriptions = encoder.encode(
        ["wait no longer than a limit for sockets", "show pages in the reader's language"]
    )
    changes = encoder.encode(
        [
            "def connect(timeout=5):\n    sock.settimeout(timeout)",
            "def render(template, locale):\n    return translated(template, locale)",
        ]
    )
    cosines = descriptions @ changes.T
    assert cosines.diagonal().min() > cosines[[0, 1], [1, 0]].max() + 0.1


def test_a_question_is_near_the_change_that_answers_it(encoder: OnnxEncoder) -> None:
    """Queries have another model, but the same vector space: each question is nearest to the change that answers it."""
    questions = encoder.encode_queries(
        [
            "why does a slow server no longer block us forever?",
            "when did menus start to follow the reader's language?",
            "how do we undo half of a failed write?",
        ]
    )
    changes = encoder.encode(
        [
            "Add a timeout to connections\ndef connect(timeout=5):\n    sock.settimeout(timeout)",
            "Translate templates\ndef render(template, locale):\n    return translated(template, locale)",
            "Roll back on errors\nexcept Exception:\n    connection.rollback()\n    raise",
        ]
    )
    assert (questions @ changes.T).argmax(1).tolist() == [0, 1, 2]
    assert not np.array_equal(encoder.encode_queries(["undo"]), encoder.encode(["undo"]))


def test_a_damaged_query_encoder_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A truncated file of the query encoder is an error that names the file and says what to do."""
    shutil.copytree(MODELS_DIR, tmp_path, dirs_exist_ok=True)
    file = tmp_path / base.QUERY_ENCODER_FILE
    file.write_bytes(file.read_bytes()[:1_000])
    monkeypatch.setattr(base, "MODELS_DIR", tmp_path)
    with pytest.raises(base.DamagedModel, match="Install lineage again") as raised:
        OnnxEncoder().encode_queries(["anything"])
    assert str(file) in str(raised.value)


def test_vectors_are_deterministic(texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A vector is the same to the bit in a new model, among others, in any order and in several threads at once."""
    some = texts[:12]
    with monkeypatch.context() as patch:
        patch.setattr(base, "load_model", load_model)
        alone = np.concatenate([OnnxEncoder().encode([text]) for text in some[:3]])
    encoder = OnnxEncoder()
    in_order = encoder.encode(some)
    shuffled = np.random.default_rng(0).permutation(len(some))
    assert alone.tobytes() == in_order[:3].tobytes()
    with ThreadPoolExecutor(5) as pool:
        vectors = np.concatenate(list(pool.map(encoder.encode, ([some[index]] for index in shuffled))))
    assert vectors.tobytes() == in_order[shuffled].tobytes()


def test_rows_are_unit_vectors(encoder: OnnxEncoder, texts: list[str]) -> None:
    """Vectors are float32 of length 1; without texts the array is empty."""
    rows = encoder.encode(texts[:5])
    assert rows.shape == (5, encoder.dimension)
    assert rows.dtype == np.dtype(np.float32)
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1, abs=1e-5)
    assert encoder.encode([]).shape == (0, encoder.dimension)


@pytest.mark.parametrize(
    "text", ["", " \n", "\x00\x01", "\udc80 typed in latin-1", "日本語 🎉", "[CLS] [PAD]", "x" * 10**7]
)
def test_any_text_has_a_vector(encoder: OnnxEncoder, text: str) -> None:
    """Empty, undecodable and very long texts have a unit vector."""
    assert np.linalg.norm(encoder.encode([text])) == pytest.approx(1, abs=1e-5)


def test_reads_192_tokens(encoder: OnnxEncoder) -> None:
    """Text after the 190 words that fit between the special tokens changes nothing; the last one that fits does."""
    full = ["commit"] * 190
    first, longer, changed = encoder.encode(
        [" ".join(full), " ".join([*full, "parser"]), " ".join([*full[:-1], "parser"])]
    )
    assert first.tobytes() == longer.tobytes()
    assert first.tobytes() != changed.tobytes()
    assert len(" ".join(full)) < MAX_TEXT_CHARACTERS


def test_padding_is_masked() -> None:
    """With its mask, a padded text keeps its direction, except for rounding."""
    session = onnxruntime.InferenceSession(MODELS_DIR / "minilm.onnx", providers=["CPUExecutionProvider"])
    tokens = np.array([[101, 10797, 1996, 11968, 8043, 102] + [0] * 20], np.int64)
    mask = (tokens > 0).astype(np.int64)
    (padded,) = session.run(None, {"input_ids": tokens, "attention_mask": mask})
    (plain,) = session.run(None, {"input_ids": tokens[:, :6], "attention_mask": mask[:, :6]})
    (unmasked,) = session.run(None, {"input_ids": tokens, "attention_mask": np.ones_like(mask)})
    assert (padded * plain).sum() > 0.99 > (unmasked * plain).sum()


def test_the_model_name_belongs_to_its_files() -> None:
    """A changed model or tokenizer file needs a new name."""
    digests = tuple(
        hashlib.sha256((MODELS_DIR / name).read_bytes()).hexdigest()
        for name in ("minilm.onnx", "tokenizer.json")
    )
    assert FILE_DIGESTS[EMBEDDING_MODEL] == digests


def test_unload_frees_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is freed; the next call loads it again and gives the same vectors."""
    monkeypatch.setattr(base, "load_model", load_model)
    encoder = OnnxEncoder()
    encoder.unload()
    before = encoder.encode(["retry", "after a timeout"])
    assert isinstance(encoder._model, base._Model)
    session = weakref.ref(encoder._model.session)
    encoder.unload()
    assert session() is None
    assert encoder.encode(["retry", "after a timeout"]).tobytes() == before.tobytes()


@pytest.mark.parametrize("name", EncoderName)
def test_pickled_encoder_is_shared(name: EncoderName) -> None:
    """A pickled encoder is small; in another process all copies are one encoder, so the model is loaded once."""
    encoder = create_bundled_encoder(name)
    encoder.encode(["load the model"])
    content = pickle.dumps(encoder)
    assert len(content) < 1_000
    first, second = pickle.loads(content), pickle.loads(content)  # noqa: S301 - own content
    assert first is second
    assert first.encode(["retry"]).tobytes() == encoder.encode(["retry"]).tobytes()


def test_importing_loads_no_heavy_library() -> None:
    """Importing and creating an encoder loads neither the runtime, the tokenizer, NumPy nor the graphs."""
    program = (
        "import sys; from pipeline.encoders.base import OnnxEncoder; OnnxEncoder()\n"
        "names = ('onnx_file', 'onnx_graph', 'minilm')\n"
        "graphs = {f'pipeline.encoders.{name}' for name in names}\n"
        "print(sorted((graphs | {'onnxruntime', 'tokenizers', 'numpy', 'onnx'}) & sys.modules.keys()))"
    )
    assert run_python(program) == ("[]\n", "")


def test_encoding_prints_nothing() -> None:
    """No library prints anything while it loads, encodes and forks."""
    program = (
        "import subprocess; from pipeline.encoders.base import OnnxEncoder\n"
        "OnnxEncoder().encode(['one', 'two', 'three'])\n"
        "subprocess.run(['true'], preexec_fn=lambda: None, check=True)"
    )
    assert run_python(program) == ("", "")


def test_stops_at_an_interrupt() -> None:
    """Ctrl-C ends a long encoding after the texts in progress."""
    program = (
        # Under a shell that starts the tests in the background, interrupts are ignored.
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from pipeline.encoders.base import OnnxEncoder\n"
        "encoder = OnnxEncoder(); encoder.encode(['ready']); print('ready', flush=True)\n"
        "encoder.encode(['commit ' * 254] * 20_000)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert errors.rstrip().endswith("KeyboardInterrupt")


def run_python(program: str) -> tuple[str, str]:
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return result.stdout, result.stderr


def test_the_runtime_sends_no_telemetry(tmp_path: Path) -> None:
    """The runtime stores no device id and no queue of events."""
    script = "from pipeline.encoders.base import OnnxEncoder; OnnxEncoder().encode(['x'])"
    inherited = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    environment = {**inherited, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=environment, check=True)
    assert list(tmp_path.iterdir()) == []
