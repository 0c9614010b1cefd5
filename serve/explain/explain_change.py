"""Commits as an explanation shows them.

Newest first: by the committer's date, and among equal dates children before their parents.

The straight line of `explain_change`: file, blame, hits with their excerpts, what the index adds, answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import Final

from pipeline.git import commit_graph
from pipeline.git.changes import shown_path
from pipeline.git.git_cli import Git
from pipeline.git.objects import Commit, Parents, parents_first
from pipeline.git.repository import Repository, open_repository
from serve import api_types
from serve.api_types import (
    BlamedLine,
    ExplainAnswer,
    Explained,
    ExplainHit,
    ExplainMeta,
    ExplainRequest,
    RelatedCommit,
    rfc3339,
)
from serve.explain import blame, cache, excerpts, file_history, notes, target
from serve.explain.blame import Blame, Ignoring, Line, Refused, ignoring
from serve.explain.cache import Warm
from serve.explain.excerpts import Excerpt, main_origin
from serve.explain.file_history import Added, Index
from serve.explain.notes import Coverage
from serve.explain.target import Target
from serve.index_status import clamped, compatibility_fields, index_state
from serve.repositories import existing_place
from stores.history import FileCommit
from stores.index_location import Place


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


# Between two commits of one date there may be older ones where a clock was wrong: git too looks a day behind.
CLOCK_SLOP: Final = timedelta(days=1)


def newest_first(dates: Mapping[str, int], repository: Repository) -> list[str]:
    """The commits in the order they are shown."""
    ordered: list[str] = []
    by_date = sorted(dates, key=lambda sha: (-dates[sha], sha))
    for _, tied in groupby(by_date, key=dates.__getitem__):
        ordered += _children_first(list(tied), repository)
    return ordered


def _children_first(tied: list[str], repository: Repository) -> list[str]:
    if len(tied) == 1:
        return tied
    parents = _since(tied, repository)
    wanted = set(tied)
    return [sha for sha in reversed(parents_first("", {**parents, "": tuple(tied)})) if sha in wanted]


def _since(tied: list[str], repository: Repository) -> dict[str, Parents]:
    """The commits that these reach, as far back as their date and the slop."""
    oldest = repository.commit(tied[0]).commit_date - CLOCK_SLOP
    found: dict[str, Parents] = {}
    waiting = list(tied)
    while waiting:
        sha = waiting.pop()
        if sha not in found and repository.contains(sha):
            commit = repository.commit(sha)
            found[sha] = commit.parents if commit.commit_date >= oldest else ()
            waiting.extend(found[sha])
    return found


@dataclass(frozen=True, slots=True)
class Question:
    """A request with everything it meets: the repository, the file as it is now, the place of the index."""

    request: ExplainRequest
    repository: Repository
    head: str | None
    target: Target
    place: Place | None
    ignored: Ignoring
    counted: Warm[int]

    @property
    def key(self) -> bytes:
        """What the answer depends on, as a digest."""
        return cache.key(self.request, self.repository, self.head, self.target, self.place, self.ignored)

    @property
    def lines(self) -> tuple[int, int] | None:
        """The range that is asked about, clamped; None where the file has none of it."""
        first, count = self.request.line_start, len(self.target.lines)
        last = min(self.request.line_end or count, count)
        return (first, last) if first <= last and self.target.content is not None else None

    @property
    def related(self) -> str | None:
        """The file whose neighbouring commits are wanted; None where none are."""
        return self.target.shown if self.request.include_related else None

    @property
    def git(self) -> Git:
        """The git program for this repository."""
        lent = self.place.graph if self.place else None
        return commit_graph.program(self.repository, lent, self.ignored.settings)


@dataclass(frozen=True, slots=True)
class Explainer:
    """Answers, and remembers its answers; indexes are under `home`."""

    home: Path
    _answers: Warm[ExplainAnswer] = field(default_factory=Warm)
    _counted: Warm[int] = field(default_factory=Warm)

    def explain(self, asked: ExplainRequest, path: Path, here: Path | None = None) -> ExplainAnswer:
        """The commits behind lines of a file in the repository at `path`; `here` is where the person stands."""
        api_types.check(asked)
        question = self._meet(asked, path, here)
        key = question.key
        found = self._answers.get(key)
        if found is None:
            found = _answered(question)
            # Something may have changed while git was at work: then the answer belongs to no key.
            if not found.passing and self._meet(asked, path, here).key == key:
                self._answers.put(key, found, found.weight)
        return found

    def _meet(self, asked: ExplainRequest, path: Path, here: Path | None) -> Question:
        repository = open_repository(path)
        head = repository.head()
        return Question(
            asked,
            repository,
            head,
            target.resolve(repository, head, asked.file, here),
            existing_place(self.home, repository),
            ignoring(repository),
            self._counted,
        )


def _answered(question: Question) -> ExplainAnswer:
    asked, git = question.lines, question.git
    if asked is None:
        return _without_lines(question, git)
    with (
        blame.started(git, question.target, asked, question.request, question.ignored) as running,
        file_history.opened(
            question.repository, question.place, git, question.counted, question.related
        ) as index,
    ):
        said = blame.read(running)
        if isinstance(said, Refused):
            return _refused(question, asked, said, index)
        return _explained(question, asked, said, index)


def _explained(question: Question, asked: tuple[int, int], blamed: Blame, index: Index) -> ExplainAnswer:
    repository, target = question.repository, question.target
    lines_of = _by_commit(blamed.lines)
    order = newest_first({sha: blamed.dates[sha] for sha in lines_of}, repository)
    hits = _hits(question, order[: clamped(question.request.k)], lines_of)
    limits = [
        *notes.about_file(target, question.ignored, repository),
        *notes.about_lines(blamed.lines, repository),
    ]
    added = index.about(order, [hit.commit_sha for hit in hits])
    coverage = Coverage(
        lines=len(blamed.lines),
        knowable=sum(len(lines) for sha, lines in lines_of.items() if sha not in repository.boundary),
        known=sum(len(lines) for sha, lines in lines_of.items() if sha in added.known),
    )
    content = target.lines
    lines = tuple(_shown(line, content) for line in blamed.lines)
    meta = _meta(question, asked, len(order), limits, index, added, coverage)
    return ExplainAnswer(hits, meta, lines, passing=bool(added.trouble))


def _by_commit(lines: Sequence[Line]) -> Mapping[str, list[Line]]:
    found: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        if line.committed:
            found[line.origin.commit_sha].append(line)
    return found


def _hits(
    question: Question, shas: Sequence[str], lines_of: Mapping[str, list[Line]]
) -> tuple[ExplainHit, ...]:
    repository, wanted = question.repository, question.request.include_diff
    return tuple(
        hit(
            repository.commit(sha),
            lines_of[sha],
            excerpts.excerpt(repository, lines_of[sha]) if wanted else None,
        )
        for sha in shas
    )


def _shown(line: Line, content: Sequence[bytes]) -> BlamedLine:
    text = content[line.number - 1].decode("utf-8", errors="replace")
    return BlamedLine(line.number, text, line.origin.commit_sha if line.committed else None)


def _without_lines(question: Question, git: Git) -> ExplainAnswer:
    """The answer about what cannot be blamed."""
    target, repository = question.target, question.repository
    with file_history.opened(repository, question.place, git, question.counted) as index:
        limits = list(notes.about_file(target, question.ignored, repository))
        if target.missing and question.head:
            limits = [notes.about_missing(target, repository, question.head, git)]
        elif target.content is not None:
            limits.append(notes.about_range(target, question.request))
        added = Added(trouble=index.trouble)
        meta = _meta(question, (0, 0), 0, limits, index, added, Coverage(0, 0, 0))
        return ExplainAnswer((), meta, passing=bool(index.trouble))


def _refused(question: Question, asked: tuple[int, int], refused: Refused, index: Index) -> ExplainAnswer:
    limits = [notes.about_refusal(refused, question.repository)]
    coverage = Coverage(asked[1] - asked[0] + 1, 0, 0)
    meta = _meta(question, asked, 0, limits, index, Added(trouble=index.trouble), coverage)
    return ExplainAnswer((), meta, passing=True)


def _meta(
    question: Question,
    asked: tuple[int, int],
    unique: int,
    limits: Sequence[str],
    index: Index,
    added: Added,
    coverage: Coverage,
) -> ExplainMeta:
    return ExplainMeta(
        index_status=index_state(index.standing),
        hint=notes.hint(index, added, coverage),
        compatibility=compatibility_fields(index.standing.verdict),
        explain=Explained(
            lines_queried=asked,
            commits_unique=unique,
            blame_coverage=coverage.share,
            limitation=" ".join(limits) or None,
            related_commits=tuple(map(related, added.neighbours)),
            enrichment_limitation=notes.about_enrichment(index, added, question.target.shown),
        ),
    )
