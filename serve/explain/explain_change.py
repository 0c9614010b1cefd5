"""Explanation of lines by the commits that wrote them: `explain_change`.

An explanation finds the file, runs `git blame`, sorts the commits with the newest first, and builds a hit with a diff
excerpt for each commit. From the index, it adds related commits, and the share of the lines whose commit is indexed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from pipeline.git import commit_graph
from pipeline.git.changes import decode_path
from pipeline.git.errors import UnreadableObject
from pipeline.git.git_cli import GitProgram
from pipeline.git.libgit2 import check_objects
from pipeline.git.objects import Commit
from pipeline.git.repository import Repository, open_repository
from pipeline.interrupts import check_cancelled
from pipeline.walk import sort_newest_first
from serve import excerpts
from serve.api_types import clamp_limit, format_author_date, format_rfc3339
from serve.evidence import EvidenceLoader
from serve.excerpts import CONTEXT_LINES, EXCERPT_COLUMNS, EXCERPT_LINES, DiffLine, truncate_line
from serve.explain import blame, cache, file_history
from serve.explain.blame import (
    BlamedLine,
    BlameFailure,
    BlameResult,
    find_main_origin,
    load_ignore_revs,
    start_blame,
)
from serve.explain.cache import BoundedCache, ExplainContext
from serve.explain.file_history import (
    Coverage,
    Enrichment,
    FileHistoryReader,
    measure_coverage,
    open_file_history,
)
from serve.explain.line_evolution import NO_EVOLUTION, Evolution, trace_evolution
from serve.explain.target import Target, format_path, resolve_missing_file, resolve_target
from serve.explain_types import (
    ExplainAnswer,
    ExplainDetails,
    ExplainedLine,
    ExplainHit,
    ExplainMeta,
    ExplainRequest,
    validate_explain_request,
)
from serve.index_status import build_compatibility, build_index_state
from serve.repositories import find_index
from serve.text import format_count
from stores.connections import ReaderPools


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Excerpt of a diff. `is_truncated`: True if the part of the diff near the blamed lines is missing or cut."""

    text: str
    is_truncated: bool


EMPTY_EXCERPT: Final = Excerpt("", is_truncated=False)


@dataclass(frozen=True, slots=True)
class Explainer:
    """Explainer that caches its answers. Thread-safe.

    `home`: directory of the indexes. `reader_pools`: open indexes, which other code can share. `_histories`: cached
    histories of repositories without an index.
    """

    home: Path
    reader_pools: ReaderPools = field(default_factory=ReaderPools)
    _answers: BoundedCache[ExplainAnswer] = field(default_factory=BoundedCache)
    _histories: BoundedCache[bytes] = field(default_factory=BoundedCache)

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
            answer = compute_answer(context)
            # If something changed while git was running, the answer belongs to neither the old nor the new key.
            if not answer.is_transient and self._load_context(request, path, cwd).answer_key == key:
                self._answers.put(key, answer, answer.size_bytes)
        return answer

    def _load_context(self, request: ExplainRequest, path: Path, cwd: Path | None) -> ExplainContext:
        """Read the state of the repository, file and index on which the answer depends."""
        repository = open_repository(path)
        head = repository.read_head()
        target = resolve_target(repository, head, request.file, cwd)
        location = find_index(self.home, repository)
        if target.is_missing and head:
            git = commit_graph.create_git_program(repository, location.git_directory if location else None)
            target = resolve_missing_file(repository, git, head, target)
        ignore_revs = load_ignore_revs(repository)
        cache.check_blocking_files(repository, target, ignore_revs)
        return ExplainContext(
            request=request,
            repository=repository,
            head=head,
            target=target,
            location=location,
            ignore_revs=ignore_revs,
            histories=self._histories,
            reader_pools=self.reader_pools,
        )


def compute_answer(context: ExplainContext) -> ExplainAnswer:
    """Compute the answer to the request."""
    git, line_range = context.git, context.line_range
    if line_range is None:
        return _answer_without_lines(context, git)
    with (
        # git blame runs while this thread reads the index.
        start_blame(git, context.target, line_range, context.request, context.ignore_revs) as running_blame,
        _open_file_history(context, git, context.file_history_path) as reader,
    ):
        result = running_blame.read()
        if isinstance(result, BlameFailure):
            return _answer_blame_failure(context, line_range, result, reader)
        return _answer_from_blame(context, line_range, result, reader, git)


def _open_file_history(
    context: ExplainContext, git: GitProgram, path: str | None = None
) -> AbstractContextManager[FileHistoryReader]:
    return open_file_history(
        context.repository, context.location, git, context.histories, context.reader_pools, path
    )


def _answer_from_blame(
    context: ExplainContext,
    line_range: tuple[int, int],
    result: BlameResult,
    reader: FileHistoryReader,
    git: GitProgram,
) -> ExplainAnswer:
    """Build the answer from the blamed lines, with the data that the index adds."""
    repository, target = context.repository, context.target
    lines_by_commit = _group_by_commit(result.lines)
    commit_times = {sha: result.commit_times[sha] for sha in lines_by_commit}
    shas = sort_newest_first(commit_times, repository, git, reader.walked_history)
    check_cancelled()
    hits = _build_hits(context, shas[: clamp_limit(context.request.k)], lines_by_commit)
    enrichment = reader.load_enrichment(repository, shas, [hit.commit_sha for hit in hits])
    evidence = EvidenceLoader(
        repository, context.graph_directory, reader.find_possible_copies, reader.find_reverts
    )
    hits = evidence.add_to(hits)
    check_cancelled()
    evolution = _trace_evolution(context, result, reader, git)
    coverage = measure_coverage(result.lines, lines_by_commit, repository, enrichment)
    limitations = [
        *blame.describe_file_limitations(target, context.ignore_revs, repository, git),
        *blame.describe_line_limitations(result.lines, repository),
    ]
    meta = _build_meta(context, line_range, len(shas), limitations, reader, enrichment, coverage)
    meta = _add_evolution(meta, evolution)
    content = target.lines
    lines = tuple(_build_explained_line(line, content) for line in result.lines)
    is_complete = evidence.is_complete and evolution.is_complete
    # A later request can get a better answer if the index is no longer busy, or if no search runs out of time.
    is_transient = bool(enrichment.error) or reader.is_copy or not is_complete
    return ExplainAnswer(hits, meta, lines, is_transient=is_transient)


def _trace_evolution(
    context: ExplainContext, result: BlameResult, reader: FileHistoryReader, git: GitProgram
) -> Evolution:
    if not context.request.include_evolution:
        return NO_EVOLUTION
    return trace_evolution(
        context.repository,
        git,
        context.ignore_revs,
        reader,
        result.lines,
        result.commit_times,
        context.target.lines,
    )


def _add_evolution(meta: ExplainMeta, evolution: Evolution) -> ExplainMeta:
    """Add the earlier commits of the lines, and possible ones (`leads`), to the answer's data."""
    explain = replace(
        meta.explain,
        evolution=evolution.steps,
        leads=evolution.leads,
        evolution_limitation=evolution.limitation,
    )
    return replace(meta, explain=explain)


def _answer_blame_failure(
    context: ExplainContext, line_range: tuple[int, int], failure: BlameFailure, reader: FileHistoryReader
) -> ExplainAnswer:
    """Build an answer without hits, whose limitation says why git failed.

    Raises StorageError if git lacks the permission to read objects.
    """
    check_objects(context.repository.objects_dir, failure.reason)
    limitations = [blame.describe_blame_failure(failure, context.repository)]
    first, last = line_range
    coverage = Coverage(lines=last - first + 1, indexable=0, indexed=0)
    enrichment = Enrichment(error=reader.error)
    meta = _build_meta(context, line_range, 0, limitations, reader, enrichment, coverage)
    return ExplainAnswer((), meta, is_transient=True, has_failed=True)


def _answer_without_lines(context: ExplainContext, git: GitProgram) -> ExplainAnswer:
    """Build an answer without hits for a file or a range that has no lines to blame."""
    target, repository = context.target, context.repository
    with _open_file_history(context, git) as reader:
        limitations = list(blame.describe_file_limitations(target, context.ignore_revs, repository, git))
        if target.content is not None:
            limitations.append(_describe_empty_range(target))
        enrichment = Enrichment(error=reader.error)
        meta = _build_meta(context, (0, 0), 0, limitations, reader, enrichment, Coverage(0, 0, 0))
        is_transient = target.is_unreadable or bool(reader.error) or reader.is_copy
        return ExplainAnswer((), meta, is_transient=is_transient, has_failed=target.is_unreadable)


def _describe_empty_range(target: Target) -> str:
    """Say why the requested range has no lines: the file is empty, or it ends before the range."""
    name, count = format_path(target.path), len(target.lines)
    if not count:
        return f"{name} is empty."
    return f"{name} has {format_count(count, 'line')}, and the requested range starts after them."


def _group_by_commit(lines: Sequence[BlamedLine]) -> Mapping[str, list[BlamedLine]]:
    """Group the committed lines by commit."""
    lines_by_commit: dict[str, list[BlamedLine]] = defaultdict(list)
    for line in lines:
        if line.is_committed:
            lines_by_commit[line.origin.commit_sha].append(line)
    return lines_by_commit


def _build_hits(
    context: ExplainContext, shas: Sequence[str], lines_by_commit: Mapping[str, list[BlamedLine]]
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


def build_hit(commit: Commit, lines: Sequence[BlamedLine], excerpt: Excerpt | None) -> ExplainHit:
    """Build the hit of a commit. `lines`: blamed lines that it wrote. `excerpt`: None if the request excludes diffs."""
    return ExplainHit(
        commit_sha=commit.sha,
        commit_message=commit.message,
        commit_author=commit.author_name,
        commit_date=format_rfc3339(commit.commit_date),
        blame_lines=tuple(line.number for line in lines),
        file_path=decode_path(find_main_origin(lines).path),
        diff_excerpt=excerpt.text if excerpt else None,
        diff_truncated=bool(excerpt and excerpt.is_truncated),
        author_date=format_author_date(commit.author_date, commit.commit_date),
    )


def _build_explained_line(line: BlamedLine, content: Sequence[bytes]) -> ExplainedLine:
    text = content[line.number - 1].decode("utf-8", errors="replace")
    return ExplainedLine(line.number, text, line.origin.commit_sha if line.is_committed else None)


def _build_meta(
    context: ExplainContext,
    line_range: tuple[int, int],
    commit_count: int,
    limitations: Sequence[str],
    reader: FileHistoryReader,
    enrichment: Enrichment,
    coverage: Coverage,
) -> ExplainMeta:
    """Build the answer's data about the index and the explanation. `commit_count`: number of blamed commits."""
    path = context.target.display_path
    limitation = " ".join(limitations) or None
    hint = file_history.build_hint(reader, enrichment, coverage)
    if not commit_count and limitation:  # the reason why there are no hits
        hint = " ".join(dict.fromkeys(filter(None, (limitation, hint))))
    return ExplainMeta(
        index_status=build_index_state(reader.status),
        hint=hint,
        compatibility=build_compatibility(reader.status.verdict),
        explain=ExplainDetails(
            lines_queried=line_range,
            commits_unique=commit_count,
            blame_coverage=coverage.share,
            limitation=limitation,
            related_commits=enrichment.related_commits,
            enrichment_limitation=file_history.describe_enrichment_limitation(reader, enrichment, path),
        ),
    )


def build_excerpt(repository: Repository, lines: Sequence[BlamedLine]) -> Excerpt:
    """Return the part of a commit's diff near the lines that are blamed on the commit.

    If these lines are from several of its files, only the file with most of them is shown. The excerpt is empty if the
    commit is at the boundary of a shallow clone, where its parent is unknown. It is empty and counts as truncated if a
    version of the file is missing or too large to compare.
    """
    origin = find_main_origin(lines)
    if origin.commit_sha in repository.shallow_boundary:
        return EMPTY_EXCERPT
    numbers = {line.original_number for line in lines if line.origin == origin}
    try:
        body = file_history.diff_versions(repository, origin)
    except UnreadableObject:
        return Excerpt("", is_truncated=True)
    if body is None:
        return Excerpt("", is_truncated=True)
    return select_sections(excerpts.split_sections(body), numbers)


def select_sections(sections: Sequence[str], numbers: set[int]) -> Excerpt:
    """Return the `@@` sections of a diff that show at least one of the given lines, or else the nearest section.

    If the text is longer than EXCERPT_LINES, return only the parts near these lines. `numbers`: their numbers in the
    new file.
    """
    if not sections:
        return EMPTY_EXCERPT
    sorted_numbers = sorted(numbers)
    distances = [_measure_distance(section, sorted_numbers) for section in sections]
    selected = [section for section, distance in zip(sections, distances, strict=True) if distance == 0]
    # The diff can lack the blamed lines: it shows another, equal line as added; or blame skipped the commit that wrote
    # them (`.git-blame-ignore-revs`) and named an earlier one.
    if not selected:
        nearest = sections[distances.index(min(distances))]
        selected = [nearest]
        numbers = {_find_nearest_line(nearest, number) for number in numbers}
    text = "".join(selected)
    if text.count("\n") <= EXCERPT_LINES:
        return _crop(text, is_truncated=False)
    windows = "".join(window for section in selected for window in _format_windows(section, numbers))
    return _crop("\n".join(windows.split("\n")[:EXCERPT_LINES]), is_truncated=True)


def _measure_distance(section: str, numbers: Sequence[int]) -> int:
    """Return the distance from a section to the nearest of some lines, in lines; 0 if the section has one of them.

    `numbers`: numbers of these lines in the new file, sorted.
    """
    _, _, start, count = excerpts.parse_section_header(section)
    index = bisect_left(numbers, start)
    before = [start - numbers[index - 1]] if index else []
    after = [max(0, numbers[index] - (start + count - 1))] if index < len(numbers) else []
    return min([*before, *after])


def _find_nearest_line(section: str, number: int) -> int:
    """Return the number of the line in the section that is nearest to line `number` of the new file."""
    _, _, start, count = excerpts.parse_section_header(section)
    return max(start, min(number, start + count - 1))


def _format_windows(section: str, numbers: set[int]) -> Iterator[str]:
    """Yield the windows of a section around the lines `numbers` of the new file, each as a section with a header."""
    lines = list(excerpts.parse_section_lines(section))
    shown_indexes = {
        nearby_index
        for index, line in enumerate(lines)
        if line.text[:1] != "-" and line.new_number in numbers
        for nearby_index in range(index - CONTEXT_LINES, index + CONTEXT_LINES + 1)
        if 0 <= nearby_index < len(lines)
    }
    window: list[DiffLine] = []
    for index, line in enumerate(lines):
        if index in shown_indexes:
            window.append(line)
        elif window:
            yield excerpts.format_lines(section, window)
            window = []
    if window:
        yield excerpts.format_lines(section, window)


def _crop(text: str, *, is_truncated: bool) -> Excerpt:
    """Return an excerpt with long lines truncated."""
    lines = text.split("\n")
    cropped = "\n".join(map(truncate_line, lines))
    return Excerpt(cropped, is_truncated or any(len(line) > EXCERPT_COLUMNS for line in lines))
