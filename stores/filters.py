"""Query filters for hunks (path, date, author, language, release, range of commits), and symbols that a query quotes.

`build_filter_condition` writes conditions in SQL. `snapshot.apply_filter` turns them into masks over the hunks of a
snapshot. DuckDB and pathspec are imported in the functions that use them, because modules that need only the
dataclasses should not load these packages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, TypeAlias

from stores.errors import LineageError

Parameter: TypeAlias = str | datetime

# POSIX classes such as `[[:alpha:]]`. pathspec translates them wrongly, so they are refused.
_POSIX_CLASS: Final = re.compile(r"(?<!\\)\[[^\]]*\[:[^\]]*:\]")
# Number of translated patterns to keep. A translation starts DuckDB, which takes 17 ms, and a query needs its pattern
# twice: to check it, and to filter.
_PATTERN_CACHE_SIZE: Final = 64
_PATTERN_HINT: Final = "Use a gitignore pattern such as `src/`, `*.py` or `/docs/**/*.md`."
_BRACKET_HINT: Final = (
    "In brackets, write characters and ascending ranges, as in `[a-z]`. "
    "Escape brackets that are part of a name: `app/\\[post-id\\]/`."
)


class BadPathFilter(LineageError):
    """Error for a path filter that is not a valid gitignore pattern."""


@dataclass(frozen=True, slots=True)
class QuotedSymbol:
    """Name of a symbol that a query quotes. `parent` is the name of the enclosing symbol; empty if it is not given."""

    name: str
    parent: str = ""

    def __str__(self) -> str:
        return f"{self.parent}.{self.name}" if self.parent else self.name


@dataclass(frozen=True, slots=True)
class ReleaseFilter:
    """Filter for the commits whose first release is `tag`. `commits`: all of these commits."""

    tag: str
    commits: frozenset[str]


@dataclass(frozen=True, slots=True)
class CommitRange:
    """Filter for the commits of a range. `text`: range in git's syntax. `commits`: all its commits, indexed or not."""

    text: str
    commits: frozenset[str]


@dataclass(frozen=True, slots=True)
class QueryFilter:
    """Conditions on the hunks (the diffs of single files) to rank, joined by AND; None sets no condition.

    `preferred_paths` is no condition: hunks that match one of these gitignore patterns get a higher score.

    - `language`: as in the column `hunks.language`.
    - `since`: earliest commit date. `until`: first commit date that is excluded.
    - `path`: gitignore pattern.
    - `author`: part of the author's name or address, in any case.
    - `release`: first release of the commit. `commit_range`: range that contains the commit.
    """

    language: str | None = None
    since: datetime | None = None
    path: str | None = None
    author: str | None = None
    preferred_paths: tuple[str, ...] = ()
    until: datetime | None = None
    release: ReleaseFilter | None = None
    commit_range: CommitRange | None = None

    @property
    def has_conditions(self) -> bool:
        """True if any condition is set."""
        conditions = (self.language, self.since, self.until, self.path, self.author)
        return any(condition is not None for condition in (*conditions, *self.commit_filters))

    @property
    def commit_filters(self) -> tuple[ReleaseFilter | CommitRange, ...]:
        """Conditions that are given as a set of commits: the release and the range."""
        return tuple(condition for condition in (self.release, self.commit_range) if condition is not None)


def build_filter_condition(query_filter: QueryFilter) -> tuple[str, dict[str, Parameter]]:
    """Return the condition on a row of `hunks` and its commit in SQL, and the values of its parameters.

    It does not contain `commit_filters`.
    """
    conditions = ["TRUE"]
    parameters: dict[str, Parameter] = {}
    if query_filter.language is not None:
        conditions.append("language IS NOT DISTINCT FROM $language")
        parameters["language"] = query_filter.language
    if query_filter.since is not None:
        conditions.append("commit_date >= $since")
        parameters["since"] = to_naive_utc(query_filter.since)
    if query_filter.until is not None:
        conditions.append("commit_date < $until")
        parameters["until"] = to_naive_utc(query_filter.until)
    if query_filter.path is not None:
        regex, is_included = translate_path_pattern(query_filter.path)
        # A commit that changes no file has a row with an empty path, which a negated pattern would match.
        conditions.append(
            f"file_path <> '' AND {'' if is_included else 'NOT '}regexp_matches(file_path, $path)"
        )
        parameters["path"] = regex
    if query_filter.author is not None:
        conditions.append("contains(lower(author_name || ' <' || author_email || '>'), lower($author))")
        parameters["author"] = query_filter.author
    return f"({' AND '.join(conditions)})", parameters


def to_naive_utc(time: datetime) -> datetime:
    """Return the time in UTC without a time zone, as the database stores it."""
    return time.astimezone(UTC).replace(tzinfo=None) if time.tzinfo else time


@lru_cache(_PATTERN_CACHE_SIZE)
def translate_path_pattern(pattern: str) -> tuple[str, bool]:
    """Return the regular expression of a gitignore pattern, and False if the pattern is negated (`!pattern`).

    Raises BadPathFilter if the pattern is invalid.
    """
    import duckdb

    if _POSIX_CLASS.search(pattern):
        raise _build_bad_path_error(pattern, _BRACKET_HINT)
    regex, is_included = _to_regex(pattern)
    try:
        with duckdb.connect() as connection:
            connection.execute("SELECT regexp_matches('', $1)", [regex])
    except duckdb.InvalidInputException as error:
        raise _build_bad_path_error(
            pattern, _BRACKET_HINT if "character class" in str(error) else _PATTERN_HINT
        ) from error
    return regex, is_included


def _to_regex(pattern: str) -> tuple[str, bool]:
    """Do the same as `translate_path_pattern`, but without its checks for POSIX classes and by DuckDB."""
    from pathspec.patterns.gitignore import GitIgnorePatternError
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    try:
        regex, is_included = GitIgnoreSpecPattern.pattern_to_regex(pattern)
    except GitIgnorePatternError as error:
        raise _build_bad_path_error(pattern, _PATTERN_HINT) from error
    if not isinstance(regex, str) or is_included is None:
        raise _build_bad_path_error(pattern, _PATTERN_HINT)
    return regex, is_included


def build_preference_condition(preferred_paths: tuple[str, ...]) -> tuple[str, dict[str, Parameter]]:
    """Return the SQL condition for a row of `hunks` in a preferred path, and the values of its parameters.

    Raises BadPathFilter for a negated pattern (`!pattern`).
    """
    if not preferred_paths:
        return "FALSE", {}
    if negated := next((pattern for pattern in preferred_paths if not _to_regex(pattern)[1]), None):
        raise _build_bad_path_error(negated, "Preferred paths cannot be negated.")
    regex = "|".join(f"(?:{_remove_group_name(_to_regex(pattern)[0])})" for pattern in preferred_paths)
    return "regexp_matches(file_path, $preferred)", {"preferred": regex}


def _remove_group_name(regex: str) -> str:
    """Replace pathspec's group named `ps_d` by a group without a name.

    The caller joins several expressions, and a name may occur only once in the result.
    """
    return regex.replace("(?P<ps_d>", "(?:")


def _build_bad_path_error(pattern: str, hint: str) -> BadPathFilter:
    return BadPathFilter(f"{pattern!r:.200} is not a path filter.", hint=hint)
