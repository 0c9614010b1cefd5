"""Training pairs of the cross-encoder, and the conversion of its tensors."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pipeline.encoders import cross_encoder_graph
from pipeline.encoders.base import MODELS_DIR, load_tokenizer
from pipeline.encoders.cross_encoder import MAX_QUESTION_TOKENS, SPECIAL_TOKENS
from pipeline.training import mine_pairs
from pipeline.training.cross_encoder_batches import NEGATIVES, TRAINED_TOKENS, CandidateLists
from pipeline.training.export import from_file_tensors, to_file_tensors
from pipeline.training.mine_pairs import QueryKind
from tests.repos import Repo


def test_build_pairs(repo: Repo, lists: Path) -> None:
    """A pair is query and change with special tokens; only subjects hide the message."""
    del repo
    candidate_lists = CandidateLists([lists])
    decode = load_tokenizer().decode
    kinds = {candidate_lists.kind(number): number for number in candidate_lists.numbers}
    for kind, number in kinds.items():
        pairs = candidate_lists.build_pairs(number[None], None)
        assert len(pairs.tokens) == mine_pairs.NEGATIVES + 1
        assert pairs.tokens.shape == pairs.sides.shape
        assert pairs.lengths.max() == pairs.tokens.shape[1] <= TRAINED_TOKENS
        for line, side, length in zip(pairs.tokens, pairs.sides, pairs.lengths, strict=True):
            begins = int(np.argmax(side))
            assert line[0] == line[begins] == 101
            assert line[begins - 1] == line[length - 1] == 102
            assert begins <= MAX_QUESTION_TOKENS + SPECIAL_TOKENS // 2
            assert not line[length:].any()
            text = decode(line[begins:length].tolist())
            assert ("let waiting for" in text or "measure " in text) is (kind is not QueryKind.SUBJECT)
        answer = decode(pairs.tokens[0][pairs.sides[0] == 1].tolist())
        assert kind is not QueryKind.SENTENCE or "a peer that never answers" not in answer


def test_file_tensors_round_trip() -> None:
    """Tensors converted to the names of the network and back are those of the file."""
    file = cross_encoder_graph.load_weights(MODELS_DIR / cross_encoder_graph.CROSS_ENCODER_FILE)
    again = to_file_tensors(from_file_tensors(file), int(file["apart"]))
    assert set(again) == set(file)
    for name, value in again.items():
        assert value.dtype == np.float16
        assert np.array_equal(value, file[name])


def test_pairs_depend_on_the_seed(repo: Repo, lists: Path) -> None:
    """Negatives depend on the seed; easy negatives have no lane scores."""
    del repo
    candidate_lists = CandidateLists([lists])
    some = candidate_lists.numbers[:6]
    one, same, other = (candidate_lists.build_pairs(some, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert one.tokens.tolist() == same.tokens.tolist() != other.tokens.tolist()
    assert one.lane_scores.shape == (6, NEGATIVES + 1, 2)
    assert not candidate_lists.build_pairs(some, np.random.default_rng(1), hard_share=0.0).lane_scores.any()
