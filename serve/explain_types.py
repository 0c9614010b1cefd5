"""Request and answer of `explain_change`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from serve.api_types import (
    MAX_FILTER_LENGTH,
    AnswerMeta,
    Release,
    is_encodable,
    validate_length,
)
from serve.errors import BadRequest
from serve.references import Reference

# It names no option, because MCP clients pass the two numbers as arguments of their own.
LINE_NUMBER_HINT: Final = "The first line is 1, and ranges include both ends."

# Approximate memory of an `ExplainedLine` without its text.
LINE_OVERHEAD_BYTES: Final = 200


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
        validate_length("file's name", len(self.file), MAX_FILTER_LENGTH)


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


@dataclass(frozen=True, slots=True)
class ExplainHit:
    """A commit that wrote some of the lines, by blame.

    `blame_lines` are the numbers of these lines in the current file, `file_path` is the path of the file in the commit.
    `diff_excerpt` is omitted if the request excludes diffs. `author_date`, `references`, `release`
    and `also` are as in `PatternHit`.
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
    references: tuple[Reference, ...] = ()
    release: Release | None = None
    also: tuple[str, ...] = ()
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
    """Commit that may be the source of lines: a guess.

    It is among the oldest that added `text`, a literal or name of the lines, or it wrote `text`, which the lines
    replaced.
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
class ExplainMeta(AnswerMeta):
    """Index status and hints of an answer, and facts about the lines."""

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
        meta = self.meta.rewrite_index_texts(rewrite)
        limitation = meta.explain.enrichment_limitation
        explain = replace(meta.explain, enrichment_limitation=limitation and rewrite(limitation))
        return replace(self, meta=replace(meta, explain=explain))

    @property
    def size_bytes(self) -> int:
        """Approximate size in memory."""
        hits = sum(len(hit.diff_excerpt or "") + len(hit.commit_message) for hit in self.hits)
        return hits + sum(len(line.text) + LINE_OVERHEAD_BYTES for line in self.lines)
