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
from pipeline.write import find_embedded_digests
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

    def load_vectors(self, batch: ExtractedBatch, digests: Collection[bytes]) -> pa.Table:
        """Return a row (digest, vector) for each of the text digests that the cache has."""
        pairs = [pair for pair in self._list_content_hashes(batch) if pair[1] in digests]
        columns = [
            pa.array([pair[column] for pair in pairs], data_type)
            for column, data_type in enumerate(LOOKUP_SCHEMA.types)
        ]
        cached_vectors = self._embeddings.look_up(pa.table(columns, schema=LOOKUP_SCHEMA))
        self._lookup_count += len(digests)
        self._hit_count += cached_vectors.num_rows
        return cached_vectors

    def store_vectors(self, batch: ExtractedBatch, new_vectors: pa.RecordBatch) -> None:
        """Add the vectors of texts that were not in the cache."""
        hash_by_digest = {digest: content_hash for content_hash, digest in self._list_content_hashes(batch)}
        hashes = [hash_by_digest[digest] for digest in new_vectors.column("text_digest").to_pylist()]
        columns = [pa.array(hashes, ENTRY_SCHEMA.field("content_hash").type), *new_vectors.columns]
        self._embeddings.store(pa.table(columns, schema=ENTRY_SCHEMA))

    def get_usage(self) -> CacheUsage:
        """Return the number of entries, and of lookups and hits so far."""
        return CacheUsage(self._embeddings.count(), self._lookup_count, self._hit_count)

    def _list_content_hashes(self, batch: ExtractedBatch) -> Iterator[tuple[bytes, bytes]]:
        """Yield (content hash, text digest) of each message and hunk of a batch."""
        commits, hunks = batch.commits, batch.hunks
        messages = dict(zip(commits["commit_sha"].to_pylist(), commits["message"].to_pylist(), strict=True))
        for message, digest in zip(messages.values(), commits["message_digest"].to_pylist(), strict=True):
            yield self._hash_content(digest, message), digest
        names = ("text_digest", "commit_sha", "change_kind", "old_path", "file_path", "diff")
        for digest, sha, *diff in zip(*(hunks[name].to_pylist() for name in names), strict=True):
            yield self._hash_content(digest, messages[sha], *diff), digest

    def _hash_content(self, text_digest: bytes, message: str, *diff: str | None) -> bytes:
        if self._mode is EmbedCacheMode.DIFF:
            return text_digest  # in this mode the text is the diff itself
        parts = "\0".join((message, *(part or "" for part in diff)))
        return hashlib.blake2b(parts.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class EmbeddingStage:
    """Embedding stage of an index run.

    `writer`: finds the texts whose vectors the index has, so each batch must be written before the next is embedded.
    `profile`: collects the time of the encoder and of the index.
    `cache`: None if the run uses no embedding cache.
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

    def embed_batch(self, batch: ExtractedBatch) -> pa.RecordBatch:
        """Return the vectors of a batch's messages and hunks that the index does not have yet."""
        texts = collect_distinct_texts(batch, diff_only=self._diff_only)
        indexed_digests = find_embedded_digests(self._writer, texts, self._profile)
        missing_texts = {digest: text for digest, text in texts.items() if digest not in indexed_digests}
        with self._profile.measure("embed"):
            if self._cache is None or not missing_texts:
                return embed_texts(missing_texts, self._encoder)
            return self._embed_with_cache(self._cache, batch, missing_texts)

    def _embed_with_cache(
        self, cache: EmbeddingCacheSession, batch: ExtractedBatch, missing_texts: Mapping[bytes, str]
    ) -> pa.RecordBatch:
        """Return the vectors from the cache, or else from the encoder, and add those of the encoder to the cache."""
        cached_vectors = cache.load_vectors(batch, missing_texts.keys())
        cached_digests = set(cached_vectors.column("text_digest").to_pylist())
        new_vectors = embed_texts(
            {digest: text for digest, text in missing_texts.items() if digest not in cached_digests},
            self._encoder,
        )
        cache.store_vectors(batch, new_vectors)
        return _reorder([*cached_vectors.to_batches(), new_vectors], missing_texts)


def collect_distinct_texts(batch: ExtractedBatch, *, diff_only: bool = False) -> dict[bytes, str]:
    """Return digest -> text of every message and hunk of a batch, in order of first appearance."""
    commits, hunks = batch.commits, batch.hunks
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
    encoder_rows = encoder.encode([texts[digest] for digest in longest_first])
    row_by_digest = {digest: row for row, digest in enumerate(longest_first)}
    ordered_rows = np.ascontiguousarray(
        encoder_rows[[row_by_digest[digest] for digest in digests]], np.float32
    )
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(ordered_rows.reshape(-1)), type=VECTOR)
    return pa.record_batch([pa.array(digests, VECTORS.field("text_digest").type), vectors], schema=VECTORS)


def _build_diff_texts(hunks: pa.RecordBatch) -> list[str]:
    columns = (hunks[name].to_pylist() for name in ("diff", "file_path", "change_kind"))
    return [
        build_diff_text(diff=diff, path=path, change_kind=change)
        for diff, path, change in zip(*columns, strict=True)
    ]


def _reorder(batches: Iterable[pa.RecordBatch], digests: Iterable[bytes]) -> pa.RecordBatch:
    """Combine the batches into one, in the order of the digests."""
    rows = pa.Table.from_batches([batch.cast(VECTORS) for batch in batches]).combine_chunks()
    order = pa.array(list(digests), VECTORS.field("text_digest").type)
    indices = pc.index_in(order, value_set=rows.column("text_digest").combine_chunks())
    return rows.take(indices).combine_chunks().to_batches()[0]
