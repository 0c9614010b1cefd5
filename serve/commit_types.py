"""Requests and answers of `search_changes`, `show_commit` and `trace_symbol`, and their JSON.

Commands and servers import this module, so it imports neither the search nor the database.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

from serve.api_types import Compatibility, IndexState, Release, drop_empty_fields
from serve.errors import BadRequest
from serve.references import Reference
from serve.text import format_commit_count

# Commits of an answer, and files and lines of each of them, unless the request says otherwise.
DEFAULT_COMMITS: Final = 20
DEFAULT_FILES: Final = 10
DEFAULT_LINES: Final = 50

# Changes of an answer, unless the request says otherwise.
DEFAULT_CHANGES: Final = 20
# Places at HEAD that the text of an answer names. Overloads are several.
MAX_PLACES: Final = 12
MAX_SYMBOL_LENGTH: Final = 1_000
SYMBOL_HINT: Final = "Give a name, `Class.method`, or `PATH:Class.method`."

TraceStep = Literal["introduced", "modified", "moved", "renamed", "removed", "restored"]


@dataclass(frozen=True, slots=True)
class ChangeSearchRequest:
    """Request for all commits whose change adds or removes a text.

    `pattern`: text, or with `is_regex` a regular expression of RE2. `only_added`, `only_removed`: changes that add, or
    remove, more than they remove, or add. `limit`: number of commits to return. `max_files`, `max_lines`: files and
    lines to return of each. The filters are as in `FindRequest`.
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
        if self.limit < 1:
            raise BadRequest("The limit is less than 1.", hint="Give a number of commits to show.")

    @property
    def has_filters(self) -> bool:
        """True if any filter is set."""
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

    `added`, `removed`: occurrences of the text, or lines that match the expression, in added and removed lines.
    `lines`: the first of these lines.
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
    """Number of all matching commits and of those shown, their order, and what the search leaves out."""

    commits: int
    shown: int
    order: Literal["newest", "oldest"]
    limitation: str

    @property
    def count(self) -> str:
        """The counts as a phrase: `17 commits, all shown`."""
        commits = "1 commit" if self.commits == 1 else f"{self.commits:,} commits"
        if self.shown == self.commits:
            return f"{commits}, all shown" if self.commits > 1 else commits
        return f"{commits}, first {self.shown:,} shown"


@dataclass(frozen=True, slots=True)
class ChangeSearchMeta:
    """Index status, hints and details about an answer."""

    index_status: IndexState
    hint: str | None
    compatibility: Compatibility
    search: ChangeSearchDetails


@dataclass(frozen=True, slots=True)
class ChangeSearchAnswer:
    """Answer of `search_changes`."""

    hits: tuple[ChangeHit, ...]
    meta: ChangeSearchMeta

    def rewrite_index_texts(self, rewrite: Callable[[str], str]) -> ChangeSearchAnswer:
        """Return a copy with `rewrite` applied to the texts about the index."""
        meta = self.meta
        hint, compatibility = meta.hint and rewrite(meta.hint), meta.compatibility.rewrite_reason(rewrite)
        return replace(self, meta=replace(meta, hint=hint, compatibility=compatibility))

    def to_json_dict(self) -> dict[str, Any]:
        """Convert to JSON types, an object with `hits` and `meta`."""
        hits = [drop_empty_fields("hits", asdict(hit)) for hit in self.hits]
        meta = {name: drop_empty_fields(name, value) for name, value in asdict(self.meta).items()}
        return {"hits": hits, "meta": meta}


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
    """File that a commit changes. `added`, `removed`: numbers of lines. `old_path`: before a rename."""

    path: str
    change_kind: str
    added: int
    removed: int
    old_path: str | None = None


@dataclass(frozen=True, slots=True)
class CommitDetails:
    """Commit. `author_date` is None if the commit is of the same day, as most are.

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
        answer = _drop_none(asdict(self))
        answer["commit"] = drop_empty_fields("hits", answer["commit"])
        answer["files"] = [_drop_none(file) for file in answer["files"]]
        return answer


def _drop_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """Request for the history of a symbol.

    `symbol`: its name, `Class.method`, or `PATH:Class.method`. `limit`: number of changes to return.
    """

    symbol: str
    limit: int = DEFAULT_CHANGES
    oldest_first: bool = False

    def __post_init__(self) -> None:
        """Raise BadRequest for a text that cannot be a name, and for a limit without meaning."""
        if (
            not self.symbol.strip("().:# ")
            or len(self.symbol) > MAX_SYMBOL_LENGTH
            or not _is_text(self.symbol)
        ):
            raise BadRequest("This is not the name of a symbol.", hint=SYMBOL_HINT)
        if self.limit < 1:
            raise BadRequest("The limit is less than 1.", hint="Give a number of changes to show.")


@dataclass(frozen=True, slots=True)
class TraceHit:
    """Change of the symbol by a commit.

    - `step`: what the commit did. `moved`: to another place. `renamed`: the symbol, or its file. `restored`: it was
      removed before.
    - `symbol`, `path`: qualified name and file after the change, or before a removal.
    - `old_symbol`, `old_path`: before the change, if they differ.
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

    @property
    def source(self) -> str:
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
class TraceMeta:
    """Index status, hints and details about an answer."""

    index_status: IndexState
    hint: str | None
    compatibility: Compatibility
    trace: TraceDetails


@dataclass(frozen=True, slots=True)
class TraceAnswer:
    """Answer of `trace_symbol`."""

    hits: tuple[TraceHit, ...]
    meta: TraceMeta

    def rewrite_index_texts(self, rewrite: Callable[[str], str]) -> TraceAnswer:
        """Return a copy with `rewrite` applied to the texts about the index."""
        meta = self.meta
        hint, compatibility = meta.hint and rewrite(meta.hint), meta.compatibility.rewrite_reason(rewrite)
        return replace(self, meta=replace(meta, hint=hint, compatibility=compatibility))

    def to_json_dict(self) -> dict[str, Any]:
        """Convert to JSON types, an object with `hits` and `meta`."""
        hits = [
            {name: value for name, value in asdict(hit).items() if value is not None} for hit in self.hits
        ]
        meta = {name: drop_empty_fields(name, value) for name, value in asdict(self.meta).items()}
        return {"hits": hits, "meta": meta}


def _is_text(text: str) -> bool:
    """Return False for texts that the database cannot compare: with NUL or with invalid characters."""
    return "\0" not in text and text == text.encode("utf-8", "replace").decode()
