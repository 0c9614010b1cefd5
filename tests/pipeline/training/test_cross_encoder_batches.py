"""Training pairs of the cross-encoder."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pipeline.encoders.base import load_tokenizer
from pipeline.encoders.cross_encoder import MAX_QUESTION_TOKENS, SPECIAL_TOKEN_COUNT
from pipeline.training import mine_lists
from pipeline.training.list_training import TRAINING_NEGATIVES, TRAINING_PAIR_TOKENS, CandidateLists
from pipeline.training.mine_lists import QueryKind
from tests.repos import Repo


def test_build_pairs(repo: Repo, lists: Path) -> None:
    """A pair is query and change with special tokens; only subjects hide the message."""
    del repo
    candidate_lists = CandidateLists([lists])
    decode = load_tokenizer().decode
    list_ids = {candidate_lists.get_kind(list_id): list_id for list_id in candidate_lists.list_ids}
    for kind, list_id in list_ids.items():
        pairs = candidate_lists.build_pairs(list_id[None], None)
        assert len(pairs.tokens) == mine_lists.NEGATIVES + 1
        assert pairs.tokens.shape == pairs.segment_ids.shape
        assert pairs.lengths.max() == pairs.tokens.shape[1] <= TRAINING_PAIR_TOKENS
        for ids, row_segment_ids, length in zip(pairs.tokens, pairs.segment_ids, pairs.lengths, strict=True):
            text_start = int(np.argmax(row_segment_ids))
            assert ids[0] == ids[text_start] == 101
            assert ids[text_start - 1] == ids[length - 1] == 102
            assert text_start <= MAX_QUESTION_TOKENS + SPECIAL_TOKEN_COUNT // 2
            assert not ids[length:].any()
            text = decode(ids[text_start:length].tolist())
            assert ("let waiting for" in text or "measure " in text) is (kind is not QueryKind.SUBJECT)
        answer = decode(pairs.tokens[0][pairs.segment_ids[0] == 1].tolist())
        assert kind is not QueryKind.SENTENCE or "a peer that never answers" not in answer


def test_pairs_depend_on_the_seed(repo: Repo, lists: Path) -> None:
    """The same seed gives the same pairs, another seed others; random negatives have no lane scores."""
    del repo
    candidate_lists = CandidateLists([lists])
    list_ids = candidate_lists.list_ids[:6]
    pairs, repeated_pairs, other_pairs = (
        candidate_lists.build_pairs(list_ids, np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    assert pairs.tokens.tolist() == repeated_pairs.tokens.tolist() != other_pairs.tokens.tolist()
    assert pairs.lane_scores.shape == (6, TRAINING_NEGATIVES + 1, 2)
    assert not candidate_lists.build_pairs(
        list_ids, np.random.default_rng(1), hard_share=0.0
    ).lane_scores.any()
