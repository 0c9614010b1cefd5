"""Real repositories with real indexes, their vectors from an encoder that can be computed by hand."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.component_versions import components
from pipeline.extract import Task, extract
from pipeline.git.repository import open_repository
from pipeline.ignore import IgnoreRules
from pipeline.text import words
from pipeline.walk import reach, unreached
from serve.repositories import place_of
from stores import compatibility, database, history, schema, writer
from stores.compatibility import Components
from stores.types import EMBEDDING_DIMENSION
from stores.writer import Batch
from tests.repos import Repo


@dataclass(frozen=True, slots=True)
class WordEncoder:
    """An encoder whose vectors are near when texts share words: each word is a direction of its own."""

    name: str = "words"
    dimension: int = EMBEDDING_DIMENSION

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        rows = np.array([self._row(text) for text in texts]).reshape(-1, self.dimension)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        found: npt.NDArray[np.float32] = (rows / lengths).astype(np.float32)
        return found

    def unload(self) -> None:
        """Nothing was loaded."""

    def _row(self, text: str) -> npt.NDArray[np.float64]:
        row = np.full(self.dimension, 1e-3)
        for word in words(text):
            row[int.from_bytes(hashlib.blake2b(word.encode(), digest_size=4).digest()) % self.dimension] += 1
        return row


def index(
    repo: Repo, home: Path, *, recorded: Components | None = None, upto: str = "HEAD", **changed: Any
) -> None:
    """Index the repository up to a commit, as if `recorded` versions, or ours with some changed, had made it."""
    repository = open_repository(repo.path)
    head = repo.git("rev-parse", upto)
    place = place_of(home, repository)
    found = extract(Task(repo.path, IgnoreRules.of(repository), tuple(repository.walk(head))))
    texts = {
        digest: text
        for table, key, column in (
            (found.commits, "message_digest", "message"),
            (found.hunks, "text_digest", "semantic_text"),
        )
        for digest, text in zip(table.column(key).to_pylist(), table.column(column).to_pylist(), strict=True)
        if text
    }
    vectors = pa.table(
        {
            "text_digest": pa.array(list(texts), schema.DIGEST).cast(pa.binary()),
            "embedding": pa.array(
                [WordEncoder().encode([text])[0].tolist() for text in texts.values()], schema.VECTOR
            ),
        }
    )
    rows = {
        name: getattr(found, name)
        for name in ("commits", "hunks", "hunk_symbols", "hunk_words", "symbol_words")
    }
    with database.writing(place) as connection:
        status = history.status(connection)
        seen = reach(repository, repository.head(), status.head_commit if status else None)
        dropped = unreached(seen, history.unreached(connection), history.all_recorded(connection))
        versions = replace(recorded or components(), **{"embed_cache": "off"} | changed)
        writer.begin_pass(connection, place, head=head, unreached=dropped, components=versions)
        writer.replace_batch(connection, Batch(covered=found.shas, vectors=vectors, watermark=head, **rows))
        for name in compatibility.NAMES:
            vouched = compatibility.version(versions, name)
            connection.execute("UPDATE metadata SET version = ? WHERE component = ?", [vouched, name])
