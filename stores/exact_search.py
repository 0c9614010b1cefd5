"""Search of the stored diffs: a text or a regular expression in changed lines, and commits that changed given lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import duckdb
import re2

from stores.errors import LineageError
from stores.filters import CommitRange

# An expression that matches a line also matches its file, except with these: ends of a text, flags switched off.
_TEXT_ANCHORS: Final = re.compile(r"\\[Az]|\(\?[a-zA-Z]*-")
# It also matches the stored diff, whose lines have a marker, except with these and with the start of a line.
_DIFF_ANCHORS: Final = re.compile(rf"(?<!\[)\^|{_TEXT_ANCHORS.pattern}")
_PATTERN_HINT: Final = (
    "Regular expressions have the syntax of RE2: without backreferences and lookaround; "
    r"`\b` is the start or end of a word."
)
# Start of the line that git prints for a submodule. A commit follows.
SUBMODULE_PREFIX: Final = "Subproject commit "

# Reading all diffs takes most of the time (115 ms for 25,000 hunks), so one statement searches for all lines.
# `contains` is several times as fast as a regular expression, and most diffs lack the text.
_CHANGED_LINES: Final = """
SELECT commit_sha, file_path, old_path, epoch(commit_date)::BIGINT, [{found}]
FROM hunks JOIN commits USING (commit_sha)
WHERE {contains}"""
_CONTAINS: Final = "contains(diff, $text{n})"
_FOUND: Final = "CASE WHEN contains(diff, $text{n}) THEN regexp_matches(diff, $pattern{n}) ELSE FALSE END"

# Commits of a range that a statement names. For a few thousand it would take longer than for the whole index.
MAX_LITERAL_COMMITS: Final = 500

# Each `contains` takes 30 ms. From this number on, one regular expression for all texts is faster.
MAX_CONTAINS: Final = 5


class BadPattern(LineageError):
    """Text or regular expression that cannot be searched for."""


@dataclass(frozen=True, slots=True)
class LinePattern:
    """Text, or with `is_regex` a regular expression, that lines can contain. Matching takes linear time.

    The expression is matched by RE2, here and in DuckDB. Raises BadPattern for an invalid one.
    """

    text: str
    is_regex: bool = False
    _regex: Any = field(init=False, repr=False, compare=False)
    _multiline_regex: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check and compile the pattern."""
        if not self.text:
            raise BadPattern("The pattern is empty.", hint="Give the text to look for.")
        if "\n" in self.text or "\0" in self.text:
            raise BadPattern(
                "The pattern has more than one line, or a NUL character.",
                hint="Lines are searched one by one: give a part of one line.",
            )
        object.__setattr__(self, "_regex", _compile(self.text) if self.is_regex else None)
        has_text_anchors = not self.is_regex or _TEXT_ANCHORS.search(self.text)
        object.__setattr__(
            self, "_multiline_regex", None if has_text_anchors else _compile(f"(?m){self.text}")
        )

    def find(self, line: str) -> int:
        """Return the start of the first match in a line; -1 if there is none."""
        if not self.is_regex:
            return line.find(self.text)
        match = self._regex.search(line)
        return match.start() if match else -1

    def matches(self, line: str) -> bool:
        """Return whether a line contains a match."""
        return self.find(line) >= 0

    @property
    def may_match_submodules(self) -> bool:
        """False if no line `Subproject commit SHA`, which git prints for a submodule, contains the text."""
        without_digits = self.text.rstrip("0123456789abcdef")
        return self.is_regex or self.text in SUBMODULE_PREFIX or SUBMODULE_PREFIX.endswith(without_digits)

    def may_differ(self, old: bytes, new: bytes) -> bool:
        """Return False if the change from one content to another cannot match. This is faster than comparing them."""
        if not self.is_regex:
            text = self.text.encode()
            return old.count(text) != new.count(text)
        contents = (content.decode("utf-8", "replace") for content in (old, new))
        return self._multiline_regex is None or any(map(self._multiline_regex.search, contents))

    def count_occurrences(self, line: str) -> int:
        """Return the number of occurrences of the text in a line; of an expression, 1 if it matches."""
        return int(self.matches(line)) if self.is_regex else line.count(self.text)

    def selects(self, added: int, removed: int) -> bool:
        """Return whether a change with these counts is a match: as `git log -G` for an expression, else as `-S`."""
        return added + removed > 0 if self.is_regex else added != removed


@dataclass(frozen=True, slots=True)
class HunkMatch:
    """Hunk (diff of one file in one commit) that matches.

    `order`: sorts commits of the same date, parents first. `added`, `removed`: occurrences of a text, or matching
    lines, among the added and the removed lines.
    """

    hunk_id: int
    commit_sha: str
    commit_date: datetime
    order: int
    added: int
    removed: int


@dataclass(frozen=True, slots=True)
class IncompleteHunk:
    """Hunk whose stored diff lacks lines: it was truncated, or the file was too large or a symlink or submodule.

    `path`, `old_path`: path after and before the change as git's bytes; None if there is no such file.
    `parent`: commit before the change; None for a root.
    """

    hunk_id: int
    commit_sha: str
    commit_date: datetime
    order: int
    parent: str | None
    path: bytes | None
    old_path: bytes | None


# Diffs of merges have only the lines that no parent has, so git cannot complete them from two files.
_IS_INCOMPLETE: Final = """
(diff_truncated OR content_kind IN ('oversize', 'symlink', 'submodule')) AND len(parents) < 2"""

# Splitting into lines takes most of the time, so the diffs are searched as a whole first.
_MATCHES: Final = """
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
SELECT hunk_id, commit_sha, commit_date, position, added, removed FROM counts WHERE {selected}"""

# The text after the marker of a line. Occurrences do not overlap, as git counts them.
_TEXT: Final = "substr(line, 2)"
_OCCURRENCES: Final = (
    f"(strlen({_TEXT}) - strlen(replace({_TEXT}, $pattern, ''))) // strlen($pattern::VARCHAR)"
)

_INCOMPLETE_HUNKS: Final = """
SELECT hunk_id, commit_sha, commit_date, commits.rowid, parents[1], change_kind, file_path, file_path_bytes, old_path
FROM hunks JOIN commits USING (commit_sha)
WHERE {incomplete} AND {condition}"""

_TRUNCATED_MERGES: Final = """
SELECT DISTINCT commit_sha FROM hunks JOIN commits USING (commit_sha)
WHERE diff_truncated AND content_kind <> 'message' AND len(parents) > 1 AND {condition}"""


def build_range_condition(commit_range: CommitRange | None) -> str:
    """Return a condition in SQL for the commits of an empty or short range, so that not all diffs are read.

    On flask's 9,292 hunks, 204 commits took 28 ms instead of 233. The caller filters the commits of longer ranges.
    """
    if commit_range is None or len(commit_range.commits) > MAX_LITERAL_COMMITS:
        return "TRUE"
    literals = ", ".join(f"'{sha}'" for sha in sorted(commit_range.commits))
    return f"commit_sha IN ({literals})" if literals else "FALSE"


def find_matching_hunks(
    connection: duckdb.DuckDBPyConnection,
    pattern: LinePattern,
    condition: str,
    parameters: Mapping[str, Any],
) -> list[HunkMatch]:
    """Return the hunks with a complete diff that match. `condition`: of `filters.build_filter_condition`."""
    values = {**parameters, "pattern": pattern.text}
    if pattern.is_regex:
        prefilter, count, line_matches = "TRUE", "1", f"regexp_matches({_TEXT}, $pattern)"
        if not _DIFF_ANCHORS.search(pattern.text):
            prefilter = "regexp_matches(diff, $diff_pattern)"
            values["diff_pattern"] = f"(?m){pattern.text}"
        selected = "added + removed > 0"
    else:
        prefilter, count, line_matches = "contains(diff, $pattern)", _OCCURRENCES, "contains(line, $pattern)"
        selected = "added <> removed"
    sql = _MATCHES.format(
        incomplete=_IS_INCOMPLETE,
        condition=condition,
        prefilter=prefilter,
        count=count,
        line_matches=line_matches,
        selected=selected,
    )
    return [HunkMatch(*row) for row in connection.execute(sql, values).fetchall()]


def list_incomplete_hunks(
    connection: duckdb.DuckDBPyConnection,
    pattern: LinePattern,
    condition: str,
    parameters: Mapping[str, Any],
) -> list[IncompleteHunk]:
    """Return the hunks whose stored diff lacks lines, and that may match.

    `condition`: of `filters.build_filter_condition`.
    """
    kinds = "TRUE" if pattern.may_match_submodules else "content_kind <> 'submodule'"
    sql = _INCOMPLETE_HUNKS.format(incomplete=_IS_INCOMPLETE, condition=f"{condition} AND {kinds}")
    return [_build_incomplete_hunk(*row) for row in connection.execute(sql, dict(parameters)).fetchall()]


def list_truncated_merges(
    connection: duckdb.DuckDBPyConnection, condition: str, parameters: Mapping[str, Any]
) -> list[str]:
    """Return the merges with a stored diff that lacks lines. `condition`: of `filters.build_filter_condition`."""
    sql = _TRUNCATED_MERGES.format(condition=condition)
    return [sha for (sha,) in connection.execute(sql, dict(parameters)).fetchall()]


def _build_incomplete_hunk(  # noqa: PLR0913, PLR0917 - the columns of a row
    hunk_id: int,
    sha: str,
    date: datetime,
    order: int,
    parent: str | None,
    change_kind: str,
    file_path: str,
    file_path_bytes: bytes | None,
    old_path: str | None,
) -> IncompleteHunk:
    path = file_path_bytes or file_path.encode()
    return IncompleteHunk(
        hunk_id=hunk_id,
        commit_sha=sha,
        commit_date=date,
        order=order,
        parent=parent,
        path=None if change_kind == "deleted" else path,
        old_path=None if change_kind == "added" else old_path.encode() if old_path else path,
    )


def _compile(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else error
        raise BadPattern(f"{pattern!r:.200} is not valid: {reason}.", hint=_PATTERN_HINT) from error


@dataclass(frozen=True, slots=True)
class DiffLinePattern:
    """Line of a diff to find: a text that it contains, and a regular expression (RE2) that it matches with its sign."""

    text: str
    pattern: str


@dataclass(frozen=True, slots=True)
class ChangedLine:
    """Change of a file whose diff has a line. `old_path`: path before a rename; `date`: seconds since 1970."""

    commit_sha: str
    file_path: str
    old_path: str | None
    date: int


def find_changed_lines(
    connection: duckdb.DuckDBPyConnection,
    patterns: Sequence[DiffLinePattern],
    is_reachable: Callable[[str], bool],
) -> list[list[ChangedLine]]:
    """Return for each pattern the reachable changes whose diff has such a line, oldest first."""
    numbers = range(len(patterns))
    sql = _CHANGED_LINES.format(
        found=", ".join(_FOUND.format(n=number) for number in numbers),
        contains=(
            " OR ".join(_CONTAINS.format(n=number) for number in numbers)
            if len(patterns) <= MAX_CONTAINS
            else "regexp_matches(diff, $any_text)"
        ),
    )
    parameters: dict[str, str] = {}
    if len(patterns) > MAX_CONTAINS:
        parameters["any_text"] = "|".join(re.escape(line.text) for line in patterns)
    for number, line in enumerate(patterns):
        parameters |= {f"text{number}": line.text, f"pattern{number}": line.pattern}
    changes: list[list[ChangedLine]] = [[] for _ in patterns]
    for *columns, found in connection.execute(sql, parameters).fetchall() if patterns else ():
        change = ChangedLine(*columns)
        if any(found) and is_reachable(change.commit_sha):
            for number in numbers:
                if found[number]:
                    changes[number].append(change)
    for found_changes in changes:
        found_changes.sort(key=lambda change: change.date)
    return changes
