"""What the transformer is taught with: batches of one history, and weights under the names that the graph knows."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from pipeline.encoders.base import tokenizer
from pipeline.encoders.minilm_numpy import HIDDEN, LAYERS
from pipeline.training import encoder_batches as drawing
from pipeline.training.encoder_batches import TEXT_TOKENS, batch, batches
from pipeline.training.export import LAYER_PARTS, between, learnt
from pipeline.training.mine_pairs import Kind
from pipeline.training.pair_dataset import History


def test_a_batch(lists: Path) -> None:
    """Each question's answer stands in its row, and one other of each behind them; own commits are not compared."""
    history = History.read(lists)
    places = np.random.default_rng(2).permutation(len(history))[:20]
    one = batch(history, places, np.random.default_rng(1))
    decode = tokenizer().decode
    assert one.questions.tokens.shape == (20, one.questions.lengths.max())
    assert one.texts.tokens.shape == (40, one.texts.lengths.max())
    assert one.texts.lengths.max() <= TEXT_TOKENS
    for lines in (one.questions, one.texts):
        for line, length in zip(lines.tokens, lines.lengths, strict=True):
            assert (line[0], line[length - 1]) == (101, 102)
            assert not line[length:].any()
    for row, place in enumerate(places.tolist()):
        answer, *others = history.candidates(place).tolist()
        texts = [
            decode(line[:length].tolist())
            for line, length in zip(one.texts.tokens, one.texts.lengths, strict=True)
        ]
        path = decode(history.change(answer)).split("\n")[0][:12]
        assert path in texts[row]
        assert any(decode(history.change(other))[:12] in texts[20 + row] for other in others)
        assert not one.apart[row, row]
        if history.kind(place) is Kind.SENTENCE:
            assert "a peer that never answers" not in texts[row]
    commits = [history.commit(int(history.candidates(place)[0])) for place in places.tolist()]
    for row, column in np.argwhere(np.equal.outer(commits, commits)):
        assert one.apart[row, column] == (row != column)


def test_batches_are_drawn_by_a_seed(lists: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same seed, the same batches; a pass asks every list once, and the next one in another order."""
    monkeypatch.setattr(drawing, "QUESTIONS", 8)
    history = History.read(lists)
    passes = 2 * (len(history) // 8)
    one, same, other = (
        [
            one.questions.tokens.tolist()
            for one in islice(batches([history], np.random.default_rng(seed)), passes)
        ]
        for seed in (1, 1, 2)
    )
    assert one == same != other
    assert one[: passes // 2] != one[passes // 2 :]
    assert list(batches([], np.random.default_rng(1))) == []


def test_weights_by_their_names() -> None:
    """A checkpoint's tensors are the encoder's own by name, and end as far on their way as is asked."""
    made = np.random.default_rng(1)
    shapes = {"weight": (3, 2), "bias": (3,)}
    state = {
        f"{name}.{part}": made.random(shape, np.float32)
        for name in ("placed", *(f"layers.{layer}.{part}" for layer in range(LAYERS) for part in LAYER_PARTS))
        for part, shape in shapes.items()
    }
    ended = learnt(state)
    assert len(ended) == len(state)
    assert np.array_equal(ended["encoder.layer.4.intermediate.dense.bias"], state["layers.4.inner.bias"])
    begun = {name: np.zeros_like(value) for name, value in ended.items()}
    begun["embeddings.word_embeddings.weight"] = np.ones((2, HIDDEN), np.float32)
    half = between(begun, ended, 0.5)
    assert half.keys() == begun.keys()
    for name, value in ended.items():
        assert np.allclose(half[name], value / 2)
        assert np.array_equal(between(begun, ended, 1.0)[name], value)
    assert np.array_equal(
        half["embeddings.word_embeddings.weight"], begun["embeddings.word_embeddings.weight"]
    )
