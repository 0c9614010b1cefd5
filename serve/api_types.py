"""Shared parts of the requests and answers of several tools: validation, index status, JSON form and dates.

The requests and answers themselves are in `find_types`, `explain_types`, `commit_types` and `related_types`.

Commands and servers import this module at their start, so it imports neither the search nor the database.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, ClassVar, Final, Literal, Self

from serve.errors import BadRequest

# Limits of the number of commits (`k`) in requests of `find_pattern` and `explain_change`.
MIN_HITS: Final = 1
MAX_HITS: Final = 20
# Maximum lengths of a query and of a filter, in UTF-16 code units. The daemon accepts requests of 1 MiB, and ASCII JSON
# needs up to six bytes for a unit.
MAX_QUERY_LENGTH: Final = 100_000
MAX_FILTER_LENGTH: Final = 10_000

# Matches `10:42`, `10:`, `:42` and `42`; also `:` and an empty text, which `parse_line_range` rejects.
# 18 digits are enough for any file, and such a number fits in 64 bits.
LINE_RANGE: Final = re.compile(r"(?P<start>[0-9]{1,18})?(?:(?P<colon>:)(?P<end>[0-9]{1,18})?)?")
LINE_RANGE_HINT: Final = (
    "Give lines as `START:END`, from 1 and inclusive: `10:42`, `:42`, `10:`, or `42` for one line."
)
# Fields that are left out of the JSON if they are None or (). Keys: `hits` for the fields of each hit, or the name of
# an object in `meta`.
_OPTIONAL_FIELDS: Final = {
    "hits": (
        "author_date",
        "diff_excerpt",
        "matched",
        "weak",
        "repository",
        "references",
        "release",
        "also",
        "reverted_by",
        "changelog",
        "old_symbol",
        "old_path",
    ),
    "explain": (
        "related_commits",
        "evolution",
        "leads",
        "evolution_limitation",
        "enrichment_limitation",
        "omitted_items",
    ),
    "compatibility": ("reason", "missing_components"),
    "related": ("old_paths", "owners", "recent_authors", "bots", "hot_spots", "limitation"),
    "search": ("last", "elsewhere", "limitation"),
}


@dataclass(frozen=True, slots=True, order=True)
class NamedRepository:
    """Indexed repository. `name`: unique among the indexed repositories. `path`: absolute path."""

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class LoadedIndex:
    """Index in memory.

    `path`: path of the repository. `hunks`: number of hunks of the largest snapshot. `bytes`: approximate memory of all
    snapshots. `idle_seconds`: time since the last query.
    """

    path: str
    hunks: int
    bytes: int
    idle_seconds: float


@dataclass(frozen=True, slots=True)
class Release:
    """First release of a commit: the tag with the oldest `date` among the tags that contain the commit."""

    tag: str
    date: str


@dataclass(frozen=True, slots=True)
class IndexState:
    """Status of the index at the time of an answer (field `index_status`).

    `last_indexed_commit` and `indexed_at` are None if nothing is indexed.
    """

    last_indexed_commit: str | None
    commits_behind_head: int
    indexed_at: str | None


@dataclass(frozen=True, slots=True)
class Compatibility:
    """Compatibility of the index with this version of the program.

    A component is a part of the program with a version, such as a parser or the embedding model.

    - `status`: `find_pattern` can search an index that needs a refresh, but not one that needs a rebuild. `unknown`: a
      component has no recorded version.
    - `reason`: text that names the components that differ, or says why nothing can be compared.
    - `missing_components`: components without a recorded version.
    """

    status: Literal["compatible", "query_compatible_needs_refresh", "needs_rebuild", "unknown"]
    reason: str | None = None
    missing_components: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerMeta:
    """Status of the index that an answer is based on, and hints for the user. Subclasses add the details of a tool."""

    index_status: IndexState
    hint: str | None
    compatibility: Compatibility

    def rewrite_commands(self, rewrite: Callable[[str], str]) -> Self:
        """Return a copy with `rewrite` applied to the texts that may name commands: hint and compatibility reason."""
        reason = self.compatibility.reason
        compatibility = replace(self.compatibility, reason=reason and rewrite(reason))
        return replace(self, hint=self.hint and rewrite(self.hint), compatibility=compatibility)

    def to_json_dict(self) -> dict[str, Any]:
        """Convert to JSON types, without empty optional fields."""
        return {name: drop_empty_fields(name, value) for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer of a tool. Subclasses declare the types of `hits` and `meta`. `hit_type`: class of the hits."""

    hits: tuple[Any, ...]
    meta: AnswerMeta

    hit_type: ClassVar[type]

    def rewrite_commands(self, rewrite: Callable[[str], str]) -> Self:
        """Return a copy with `rewrite` applied to the texts that may name commands."""
        return replace(self, meta=self.meta.rewrite_commands(rewrite))

    def to_json_dict(self, fields: Sequence[str] = ()) -> dict[str, Any]:
        """Convert to JSON types, an object with `hits` and `meta`, without empty optional fields.

        `fields`: names of the fields of hits to keep; if empty, all are kept. Raises BadRequest for an unknown name.
        """
        hits = [drop_empty_fields("hits", asdict(hit)) for hit in self.hits]
        return {"hits": select_fields(hits, fields, self.hit_type), "meta": self.meta.to_json_dict()}


def parse_line_range(lines: str | None) -> tuple[int, int]:
    """Return the first and the last line of `START:END` or of a single line number; None means all lines.

    An omitted start becomes 1. An omitted end becomes 0, which means the end of the file. Raises BadRequest for other
    texts.
    """
    if lines is None:
        return 1, 0
    match = LINE_RANGE.fullmatch(lines.strip())
    if match is None or not (match["start"] or match["end"]):
        raise BadRequest(f"{lines!r:.200} is not a range of lines.", hint=LINE_RANGE_HINT)
    start, end = (int(bound) if bound else None for bound in match.group("start", "end"))
    if match["colon"] is None:
        end = start
    if 0 in {start, end}:
        raise BadRequest("Lines count from 1.", hint=LINE_RANGE_HINT)
    if start and end and end < start:
        raise BadRequest(
            f"The range ends at line {end}, before it starts at line {start}.", hint=LINE_RANGE_HINT
        )
    return start or 1, end or 0


def validate_text(name: str, text: str, max_length: int) -> None:
    """Raise BadRequest for a text that has no UTF-8 form, or more than `max_length` UTF-16 code units.

    `name`: what the text is, for the error message, such as `query`.
    """
    validate_encoding(name, text)
    validate_length(name, len(text.encode("utf-16-le")) // 2, max_length)


def validate_encoding(name: str, text: str) -> None:
    """Raise BadRequest for a text that has no UTF-8 form, because it contains surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadRequest(
            f"The {name} contains invalid text: {text[error.start : error.end]!r:.20}.",
            hint="Pass valid UTF-8.",
        ) from error


def validate_length(name: str, length: int, max_length: int) -> None:
    """Raise BadRequest if the length of a text exceeds the limit. `max_length`: in the unit of `length`."""
    if length > max_length:
        raise BadRequest(f"The {name} is longer than {max_length:,} characters.", hint="Shorten it.")


def validate_limit(limit: int, items: str) -> None:
    """Raise BadRequest for a limit below 1. `items`: noun for what is limited, such as `commits`."""
    if limit < 1:
        raise BadRequest("The limit is less than 1.", hint=f"Give a number of {items} to show.")


def clamp_limit(k: int) -> int:
    """Clamp the number of requested commits to `MIN_HITS`..`MAX_HITS`."""
    return max(MIN_HITS, min(MAX_HITS, k))


def is_valid_name(name: str) -> bool:
    """Return whether a file or revision can have this name: non-empty, without NUL, and convertible to bytes.

    Surrogates are valid only if they represent bytes that are not UTF-8 (`os.fsdecode`).
    """
    try:
        return bool(os.fsencode(name)) and "\0" not in name
    except UnicodeEncodeError:
        return False


def select_fields(hits: list[dict[str, Any]], fields: Sequence[str], hit_type: type) -> list[dict[str, Any]]:
    """Return the JSON objects of hits with only these fields, in this order; unchanged if `fields` is empty.

    Raises BadRequest if hits of this type have no such field.
    """
    if not fields:
        return hits
    names = [name.strip() for name in fields]
    known_names = [field.name for field in dataclasses.fields(hit_type)]
    if unknown_names := [name for name in names if name not in known_names]:
        raise BadRequest(
            f"Hits have no field {unknown_names[0]!r}.", hint=f"Their fields are {', '.join(known_names)}."
        )
    return [{name: hit[name] for name in names if name in hit} for hit in hits]


def drop_empty_fields(name: str, value: Any) -> Any:
    """Return `value` without its empty optional fields.

    `name`: key in `_OPTIONAL_FIELDS`. For any other name, `value` is returned unchanged.
    """
    optional_fields = _OPTIONAL_FIELDS.get(name, ())
    if not optional_fields:
        return value
    return {key: item for key, item in value.items() if key not in optional_fields or item not in (None, ())}


def drop_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def format_author_date(author_date: datetime, commit_date: datetime) -> str | None:
    """Return the author date as RFC 3339, or None if the commit date is on the same day. Both dates are naive UTC."""
    return None if author_date.date() == commit_date.date() else format_rfc3339(author_date)


def format_rfc3339(naive_utc: datetime) -> str:
    """Return a time of the database, which is in UTC without a time zone, as RFC 3339: `2020-01-02T00:00:00Z`."""
    return naive_utc.isoformat(timespec="seconds") + "Z"
