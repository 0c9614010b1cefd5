"""The exhaustive ranking of a large index: all codes scanned, and only what may be among the best read in full.

A text is looked at in three steps, each for the few that the one before could not rule out: its codes along the first
axes, with a bound on what the others may add; all its codes, with a bound on what they leave out; and its vector.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from stores.duckdb_engine import READER_THREADS
from stores.errors import LineageError
from stores.quantized_vectors import FIRST_AXES, Codes, Codes8, Places
from stores.snapshot import Bools, Floats, Ints, Snapshot
from stores.whitening import Vectors, unit

# Sums of 384 products of 32-bit floats around 1 are right to a ten-thousandth, with room.
ROUNDING: Final = 1e-4
# From this share of the codes on, reading them in their order is faster than picking.
MOST_PICKED: Final = 0.25
# As many times the hunks that are asked for are looked at first, for a score that the best ones have at least.
PROMISING: Final = 4
# So many rows as 32-bit floats are half a megabyte, which the second cache of a core keeps until they are multiplied.
SCANNED_ROWS: Final = 512

Rows: TypeAlias = npt.NDArray[np.int32]
Score: TypeAlias = Callable[[Vectors], Floats]
Some: TypeAlias = Rows | slice
# Two figures of each of these rows.
Measure: TypeAlias = Callable[[Places, Some], Vectors]


class CodesDamaged(LineageError):
    """A vector of the side file is not the one its code was made of."""


def damaged(codes: Codes) -> CodesDamaged:
    """What is said of such a file."""
    return CodesDamaged(f"{codes.file} is damaged.", hint="Run `lineage index`, which makes it anew.")


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """A snapshot's hunks in the side file: `rows` has the row of each one's text, the tail's after those of the file.

    Of the tail, `tail` are the vectors and `places` their places.
    """

    codes: Codes
    rows: Rows
    tail: Vectors
    places: Places

    @classmethod
    def of(cls, codes: Codes, snapshot: Snapshot, tail: Callable[..., Vectors]) -> Coded:
        """What the file has of the snapshot's texts, and the others by what `tail` says of them."""
        rows = codes.rows_of(snapshot.texts)
        late = np.flatnonzero(rows < 0)
        rows[late] = len(codes.rows) + np.arange(len(late))
        vectors = tail(snapshot.texts[late])
        by_hunk = rows.astype(np.int32)[snapshot.hunks.texts]
        return cls(codes, by_hunk, vectors, Places.of(codes.space, vectors))

    @property
    def bytes(self) -> int:
        """About how many bytes it keeps; what is mapped belongs to the system."""
        return self.rows.nbytes + self.tail.nbytes + self.places.bytes

    def vectors(self, rows: Rows) -> Vectors:
        """The vectors of these rows as stored; CodesDamaged where one has no numbers."""
        early = len(self.codes.rows)
        found = np.asarray(self.codes.rows[np.minimum(rows, early - 1)])
        late = rows >= early
        found[late] = self.tail[rows[late] - early]
        if not np.isfinite(found).all():
            raise damaged(self.codes)
        return found

    def sound(self, rows: Rows) -> Vectors:
        """The vectors of these rows; CodesDamaged where one is not what its code was made of."""
        found = self.vectors(rows)
        early = rows < len(self.codes.rows)
        placed = self.codes.space.placed(found[early].astype(np.float64))
        placed /= np.maximum(np.linalg.norm(placed, axis=1, keepdims=True), np.finfo(np.float64).tiny)
        off = np.linalg.norm(placed - self.codes.coded.decoded(rows[early]), axis=1)
        if np.any(off > self.codes.coded.errors[rows[early]] + ROUNDING):
            raise damaged(self.codes)
        return found

    def measured(self, rows: Rows, measure: Measure) -> Vectors:
        """What `measure` says of these rows, whether they are of the file or of the tail."""
        early = len(self.codes.rows)
        if len(rows) > MOST_PICKED * early:
            everything = [measure(places, slice(None)) for places in (self.codes.coded, self.places)]
            return np.take(np.hstack(everything), rows, axis=1)
        found = np.empty((2, len(rows)), np.float32)
        late = rows >= early
        found[:, ~late] = measure(self.codes.coded, rows[~late])
        found[:, late] = measure(self.places, rows[late] - early)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Asking:
    """One question: the hunks that pass its filters, which hunks it prefers, and by how much these rise."""

    hunks: Ints
    preferred: Bools
    rise: float

    def added(self, some: Ints | slice) -> Floats:
        """What is added to the scores of some of the hunks."""
        return np.asarray(self.rise * self.preferred[self.hunks[some]])


@dataclass(frozen=True, slots=True, eq=False)
class Direction:
    """A question's place, along the first axes and along the others."""

    first: Vectors
    rest: Vectors

    @classmethod
    def of(cls, query: Floats) -> Direction:
        """The direction of a place."""
        return cls(*np.split(unit(query).astype(np.float32), [FIRST_AXES]))

    def at_first(self, places: Places, rows: Some) -> Vectors:
        """By the first axes: about which score each text has, and at most which."""
        about = _products(places.first, rows, self.first) * places.scales[rows]
        rest = places.rests[rows] * np.float32(np.linalg.norm(self.rest))
        return np.stack((about, about + rest + places.errors[rows] + ROUNDING))

    def at_all(self, places: Places, rows: Some) -> Vectors:
        """By all axes: about which score each text has, and by how much it may be off."""
        products = _products(places.first, rows, self.first) + _products(places.rest, rows, self.rest)
        return np.stack((products * places.scales[rows], places.errors[rows] + ROUNDING))


def scores(coded: Coded, asking: Asking, query: Floats, exact: Score, *, limit: int) -> tuple[Ints, Floats]:
    """The hunks that may be among the best, by position, and the exact score of each."""
    direction = Direction.of(query)
    rows = coded.rows[asking.hunks]
    about, most = coded.measured(rows, direction.at_first)
    if asking.preferred.any():
        about, most = about + asking.added(slice(None)), most + asking.added(slice(None))
    promising = np.flatnonzero(about >= _least(about, PROMISING * limit))
    middle, off = coded.measured(rows[promising], direction.at_all)
    least = _least(middle - off + asking.added(promising), limit)
    near = np.flatnonzero(most >= least)
    middle, off = coded.measured(rows[near], direction.at_all)
    left = middle + off + asking.added(near) >= least
    near, middle, off = near[left], middle[left], off[left]
    found = _exact(coded, rows[near], exact)
    if np.any(np.abs(found - middle) > off):
        raise damaged(coded.codes)
    return asking.hunks[near], found + asking.added(near)


def _exact(coded: Coded, rows: Rows, exact: Score) -> Floats:
    wanted, back = np.unique(rows, return_inverse=True)
    return exact(coded.sound(wanted))[back]


def _least(found: Vectors | Floats, limit: int) -> float:
    """The score that as many as are asked for have at least."""
    if len(found) <= limit:
        return -np.inf
    return float(np.partition(found, len(found) - limit)[len(found) - limit])


def _products(codes: Codes8, rows: Some, query: Vectors) -> Vectors:
    """These rows times the query, block by block and on several threads."""
    if isinstance(rows, slice):
        return _scanned(len(codes), query, lambda start, end: codes[start:end])
    return _scanned(len(rows), query, lambda start, end: codes[rows[start:end]])


def _scanned(count: int, query: Vectors, block: Callable[[int, int], Codes8]) -> Vectors:
    found = np.empty(count, np.float32)
    blocks = -(-count // SCANNED_ROWS)
    threads = min(READER_THREADS, os.cpu_count() or 1, blocks)

    def scan(first: int) -> None:
        buffer = np.empty((SCANNED_ROWS, len(query)), np.float32)
        for start in range(first * SCANNED_ROWS, count, max(1, threads) * SCANNED_ROWS):
            end = min(start + SCANNED_ROWS, count)
            np.copyto(buffer[: end - start], block(start, end))
            np.dot(buffer[: end - start], query, out=found[start:end])

    if threads <= 1:
        scan(0)
        return found
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(scan, range(threads)))
    return found
