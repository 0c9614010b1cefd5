"""Read queries for the history of a symbol: changes that touched it or its file, and similar names."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import duckdb

# Only a changed line that can define the name can introduce or remove its symbol. A truncated diff may lack the line.
_TOUCHES: Final = """
SELECT hunk_id, commit_sha, epoch(commit_date)::BIGINT, file_path, file_path_bytes, old_path, parent,
       confidence = 'ExactSpan',
       change_kind IN ('added', 'deleted', 'renamed') OR diff_truncated OR CASE language
           WHEN 'python' THEN regexp_matches(diff, $python)
           WHEN 'rust' THEN regexp_matches(diff, $rust)
           WHEN 'kotlin' THEN regexp_matches(diff, $kotlin)
           ELSE regexp_matches(diff, $other)
       END
FROM hunks JOIN commits USING (commit_sha) JOIN hunk_symbols USING (hunk_id)
WHERE hunk_id IN ({hunks}) AND name = $name
ORDER BY commits.rowid, hunk_id, hunk_symbols.rowid"""
# Text before a name in the line that defines it. Without one, a line with the name may define it.
_DEFINITION_PREFIXES: Final = {
    "python": r"\b(?:def|class)\s+",
    "rust": r"\b(?:fn|struct|enum|trait|impl|for)\b.*",
    "kotlin": r"\b(?:fun|class|interface|object)\b.*",
    "other": "",
}
_HUNKS_OF_NAME: Final = "SELECT DISTINCT hunk_id FROM hunk_symbols WHERE name = $name"

# A rename without a changed line touches no symbol, but moves all symbols of the file. For the lines that a merge
# removed, the index has no symbols.
_FILE_CHANGES: Final = """
SELECT hunk_id, commit_sha, epoch(commit_date)::BIGINT, file_path, file_path_bytes, old_path
FROM hunks JOIN commits USING (commit_sha)
WHERE hunk_id IN (
    SELECT hunk_id FROM hunks WHERE old_path IS NOT NULL
    UNION
    SELECT hunk_id FROM hunks WHERE hunk_id IN ({merges}) AND (diff_truncated OR regexp_matches(diff, $line))
)
ORDER BY commits.rowid, hunk_id"""
_MERGE_HUNKS: Final = """
SELECT hunk_id FROM hunks JOIN commits USING (commit_sha) WHERE len(parents) > 1 AND content_kind <> 'message'"""

# Jaro-Winkler finds names with other endings (`get_user`, `get_users`) as well as misspelled ones.
_SIMILAR_NAMES: Final = """
WITH names AS (
    SELECT name, count(*) AS touches, jaro_winkler_similarity(lower(name), lower($name)) AS similarity
    FROM hunk_symbols GROUP BY name
)
SELECT name FROM names WHERE similarity >= $least ORDER BY similarity DESC, touches DESC, name LIMIT $limit"""
# Below this similarity, names look unrelated.
LEAST_SIMILARITY: Final = 0.88


@dataclass(frozen=True, slots=True)
class SymbolTouch:
    """Change of a file that may have changed a symbol: it touched the symbol, renamed the file, or is a merge's.

    `date`: committer date in seconds since 1970. `path`: after the change, or before a deletion. `old_path`: before a
    rename. `parent`: as in `hunk_symbols`; None if it is unknown. `is_exact`: False if git's hunk header is
    the evidence. `may_define`: the change can introduce or remove the symbol.
    """

    hunk_id: int
    commit_sha: str
    date: int
    path: bytes
    old_path: bytes | None
    parent: str | None
    is_exact: bool
    may_define: bool


def load_symbol_touches(
    connection: duckdb.DuckDBPyConnection, name: str, is_reachable: Callable[[str], bool]
) -> list[SymbolTouch]:
    """Return the reachable changes that touched symbols of this name, parents before children."""
    # Ids are literals: with a join alone DuckDB reads the diffs of all hunks.
    hunks = [hunk for (hunk,) in connection.execute(_HUNKS_OF_NAME, {"name": name}).fetchall()]
    if not hunks:
        return []
    sql = _TOUCHES.format(hunks=", ".join(map(str, hunks)))
    patterns = {
        language: _build_line_pattern(name, prefix) for language, prefix in _DEFINITION_PREFIXES.items()
    }
    rows = connection.execute(sql, {"name": name, **patterns}).fetchall()
    return [
        SymbolTouch(hunk, sha, date, path_bytes or path.encode(), _encode(old_path), *columns)
        for hunk, sha, date, path, path_bytes, old_path, *columns in rows
        if is_reachable(sha)
    ]


def load_file_changes(
    connection: duckdb.DuckDBPyConnection, name: str, is_reachable: Callable[[str], bool]
) -> list[SymbolTouch]:
    """Return the reachable renames of files, and changes by merges of lines with the name, parents before children."""
    merges = [str(hunk) for (hunk,) in connection.execute(_MERGE_HUNKS).fetchall()]
    sql = _FILE_CHANGES.format(merges=", ".join(merges) or "NULL")
    parameters = {"line": _build_line_pattern(name, "")}
    return [
        SymbolTouch(hunk, sha, date, path_bytes or path.encode(), _encode(old_path), None, True, True)
        for hunk, sha, date, path, path_bytes, old_path in connection.execute(sql, parameters).fetchall()
        if is_reachable(sha)
    ]


def find_similar_names(connection: duckdb.DuckDBPyConnection, name: str, limit: int) -> list[str]:
    """Return the recorded names of symbols that are most similar, best first."""
    parameters = {"name": name, "least": LEAST_SIMILARITY, "limit": limit}
    return [similar for (similar,) in connection.execute(_SIMILAR_NAMES, parameters).fetchall()]


def get_definition_word(name: str) -> str:
    """Return a word that the line of the definition contains; empty if none is certain.

    Of `Display for Level` it is `Level`. A companion object of Kotlin can have no name in the code.
    """
    words = re.findall(r"[\w$]+", name)
    return words[-1] if words and name != "Companion" else ""


def _build_line_pattern(name: str, prefix: str) -> str:
    """Return the expression of RE2 for a changed line with a name. Its `\\b` knows only letters of ASCII."""
    word = get_definition_word(name)
    start, end = (r"\b" if re.fullmatch(r"[A-Za-z0-9_]", edge) else "" for edge in (word[:1], word[-1:]))
    return f"(?m)^[+-].*{prefix if word else ''}{start}{word.replace('$', '[$]')}{end}"


def _encode(path: str | None) -> bytes | None:
    return None if path is None else path.encode()
