"""The answer: hits, what is to be said about them, and the lines themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pipeline.git.changes import shown_path
from pipeline.git.objects import Commit
from serve.envelope import IndexState, rfc3339
from serve.explain.blame import Line
from serve.explain.excerpts import Excerpt, main_origin
from stores.history import FileCommit
from stores.metadata import Verdict

# What a line takes beside its text.
LINE_WEIGHT: Final = 200


@dataclass(frozen=True, slots=True)
class ExplainHit:
    """A commit that wrote some of the lines, by blame.

    `blame_lines` are their numbers in the file asked about; `file_path` is what the file was called in the
    commit. `diff_excerpt` is None where none is wanted.
    """

    commit_sha: str
    commit_message: str
    commit_author: str
    commit_date: str
    blame_lines: tuple[int, ...]
    file_path: str
    diff_excerpt: str | None
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
    related_commits: tuple[RelatedCommit, ...]
    enrichment_limitation: str | None


@dataclass(frozen=True, slots=True)
class ExplainMeta:
    """What is to be said about the hits; `compatibility` is None while there is no index."""

    index_status: IndexState
    hint: str | None
    compatibility: Verdict | None
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

    @property
    def weight(self) -> int:
        """About how many bytes it keeps."""
        shown = sum(len(hit.diff_excerpt or "") + len(hit.commit_message) for hit in self.hits)
        return shown + sum(len(line.text) + LINE_WEIGHT for line in self.lines)


def hit(commit: Commit, lines: Sequence[Line], excerpt: Excerpt | None) -> ExplainHit:
    """A commit as it is shown, with the lines it wrote."""
    return ExplainHit(
        commit_sha=commit.sha,
        commit_message=commit.message,
        commit_author=commit.author_name,
        commit_date=rfc3339(commit.commit_date),
        blame_lines=tuple(line.number for line in lines),
        file_path=shown_path(main_origin(lines).path),
        diff_excerpt=excerpt.text if excerpt else None,
        diff_truncated=bool(excerpt and excerpt.truncated),
    )


def related(commit: FileCommit) -> RelatedCommit:
    """A neighbour as it is shown."""
    return RelatedCommit(
        commit_sha=commit.commit_sha,
        commit_message=commit.commit_message,
        commit_author=commit.commit_author,
        commit_date=rfc3339(commit.commit_date),
        touched_hunks=commit.touched_hunks,
    )
