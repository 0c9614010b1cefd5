"""Search for commits whose stored diffs contain given lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import duckdb

# Reading all diffs takes most of the time (115 ms for 25,000 hunks), so one statement searches for all lines.
# `contains` is several times as fast as a regular expression, and most diffs lack the text.
_CHANGED_LINES: Final = """
SELECT commit_sha, file_path, old_path, epoch(commit_date)::BIGINT, [{found}]
FROM hunks JOIN commits USING (commit_sha)
WHERE {contains}"""
_CONTAINS: Final = "contains(diff, $text{n})"
_FOUND: Final = "CASE WHEN contains(diff, $text{n}) THEN regexp_matches(diff, $pattern{n}) ELSE FALSE END"


# Each `contains` takes 30 ms. From this number on, one regular expression for all texts is faster.
MAX_CONTAINS: Final = 5


@dataclass(frozen=True, slots=True)
class LinePattern:
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
    patterns: Sequence[LinePattern],
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
