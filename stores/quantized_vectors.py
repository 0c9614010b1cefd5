"""The side file of a large index, as it lies on the disk and as it is written; what it is for is told in `codes`.

The side file of an index with too many vectors to keep in memory: made of the index, and made again at any time.

Of each text it has a code, its place in the whitened space with eight bits a number; how far the code is from the
place; and the vector as stored. A question scans the codes, a quarter of the vectors' bytes, and knows of each text
between which bounds its score lies; only the few texts that may be among the best are scored by their vectors. So
the ranking is the exhaustive one, filtered or not.

Why no HNSW graph, which DuckDB's VSS extension builds: a graph cannot be asked for some of its texts only, so that a
filter leaves few of the candidates it gives, and it misses some without one. Over 38,585 real vectors it found 93 of
the hundred best in 41 ms, after 17 s of building and with every vector in memory; scanning that many codes takes less,
and misses none. `tests/bench/large_index.py --graph` measures both.

The space is that of the index when the file was made. A text never changes its vector, so the file is good for every
later state of the index as far as it goes; texts that came since, the tail, are scored by their vectors.
"""

from __future__ import annotations

import json
import logging
import math
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stores import compatibility, database, duckdb_engine, history
from stores.database import READ_WAIT_SECONDS
from stores.duckdb_engine import private
from stores.errors import Refused
from stores.index_location import Place
from stores.snapshot import Digests, Floats, Ints, digests
from stores.types import EMBEDDING_DIMENSION
from stores.whitening import BLOCK_ROWS, EVENING, MOST_TO_LEARN_FROM, Space, Vectors, learnt

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


logger = logging.getLogger(__name__)

# The tail is kept in memory: at a million texts a twentieth is 77 MB, and making the file anew takes a minute.
# By so much at most the texts have outgrown those that the space was learnt from.
LONGEST_TAIL_SHARE: Final = 0.05
# What a file is called while it is made.
DRAFT: Final = ".draft"
# Rises whenever the file's form or the way to the space changes.
VERSION: Final = 2

# Of the components, those that say what a text's vector is.
_OF_VECTORS: Final = ("embedding_model", "embedding_dimension", "embed_cache")


@dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """An opened side file, mapped, not read: `coded` are the texts' places, `rows` their vectors as stored.

    `digests` ascend, and `order` says in which row each one's text is.
    """

    file: Path
    space: Space
    digests: Digests
    order: npt.NDArray[np.int32]
    coded: Places
    rows: Vectors

    def rows_of(self, texts: Digests) -> Ints:
        """The row of each text, -1 where the file has none."""
        found = np.minimum(np.searchsorted(self.digests, texts), len(self.digests) - 1)
        return np.where(self.digests[found] == texts, self.order[found], -1).astype(np.int64)

    def discard(self) -> None:
        """Delete the file, because it is not what it was; the next run makes it anew."""
        logger.warning("event=codes_damaged file=%s: the next `lineage index` makes it anew.", self.file)
        with suppress(OSError):  # where it may only be read, it is passed over each time
            self.file.unlink(missing_ok=True)


def opened(connection: duckdb.DuckDBPyConnection, file: Path) -> Codes | None:
    """The side file, where there is one that is whole and goes with the index; a damaged one is deleted."""
    said = _said(file, _made_of(connection))
    if said is None:
        return None
    parts = layout(said["texts"])
    mapped = {name: np.memmap(file, part.kind, "r", part.offset, part.shape) for name, part in parts.items()}
    space = Space(np.array(mapped.pop("mean")), np.array(mapped.pop("axes")))
    coded = Places(*(mapped[part.name] for part in fields(Places)))
    codes = Codes(file, space, mapped["digests"], mapped["order"], coded, mapped["rows"])
    if any(_sum(file, parts[name]) != said["sums"][name] for name in parts if name != "rows"):
        codes.discard()
        return None
    return codes


def is_missing(connection: duckdb.DuckDBPyConnection, place: Place) -> bool:
    """Whether the index is large and no side file goes with it; whole is what it seems, not what it is."""
    return history.needs_side_file(connection) and _said(place.codes, _made_of(connection)) is None


def refresh(place: Place, *, wait: float = READ_WAIT_SECONDS) -> bool:
    """Make the side file if the index needs it and has none that is good; for the only indexing run, at its end.

    Says whether it made one. A disk without room is no failure: the index answers without it, in more time.
    """
    draft = place.codes.with_name(f"{place.codes.name}{DRAFT}")
    try:
        draft.unlink(missing_ok=True)
        with database.reading(place, wait=wait) as connection, private():
            if not duckdb_engine.frugally(connection, partial(_is_worth_making, connection, place)):
                return False
            duckdb_engine.frugally(connection, partial(write, connection, draft, _made_of(connection)))
        draft.replace(place.codes)
    except (OSError, Refused) as error:
        draft.unlink(missing_ok=True)
        logger.warning("event=codes_not_made reason=%s: questions are answered without, but slower.", error)
        return False
    return True


def _is_worth_making(connection: duckdb.DuckDBPyConnection, place: Place) -> bool:
    texts = 0
    if history.needs_side_file(connection):
        texts = number(connection, "SELECT count(DISTINCT text_digest) FROM hunks")
    if texts <= history.MOST_KEPT_ROWS:
        place.codes.unlink(missing_ok=True)
        return False
    said = _said(place.codes, _made_of(connection))
    return said is None or texts - said["texts"] > LONGEST_TAIL_SHARE * texts


def _said(file: Path, made_of: dict[str, Any]) -> dict[str, Any] | None:
    """What the file says of itself, if it is as long as that takes and was made of the same."""
    try:
        with file.open("rb") as read:
            said: dict[str, Any] = json.loads(read.read(PAGE))
            last = layout(said["texts"])["rows"]
            whole = os.fstat(read.fileno()).st_size == last.offset + last.bytes
        return said if whole and said["sums"] and made_of.items() <= said.items() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _made_of(connection: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    # What made the rows, for a pass at work vouches for nothing before its end; passes never mix vectors.
    recorded = compatibility.recorded(connection)
    vectors = {name: [made.version for made in recorded.of(name)] for name in _OF_VECTORS}
    return {**vectors, "version": VERSION, "evening": EVENING, "learnt_from": MOST_TO_LEARN_FROM}


def _sum(file: Path, part: Part) -> int:
    """The checksum of a part, read in blocks."""
    found = 0
    with file.open("rb") as read:
        read.seek(part.offset)
        for start in range(0, part.bytes, 1 << 20):
            found = zlib.crc32(read.read(min(1 << 20, part.bytes - start)), found)
    return found
