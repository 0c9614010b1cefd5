"""Request and answer of `find_related_files`, and their JSON.

Commands and servers import this module, so it imports neither the search nor the database.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from serve.api_types import (
    MAX_FILTER_LENGTH,
    Answer,
    AnswerMeta,
    drop_none,
    is_valid_name,
    validate_length,
    validate_limit,
)
from serve.errors import BadRequest
from serve.text import format_commit_count

# Default maximum length of each of these lists: files that change together, owners, recent authors, hot spots.
DEFAULT_ITEMS: Final = 10
# Maximum length of each of these lists in a compact answer.
COMPACT_ITEMS: Final = 3


@dataclass(frozen=True, slots=True)
class RelatedRequest:
    """Request for the files that change together with a file or directory, its owners and its hot spots.

    `file`: path relative to the repository. `limit`: maximum length of the lists of files, owners, recent authors and
    hot spots.
    """

    file: str
    limit: int = DEFAULT_ITEMS

    def __post_init__(self) -> None:
        """Raise BadRequest if `file` cannot be a file name, or if `limit` is less than 1."""
        validate_length("file's name", len(self.file), MAX_FILTER_LENGTH)
        if not self.file.strip() or not is_valid_name(self.file):
            raise BadRequest("This is not a file name.", hint="Name a file or directory of the repository.")
        validate_limit(self.limit, "files")


@dataclass(frozen=True, slots=True)
class RelatedFile:
    """File that changes together with the requested file.

    - `support`: number of commits that change both files.
    - `confidence`: `support` divided by the number of commits that change the requested file.
    - `lift`: `confidence` divided by the share of commits of the whole history that change this file. 1 means no
      association.
    - `commit_sha`, `commit_subject`, `commit_date`: the newest commit that changes both files.
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
    """Person who wrote surviving lines.

    `lines`: number of these lines. `share`: `lines` divided by the number of all surviving lines of people, not bots.
    """

    name: str
    email: str
    lines: int
    share: float


@dataclass(frozen=True, slots=True)
class RecentAuthor:
    """Person who wrote recent commits.

    `lines`: number of added and removed lines. `share`: the person's share, from 0 to 1, of the recent work of people,
    not bots, in commits and lines. Newer work weighs more.
    """

    name: str
    email: str
    commits: int
    lines: int
    share: float


@dataclass(frozen=True, slots=True)
class Bot:
    """Bot that wrote surviving lines or recent commits. `lines`, `recent_commits`: numbers of these."""

    name: str
    lines: int
    recent_commits: int


@dataclass(frozen=True, slots=True)
class HotSpot:
    """Symbol of the file, or file of the directory, that many commits change.

    `commits`: number of these commits. `fixes`: number of these commits whose subject says that they fix something.
    `line`: first line of the symbol in the HEAD snapshot of the index; None for a file, or if the snapshot lacks the
    symbol. `commit_sha`, `commit_date`: the newest of these commits.
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

    - `old_paths`: paths that the file had before, newest first.
    - `commits`: number of all commits that change the file or directory.
    - `large_commits`: number of these commits that change more than `max_files` files. They do not count for `support`,
      `confidence` and `lift`.
    - `lines`: number of surviving lines, including lines of bots. `owners`: people who wrote these lines.
    - `recent_since`, `recent_until`: start and end of the last year of the history, for `recent_authors`.
    - `bots`: bots that wrote surviving lines, or commits in this period.
    - `hot_spots`: symbols of the file, or files of the directory, that the most commits change.
    - `limitation`: what the answer may lack.
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
    def count_phrase(self) -> str:
        """`commits` and `large_commits` as a phrase: `50 commits; 3 with more than 30 files do not count ...`."""
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

    def to_json_dict(self) -> dict[str, Any]:
        """Convert to JSON types, without empty optional fields."""
        meta = AnswerMeta.to_json_dict(self)
        if hot_spots := meta["related"].get("hot_spots"):
            meta["related"]["hot_spots"] = tuple(map(drop_none, hot_spots))
        return meta


@dataclass(frozen=True, slots=True)
class RelatedAnswer(Answer):
    """Answer of `find_related_files`."""

    hits: tuple[RelatedFile, ...]
    meta: RelatedMeta

    hit_type = RelatedFile

    def reduce(self) -> RelatedAnswer:
        """Return a copy with at most `COMPACT_ITEMS` files, owners, recent authors and hot spots."""
        details = self.meta.related
        details = replace(
            details,
            owners=details.owners[:COMPACT_ITEMS],
            recent_authors=details.recent_authors[:COMPACT_ITEMS],
            hot_spots=details.hot_spots[:COMPACT_ITEMS],
        )
        return replace(self, hits=self.hits[:COMPACT_ITEMS], meta=replace(self.meta, related=details))
