"""The side file of a large index, as it lies on the disk and as it is written; what it is for is told in `codes`."""

from __future__ import annotations

import json
import math
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stores.ranking import Floats
from stores.snapshot import Digests, digests
from stores.space import BLOCK_ROWS, MOST_TO_LEARN_FROM, Space, Vectors, learnt
from stores.versions import EMBEDDING_DIMENSION

Codes8: TypeAlias = npt.NDArray[np.int8]

# The file begins with its description, and each part on a page of its own.
PAGE: Final = 4_096
_LEVELS: Final = 127
# The axes that a question scans for every text, in the order of how much the texts spread along them; the others it
# reads of those texts only that may still be among the best. On flask's history these are 0.2 to 19 texts in a
# hundred, 3 on average; of the first 192 axes a quarter is left, and picking so many costs what they save.
FIRST_AXES: Final = 256

_TEXTS: Final = "FROM vectors SEMI JOIN hunks USING (text_digest)"
# Digests are put in order before there are vectors beside them, which would all be in memory for it.
_FIRST: Final = f"""
SELECT embedding
FROM vectors
SEMI JOIN (SELECT text_digest {_TEXTS} ORDER BY text_digest LIMIT {MOST_TO_LEARN_FROM}) USING (text_digest)
ORDER BY text_digest"""


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
    """Texts' places in the space with eight bits a number: a row's codes times its scale have about length 1.

    `first` are the codes along the first axes, `rest` those along the others, and `rests` the lengths of what these
    stand for. `errors` are the distances between the codes and the places they stand for.
    """

    first: Codes8
    rest: Codes8
    scales: Vectors
    rests: Vectors
    errors: Vectors

    @property
    def bytes(self) -> int:
        """How many bytes these are."""
        return sum(part.nbytes for part in (self.first, self.rest, self.scales, self.rests, self.errors))

    @classmethod
    def of(cls, space: Space, rows: Vectors) -> Places:
        """The places of these vectors, worked out in blocks."""
        count = len(rows)
        first, rest = np.hsplit(np.empty(rows.shape, np.int8), [FIRST_AXES])
        scales, rests, errors = np.empty((3, count), np.float32)
        made = cls(first, rest, scales, rests, errors)
        for start in range(0, count, BLOCK_ROWS):
            at = slice(start, start + BLOCK_ROWS)
            made._fill(at, space.placed(rows[at].astype(np.float64)))
        return made

    def decoded(self, rows: npt.NDArray[np.int32]) -> Floats:
        """The places that the codes of these rows stand for."""
        codes = np.hstack((self.first[rows], self.rest[rows]))
        return np.asarray(codes * self.scales[rows, None].astype(np.float64))

    def _fill(self, at: slice, placed: Floats) -> None:
        lengths = np.linalg.norm(placed, axis=1, keepdims=True)
        placed /= np.where(lengths == 0, 1, lengths)
        scales = (np.abs(placed).max(axis=1, keepdims=True) / _LEVELS).astype(np.float32)
        codes = np.rint(placed / np.where(scales == 0, 1, scales))
        self.first[at], self.rest[at], self.scales[at] = *np.hsplit(codes, [FIRST_AXES]), scales[:, 0]
        coded = codes * scales
        self.rests[at] = np.linalg.norm(coded[:, FIRST_AXES:], axis=1)
        self.errors[at] = np.linalg.norm(placed - coded, axis=1)


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
    sample = matrix(connection.execute(_FIRST).to_arrow_table().column(0).combine_chunks())
    space = learnt(sample).turned(sample)
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
    for part in fields(Places):
        draft.append(part.name, getattr(coded, part.name))
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
        "rests": ("<f4", (texts,)),
        "errors": ("<f4", (texts,)),
        "first": ("i1", (texts, FIRST_AXES)),
        "rest": ("i1", (texts, width - FIRST_AXES)),
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
