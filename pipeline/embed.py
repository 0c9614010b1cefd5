"""Embedding of texts, each distinct text once, and lookup in the embedding cache.

Cache entries are keyed by a hash of the source content (message plus diff), not of the generated text. The store also
compares the text digest, so a hit is always the vector of exactly that text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.encoders.base import Encoder
from pipeline.extract import ExtractedBatch
from pipeline.options import EmbedCacheMode
from pipeline.profile import Profile
from pipeline.text import build_diff_text
from pipeline.write import find_known_digests
from stores.connections import IndexWriter
from stores.embedding_cache import ENTRY_SCHEMA, LOOKUP_SCHEMA, EmbeddingCache
from stores.history import CacheUsage
from stores.schema import VECTOR, VECTORS


class EmbeddingCacheSession:
    """Embedding cache during an index run, with counts of lookups and hits."""

    def __init__(self, embeddings: EmbeddingCache, mode: EmbedCacheMode) -> None:
        self._embeddings = embeddings
        self._mode = mode
        self._lookup_count = self._hit_count = 0

    def load_known(self, extracted: ExtractedBatch, digests: Collection[bytes]) -> pa.Table:
        """Return digest and vector of those of the given text digests that are in the cache."""
        pairs = [(content, text) for content, text in self._list_contents(extracted) if text in digests]
        columns = [
            pa.array([pair[side] for pair in pairs], kind) for side, kind in enumerate(LOOKUP_SCHEMA.types)
        ]
        found = self._embeddings.lookup(pa.table(columns, schema=LOOKUP_SCHEMA))
        self._lookup_count += len(digests)
        self._hit_count += found.num_rows
        return found

    def store_vectors(self, extracted: ExtractedBatch, fresh: pa.RecordBatch) -> None:
        """Add vectors that were not in the cache."""
        contents = {text: content for content, text in self._list_contents(extracted)}
        hashes = [contents[text] for text in fresh.column("text_digest").to_pylist()]
        columns = [pa.array(hashes, ENTRY_SCHEMA.field("content_hash").type), *fresh.columns]
        self._embeddings.store(pa.table(columns, schema=ENTRY_SCHEMA))

    def get_usage(self) -> CacheUsage:
        """Return the number of entries, and of lookups and hits so far."""
        return CacheUsage(self._embeddings.count(), self._lookup_count, self._hit_count)

    def _list_contents(self, extracted: ExtractedBatch) -> Iterator[tuple[bytes, bytes]]:
        """Yield (content hash, text digest) of each message and hunk of a batch."""
        commits, hunks = extracted.commits, extracted.hunks
        messages = dict(zip(commits["commit_sha"].to_pylist(), commits["message"].to_pylist(), strict=True))
        for message, text in zip(messages.values(), commits["message_digest"].to_pylist(), strict=True):
            yield self._hash_content(text, message), text
        names = ("text_digest", "commit_sha", "change_kind", "old_path", "file_path", "diff")
        for text, sha, *diff in zip(*(hunks[name].to_pylist() for name in names), strict=True):
            yield self._hash_content(text, messages[sha], *diff), text

    def _hash_content(self, text: bytes, message: str, *diff: str | None) -> bytes:
        if self._mode is EmbedCacheMode.DIFF:
            return text  # the diff's own digest
        parts = "\0".join((message, *(part or "" for part in diff)))
        return hashlib.blake2b(parts.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class EmbeddingStage:
    """Embedding stage of an index run.

    `writer`: used to look up the digests that the index has, so each batch must be written before the next is embedded.
    `profile`: collects the time of the encoder and of the index.
    `cache`: None if vectors are not cached outside of the index.
    `diff_only`: embed only the diff of a hunk.
    """

    def __init__(
        self,
        encoder: Encoder,
        writer: IndexWriter,
        profile: Profile,
        cache: EmbeddingCacheSession | None = None,
        *,
        diff_only: bool = False,
    ) -> None:
        self._encoder = encoder
        self._writer = writer
        self._profile = profile
        self._cache = cache
        self._diff_only = diff_only

    def embed_batch(self, extracted: ExtractedBatch) -> pa.RecordBatch:
        """Return the vectors of a batch's messages and hunks that the index does not have yet."""
        texts = collect_distinct_texts(extracted, diff_only=self._diff_only)
        known = find_known_digests(self._writer, texts, self._profile)
        missing = {digest: text for digest, text in texts.items() if digest not in known}
        with self._profile.phase("embed"):
            if self._cache is None or not missing:
                return embed_texts(missing, self._encoder)
            return self._embed_with_cache(self._cache, extracted, missing)

    def _embed_with_cache(
        self, cache: EmbeddingCacheSession, extracted: ExtractedBatch, missing: Mapping[bytes, str]
    ) -> pa.RecordBatch:
        """Return vectors from the cache, or else from the encoder; new ones are stored in the cache first."""
        known = cache.load_known(extracted, missing.keys())
        found = set(known.column("text_digest").to_pylist())
        fresh = embed_texts(
            {digest: text for digest, text in missing.items() if digest not in found}, self._encoder
        )
        cache.store_vectors(extracted, fresh)
        return _reorder([*known.to_batches(), fresh], missing)


def collect_distinct_texts(extracted: ExtractedBatch, *, diff_only: bool = False) -> dict[bytes, str]:
    """Return digest -> text of every message and hunk of a batch, in order of first appearance."""
    commits, hunks = extracted.commits, extracted.hunks
    digests = commits["message_digest"].to_pylist() + hunks["text_digest"].to_pylist()
    texts = commits["message"].to_pylist() + (
        _build_diff_texts(hunks) if diff_only else hunks["semantic_text"].to_pylist()
    )
    return dict(zip(digests, texts, strict=True))


def embed_texts(texts: Mapping[bytes, str], encoder: Encoder) -> pa.RecordBatch:
    """Return one row (digest, vector) per text, in the given order.

    Long texts are encoded first, so that the encoder's threads finish together.
    """
    digests = list(texts)
    longest_first = sorted(digests, key=lambda digest: len(texts[digest]), reverse=True)
    rows = encoder.encode([texts[digest] for digest in longest_first])
    row_by_digest = {digest: row for row, digest in enumerate(longest_first)}
    in_order = np.ascontiguousarray(rows[[row_by_digest[digest] for digest in digests]], np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(in_order.reshape(-1)), type=VECTOR)
    return pa.record_batch([pa.array(digests, VECTORS.field("text_digest").type), vectors], schema=VECTORS)


def _build_diff_texts(hunks: pa.RecordBatch) -> list[str]:
    columns = (hunks[name].to_pylist() for name in ("diff", "file_path", "change_kind"))
    return [
        build_diff_text(diff=diff, path=path, change=change)
        for diff, path, change in zip(*columns, strict=True)
    ]


def _reorder(batches: Iterable[pa.RecordBatch], digests: Iterable[bytes]) -> pa.RecordBatch:
    """Combine the batches into one, in the order of the digests."""
    rows = pa.Table.from_batches([batch.cast(VECTORS) for batch in batches]).combine_chunks()
    order = pa.array(list(digests), VECTORS.field("text_digest").type)
    indices = pc.index_in(order, value_set=rows.column("text_digest").combine_chunks())
    return rows.take(indices).combine_chunks().to_batches()[0]
