"""What a person asked to see, as one SQL clause every lane shares.

`Where` narrows and prefers; `Reach` says which recorded commits HEAD reaches. Both end in the `documents`
clause: one row per hunk HEAD reaches, with `kept` (passes every filter) and `preferred` (lies under a path
the query names). Lanes compute scores over all documents and drop rows afterwards, so a filter can never
change a score.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, TypeAlias

from pathspec.patterns.gitignore import GitIgnorePatternError
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from stores.errors import LineageError

Parameter: TypeAlias = str | int | float | datetime | list[str] | list[int] | None


class BadPathFilter(LineageError):
    """A path filter that is no gitignore pattern."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Which recorded commits HEAD reaches, as a difference to what the index noted for its own HEAD.

    `gone`: commits the index's HEAD reaches and the present one does not; `back`: the other way round.
    With `complete`, `back` alone is everything HEAD reaches: the index's HEAD object no longer exists.
    """

    gone: tuple[str, ...] = ()
    back: tuple[str, ...] = ()
    complete: bool = False


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
    reach: Reach = field(default_factory=Reach)

    @property
    def narrows(self) -> bool:
        """Whether any filter is set."""
        return any(part is not None for part in (self.language, self.since, self.path, self.author))


@dataclass(frozen=True, slots=True)
class Clause:
    """A piece of SQL and the named parameters it uses."""

    sql: str
    parameters: dict[str, Parameter]


# One row per hunk HEAD reaches. `words` columns are document lengths of BM25.
DOCUMENTS: Final = """
documents AS (
    SELECT hunk_id, text_digest, word_count, symbol_word_count, file_path, commit_sha, commit_date,
           {kept} AS kept,
           {preferred} AS preferred
    FROM hunks JOIN commits USING (commit_sha)
    WHERE {reached}
)"""
# Equal scores are ordered by content, never by row numbers, which depend on how the index grew.
BEST_FIRST: Final = "score DESC, commit_date DESC, commit_sha, file_path"

_REACHED_BY_INDEX: Final = """(
    commit_sha NOT IN (SELECT commit_sha FROM unreached)
    AND commit_sha NOT IN (SELECT unnest($gone::VARCHAR[]))
    OR commit_sha IN (SELECT unnest($back::VARCHAR[])))"""
_REACHED_BY_WALK: Final = "commit_sha IN (SELECT unnest($back::VARCHAR[]))"


def documents(where: Where) -> Clause:
    """The `documents` clause of a question."""
    narrowing, parameters = _narrowing(where)
    preferring, patterns = _preferring(where.near)
    reached, shas = _reached(where.reach)
    sql = DOCUMENTS.format(kept=narrowing, preferred=preferring, reached=reached)
    return Clause(sql, {**parameters, **patterns, **shas})


def naive_utc(moment: datetime) -> datetime:
    """The same moment as the database keeps it: UTC without saying so."""
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment


def path_regex(pattern: str) -> tuple[str, bool]:
    """A gitignore pattern as a regular expression, and whether it includes what it matches."""
    try:
        regex, include = GitIgnoreSpecPattern.pattern_to_regex(pattern)
    except GitIgnorePatternError as error:
        raise _bad_path(pattern) from error
    if not isinstance(regex, str) or include is None:
        raise _bad_path(pattern)
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
    regex = "|".join(f"(?:{_anonymous(path_regex(pattern)[0])})" for pattern in near)
    return "regexp_matches(file_path, $near)", {"near": regex}


def _anonymous(regex: str) -> str:
    # Joined alternatives may not repeat a group's name.
    return regex.replace("(?P<ps_d>", "(?:")


def _reached(reach: Reach) -> tuple[str, dict[str, Parameter]]:
    if reach.complete:
        return _REACHED_BY_WALK, {"back": list(reach.back)}
    return _REACHED_BY_INDEX, {"gone": list(reach.gone), "back": list(reach.back)}


def _bad_path(pattern: str) -> BadPathFilter:
    return BadPathFilter(
        f"{pattern!r} is not a path filter.",
        hint="Give a gitignore pattern such as `src/`, `*.py` or `/docs/**/*.md`.",
    )
