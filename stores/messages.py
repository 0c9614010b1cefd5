"""Commit messages and their vectors, for those who weigh a commit by what it says of itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa

from stores.coding import matrix
from stores.space import Vectors
from stores.versions import EMBEDDING_DIMENSION

# Nine messages in ten are shorter. Of a longer one the beginning tells what was done; the rest quotes logs and mails.
LONGEST_READ: Final = 4_000
# 64 MB of vectors; of a longer history each question reads those of its own candidates.
MOST_KEPT: Final = 64_000_000 // (4 * EMBEDDING_DIMENSION)

_MESSAGES: Final = """
SELECT commit_sha, left(message, {longest}) AS message, embedding
FROM commits LEFT JOIN vectors ON text_digest = message_digest"""


@dataclass(frozen=True, slots=True, eq=False)
class Messages:
    """Messages by commit: `places` leads from a sha to its row of `texts` and of `vectors` (zeros: has none)."""

    places: dict[str, int]
    texts: pa.ChunkedArray
    vectors: Vectors

    @property
    def bytes(self) -> int:
        """About how many bytes it keeps."""
        return int(self.texts.nbytes) + self.vectors.nbytes + 150 * len(self.places)

    def texts_of(self, shas: Sequence[str]) -> list[str]:
        """The text of each of these commits, which must be among them."""
        texts: list[str] = self.texts.take(pa.array(self._rows(shas), pa.int64())).to_pylist()
        return texts

    def vectors_of(self, shas: Sequence[str]) -> Vectors:
        """The vector of each of these commits, which must be among them."""
        return self.vectors[self._rows(shas)]

    def _rows(self, shas: Sequence[str]) -> list[int]:
        return [self.places[sha] for sha in shas]


def every(connection: duckdb.DuckDBPyConnection) -> Messages | None:
    """All messages; None where they are too many to keep."""
    ((count,),) = connection.execute("SELECT count(*) FROM commits").fetchall()
    return _read(connection, "") if count <= MOST_KEPT else None


def some(connection: duckdb.DuckDBPyConnection, shas: Sequence[str]) -> Messages:
    """The messages of these commits."""
    # As constants: bound as a list they keep the scan from skipping row groups.
    listed = ", ".join(f"'{sha}'" for sha in shas) or "NULL"
    return _read(connection, f" WHERE commit_sha IN ({listed})")


def _read(connection: duckdb.DuckDBPyConnection, which: str) -> Messages:
    rows = connection.execute(_MESSAGES.format(longest=LONGEST_READ) + which).to_arrow_table()
    embedded = rows.column("embedding").combine_chunks()
    vectors = np.zeros((len(rows), EMBEDDING_DIMENSION), np.float32)
    vectors[embedded.is_valid().to_numpy(zero_copy_only=False)] = matrix(embedded.drop_null())
    places = {sha: row for row, sha in enumerate(rows.column("commit_sha").to_pylist())}
    return Messages(places, rows.column("message"), vectors)
