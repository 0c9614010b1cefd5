"""Baselines: plain BM25 over DuckDB's full-text extension, and `git log --grep`.

- `BM25Index` indexes message, path and diff of each hunk with the extension's defaults.
- `GrepSearcher` greps for each word of the query. Commits with more matching words come first, then newer ones.
  Words match anywhere and in any case.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

from stores.duckdb_engine import load_extensions
from tests.bench.programs import run_git

BM25: Final = "plain BM25 (baseline)"
GREP: Final = "git log --grep"

_DOCUMENTS: Final = """
SELECT hunk_id, commit_sha, concat_ws(chr(10), message, file_path, diff) AS text
FROM hunks JOIN commits USING (commit_sha)
WHERE commit_sha NOT IN (FROM unreached)"""

_BEST: Final = """
SELECT commit_sha FROM (
    SELECT hunk_id, commit_sha, fts_main_documents.match_bm25(hunk_id, $query) AS score FROM documents
)
WHERE score IS NOT NULL ORDER BY score DESC, hunk_id LIMIT $limit"""

_WORD: Final = re.compile(r"[^\W_][\w.-]*[^\W_]")
_STOP_WORDS: Final = frozenset(
    re.findall(
        r"\w+",
        """
        a about all already also an and any anything are as at be been before but by can code commit could did do does
        done earlier ever example exist find for from get had has have history how i in instead into is it its last make
        made my not of on once one or our out over past place precedent previous previously should show so some somebody
        someone something somewhere that the their them then there they thing this those to up us use used using was way
        we were what when where whether which who why with without would you your
        """,
    )
)


@dataclass(frozen=True, slots=True, eq=False)
class BM25Index:
    """Full-text index in memory over all hunks of an opened index."""

    connection: duckdb.DuckDBPyConnection

    @classmethod
    def from_index(cls, index: duckdb.DuckDBPyConnection) -> BM25Index:
        """Index the reachable hunks of an opened index."""
        documents: pa.Table = index.execute(_DOCUMENTS).to_arrow_table()
        connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
        load_extensions(connection, ["fts"])
        connection.register("documents_in", documents)
        connection.execute("CREATE TABLE documents AS FROM documents_in")
        connection.unregister("documents_in")
        connection.execute("PRAGMA create_fts_index('documents', 'hunk_id', 'text')")
        return cls(connection)

    def search(self, text: str, limit: int) -> list[str]:
        """Return the commit of each of the best hunks, best first; a commit can occur several times."""
        rows = self.connection.execute(_BEST, {"query": text, "limit": limit}).fetchall()
        return [sha for (sha,) in rows]


@dataclass(frozen=True, slots=True)
class GrepSearcher:
    """Search with `git log --grep`. The commits of each word are cached."""

    repository: Path
    _cache: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def search(self, text: str, limit: int) -> list[str]:
        """Return the commits with the most matching words, best first."""
        matches: Counter[str] = Counter()
        positions: dict[str, int] = {}
        for word in extract_words(text):
            for position, sha in self._find_commits(word):
                matches[sha] += 1
                positions[sha] = position
        return sorted(matches, key=lambda sha: (-matches[sha], positions[sha]))[:limit]

    def _find_commits(self, word: str) -> list[tuple[int, str]]:
        """Return the position in `git log` and the sha of each commit whose message contains the word."""
        if not self._cache:
            self._cache[""] = self._log()
        if word not in self._cache:
            self._cache[word] = self._log("--regexp-ignore-case", "--fixed-strings", f"--grep={word}")
        matching = frozenset(self._cache[word])
        return [(position, sha) for position, sha in enumerate(self._cache[""]) if sha in matching]

    def _log(self, *options: str) -> tuple[str, ...]:
        return tuple(run_git(self.repository, "log", "--format=%H", *options, "HEAD").split())


def extract_words(text: str) -> list[str]:
    """Return the distinct lower-case words of a query without stop words."""
    words = (match[0].lower() for match in _WORD.finditer(text))
    return [word for word in dict.fromkeys(words) if word not in _STOP_WORDS]
