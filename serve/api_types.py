"""Requests and answers of `find_pattern` and `explain_change`, and the JSON form of the answers.

- `FindRequest`, `ExplainRequest`, and the functions that validate them.
- `FindAnswer`, `ExplainAnswer`: `to_json_dict` gives the published JSON object.

Commands and servers import this module, so it imports neither the search nor the database.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

from serve.errors import BadRequest
from serve.text import format_path_arguments

# Lengths in UTF-16 units. The daemon accepts requests of 1 MiB, and ASCII JSON needs up to six bytes for a unit.
MAX_QUERY_LENGTH: Final = 100_000
MAX_FILTER_LENGTH: Final = 10_000

# 18 digits are more than any file has lines and fit 64 bits.
LINE_RANGE: Final = re.compile(r"([0-9]{1,18})?(?:(:)([0-9]{1,18})?)?")
LINE_RANGE_HINT: Final = (
    "Give lines as `START:END`, from 1 and inclusive: `10:42`, `:42`, `10:`, or `42` for one line."
)
# MCP clients get this hint, too. They pass the two numbers as separate arguments.
LINE_NUMBER_HINT: Final = "The first line is 1, and ranges include both ends."

# Approximate memory of an `ExplainedLine` without its text.
LINE_OVERHEAD_BYTES: Final = 200
# Fields that the JSON omits when they are null or empty.
_OPTIONAL: Final = {
    "hits": ("author_date", "diff_excerpt", "matched", "weak", "repository"),
    "explain": ("related_commits", "evolution", "leads", "evolution_limitation", "enrichment_limitation"),
    "compatibility": ("reason", "missing_components"),
}


@dataclass(frozen=True, slots=True)
class FindRequest:
    """Request for commits that match a text, to answer "how was it done before?"

    `k` is the number of commits to return. `since` and `until` are dates or ages as typed, `path` a gitignore pattern,
    `author` a part of a name or e-mail address.
    """

    text: str
    k: int = 5
    language: str | None = None
    since: str | None = None
    path: str | None = None
    author: str | None = None
    rerank: bool = True
    until: str | None = None

    def __post_init__(self) -> None:
        """Raise BadRequest for texts that cannot be sent to the daemon or the database."""
        _validate_text("query", self.text, MAX_QUERY_LENGTH)
        filters = {
            "language": self.language,
            "since": self.since,
            "until": self.until,
            "path": self.path,
            "author": self.author,
        }
        for name, value in filters.items():
            _validate_text(f"{name} filter", value or "", MAX_FILTER_LENGTH)


@dataclass(frozen=True, slots=True, order=True)
class NamedRepository:
    """Indexed repository. `name`: as in the answers, `path`: absolute path."""

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """Request for the commits that wrote lines of a file, to answer "why does this code look the way it does?"

    `file` is relative to the repository. Both line numbers are inclusive and count from 1; a `line_end` of 0 means
    the end of the file. `k` is the number of hits to return. `include_evolution`: follow each line back through the
    commits that shaped it. `ignore_whitespace` and `follow_moves` are the options `-w` and `-M -C` of `git blame`.
    """

    file: str
    line_start: int = 1
    line_end: int = 0
    k: int = 5
    include_diff: bool = True
    include_related: bool = False
    ignore_whitespace: bool = False
    follow_moves: bool = False
    include_evolution: bool = False

    def __post_init__(self) -> None:
        """Raise BadRequest for a name that is too long. It may contain undecodable bytes, as file names do."""
        _validate_length("file's name", len(self.file), MAX_FILTER_LENGTH)


def validate_query_text(query: str | None, path: Path, extra_words: Sequence[str] = ()) -> str:
    """Return the text of the query; raise BadRequest with a corrected command if it is missing or incomplete.

    If the user omits `--query`, the text is in `path`. If the user omits the quotes, `query` is only the first word,
    `path` the second one, and `extra_words` the others.
    """
    if query is not None and not extra_words:
        return query
    is_path = os.path.exists(path)  # noqa: PTH110 - `Path.exists` can raise
    words = [word for word in (query, None if is_path else str(path), *extra_words) if word is not None]
    quoted_text = shlex.quote(" ".join(words)) if words else '"how was it done before?"'
    command = shlex.join(["lineage", "query", *(format_path_arguments(path) if is_path else ())])
    raise BadRequest(
        "The query is missing." if query is None else "The query is not quoted: it ends at the first space.",
        hint=f"Pass it with --query: `{command} --query {quoted_text}`.",
    )


def parse_line_range(lines: str | None) -> tuple[int, int]:
    """Parse `START:END` or a single line into two line numbers; an open end becomes 0. Raises BadRequest."""
    if lines is None:
        return 1, 0
    match = LINE_RANGE.fullmatch(lines.strip())
    if match is None or not match[0]:
        raise BadRequest(f"{lines!r} is not a range of lines.", hint=LINE_RANGE_HINT)
    start, end = (int(bound) if bound else None for bound in match.group(1, 3))
    if match[2] is None:
        end = start
    if 0 in {start, end}:
        raise BadRequest("Lines count from 1.", hint=LINE_RANGE_HINT)
    if start and end and end < start:
        raise BadRequest(f"The range {lines!r} ends before it starts.", hint=LINE_RANGE_HINT)
    return start or 1, end or 0


def validate_explain_request(request: ExplainRequest) -> None:
    """Raise BadRequest for a file name or a line range that no file can have."""
    if not request.file or "\0" in request.file or not is_encodable(request.file):
        raise BadRequest("This is not a file name.", hint="Name a file, relative to the repository.")
    if request.line_start < 1 or request.line_end < 0:
        raise BadRequest("Lines count from 1.", hint=LINE_NUMBER_HINT)
    if request.line_end and request.line_end < request.line_start:
        raise BadRequest(
            f"The range ends at line {request.line_end}, before it starts at line {request.line_start}.",
            hint=LINE_NUMBER_HINT,
        )


def _validate_text(name: str, text: str, max_length: int) -> None:
    try:
        length = len(text.encode("utf-16-le")) // 2
    except UnicodeEncodeError as error:
        raise BadRequest(
            f"The {name} contains invalid text: {text[error.start : error.end]!r:.20}.",
            hint="Pass valid UTF-8.",
        ) from error
    _validate_length(name, length, max_length)


def _validate_length(name: str, length: int, max_length: int) -> None:
    if length > max_length:
        raise BadRequest(f"The {name} is longer than {max_length:,} characters.", hint="Shorten it.")


def is_encodable(name: str) -> bool:
    """Return True if a file can have the name: undecodable bytes are allowed, lone surrogates are not."""
    try:
        return bool(os.fsencode(name))
    except UnicodeEncodeError:
        return False


@dataclass(frozen=True, slots=True)
class IndexState:
    """State of the index that an answer is based on; texts are None if nothing is indexed."""

    last_indexed_commit: str | None
    commits_behind_head: int
    indexed_at: str | None


@dataclass(frozen=True, slots=True)
class Compatibility:
    """Compatibility of the index with this version of the program.

    `reason` says which components differ. `missing_components` are those without a recorded version: all of them
    without an index.
    """

    status: Literal["compatible", "query_compatible_needs_refresh", "needs_rebuild", "unknown"]
    reason: str | None = None
    missing_components: tuple[str, ...] = ()

    def rewrite_reason(self, rewrite: Callable[[str], str]) -> Compatibility:
        """Return a copy with the reason rewritten."""
        return replace(self, reason=self.reason and rewrite(self.reason))


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """File that a commit changes, with the numbers of added and removed lines."""

    path: str
    added: int
    removed: int


@dataclass(frozen=True, slots=True)
class PatternHit:
    """A commit that matches a query, shown by its best hunk, preferably one of source code.

    - `author_date`: time of the original change. None if the commit is of the same day, as most are.
    - `file_path`: path of the file; empty for a commit that changes no file itself (an empty commit, a clean merge).
    - `change_kind`: `added`, `modified`, `deleted`, `renamed`, `mode_changed` or `type_changed`; without a file,
      `merged` for a merge and `empty` for any other commit.
    - `diff_excerpt`: the diff; of a long one, the lines with most of the query's words, below a `…` if lines above them
      are omitted. Of a merge without a file, the files that it changes against its first parent. None if the request
      excludes diffs.
    - `similarity`: cosine of the query and the text of the hunk.
    - `recency_weight`: share by which the recency of the commit raises its score.
    - `combined_score`: the score that orders the hits. Reranked: the probability that the commit answers the query,
      raised by its recency and by a path or quoted name of the query that it has. Else: the score of rank fusion.
    - `matched`: the query's words that the commit contains, by field (message, path, ...). None if not reranked.
    - `weak`: True if the hit is probably no answer. None if not reranked, or if the hit is improbable but has no
      informative message.
    - `repository`: name of the repository. None if one repository was asked, by its path.
    - `files`: the first indexed files of the commit, that of the hit first; `file_count` counts all of them.
    """

    commit_sha: str
    commit_message: str
    commit_author: str
    commit_date: str
    file_path: str
    change_kind: str
    diff_excerpt: str | None
    diff_truncated: bool
    related_head_symbols: tuple[str, ...]
    similarity: float
    recency_weight: float
    combined_score: float
    matched: str | None = None
    weak: bool | None = None
    repository: str | None = None
    author_date: str | None = None
    files: tuple[ChangedFile, ...] = ()
    file_count: int = 0
    provenance: Literal["INFERRED"] = "INFERRED"


@dataclass(frozen=True, slots=True)
class QueryProfile:
    """Intent of a query (`name`), and an explanation of how the intent and the hints changed the search."""

    name: str
    explanation: str


# Profile of a query without cue words or hints.
DEFAULT_QUERY_PROFILE: Final = QueryProfile("Unknown", "no cue words; default lanes and weights")


@dataclass(frozen=True, slots=True)
class FindMeta:
    """Index status, hints and details about an answer."""

    index_status: IndexState
    hint: str | None
    compatibility: Compatibility
    query_profile: QueryProfile


@dataclass(frozen=True, slots=True)
class FindAnswer:
    """Answer of `find_pattern`."""

    hits: tuple[PatternHit, ...]
    meta: FindMeta

    def rewrite_index_texts(self, rewrite: Callable[[str], str]) -> FindAnswer:
        """Return a copy with `rewrite` applied to the texts about the index."""
        meta = self.meta
        hint, compatibility = meta.hint and rewrite(meta.hint), meta.compatibility.rewrite_reason(rewrite)
        return replace(self, meta=replace(meta, hint=hint, compatibility=compatibility))


@dataclass(frozen=True, slots=True)
class ExplainHit:
    """A commit that wrote some of the lines, by blame.

    `blame_lines` are the numbers of these lines in the current file, `file_path` is the path of the file in the commit.
    `diff_excerpt` is omitted if the request excludes diffs. `author_date` is as in `PatternHit`.
    """

    commit_sha: str
    commit_message: str
    commit_author: str
    commit_date: str
    blame_lines: tuple[int, ...]
    file_path: str
    diff_excerpt: str | None = field(default=None, kw_only=True)
    diff_truncated: bool
    author_date: str | None = None
    provenance: Literal["EXACT"] = "EXACT"


@dataclass(frozen=True, slots=True)
class RelatedCommit:
    """A commit shortly before or after a hit in the file's history. It gives context but did not write the lines.

    `touched_hunks` is the number of `@@` sections of its change to the file.
    """

    commit_sha: str
    commit_message: str
    commit_author: str
    commit_date: str
    touched_hunks: int
    provenance: Literal["INFERRED"] = "INFERRED"


StepName = Literal["introduced", "modified", "moved", "renamed", "reformatted", "restored"]


@dataclass(frozen=True, slots=True)
class EvolutionStep:
    """A commit that shaped lines before the commits of their hits.

    - `commit_message`: the message, cut after some hundred characters.
    - `file_path`: path of the file in the commit.
    - `lines`: numbers of the queried lines that descend from this commit's line.
    - `step`: what the commit did. `introduced`: no earlier line was found. `modified`: it edited an earlier line.
      `reformatted`: it changed white space. `moved`, `renamed`: it moved the line, or renamed the file. `restored`: an
      earlier commit had removed the same line.
    - `text`: the line as this commit wrote it; the first one of several.
    - `provenance`: `EXACT` if the line was followed from the hit to this commit by equal text, apart from white space.
    """

    commit_sha: str
    commit_message: str
    commit_author: str
    commit_date: str
    file_path: str
    lines: tuple[int, ...]
    step: StepName
    text: str
    provenance: Literal["EXACT", "INFERRED"]


@dataclass(frozen=True, slots=True)
class EvolutionLead:
    """A commit that may have had the idea of lines before the oldest commit of their evolution: a guess.

    It is among the oldest that added `text`, a literal or name of the lines.
    """

    commit_sha: str
    commit_message: str
    commit_author: str
    commit_date: str
    file_path: str
    lines: tuple[int, ...]
    text: str
    provenance: Literal["INFERRED"] = "INFERRED"


@dataclass(frozen=True, slots=True)
class ExplainDetails:
    """The lines that were explained, related commits, and sentences about the limitations of the answer.

    `lines_queried` is the range within the file, zeros if it contains no line. `commits_unique` counts all commits,
    not only the `k` that are returned. `blame_coverage` is the share of the lines whose commit is in the index.
    `evolution` has the earlier commits that shaped the lines, newest first, and `evolution_limitation` says what it
    may lack.
    """

    lines_queried: tuple[int, int]
    commits_unique: int
    blame_coverage: float
    limitation: str | None
    related_commits: tuple[RelatedCommit, ...] = ()
    evolution: tuple[EvolutionStep, ...] = ()
    leads: tuple[EvolutionLead, ...] = ()
    evolution_limitation: str | None = None
    enrichment_limitation: str | None = None


@dataclass(frozen=True, slots=True)
class ExplainMeta:
    """Index status, hints and details about an answer."""

    index_status: IndexState
    hint: str | None
    compatibility: Compatibility
    explain: ExplainDetails


@dataclass(frozen=True, slots=True)
class ExplainedLine:
    """A line with the commit that wrote it; None for an uncommitted line."""

    number: int
    text: str
    commit_sha: str | None


@dataclass(frozen=True, slots=True)
class ExplainAnswer:
    """Answer of `explain_change`. `lines`, `is_transient` and `has_failed` are not part of the JSON.

    `lines` are for the web page. `is_transient` marks an answer that is not cached: the index was busy or git failed,
    so the same request may soon have a better answer. `has_failed`: git failed, and the limitation says how.
    """

    hits: tuple[ExplainHit, ...]
    meta: ExplainMeta
    lines: tuple[ExplainedLine, ...] = ()
    is_transient: bool = False
    has_failed: bool = False

    def rewrite_index_texts(self, rewrite: Callable[[str], str]) -> ExplainAnswer:
        """Return a copy with `rewrite` applied to the texts about the index."""
        meta, limitation = self.meta, self.meta.explain.enrichment_limitation
        hint, compatibility = meta.hint and rewrite(meta.hint), meta.compatibility.rewrite_reason(rewrite)
        explain = replace(meta.explain, enrichment_limitation=limitation and rewrite(limitation))
        return replace(self, meta=replace(meta, hint=hint, compatibility=compatibility, explain=explain))

    @property
    def size_bytes(self) -> int:
        """Approximate size in memory."""
        hits = sum(len(hit.diff_excerpt or "") + len(hit.commit_message) for hit in self.hits)
        return hits + sum(len(line.text) + LINE_OVERHEAD_BYTES for line in self.lines)


def to_json_dict(answer: FindAnswer | ExplainAnswer) -> dict[str, Any]:
    """Convert an answer to JSON types, an object with `hits` and `meta`."""
    meta = {name: drop_empty_fields(name, value) for name, value in asdict(answer.meta).items()}
    return {"hits": [drop_empty_fields("hits", asdict(hit)) for hit in answer.hits], "meta": meta}


def drop_empty_fields(name: str, value: Any) -> Any:
    """Return the object called `name` without its empty optional fields."""
    optional = _OPTIONAL.get(name, ())
    if not optional:
        return value
    return {key: item for key, item in value.items() if key not in optional or item not in (None, ())}


def format_author_date(author_date: datetime, commit_date: datetime) -> str | None:
    """Format the time of the original change; None if the commit is of the same day. Both times are naive UTC."""
    return None if author_date.date() == commit_date.date() else format_rfc3339(author_date)


def format_rfc3339(naive_utc: datetime) -> str:
    """Format a time of the database, which stores UTC without a time zone."""
    return naive_utc.isoformat(timespec="seconds") + "Z"
