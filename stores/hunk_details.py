"""Queries of hunks and commits for display: details, changed files, semantic texts, possible copies and reverts.

A hunk is the diff of one file in one commit.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import duckdb

from stores.database import format_literals
from stores.duckdb_engine import read_batches
from stores.history import ReachabilityDelta, build_reachability_test

if TYPE_CHECKING:
    import pyarrow as pa

Connection: TypeAlias = duckdb.DuckDBPyConnection

# Longer diffs are not cached, so each answer reads them again. Nine diffs in ten have less than 3 KB.
MAX_CACHED_DIFF_BYTES: Final = 8_000
# Maximum size of the cache, enough for the diffs of about 50,000 hunks. If they do not fit, none is cached.
MAX_CACHE_BYTES: Final = 64_000_000
# Minimum number of digits of a sha in the message of a revert.
MIN_SHA_DIGITS: Final = 7
# Maximum number of reverts of reverts that are followed.
MAX_REVERT_DEPTH: Final = 50
# Number of diffs that are read at a time.
_BATCH_ROWS: Final = 2_048


@dataclass(frozen=True, slots=True)
class HunkDetails:
    """Hunk and its commit.

    `symbols`: distinct names of the symbols that it touched, in stored order.
    """

    hunk_id: int
    commit_sha: str
    commit_message: str
    commit_author: str
    author_date: datetime
    commit_date: datetime
    file_path: str
    change_kind: str
    diff: str
    diff_truncated: bool
    symbols: tuple[str, ...]


class HunkSummary(NamedTuple):
    """Path of a hunk's file, and how many lines were added and removed."""

    hunk_id: int
    file_path: str
    added_lines: int
    removed_lines: int


class _Commit(NamedTuple):
    """Commit with the subject of its message. `order`: date and row id, so that of one date, parents come first."""

    commit_sha: str
    order: tuple[datetime, int]
    subject: str


class _Revert(NamedTuple):
    """Commit that reverts others. `targets`: full or abbreviated shas in its message."""

    commit: _Commit
    targets: list[str]

    @property
    def title(self) -> str:
        """Reverted subject that the subject quotes; empty if it quotes none or there are `targets`."""
        if not self.targets:
            if match := _REVERT_SUBJECT.match(self.commit.subject):
                return _remove_pull_request_numbers(match[1])
            if match := _REAPPLY_SUBJECT.match(self.commit.subject):
                return f'Revert "{_remove_pull_request_numbers(match[1])}"'
        return ""


@dataclass(frozen=True, slots=True, eq=False)
class DiffCache:
    """Diffs in memory. `row_by_hunk`: row of the diff in `texts`, by hunk id.

    DuckDB stores diffs compressed in blocks of 2,048 rows and decompresses whole blocks. So reading five diffs can cost
    as much as reading ten thousand.
    """

    texts: pa.Array
    row_by_hunk: dict[int, int]

    @property
    def bytes(self) -> int:
        """Approximate memory in bytes. An entry of `row_by_hunk` takes about 100."""
        return int(self.texts.nbytes) + 100 * len(self.row_by_hunk)

    def get(self, hunk_ids: Iterable[int]) -> dict[int, str]:
        """Return the cached diffs of these hunks, by hunk id."""
        return {
            hunk_id: self.texts[self.row_by_hunk[hunk_id]].as_py()
            for hunk_id in hunk_ids
            if hunk_id in self.row_by_hunk
        }


_HUNKS: Final = """
SELECT hunk_id, commit_sha, file_path, change_kind, diff_truncated FROM hunks WHERE hunk_id IN ({hunks})"""
_DIFFS: Final = "SELECT hunk_id, diff FROM hunks WHERE hunk_id IN ({hunks})"
# Commits have a query of their own, because a join with hunks would read and decompress all messages.
_COMMITS: Final = """
SELECT commit_sha, message, author_name, author_date, commit_date FROM commits WHERE commit_sha IN ({commits})"""
_FILES: Final = """
SELECT commit_sha, hunk_id, file_path, added_lines, removed_lines FROM hunks
WHERE commit_sha IN ({commits}) AND file_path <> '' ORDER BY hunk_id"""
_SYMBOLS: Final = "SELECT hunk_id, name FROM hunk_symbols WHERE hunk_id IN ({hunks}) ORDER BY rowid"
# A cherry-picked or rebased commit keeps its author and author date.
_POSSIBLE_COPIES: Final = """
SELECT original.commit_sha, other.commit_sha
FROM commits original JOIN commits other USING (author_email, author_date)
WHERE original.commit_sha IN ({commits}) AND other.commit_sha <> original.commit_sha
      AND len(original.parents) < 2 AND len(other.parents) < 2
QUALIFY row_number() OVER (PARTITION BY original.commit_sha ORDER BY other.commit_date, other.commit_sha) <= $limit
ORDER BY other.commit_date, other.commit_sha"""
# Maximum number of possible copies of a commit. A bot can make thousands of commits with one date, none of them a copy.
MAX_POSSIBLE_COPIES: Final = 100
# First line of a message.
_SUBJECT: Final = r"regexp_extract(message, '^[^\r\n]*')"
# Reverts as git and GitHub write them. A quoted message of an earlier revert (`> This ...`) does not count.
_REVERTS: Final = rf"""
SELECT commit_sha, (commit_date, rowid), {_SUBJECT},
       regexp_extract_all(message, '(?m)^[^>\n]*?\bThis reverts commit ([0-9a-f]{{7,64}})\b', 1)
FROM commits
WHERE contains(message, 'This reverts commit ')
      OR starts_with(message, 'Revert "') OR starts_with(message, 'Reapply "')"""
_SUBJECTS: Final = (
    f"SELECT commit_sha, (commit_date, rowid), {_SUBJECT} FROM commits WHERE commit_sha IN ({{commits}})"
)
# Commits whose message starts with a title, oldest first.
_COMMITS_WITH_TITLE: Final = f"""
SELECT commit_sha, (commit_date, rowid), {_SUBJECT} FROM commits WHERE starts_with(message, $title)
ORDER BY commit_date, rowid"""
_REVERT_SUBJECT: Final = re.compile(r'Revert "(.+)"')
_REAPPLY_SUBJECT: Final = re.compile(r'Reapply "(.+)"')
# Numbers of pull requests that GitHub adds to a subject.
_PULL_REQUEST_NUMBERS: Final = re.compile(r"(?: \(#\d+\))+$")
_SHORT_DIFFS: Final = "SELECT hunk_id, diff FROM hunks WHERE strlen(diff) <= {longest}"


def load_hunk_details(
    connection: Connection, hunk_ids: Sequence[int], diff_cache: DiffCache | None = None
) -> tuple[HunkDetails, ...]:
    """Return the details of these hunks, which must all exist, in the given order.

    `diff_cache`: diffs that need not be read from the index.
    """
    if not hunk_ids:
        return ()
    columns_by_hunk = {
        hunk_id: columns
        for hunk_id, *columns in connection.execute(_HUNKS.format(hunks=format_literals(hunk_ids))).fetchall()
    }
    commits = _load_commits(connection, {sha for sha, *_ in columns_by_hunk.values()})
    diffs = _load_diffs(connection, hunk_ids, diff_cache)
    symbols = _load_symbols(connection, hunk_ids)

    def build_details(hunk_id: int) -> HunkDetails:
        sha, path, change_kind, is_truncated = columns_by_hunk[hunk_id]
        return HunkDetails(
            hunk_id, sha, *commits[sha], path, change_kind, diffs[hunk_id], is_truncated, symbols[hunk_id]
        )

    return tuple(map(build_details, hunk_ids))


@dataclass(frozen=True, slots=True, eq=False)
class HunkDetailsCache:
    """Cache of hunk details for one answer: details loaded for the candidates are used again for the hits."""

    connection: Connection
    diff_cache: DiffCache | None = None
    details_by_id: dict[int, HunkDetails] = field(default_factory=dict)

    def load(self, hunk_ids: Sequence[int]) -> tuple[HunkDetails, ...]:
        """Return the details of these hunks, in the given order."""
        missing = [hunk_id for hunk_id in hunk_ids if hunk_id not in self.details_by_id]
        self.details_by_id.update(
            (details.hunk_id, details)
            for details in load_hunk_details(self.connection, missing, self.diff_cache)
        )
        return tuple(self.details_by_id[hunk_id] for hunk_id in hunk_ids)

    def load_diffs(self, hunk_ids: Sequence[int]) -> dict[int, str]:
        """Return the diff of each hunk, by hunk id."""
        return _load_diffs(self.connection, hunk_ids, self.diff_cache)


def load_changed_files(connection: Connection, commits: Collection[str]) -> dict[str, list[HunkSummary]]:
    """Return a summary of each file that these commits changed, by commit sha."""
    files: dict[str, list[HunkSummary]] = defaultdict(list)
    if not commits:
        return files
    for sha, *columns in connection.execute(_FILES.format(commits=format_literals(commits))).fetchall():
        files[sha].append(HunkSummary(*columns))
    return files


def find_possible_copies(
    connection: duckdb.DuckDBPyConnection, reachability: ReachabilityDelta, shas: Sequence[str]
) -> dict[str, list[str]]:
    """Return for each of these commits the other reachable commits with its author and author date, oldest first.

    Only the oldest `MAX_POSSIBLE_COPIES` of each commit are considered. Merges and commits without a possible copy are
    left out.
    """
    if not shas:
        return {}
    sql = _POSSIBLE_COPIES.format(commits=format_literals(shas))
    rows = connection.execute(sql, {"limit": MAX_POSSIBLE_COPIES}).fetchall()
    if not rows:
        return {}
    copies: dict[str, list[str]] = {}
    is_reachable = build_reachability_test(connection, reachability)
    for sha, other in rows:
        if is_reachable(other):
            copies.setdefault(sha, []).append(other)
    return copies


def find_reverts(
    connection: Connection, reachability: ReachabilityDelta, shas: Sequence[str]
) -> dict[str, str]:
    """Return the newest reachable revert of each commit. Commits that are not reverted are left out.

    A revert that is itself reverted does not count. A revert whose message names no sha reverts the newest
    commit that is not newer than the revert and has the subject that it quotes.
    """
    rows = connection.execute(_REVERTS).fetchall() if shas else []
    if not rows:
        return {}
    reverts = [_Revert(_Commit(*columns), targets) for *columns, targets in rows]
    finder = _RevertFinder(connection, reachability, reverts)
    commits = connection.execute(_SUBJECTS.format(commits=format_literals(shas))).fetchall()
    found = {commit.commit_sha: finder.find(commit) for commit in map(_Commit._make, commits)}
    return {sha: revert for sha, revert in found.items() if revert}


class _RevertFinder:
    """Search for the reverts of single commits among all reverts of a history."""

    def __init__(
        self, connection: Connection, reachability: ReachabilityDelta, reverts: Iterable[_Revert]
    ) -> None:
        self._connection = connection
        self._reachability = reachability
        # Reverts by the first MIN_SHA_DIGITS of the sha of the commit that they revert.
        self._reverts_by_sha_start: dict[str, list[_Commit]] = defaultdict(list)
        self._reverts_by_title: dict[str, list[_Commit]] = defaultdict(list)
        self._targets_by_revert: dict[str, list[str]] = {}
        self._commits_by_title: dict[str, list[_Commit]] = {}
        for commit, targets in reverts:
            self._targets_by_revert[commit.commit_sha] = targets
            for target in targets:
                self._reverts_by_sha_start[target[:MIN_SHA_DIGITS]].append(commit)
            if title := _Revert(commit, targets).title:
                self._reverts_by_title[title].append(commit)

    @cached_property
    def _is_reachable(self) -> Callable[[str], bool]:
        return build_reachability_test(self._connection, self._reachability)

    def find(self, commit: _Commit, *, depth: int = 0) -> str | None:
        """Return the newest reachable revert that is not reverted itself; None if the commit has none.

        `depth`: number of reverts that lead to this commit.
        """
        if depth > MAX_REVERT_DEPTH:
            return None
        title = _remove_pull_request_numbers(commit.subject)
        candidates = [
            *self._reverts_by_sha_start.get(commit.commit_sha[:MIN_SHA_DIGITS], ()),
            *self._reverts_by_title.get(title, ()),
        ]
        candidates.sort(key=lambda revert: revert.order, reverse=True)
        for revert in candidates:
            if not self._reverts(revert, commit, title) or not self._is_reachable(revert.commit_sha):
                continue
            if self.find(revert, depth=depth + 1) is None:
                sha: str = revert.commit_sha
                return sha
        return None

    def _reverts(self, revert: _Commit, commit: _Commit, title: str) -> bool:
        """Return whether `revert` reverts `commit`, whose subject without pull request numbers is `title`."""
        if targets := self._targets_by_revert[revert.commit_sha]:
            return any(commit.commit_sha.startswith(target) for target in targets)
        commits = self._load_commits_with_title(title)
        count = bisect_right(commits, revert.order, key=lambda other: other.order)
        return count > 0 and commits[count - 1].commit_sha == commit.commit_sha

    def _load_commits_with_title(self, title: str) -> list[_Commit]:
        """Return the reachable commits whose subject is a title, apart from numbers of pull requests, oldest first."""
        if title not in self._commits_by_title:
            rows = self._connection.execute(_COMMITS_WITH_TITLE, {"title": title}).fetchall()
            self._commits_by_title[title] = [
                commit
                for commit in map(_Commit._make, rows)
                if _remove_pull_request_numbers(commit.subject) == title
                and self._is_reachable(commit.commit_sha)
            ]
        return self._commits_by_title[title]


def _remove_pull_request_numbers(subject: str) -> str:
    return _PULL_REQUEST_NUMBERS.sub("", subject)


def load_semantic_texts(connection: Connection, hunk_ids: Sequence[int]) -> list[str]:
    """Return the semantic texts of these hunks, which must all exist, in the given order."""
    if not hunk_ids:
        return []
    sql = f"SELECT hunk_id, semantic_text FROM hunks WHERE hunk_id IN ({format_literals(hunk_ids)})"
    text_by_hunk: dict[int, str] = dict(connection.execute(sql).fetchall())
    return [text_by_hunk[hunk_id] for hunk_id in hunk_ids]


def load_diff_cache(connection: Connection) -> DiffCache:
    """Load all diffs up to MAX_CACHED_DIFF_BYTES. If their total exceeds MAX_CACHE_BYTES, return an empty cache."""
    import pyarrow as pa  # slow to import, and `lineage explain` does not need it

    batches, size = [], 0
    for batch in read_batches(connection, _SHORT_DIFFS.format(longest=MAX_CACHED_DIFF_BYTES), _BATCH_ROWS):
        batches.append(batch)
        size += batch.nbytes
        if size > MAX_CACHE_BYTES:
            return DiffCache(pa.array([], pa.string()), {})
    if not batches:
        return DiffCache(pa.array([], pa.string()), {})
    table = pa.Table.from_batches(batches).combine_chunks()
    row_by_hunk = {hunk_id: row for row, hunk_id in enumerate(table.column(0).to_pylist())}
    return DiffCache(table.column(1).combine_chunks(), row_by_hunk)


def list_languages(connection: Connection) -> frozenset[str]:
    """Return all languages of files in the history."""
    sql = "SELECT DISTINCT language FROM hunks WHERE language IS NOT NULL"
    return frozenset(language for (language,) in connection.execute(sql).fetchall())


def has_path(connection: Connection, path: str) -> bool:
    """Return whether the path of a file in the history contains the components of `path`, one after the other.

    `src/net`, `net/` and `net/tcp.py` match `src/net/tcp.py`; `et/tcp` does not.
    """
    rooted_path = f"/{path.lstrip('/')}"
    components = rooted_path if path.endswith("/") else f"{rooted_path}/"
    sql = "SELECT EXISTS (SELECT 1 FROM hunks WHERE contains('/' || file_path || '/', $components))"
    ((is_in_history,),) = connection.execute(sql, {"components": components}).fetchall()
    return bool(is_in_history)


def _load_diffs(
    connection: Connection, hunk_ids: Sequence[int], diff_cache: DiffCache | None
) -> dict[int, str]:
    """Return the diff of each hunk, by hunk id."""
    diffs = diff_cache.get(hunk_ids) if diff_cache else {}
    missing = [hunk_id for hunk_id in hunk_ids if hunk_id not in diffs]
    if missing:
        diffs |= dict(connection.execute(_DIFFS.format(hunks=format_literals(missing))).fetchall())
    return diffs


def _load_commits(
    connection: Connection, shas: Iterable[str]
) -> dict[str, tuple[str, str, datetime, datetime]]:
    """Return message, author, author date and commit date of each commit, by sha."""
    return {
        sha: tuple(columns)
        for sha, *columns in connection.execute(_COMMITS.format(commits=format_literals(shas))).fetchall()
    }


def _load_symbols(connection: Connection, hunk_ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """Return the distinct names of the symbols that each hunk touched, by hunk id."""
    names: dict[int, dict[str, None]] = defaultdict(dict)
    for hunk_id, name in connection.execute(_SYMBOLS.format(hunks=format_literals(hunk_ids))).fetchall():
        names[hunk_id][name] = None
    return {hunk_id: tuple(names[hunk_id]) for hunk_id in hunk_ids}
