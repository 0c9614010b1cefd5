"""What a vector in the embedding cache is found by: the content it was made of, not the text made of that.

A message with its file's diff, header included, is one content; two files of one commit with the same added lines are
two. So a hit is the vector of the very text that would be embedded, which the store sees to beside.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator

import pyarrow as pa

from pipeline.extract import Extracted
from pipeline.modes import EmbedCache
from stores.embeddings import ASKED, ENTRIES, Embeddings
from stores.history import Use


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
