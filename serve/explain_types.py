"""Request and answer of `explain_change`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, Literal, Self

from serve.api_types import (
    MAX_FILTER_LENGTH,
    Answer,
    AnswerMeta,
    Release,
    is_valid_name,
    validate_length,
)
from serve.errors import BadRequest
from serve.references import Reference

# This hint names no command-line option, because MCP clients pass the first and the last line as two arguments.
LINE_NUMBER_HINT: Final = "The first line is 1, and ranges include both ends."

# Approximate memory of an `ExplainedLine` without its text.
LINE_OVERHEAD_BYTES: Final = 200


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """Request for the commits that wrote lines of a file, to answer "why does this code look the way it does?"

    - `file`: path relative to the repository, or to the user's working directory.
    - `line_start`, `line_end`: first and last line, counted from 1. A `line_end` of 0 means the end of the file.
    - `k`: maximum number of hits.
    - `include_diff`: return an excerpt of the diff with each hit.
    - `include_related`: return commits shortly before and after the hits in the file's history.
    - `ignore_whitespace`, `follow_moves`: the options `-w` and `-M -C` of `git blame`.
    - `include_evolution`: follow each line back through the earlier commits that shaped it.
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
        """Raise BadRequest for a file name that is too long. It need not be UTF-8, because file names need not be."""
        validate_length("file's name", len(self.file), MAX_FILTER_LENGTH)


def validate_explain_request(request: ExplainRequest) -> None:
    """Raise BadRequest for a file name or a line range that no file can have."""
    if not is_valid_name(request.file):
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
    """Commit that wrote some of the lines, according to `git blame`.

    - `blame_lines`: numbers of these lines in the current file.
    - `file_path`: path of the file in the commit.
    - `diff_excerpt`: changes near these lines; None if the request excludes diffs or the answer was shortened.
    - `diff_truncated`: True if the excerpt is not the whole diff.
    - `author_date`, `references`, `release`, `also`, `reverted_by`: as in `PatternHit`.
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
    reverted_by: str | None = None
    provenance: Literal["EXACT"] = "EXACT"


@dataclass(frozen=True, slots=True)
class RelatedCommit:
    """Commit shortly before or after a hit in the file's history. It gives context but did not write the lines.

    `touched_hunks`: number of `@@` sections of its change to the file.
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
    """Commit that wrote an earlier version of queried lines, before the commit that `git blame` names for them.

    - `commit_message`: the message, cut after some hundred characters.
    - `file_path`: path of the file in the commit.
    - `lines`: numbers of the queried lines that descend from this commit's line.
    - `step`: what the commit did. `introduced`: no earlier line was found. `modified`: it edited an earlier line.
      `reformatted`: it changed white space. `moved`, `renamed`: it moved the line, or renamed the file. `restored`: an
      earlier commit had removed the same line.
    - `text`: the line as this commit wrote it; of several lines, the first.
    - `provenance`: `EXACT` if the text stayed equal from the hit back to this commit, apart from white space.
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
    """Guess at the source of queried lines (`lines`).

    Either the commit is one of the oldest that added `text`, a literal or name in these lines. Or the commit wrote the
    line `text`, which these lines replaced.
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
    """The explained lines, further commits, and sentences about the limitations of the answer.

    - `lines_queried`: first and last explained line; zeros if the file has no line of the requested range.
    - `commits_unique`: number of all commits that wrote the lines, not only of the hits.
    - `blame_coverage`: share of the lines, from 0 to 1, whose commit is in the index.
    - `limitation`: what the hits lack; None if they are complete.
    - `evolution`: earlier commits that shaped the lines, newest first. `evolution_limitation`: what this list may lack.
    - `enrichment_limitation`: what the answer lacks because of the index; None if nothing.
    - `omitted_items`: number of related commits, steps and leads that were removed to shorten the answer; None if none.
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
    omitted_items: int | None = None


@dataclass(frozen=True, slots=True)
class ExplainMeta(AnswerMeta):
    """Index status and hints of an answer, and facts about the lines."""

    explain: ExplainDetails

    def rewrite_commands(self, rewrite: Callable[[str], str]) -> Self:
        """Return a copy with `rewrite` applied to the texts that may name commands."""
        details = replace(
            self.explain,
            limitation=self.explain.limitation and rewrite(self.explain.limitation),
            evolution_limitation=self.explain.evolution_limitation
            and rewrite(self.explain.evolution_limitation),
            enrichment_limitation=self.explain.enrichment_limitation
            and rewrite(self.explain.enrichment_limitation),
        )
        return replace(AnswerMeta.rewrite_commands(self, rewrite), explain=details)


@dataclass(frozen=True, slots=True)
class ExplainedLine:
    """Line with the commit that wrote it. `commit_sha`: None for an uncommitted line."""

    number: int
    text: str
    commit_sha: str | None


@dataclass(frozen=True, slots=True)
class ExplainAnswer(Answer):
    """Answer of `explain_change`. Only `hits` and `meta` are part of the JSON.

    - `lines`: the explained lines, for terminals and excerpts.
    - `is_transient`: True if the same request may soon have a better answer, for example because the index was busy or
      git failed. Such an answer is not cached.
    - `has_failed`: True if git failed or the file cannot be read. `limitation` says why.
    """

    hits: tuple[ExplainHit, ...]
    meta: ExplainMeta
    lines: tuple[ExplainedLine, ...] = ()
    is_transient: bool = False
    has_failed: bool = False

    hit_type = ExplainHit

    @property
    def size_bytes(self) -> int:
        """Approximate memory of the messages, diffs and explained lines. A character counts as one byte."""
        hit_bytes = sum(len(hit.diff_excerpt or "") + len(hit.commit_message) for hit in self.hits)
        return hit_bytes + sum(len(line.text) + LINE_OVERHEAD_BYTES for line in self.lines)
