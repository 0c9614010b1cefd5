"""What a person asked to see, as one choice among a snapshot's hunks that every lane shares.

Lanes score all hunks that HEAD reaches and drop afterwards what is not kept, so a filter can never change a score.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, TypeAlias

import duckdb
import numpy as np
from pathspec.patterns.gitignore import GitIgnorePatternError
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from stores.errors import LineageError
from stores.snapshot import Bools, Snapshot, integers

Parameter: TypeAlias = str | datetime

# `[[:alpha:]]`: git knows such classes, pathspec does not, and RE2 reads what pathspec makes of them otherwise.
_NAMED_CLASS: Final = re.compile(r"(?<!\\)\[[^\]]*\[:[^\]]*:\]")
# Starting a database to ask takes 17 ms, and a question asks for its filter twice.
_REMEMBERED: Final = 64
_FORMS: Final = "Give a gitignore pattern such as `src/`, `*.py` or `/docs/**/*.md`."
_BRACKETS: Final = (
    "Brackets hold characters and rising ranges, as in `[a-z]`; "
    "those of a name are escaped: `app/\\[post-id\\]/`."
)


class BadPathFilter(LineageError):
    """A path filter that is no gitignore pattern."""


@dataclass(frozen=True, slots=True)
class Where:
    """Which hunks to rank; every filter narrows further.

    `language` as in `hunks.language`; `since` a lower bound on the commit date; `path` a gitignore pattern;
    `author` a part of the name or address, in any case; `near` gitignore patterns to prefer, not to require.
    """

    language: str | None = None
    since: datetime | None = None
    path: str | None = None
    author: str | None = None
    near: tuple[str, ...] = ()

    @property
    def narrows(self) -> bool:
        """Whether any filter is set."""
        return any(part is not None for part in (self.language, self.since, self.path, self.author))


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """The hunks of a snapshot, by position: `kept` pass every filter, `preferred` lie under a path to prefer."""

    kept: Bools
    preferred: Bools


_CHOSEN: Final = """
SELECT hunk_id, {kept} AS kept, {preferred} AS preferred
FROM hunks JOIN commits USING (commit_sha)"""


def chosen(connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, where: Where) -> Chosen:
    """What a question's filters mean for the hunks of a snapshot."""
    kept, preferred = np.ones(len(snapshot.hunks), np.bool_), np.zeros(len(snapshot.hunks), np.bool_)
    if where.narrows or where.near:
        narrowing, parameters = _narrowing(where)
        preferring, patterns = _preferring(where.near)
        sql = _CHOSEN.format(kept=narrowing, preferred=preferring)
        rows = connection.execute(sql, {**parameters, **patterns}).to_arrow_table()
        positions = snapshot.hunks.positions.at(integers(rows.column("hunk_id")))
        reached = positions >= 0
        for mask, name in ((kept, "kept"), (preferred, "preferred")):
            mask[positions[reached]] = rows.column(name).to_numpy()[reached]
    return Chosen(kept, preferred)


def naive_utc(moment: datetime) -> datetime:
    """The same moment as the database keeps it: UTC without saying so."""
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment


@lru_cache(_REMEMBERED)
def path_regex(pattern: str) -> tuple[str, bool]:
    """A gitignore pattern as a regular expression, and whether it includes what it matches."""
    if _NAMED_CLASS.search(pattern):
        raise _bad_path(pattern, _BRACKETS)
    regex, include = _translated(pattern)
    try:
        with duckdb.connect() as connection:
            connection.execute("SELECT regexp_matches('', $1)", [regex])
    except duckdb.InvalidInputException as error:
        raise _bad_path(pattern, _BRACKETS if "character class" in str(error) else _FORMS) from error
    return regex, include


def _translated(pattern: str) -> tuple[str, bool]:
    try:
        regex, include = GitIgnoreSpecPattern.pattern_to_regex(pattern)
    except GitIgnorePatternError as error:
        raise _bad_path(pattern, _FORMS) from error
    if not isinstance(regex, str) or include is None:
        raise _bad_path(pattern, _FORMS)
    return regex, include


def _narrowing(where: Where) -> tuple[str, dict[str, Parameter]]:
    conditions = ["TRUE"]
    parameters: dict[str, Parameter] = {}
    if where.language is not None:
        conditions.append("language IS NOT DISTINCT FROM $language")
        parameters["language"] = where.language
    if where.since is not None:
        conditions.append("commit_date >= $since")
        parameters["since"] = naive_utc(where.since)
    if where.path is not None:
        regex, include = path_regex(where.path)
        conditions.append(f"{'' if include else 'NOT '}regexp_matches(file_path, $path)")
        parameters["path"] = regex
    if where.author is not None:
        conditions.append("contains(lower(author_name || ' <' || author_email || '>'), lower($author))")
        parameters["author"] = where.author
    return f"({' AND '.join(conditions)})", parameters


def _preferring(near: tuple[str, ...]) -> tuple[str, dict[str, Parameter]]:
    if not near:
        return "FALSE", {}
    regex = "|".join(f"(?:{_anonymous(_translated(pattern)[0])})" for pattern in near)
    return "regexp_matches(file_path, $near)", {"near": regex}


def _anonymous(regex: str) -> str:
    # Joined alternatives may not repeat a group's name.
    return regex.replace("(?P<ps_d>", "(?:")


def _bad_path(pattern: str, hint: str) -> BadPathFilter:
    return BadPathFilter(f"{pattern!r:.200} is not a path filter.", hint=hint)
