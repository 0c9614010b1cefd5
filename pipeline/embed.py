"""Embedding stage of an index run: vectors for the texts that have none, newest commits first.

The texts come from the index, so an interrupted stage continues with the texts that are left.

A run may have an embedding cache. It looks a vector up by two keys, and finds it only if both match:

- Digest of the text to embed.
- Content hash: hash of a commit message, or of a hunk's message, kind of change, paths and diff. With
  `--embed-cache diff`, it is the digest again.

The texts are encoded in threads of this process or on a Dask cluster. A cluster receives only the texts, and returns
only vectors. Its workers need this package, but no repository and no index.
"""

from __future__ import annotations

import hashlib
import math
import socket
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from itertools import islice
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.encoders import base
from pipeline.encoders.base import Encoder
from pipeline.options import EmbedCacheMode
from pipeline.profile import Profile
from pipeline.text import build_diff_text
from pipeline.workers import map_groups
from stores import writer
from stores.connections import IndexWriter
from stores.embedding_cache import ENTRY_SCHEMA, LOOKUP_SCHEMA, EmbeddingCache
from stores.errors import LineageError
from stores.history import CacheUsage
from stores.schema import EMBEDDINGS, VECTOR
from stores.vectors import PendingHunk, PendingMessage, load_pending_texts

# Number of texts whose vectors are written in one transaction. A killed run loses a few seconds of work: at most the
# vectors that it is writing, and those of the next transaction, which it is encoding.
TEXTS_PER_TRANSACTION: Final = 512
# Number of texts per call of the encoder: enough that starting a task costs little, but few enough that all threads
# are busy until the end of a transaction.
TEXTS_PER_TASK: Final = 16


@dataclass(frozen=True, slots=True)
class EncodeTask:
    """Texts for one call of the encoder. A worker on another machine receives the task pickled.

    `expected_installation`: result of `describe_installation` on the machine of the index run. The worker must have
    the same result. None if this machine encodes, so no check is needed.
    """

    encoder: Encoder
    texts: tuple[str, ...]
    expected_installation: str | None


@dataclass(frozen=True, slots=True)
class TextGroup:
    """Texts whose vectors are written in one transaction.

    `texts`: texts to encode, because the embedding cache lacks their vectors; longest first.
    `digests`: digest of each of `texts`. `content_hashes`: content hash of each of `texts`; empty without a cache.
    `cached_vectors`: rows (digest, vector) of the texts whose vectors the cache has.
    `text_count`: number of pending texts of the group. It includes texts that could not be read from a damaged index.
    """

    digests: tuple[bytes, ...]
    texts: tuple[str, ...]
    content_hashes: tuple[bytes, ...]
    cached_vectors: pa.Table
    text_count: int


def encode_texts(task: EncodeTask) -> NDArray[np.float32]:
    """Return one unit vector per text of the task, in order: an array of shape (texts, dimension).

    Raises ClusterUnavailable if this worker has another version of lineage or other models. Such a worker may have
    joined the cluster after `use_cluster` checked the workers.
    """
    if task.expected_installation is not None:
        _check_worker(f"on {socket.gethostname()}", describe_installation(), task.expected_installation)
    return task.encoder.encode(task.texts)


class EmbeddingCacheSession:
    """Embedding cache during an index run, with the number of lookups and hits."""

    def __init__(self, cache: EmbeddingCache, mode: EmbedCacheMode) -> None:
        self._cache = cache
        self._mode = mode
        self._lookup_count = self._hit_count = 0

    def load_vectors(
        self, pending_texts: Sequence[PendingHunk | PendingMessage], content_hashes: Sequence[bytes]
    ) -> pa.Table:
        """Return a row (digest, vector) for each pending text whose vector the cache has.

        `content_hashes`: result of `hash_content` for each pending text.
        """
        digests = [pending_text.text_digest for pending_text in pending_texts]
        cached_vectors = self._cache.look_up(pa.table([content_hashes, digests], schema=LOOKUP_SCHEMA))
        self._lookup_count += len(pending_texts)
        self._hit_count += cached_vectors.num_rows
        return cached_vectors

    def store_vectors(self, content_hashes: Sequence[bytes], new_vectors: pa.RecordBatch) -> None:
        """Add vectors to the cache.

        `content_hashes`: content hash of each vector's text. `new_vectors`: rows (digest, vector).
        """
        hashes = pa.array(content_hashes, ENTRY_SCHEMA.field("content_hash").type)
        self._cache.store(pa.table([hashes, *new_vectors.columns], schema=ENTRY_SCHEMA))

    def get_usage(self) -> CacheUsage:
        """Return the number of cache entries, and of lookups and hits so far."""
        return CacheUsage(self._cache.count(), self._lookup_count, self._hit_count)

    def hash_content(self, pending_text: PendingHunk | PendingMessage) -> bytes:
        """Return the content hash of a pending text."""
        if self._mode is EmbedCacheMode.DIFF:
            # In this mode, a hunk's text to embed is its diff, so the digest is already a hash of the content.
            return pending_text.text_digest
        parts = [pending_text.message]
        if isinstance(pending_text, PendingHunk):
            parts += [
                pending_text.change_kind,
                pending_text.old_path or "",
                pending_text.file_path,
                pending_text.diff,
            ]
        return hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).digest()


@dataclass(slots=True)
class EmbeddingStage:
    """Embedding stage of an index run.

    `profile`: receives the times of the encoder and of the index.
    `cache`: None if the run uses no embedding cache.
    `diff_only`: embed the diff of a hunk instead of its semantic text (message, path, symbols, changed lines).
    `jobs`: number of threads that encode; None if the workers of a cluster encode.
    `texts_per_task`: number of texts per call of the encoder. `texts_per_transaction`: number of texts per group.
    """

    encoder: Encoder
    writer: IndexWriter
    profile: Profile
    cache: EmbeddingCacheSession | None = None
    diff_only: bool = False
    jobs: int | None = 1
    texts_per_task: int = TEXTS_PER_TASK
    texts_per_transaction: int = TEXTS_PER_TRANSACTION
    _groups: deque[TextGroup] = field(default_factory=deque, init=False)

    def embed(self, pending: pa.Table, completed_commit: str | None = None) -> Iterator[int]:
        """Embed the pending texts. After each transaction, yield the number of texts embedded so far.

        `pending`: rows of `stores.vectors.list_pending_texts`.
        `completed_commit`: HEAD to record as completely indexed in the last transaction; None to record nothing.
        """
        done_count = 0
        with closing(
            map_groups(encode_texts, self._read_groups(pending), jobs=self.jobs, prefer="threads")
        ) as results:
            while done_count < pending.num_rows:
                storage_seconds_before = self.profile.seconds.get("storage", 0.0)
                with self.profile.measure("embed"):
                    vectors_by_task = [next(results)]
                    group = self._groups.popleft()
                    vectors_by_task += islice(results, self._count_tasks(group) - 1)
                # `next` also runs `_read_groups`, whose time is already counted as "storage".
                storage_seconds = self.profile.seconds.get("storage", 0.0) - storage_seconds_before
                self.profile.add_time("embed", -storage_seconds)
                done_count += group.text_count
                is_last = done_count == pending.num_rows
                self._write_group(group, vectors_by_task, completed_commit if is_last else None)
                yield done_count

    def _read_groups(self, pending: pa.Table) -> Iterator[list[EncodeTask]]:
        """Read the groups one by one. Append each to `_groups`, and yield its tasks, which are at least one."""
        expected_installation = describe_installation() if self.jobs is None else None
        for start in range(0, pending.num_rows, self.texts_per_transaction):
            rows = pending.slice(start, self.texts_per_transaction)
            with self.profile.measure("storage"), self.writer.open_batch() as connection:
                pending_texts = load_pending_texts(connection, rows)
            group = self._build_group(pending_texts, rows.num_rows)
            self._groups.append(group)
            yield [
                EncodeTask(
                    self.encoder, group.texts[first : first + self.texts_per_task], expected_installation
                )
                for first in range(0, max(1, len(group.texts)), self.texts_per_task)
            ]

    def _count_tasks(self, group: TextGroup) -> int:
        """Return the number of tasks of a group: at least one, which has no texts if all vectors are cached."""
        return max(1, math.ceil(len(group.texts) / self.texts_per_task))

    def _build_group(
        self, pending_texts: Sequence[PendingHunk | PendingMessage], text_count: int
    ) -> TextGroup:
        """Return the group of the pending texts: the vectors that the cache has, and the other texts, longest first."""
        if self.cache is None:
            content_hashes, cached_vectors = None, EMBEDDINGS.empty_table()
        else:
            content_hashes = [self.cache.hash_content(pending_text) for pending_text in pending_texts]
            cached_vectors = self.cache.load_vectors(pending_texts, content_hashes)
        cached_digests = set(cached_vectors.column("text_digest").to_pylist())
        text_by_position = {
            position: self._get_text(pending_text)
            for position, pending_text in enumerate(pending_texts)
            if pending_text.text_digest not in cached_digests
        }
        # Long texts first, so that the threads finish together.
        positions = sorted(
            text_by_position, key=lambda position: len(text_by_position[position]), reverse=True
        )
        return TextGroup(
            digests=tuple(pending_texts[position].text_digest for position in positions),
            texts=tuple(text_by_position[position] for position in positions),
            content_hashes=tuple(content_hashes[position] for position in positions)
            if content_hashes
            else (),
            cached_vectors=cached_vectors,
            text_count=text_count,
        )

    def _get_text(self, pending_text: PendingHunk | PendingMessage) -> str:
        if isinstance(pending_text, PendingMessage):
            return pending_text.message
        if self.diff_only:
            return build_diff_text(
                diff=pending_text.diff, path=pending_text.file_path, change_kind=pending_text.change_kind
            )
        return pending_text.semantic_text

    def _write_group(
        self, group: TextGroup, vectors_by_task: Sequence[NDArray[np.float32]], completed_commit: str | None
    ) -> None:
        """Write all vectors of a group to the index, and its new vectors to the cache."""
        new_vectors = build_vector_rows(group.digests, vectors_by_task)
        if self.cache is not None:
            self.cache.store_vectors(group.content_hashes, new_vectors)
        rows = pa.concat_tables([group.cached_vectors.cast(EMBEDDINGS), pa.Table.from_batches([new_vectors])])
        with self.profile.measure("storage"), self.writer.open_batch() as connection:
            writer.write_vectors(
                connection,
                rows,
                cache_usage=self.cache.get_usage() if self.cache else None,
                completed_commit=completed_commit,
            )


def build_vector_rows(digests: Sequence[bytes], arrays: Sequence[NDArray[np.float32]]) -> pa.RecordBatch:
    """Return rows (digest, vector) of `schema.EMBEDDINGS`.

    `arrays`: vectors of consecutive texts, each array of shape (texts, dimension); together one vector per digest.
    """
    values = np.concatenate([np.empty(0, np.float32), *(array.reshape(-1) for array in arrays)])
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values), type=VECTOR)
    return pa.record_batch(
        [pa.array(digests, EMBEDDINGS.field("text_digest").type), vectors], schema=EMBEDDINGS
    )


# Longest wait for a connection to the Dask scheduler.
CONNECT_SECONDS: Final = 10
# Name under which pip installs this package.
DISTRIBUTION: Final = "history-lineage"


class ClusterUnavailable(LineageError):
    """Error for a cluster that cannot be reached, has no workers, or has workers of other versions or models."""


@contextmanager
def use_cluster(scheduler: str) -> Iterator[int]:
    """Run the tasks of joblib on the workers of a Dask scheduler, during the body of the `with` statement.

    Yields the number of threads of all workers. `scheduler`: address such as `tcp://host:8786`.
    Raises ClusterUnavailable, before any text is sent, if the cluster cannot be used.
    """
    import joblib

    try:
        from distributed import Client
    except ImportError as error:
        raise ClusterUnavailable(
            "The package `distributed` is not installed.",
            hint="Run `pip install 'history-lineage[distributed]'`, here and on every worker.",
        ) from error
    try:
        client = Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterUnavailable(
            f"No Dask scheduler answers at {scheduler}.",
            hint="Start one with `dask scheduler`, and workers with `dask worker ADDRESS --nthreads 1`.",
        ) from error
    with client:
        _check_workers(client.run(describe_installation, on_error="return"), scheduler)
        with joblib.parallel_config(backend="dask", n_jobs=-1, client=client):
            yield sum(client.nthreads().values())


@cache
def describe_installation() -> str:
    """Return the version of this package and a digest of its models. Machines with equal results embed alike."""
    checksums = (base.MODELS_DIR / base.CHECKSUM_FILE).read_bytes()
    return f"{metadata.version(DISTRIBUTION)}, models {hashlib.sha256(checksums).hexdigest()[:12]}"


def _check_workers(descriptions: dict[str, object], scheduler: str) -> None:
    """Raise ClusterUnavailable if there are no workers, or if a worker has another version of lineage or other models.

    `descriptions`: result of `describe_installation` on each worker, or its error, by the worker's address.
    """
    if not descriptions:
        raise ClusterUnavailable(
            f"The Dask scheduler at {scheduler} has no workers.",
            hint=f"Start some with `dask worker {scheduler} --nthreads 1`.",
        )
    for address, description in sorted(descriptions.items()):
        _check_worker(address, description, describe_installation())


def _check_worker(worker: str, description: object, expected: str) -> None:
    """Raise ClusterUnavailable if a worker does not have the expected installation.

    `worker`: its address, or `on HOST`. `description`: its result of `describe_installation`, or its error. `expected`:
    the result on the machine of the index run.
    """
    if description != expected:
        raise ClusterUnavailable(
            f"The Dask worker {worker} cannot embed for this index: {description}. This machine has {expected}.",
            hint="Install the same version of history-lineage on every worker, and restart them.",
        )
