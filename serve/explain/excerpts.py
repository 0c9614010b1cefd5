"""Diff excerpts: the sections of a commit's diff that changed the lines blamed on it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pipeline.git import patches
from pipeline.git.repository import Repository, UnreadableObject
from pipeline.hunks import OVERSIZE_BYTES
from serve import diff_excerpts
from serve.diff_excerpts import CONTEXT_LINES, DiffLine
from serve.explain.blame import BlamedLine, LineOrigin
from serve.index_status import EXCERPT_COLUMNS, EXCERPT_LINES, truncate_line


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Excerpt of a diff; `is_truncated` if it omits a part that concerns the blamed lines."""

    text: str
    is_truncated: bool


EMPTY_EXCERPT: Final = Excerpt("", is_truncated=False)


def find_main_origin(lines: Sequence[BlamedLine]) -> LineOrigin:
    """Return the origin of most of the lines."""
    return Counter(line.origin for line in lines).most_common(1)[0][0]


def build_excerpt(repository: Repository, lines: Sequence[BlamedLine]) -> Excerpt:
    """Return the excerpt of a commit's diff for lines blamed on it, in the file that most of them come from.

    It is empty at a shallow boundary, where the parent is unknown; empty and truncated if a version of the file is
    missing or too large to compare.
    """
    origin = find_main_origin(lines)
    if origin.commit_sha in repository.shallow_boundary:
        return EMPTY_EXCERPT
    numbers = {line.original_number for line in lines if line.origin == origin}
    try:
        body = _diff_versions(repository, origin)
    except UnreadableObject:
        return Excerpt("", is_truncated=True)
    if body is None:
        return Excerpt("", is_truncated=True)
    return select_sections(diff_excerpts.split_sections(body), numbers)


def _diff_versions(repository: Repository, origin: LineOrigin) -> str | None:
    """Return the `@@` sections between the two versions of the file; None if one is too large to compare."""
    new = repository.find_entry(origin.commit_sha, origin.path)
    old = repository.find_entry(*origin.previous) if origin.previous else None
    blobs = [entry.sha if entry else None for entry in (old, new)]
    if any(repository.read_blob_size(blob) > OVERSIZE_BYTES for blob in blobs if blob):
        return None
    body = patches.strip_file_header(repository.create_blob_patch(*blobs).data)
    return body.decode("utf-8", errors="replace")


def select_sections(sections: Sequence[str], numbers: set[int]) -> Excerpt:
    """Return the sections that contain the numbered new lines; if they are too long, only the lines near these."""
    if not sections:
        return EMPTY_EXCERPT
    sorted_numbers = sorted(numbers)
    distances = [_measure_distance(section, sorted_numbers) for section in sections]
    touched_sections = [
        section for section, distance in zip(sections, distances, strict=True) if distance == 0
    ]
    # Blame and diff can disagree about equal lines around an added block, or if blame skipped a commit.
    if not touched_sections:
        nearest = sections[distances.index(min(distances))]
        touched_sections = [nearest]
        numbers = {_find_nearest_line(nearest, number) for number in numbers}
    text = "".join(touched_sections)
    if text.count("\n") <= EXCERPT_LINES:
        return _crop(text, is_truncated=False)
    windows = "".join(window for section in touched_sections for window in _format_windows(section, numbers))
    return _crop("\n".join(windows.split("\n")[:EXCERPT_LINES]), is_truncated=True)


def _measure_distance(section: str, numbers: Sequence[int]) -> int:
    """Return the distance in lines from a section to the nearest of the sorted numbers; 0 if it has one of them."""
    _, _, start, count = diff_excerpts.parse_section_header(section)
    index = bisect_left(numbers, start)
    before = [start - numbers[index - 1]] if index else []
    after = [max(0, numbers[index] - (start + count - 1))] if index < len(numbers) else []
    return min([*before, *after])


def _find_nearest_line(section: str, number: int) -> int:
    """Return the new line of the section that is nearest to a line number."""
    _, _, start, count = diff_excerpts.parse_section_header(section)
    return max(start, min(number, start + count - 1))


def _format_windows(section: str, numbers: set[int]) -> Iterator[str]:
    """Yield the lines near the numbered ones, each run of consecutive lines as a section of its own."""
    lines = list(diff_excerpts.parse_section_lines(section))
    shown_indexes = {
        nearby_index
        for index, line in enumerate(lines)
        if line.text[:1] != "-" and line.new_number in numbers
        for nearby_index in range(index - CONTEXT_LINES, index + CONTEXT_LINES + 1)
        if 0 <= nearby_index < len(lines)
    }
    run: list[DiffLine] = []
    for index, line in enumerate(lines):
        if index in shown_indexes:
            run.append(line)
        elif run:
            yield diff_excerpts.format_lines(section, run)
            run = []
    if run:
        yield diff_excerpts.format_lines(section, run)


def _crop(text: str, *, is_truncated: bool) -> Excerpt:
    """Return an excerpt with long lines truncated."""
    lines = text.split("\n")
    cropped = "\n".join(map(truncate_line, lines))
    return Excerpt(cropped, is_truncated or any(len(line) > EXCERPT_COLUMNS for line in lines))
