"""The bundled cross-encoder: what its graph computes, the same for a pair every time, in both precisions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.encoders import base, cross_encoder_graph
from pipeline.encoders.base import MODELS, session
from pipeline.encoders.cross_encoder import CROSS_ENCODER, PAIR_TOKENS, Change, CrossEncoder, DamagedModel
from pipeline.encoders.minilm_numpy import EPSILON, HEADS, HIDDEN, gelu
from pipeline.encoders.onnx_graph import Tensors
from pipeline.options import Precision

Floats = NDArray[np.float32]

QUESTION: Final = "how did we stop waiting for a peer that is gone?"
CHANGES: Final = (
    Change(
        "Close the socket when the peer goes away",
        "src/net.py\npython\non_eof\nmodified\ndef on_eof(socket):\n    socket.close()\n",
    ),
    Change(
        "Number the pages of a printed report",
        "src/report.py\npython\nfooter\nmodified\ndef footer(page):\n    return str(page.number)\n",
    ),
    Change("", "docs/colours.md\nmarkdown\nadded\nRed and green are told apart by their shape as well.\n"),
    Change(
        "Tell how long a request took\n\n" + "and where " * 500, "src/clock.py\n" + "elapsed = now()\n" * 500
    ),
)


@pytest.fixture(scope="module")
def full() -> CrossEncoder:
    return CrossEncoder()


def test_what_answers_comes_first(full: CrossEncoder) -> None:
    """The change that does what is asked for is far before those that do not."""
    scores = full.scores(QUESTION, CHANGES[:3])
    assert scores.dtype == np.float32
    assert int(np.argmax(scores)) == 0
    assert scores[0] > scores[1:].max() + 0.5


def test_alone_or_in_company(full: CrossEncoder) -> None:
    """A pair's score is the same to the bit whatever is read beside it, and with any number of threads."""
    together = full.scores(QUESTION, CHANGES)
    alone = [full.scores(QUESTION, [change])[0] for change in CHANGES]
    one_thread = CrossEncoder(threads=1).scores(QUESTION, CHANGES)
    assert together.tolist() == alone == one_thread.tolist()
    assert full.scores(QUESTION, []).shape == (0,)


def test_precisions_agree(full: CrossEncoder) -> None:
    """int8 gives nearly the same numbers, and the same order."""
    scores, quantized = (one.scores(QUESTION, CHANGES) for one in (full, CrossEncoder(Precision.INT8)))
    assert np.abs(scores - quantized).max() < 0.05 * np.ptp(scores) + 0.1
    assert np.argsort(scores).tolist() == np.argsort(quantized).tolist()
    assert {full.name, CrossEncoder(Precision.INT8).name} == {f"{CROSS_ENCODER}/{one}" for one in Precision}


@pytest.mark.parametrize("rest", [None, 0.0, 0.5])
def test_a_file_that_is_not_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rest: float | None
) -> None:
    """Gone, empty or cut, the file has an error that says what to do, and nothing is kept of the attempt."""
    monkeypatch.setattr(base, "MODELS", tmp_path)
    whole = (MODELS / cross_encoder_graph.CROSS_ENCODER_FILE).read_bytes()
    if rest is not None:
        (tmp_path / cross_encoder_graph.CROSS_ENCODER_FILE).write_bytes(whole[: int(rest * len(whole))])
    reader = CrossEncoder()
    with pytest.raises(DamagedModel, match="--no-rerank"):
        reader.scores(QUESTION, CHANGES)
    monkeypatch.setattr(base, "MODELS", MODELS)
    assert reader.scores(QUESTION, CHANGES[:1]).shape == (1,)


def test_odd_texts(full: CrossEncoder) -> None:
    """Nothing to read, what no encoding has, and a megabyte give a number."""
    odd = ("", "\udce4\x00", "🦆" * 10_000, "word " * 200_000)
    scores = [full.scores(asked, [Change(message, hunk)]) for asked in odd for message in odd for hunk in odd]
    assert np.isfinite(scores).all()


def test_the_graph_computes_the_model() -> None:
    """Every layer, both ways of being near, and the dense layer, against the same written plainly in numpy."""
    random = np.random.default_rng(1)
    source = drawn(random)
    question, text = (random.normal(size=(1, length, HIDDEN)).astype(np.float32) for length in (5, 17))
    (score,) = session(cross_encoder_graph.made(source, Precision.FULL)).run(
        None, {"question": question, "text": text}
    )
    assert float(score[0, 0]) == pytest.approx(fit(source, question[0], text[0]), abs=1e-3)
    assert abs(float(score[0, 0])) > 0.1


def test_the_bundled_file() -> None:
    """Its numbers are 16 bits wide, and with the encoder's words it weighs what the wheel has room for."""
    file = MODELS / cross_encoder_graph.CROSS_ENCODER_FILE
    assert file.stat().st_size < 12_000_000
    with np.load(file) as kept:
        assert {kept[name].dtype for name in kept.files} == {np.dtype(np.float16)}
        assert (int(kept["apart"]), int(kept["layers"])) == (2, 3)
    assert PAIR_TOKENS == 128


def drawn(random: np.random.Generator) -> Tensors:
    """Two layers, one apart and one across, of small random numbers."""

    def dense(name: str, into: int, of: int) -> Iterator[tuple[str, Floats]]:
        yield f"{name}.weight", (random.normal(size=(into, of)) / np.sqrt(of)).astype(np.float32)
        yield f"{name}.bias", random.normal(size=into).astype(np.float32) / np.float32(10)

    def norm(name: str) -> Iterator[tuple[str, Floats]]:
        yield f"{name}.weight", random.uniform(0.5, 1.5, HIDDEN).astype(np.float32)
        yield f"{name}.bias", random.normal(size=HIDDEN).astype(np.float32) / np.float32(10)

    source: Tensors = {"apart": np.array(1, np.float32), "layers": np.array(2, np.float32)}
    source |= dict(norm("embeddings.LayerNorm"))
    for layer in range(2):
        for part in ("query", "key", "value"):
            source |= dict(dense(f"layer.{layer}.attention.self.{part}", HIDDEN, HIDDEN))
        source |= dict(dense(f"layer.{layer}.attention.output.dense", HIDDEN, HIDDEN))
        source |= dict(norm(f"layer.{layer}.attention.output.LayerNorm"))
        source |= dict(dense(f"layer.{layer}.intermediate.dense", 4 * HIDDEN, HIDDEN))
        source |= dict(dense(f"layer.{layer}.output.dense", HIDDEN, 4 * HIDDEN))
        source |= dict(norm(f"layer.{layer}.output.LayerNorm"))
    source |= dict(dense("telling", 1, HIDDEN)) | dict(dense("joint", HIDDEN, 2 * HIDDEN))
    source |= dict(dense("out", 1, HIDDEN))
    source["side"] = random.normal(size=(2, HIDDEN)).astype(np.float32)
    source["scale"] = np.array([3, 4, 5], np.float32)
    return source


def fit(source: Tensors, question: Floats, text: Floats) -> float:
    """The model, plainly."""

    def dense(x: Floats, name: str) -> Floats:
        return np.asarray(x @ source[f"{name}.weight"].T + source[f"{name}.bias"])

    def norm(x: Floats, name: str) -> Floats:
        centred = x - x.mean(-1, keepdims=True)
        spread = np.sqrt((centred**2).mean(-1, keepdims=True) + EPSILON)
        return np.asarray(centred / spread * source[f"{name}.weight"] + source[f"{name}.bias"])

    def layer(x: Floats, name: str) -> Floats:
        query, key, value = (
            dense(x, f"{name}.attention.self.{part}").reshape(len(x), HEADS, -1).swapaxes(0, 1)
            for part in ("query", "key", "value")
        )
        odds = np.exp(query @ key.swapaxes(1, 2) / np.sqrt(HIDDEN / HEADS))
        mixed = ((odds / odds.sum(-1, keepdims=True)) @ value).swapaxes(0, 1).reshape(len(x), HIDDEN)
        x = norm(dense(mixed, f"{name}.attention.output.dense") + x, f"{name}.attention.output.LayerNorm")
        inner = gelu(dense(x, f"{name}.intermediate.dense"))
        return norm(dense(inner, f"{name}.output.dense") + x, f"{name}.output.LayerNorm")

    def near(question: Floats, text: Floats) -> float:
        nearest = (unit(question) @ unit(text).T).max(1)
        worth = 1 / (1 + np.exp(-dense(question, "telling")[:, 0]))
        return float((nearest * worth).sum() / worth.sum())

    question, text = (layer(norm(x, "embeddings.LayerNorm"), "layer.0") for x in (question, text))
    before = near(question, text)
    both = layer(np.concatenate([question + source["side"][0], text + source["side"][1]]), "layer.1")
    question, text = both[: len(question)], both[len(question) :]
    means = question.mean(0), text.mean(0)
    alike = float((unit(means[0]) * unit(means[1])).sum())
    hidden = np.tanh(dense(np.concatenate([means[0] * means[1] * 10, means[0] + means[1]]), "joint"))
    scores = np.array([before, near(question, text), alike])
    return float(scores @ source["scale"] + dense(hidden, "out")[0])


def unit(x: Floats) -> Floats:
    return np.asarray(x / np.linalg.norm(x, axis=-1, keepdims=True))
