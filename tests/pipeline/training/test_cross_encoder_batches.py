"""What the cross-encoder is taught with: pairs as it reads them, and a file that can be learnt on from."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pipeline.encoders import cross_encoder_graph
from pipeline.encoders.base import MODELS, tokenizer
from pipeline.encoders.cross_encoder import MARKS, QUESTION_TOKENS
from pipeline.training import mine_pairs
from pipeline.training.cross_encoder_batches import OTHERS, TRAINED_TOKENS, Lists
from pipeline.training.export import named, state
from pipeline.training.mine_pairs import Kind
from tests.repos import Repo


def test_pairs(repo: Repo, lists: Path) -> None:
    """Question and change, each between its marks; a message is shown but for subjects, and never its sentence."""
    del repo
    read = Lists([lists])
    decode = tokenizer().decode
    kinds = {read.kind(number): number for number in read.numbers}
    for kind, number in kinds.items():
        pairs = read.pairs(number[None], None)
        assert len(pairs.tokens) == mine_pairs.OTHERS + 1
        assert pairs.tokens.shape == pairs.sides.shape
        assert pairs.lengths.max() == pairs.tokens.shape[1] <= TRAINED_TOKENS
        for line, side, length in zip(pairs.tokens, pairs.sides, pairs.lengths, strict=True):
            begins = int(np.argmax(side))
            assert line[0] == line[begins] == 101
            assert line[begins - 1] == line[length - 1] == 102
            assert begins <= QUESTION_TOKENS + MARKS // 2
            assert not line[length:].any()
            text = decode(line[begins:length].tolist())
            assert ("let waiting for" in text or "measure " in text) is (kind is not Kind.SUBJECT)
        answer = decode(pairs.tokens[0][pairs.sides[0] == 1].tolist())
        assert kind is not Kind.SENTENCE or "a peer that never answers" not in answer


def test_what_ships_can_be_learnt_on_from() -> None:
    """The file's tensors under the network's names, and back: the same file."""
    file = cross_encoder_graph.weights(MODELS / cross_encoder_graph.CROSS_ENCODER_FILE)
    again = named(state(file), int(file["apart"]))
    assert set(again) == set(file)
    for name, value in again.items():
        assert value.dtype == np.float16
        assert np.array_equal(value, file[name])


def test_pairs_are_varied(repo: Repo, lists: Path) -> None:
    """By chance: other candidates each time, the same for the same seed; and easy ones, of which nothing is known."""
    del repo
    read = Lists([lists])
    some = read.numbers[:6]
    one, same, other = (read.pairs(some, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert one.tokens.tolist() == same.tokens.tolist() != other.tokens.tolist()
    assert one.known.shape == (6, OTHERS + 1, 2)
    assert not read.pairs(some, np.random.default_rng(1), hard=0.0).known.any()
