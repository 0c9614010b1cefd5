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
from stores.database import READER_THREADS
from stores.errors import LineageError
from stores.ranking import Floats
from stores.snapshot import Bools, Ints
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
    """A snapshot's texts in the side file: `rows` has each one's row, -1 for the tail, whose vectors are in `tail`.

    `tail_texts` are the places of the tail's texts among the snapshot's.
    """

    codes: Codes
    rows: Ints
    tail_texts: Ints
    tail: Vectors

    @property
    def bytes(self) -> int:
        """About how many bytes it keeps; what is mapped belongs to the system."""
        return self.rows.nbytes + self.tail_texts.nbytes + self.tail.nbytes

    def vectors(self, texts: Ints) -> Vectors:
        """The vectors of these texts as stored."""
        found = np.asarray(self.codes.rows[np.maximum(self.rows[texts], 0)])
        late = self.rows[texts] < 0
        found[late] = self.tail[np.searchsorted(self.tail_texts, texts[late])]
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
    about[coded.tail_texts] = exact(coded.tail)
    errors[coded.tail_texts] = 0
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
    texts = np.flatnonzero(asked & (coded.rows >= 0))
    rows, codes = coded.rows[texts], coded.codes
    if len(rows) > MOST_PICKED * len(codes.scales):
        found = _products(codes, None, query)[rows]
    else:
        found = _products(codes, rows, query)
    about[texts] = found * codes.scales[rows]
    errors[texts] = codes.errors[rows]
    return about, errors


def _products(codes: Codes, rows: Ints | None, query: Vectors) -> Vectors:
    """Codes times query, of these rows or of all, block by block and on several threads."""
    count = len(codes.scales) if rows is None else len(rows)
    found = np.empty(count, np.float32)
    threads = min(READER_THREADS, os.cpu_count() or 1)

    def scan(first: int) -> None:
        buffer = np.empty((BLOCK_ROWS, len(query)), np.float32)
        for start in range(first * BLOCK_ROWS, count, threads * BLOCK_ROWS):
            end = min(start + BLOCK_ROWS, count)
            block = codes.codes[start:end] if rows is None else codes.codes[rows[start:end]]
            np.copyto(buffer[: end - start], block)
            np.dot(buffer[: end - start], query, out=found[start:end])

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(scan, range(threads)))
    return found
