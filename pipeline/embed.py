"""Texts -> vectors: each distinct text once, longest first so that the encoder's threads end together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.caching import Cached
from pipeline.encoder import Encoder
from pipeline.extract import Extracted
from pipeline.profile import Profile
from pipeline.text import diff_text
from pipeline.write import known_vectors
from stores.holding import Held
from stores.schema import VECTOR, VECTORS


class Embedding:
    """The embedding stage of one pass.

    `index`: asked at every batch what it has, so the batch before must be written; a set of what was embedded would
    grow with the history. `profile`: where the encoder's time is booked, and the index's as storage. `cache`: where
    vectors outlive the index, if anywhere. `diff_only`: of a hunk the diff alone is embedded.
    """

    def __init__(
        self,
        encoder: Encoder,
        index: Held,
        profile: Profile,
        cache: Cached | None = None,
        *,
        diff_only: bool = False,
    ) -> None:
        self._encoder = encoder
        self._index = index
        self._profile = profile
        self._cache = cache
        self._diff_only = diff_only

    def vectors(self, extracted: Extracted) -> pa.RecordBatch:
        """Vectors of a batch's messages and hunks, without those that exist already."""
        texts = distinct(extracted, diff_only=self._diff_only)
        known = known_vectors(self._index, texts, self._profile)
        todo = {digest: text for digest, text in texts.items() if digest not in known}
        with self._profile.phase("embed"):
            if self._cache is None or not todo:
                return embed(todo, self._encoder)
            return self._by_cache(self._cache, extracted, todo)

    def _by_cache(self, cache: Cached, extracted: Extracted, todo: Mapping[bytes, str]) -> pa.RecordBatch:
        """Vectors from the cache and, of what it lacks, from the encoder; it has them before the index does."""
        known = cache.known(extracted, todo.keys())
        found = set(known.column("text_digest").to_pylist())
        fresh = embed({digest: text for digest, text in todo.items() if digest not in found}, self._encoder)
        cache.keep(extracted, fresh)
        return _ordered([*known.to_batches(), fresh], todo)


def distinct(extracted: Extracted, *, diff_only: bool = False) -> dict[bytes, str]:
    """Digest -> text of everything a batch has to embed, in order of first appearance."""
    commits, hunks = extracted.commits, extracted.hunks
    digests = commits["message_digest"].to_pylist() + hunks["text_digest"].to_pylist()
    texts = commits["message"].to_pylist() + (
        _diffs(hunks) if diff_only else hunks["semantic_text"].to_pylist()
    )
    return dict(zip(digests, texts, strict=True))


def embed(texts: Mapping[bytes, str], encoder: Encoder) -> pa.RecordBatch:
    """One row per text, in the order given."""
    digests = list(texts)
    longest_first = sorted(digests, key=lambda digest: len(texts[digest]), reverse=True)
    rows = encoder.encode([texts[digest] for digest in longest_first])
    place = {digest: row for row, digest in enumerate(longest_first)}
    in_order = np.ascontiguousarray(rows[[place[digest] for digest in digests]], np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(in_order.reshape(-1)), type=VECTOR)
    return pa.record_batch([pa.array(digests, VECTORS.field("text_digest").type), vectors], schema=VECTORS)


def _diffs(hunks: pa.RecordBatch) -> list[str]:
    columns = (hunks[name].to_pylist() for name in ("diff", "file_path", "change_kind"))
    return [
        diff_text(diff=diff, path=path, change=change) for diff, path, change in zip(*columns, strict=True)
    ]


def _ordered(batches: Iterable[pa.RecordBatch], digests: Iterable[bytes]) -> pa.RecordBatch:
    """The batches' rows in one, in the order of these digests."""
    rows = pa.Table.from_batches([batch.cast(VECTORS) for batch in batches]).combine_chunks()
    wanted = pa.array(list(digests), VECTORS.field("text_digest").type)
    places = pc.index_in(wanted, value_set=rows.column("text_digest").combine_chunks())
    return rows.take(places).combine_chunks().to_batches()[0]
