"""Real indexes of test repositories, with vectors that can be computed by hand."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.component_versions import get_component_versions
from pipeline.extract import ExtractTask, extract_batches
from pipeline.git.repository import open_repository
from pipeline.ignore import IgnoreRules
from pipeline.text import count_terms
from pipeline.walk import compute_reachability_delta, find_unreachable
from serve.repositories import locate_index
from stores import compatibility, database, history, index_location, migrations, schema, writer
from stores.compatibility import EMBEDDING_DIMENSION, ComponentVersions
from stores.index_location import IndexLocation
from stores.writer import Batch
from tests.repos import Repo

# Content of the files of each index, by the commits, ignore patterns and component versions that it depends on.
_built_indexes: Final[dict[Hashable, dict[str, bytes]]] = {}
# Content of the files of an index without rows, by its schema version. Creating the tables takes 50 ms.
_empty_indexes: Final[dict[int, dict[str, bytes]]] = {}


@dataclass(frozen=True, slots=True)
class WordEncoder:
    """Encoder that gives each word its own dimension, so texts are similar if they share words."""

    name: str = "words"
    dimension: int = EMBEDDING_DIMENSION

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        rows = np.array([self._row(text) for text in texts]).reshape(-1, self.dimension)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        vectors: npt.NDArray[np.float32] = (rows / lengths).astype(np.float32)
        return vectors

    def encode_queries(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return self.encode(texts)

    def unload(self) -> None:
        """Do nothing: there is no model."""

    def _row(self, text: str) -> npt.NDArray[np.float64]:
        row = np.full(self.dimension, 1e-3)
        for word in count_terms(text):
            row[int.from_bytes(hashlib.blake2b(word.encode(), digest_size=4).digest()) % self.dimension] += 1
        return row


def build_index(
    repo: Repo,
    home: Path,
    *,
    versions: ComponentVersions | None = None,
    revision: str = "HEAD",
    **changed_fields: Any,
) -> None:
    """Index the repository up to `revision`.

    The index records `versions`, by default the current ones, with the `changed_fields` replaced. A new index of the
    same commits is a copy of the first that this process built, unless git attributes decide what it ignores.
    """
    repository = open_repository(repo.path)
    head = repo.git("rev-parse", revision)
    location = locate_index(home, repository)
    versions = replace(versions or get_component_versions(), **{"embed_cache": "off"} | changed_fields)
    is_new = not location.database.exists()
    rules = IgnoreRules.from_repository(repository)
    key = (repository.read_head(), head, location.first_commit, rules.patterns, versions)
    if is_new and not rules.has_attributes and key in _built_indexes:
        _copy_index(_built_indexes[key], location)
        return
    [extracted_rows] = extract_batches(ExtractTask(repo.path, rules, (tuple(repository.walk(head)),)))
    texts = {
        digest: text
        for table, key, column in (
            (extracted_rows.commits, "message_digest", "message"),
            (extracted_rows.hunks, "text_digest", "semantic_text"),
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
        name: getattr(extracted_rows, name)
        for name in ("commits", "hunks", "hunk_symbols", "hunk_terms", "symbol_terms")
    }
    if is_new:
        _create_empty_index(location)
    with database.open_for_writing(location) as connection:
        summary = history.load_index_summary(connection)
        delta = compute_reachability_delta(
            repository, repository.read_head(), summary.head_commit if summary else None
        )
        unreachable = find_unreachable(
            delta, history.load_unreachable_commits(connection), history.list_recorded_commits(connection)
        )
        writer.record_run_start(
            connection, location, head=head, unreachable=unreachable, components=versions, branch_patterns=()
        )
        writer.replace_batch(
            connection, Batch(covered_commits=extracted_rows.shas, vectors=vectors, watermark=head, **rows)
        )
        for name in compatibility.COMPONENT_NAMES:
            version = versions.get(name)
            connection.execute("UPDATE metadata SET version = ? WHERE component = ?", [version, name])
    if is_new and not rules.has_attributes:
        _built_indexes[key] = _read_files(location)


def _create_empty_index(location: IndexLocation) -> None:
    """Create an index without rows; all but the first of each schema version are copies."""
    if migrations.SCHEMA_VERSION in _empty_indexes:
        _write_files(_empty_indexes[migrations.SCHEMA_VERSION], location)
        return
    with database.open_for_writing(location):
        pass
    _empty_indexes[migrations.SCHEMA_VERSION] = _read_files(location)


def _read_files(location: IndexLocation) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (location.database, location.wal)}


def _write_files(files: dict[str, bytes], location: IndexLocation) -> None:
    index_location.create_index_directory(location)
    for name, content in files.items():
        (location.folder / name).write_bytes(content)
        (location.folder / name).chmod(0o600)


def _copy_index(files: dict[str, bytes], location: IndexLocation) -> None:
    """Write these files of another repository's index as the index at `location`."""
    _write_files(files, location)
    with database.open_for_writing(location) as connection:
        connection.execute(
            "UPDATE repository SET repo_id = ?, path = ?", [location.repo_id, str(location.path)]
        )
