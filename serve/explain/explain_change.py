"""Explanation of lines by the commits that wrote them: `explain_change`.

The steps of an explanation: find the file, run `git blame`, sort the commits newest first, build their hits with diff
excerpts, add what the index knows, build the answer.
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
from pipeline.git.changes import decode_path
from pipeline.git.git_cli import GitProgram
from pipeline.git.objects import Commit, Parents, sort_topologically
from pipeline.git.repository import Repository, open_repository
from serve.api_types import (
    BlamedLine,
    ExplainAnswer,
    ExplainDetails,
    ExplainHit,
    ExplainMeta,
    ExplainRequest,
    RelatedCommit,
    format_rfc3339,
    validate_explain_request,
)
from serve.explain import cache, notes
from serve.explain.blame import (
    BlameFailed,
    BlameIgnoreRevs,
    BlameResult,
    OriginLine,
    load_ignore_revs,
    read_blame,
    start_blame,
)
from serve.explain.cache import BoundedCache
from serve.explain.excerpts import Excerpt, build_excerpt, main_origin
from serve.explain.file_history import Enrichment, FileHistoryReader, open_file_history
from serve.explain.notes import Coverage
from serve.explain.target import Target, resolve_target
from serve.index_status import clamp_limit, compatibility_fields, index_state
from serve.repositories import find_index
from stores.history import FileCommit
from stores.index_location import IndexLocation

# With wrong clocks, commits of one date can be connected through older ones; git also allows for a day.
CLOCK_SLOP: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Explainer:
    """Explainer that caches its answers. Indexes are under `home`. Thread-safe."""

    home: Path
    _answers: BoundedCache[ExplainAnswer] = field(default_factory=BoundedCache)
    _commit_counts: BoundedCache[int] = field(default_factory=BoundedCache)

    def explain(self, request: ExplainRequest, path: Path, cwd: Path | None = None) -> ExplainAnswer:
        """Return the commits behind lines of a file in the repository at `path`.

        The file name is relative to the repository or to `cwd`, the user's working directory. Raises BadRequest for an
        invalid request.
        """
        validate_explain_request(request)
        context = self._load_context(request, path, cwd)
        key = context.answer_key
        answer = self._answers.get(key)
        if answer is None:
            answer = _compute_answer(context)
            # Cached only if nothing changed while git was running: else the answer fits no key.
            if not answer.passing and self._load_context(request, path, cwd).answer_key == key:
                self._answers.put(key, answer, answer.size_bytes)
        return answer

    def _load_context(self, request: ExplainRequest, path: Path, cwd: Path | None) -> ExplainContext:
        repository = open_repository(path)
        head = repository.read_head()
        return ExplainContext(
            request=request,
            repository=repository,
            head=head,
            target=resolve_target(repository, head, request.file, cwd),
            location=find_index(self.home, repository),
            ignore_revs=load_ignore_revs(repository),
            commit_counts=self._commit_counts,
        )


@dataclass(frozen=True, slots=True)
class ExplainContext:
    """A request with the state of the repository, file and index at the time it is answered."""

    request: ExplainRequest
    repository: Repository
    head: str | None
    target: Target
    location: IndexLocation | None
    ignore_revs: BlameIgnoreRevs
    commit_counts: BoundedCache[int]

    @property
    def answer_key(self) -> bytes:
        """Digest of everything that the answer depends on."""
        return cache.answer_key(
            self.request, self.repository, self.head, self.target, self.location, self.ignore_revs
        )

    @property
    def line_range(self) -> tuple[int, int] | None:
        """Requested lines that the file has, first and last; None if it has none of them."""
        first, count = self.request.line_start, len(self.target.lines)
        last = min(self.request.line_end or count, count)
        return (first, last) if first <= last and self.target.content is not None else None

    @property
    def related_path(self) -> str | None:
        """Path of the file whose related commits are requested; None if they are not."""
        return self.target.display_path if self.request.include_related else None

    @property
    def git(self) -> GitProgram:
        """Git program for this repository, with the commit graph of the index if there is one."""
        graph = self.location.git_directory if self.location else None
        return commit_graph.create_git_program(self.repository, graph, self.ignore_revs.settings)


def _compute_answer(context: ExplainContext) -> ExplainAnswer:
    git, line_range = context.git, context.line_range
    if line_range is None:
        return _answer_without_lines(context, git)
    with (
        # git blames in the background while the index is read.
        start_blame(git, context.target, line_range, context.request, context.ignore_revs) as running,
        open_file_history(
            context.repository, context.location, git, context.commit_counts, context.related_path
        ) as reader,
    ):
        result = read_blame(running)
        if isinstance(result, BlameFailed):
            return _answer_blame_failure(context, line_range, result, reader)
        return _answer_from_blame(context, line_range, result, reader, git)


def _answer_from_blame(
    context: ExplainContext,
    line_range: tuple[int, int],
    result: BlameResult,
    reader: FileHistoryReader,
    git: GitProgram,
) -> ExplainAnswer:
    repository, target = context.repository, context.target
    lines_by_commit = _group_by_commit(result.lines)
    commit_times = {sha: result.commit_times[sha] for sha in lines_by_commit}
    ordered = order_newest_first(commit_times, repository)
    hits = _build_hits(context, ordered[: clamp_limit(context.request.k)], lines_by_commit)
    enrichment = reader.load_enrichment(ordered, [hit.commit_sha for hit in hits])
    coverage = _measure_coverage(result.lines, lines_by_commit, repository, enrichment)
    limits = [
        *notes.describe_file_limits(target, context.ignore_revs, repository, git),
        *notes.describe_line_limits(result.lines, repository),
    ]
    meta = _build_meta(context, line_range, len(ordered), limits, reader, enrichment, coverage)
    content = target.lines
    lines = tuple(_build_blamed_line(line, content) for line in result.lines)
    return ExplainAnswer(hits, meta, lines, passing=bool(enrichment.error))


def _answer_blame_failure(
    context: ExplainContext, line_range: tuple[int, int], failure: BlameFailed, reader: FileHistoryReader
) -> ExplainAnswer:
    limits = [notes.describe_blame_failure(failure, context.repository)]
    first, last = line_range
    coverage = Coverage(lines=last - first + 1, indexable=0, indexed=0)
    enrichment = Enrichment(error=reader.error)
    return ExplainAnswer(
        (), _build_meta(context, line_range, 0, limits, reader, enrichment, coverage), passing=True
    )


def _answer_without_lines(context: ExplainContext, git: GitProgram) -> ExplainAnswer:
    """Answer a request for a file or a range that has no lines to blame."""
    target, repository = context.target, context.repository
    with open_file_history(repository, context.location, git, context.commit_counts) as reader:
        limits = list(notes.describe_file_limits(target, context.ignore_revs, repository, git))
        if target.is_missing and context.head:
            limits = [notes.describe_missing_file(target, repository, context.head, git)]
        elif target.content is not None:
            limits.append(notes.describe_empty_range(target, context.request))
        enrichment = Enrichment(error=reader.error)
        meta = _build_meta(context, (0, 0), 0, limits, reader, enrichment, Coverage(0, 0, 0))
        return ExplainAnswer((), meta, passing=bool(reader.error))


def _group_by_commit(lines: Sequence[OriginLine]) -> Mapping[str, list[OriginLine]]:
    """Group the committed lines by commit."""
    lines_by_commit: dict[str, list[OriginLine]] = defaultdict(list)
    for line in lines:
        if line.is_committed:
            lines_by_commit[line.origin.commit_sha].append(line)
    return lines_by_commit


def order_newest_first(dates: Mapping[str, int], repository: Repository) -> list[str]:
    """Order commits by committer time, given by SHA in seconds; with equal times, children come before parents."""
    ordered: list[str] = []
    by_date = sorted(dates, key=lambda sha: (-dates[sha], sha))
    for _, tied in groupby(by_date, key=dates.__getitem__):
        ordered += _children_first(list(tied), repository)
    return ordered


def _children_first(tied: list[str], repository: Repository) -> list[str]:
    if len(tied) == 1:
        return tied
    parents = _reachable_since(tied, repository)
    shas = set(tied)
    return [sha for sha in reversed(sort_topologically("", {**parents, "": tuple(tied)})) if sha in shas]


def _reachable_since(tied: list[str], repository: Repository) -> dict[str, Parents]:
    """Return the parents of every commit reachable from these, back to their common date minus the slop."""
    oldest = repository.read_commit(tied[0]).commit_date - CLOCK_SLOP
    parents: dict[str, Parents] = {}
    queue = list(tied)
    while queue:
        sha = queue.pop()
        if sha not in parents and repository.contains(sha):
            commit = repository.read_commit(sha)
            parents[sha] = commit.parents if commit.commit_date >= oldest else ()
            queue.extend(parents[sha])
    return parents


def _build_hits(
    context: ExplainContext, shas: Sequence[str], lines_by_commit: Mapping[str, list[OriginLine]]
) -> tuple[ExplainHit, ...]:
    repository, include_diff = context.repository, context.request.include_diff
    return tuple(
        build_hit(
            repository.read_commit(sha),
            lines_by_commit[sha],
            build_excerpt(repository, lines_by_commit[sha]) if include_diff else None,
        )
        for sha in shas
    )


def build_hit(commit: Commit, lines: Sequence[OriginLine], excerpt: Excerpt | None) -> ExplainHit:
    """Build the hit of a commit and the lines it wrote."""
    return ExplainHit(
        commit_sha=commit.sha,
        commit_message=commit.message,
        commit_author=commit.author_name,
        commit_date=format_rfc3339(commit.commit_date),
        blame_lines=tuple(line.number for line in lines),
        file_path=decode_path(main_origin(lines).path),
        diff_excerpt=excerpt.text if excerpt else None,
        diff_truncated=bool(excerpt and excerpt.is_truncated),
    )


def build_related_commit(commit: FileCommit) -> RelatedCommit:
    """Convert a neighbouring commit of the index."""
    return RelatedCommit(
        commit_sha=commit.commit_sha,
        commit_message=commit.commit_message,
        commit_author=commit.commit_author,
        commit_date=format_rfc3339(commit.commit_date),
        touched_hunks=commit.touched_hunks,
    )


def _build_blamed_line(line: OriginLine, content: Sequence[bytes]) -> BlamedLine:
    text = content[line.number - 1].decode("utf-8", errors="replace")
    return BlamedLine(line.number, text, line.origin.commit_sha if line.is_committed else None)


def _measure_coverage(
    lines: Sequence[OriginLine],
    lines_by_commit: Mapping[str, list[OriginLine]],
    repository: Repository,
    enrichment: Enrichment,
) -> Coverage:
    counts = {sha: len(commit_lines) for sha, commit_lines in lines_by_commit.items()}
    return Coverage(
        lines=len(lines),
        indexable=sum(count for sha, count in counts.items() if sha not in repository.shallow_boundary),
        indexed=sum(count for sha, count in counts.items() if sha in enrichment.indexed_commits),
    )


def _build_meta(
    context: ExplainContext,
    line_range: tuple[int, int],
    commit_count: int,
    limits: Sequence[str],
    reader: FileHistoryReader,
    enrichment: Enrichment,
    coverage: Coverage,
) -> ExplainMeta:
    path = context.target.display_path
    return ExplainMeta(
        index_status=index_state(reader.status),
        hint=notes.build_hint(reader, enrichment, coverage),
        compatibility=compatibility_fields(reader.status.verdict),
        explain=ExplainDetails(
            lines_queried=line_range,
            commits_unique=commit_count,
            blame_coverage=coverage.share,
            limitation=" ".join(limits) or None,
            related_commits=tuple(map(build_related_commit, enrichment.neighbours)),
            enrichment_limitation=notes.describe_enrichment_limits(reader, enrichment, path),
        ),
    )
