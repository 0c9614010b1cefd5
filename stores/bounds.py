"""The exhaustive ranking of a large index: all codes scanned, and only what may be among the best read in full."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from stores.codes import Codes
from stores.coding import Places
from stores.database import READER_THREADS
from stores.errors import LineageError
from stores.ranking import Floats
from stores.snapshot import Bools, Digests, Ints
from stores.space import BLOCK_ROWS, Vectors, unit

# Sums of 384 products of 32-bit floats around 1 are right to a ten-thousandth, with room.
ROUNDING: Final = 1e-4
# From this share of the codes on, reading them in their order is faster than picking.
MOST_PICKED: Final = 0.25

Score = Callable[[Vectors], Floats]


class CodesDamaged(LineageError):
    """A vector of the side file is not the one its code was made of."""


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """A snapshot's texts in the side file: `rows` has each one's row, -1 for the tail.

    Of the tail, `late` are its texts, `tail` their vectors and `places` their places.
    """

    codes: Codes
    rows: Ints
    late: Ints
    tail: Vectors
    places: Places

    @classmethod
    def of(cls, codes: Codes, texts: Digests, tail: Callable[[Digests], Vectors]) -> Coded:
        """What the file has of these texts, and the others by what `tail` says of them."""
        rows = codes.rows_of(texts)
        late = np.flatnonzero(rows < 0)
        vectors = tail(texts[late])
        return cls(codes, rows, late, vectors, Places.of(codes.space, vectors))

    @property
    def bytes(self) -> int:
        """About how many bytes it keeps; what is mapped belongs to the system."""
        kept = (self.rows, self.late, self.tail, self.places.codes, self.places.scales, self.places.errors)
        return sum(part.nbytes for part in kept)

    def vectors(self, texts: Ints) -> Vectors:
        """The vectors of these texts as stored."""
        found = np.asarray(self.codes.rows[np.maximum(self.rows[texts], 0)])
        late = self.rows[texts] < 0
        found[late] = self.tail[np.searchsorted(self.late, texts[late])]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Asking:
    """One question: the hunks that are `kept`, each one's text and what is added to its text's score."""

    texts: Ints
    kept: Bools
    added: npt.NDArray[np.floating[Any]]


def scores(coded: Coded, asking: Asking, query: Floats, exact: Score, *, limit: int) -> tuple[Floats, Bools]:
    """The exact score of each hunk that may be among the best, 0 for the others; and which hunks these are."""
    count = len(coded.rows)
    asked = np.zeros(count, np.bool_)
    asked[asking.texts[asking.kept]] = True
    about, errors = _about(coded, asked, unit(query).astype(np.float32))
    middle = about[asking.texts] + asking.added
    width = errors[asking.texts] + ROUNDING
    candidates = asking.kept & (middle + width >= _least(middle - width, asking.kept, limit))
    wanted = np.unique(asking.texts[candidates])
    found = np.zeros(count)
    found[wanted] = exact(coded.vectors(wanted))
    if np.any(np.abs(found[wanted] - about[wanted]) > errors[wanted] + ROUNDING):
        raise CodesDamaged(
            f"{coded.codes.file} is damaged.", hint="Run `lineage index`, which makes it anew."
        )
    return found[asking.texts], candidates


def _least(lowest: Floats, kept: Bools, limit: int) -> float:
    """The score that as many hunks as are asked for have at least."""
    found = lowest[kept]
    if len(found) <= limit:
        return -np.inf
    return float(np.partition(found, len(found) - limit)[len(found) - limit])


def _about(coded: Coded, asked: Bools, query: Vectors) -> tuple[Floats, Floats]:
    """By the codes: about which score each text that is asked for has, and by how much it may be off."""
    about, errors = np.zeros(len(asked)), np.zeros(len(asked))
    early = np.flatnonzero(asked & (coded.rows >= 0))
    late = np.flatnonzero(asked[coded.late])
    for texts, rows, places in (
        (early, coded.rows[early], coded.codes.coded),
        (coded.late[late], late, coded.places),
    ):
        about[texts] = _products(places.codes, rows, query) * places.scales[rows]
        errors[texts] = places.errors[rows]
    return about, errors


def _products(codes: npt.NDArray[np.int8], rows: Ints, query: Vectors) -> Vectors:
    """These rows times the query, block by block and on several threads."""
    if len(rows) > MOST_PICKED * len(codes):
        return _scanned(len(codes), query, lambda start, end: codes[start:end])[rows]
    return _scanned(len(rows), query, lambda start, end: codes[rows[start:end]])


def _scanned(count: int, query: Vectors, block: Callable[[int, int], npt.NDArray[np.int8]]) -> Vectors:
    found = np.empty(count, np.float32)
    threads = min(READER_THREADS, os.cpu_count() or 1)

    def scan(first: int) -> None:
        buffer = np.empty((BLOCK_ROWS, len(query)), np.float32)
        for start in range(first * BLOCK_ROWS, count, threads * BLOCK_ROWS):
            end = min(start + BLOCK_ROWS, count)
            np.copyto(buffer[: end - start], block(start, end))
            np.dot(buffer[: end - start], query, out=found[start:end])

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(scan, range(threads)))
    return found
