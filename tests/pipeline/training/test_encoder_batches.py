"""Training batches of the encoder."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from pipeline.encoders.base import load_tokenizer
from pipeline.training import list_training
from pipeline.training.list_training import TEXT_TOKENS, ListDataset, build_batch, iterate_batches
from pipeline.training.mine_lists import QueryKind


def test_build_batch(lists: Path) -> None:
    """Text i answers query i; a negative of each query follows; other texts of the query's commit are excluded."""
    dataset = ListDataset.read(lists)
    indices = np.random.default_rng(2).permutation(len(dataset))[:20]
    batch = build_batch(dataset, indices, np.random.default_rng(1))
    decode = load_tokenizer().decode
    assert batch.queries.tokens.shape == (20, batch.queries.lengths.max())
    assert batch.texts.tokens.shape == (40, batch.texts.lengths.max())
    assert batch.texts.lengths.max() <= TEXT_TOKENS
    for rows in (batch.queries, batch.texts):
        for ids, length in zip(rows.tokens, rows.lengths, strict=True):
            assert (ids[0], ids[length - 1]) == (101, 102)
            assert not ids[length:].any()
    for row, index in enumerate(indices.tolist()):
        answer, *negatives = dataset.get_candidates(index).tolist()
        texts = [
            decode(ids[:length].tolist())
            for ids, length in zip(batch.texts.tokens, batch.texts.lengths, strict=True)
        ]
        path_start = decode(dataset.get_change_tokens(answer)).split("\n")[0][:12]
        assert path_start in texts[row]
        assert any(
            decode(dataset.get_change_tokens(negative))[:12] in texts[20 + row] for negative in negatives
        )
        assert not batch.is_excluded[row, row]
        if dataset.get_kind(index) is QueryKind.SENTENCE:
            assert "a peer that never answers" not in texts[row]
    commits = [dataset.get_commit(int(dataset.get_candidates(index)[0])) for index in indices.tolist()]
    for row, column in np.argwhere(np.equal.outer(commits, commits)):
        assert batch.is_excluded[row, column] == (row != column)


def test_batches_depend_on_the_seed(lists: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same seed gives the same batches; each epoch uses every list once, in another order."""
    monkeypatch.setattr(list_training, "QUERIES_PER_BATCH", 8)
    dataset = ListDataset.read(lists)
    batch_count = 2 * (len(dataset) // 8)
    batches, repeated_batches, other_batches = (
        [
            batch.queries.tokens.tolist()
            for batch in islice(iterate_batches([dataset], np.random.default_rng(seed)), batch_count)
        ]
        for seed in (1, 1, 2)
    )
    assert batches == repeated_batches != other_batches
    assert batches[: batch_count // 2] != batches[batch_count // 2 :]
    assert list(iterate_batches([], np.random.default_rng(1))) == []
