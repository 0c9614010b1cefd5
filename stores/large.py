"""When an index has too many vectors to keep in memory; asked at every start, and so without numpy."""

from __future__ import annotations

from typing import Final

import duckdb

from stores.versions import EMBEDDING_DIMENSION

# 128 MB of vectors, those of a history of some 40,000 commits: keeping more takes memory that other programs
# want. An index with more texts than this has the side file.
MOST_KEPT_ROWS: Final = 128_000_000 // (4 * EMBEDDING_DIMENSION)


def may_be(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether the index has more hunks, and so may have more texts, than are kept; counted without reading any."""
    [(hunks,)] = connection.execute("SELECT count(*) FROM hunks").fetchall()
    return int(hunks) > MOST_KEPT_ROWS
