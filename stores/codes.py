"""The side file of an index with too many vectors to keep in memory: made of the index, and made again at any time.

Of each text it has a code, its place in the whitened space with eight bits a number; how far the code is from the
place; and the vector as stored. A question scans the codes, a quarter of the vectors' bytes, and knows of each text
between which bounds its score lies; only the few texts that may be among the best are scored by their vectors. So
the ranking is the exhaustive one, filtered or not.

Why no HNSW graph, which DuckDB's VSS extension builds: a graph cannot be asked for some of its texts only, so that a
filter leaves few of the candidates it gives, and it misses some without one. Over 38,585 real vectors it found 93 of
the hundred best in 41 ms, after 17 s of building and with every vector in memory; scanning that many codes takes less,
and misses none. `tests/bench/large.py --graph` measures both.

The space is that of the index when the file was made. A text never changes its vector, so the file is good for every
later state of the index as far as it goes; texts that came since, the tail, are scored by their vectors.
"""

from __future__ import annotations

import json
import logging
import os
import zlib
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import numpy.typing as npt

from stores import coding, database, engines, large, metadata
from stores.coding import PAGE, Part, Places
from stores.database import READ_WAIT_SECONDS
from stores.places import Place
from stores.privacy import private
from stores.refusals import Refused
from stores.snapshot import Digests, Ints
from stores.space import EVENING, MOST_TO_LEARN_FROM, Space, Vectors

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
    parts = coding.layout(said["texts"])
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
    return large.may_be(connection) and _said(place.codes, _made_of(connection)) is None


def refresh(place: Place, *, wait: float = READ_WAIT_SECONDS) -> bool:
    """Make the side file if the index needs it and has none that is good; for the only indexing run, at its end.

    Says whether it made one. A disk without room is no failure: the index answers without it, in more time.
    """
    draft = place.codes.with_name(f"{place.codes.name}{DRAFT}")
    try:
        draft.unlink(missing_ok=True)
        with database.reading(place, wait=wait) as connection, private():
            if not engines.frugally(connection, partial(_is_worth_making, connection, place)):
                return False
            engines.frugally(connection, partial(coding.write, connection, draft, _made_of(connection)))
        draft.replace(place.codes)
    except (OSError, Refused) as error:
        draft.unlink(missing_ok=True)
        logger.warning("event=codes_not_made reason=%s: questions are answered without, but slower.", error)
        return False
    return True


def _is_worth_making(connection: duckdb.DuckDBPyConnection, place: Place) -> bool:
    texts = 0
    if large.may_be(connection):
        texts = coding.number(connection, "SELECT count(DISTINCT text_digest) FROM hunks")
    if texts <= large.MOST_KEPT_ROWS:
        place.codes.unlink(missing_ok=True)
        return False
    said = _said(place.codes, _made_of(connection))
    return said is None or texts - said["texts"] > LONGEST_TAIL_SHARE * texts


def _said(file: Path, made_of: dict[str, Any]) -> dict[str, Any] | None:
    """What the file says of itself, if it is as long as that takes and was made of the same."""
    try:
        with file.open("rb") as read:
            said: dict[str, Any] = json.loads(read.read(PAGE))
            last = coding.layout(said["texts"])["rows"]
            whole = os.fstat(read.fileno()).st_size == last.offset + last.bytes
        return said if whole and said["sums"] and made_of.items() <= said.items() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _made_of(connection: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    # What made the rows, for a pass at work vouches for nothing before its end; passes never mix vectors.
    recorded = metadata.recorded(connection)
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
