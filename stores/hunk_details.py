"""Details of hunks and commits for display: diffs and touched symbols; copies and reverts of commits."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import duckdb

from stores.database import format_literals
from stores.history import ReachabilityDelta, build_reachability_test

if TYPE_CHECKING:
    import pyarrow as pa

Connection: TypeAlias = duckdb.DuckDBPyConnection

# Longer diffs are not cached, so each answer reads them again. Nine diffs in ten have less than 3 KB.
MAX_CACHED_DIFF_BYTES: Final = 8_000
# Maximum size of the cache, enough for the diffs of about 50,000 hunks. If they do not fit, none is cached.
MAX_CACHE_BYTES: Final = 64_000_000
# Number of diffs that are read at a time.
_BATCH_ROWS: Final = 2_048


@dataclass(frozen=True, slots=True)
class HunkDetails:
    """Hunk (the diff of one file in one commit) and its commit.

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
    """Hunk with its numbers of added and removed lines."""

    hunk_id: int
    file_path: str
    added_lines: int
    removed_lines: int


class _Revert(NamedTuple):
    """Commit that reverts others. `targets`: their shas, maybe shortened. `title`: the quoted subject of one, or ""."""

    commit_sha: str
    targets: list[str]
    title: str

    def concerns(self, shas: Iterable[str], titles: Collection[str]) -> bool:
        """Return whether it may revert one of the commits with these shas and titles."""
        if not self.targets:
            return self.title in titles
        return any(sha.startswith(target) for sha in shas for target in self.targets)


@dataclass(frozen=True, slots=True, eq=False)
class DiffCache:
    """Diffs in memory. `row_by_hunk`: index into `texts` by hunk id.

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
# Messages of reverts, as git and GitHub write them, newest first.
_SUBJECT: Final = r"regexp_extract(message, '^[^\n]*')"
_REVERTS: Final = rf"""
SELECT commit_sha, regexp_extract_all(message, 'This reverts commit ([0-9a-f]{{7,64}})', 1), {_SUBJECT}
FROM commits
WHERE contains(message, 'This reverts commit ') OR starts_with(message, 'Revert "')
ORDER BY commit_date DESC, commit_sha"""
_SUBJECTS: Final = f"SELECT {_SUBJECT} FROM commits WHERE commit_sha IN ({{commits}})"
# Commits whose message starts with a title, and that are not later than a given commit, newest first.
_EARLIER_COMMITS: Final = f"""
SELECT commit_sha, {_SUBJECT} FROM commits
WHERE starts_with(message, $title) AND commit_date <= (SELECT commit_date FROM commits WHERE commit_sha = $revert)
ORDER BY commit_date DESC, commit_sha"""
_REVERTED_TITLE: Final = re.compile(r'Revert "(.*)"')
# Numbers of pull requests that GitHub adds to a subject.
_PULL_REQUESTS: Final = re.compile(r"(?: \(#\d+\))+$")
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
    """Return the indexed files of these commits, by commit sha."""
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

    Only the oldest `MAX_POSSIBLE_COPIES` are considered. Merges and commits without a possible copy are left out.
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
    """Return, for each of these commits that a reachable commit reverts, the newest such commit.

    A revert that is itself reverted does not count. If the message of a revert names no commit, it reverts the last
    earlier commit with the subject that it quotes.
    """
    rows = connection.execute(_REVERTS).fetchall() if shas else []
    reverts = [_Revert(sha, targets, _parse_reverted_title(subject)) for sha, targets, subject in rows]
    titles = _load_titles(connection, shas) if any(not revert.targets for revert in reverts) else set()
    if not any(revert.concerns(shas, titles) for revert in reverts):
        return {}
    is_reachable = build_reachability_test(connection, reachability)
    revert_by_target: dict[str, str] = {}  # by the sha, or the start of the sha, of the reverted commit
    for revert in reverts:
        if not is_reachable(revert.commit_sha) or _find_revert(revert_by_target, revert.commit_sha):
            continue
        targets = revert.targets
        if not targets and (revert.title in titles or revert.title.startswith("Revert ")):
            targets = _find_last_with_title(connection, revert)
        for target in targets:
            revert_by_target.setdefault(target, revert.commit_sha)
    return {sha: other for sha in shas if (other := _find_revert(revert_by_target, sha))}


def _find_revert(revert_by_target: Mapping[str, str], sha: str) -> str | None:
    return next((revert for start, revert in revert_by_target.items() if sha.startswith(start)), None)


def _load_titles(connection: Connection, shas: Collection[str]) -> set[str]:
    rows = connection.execute(_SUBJECTS.format(commits=format_literals(shas))).fetchall()
    return {_remove_pull_requests(subject) for (subject,) in rows}


def _find_last_with_title(connection: Connection, revert: _Revert) -> list[str]:
    """Return the last commit before a revert with the title that the revert quotes; empty if there is none."""
    parameters = {"title": revert.title, "revert": revert.commit_sha}
    rows = connection.execute(_EARLIER_COMMITS, parameters).fetchall()
    return [sha for sha, subject in rows if _remove_pull_requests(subject) == revert.title][:1]


def _parse_reverted_title(subject: str) -> str:
    match = _REVERTED_TITLE.match(subject)
    return _remove_pull_requests(match[1]) if match else ""


def _remove_pull_requests(subject: str) -> str:
    return _PULL_REQUESTS.sub("", subject)


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

    reader = connection.execute(_SHORT_DIFFS.format(longest=MAX_CACHED_DIFF_BYTES)).to_arrow_reader(
        _BATCH_ROWS
    )
    batches, size = [], 0
    for batch in reader:
        batches.append(batch)
        size += batch.nbytes
        if size > MAX_CACHE_BYTES:
            return DiffCache(pa.array([], pa.string()), {})
    table = pa.Table.from_batches(batches, reader.schema).combine_chunks()
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
    prefix = f"/{path.lstrip('/')}"
    components = prefix if path.endswith("/") else f"{prefix}/"
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
