"""Requests and answers of `search_changes`, `show_commit` and `trace_symbol`, and their JSON.

Commands and servers import this module, so it imports neither the search nor the database.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from serve.api_types import Answer, AnswerMeta, Release, drop_empty_fields, drop_none, validate_limit
from serve.errors import BadRequest
from serve.references import Reference
from serve.text import format_commit_count

# Default limits of `search_changes`: commits of an answer, and files and lines of each commit.
DEFAULT_COMMITS: Final = 20
DEFAULT_FILES: Final = 10
DEFAULT_LINES: Final = 50

# Default limit of `trace_symbol`: changes of an answer.
DEFAULT_CHANGES: Final = 20
# Maximum number of definitions at HEAD in the text of an answer. An overloaded function has several.
MAX_SHOWN_PLACES: Final = 12
MAX_SYMBOL_LENGTH: Final = 1_000
SYMBOL_HINT: Final = "Give a name, `Class.method`, or `PATH:Class.method`."

TraceStep = Literal["introduced", "modified", "moved", "renamed", "removed", "restored"]


@dataclass(frozen=True, slots=True)
class ChangeSearchRequest:
    """Request for all commits whose change adds or removes a text.

    - `pattern`: text, or with `is_regex` a regular expression in the syntax of RE2.
    - `only_added`: keep only the files to which the commit adds more occurrences of the text than it removes. With
      `is_regex`: the files to which it adds a matching line.
    - `only_removed`: keep only the files from which the commit removes more occurrences of the text than it adds. With
      `is_regex`: the files from which it removes a matching line.
    - `limit`: maximum number of commits. `max_files`, `max_lines`: maximum number of files and lines of each commit.
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
        """Raise BadRequest for values that exclude each other, and for a limit below 1."""
        if self.only_added and self.only_removed:
            raise BadRequest("Added and removed exclude each other.", hint="Omit both for all changes.")
        validate_limit(self.limit, "commits")


@dataclass(frozen=True, slots=True)
class MatchingLine:
    """Added (`+`) or removed (`-`) line.

    `number`: line number in the file after the change, or for a removed line in the file before the change.
    """

    sign: Literal["+", "-"]
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class MatchingFile:
    """File of a commit with matching lines.

    `added`: number of occurrences of the text in the added lines, or number of added lines that match the regular
    expression. `removed`: the same number for the removed lines. `lines`: the first matching lines.
    """

    path: str
    change_kind: str
    added: int
    removed: int
    lines: tuple[MatchingLine, ...]


@dataclass(frozen=True, slots=True)
class ChangeHit:
    """Commit that adds or removes the text.

    `files`: the first matching files. `file_count`: number of all matching files. `also`, `references`, `release`,
    `reverted_by`: as in `PatternHit`.
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
    reverted_by: str | None = None
    provenance: Literal["EXACT"] = "EXACT"


@dataclass(frozen=True, slots=True)
class ChangeSearchDetails:
    """Counts and order of the commits of an answer.

    - `commits`: number of matching commits. `shown`: number of commits in the answer.
    - `last`: the matching commit that comes last in `order` (the oldest, if the order is newest first), with empty
      `files`; None if all commits are shown.
    - `elsewhere`: number of commits that match outside the requested path, not counting truncated diffs; None if no
      path was requested, or if commits match in the path.
    - `limitation`: what the search leaves out; None if it found commits.
    """

    commits: int
    shown: int
    order: Literal["newest", "oldest"]
    last: ChangeHit | None = None
    elsewhere: int | None = None
    limitation: str | None = None

    @property
    def last_label(self) -> str:
        """Label of `last`: `Oldest` or `Newest` of the matching commits."""
        return "Oldest" if self.order == "newest" else "Newest"

    @property
    def count_phrase(self) -> str:
        """`commits` and `shown` as a phrase: `17 commits, all shown`."""
        commits = format_commit_count(self.commits)
        if self.elsewhere:
            return f"{commits}, outside the path at least {self.elsewhere:,}"
        if self.shown == self.commits:
            return f"{commits}, all shown" if self.commits > 1 else commits
        return f"{commits}, first {self.shown:,} shown"


@dataclass(frozen=True, slots=True)
class ChangeSearchMeta(AnswerMeta):
    """Index status and hints of an answer, and counts of its commits."""

    search: ChangeSearchDetails

    def to_json_dict(self) -> dict[str, Any]:
        """Convert to JSON types, without empty optional fields."""
        meta = AnswerMeta.to_json_dict(self)
        if last := meta["search"].get("last"):
            meta["search"]["last"] = drop_empty_fields("hits", last)
        return meta


@dataclass(frozen=True, slots=True)
class ChangeSearchAnswer(Answer):
    """Answer of `search_changes`."""

    hits: tuple[ChangeHit, ...]
    meta: ChangeSearchMeta

    hit_type = ChangeHit


@dataclass(frozen=True, slots=True)
class ShowRequest:
    """Request to show a commit, the diff of one of its files, or a file as it was.

    - `commit`: revision, or `REVISION:PATH` for the file as it was.
    - `path`: file whose diff to show. `lines` (`START:END`): show these lines of the file as it was, not the diff.
    - `max_tokens`: approximate maximum length of the message and the files, diff or content; None for no limit.
    """

    commit: str
    path: str | None = None
    lines: str | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class CommitFile:
    """File that a commit changes.

    `added`, `removed`: numbers of added and removed lines; None if they are unknown. `limitation`: reason why they are
    unknown, else None. `old_path`: path before a rename, else None.
    """

    path: str
    change_kind: str
    added: int | None
    removed: int | None
    old_path: str | None = None
    limitation: str | None = None


@dataclass(frozen=True, slots=True)
class CommitDetails:
    """Commit to show. `author_date` is None if the commit date is the same day, as for most commits.

    `also`: other reachable commits with the same change. `references`, `release`, `reverted_by`: as in `PatternHit`.
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
    reverted_by: str | None = None


@dataclass(frozen=True, slots=True)
class FileDiff:
    """Diff of one file in a commit. `omitted_lines`: number of lines cut off at the end because of the length limit."""

    path: str
    text: str
    omitted_lines: int


@dataclass(frozen=True, slots=True)
class FileContent:
    """Lines `first_line` to `last_line` of a file in a commit. Both are 0 if the file is empty.

    `line_count`: number of lines of the whole file. `omitted_lines`: number of requested lines that were cut off
    because of the length limit.
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

    - `files`: the changed files, or the one file whose diff is shown; empty if a file is shown as it was.
    - `file_count`: number of files that the commit changes; None if a file is shown as it was.
    - `diff`, `content`: diff of the requested file, or the file as it was; None if not requested.
    - `changelog`: as in `PatternHit`.
    - `limitation`: what could not be shown, or what the answer shows instead.
    """

    commit: CommitDetails
    files: tuple[CommitFile, ...] = ()
    file_count: int | None = None
    diff: FileDiff | None = None
    content: FileContent | None = None
    changelog: tuple[str, ...] = ()
    limitation: str | None = None

    def to_json_dict(self) -> dict[str, Any]:
        """Convert to JSON types. Leave out fields that are None, and an empty changelog."""
        answer = drop_none({**asdict(self), "changelog": self.changelog or None})
        answer["commit"] = drop_empty_fields("hits", answer["commit"])
        answer["files"] = [drop_none(file) for file in answer["files"]]
        return answer


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """Request for the history of a symbol.

    `symbol`: its name, `Class.method`, or `PATH:Class.method`. `limit`: maximum number of changes.
    """

    symbol: str
    limit: int = DEFAULT_CHANGES
    oldest_first: bool = False

    def __post_init__(self) -> None:
        """Raise BadRequest for a text that cannot be a name, and for a limit below 1."""
        if not _is_symbol_name(self.symbol):
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
    - `provenance`: `INFERRED` if the only evidence is similar code or the text that git shows after `@@`.
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
    def old_place_suffix(self) -> str:
        """Path and name before the change, such as ` from PATH:Class.method`; empty if both stayed the same."""
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
    """Facts about a traced symbol.

    - `symbol`: the newest name, as `PATH:Class.method`.
    - `at_head`: definitions of the symbol at HEAD; empty if HEAD has none.
    - `commits`: number of commits that changed the symbol. `steps`: number of changes, by step.
    - `shown`: number of changes in the answer.
    - `limitation`: what the answer may lack.
    """

    symbol: str
    at_head: tuple[HeadPlace, ...]
    commits: int
    steps: dict[TraceStep, int]
    shown: int
    order: Literal["newest", "oldest"]
    limitation: str | None

    @property
    def count_phrase(self) -> str:
        """The counts as a phrase: `14 commits: 1 introduced, 12 modified, 1 removed; 10 of 14 changes shown`."""
        steps = ", ".join(f"{count:,} {step}" for step, count in self.steps.items())
        total = sum(self.steps.values())
        omitted = f"; {self.shown:,} of {total:,} changes shown" if self.shown < total else ""
        return f"{format_commit_count(self.commits)}: {steps}{omitted}"

    @property
    def place(self) -> str:
        """Paths and lines of the definitions at HEAD, as a phrase; `not at HEAD` if there are none."""
        if not self.at_head:
            return "not at HEAD"
        shown_places = self.at_head[:MAX_SHOWN_PLACES]
        parts = [f"{place.path}:{place.start_line}-{place.end_line}" for place in shown_places]
        if omitted_count := len(self.at_head) - len(shown_places):
            parts.append(f"{omitted_count:,} more")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class TraceMeta(AnswerMeta):
    """Index status and hints of an answer, and facts about the symbol."""

    trace: TraceDetails


@dataclass(frozen=True, slots=True)
class TraceAnswer(Answer):
    """Answer of `trace_symbol`."""

    hits: tuple[TraceHit, ...]
    meta: TraceMeta

    hit_type = TraceHit


def _is_symbol_name(text: str) -> bool:
    """Return whether a text can be the name of a symbol: not only separators, not too long, UTF-8 without NUL."""
    has_name = bool(text.strip("().:# "))
    # The database cannot compare a text with NUL or with surrogates.
    is_comparable = "\0" not in text and text == text.encode("utf-8", "replace").decode()
    return has_name and len(text) <= MAX_SYMBOL_LENGTH and is_comparable
