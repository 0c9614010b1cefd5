"""Sources of lines: the lines of a parent commit that became lines of a commit.

A block is a part of the diff: removed lines, and the added lines in their place. The source of a line is a removed line
of its block (the line was edited or split), a removed line elsewhere in the commit (it was moved), or an unchanged line
(its file was renamed). The context score of a source is the similarity, from 0 to 1, of the lines around both lines.
`serve/README.md` describes the rules under "Evolution of lines".
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain, product
from typing import Final, Literal

from pipeline.git.changes import FileChange
from pipeline.git.patches import PatchPart
from pipeline.git.repository import Repository
from pipeline.interrupts import Deadline
from serve.explain.changed_lines import (
    MAX_BLOCK_LINES,
    MIN_MOVE_SCORE,
    MIN_MOVE_SCORE_IN_CONTEXT,
    MOVE_ADVANTAGE,
    ChangedLine,
    ChangedLines,
    create_whole_part,
    find_blob,
    group_by_key,
    load_changed_lines,
    load_versions,
    read_lines,
)
from serve.explain.line_similarity import (
    MAX_CANDIDATES,
    MIN_WEIGHT,
    WHOLE_ANCHOR_SCORE,
    LineFeatures,
    WordIndex,
    build_key,
    compute_containment,
    compute_context_score,
    compute_similarity,
    compute_token_similarity,
    extract_features,
    find_split_lines,
    has_better_rival,
)

SourceStep = Literal["modified", "moved", "renamed", "reformatted"]

# Minimum similarity of an edited line and its source. Otherwise, other code replaced the block.
MIN_EDIT_SCORE: Final = 0.5
# A moved line of equal text is an exact source if its context score is at least this. Otherwise the source is inferred.
EXACT_CONTEXT_SCORE: Final = 0.5
# At most this many removed lines count as replaced by a line: those with the closest relative position in the block.
MAX_REPLACED_LINES: Final = 3


@dataclass(frozen=True, slots=True)
class LineSource:
    """Line of a parent commit that became a line of a commit.

    `step`: what the commit did. `is_exact`: the text is equal apart from white space, and the source is not inferred.
    """

    parent: str
    path: bytes
    number: int
    step: SourceStep
    is_exact: bool


@dataclass(frozen=True, slots=True)
class _Match:
    """Source of a line. `score`: similarity of the line and its source, 0 to 1."""

    score: float
    source: LineSource


@dataclass(frozen=True)
class SourceFinder:
    """Finder of the sources of a commit's lines. It reads other files only for lines that were not edited in place."""

    repository: Repository
    sha: str
    _changed_lines: dict[int, ChangedLines] = field(default_factory=dict)
    _comparisons: dict[tuple[int, bytes], _FileComparison] = field(default_factory=dict)

    @cached_property
    def parents(self) -> tuple[str, ...]:
        """Parents of the commit; none for a root and at a shallow boundary."""
        return self.repository.read_commit(self.sha).parents

    def find_sources(
        self, path: bytes, numbers: Collection[int], deadline: Deadline
    ) -> dict[int, LineSource]:
        """Return the source of each line that has one. `numbers`: lines of the commit's file at `path`.

        Raises UnreadableObject, and DeadlineExceeded if the time runs out.
        """
        matches: dict[int, _Match] = {}
        for parent_index in range(len(self.parents)):
            comparison = self._compare_file(parent_index, path)
            for number in numbers:
                deadline.check()
                if number > len(comparison.lines):
                    continue
                match = self._find_best_match(parent_index, comparison, number)
                if match and (number not in matches or match.score > matches[number].score):
                    matches[number] = match
        return {number: match.source for number, match in matches.items()}

    @property
    def has_all_changed_lines(self) -> bool:
        """True unless files were left out of the search for moved lines because of a limit."""
        return all(lines.is_complete for lines in self._changed_lines.values())

    def find_removed(self, path: bytes, key: str) -> Iterator[LineSource]:
        """Yield the lines that the commit removed from a file and whose text without white space is `key`."""
        for parent_index, parent in enumerate(self.parents):
            for change in self._list_changes(parent_index):
                if (change.old_path or change.path) == path:
                    versions = load_versions(self.repository, change)
                    for number in chain.from_iterable(part.removed for part in versions.parts):
                        if build_key(versions.old_lines[number - 1]) == key:
                            yield LineSource(parent, path, number, "moved", is_exact=False)

    def find_replaced(self, path: bytes, number: int) -> list[LineSource]:
        """Return up to MAX_REPLACED_LINES lines of the first parent that the line's block replaced."""
        if not self.parents:
            return []
        return self._compare_file(0, path).find_replaced(number)

    def _compare_file(self, parent_index: int, path: bytes) -> _FileComparison:
        """Compare the file with its version in the parent, and cache the comparison.

        If the parent has no file of this path, its version is the file that the commit renamed to this path, or else a
        file of the same name in another language that the commit deletes.
        """
        if (parent_index, path) not in self._comparisons:
            self._comparisons[parent_index, path] = self._create_comparison(parent_index, path)
        return self._comparisons[parent_index, path]

    def _create_comparison(self, parent_index: int, path: bytes) -> _FileComparison:
        """Compare the file with its version in the parent, without the cache."""
        blob = find_blob(self.repository, self.sha, path)
        parent, old_path = self.parents[parent_index], path
        old_blob = find_blob(self.repository, parent, path)
        converted_path = None
        if old_blob is None:
            changes = self._list_changes(parent_index)
            renames = (change.old_path for change in changes if change.path == path and change.old_path)
            renamed_path = next(renames, None)
            converted_path = None if renamed_path else _find_converted(path, changes)
            old_path = renamed_path or converted_path or b""
            old_blob = find_blob(self.repository, parent, old_path) if old_path else None
        lines, old_lines = read_lines(self.repository, blob), read_lines(self.repository, old_blob)
        parts: Sequence[PatchPart] | None = None
        if blob and old_blob and old_lines and converted_path:
            parts = (create_whole_part(len(old_lines), len(lines)),)
        elif blob and old_blob and old_lines:
            parts = _join_parts(self.repository.diff_blobs(old_blob, blob), old_lines)
        return _FileComparison(parent, path, old_path, lines, old_lines, parts)

    def _list_changes(self, parent_index: int) -> Sequence[FileChange]:
        diffs = self._tree_diffs
        return diffs[parent_index] if parent_index < len(diffs) else ()

    @cached_property
    def _tree_diffs(self) -> list[Sequence[FileChange]]:
        return [diff.changes for diff in self.repository.diff_with_parents(self.sha)]

    def _find_best_match(self, parent_index: int, comparison: _FileComparison, number: int) -> _Match | None:
        """Return the source of a line: in its block, or a clearly better one elsewhere, or the line that was split."""
        features = extract_features(comparison.lines[number - 1])
        if features.weight < MIN_WEIGHT:
            return None
        match = comparison.find_match_in_place(number, features)
        if match and match.score >= 1 - MOVE_ADVANTAGE:
            return match
        moved = self._find_moved(parent_index, comparison, number, features, match)
        if moved and (match is None or moved.score > match.score + MOVE_ADVANTAGE):
            return moved
        return match or comparison.find_split_line(number)

    def _find_moved(
        self,
        parent_index: int,
        comparison: _FileComparison,
        number: int,
        features: LineFeatures,
        match: _Match | None,
    ) -> _Match | None:
        """Return the best source outside the block of the line. `match`: source in the block, or None."""
        changed_lines = self._changed_lines.get(parent_index)
        if changed_lines is None:
            changed_lines = self._changed_lines[parent_index] = load_changed_lines(
                self.repository, self._list_changes(parent_index)
            )
        best: tuple[float, float, ChangedLine] | None = None  # score, context score and source
        min_score = MIN_MOVE_SCORE_IN_CONTEXT
        for candidate in changed_lines.find_candidates(features):
            score = similarity = compute_similarity(features, candidate.features)
            if score < MIN_MOVE_SCORE and features.anchors & candidate.features.anchors:
                score = max(score, compute_containment(features, candidate.features))
            if score < min_score:
                continue
            context_score = compute_context_score(comparison.lines, number, candidate.lines, candidate.number)
            if score == 1 and context_score < changed_lines.compute_best_context_score(candidate):
                # Another added line continues this candidate. Later candidates must be nearly equal to the line.
                min_score = 1 - MOVE_ADVANTAGE
                continue
            is_source = changed_lines.is_source(
                candidate, features, comparison.path, comparison.old_path, score, context_score
            )
            is_best = is_source and (best is None or (score, context_score) > best[:2])
            # If the line has a source in its block, an equal candidate that was edited in its own block is no source.
            limit = match.score if match and similarity == 1 else similarity
            if is_best and not changed_lines.has_better_successor(candidate, comparison.path, number, limit):
                best = score, context_score, candidate
        if best is None:
            return None
        score, context_score, source_line = best
        is_exact = score == 1 and context_score >= EXACT_CONTEXT_SCORE
        parent = self.parents[parent_index]
        return _Match(score, LineSource(parent, source_line.path, source_line.number, "moved", is_exact))


@dataclass(frozen=True)
class _FileComparison:
    """File of a commit, compared with its version in a parent.

    `parts`: the blocks; None if a version of the file is missing, or the old version has no lines.
    `_equal_pairs`, `_split_lines`: cached results of `_pair_equal_lines` and `find_split_lines` for each block.
    """

    parent: str
    path: bytes
    old_path: bytes
    lines: Sequence[str]
    old_lines: Sequence[str]
    parts: Sequence[PatchPart] | None
    _equal_pairs: dict[tuple[int, str], dict[int, int]] = field(default_factory=dict)
    _split_lines: dict[int, dict[int, int]] = field(default_factory=dict)

    @cached_property
    def _added_by_key(self) -> Mapping[str, list[int]]:
        numbers = list(chain.from_iterable(part.added for part in self.parts or ()))
        return group_by_key([self.lines[number - 1] for number in numbers], numbers)

    @cached_property
    def _removed_by_key(self) -> Mapping[str, list[int]]:
        numbers = list(chain.from_iterable(part.removed for part in self.parts or ()))
        return group_by_key([self.old_lines[number - 1] for number in numbers], numbers)

    @cached_property
    def _added_by_word(self) -> WordIndex:
        numbers = list(chain.from_iterable(part.added for part in self.parts or ()))
        return WordIndex([self.lines[number - 1] for number in numbers], numbers)

    @cached_property
    def _removed_by_word(self) -> WordIndex:
        numbers = list(chain.from_iterable(part.removed for part in self.parts or ()))
        return WordIndex([self.old_lines[number - 1] for number in numbers], numbers)

    def find_match_in_place(self, number: int, features: LineFeatures) -> _Match | None:
        """Return the best source in the block of a line. For a line outside all blocks, return the unchanged line."""
        if self.parts is None:
            return None
        shift = 0  # old number of an unchanged line minus its new number
        for part in self.parts:
            if part.added and number in _span(part.added):
                return self._match_in_block(part, number, features)
            # git numbers an empty range by the line before it.
            start = part.added[0] if part.added else part.new_start + 1
            if start > number:
                break
            shift += len(part.removed) - len(part.added)
        step: SourceStep = "moved" if self.old_path == self.path else "renamed"
        return _Match(1.0, self._create_source(number + shift, step, is_exact=True))

    def find_replaced(self, number: int) -> list[LineSource]:
        """Return lines that the block of a line replaced, the closest to the line's relative position first."""
        part = next((part for part in self.parts or () if number in part.added), None)
        if part is None:
            return []
        relative_position = (number - part.added[0]) / len(part.added)
        numbers = [
            old for old in part.removed if extract_features(self.old_lines[old - 1]).weight >= MIN_WEIGHT
        ]
        numbers.sort(key=lambda old: abs((old - part.removed[0]) / len(part.removed) - relative_position))
        return [self._create_source(old, "modified", is_exact=False) for old in numbers[:MAX_REPLACED_LINES]]

    def find_split_line(self, number: int) -> _Match | None:
        """Return the removed line that was split into several lines of the block, including the line `number`."""
        part = next((part for part in self.parts or () if number in part.added), None)
        if part is None:
            return None
        if part.new_start not in self._split_lines:
            self._split_lines[part.new_start] = find_split_lines(
                [self.old_lines[old_number - 1] for old_number in part.removed],
                [self.lines[added_number - 1] for added_number in part.added],
            )
        position = self._split_lines[part.new_start].get(part.added.index(number))
        if position is None:
            return None
        source = self._create_source(part.removed[position], "modified", is_exact=False)
        return _Match(MIN_EDIT_SCORE, source)

    def _match_in_block(self, part: PatchPart, number: int, features: LineFeatures) -> _Match | None:
        """Return the best source of a line among the removed lines of its block: an equal or the most similar line."""
        equal_number = self._pair_equal_lines(part, features.key).get(number)
        if equal_number is not None:
            step = self._get_step_of_equal_line(equal_number, number)
            return _Match(1.0, self._create_source(equal_number, step, is_exact=True))
        relative_position = (number - part.added[0]) / len(part.added)
        candidates: list[tuple[float, float, int, float]] = []
        for old_number in self._select_removed(part, features):
            old = extract_features(self.old_lines[old_number - 1])
            if not features.words & old.words or old.key in self._added_by_key:
                continue  # a removed line that is added again in this file was moved, not edited
            similarity = compute_similarity(features, old)
            score = max(similarity, compute_containment(features, old))
            if score >= MIN_EDIT_SCORE:
                distance = abs((old_number - part.removed[0]) / len(part.removed) - relative_position)
                candidates.append((score, -distance, old_number, similarity))
        for score, _, old_number, similarity in sorted(candidates, reverse=True):
            old = extract_features(self.old_lines[old_number - 1])
            rival_numbers = self._select_added(part, old)
            rivals = (self.lines[rival - 1] for rival in rival_numbers if rival != number)
            # A line that contains the whole removed line continues it, even if another added line is more similar.
            if score >= WHOLE_ANCHOR_SCORE or not has_better_rival(old, rivals, similarity):
                return _Match(score, self._create_source(old_number, "modified", is_exact=False))
        return self._match_only_line(part, features)

    def _select_removed(self, part: PatchPart, features: LineFeatures) -> Iterable[int]:
        """Return the removed lines of a block to compare with a line: of a large block, those sharing a rare word."""
        if len(part.removed) <= MAX_BLOCK_LINES:
            return part.removed
        return filter(_span(part.removed).__contains__, self._removed_by_word.find_by_rare_words(features))

    def _select_added(self, part: PatchPart, features: LineFeatures) -> Iterable[int]:
        """Return the added lines of a block to compare with a line: of a large block, those sharing a rare word."""
        if len(part.added) <= MAX_BLOCK_LINES:
            return part.added
        return filter(_span(part.added).__contains__, self._added_by_word.find_by_rare_words(features))

    def _match_only_line(self, part: PatchPart, features: LineFeatures) -> _Match | None:
        """Return the only removed line of a block with a single added line, if they share half of their tokens."""
        if len(part.removed) != 1 or len(part.added) != 1:
            return None
        old = extract_features(self.old_lines[part.removed[0] - 1])
        score = compute_token_similarity(features, old)
        if score < MIN_EDIT_SCORE or old.key in self._added_by_key:
            return None
        return _Match(score, self._create_source(part.removed[0], "modified", is_exact=False))

    def _pair_equal_lines(self, part: PatchPart, key: str) -> dict[int, int]:
        """Pair the added and removed lines of a block with this key. Return the removed line of each paired added line.

        Lines with the most similar neighbours are paired first. Among equally similar pairs, the two lines that are the
        closest in the block are first. More than MAX_CANDIDATES lines are paired in their order in the file.
        """
        if key not in self._removed_by_key:
            return {}
        if (part.new_start, key) not in self._equal_pairs:
            added = [number for number in self._added_by_key[key] if number in _span(part.added)]
            removed = [number for number in self._removed_by_key[key] if number in _span(part.removed)]
            pairs = list(zip(added, removed, strict=False))
            if pairs and max(len(added), len(removed)) <= MAX_CANDIDATES:
                rank = partial(self._rank_pair, shift=part.removed[0] - part.added[0])
                pairs = sorted(product(added, removed), key=rank)
            sources: dict[int, int] = {}
            paired_numbers: set[int] = set()
            for number, old_number in pairs:
                if number not in sources and old_number not in paired_numbers:
                    sources[number] = old_number
                    paired_numbers.add(old_number)
            self._equal_pairs[part.new_start, key] = sources
        return self._equal_pairs[part.new_start, key]

    def _rank_pair(self, pair: tuple[int, int], shift: int) -> tuple[float, int]:
        """Return a key that sorts the best pair first. `shift`: old number of the block's start minus the new one."""
        number, old_number = pair
        context_score = compute_context_score(self.lines, number, self.old_lines, old_number)
        return -context_score, abs(old_number - number - shift)

    def _get_step_of_equal_line(self, old_number: int, number: int) -> SourceStep:
        """Return the step from a removed line to an added line of its block that differs at most in white space."""
        if self.old_path != self.path:
            return "renamed"
        is_same = self.old_lines[old_number - 1].rstrip("\r") == self.lines[number - 1].rstrip("\r")
        return "moved" if is_same else "reformatted"

    def _create_source(self, number: int, step: SourceStep, *, is_exact: bool) -> LineSource:
        return LineSource(self.parent, self.old_path, number, step, is_exact)


def _find_converted(path: bytes, changes: Sequence[FileChange]) -> bytes | None:
    """Return a deleted file of the same name in another language, such as `Cache.java` for a new `Cache.kt`."""
    name, suffix = os.path.splitext(path.rpartition(b"/")[2])  # noqa: PTH122 - a path in git
    for change in changes:
        old_name, old_suffix = os.path.splitext(change.path.rpartition(b"/")[2])  # noqa: PTH122
        if change.kind == "deleted" and old_name == name and old_suffix and suffix and old_suffix != suffix:
            return change.path
    return None


def _join_parts(parts: Sequence[PatchPart], old_lines: Sequence[str]) -> list[PatchPart]:
    """Join parts with only blank lines between them. Code that is replaced as a whole often keeps blank lines."""
    groups: list[list[PatchPart]] = []
    for part in parts:
        if groups and _is_blank_between(groups[-1][-1], part, old_lines):
            groups[-1].append(part)
        else:
            groups.append([part])
    return [group[0] if len(group) == 1 else _join_group(group) for group in groups]


def _join_group(parts: Sequence[PatchPart]) -> PatchPart:
    """Return one part that covers several parts. The lines between them are neither added nor removed."""
    first = parts[0]
    added = tuple(chain.from_iterable(part.added for part in parts))
    removed = tuple(chain.from_iterable(part.removed for part in parts))
    return first._replace(
        old_start=removed[0] if removed else first.old_start,
        old_count=len(_span(removed)),
        new_start=added[0] if added else first.new_start,
        new_count=len(_span(added)),
        added=added,
        removed=removed,
    )


def _span(numbers: Sequence[int]) -> range:
    """Return the range from the first to the last of ascending numbers."""
    return range(numbers[0], numbers[-1] + 1) if numbers else range(0)


def _is_blank_between(previous: PatchPart, part: PatchPart, old_lines: Sequence[str]) -> bool:
    """Check whether two parts of a diff without context have only blank lines between them."""
    end = previous.removed[-1] if previous.removed else previous.old_start
    start = part.removed[0] if part.removed else part.old_start + 1
    return not any(line.strip() for line in old_lines[end : start - 1])
