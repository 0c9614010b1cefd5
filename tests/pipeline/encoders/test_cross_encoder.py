"""The bundled cross-encoder: its graph, determinism and precisions."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.encoders import base, cross_encoder, onnx_graph
from pipeline.encoders.base import MODELS_DIR, DamagedModel, create_session
from pipeline.encoders.cross_encoder import (
    CROSS_ENCODER,
    MAX_PAIR_TOKENS,
    ChangeText,
    CrossEncoder,
)
from pipeline.encoders.minilm import EPSILON, HEAD_COUNT, HIDDEN_SIZE, gelu
from pipeline.encoders.onnx_file import Tensors
from pipeline.interrupts import RequestCancelled, use_cancellation_flag
from pipeline.options import Precision

Floats = NDArray[np.float32]

QUESTION: Final = "how did we stop waiting for a peer that is gone?"
CHANGES: Final = (
    ChangeText(
        "Close the socket when the peer goes away",
        "src/net.py\npython\non_eof\nmodified\ndef on_eof(socket):\n    socket.close()\n",
    ),
    ChangeText(
        "Number the pages of a printed report",
        "src/report.py\npython\nfooter\nmodified\ndef footer(page):\n    return str(page.number)\n",
    ),
    ChangeText(
        "", "docs/colours.md\nmarkdown\nadded\nRed and green are told apart by their shape as well.\n"
    ),
    ChangeText(
        "Tell how long a request took\n\n" + "and where " * 500, "src/clock.py\n" + "elapsed = now()\n" * 500
    ),
)


@pytest.fixture(scope="module")
def full() -> CrossEncoder:
    return CrossEncoder()


def test_the_relevant_change_scores_highest(full: CrossEncoder) -> None:
    """The change that answers the question scores far higher than others."""
    scores = full.score_changes(QUESTION, CHANGES[:3])
    assert scores.dtype == np.float32
    assert int(np.argmax(scores)) == 0
    assert scores[0] > scores[1:].max() + 0.5


def test_scores_are_deterministic(full: CrossEncoder) -> None:
    """A score is the same to the bit with any other pairs and any number of threads."""
    together = full.score_changes(QUESTION, CHANGES)
    alone = [full.score_changes(QUESTION, [change])[0] for change in CHANGES]
    one_thread = CrossEncoder(threads=1).score_changes(QUESTION, CHANGES)
    assert together.tolist() == alone == one_thread.tolist()
    assert full.score_changes(QUESTION, []).shape == (0,)


def test_cancelled_question_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """A question that is cancelled scores no more changes, and the next one is answered."""
    encoder, cancelled, scored = CrossEncoder(threads=2), Event(), []

    class Question:
        def score(self, change: ChangeText) -> float:
            scored.append(change)
            if len(scored) == 3:
                cancelled.set()
            return 1.0

    class Model:
        def encode_question(self, _: str) -> Question:
            return Question()

    monkeypatch.setattr(encoder, "_get_model", Model)
    with use_cancellation_flag(cancelled), pytest.raises(RequestCancelled):
        encoder.score_changes(QUESTION, CHANGES[:1] * 1000)
    assert len(scored) <= 4  # the other thread may have been scoring one
    assert encoder.score_changes(QUESTION, CHANGES[:2]).tolist() == [1.0, 1.0]


def test_precisions_agree(full: CrossEncoder) -> None:
    """int8 gives nearly the same scores, in the same order."""
    scores, quantized = (
        encoder.score_changes(QUESTION, CHANGES) for encoder in (full, CrossEncoder(Precision.INT8))
    )
    assert np.abs(scores - quantized).max() < 0.05 * np.ptp(scores) + 0.1
    assert np.argsort(scores).tolist() == np.argsort(quantized).tolist()
    assert {full.name, CrossEncoder(Precision.INT8).name} == {
        f"{CROSS_ENCODER}/{precision}" for precision in Precision
    }


@pytest.mark.parametrize("share", [None, 0.0, 0.5])
def test_a_damaged_file_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float | None
) -> None:
    """A missing, empty or truncated file is an error with a hint, and a later call tries again."""
    monkeypatch.setattr(base, "MODELS_DIR", tmp_path)
    content = (MODELS_DIR / cross_encoder.CROSS_ENCODER_FILE).read_bytes()
    if share is not None:
        (tmp_path / cross_encoder.CROSS_ENCODER_FILE).write_bytes(content[: int(share * len(content))])
    encoder = CrossEncoder()
    with pytest.raises(DamagedModel, match="--no-rerank"):
        encoder.score_changes(QUESTION, CHANGES)
    monkeypatch.setattr(base, "MODELS_DIR", MODELS_DIR)
    assert encoder.score_changes(QUESTION, CHANGES[:1]).shape == (1,)


def test_odd_texts(full: CrossEncoder) -> None:
    """Empty, undecodable and very long texts have a finite score."""
    odd = ("", "\udce4\x00", "🦆" * 10_000, "word " * 200_000)
    scores = [
        full.score_changes(question, [ChangeText(message, hunk)])
        for question in odd
        for message in odd
        for hunk in odd
    ]
    assert np.isfinite(scores).all()


def test_the_graph_computes_the_model() -> None:
    """The graph computes the same score as the model written in plain numpy."""
    random = np.random.default_rng(1)
    source = create_random_weights(random)
    question, text = (random.normal(size=(1, length, HIDDEN_SIZE)).astype(np.float32) for length in (5, 17))
    (score,) = create_session(onnx_graph.build_cross_encoder(source, Precision.FULL)).run(
        None, {"question": question, "text": text}
    )
    assert float(score[0, 0]) == pytest.approx(
        compute_reference_score(source, question[0], text[0]), abs=1e-3
    )
    assert abs(float(score[0, 0])) > 0.1


def test_the_bundled_file() -> None:
    """Weights are float16, and the file is small enough for the wheel."""
    file = MODELS_DIR / cross_encoder.CROSS_ENCODER_FILE
    assert file.stat().st_size < 12_000_000
    with np.load(file) as weights:
        assert {weights[name].dtype for name in weights.files} == {np.dtype(np.float16)}
        assert (int(weights["apart"]), int(weights["layers"])) == (2, 3)
    assert MAX_PAIR_TOKENS == 128


def create_random_weights(random: np.random.Generator) -> Tensors:
    """Return random weights of two layers, one separate and one joint."""

    def create_dense(name: str, outputs: int, inputs: int) -> Iterator[tuple[str, Floats]]:
        yield f"{name}.weight", (random.normal(size=(outputs, inputs)) / np.sqrt(inputs)).astype(np.float32)
        yield f"{name}.bias", random.normal(size=outputs).astype(np.float32) / np.float32(10)

    def create_norm(name: str) -> Iterator[tuple[str, Floats]]:
        yield f"{name}.weight", random.uniform(0.5, 1.5, HIDDEN_SIZE).astype(np.float32)
        yield f"{name}.bias", random.normal(size=HIDDEN_SIZE).astype(np.float32) / np.float32(10)

    source: Tensors = {"apart": np.array(1, np.float32), "layers": np.array(2, np.float32)}
    source |= dict(create_norm("embeddings.LayerNorm"))
    for layer in range(2):
        for part in ("query", "key", "value"):
            source |= dict(create_dense(f"layer.{layer}.attention.self.{part}", HIDDEN_SIZE, HIDDEN_SIZE))
        source |= dict(create_dense(f"layer.{layer}.attention.output.dense", HIDDEN_SIZE, HIDDEN_SIZE))
        source |= dict(create_norm(f"layer.{layer}.attention.output.LayerNorm"))
        source |= dict(create_dense(f"layer.{layer}.intermediate.dense", 4 * HIDDEN_SIZE, HIDDEN_SIZE))
        source |= dict(create_dense(f"layer.{layer}.output.dense", HIDDEN_SIZE, 4 * HIDDEN_SIZE))
        source |= dict(create_norm(f"layer.{layer}.output.LayerNorm"))
    source |= dict(create_dense("importance", 1, HIDDEN_SIZE)) | dict(
        create_dense("joint", HIDDEN_SIZE, 2 * HIDDEN_SIZE)
    )
    source |= dict(create_dense("out", 1, HIDDEN_SIZE))
    source["side"] = random.normal(size=(2, HIDDEN_SIZE)).astype(np.float32)
    source["scale"] = np.array([3, 4, 5], np.float32)
    return source


def compute_reference_score(source: Tensors, question: Floats, text: Floats) -> float:
    """Return the model's score, computed in plain numpy."""

    def apply_dense(x: Floats, name: str) -> Floats:
        return np.asarray(x @ source[f"{name}.weight"].T + source[f"{name}.bias"])

    def apply_norm(x: Floats, name: str) -> Floats:
        centered = x - x.mean(-1, keepdims=True)
        deviation = np.sqrt((centered**2).mean(-1, keepdims=True) + EPSILON)
        return np.asarray(centered / deviation * source[f"{name}.weight"] + source[f"{name}.bias"])

    def apply_layer(x: Floats, name: str) -> Floats:
        query, key, value = (
            apply_dense(x, f"{name}.attention.self.{part}").reshape(len(x), HEAD_COUNT, -1).swapaxes(0, 1)
            for part in ("query", "key", "value")
        )
        exponentials = np.exp(query @ key.swapaxes(1, 2) / np.sqrt(HIDDEN_SIZE / HEAD_COUNT))
        attended = (
            ((exponentials / exponentials.sum(-1, keepdims=True)) @ value)
            .swapaxes(0, 1)
            .reshape(len(x), HIDDEN_SIZE)
        )
        x = apply_norm(
            apply_dense(attended, f"{name}.attention.output.dense") + x, f"{name}.attention.output.LayerNorm"
        )
        inner = gelu(apply_dense(x, f"{name}.intermediate.dense"))
        return apply_norm(apply_dense(inner, f"{name}.output.dense") + x, f"{name}.output.LayerNorm")

    def compute_max_similarity(question: Floats, text: Floats) -> float:
        nearest = (normalize(question) @ normalize(text).T).max(1)
        importance = 1 / (1 + np.exp(-apply_dense(question, "importance")[:, 0]))
        return float((nearest * importance).sum() / importance.sum())

    question, text = (apply_layer(apply_norm(x, "embeddings.LayerNorm"), "layer.0") for x in (question, text))
    separate = compute_max_similarity(question, text)
    both = apply_layer(np.concatenate([question + source["side"][0], text + source["side"][1]]), "layer.1")
    question, text = both[: len(question)], both[len(question) :]
    means = question.mean(0), text.mean(0)
    cosine = float((normalize(means[0]) * normalize(means[1])).sum())
    hidden = np.tanh(apply_dense(np.concatenate([means[0] * means[1] * 10, means[0] + means[1]]), "joint"))
    scores = np.array([separate, compute_max_similarity(question, text), cosine])
    return float(scores @ source["scale"] + apply_dense(hidden, "out")[0])


def normalize(x: Floats) -> Floats:
    return np.asarray(x / np.linalg.norm(x, axis=-1, keepdims=True))


def test_importing_loads_no_heavy_library() -> None:
    """Importing and creating the cross-encoder loads neither NumPy, the runtime, the tokenizer nor the graph."""
    program = (
        "import sys; from pipeline.encoders.cross_encoder import CrossEncoder; CrossEncoder()\n"
        "names = ('onnx_file', 'onnx_graph', 'minilm')\n"
        "graphs = {f'pipeline.encoders.{name}' for name in names}\n"
        "print(sorted((graphs | {'onnxruntime', 'tokenizers', 'numpy'}) & sys.modules.keys()))"
    )
    root = Path(__file__).parents[3]
    assert (
        subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, check=True).stdout
        == b"[]\n"
    )
