"""The baseline: BM25 as it comes, by DuckDB's full-text extension with its defaults, over message, path and diff."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

_DOCUMENTS: Final = """
SELECT hunk_id, commit_sha, concat_ws(chr(10), message, file_path, diff) AS text
FROM hunks JOIN commits USING (commit_sha)
WHERE commit_sha NOT IN (FROM unreached)"""

_BEST: Final = """
SELECT commit_sha FROM (
    SELECT hunk_id, commit_sha, fts_main_documents.match_bm25(hunk_id, $query) AS score FROM documents
)
WHERE score IS NOT NULL ORDER BY score DESC, hunk_id LIMIT $limit"""


def built(index: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """A full-text index in memory over everything an opened index holds."""
    documents: pa.Table = index.execute(_DOCUMENTS).to_arrow_table()
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    (extension,) = Path(str(files("duckdb_extension_fts"))).rglob("*.duckdb_extension")
    connection.execute(f"LOAD '{extension}'")
    connection.register("documents_in", documents)
    connection.execute("CREATE TABLE documents AS FROM documents_in")
    connection.unregister("documents_in")
    connection.execute("PRAGMA create_fts_index('documents', 'hunk_id', 'text')")
    return connection


def ask(baseline: duckdb.DuckDBPyConnection, text: str, limit: int) -> list[str]:
    """The commits of the best hunks, best first; one commit may come several times."""
    rows = baseline.execute(_BEST, {"query": text, "limit": limit}).fetchall()
    return [sha for (sha,) in rows]
