"""Texts -> vectors: each distinct text once, longest first so that the encoder's threads end together."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from pipeline.encoder import Encoder
from pipeline.extract import Extracted
from pipeline.write import known_vectors
from stores.holding import Held
from stores.schema import VECTOR, VECTORS


class Embedding:
    """The embedding stage of one pass.

    `index`: the one that earlier passes left vectors in, if any did. What this pass has embedded is
    remembered: a digest costs about 100 bytes.
    """

    def __init__(self, encoder: Encoder, index: Held | None = None) -> None:
        self._encoder = encoder
        self._index = index
        self._embedded: set[bytes] = set()

    def vectors(self, extracted: Extracted) -> pa.RecordBatch:
        """Vectors of a batch's messages and hunks, without those that exist already."""
        texts = distinct(extracted)
        unseen = texts.keys() - self._embedded
        wanted = unseen - known_vectors(self._index, unseen) if self._index and unseen else unseen
        self._embedded |= unseen
        return embed({digest: text for digest, text in texts.items() if digest in wanted}, self._encoder)


def distinct(extracted: Extracted) -> dict[bytes, str]:
    """Digest -> text of everything a batch has to embed, in order of first appearance."""
    commits, hunks = extracted.commits, extracted.hunks
    digests = commits["message_digest"].to_pylist() + hunks["text_digest"].to_pylist()
    texts = commits["message"].to_pylist() + hunks["semantic_text"].to_pylist()
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
