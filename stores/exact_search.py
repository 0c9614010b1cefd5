"""Search of the index for changes: by a text or regular expression in changed lines, by file, and by terms."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import duckdb
import re2

from stores.database import describes_damage, format_literals
from stores.errors import LineageError
from stores.filters import CommitRange
from stores.history import OLD_PATH_BYTES

# `\A`, `\z`, and a group that switches flags off. An expression with one of them may match a line, but not the whole
# file that contains the line.
_TEXT_ANCHORS: Final = re.compile(r"\\[Az]|\(\?[a-zA-Z]*-")
# `_TEXT_ANCHORS` and `^`. An expression with one of them may match a line, but not the stored diff, where a sign
# precedes the line. `[^` is no anchor: it negates a set of characters.
_DIFF_ANCHORS: Final = re.compile(rf"(?<!\[)\^|{_TEXT_ANCHORS.pattern}")
_PATTERN_HINT: Final = (
    "Regular expressions have the syntax of RE2: without backreferences and lookaround; "
    r"`\b` is the start or end of a word."
)
# Start of the line that git prints for a submodule; the commit's sha follows.
SUBMODULE_PREFIX: Final = "Subproject commit "

# Maximum number of commits that are listed in an SQL condition. A list of thousands takes longer than no
# condition.
MAX_LITERAL_COMMITS: Final = 500


class BadPattern(LineageError):
    """Error for a text or regular expression that cannot be searched for."""


@dataclass(frozen=True, slots=True)
class SearchPattern:
    """Text to search for in changed lines; with `is_regex`, a regular expression.

    RE2 matches expressions in linear time, here and in DuckDB. Raises BadPattern if the pattern is invalid.
    """

    text: str
    is_regex: bool = False
    # Compiled expressions for a line and for a whole file; None for a text. `_file_regex` is also None if the
    # expression may match a line but not the file.
    _line_regex: Any = field(init=False, repr=False, compare=False)
    _file_regex: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check and compile the pattern."""
        if not self.text:
            raise BadPattern("The pattern is empty.", hint="Give the text to look for.")
        if "\n" in self.text or "\0" in self.text:
            raise BadPattern(
                "The pattern has more than one line, or a NUL character.",
                hint="Lines are searched one by one: give a part of one line.",
            )
        line_regex = file_regex = None
        if self.is_regex:
            line_regex = _compile(self.text)
            if not _TEXT_ANCHORS.search(self.text):
                file_regex = _compile(f"(?m){self.text}")
        object.__setattr__(self, "_line_regex", line_regex)
        object.__setattr__(self, "_file_regex", file_regex)

    def find(self, line: str) -> int:
        """Return the start of the first match in a line; -1 if there is none."""
        if not self.is_regex:
            return line.find(self.text)
        match = self._line_regex.search(line)
        return match.start() if match else -1

    def matches(self, line: str) -> bool:
        """Return whether a line contains a match."""
        return self.find(line) >= 0

    @property
    def may_match_submodules(self) -> bool:
        """True if the line `Subproject commit SHA`, which git prints for a submodule, may match."""
        text_before_sha = self.text.rstrip("0123456789abcdef")
        return self.is_regex or self.text in SUBMODULE_PREFIX or SUBMODULE_PREFIX.endswith(text_before_sha)

    def may_match_change(self, old: bytes, new: bytes) -> bool:
        """Return False if the change of a file cannot match. This quick check does not look for the changed lines.

        `old`, `new`: content before and after the change.
        """
        if not self.is_regex:
            text = self.text.encode()
            return old.count(text) != new.count(text)
        if self._file_regex is None:
            return True
        return any(self._file_regex.search(content.decode("utf-8", "replace")) for content in (old, new))

    def count_occurrences(self, line: str) -> int:
        """Return the number of occurrences of the text in a line; for an expression, 1 if it matches, else 0."""
        return int(self.matches(line)) if self.is_regex else line.count(self.text)

    def matches_counts(self, added: int, removed: int) -> bool:
        """Return whether a change matches: an expression as in `git log -G`, a text as in `git log -S`.

        `added`, `removed`: as in HunkMatch.
        """
        return added + removed > 0 if self.is_regex else added != removed


@dataclass(frozen=True, slots=True)
class HunkMatch:
    """Hunk (diff of one file in one commit) that matches.

    `order`: row number of the commit; sorts commits of the same date with parents first. `added`, `removed`: number of
    occurrences of the text in the added and the removed lines; for an expression, number of matching lines.
    """

    hunk_id: int
    commit_sha: str
    commit_date: datetime
    order: int
    added: int
    removed: int


@dataclass(frozen=True, slots=True)
class IncompleteHunk:
    """Hunk whose stored diff lacks lines: it was truncated, or the file is too large, a symlink or a submodule.

    `order`: as in HunkMatch. `parent`: first parent of the commit; None for a root commit. `path`: path after the
    change; None for a deleted file. `old_path`: path before the change; None for an added file. Both
    paths are in git's bytes.
    """

    hunk_id: int
    commit_sha: str
    commit_date: datetime
    order: int
    parent: str | None
    path: bytes | None
    old_path: bytes | None


# Condition for an IncompleteHunk. Merges are left out: their diffs compare the file with all parents, so two versions
# of the file do not suffice to complete them.
_IS_INCOMPLETE: Final = """
(diff_truncated OR content_kind IN ('oversize', 'symlink', 'submodule')) AND len(parents) < 2"""

# Splitting diffs into lines takes most of the time. Therefore `prefilter` first searches each diff as a whole.
_MATCHING_HUNKS: Final = """
WITH candidates AS (
    SELECT hunk_id, commit_sha, commit_date, commits.rowid AS position, diff
    FROM hunks JOIN commits USING (commit_sha)
    WHERE content_kind <> 'message' AND NOT ({incomplete}) AND {condition} AND {prefilter}
), lines AS (
    SELECT * EXCLUDE (diff), unnest(string_split(diff, chr(10))) AS line FROM candidates
), counts AS (
    SELECT hunk_id, commit_sha, commit_date, position,
           coalesce(sum({count}) FILTER (starts_with(line, '+')), 0)::BIGINT AS added,
           coalesce(sum({count}) FILTER (starts_with(line, '-')), 0)::BIGINT AS removed
    FROM lines WHERE (starts_with(line, '+') OR starts_with(line, '-')) AND {line_matches}
    GROUP BY ALL
)
SELECT hunk_id, commit_sha, commit_date, position, added, removed FROM counts WHERE {counts_condition}"""

# A line without its sign, `+` or `-`.
_LINE_TEXT: Final = "substr(line, 2)"
# Number of bytes that the line loses when the text is removed, divided by the bytes of the text. As in git, occurrences
# do not overlap.
_OCCURRENCES: Final = (
    f"(strlen({_LINE_TEXT}) - strlen(replace({_LINE_TEXT}, $pattern, ''))) // strlen($pattern::VARCHAR)"
)

_INCOMPLETE_HUNKS: Final = f"""
SELECT hunk_id, commit_sha, commit_date, commits.rowid, parents[1],
       CASE change_kind WHEN 'deleted' THEN NULL ELSE coalesce(file_path_bytes, encode(file_path)) END,
       CASE change_kind WHEN 'added' THEN NULL ELSE coalesce({OLD_PATH_BYTES}, file_path_bytes, encode(file_path)) END
FROM hunks JOIN commits USING (commit_sha)
WHERE {{incomplete}} AND {{condition}}"""

_TRUNCATED_MERGES: Final = """
SELECT DISTINCT commit_sha FROM hunks JOIN commits USING (commit_sha)
WHERE diff_truncated AND content_kind <> 'message' AND len(parents) > 1 AND {condition}"""


def build_range_condition(commit_range: CommitRange | None) -> str:
    """Return an SQL condition for the commits of the range; `TRUE` without a range.

    A range of more than MAX_LITERAL_COMMITS commits also gets `TRUE`, so the caller has to filter the results. With a
    condition, DuckDB does not read the diffs of other commits: a search of 204 commits in flask's 9,292 hunks took 28
    ms instead of 233.
    """
    if commit_range is None or len(commit_range.commits) > MAX_LITERAL_COMMITS:
        return "TRUE"
    return f"commit_sha IN ({format_literals(sorted(commit_range.commits))})"


def find_matching_hunks(
    connection: duckdb.DuckDBPyConnection,
    pattern: SearchPattern,
    condition: str,
    parameters: Mapping[str, Any],
) -> list[HunkMatch]:
    """Return the matching hunks, without those of `list_incomplete_hunks`. Raises BadPattern.

    Of a merge with a truncated diff, only the stored lines are searched.

    `condition`, `parameters`: SQL condition on the hunks, and its values, as `filters.build_filter_condition` returns.
    """
    values = {**parameters, "pattern": pattern.text}
    if pattern.is_regex:
        prefilter, count, line_matches = "TRUE", "1", f"regexp_matches({_LINE_TEXT}, $pattern)"
        if not _DIFF_ANCHORS.search(pattern.text):
            prefilter = "regexp_matches(diff, $diff_pattern)"
            values["diff_pattern"] = f"(?m){pattern.text}"
        counts_condition = "added + removed > 0"
    else:
        prefilter, count, line_matches = "contains(diff, $pattern)", _OCCURRENCES, "contains(line, $pattern)"
        counts_condition = "added <> removed"
    sql = _MATCHING_HUNKS.format(
        incomplete=_IS_INCOMPLETE,
        condition=condition,
        prefilter=prefilter,
        count=count,
        line_matches=line_matches,
        counts_condition=counts_condition,
    )
    try:
        rows = connection.execute(sql, values).fetchall()
    except duckdb.InvalidInputException as error:
        if not pattern.is_regex or describes_damage(str(error)):
            raise
        # DuckDB contains an older RE2, which does not know `(?<name>`.
        raise _build_pattern_error(pattern.text, str(error).partition("Error: ")[2]) from error
    return [HunkMatch(*row) for row in rows]


def list_incomplete_hunks(
    connection: duckdb.DuckDBPyConnection,
    pattern: SearchPattern,
    condition: str,
    parameters: Mapping[str, Any],
) -> list[IncompleteHunk]:
    """Return the hunks whose stored diff lacks lines, except those of merges.

    If the pattern cannot match the line of a submodule, submodules are left out, unless they replaced a file.

    `condition`, `parameters`: as in `find_matching_hunks`.
    """
    kind_condition = "TRUE"
    if not pattern.may_match_submodules:
        kind_condition = "(content_kind <> 'submodule' OR change_kind = 'type_changed')"
    sql = _INCOMPLETE_HUNKS.format(incomplete=_IS_INCOMPLETE, condition=f"{condition} AND {kind_condition}")
    return [IncompleteHunk(*row) for row in connection.execute(sql, dict(parameters)).fetchall()]


def list_truncated_merges(
    connection: duckdb.DuckDBPyConnection, condition: str, parameters: Mapping[str, Any]
) -> list[str]:
    """Return the merge commits with a truncated diff.

    `condition`, `parameters`: as in `find_matching_hunks`.
    """
    sql = _TRUNCATED_MERGES.format(condition=condition)
    return [sha for (sha,) in connection.execute(sql, dict(parameters)).fetchall()]


def _compile(pattern: str) -> Any:
    """Return the compiled RE2 expression. Raises BadPattern."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
        raise _build_pattern_error(pattern, reason) from error


def _build_pattern_error(pattern: str, reason: str) -> BadPattern:
    return BadPattern(f"{pattern!r:.200} is not valid: {reason}.", hint=_PATTERN_HINT)


# Columns of a LineChange. An old path that is not UTF-8 is recorded as escaped text, so its file is not found.
_COLUMNS: Final = (
    "hunk_id, commit_sha, coalesce(file_path_bytes, encode(file_path)), encode(old_path), "
    "epoch(commit_date)::BIGINT AS date"
)
_RENAMES: Final = "SELECT DISTINCT old_path, file_path FROM hunks WHERE old_path <> file_path"
_PATHS: Final = """
SELECT DISTINCT coalesce(old_path, file_path) FROM hunks WHERE parse_filename(coalesce(old_path, file_path)) = $name"""
_REMOVALS: Final = """
SELECT {columns} FROM hunks JOIN commits USING (commit_sha)
WHERE removed_lines > 0 AND epoch(commit_date) <= $last_date
  AND coalesce(old_path, file_path) IN (SELECT unnest($paths))
ORDER BY date DESC, hunk_id DESC"""

_TERM_IDS: Final = "SELECT term, term_id FROM terms WHERE term IN ({terms})"
_HUNKS_WITH_TERMS: Final = """
SELECT hunk_id FROM hunk_postings WHERE term_id IN ({term_ids}) GROUP BY hunk_id HAVING count(*) = {count}
ORDER BY hunk_id
LIMIT {limit}"""
_CHANGES: Final = """
SELECT {columns} FROM hunks JOIN commits USING (commit_sha)
WHERE hunk_id IN ({hunk_ids})
ORDER BY date, hunk_id"""


@dataclass(frozen=True, slots=True)
class LineChange:
    """Change of a file in a commit, which may have added or removed given lines.

    `path`: path after the change, in git's bytes. `old_path`: path before a rename, else None; escaped text if it is
    not UTF-8. `date`: commit date in seconds since 1970.
    """

    hunk_id: int
    commit_sha: str
    path: bytes
    old_path: bytes | None
    date: int


def load_renames(connection: duckdb.DuckDBPyConnection) -> Mapping[str, Set[str]]:
    """Return the new paths of renamed files, by old path. A path can have been renamed several times."""
    renames: dict[str, set[str]] = defaultdict(set)
    for old_path, path in connection.execute(_RENAMES).fetchall():
        renames[old_path].add(path)
    return renames


def find_paths(connection: duckdb.DuckDBPyConnection, name: str) -> Set[str]:
    """Return the paths that changed files of this name had before their change."""
    return {path for (path,) in connection.execute(_PATHS, {"name": name}).fetchall()}


def find_removals(
    connection: duckdb.DuckDBPyConnection,
    paths: Collection[str],
    is_reachable: Callable[[str], bool],
    last_date: int,
) -> list[LineChange]:
    """Return the reachable changes up to a date that remove lines of these files, newest first.

    Changes with the same date are in descending order of hunk ids.

    `paths`: paths of the files before the change. `last_date`: in seconds since 1970.
    """
    parameters = {"paths": list(paths), "last_date": last_date}
    rows = connection.execute(_REMOVALS.format(columns=_COLUMNS), parameters).fetchall()
    return [change for row in rows if is_reachable((change := LineChange(*row)).commit_sha)]


def find_changes_with_terms(
    connection: duckdb.DuckDBPyConnection,
    term_sets: Sequence[Set[str]],
    is_reachable: Callable[[str], bool],
    limit: int,
) -> list[list[LineChange]]:
    """Return for each set of terms the reachable changes whose text has all of them, oldest first.

    The text of a change consists of its added lines, message, path and symbols. An empty set finds no changes.

    `term_sets`: the sets. `limit`: maximum number of changes to consider for each set. If more changes have
    its terms, those with the smallest hunk ids are considered, which are the oldest in a linear history.
    """
    terms = frozenset().union(*term_sets)
    sql = _TERM_IDS.format(terms=format_literals(terms))
    term_id_by_term: dict[str, int] = dict(connection.execute(sql).fetchall()) if terms else {}
    if not term_id_by_term:
        return [[] for _ in term_sets]
    hunk_ids_by_set: list[set[int]] = []
    for term_set in term_sets:
        ids = [term_id_by_term[term] for term in term_set] if term_set <= term_id_by_term.keys() else []
        sql = _HUNKS_WITH_TERMS.format(term_ids=format_literals(ids), count=len(ids), limit=limit)
        hunk_ids_by_set.append({hunk_id for (hunk_id,) in connection.execute(sql).fetchall()})
    sql = _CHANGES.format(columns=_COLUMNS, hunk_ids=format_literals(set().union(*hunk_ids_by_set)))
    changes = [LineChange(*row) for row in connection.execute(sql).fetchall()]
    reachable = [change for change in changes if is_reachable(change.commit_sha)]
    return [[change for change in reachable if change.hunk_id in hunk_ids] for hunk_ids in hunk_ids_by_set]
