"""The side file of a large index, as it lies on the disk and as it is written; what it is for is told in `codes`."""

from __future__ import annotations

import json
import math
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stores.ranking import Floats
from stores.snapshot import Digests, digests
from stores.space import BLOCK_ROWS, MOST_TO_LEARN_FROM, Space, Vectors, learnt
from stores.versions import EMBEDDING_DIMENSION

# The file begins with its description, and each part on a page of its own.
PAGE: Final = 4_096
_LEVELS: Final = 127

_TEXTS: Final = "FROM vectors SEMI JOIN hunks USING (text_digest)"
_FIRST: Final = f"SELECT embedding {_TEXTS} ORDER BY text_digest LIMIT {MOST_TO_LEARN_FROM}"


@dataclass(frozen=True, slots=True)
class Part:
    """An array in the file, `offset` bytes from its beginning."""

    kind: str
    shape: tuple[int, ...]
    offset: int

    @property
    def bytes(self) -> int:
        """How long it is."""
        return int(math.prod(self.shape) * np.dtype(self.kind).itemsize)


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Texts' places in the space with eight bits a number: a row of `codes` times its scale has about length 1.

    `errors` are the distances between these and the places they stand for.
    """

    codes: npt.NDArray[np.int8]
    scales: Vectors
    errors: Vectors

    @classmethod
    def of(cls, space: Space, rows: Vectors) -> Places:
        """The places of these vectors, worked out in blocks."""
        count = len(rows)
        made = cls(np.empty(rows.shape, np.int8), np.empty(count, np.float32), np.empty(count, np.float32))
        for start in range(0, count, BLOCK_ROWS):
            at = slice(start, start + BLOCK_ROWS)
            made._fill(at, space.placed(rows[at].astype(np.float64)))
        return made

    def _fill(self, at: slice, placed: Floats) -> None:
        lengths = np.linalg.norm(placed, axis=1, keepdims=True)
        placed /= np.where(lengths == 0, 1, lengths)
        scales = (np.abs(placed).max(axis=1, keepdims=True) / _LEVELS).astype(np.float32)
        codes = np.rint(placed / np.where(scales == 0, 1, scales))
        self.codes[at], self.scales[at] = codes, scales[:, 0]
        self.errors[at] = np.linalg.norm(placed - codes * scales, axis=1)


@dataclass(slots=True)
class _Draft:
    """A file whose parts grow side by side; `sums` are their checksums so far."""

    file: IO[bytes]
    parts: Mapping[str, Part]
    written: dict[str, int] = field(default_factory=dict)
    sums: dict[str, int] = field(default_factory=dict)

    def append(self, name: str, rows: npt.NDArray[Any]) -> None:
        data = np.ascontiguousarray(rows, self.parts[name].kind).tobytes()
        at = self.written.get(name, 0)
        self.file.seek(self.parts[name].offset + at)
        self.file.write(data)
        self.written[name] = at + len(data)
        self.sums[name] = zlib.crc32(data, self.sums.get(name, 0))


def write(connection: duckdb.DuckDBPyConnection, path: Path, made_of: Mapping[str, Any]) -> None:
    """Write all parts block by block, the description last: without it, it is no side file."""
    space = learnt(matrix(connection.execute(_FIRST).to_arrow_table().column(0).combine_chunks()))
    texts = number(connection, f"SELECT count(*) {_TEXTS}")
    with path.open("wb") as file:
        draft = _Draft(file, layout(texts))
        keys = [np.zeros(0, "S16")]
        for found, rows in _read(connection):
            keys.append(found)
            _append(draft, space, rows)
        unordered = np.concatenate(keys)
        order = np.argsort(unordered, kind="stable")
        draft.append("digests", unordered[order])
        draft.append("order", order)
        draft.append("mean", space.mean)
        draft.append("axes", space.axes)
        describe(file, {**made_of, "texts": texts, "sums": draft.sums})


def describe(file: IO[bytes], said: Mapping[str, Any]) -> None:
    """Put the description in its place, once everything else is on the disk."""
    for data in (b"", json.dumps(said).encode().ljust(PAGE)):
        file.seek(0)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _append(draft: _Draft, space: Space, rows: Vectors) -> None:
    coded = Places.of(space, rows)
    draft.append("codes", coded.codes)
    draft.append("scales", coded.scales)
    draft.append("errors", coded.errors)
    draft.append("rows", rows)


def layout(texts: int) -> dict[str, Part]:
    """Where each part is: the large ones last."""
    width = EMBEDDING_DIMENSION
    shapes: dict[str, tuple[str, tuple[int, ...]]] = {
        "mean": ("<f8", (width,)),
        "axes": ("<f8", (width, width)),
        "digests": ("S16", (texts,)),
        "order": ("<i4", (texts,)),
        "scales": ("<f4", (texts,)),
        "errors": ("<f4", (texts,)),
        "codes": ("i1", (texts, width)),
        "rows": ("<f4", (texts, width)),
    }
    parts: dict[str, Part] = {}
    offset = PAGE
    for name, (kind, shape) in shapes.items():
        parts[name] = Part(kind, shape, offset)
        offset += -(-parts[name].bytes // PAGE) * PAGE
    return parts


def _read(connection: duckdb.DuckDBPyConnection) -> Iterator[tuple[Digests, Vectors]]:
    for batch in connection.execute(f"SELECT text_digest, embedding {_TEXTS}").to_arrow_reader(BLOCK_ROWS):
        yield digests(batch.column(0)), matrix(batch.column(1))


def matrix(column: pa.Array) -> Vectors:
    """An Arrow column of vectors as one array."""
    return np.asarray(column.flatten().to_numpy(zero_copy_only=False)).reshape(-1, EMBEDDING_DIMENSION)


def number(connection: duckdb.DuckDBPyConnection, sql: str) -> int:
    """The one number that a statement gives."""
    return int(connection.execute(sql).fetchall()[0][0])
