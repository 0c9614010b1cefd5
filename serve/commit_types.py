"""Requests and answers of `search_changes`, `show_commit` and `trace_symbol`, and their JSON.

Commands and servers import this module, so it imports neither the search nor the database.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

from serve.api_types import AnswerMeta, Release, drop_empty_fields, drop_none, validate_limit
from serve.errors import BadRequest
from serve.references import Reference
from serve.text import format_commit_count

# Commits of an answer, and files and lines of each of them, unless the request says otherwise.
DEFAULT_COMMITS: Final = 20
DEFAULT_FILES: Final = 10
DEFAULT_LINES: Final = 50

# Changes of an answer, unless the request says otherwise.
DEFAULT_CHANGES: Final = 20
# Definitions at HEAD that the text of an answer names. An overloaded function has several.
MAX_PLACES: Final = 12
MAX_SYMBOL_LENGTH: Final = 1_000
SYMBOL_HINT: Final = "Give a name, `Class.method`, or `PATH:Class.method`."

TraceStep = Literal["introduced", "modified", "moved", "renamed", "removed", "restored"]


@dataclass(frozen=True, slots=True)
class ChangeSearchRequest:
    """Request for all commits whose change adds or removes a text.

    - `pattern`: text, or with `is_regex` a regular expression of RE2.
    - `only_added`: only files to which the commit adds more occurrences of the text than it removes, or with
      `is_regex` a matching line. `only_removed`: the reverse.
    - `limit`: number of commits to return. `max_files`, `max_lines`: files and lines to return of each.
    - `path`, `since`, `until`, `author`, `commit_range`: filters as in `FindRequest`.
    """

    pattern: str
    is_regex: bool = False
    only_added: bool = False
    only_removed: bool = False
    oldest_first: bool = False
    limit: int = DEFAULT_COMMITS
    max_files: int = DEFAULT_FILES
    max_lines: int = DEFAULT_LINES
    path: str | None = None
    since: str | None = None
    until: str | None = None
    author: str | None = None
    commit_range: str | None = None

    def __post_init__(self) -> None:
        """Raise BadRequest for values that exclude each other or have no meaning."""
        if self.only_added and self.only_removed:
            raise BadRequest("Added and removed exclude each other.", hint="Omit both for all changes.")
        validate_limit(self.limit, "commits")

    @property
    def has_filters(self) -> bool:
        """True if any filter except the range is set."""
        return any(value is not None for value in (self.path, self.since, self.until, self.author))


@dataclass(frozen=True, slots=True)
class MatchingLine:
    """Added (`+`) or removed (`-`) line. `number`: in the file after, or before, the change."""

    sign: Literal["+", "-"]
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class MatchingFile:
    """File of a commit with matching lines.

    `added`, `removed`: number of occurrences of the text, or of lines that match the expression, among added and
    removed lines. `lines`: the first of these lines.
    """

    path: str
    change_kind: str
    added: int
    removed: int
    lines: tuple[MatchingLine, ...]


@dataclass(frozen=True, slots=True)
class ChangeHit:
    """Commit that adds or removes the text. `files`: the first files; `file_count` counts all.

    `references`, `release` and `also` are as in `PatternHit`.
    """

    commit_sha: str
    commit_subject: str
    commit_author: str
    commit_date: str
    author_date: str | None
    files: tuple[MatchingFile, ...]
    file_count: int
    references: tuple[Reference, ...] = ()
    release: Release | None = None
    also: tuple[str, ...] = ()
    provenance: Literal["EXACT"] = "EXACT"


@dataclass(frozen=True, slots=True)
class ChangeSearchDetails:
    """Number of all matching commits and of those shown, and their order.

    `limitation`: what the search leaves out; None if it found commits.
    """

    commits: int
    shown: int
    order: Literal["newest", "oldest"]
    limitation: str | None = None

    @property
    def count(self) -> str:
        """The counts as a phrase: `17 commits, all shown`."""
        commits = format_commit_count(self.commits)
        if self.shown == self.commits:
            return f"{commits}, all shown" if self.commits > 1 else commits
        return f"{commits}, first {self.shown:,} shown"


@dataclass(frozen=True, slots=True)
class ChangeSearchMeta(AnswerMeta):
    """Index status and hints of an answer, and numbers of commits."""

    search: ChangeSearchDetails


@dataclass(frozen=True, slots=True)
class ChangeSearchAnswer:
    """Answer of `search_changes`."""

    hits: tuple[ChangeHit, ...]
    meta: ChangeSearchMeta

    def rewrite_index_texts(self, rewrite: Callable[[str], str]) -> ChangeSearchAnswer:
        """Return a copy with `rewrite` applied to the texts about the index."""
        return replace(self, meta=self.meta.rewrite_index_texts(rewrite))

    def to_json_dict(self) -> dict[str, Any]:
        """Convert to JSON types, an object with `hits` and `meta`."""
        hits = [drop_empty_fields("hits", asdict(hit)) for hit in self.hits]
        return {"hits": hits, "meta": self.meta.to_json_dict()}


@dataclass(frozen=True, slots=True)
class ShowRequest:
    """Request to show a commit, the diff of one of its files, or a file as it was.

    `commit`: revision, or `REVISION:PATH` for the file as it was. `path`: file whose diff to show, or with `lines`
    (`START:END`) the file as it was. `max_tokens`: about how long a diff or file may be; None for no limit.
    """

    commit: str
    path: str | None = None
    lines: str | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class CommitFile:
    """File that a commit changes.

    `added`, `removed`: numbers of lines; None if they are unknown. `limitation` then says why. `old_path`: before a
    rename.
    """

    path: str
    change_kind: str
    added: int | None
    removed: int | None
    old_path: str | None = None
    limitation: str | None = None


@dataclass(frozen=True, slots=True)
class CommitDetails:
    """Commit. `author_date` is None if the commit date is the same day, as for most commits.

    `references`, `release` and `also` are as in `PatternHit`.
    """

    commit_sha: str
    commit_message: str
    commit_author: str
    author_email: str
    commit_date: str
    author_date: str | None
    parents: tuple[str, ...]
    references: tuple[Reference, ...] = ()
    release: Release | None = None
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileDiff:
    """Diff of one file in a commit. `omitted_lines`: lines at its end that exceed the length limit."""

    path: str
    text: str
    omitted_lines: int


@dataclass(frozen=True, slots=True)
class FileContent:
    """Lines `first_line` to `last_line` of a file in a commit; zeros if it is empty.

    `line_count`: lines of the whole file. `omitted_lines`: requested lines that exceed the length limit.
    """

    path: str
    first_line: int
    last_line: int
    line_count: int
    text: str
    omitted_lines: int


@dataclass(frozen=True, slots=True)
class ShowAnswer:
    """Answer of `show_commit`.

    `files`: the changed files, or the one whose diff is shown; none for a file as it was. `file_count` counts all files
    of the commit; None for a file as it was. `limitation`: what could not be shown, or what the answer shows.
    """

    commit: CommitDetails
    files: tuple[CommitFile, ...] = ()
    file_count: int | None = None
    diff: FileDiff | None = None
    content: FileContent | None = None
    limitation: str | None = None

    def to_json_dict(self) -> dict[str, Any]:
        """Convert to JSON types, without the parts that the answer does not have."""
        answer = drop_none(asdict(self))
        answer["commit"] = drop_empty_fields("hits", answer["commit"])
        answer["files"] = [drop_none(file) for file in answer["files"]]
        return answer


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """Request for the history of a symbol.

    `symbol`: its name, `Class.method`, or `PATH:Class.method`. `limit`: number of changes to return.
    """

    symbol: str
    limit: int = DEFAULT_CHANGES
    oldest_first: bool = False

    def __post_init__(self) -> None:
        """Raise BadRequest for a text that cannot be a name, and for a limit below 1."""
        if (
            not self.symbol.strip("().:# ")
            or len(self.symbol) > MAX_SYMBOL_LENGTH
            or not _is_text(self.symbol)
        ):
            raise BadRequest("This is not the name of a symbol.", hint=SYMBOL_HINT)
        validate_limit(self.limit, "changes")


@dataclass(frozen=True, slots=True)
class TraceHit:
    """Change of the symbol by a commit.

    - `step`: what the commit did. `moved`: to another place. `renamed`: the symbol, or its file. `restored`: it was
      removed before.
    - `symbol`, `path`: qualified name and file after the change, or before a removal.
    - `old_symbol`, `old_path`: name and file before the change, if they differ.
    - `references`, `release`: as in `PatternHit`.
    - `provenance`: `INFERRED` if similar code, or git's hunk header, is the evidence.
    """

    commit_sha: str
    commit_subject: str
    commit_author: str
    commit_date: str
    author_date: str | None
    step: TraceStep
    symbol: str
    path: str
    old_symbol: str | None
    old_path: str | None
    provenance: Literal["EXACT", "INFERRED"]
    references: tuple[Reference, ...] = ()
    release: Release | None = None

    @property
    def origin_suffix(self) -> str:
        """The name and path before the change, as ` from PATH:Class.method`; empty if they are the same."""
        if self.old_path is None and self.old_symbol is None:
            return ""
        return f" from {':'.join(part for part in (self.old_path, self.old_symbol) if part)}"


@dataclass(frozen=True, slots=True)
class HeadPlace:
    """Definition of the symbol at HEAD. Lines count from 1 and are inclusive."""

    symbol: str
    kind: str
    path: str
    start_line: int
    end_line: int


@dataclass(frozen=True, slots=True)
class TraceDetails:
    """Counts of all commits and of the changes by step, the places at HEAD, and what the answer may lack.

    `symbol`: the newest name, as `PATH:Class.method`. `at_head`: empty if HEAD has no such symbol.
    """

    symbol: str
    at_head: tuple[HeadPlace, ...]
    commits: int
    steps: dict[TraceStep, int]
    shown: int
    order: Literal["newest", "oldest"]
    limitation: str | None

    @property
    def count(self) -> str:
        """The counts as a phrase: `14 commits: 1 introduced, 12 modified, 1 removed; 10 changes shown`."""
        steps = ", ".join(f"{count:,} {step}" for step, count in self.steps.items())
        total = sum(self.steps.values())
        omitted = f"; {self.shown:,} of {total:,} changes shown" if self.shown < total else ""
        return f"{format_commit_count(self.commits)}: {steps}{omitted}"

    @property
    def place(self) -> str:
        """The places of the symbol at HEAD, as a phrase."""
        if not self.at_head:
            return "not at HEAD"
        shown = [f"{place.path}:{place.start_line}-{place.end_line}" for place in self.at_head[:MAX_PLACES]]
        omitted_count = len(self.at_head) - len(shown)
        return ", ".join([*shown, *([f"{omitted_count:,} more"] if omitted_count else [])])


@dataclass(frozen=True, slots=True)
class TraceMeta(AnswerMeta):
    """Index status and hints of an answer, and facts about the symbol."""

    trace: TraceDetails


@dataclass(frozen=True, slots=True)
class TraceAnswer:
    """Answer of `trace_symbol`."""

    hits: tuple[TraceHit, ...]
    meta: TraceMeta

    def rewrite_index_texts(self, rewrite: Callable[[str], str]) -> TraceAnswer:
        """Return a copy with `rewrite` applied to the texts about the index."""
        return replace(self, meta=self.meta.rewrite_index_texts(rewrite))

    def to_json_dict(self) -> dict[str, Any]:
        """Convert to JSON types, an object with `hits` and `meta`."""
        hits = [drop_none(drop_empty_fields("hits", asdict(hit))) for hit in self.hits]
        return {"hits": hits, "meta": self.meta.to_json_dict()}


def _is_text(text: str) -> bool:
    """Return False for texts that the database cannot compare: with NUL or with invalid characters."""
    return "\0" not in text and text == text.encode("utf-8", "replace").decode()
