"""The answers to both questions, field by field, and the document they are published as.

Light enough for every door to import; `serve.find` and `serve.explain` fill them in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Literal

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
