"""Training batches of the encoder, and the conversion of its weights."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from pipeline.encoders.base import load_tokenizer
from pipeline.encoders.minilm_numpy import HIDDEN_SIZE, LAYER_COUNT
from pipeline.training import encoder_batches
from pipeline.training.encoder_batches import TEXT_TOKENS, build_batch, iterate_batches
from pipeline.training.export import LAYER_PARTS, encoder_weights, interpolate_weights
from pipeline.training.mine_pairs import QueryKind
from pipeline.training.pair_dataset import PairDataset


def test_build_batch(lists: Path) -> None:
    """Row i of the texts answers query i, a negative of each follows; texts of the same commit are excluded."""
    history = PairDataset.read(lists)
    places = np.random.default_rng(2).permutation(len(history))[:20]
    one = build_batch(history, places, np.random.default_rng(1))
    decode = load_tokenizer().decode
    assert one.queries.tokens.shape == (20, one.queries.lengths.max())
    assert one.texts.tokens.shape == (40, one.texts.lengths.max())
    assert one.texts.lengths.max() <= TEXT_TOKENS
    for lines in (one.queries, one.texts):
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
        assert not one.excluded[row, row]
        if history.kind(place) is QueryKind.SENTENCE:
            assert "a peer that never answers" not in texts[row]
    commits = [history.commit(int(history.candidates(place)[0])) for place in places.tolist()]
    for row, column in np.argwhere(np.equal.outer(commits, commits)):
        assert one.excluded[row, column] == (row != column)


def test_batches_depend_on_the_seed(lists: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same seed gives the same batches; each epoch uses every list once, in another order."""
    monkeypatch.setattr(encoder_batches, "QUERIES_PER_BATCH", 8)
    history = PairDataset.read(lists)
    passes = 2 * (len(history) // 8)
    one, same, other = (
        [
            one.queries.tokens.tolist()
            for one in islice(iterate_batches([history], np.random.default_rng(seed)), passes)
        ]
        for seed in (1, 1, 2)
    )
    assert one == same != other
    assert one[: passes // 2] != one[passes // 2 :]
    assert list(iterate_batches([], np.random.default_rng(1))) == []


def test_interpolate_weights() -> None:
    """A checkpoint has the names of the original weights, and interpolation takes the given share of it."""
    made = np.random.default_rng(1)
    shapes = {"weight": (3, 2), "bias": (3,)}
    state = {
        f"{name}.{part}": made.random(shape, np.float32)
        for name in (
            "placed",
            *(f"layers.{layer}.{part}" for layer in range(LAYER_COUNT) for part in LAYER_PARTS),
        )
        for part, shape in shapes.items()
    }
    ended = encoder_weights(state)
    assert len(ended) == len(state)
    assert np.array_equal(ended["encoder.layer.4.intermediate.dense.bias"], state["layers.4.inner.bias"])
    begun = {name: np.zeros_like(value) for name, value in ended.items()}
    begun["embeddings.word_embeddings.weight"] = np.ones((2, HIDDEN_SIZE), np.float32)
    half = interpolate_weights(begun, ended, 0.5)
    assert half.keys() == begun.keys()
    for name, value in ended.items():
        assert np.allclose(half[name], value / 2)
        assert np.array_equal(interpolate_weights(begun, ended, 1.0)[name], value)
    assert np.array_equal(
        half["embeddings.word_embeddings.weight"], begun["embeddings.word_embeddings.weight"]
    )
