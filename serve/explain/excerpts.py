"""Diff excerpts: what a commit changed in the lines that it is blamed for."""

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
from serve.explain.blame import LineOrigin, OriginLine
from serve.index_status import EXCERPT_COLUMNS, EXCERPT_LINES, truncate_line


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Excerpt of a diff; `is_truncated` if more of the diff concerns the blamed lines."""

    text: str
    is_truncated: bool


EMPTY_EXCERPT: Final = Excerpt("", is_truncated=False)


def main_origin(lines: Sequence[OriginLine]) -> LineOrigin:
    """Return the origin of most of the lines."""
    return Counter(line.origin for line in lines).most_common(1)[0][0]


def build_excerpt(repository: Repository, lines: Sequence[OriginLine]) -> Excerpt:
    """Return what a commit did to lines blamed on it, in the file that most of them come from.

    Empty at a shallow boundary, where the parent is unknown. Empty and truncated if a version of the file is missing
    or too large to compare.
    """
    origin = main_origin(lines)
    if origin.commit_sha in repository.shallow_boundary:
        return EMPTY_EXCERPT
    numbers = {line.original_number for line in lines if line.origin == origin}
    try:
        body = _diff_body(repository, origin)
    except UnreadableObject:
        return Excerpt("", is_truncated=True)
    if body is None:
        return Excerpt("", is_truncated=True)
    return _select_sections(diff_excerpts.split_sections(body), numbers)


def _diff_body(repository: Repository, origin: LineOrigin) -> str | None:
    """Return the `@@` sections between the two versions of the file; None if one is too large to compare."""
    new = repository.find_entry(origin.commit_sha, origin.path)
    old = repository.find_entry(*origin.previous) if origin.previous else None
    blobs = [entry.sha if entry else None for entry in (old, new)]
    if any(repository.read_blob_size(blob) > OVERSIZE_BYTES for blob in blobs if blob):
        return None
    body = patches.strip_file_header(repository.create_blob_patch(*blobs).data)
    return body.decode("utf-8", errors="replace")


def _select_sections(sections: Sequence[str], numbers: set[int]) -> Excerpt:
    """Return the sections that have the numbered new lines; only the lines near them if the sections are too long."""
    if not sections:
        return EMPTY_EXCERPT
    ordered_numbers = sorted(numbers)
    distances = [_distance(section, ordered_numbers) for section in sections]
    touched = [section for section, distance in zip(sections, distances, strict=True) if distance == 0]
    # Blame and diff can disagree: about equal lines around an added block, or through an ignored commit.
    if not touched:
        nearest = sections[distances.index(min(distances))]
        touched = [nearest]
        numbers = {_nearest_line(nearest, number) for number in numbers}
    text = "".join(touched)
    if text.count("\n") <= EXCERPT_LINES:
        return _crop(text, is_truncated=False)
    windows = "".join(window for section in touched for window in _format_windows(section, numbers))
    return _crop("\n".join(windows.split("\n")[:EXCERPT_LINES]), is_truncated=True)


def _distance(section: str, numbers: Sequence[int]) -> int:
    """Return the distance in lines from a section to the nearest of the sorted numbers; 0 if it has one of them."""
    _, _, start, count = diff_excerpts.parse_section_header(section)
    index = bisect_left(numbers, start)
    before = [start - numbers[index - 1]] if index else []
    after = [max(0, numbers[index] - (start + count - 1))] if index < len(numbers) else []
    return min([*before, *after])


def _nearest_line(section: str, number: int) -> int:
    """Return the new line of the section that is nearest to a line number."""
    _, _, start, count = diff_excerpts.parse_section_header(section)
    return max(start, min(number, start + count - 1))


def _format_windows(section: str, numbers: set[int]) -> Iterator[str]:
    """Yield the lines near the numbered ones, each run of consecutive lines as a section of its own."""
    lines = list(diff_excerpts.section_lines(section))
    kept = {
        near
        for index, line in enumerate(lines)
        if line.text[:1] != "-" and line.new_number in numbers
        for near in range(index - CONTEXT_LINES, index + CONTEXT_LINES + 1)
        if 0 <= near < len(lines)
    }
    run: list[DiffLine] = []
    for index, line in enumerate(lines):
        if index in kept:
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
