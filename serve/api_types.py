"""The answers to both questions, field by field, and the document they are published as.

Light enough for every door to import; `serve.search` and `serve.explain` fill them in.

The two questions, as a person or a program puts them; light enough for every door to import.

What is asked, checked: a file, and lines of it.
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
from serve.text import argument

# What a line takes beside its text.
LINE_WEIGHT: Final = 200
# Fields that are left out of the document when they say nothing.
_OPTIONAL: Final = {
    "hits": ("diff_excerpt", "matched", "weak"),
    "explain": ("related_commits", "enrichment_limitation"),
    "compatibility": ("reason", "missing_components"),
}


@dataclass(frozen=True, slots=True)
class IndexState:
    """The index behind an answer; null where it was never filled."""

    last_indexed_commit: str | None
    commits_behind_head: int
    indexed_at: str | None


@dataclass(frozen=True, slots=True)
class Compatibility:
    """Whether the index was made as this program would make it.

    `reason` says which components differ; `missing_components` are those without a record, all of them where there
    is no index.
    """

    status: Literal["compatible", "query_compatible_needs_refresh", "needs_rebuild", "unknown"]
    reason: str | None = None
    missing_components: tuple[str, ...] = ()

    def told(self, words: Callable[[str], str]) -> Compatibility:
        """The same in other words."""
        return replace(self, reason=self.reason and words(self.reason))


@dataclass(frozen=True, slots=True)
class PatternHit:
    """A commit that resembles what was asked, shown by its best hunk: of its code, where that answers too.

    `diff_excerpt` is the diff, or of a long one, under a `…` for what is left out above, the lines with most of the
    question's words. `similarity` is the plain cosine of query and hunk text; `recency_weight` the share by which
    the commit's age would raise its score; `combined_score` the score that ordered the hits: the probability that
    the commit answers, raised by its recency and where it has a path or a quoted name of the question, or without
    reranking what fusion gave it. `matched` says in a line which of the question's words were found where; `weak`
    that the hit is more likely none than a precedent. Both are known only where hits are reranked, `weak` also not
    of an unlikely hit whose message says nothing, and left out elsewhere.
    """

    commit_sha: str
    commit_message: str
    commit_author: str
    commit_date: str
    file_path: str
    change_kind: str
    diff_excerpt: str
    diff_truncated: bool
    related_head_symbols: tuple[str, ...]
    similarity: float
    recency_weight: float
    combined_score: float
    matched: str | None = None
    weak: bool | None = None
    provenance: Literal["INFERRED"] = "INFERRED"


@dataclass(frozen=True, slots=True)
class QueryProfile:
    """The kind of question a query was taken for, and what that and its hints changed."""

    name: str
    explanation: str


# What a question is taken for that says nothing but what it is about.
PLAIN: Final = QueryProfile("Unknown", "no cue words; default lanes and weights")


@dataclass(frozen=True, slots=True)
class FindMeta:
    """What is to be said about the hits."""

    index_status: IndexState
    hint: str | None
    compatibility: Compatibility
    query_profile: QueryProfile


@dataclass(frozen=True, slots=True)
class FindAnswer:
    """The response of `find_pattern`."""

    hits: tuple[PatternHit, ...]
    meta: FindMeta

    def told(self, words: Callable[[str], str]) -> FindAnswer:
        """The same answer, what it says of the index in other words."""
        meta = self.meta
        hint, fits = meta.hint and words(meta.hint), meta.compatibility.told(words)
        return replace(self, meta=replace(meta, hint=hint, compatibility=fits))


@dataclass(frozen=True, slots=True)
class ExplainHit:
    """A commit that wrote some of the lines, by blame.

    `blame_lines` are their numbers in the file asked about; `file_path` is what the file was called in the
    commit. `diff_excerpt` is left out where none is wanted.
    """

    commit_sha: str
    commit_message: str
    commit_author: str
    commit_date: str
    blame_lines: tuple[int, ...]
    file_path: str
    diff_excerpt: str | None = field(default=None, kw_only=True)
    diff_truncated: bool
    provenance: Literal["EXACT"] = "EXACT"


@dataclass(frozen=True, slots=True)
class RelatedCommit:
    """A neighbour of a hit in the file's history: context, no proof of anything about the lines.

    `touched_hunks` is the number of `@@` parts of its change to the file.
    """

    commit_sha: str
    commit_message: str
    commit_author: str
    commit_date: str
    touched_hunks: int
    provenance: Literal["INFERRED"] = "INFERRED"


@dataclass(frozen=True, slots=True)
class Explained:
    """What was asked and how far it could be answered.

    `lines_queried` is the clamped range, zeros where it holds no line; `commits_unique` counts before the cut
    to k; `blame_coverage` is the share of the lines whose commit the index knows.
    """

    lines_queried: tuple[int, int]
    commits_unique: int
    blame_coverage: float
    limitation: str | None
    related_commits: tuple[RelatedCommit, ...] = ()
    enrichment_limitation: str | None = None


@dataclass(frozen=True, slots=True)
class ExplainMeta:
    """What is to be said about the hits."""

    index_status: IndexState
    hint: str | None
    compatibility: Compatibility
    explain: Explained


@dataclass(frozen=True, slots=True)
class BlamedLine:
    """A line as a person sees it, beside its commit; None for one that is not committed."""

    number: int
    text: str
    commit_sha: str | None


@dataclass(frozen=True, slots=True)
class ExplainAnswer:
    """The response of `explain_change`; what follows `meta` is no part of the document.

    `lines` are for the page. `passing` says that asking again may bring more though nothing has changed: the index
    was busy, or git failed.
    """

    hits: tuple[ExplainHit, ...]
    meta: ExplainMeta
    lines: tuple[BlamedLine, ...] = ()
    passing: bool = False

    def told(self, words: Callable[[str], str]) -> ExplainAnswer:
        """The same answer, what it says of the index in other words."""
        meta, limit = self.meta, self.meta.explain.enrichment_limitation
        hint, fits = meta.hint and words(meta.hint), meta.compatibility.told(words)
        explain = replace(meta.explain, enrichment_limitation=limit and words(limit))
        return replace(self, meta=replace(meta, hint=hint, compatibility=fits, explain=explain))

    @property
    def weight(self) -> int:
        """About how many bytes it keeps."""
        shown = sum(len(hit.diff_excerpt or "") + len(hit.commit_message) for hit in self.hits)
        return shown + sum(len(line.text) + LINE_WEIGHT for line in self.lines)


def document(answer: FindAnswer | ExplainAnswer) -> dict[str, Any]:
    """The answer as JSON types: `hits` and `meta`."""
    meta = {name: _without(name, said) for name, said in asdict(answer.meta).items()}
    return {"hits": [_without("hits", asdict(hit)) for hit in answer.hits], "meta": meta}


def _without(name: str, said: Any) -> Any:
    """An object less those of its optional fields that say nothing."""
    optional = _OPTIONAL.get(name, ())
    if not optional:
        return said
    return {key: value for key, value in said.items() if key not in optional or value not in (None, ())}


def rfc3339(naive: datetime) -> str:
    """A moment of the database, which keeps UTC without saying so."""
    return naive.isoformat(timespec="seconds") + "Z"


# The daemon takes 1 MiB a question, where JSON in ASCII spends six bytes on each of these; on an emoji, two of them.
LONGEST_QUERY: Final = 100_000
LONGEST_FILTER: Final = 10_000


@dataclass(frozen=True, slots=True)
class FindRequest:
    """How was it done before? Texts are still the asker's own.

    `since` is a date or an age, `path` a gitignore pattern, `author` a part of a name or address; `k` counts
    commits.
    """

    text: str
    k: int = 5
    language: str | None = None
    since: str | None = None
    path: str | None = None
    author: str | None = None
    rerank: bool = True

    def __post_init__(self) -> None:
        """Refuse what cannot travel, and no database reads."""
        _check("query", self.text, LONGEST_QUERY)
        filters = {"language": self.language, "since": self.since, "path": self.path, "author": self.author}
        for name, value in filters.items():
            _check(f"{name} filter", value or "", LONGEST_FILTER)


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """Why does this code look the way it does?

    `file` is relative to the repository; `line_end` 0 means the end of the file; `k` counts commits.
    `ignore_whitespace` and `follow_moves` are blame's `-w` and `-M -C`.
    """

    file: str
    line_start: int = 1
    line_end: int = 0
    k: int = 5
    include_diff: bool = True
    include_related: bool = False
    ignore_whitespace: bool = False
    follow_moves: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot travel; a byte that is no text may be a part of a file's name."""
        _check_length("file's name", len(self.file), LONGEST_FILTER)


def worded(query: str | None, path: Path, more: Sequence[str] = ()) -> str:
    """The question; where a command line has none, or not all of it, an error that says how one is asked.

    Who leaves the option out has given the question in the path's place; who leaves out the quotes, a part of it there
    and `more` words behind it.
    """
    if query is not None and not more:
        return query
    is_path = os.path.exists(path)  # noqa: PTH110 - unlike `Path.exists`, it knows no errors
    words = [word for word in (query, None if is_path else str(path), *more) if word is not None]
    meant = shlex.quote(" ".join(words)) if words else '"how was it done before?"'
    command = shlex.join(["lineage", "query", *(argument(path) if is_path else ())])
    raise BadRequest(
        "No question was asked." if query is None else "The question ends at its first space.",
        hint=f"Ask with --query: `{command} --query {meant}`.",
    )


def _check(name: str, text: str, most: int) -> None:
    try:
        length = len(text.encode("utf-16-le")) // 2
    except UnicodeEncodeError as error:
        raise BadRequest(
            f"The {name} has a part that is no text: {text[error.start : error.end]!r:.20}.",
            hint="Give it in UTF-8, whole characters only.",
        ) from error
    _check_length(name, length, most)


def _check_length(name: str, length: int, most: int) -> None:
    if length > most:
        raise BadRequest(f"The {name} is longer than {most:,} characters.", hint="Say it in fewer.")


# More digits than any file has lines.
RANGE: Final = re.compile(r"([0-9]{1,18})?:([0-9]{1,18})?")
HINT: Final = (
    "Give lines as `START:END`, from 1, both included: `10:42`, `:42`, `10:`, or `42:42` for one line."
)
# For agents too, who give the two bounds by name.
COUNTED: Final = "The first line is 1, and both ends of a range are part of it."


def bounds(lines: str | None) -> tuple[int, int]:
    """The two bounds in `START:END`; 0 for an end that is left open."""
    if lines is None:
        return 1, 0
    said = RANGE.fullmatch(lines.strip())
    if said is None:
        raise BadRequest(f"{lines!r} is not a range of lines.", hint=HINT)
    start, end = (int(bound) if bound else None for bound in said.groups())
    if end == 0:
        raise BadRequest("Lines count from 1.", hint=HINT)
    return 1 if start is None else start, end or 0


def check(request: ExplainRequest) -> None:
    """Refuse a request that no file could answer."""
    if not request.file or "\0" in request.file or not _is_encodable(request.file):
        raise BadRequest("That is no file name.", hint="Name a file, relative to the repository.")
    if request.line_start < 1 or request.line_end < 0:
        raise BadRequest("Lines count from 1.", hint=COUNTED)
    if request.line_end and request.line_end < request.line_start:
        raise BadRequest(
            f"The range ends at line {request.line_end}, before it starts at line {request.line_start}.",
            hint=COUNTED,
        )


def _is_encodable(name: str) -> bool:
    """Whether the file system could have the name: bytes that are no text are, halves of characters are not."""
    try:
        return bool(os.fsencode(name))
    except UnicodeEncodeError:
        return False
