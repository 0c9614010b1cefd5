"""Side file of a large index: layout, writing, opening and check for staleness.

For each text the file holds the int8 codes of its whitened vector, the quantization error and the stored vector.
`quantized_search` scans the codes and computes exact scores from a few of the vectors. Texts that are newer than the
file, the tail, are searched in memory. "Large indexes" in README.md gives the reasons and measurements.
"""

from __future__ import annotations

import json
import logging
import math
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stores import compatibility, database, duckdb_engine, history
from stores.database import READ_WAIT_SECONDS, fetch_int
from stores.duckdb_engine import make_files_private
from stores.errors import StorageError
from stores.index_location import IndexLocation
from stores.snapshot import Digests, Floats, Ints, to_digest_array
from stores.types import EMBEDDING_DIMENSION
from stores.whitening import (
    BLOCK_ROWS,
    MAX_TEXTS_TO_FIT,
    WHITENING_EXPONENT,
    Vectors,
    Whitening,
    fit_whitening,
)

logger = logging.getLogger(__name__)

Codes8: TypeAlias = npt.NDArray[np.int8]

# Increased with every change of the file format or of the whitening.
FORMAT_VERSION: Final = 2
# Suffix of the file while it is written.
TEMP_SUFFIX: Final = ".draft"
# The header takes the first page, and each array begins on a new page.
PAGE_BYTES: Final = 4_096
# Dimensions that every query scans, in order of decreasing variance. See "Large indexes" in README.md.
LEADING_DIMENSIONS: Final = 256
# Share of texts in the tail above which a new file is written. The tail takes memory, 77 MB for 5 % of a million texts;
# a new file takes a minute.
MAX_TAIL_SHARE: Final = 0.05
_MAX_CODE: Final = 127

# Names of the arrays of QuantizedVectors in the file.
_ARRAY_NAMES: Final = {
    "leading_codes": "first",
    "trailing_codes": "rest",
    "scales": "scales",
    "trailing_norms": "rests",
    "errors": "errors",
}
# Components that determine the vector of a text.
_VECTOR_COMPONENTS: Final = ("embedding_model", "embedding_dimension", "embed_cache")

_TEXTS_SQL: Final = "FROM vectors SEMI JOIN hunks USING (text_digest)"
# The inner query sorts only the digests: a sort of the joined rows would load all vectors into memory.
_SAMPLE_SQL: Final = f"""
SELECT embedding
FROM vectors
SEMI JOIN (SELECT text_digest {_TEXTS_SQL} ORDER BY text_digest LIMIT {MAX_TEXTS_TO_FIT}) USING (text_digest)
ORDER BY text_digest"""


@dataclass(frozen=True, slots=True)
class FileArray:
    """Type, shape and place of an array in the file; `offset` in bytes from the beginning."""

    dtype: str
    shape: tuple[int, ...]
    offset: int

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        return int(math.prod(self.shape) * np.dtype(self.dtype).itemsize)


@dataclass(frozen=True, slots=True, eq=False)
class QuantizedVectors:
    """Whitened unit vectors as int8 codes; a vector is approximately its codes times its scale.

    leading_codes: codes of the first LEADING_DIMENSIONS dimensions. trailing_codes: the remaining dimensions.
    trailing_norms: L2 norm of the decoded trailing part. errors: L2 quantization error. One row or element per text.
    """

    leading_codes: Codes8
    trailing_codes: Codes8
    scales: Vectors
    trailing_norms: Vectors
    errors: Vectors

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        return sum(getattr(self, name).nbytes for name in _ARRAY_NAMES)

    @classmethod
    def from_vectors(cls, whitening: Whitening, vectors: Vectors) -> QuantizedVectors:
        """Whiten and quantize these vectors, in blocks."""
        leading_codes, trailing_codes = np.hsplit(np.empty(vectors.shape, np.int8), [LEADING_DIMENSIONS])
        scales, trailing_norms, errors = np.empty((3, len(vectors)), np.float32)
        quantized = cls(leading_codes, trailing_codes, scales, trailing_norms, errors)
        for start in range(0, len(vectors), BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            quantized._set_block(block, whitening.transform(vectors[block].astype(np.float64)))
        return quantized

    def decode(self, rows: npt.NDArray[np.int32]) -> Floats:
        """Return the vectors that the codes of these rows represent."""
        codes = np.hstack((self.leading_codes[rows], self.trailing_codes[rows]))
        return np.asarray(codes * self.scales[rows, None].astype(np.float64))

    def _set_block(self, block: slice, whitened: Floats) -> None:
        norms = np.linalg.norm(whitened, axis=1, keepdims=True)
        whitened /= np.where(norms == 0, 1, norms)
        scales = (np.abs(whitened).max(axis=1, keepdims=True) / _MAX_CODE).astype(np.float32)
        codes = np.rint(whitened / np.where(scales == 0, 1, scales))
        self.leading_codes[block], self.trailing_codes[block] = np.hsplit(codes, [LEADING_DIMENSIONS])
        self.scales[block] = scales[:, 0]
        decoded = codes * scales
        self.trailing_norms[block] = np.linalg.norm(decoded[:, LEADING_DIMENSIONS:], axis=1)
        self.errors[block] = np.linalg.norm(whitened - decoded, axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class QuantizedFile:
    """Open side file, mapped into memory.

    digests: digests of all texts, ascending. rows: for each digest, the row of its text in `quantized` and `vectors`.
    """

    path: Path
    whitening: Whitening
    digests: Digests
    rows: npt.NDArray[np.int32]
    quantized: QuantizedVectors
    vectors: Vectors

    def find_rows(self, digests: Digests) -> Ints:
        """Return the row of each text; -1 if it is not in the file."""
        indices = np.minimum(np.searchsorted(self.digests, digests), len(self.digests) - 1)
        return np.where(self.digests[indices] == digests, self.rows[indices], -1).astype(np.int64)

    def discard(self) -> None:
        """Delete the damaged file; the next index run writes a new one."""
        logger.warning("event=codes_damaged file=%s: the next `lineage index` writes a new one.", self.path)
        with suppress(OSError):  # on a read-only file system the file remains, and each query ignores it
            self.path.unlink(missing_ok=True)


def open_quantized_file(connection: duckdb.DuckDBPyConnection, path: Path) -> QuantizedFile | None:
    """Open the side file; None if it is missing, incomplete, damaged or made by other component versions.

    A damaged file is deleted.
    """
    header = _read_header(path, _describe_origin(connection))
    if header is None:
        return None
    layout = compute_file_layout(header["texts"])
    arrays = {
        name: np.memmap(path, file_array.dtype, "r", file_array.offset, file_array.shape)
        for name, file_array in layout.items()
    }
    whitening = Whitening(np.array(arrays.pop("mean")), np.array(arrays.pop("axes")))
    quantized = QuantizedVectors(**{name: arrays[part_name] for name, part_name in _ARRAY_NAMES.items()})
    file = QuantizedFile(path, whitening, arrays["digests"], arrays["order"], quantized, arrays["rows"])
    # The vectors are checked when they are read (`QuantizedSnapshot.read_verified_vectors`).
    if any(
        _compute_checksum(path, layout[name]) != header["sums"][name] for name in layout if name != "rows"
    ):
        file.discard()
        return None
    return file


def is_quantized_file_missing(connection: duckdb.DuckDBPyConnection, location: IndexLocation) -> bool:
    """Return True if the index is large and has no valid side file; checksums are not verified."""
    return (
        history.needs_side_file(connection)
        and _read_header(location.quantized_vectors, _describe_origin(connection)) is None
    )


def refresh_quantized_file(location: IndexLocation, *, wait: float = READ_WAIT_SECONDS) -> bool:
    """Write the side file if the index needs a new one, or delete it if it needs none; return whether it was written.

    Call this only at the end of an index run. On a storage error, such as a full disk, it logs a warning.
    """
    temp_file = location.quantized_vectors.with_name(f"{location.quantized_vectors.name}{TEMP_SUFFIX}")
    try:
        temp_file.unlink(missing_ok=True)
        with database.open_for_reading(location, wait=wait) as connection, make_files_private():
            if not duckdb_engine.run_in_limited_memory(
                connection, partial(_needs_refresh, connection, location)
            ):
                return False
            duckdb_engine.run_in_limited_memory(
                connection,
                partial(write_quantized_file, connection, temp_file, _describe_origin(connection)),
            )
        temp_file.replace(location.quantized_vectors)
    except (OSError, StorageError) as error:
        temp_file.unlink(missing_ok=True)
        logger.warning("event=codes_not_made reason=%s: queries work without the file, but slower.", error)
        return False
    return True


def write_quantized_file(
    connection: duckdb.DuckDBPyConnection, path: Path, origin: Mapping[str, Any]
) -> None:
    """Write all arrays in blocks, and then the header, without which the file is invalid."""
    sample = to_matrix(connection.execute(_SAMPLE_SQL).to_arrow_table().column(0).combine_chunks())
    whitening = fit_whitening(sample).rotate_to_principal_axes(sample)
    texts = fetch_int(connection, f"SELECT count(*) {_TEXTS_SQL}")
    with path.open("wb") as file:
        writer = _ArrayWriter(file, compute_file_layout(texts))
        digest_blocks = [np.zeros(0, "S16")]
        for block_digests, vectors in _read_blocks(connection):
            digest_blocks.append(block_digests)
            _append_block(writer, whitening, vectors)
        digests = np.concatenate(digest_blocks)
        order = np.argsort(digests, kind="stable")
        writer.append("digests", digests[order])
        writer.append("order", order)
        writer.append("mean", whitening.mean)
        writer.append("axes", whitening.axes)
        write_header(file, {**origin, "texts": texts, "sums": writer.checksums})


def write_header(file: IO[bytes], header: Mapping[str, Any]) -> None:
    """Write the header into the first page, after the arrays are on disk."""
    for data in (b"", json.dumps(header).encode().ljust(PAGE_BYTES)):
        file.seek(0)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def compute_file_layout(texts: int) -> dict[str, FileArray]:
    """Return the arrays of a file with this many texts, by name, in the order of their offsets."""
    width = EMBEDDING_DIMENSION
    shapes: dict[str, tuple[str, tuple[int, ...]]] = {
        "mean": ("<f8", (width,)),
        "axes": ("<f8", (width, width)),
        "digests": ("S16", (texts,)),
        "order": ("<i4", (texts,)),
        "scales": ("<f4", (texts,)),
        "rests": ("<f4", (texts,)),
        "errors": ("<f4", (texts,)),
        "first": ("i1", (texts, LEADING_DIMENSIONS)),
        "rest": ("i1", (texts, width - LEADING_DIMENSIONS)),
        "rows": ("<f4", (texts, width)),
    }
    layout: dict[str, FileArray] = {}
    offset = PAGE_BYTES
    for name, (dtype, shape) in shapes.items():
        layout[name] = FileArray(dtype, shape, offset)
        offset += -(-layout[name].bytes // PAGE_BYTES) * PAGE_BYTES
    return layout


def to_matrix(column: pa.Array) -> Vectors:
    """Convert an Arrow column of vectors to a matrix with one row per vector."""
    return np.asarray(column.flatten().to_numpy(zero_copy_only=False)).reshape(-1, EMBEDDING_DIMENSION)


@dataclass(slots=True)
class _ArrayWriter:
    """Writer that appends to the arrays of a file in any order and updates their sizes in bytes and checksums."""

    file: IO[bytes]
    layout: Mapping[str, FileArray]
    size_by_name: dict[str, int] = field(default_factory=dict)
    checksums: dict[str, int] = field(default_factory=dict)

    def append(self, name: str, rows: npt.NDArray[Any]) -> None:
        data = np.ascontiguousarray(rows, self.layout[name].dtype).tobytes()
        offset = self.size_by_name.get(name, 0)
        self.file.seek(self.layout[name].offset + offset)
        self.file.write(data)
        self.size_by_name[name] = offset + len(data)
        self.checksums[name] = zlib.crc32(data, self.checksums.get(name, 0))


def _append_block(writer: _ArrayWriter, whitening: Whitening, vectors: Vectors) -> None:
    quantized = QuantizedVectors.from_vectors(whitening, vectors)
    for name, part_name in _ARRAY_NAMES.items():
        writer.append(part_name, getattr(quantized, name))
    writer.append("rows", vectors)


def _read_blocks(connection: duckdb.DuckDBPyConnection) -> Iterator[tuple[Digests, Vectors]]:
    for batch in connection.execute(f"SELECT text_digest, embedding {_TEXTS_SQL}").to_arrow_reader(
        BLOCK_ROWS
    ):
        yield to_digest_array(batch.column(0)), to_matrix(batch.column(1))


def _needs_refresh(connection: duckdb.DuckDBPyConnection, location: IndexLocation) -> bool:
    texts = 0
    if history.needs_side_file(connection):
        texts = fetch_int(connection, "SELECT count(DISTINCT text_digest) FROM hunks")
    if texts <= history.MAX_ROWS_IN_MEMORY:
        location.quantized_vectors.unlink(missing_ok=True)
        return False
    header = _read_header(location.quantized_vectors, _describe_origin(connection))
    return header is None or texts - header["texts"] > MAX_TAIL_SHARE * texts


def _read_header(path: Path, origin: dict[str, Any]) -> dict[str, Any] | None:
    """Return the header if the file has the length that follows from it and this origin; else None."""
    try:
        with path.open("rb") as file:
            header: dict[str, Any] = json.loads(file.read(PAGE_BYTES))
            last_array = compute_file_layout(header["texts"])["rows"]
            is_complete = os.fstat(file.fileno()).st_size == last_array.offset + last_array.bytes
        return header if is_complete and header["sums"] and origin.items() <= header.items() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _describe_origin(connection: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    # The versions of the rows, because those of the run in progress are not confirmed yet.
    recorded = compatibility.load_recorded_versions(connection)
    versions = {
        name: [row.version for row in recorded.select_row_versions(name)] for name in _VECTOR_COMPONENTS
    }
    return {
        **versions,
        "version": FORMAT_VERSION,
        "evening": WHITENING_EXPONENT,
        "learnt_from": MAX_TEXTS_TO_FIT,
    }


def _compute_checksum(path: Path, file_array: FileArray) -> int:
    """Return the CRC-32 of an array of the file, read in blocks."""
    checksum = 0
    with path.open("rb") as file:
        file.seek(file_array.offset)
        for start in range(0, file_array.bytes, 1 << 20):
            checksum = zlib.crc32(file.read(min(1 << 20, file_array.bytes - start)), checksum)
    return checksum
