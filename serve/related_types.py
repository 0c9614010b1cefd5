"""Request and answer of `find_related_files`, and their JSON.

Commands and servers import this module, so it imports neither the search nor the database.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

from serve.api_types import (
    MAX_FILTER_LENGTH,
    AnswerMeta,
    drop_none,
    is_encodable,
    parse_field_names,
    validate_length,
    validate_limit,
)
from serve.errors import BadRequest
from serve.text import format_commit_count

# Default length of each list: files that change together, owners, authors, hot spots.
DEFAULT_ITEMS: Final = 10
# Length of each list in a compact answer.
COMPACT_ITEMS: Final = 3


@dataclass(frozen=True, slots=True)
class RelatedRequest:
    """Request for the files that change together with a file or directory, its owners and its hot spots.

    `file` is relative to the repository. `limit`: number of items of each list to return.
    """

    file: str
    limit: int = DEFAULT_ITEMS

    def __post_init__(self) -> None:
        """Raise BadRequest if `file` cannot be a file name, or if `limit` is less than 1."""
        validate_length("file's name", len(self.file), MAX_FILTER_LENGTH)
        if not self.file.strip() or "\0" in self.file or not is_encodable(self.file):
            raise BadRequest("This is not a file name.", hint="Name a file or directory of the repository.")
        validate_limit(self.limit, "files")


@dataclass(frozen=True, slots=True)
class RelatedFile:
    """File that changes together with the requested one.

    - `support`: number of commits that change both.
    - `confidence`: `support` divided by the number of commits that change the requested file.
    - `lift`: `confidence` divided by the share of all commits that change this file. 1 means no association.
    - `commit_sha`, `commit_subject`, `commit_date`: the newest commit that changes both.
    """

    file_path: str
    support: int
    confidence: float
    lift: float
    commit_sha: str
    commit_subject: str
    commit_date: str


@dataclass(frozen=True, slots=True)
class Owner:
    """Author of surviving lines. `share`: share of the lines that people wrote."""

    name: str
    email: str
    lines: int
    share: float


@dataclass(frozen=True, slots=True)
class RecentAuthor:
    """Author of recent commits. `lines`: added and removed lines. `share`: share of the recent work of people."""

    name: str
    email: str
    commits: int
    lines: int
    share: float


@dataclass(frozen=True, slots=True)
class Bot:
    """Bot that wrote surviving lines or recent commits."""

    name: str
    lines: int
    recent_commits: int


@dataclass(frozen=True, slots=True)
class HotSpot:
    """Symbol of the file, or file of the directory, that many commits change.

    `fixes`: commits whose subject says that they fix something. `line`: first line of a symbol, as last indexed.
    `commit_sha`, `commit_date`: the newest of the commits.
    """

    name: str
    commits: int
    fixes: int
    line: int | None
    commit_sha: str
    commit_date: str


@dataclass(frozen=True, slots=True)
class RelatedDetails:
    """Facts about the requested file or directory.

    - `old_paths`: names that the file had before, newest first.
    - `commits`: all commits that change it. `large_commits`: those of more than `max_files` files, which do not count
      for `support`, `confidence` and `lift`.
    - `lines`: number of surviving lines, those of bots included. `owners`: authors of these lines, without bots.
    - `recent_since`, `recent_until`: the period of `recent_authors`, the last year of the history.
    """

    path: str
    kind: Literal["file", "directory"]
    old_paths: tuple[str, ...]
    commits: int
    large_commits: int
    max_files: int
    lines: int
    owners: tuple[Owner, ...]
    recent_since: str | None
    recent_until: str | None
    recent_authors: tuple[RecentAuthor, ...]
    bots: tuple[Bot, ...]
    hot_spots: tuple[HotSpot, ...]
    limitation: str | None

    @property
    def count(self) -> str:
        """Text with the numbers of commits: `N commits; 3 with more than 30 files do not count for related files`."""
        verb = "does" if self.large_commits == 1 else "do"
        omitted = (
            f"; {self.large_commits:,} with more than {self.max_files} files {verb} not count for related files"
            if self.large_commits
            else ""
        )
        return f"{format_commit_count(self.commits)}{omitted}"


@dataclass(frozen=True, slots=True)
class RelatedMeta(AnswerMeta):
    """Index status and hints of an answer, and facts about the file or directory."""

    related: RelatedDetails


@dataclass(frozen=True, slots=True)
class RelatedAnswer:
    """Answer of `find_related_files`."""

    hits: tuple[RelatedFile, ...]
    meta: RelatedMeta

    def rewrite_index_texts(self, rewrite: Callable[[str], str]) -> RelatedAnswer:
        """Return a copy with `rewrite` applied to the texts about the index."""
        return replace(self, meta=self.meta.rewrite_index_texts(rewrite))

    def to_json_dict(self, fields: Sequence[str] = ()) -> dict[str, Any]:
        """Convert to JSON types, an object with `hits` and `meta`.

        `fields`: the fields of hits to keep; all if empty. Raises BadRequest for an unknown one.
        """
        names = parse_field_names(fields, RelatedFile)
        hits = [asdict(hit) for hit in self.hits]
        meta = self.meta.to_json_dict()
        meta["related"]["hot_spots"] = tuple(map(drop_none, meta["related"].get("hot_spots", ())))
        return {
            "hits": [{name: hit[name] for name in names} for hit in hits] if names else hits,
            "meta": meta,
        }

    def reduce(self) -> RelatedAnswer:
        """Return a copy with the first `COMPACT_ITEMS` of each list."""
        details = self.meta.related
        details = replace(
            details,
            owners=details.owners[:COMPACT_ITEMS],
            recent_authors=details.recent_authors[:COMPACT_ITEMS],
            hot_spots=details.hot_spots[:COMPACT_ITEMS],
        )
        return replace(self, hits=self.hits[:COMPACT_ITEMS], meta=replace(self.meta, related=details))
