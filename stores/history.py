"""Queries of the recorded history: commits, status numbers, changes of a file and of a symbol.

This module imports neither NumPy nor pyarrow, so that commands which need only the status stay fast.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import duckdb

from stores.database import fetch_int, format_literals


@dataclass(frozen=True, slots=True)
class ReachabilityDelta:
    """Commits that only one of two HEADs reaches: the current one, or the one recorded by the newest index run.

    - `removed_commits`: commits that only the recorded HEAD reaches.
    - `added_commits`: commits that only the current HEAD reaches.
    - `lists_all_commits`: True if `added_commits` has all commits that the current HEAD reaches. This is so if no HEAD
      is recorded, if the recorded one no longer exists, and if the current HEAD has no commit.
    """

    removed_commits: tuple[str, ...] = ()
    added_commits: tuple[str, ...] = ()
    lists_all_commits: bool = False


@dataclass(frozen=True, slots=True)
class IndexSummary:
    """Status numbers of an index. Times are UTC; shas are None before the first index run.

    `head_commit`: HEAD of the newest run. `completed_commit`: HEAD of the newest finished run. `last_indexed_commit`:
    commit up to which the history is indexed (watermark). Unlike `completed_commit`, it can be the HEAD of a run that
    was interrupted before it wrote the symbols at HEAD. `commits`, `hunks`, `head_symbols`, `unreadable`: numbers of
    commits, changes of files, symbols at HEAD and unreadable commits.
    """

    repo_id: str
    path: str
    last_indexed_commit: str | None
    indexed_at: datetime | None
    head_commit: str | None
    commits: int
    hunks: int
    head_symbols: int
    unreadable: int
    completed_commit: str | None


@dataclass(frozen=True, slots=True)
class FileCommit:
    """Commit that changed a file. `path`, `old_path`: paths after and before the change, in git's bytes."""

    hunk_id: int
    commit_sha: str
    commit_message: str
    commit_author: str
    commit_date: datetime
    path: bytes
    old_path: bytes


@dataclass(frozen=True, slots=True)
class _FileChange:
    """Change of a file by a commit. `old_path`: path before a rename. `date`: committer date in seconds since 1970."""

    hunk_id: int
    commit_sha: str
    old_path: str | None
    date: int


@dataclass(frozen=True, slots=True)
class UnreadableCommit:
    """Commit that could not be read, and the reason."""

    commit_sha: str
    reason: str


@dataclass(frozen=True, slots=True)
class CacheUsage:
    """Usage of the embedding cache by an index run.

    `entries`: vectors in the cache after the last batch. `requested_texts`: texts that needed a vector.
    `cached_texts`: texts whose vector was in the cache.
    """

    entries: int = 0
    requested_texts: int = 0
    cached_texts: int = 0


# A hunk of kind `message` stands for a commit without changed files.
_SUMMARY: Final = """
SELECT repo_id, path, last_indexed_commit, indexed_at, head_commit,
       (SELECT count(*) FROM commits), (SELECT count(*) FROM hunks WHERE content_kind <> 'message'),
       (SELECT count(*) FROM head_symbols), (SELECT count(*) FROM unreadable),
       completed_commit
FROM repository"""

# Reachability is checked in Python, because planning the joins would take longer than this query.
_FILE_CHANGES: Final = """
SELECT hunk_id, commit_sha, old_path, epoch(commit_date)::BIGINT
FROM hunks JOIN commits USING (commit_sha)
WHERE file_path = $path"""

_FILE_COMMITS: Final = """
SELECT hunk_id, commit_sha, message, author_name, commit_date,
       coalesce(file_path_bytes, encode(file_path)), coalesce(encode(old_path), file_path_bytes, encode(file_path))
FROM hunks JOIN commits USING (commit_sha)
WHERE hunk_id IN ({hunks})"""

# The commits are bound as one string, because DuckDB tries to import pandas for each bound value: 200 commits take
# 2 ms as a string and 7 ms as a list.
_RECORDED_COMMITS: Final = """
SELECT commit_sha FROM commits WHERE commit_sha IN (SELECT unnest(string_split($shas, ' ')))"""
_COUNT_EMBEDDED_HUNKS: Final = "SELECT count(*) FROM hunks SEMI JOIN vectors USING (text_digest)"


def load_messages_with_issue_numbers(
    connection: duckdb.DuckDBPyConnection, reachability: ReachabilityDelta, numbers: Collection[str]
) -> dict[str, str]:
    """Return, by sha, the messages of reachable commits that mention one of these issue or pull request numbers.

    A message mentions a number as `#12`, `!12`, `GH-12` or `/12`.
    """
    if not numbers:
        return {}
    pattern = rf"(?:[#!/]|[Gg][Hh]-)(?:{'|'.join(map(re.escape, numbers))})(?:[^0-9]|$)"
    sql = "SELECT commit_sha, message FROM commits WHERE regexp_matches(message, $pattern)"
    rows = connection.execute(sql, {"pattern": pattern}).fetchall()
    if not rows:
        return {}
    is_reachable = build_reachability_test(connection, reachability)
    return {sha: message for sha, message in rows if is_reachable(sha)}


def load_index_summary(connection: duckdb.DuckDBPyConnection) -> IndexSummary | None:
    """Return the status numbers of the index; None before its first index run."""
    row = connection.execute(_SUMMARY).fetchone()
    return IndexSummary(*row) if row else None


def load_cache_usage(connection: duckdb.DuckDBPyConnection) -> CacheUsage:
    """Return the usage of the embedding cache by the newest index run with a cache; zeros if there was none."""
    row = connection.execute("SELECT entries, asked, found FROM embed_cache").fetchone()
    return CacheUsage(*row) if row else CacheUsage()


def find_recorded_commits(connection: duckdb.DuckDBPyConnection, shas: Iterable[str]) -> set[str]:
    """Return those of the commits that are recorded in the index."""
    rows = connection.execute(_RECORDED_COMMITS, {"shas": " ".join(shas)}).fetchall()
    return {sha for (sha,) in rows}


def list_recorded_commits(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Return all recorded commits, in the order of recording."""
    return [sha for (sha,) in connection.execute("SELECT commit_sha FROM commits").fetchall()]


def list_commits_without_hunks(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the recorded commits without a row in `hunks`, parent commits first.

    Lineage versions before schema 3 wrote no row for a commit without file changes.
    """
    sql = "SELECT commit_sha FROM commits ANTI JOIN hunks USING (commit_sha) ORDER BY commits.rowid"
    return [sha for (sha,) in connection.execute(sql).fetchall()]


def compute_hunk_share(connection: duckdb.DuckDBPyConnection, shas: Iterable[str]) -> float:
    """Return the share of all hunks that belong to these commits; 0 without hunks."""
    rows = connection.execute("SELECT commit_sha, count(*) FROM hunks GROUP BY commit_sha").fetchall()
    counts: dict[str, int] = dict(rows)
    return sum(counts.get(sha, 0) for sha in set(shas)) / max(1, sum(counts.values()))


def compute_vector_share(connection: duckdb.DuckDBPyConnection) -> float:
    """Return the share of the hunks whose text has a vector; 1 without hunks."""
    hunks = fetch_int(connection, "SELECT count(*) FROM hunks")
    return fetch_int(connection, _COUNT_EMBEDDED_HUNKS) / hunks if hunks else 1.0


def load_unreachable_commits(connection: duckdb.DuckDBPyConnection) -> set[str]:
    """Return the recorded commits that the recorded HEAD (that of the newest index run) does not reach."""
    return {sha for (sha,) in connection.execute("SELECT commit_sha FROM unreached").fetchall()}


def load_branch_patterns(connection: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """Return the patterns of the refs to index besides HEAD, in the order in which they were given."""
    rows = connection.execute("SELECT pattern FROM branch_patterns ORDER BY rowid").fetchall()
    return tuple(pattern for (pattern,) in rows)


def load_branch_tips(connection: duckdb.DuckDBPyConnection) -> frozenset[str]:
    """Return the commits that the branch patterns matched in the newest finished index run.

    The index has every commit that they reach, except unreadable ones.
    """
    return frozenset(sha for (sha,) in connection.execute("SELECT commit_sha FROM branch_tips").fetchall())


def load_unreadable_commits(connection: duckdb.DuckDBPyConnection) -> tuple[UnreadableCommit, ...]:
    """Return the commits that could not be read, sorted by sha. Each index run tries them again."""
    rows = connection.execute("SELECT commit_sha, reason FROM unreadable ORDER BY commit_sha").fetchall()
    return tuple(UnreadableCommit(*row) for row in rows)


def load_head_files(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Return the blob sha of each file of the HEAD snapshot, by path."""
    return dict(connection.execute("SELECT file_path, blob_sha FROM head_files").fetchall())


def load_file_history(
    connection: duckdb.DuckDBPyConnection,
    path: str,
    reachability: ReachabilityDelta,
    sort_newest_first: Callable[[Mapping[str, int]], list[str]],
) -> tuple[tuple[str, int], ...]:
    """Return (sha, hunk id) for each reachable commit that changed the file, newest first; follow renames.

    Changes of an old path count only up to the rename, because another file may have that path later.

    `sort_newest_first`: gets the committer date of each commit, in seconds since 1970, by sha; returns the shas sorted.
    """
    changes_by_path = _load_changes_by_path(connection, path, reachability)
    dates = {change.commit_sha: change.date for changes in changes_by_path.values() for change in changes}
    positions = {sha: position for position, sha in enumerate(sort_newest_first(dates))}
    # By old path: position of the newest commit that renamed the file from this path. Newer changes of the path do not
    # count. The current path has position 0, so all its changes count.
    rename_positions = {path: 0}
    pending_paths = [path]
    hunk_by_sha: dict[str, int] = {}
    while pending_paths:
        current_path = pending_paths.pop()
        for change in sorted(changes_by_path[current_path], key=lambda change: positions[change.commit_sha]):
            position, old_path = positions[change.commit_sha], change.old_path
            if position < rename_positions[current_path]:
                continue
            hunk_by_sha.setdefault(change.commit_sha, change.hunk_id)
            if old_path and position < rename_positions.get(old_path, len(positions)):
                rename_positions[old_path] = position
                pending_paths.append(old_path)
    return tuple((sha, hunk_by_sha[sha]) for sha in positions if sha in hunk_by_sha)


def load_file_commits(
    connection: duckdb.DuckDBPyConnection, hunk_ids: Sequence[int]
) -> tuple[FileCommit, ...]:
    """Return the commit of each of these hunks, in their order."""
    rows = connection.execute(_FILE_COMMITS.format(hunks=format_literals(hunk_ids))).fetchall()
    commit_by_hunk = {row[0]: FileCommit(*row) for row in rows}
    return tuple(commit_by_hunk[hunk_id] for hunk_id in hunk_ids)


def _load_changes_by_path(
    connection: duckdb.DuckDBPyConnection, path: str, reachability: ReachabilityDelta
) -> dict[str, list[_FileChange]]:
    """Return the reachable changes of the path and of all earlier paths, by path."""
    is_reachable = build_reachability_test(connection, reachability)
    changes_by_path: dict[str, list[_FileChange]] = {}
    pending_paths = [path]
    while pending_paths:
        current_path = pending_paths.pop()
        rows = connection.execute(_FILE_CHANGES, {"path": current_path}).fetchall()
        changes = [change for row in rows if is_reachable((change := _FileChange(*row)).commit_sha)]
        changes_by_path[current_path] = changes
        for old_path in dict.fromkeys(change.old_path for change in changes if change.old_path):
            if old_path not in changes_by_path and old_path not in pending_paths:
                pending_paths.append(old_path)
    return changes_by_path


def build_reachability_test(
    connection: duckdb.DuckDBPyConnection, reachability: ReachabilityDelta
) -> Callable[[str], bool]:
    """Return a function that returns whether the current HEAD reaches a recorded commit."""
    added = frozenset(reachability.added_commits)
    if reachability.lists_all_commits:
        return added.__contains__
    removed = load_unreachable_commits(connection) | set(reachability.removed_commits)
    return lambda sha: sha not in removed or sha in added


@dataclass(frozen=True, slots=True)
class SymbolTouch:
    """Change of a file that may concern a symbol: it touches the symbol, renames the file, or is part of a merge.

    - `commit_row`: row id of the commit in its table. Of commits with one date, parents come first.
    - `date`: committer date in seconds since 1970.
    - `path`: path after the change, or before a deletion. `old_path`: path before a rename, else None.
    - `parent`: names of the enclosing symbols, joined by dots, or empty; None if unknown.
    - `is_exact`: False if the symbol is known only from the text that git shows after `@@`.
    - `may_introduce_or_remove`: True if the change can introduce or remove the symbol.
    """

    hunk_id: int
    commit_sha: str
    commit_row: int
    date: int
    path: bytes
    old_path: bytes | None
    parent: str | None
    is_exact: bool
    may_introduce_or_remove: bool


# `old_path` is text, which cannot have bytes that are not UTF-8. An earlier change of this path has recorded the bytes.
OLD_PATH_BYTES: Final = """
coalesce((SELECT any_value(earlier.file_path_bytes) FROM hunks AS earlier
          WHERE earlier.file_path = hunks.old_path AND earlier.file_path_bytes IS NOT NULL),
         encode(hunks.old_path))"""

# The last column is `SymbolTouch.may_introduce_or_remove`. A symbol is introduced or removed only by the change of a
# line that can define its name. A truncated diff may lack this line.
_TOUCHES: Final = """
SELECT hunk_id, commit_sha, commits.rowid, epoch(commit_date)::BIGINT, coalesce(file_path_bytes, encode(file_path)),
       {old_path_bytes},
       parent, confidence = 'ExactSpan',
       change_kind IN ('added', 'deleted', 'renamed') OR diff_truncated OR CASE language
           WHEN 'python' THEN regexp_matches(diff, $python)
           WHEN 'rust' THEN regexp_matches(diff, $rust)
           WHEN 'kotlin' THEN regexp_matches(diff, $kotlin)
           ELSE regexp_matches(diff, $other)
       END
FROM hunks JOIN commits USING (commit_sha) JOIN hunk_symbols USING (hunk_id)
WHERE hunk_id IN ({hunks}) AND name = $name
ORDER BY commits.rowid, hunk_id, hunk_symbols.rowid"""
# Expressions for the text before a name in the line that defines it. In other languages, any line with the name counts.
_DEFINITION_PREFIXES: Final = {
    "python": r"\b(?:def|class)\s+",
    "rust": r"\b(?:fn|struct|enum|trait|impl|for)\b.*",
    "kotlin": r"\b(?:fun|class|interface|object)\b.*",
    "other": "",
}
_HUNKS_OF_NAME: Final = "SELECT DISTINCT hunk_id FROM hunk_symbols WHERE name = $name"

# Changes that may concern a symbol even without a row in `hunk_symbols`. A rename without a changed line
# moves all symbols of the file. For lines that a merge removes, the index has no symbols.
_RENAMES_AND_MERGES: Final = """
SELECT hunk_id, commit_sha, commits.rowid, epoch(commit_date)::BIGINT, coalesce(file_path_bytes, encode(file_path)),
       {old_path_bytes},
       NULL, TRUE, TRUE
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
SELECT name FROM names WHERE similarity >= $min_similarity ORDER BY similarity DESC, touches DESC, name LIMIT $limit"""
# Below this similarity, names look unrelated.
MIN_SIMILARITY: Final = 0.88


def load_symbol_touches(
    connection: duckdb.DuckDBPyConnection, name: str, is_reachable: Callable[[str], bool]
) -> list[SymbolTouch]:
    """Return the reachable changes that touched symbols of this name, parent commits first."""
    # The ids are literals in the query, because for a join DuckDB would read the diffs of all hunks.
    hunk_ids = [hunk_id for (hunk_id,) in connection.execute(_HUNKS_OF_NAME, {"name": name}).fetchall()]
    if not hunk_ids:
        return []
    sql = _TOUCHES.format(hunks=format_literals(hunk_ids), old_path_bytes=OLD_PATH_BYTES)
    patterns = {
        language: _build_line_pattern(name, prefix) for language, prefix in _DEFINITION_PREFIXES.items()
    }
    touches = (SymbolTouch(*row) for row in connection.execute(sql, {"name": name, **patterns}).fetchall())
    return [touch for touch in touches if is_reachable(touch.commit_sha)]


def load_renames_and_merges(
    connection: duckdb.DuckDBPyConnection, name: str, is_reachable: Callable[[str], bool]
) -> list[SymbolTouch]:
    """Return reachable renames, and merges that change a line with the name, parent commits first.

    Merges with a truncated diff are included, because such a line may be missing.
    """
    hunk_ids = [hunk_id for (hunk_id,) in connection.execute(_MERGE_HUNKS).fetchall()]
    sql = _RENAMES_AND_MERGES.format(merges=format_literals(hunk_ids), old_path_bytes=OLD_PATH_BYTES)
    parameters = {"line": _build_line_pattern(name, "")}
    touches = (SymbolTouch(*row) for row in connection.execute(sql, parameters).fetchall())
    return [touch for touch in touches if is_reachable(touch.commit_sha)]


def find_similar_names(connection: duckdb.DuckDBPyConnection, name: str, limit: int) -> list[str]:
    """Return at most `limit` recorded names of symbols that are similar to the name, the most similar first."""
    parameters = {"name": name, "min_similarity": MIN_SIMILARITY, "limit": limit}
    return [similar for (similar,) in connection.execute(_SIMILAR_NAMES, parameters).fetchall()]


def get_definition_word(name: str) -> str:
    """Return a word of the symbol's name that the line of its definition must contain; empty if there is none.

    For Rust's `impl Display for Level` this is `Level`. Kotlin code may omit the default name `Companion`.
    """
    words = re.findall(r"[\w$]+", name)
    return words[-1] if words and name != "Companion" else ""


def _build_line_pattern(name: str, prefix: str) -> str:
    """Return the RE2 expression for a changed line that has the name after text that matches `prefix`.

    For a name without a definition word, it matches every changed line.
    """
    word = get_definition_word(name)
    if not word:
        return "(?m)^[+-]"
    # RE2's `\b` knows only ASCII letters, so it is left out beside other letters and beside `$`.
    start, end = (r"\b" if re.fullmatch(r"[A-Za-z0-9_]", letter) else "" for letter in (word[0], word[-1]))
    return f"(?m)^[+-].*{prefix}{start}{word.replace('$', '[$]')}{end}"
