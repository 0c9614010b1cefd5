"""What a vector in the embedding cache is found by: the content it was made of, not the text made of that.

A message with its file's diff, header included, is one content; two files of one commit with the same added lines are
two. So a hit is the vector of the very text that would be embedded, which the store sees to beside.

Texts -> vectors: each distinct text once, longest first so that the encoder's threads end together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.encoders.base import Encoder
from pipeline.extract import Extracted
from pipeline.options import EmbedCache
from pipeline.profile import Profile
from pipeline.text import diff_text
from pipeline.write import known_vectors
from stores.connections import Held
from stores.embedding_cache import ASKED, ENTRIES, Embeddings
from stores.history import Use
from stores.schema import VECTOR, VECTORS


class Cached:
    """The cache as one pass uses it."""

    def __init__(self, embeddings: Embeddings, mode: EmbedCache) -> None:
        self._embeddings = embeddings
        self._mode = mode
        self._asked = self._found = 0

    def known(self, extracted: Extracted, wanted: Collection[bytes]) -> pa.Table:
        """Digest and vector of those of the wanted texts that are in the cache."""
        pairs = [(content, text) for content, text in self._contents(extracted) if text in wanted]
        columns = [pa.array([pair[side] for pair in pairs], kind) for side, kind in enumerate(ASKED.types)]
        found = self._embeddings.known(pa.table(columns, schema=ASKED))
        self._asked += len(wanted)
        self._found += found.num_rows
        return found

    def keep(self, extracted: Extracted, fresh: pa.RecordBatch) -> None:
        """Keep the vectors that were not there."""
        contents = {text: content for content, text in self._contents(extracted)}
        hashes = [contents[text] for text in fresh.column("text_digest").to_pylist()]
        columns = [pa.array(hashes, ENTRIES.field("content_hash").type), *fresh.columns]
        self._embeddings.keep(pa.table(columns, schema=ENTRIES))

    def use(self) -> Use:
        """What the pass had of it so far."""
        return Use(self._embeddings.count(), self._asked, self._found)

    def _contents(self, extracted: Extracted) -> Iterator[tuple[bytes, bytes]]:
        """(hash of the content, digest of the text made of it) of a batch's messages and hunks."""
        commits, hunks = extracted.commits, extracted.hunks
        messages = dict(zip(commits["commit_sha"].to_pylist(), commits["message"].to_pylist(), strict=True))
        for message, text in zip(messages.values(), commits["message_digest"].to_pylist(), strict=True):
            yield self._content(text, message), text
        names = ("text_digest", "commit_sha", "change_kind", "old_path", "file_path", "diff")
        for text, sha, *diff in zip(*(hunks[name].to_pylist() for name in names), strict=True):
            yield self._content(text, messages[sha], *diff), text

    def _content(self, text: bytes, message: str, *diff: str | None) -> bytes:
        if self._mode is EmbedCache.DIFF:
            return text  # the diff's own digest
        parts = "\0".join((message, *(part or "" for part in diff)))
        return hashlib.blake2b(parts.encode("utf-8", "surrogatepass"), digest_size=16).digest()


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
