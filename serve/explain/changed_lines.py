"""Lines that a commit removes and adds, and the rules that decide whether a removed line was moved elsewhere.

The score of two lines is their similarity, or the score of one as a part of the other. Their context score is the
similarity of the lines around them. Both are from 0 to 1. A block is a part of a diff without context lines: removed
lines, and the added lines in their place. The key of a line is its text without white space.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import chain, islice
from typing import Final, TypeVar

from pipeline.file_classification import classify_role
from pipeline.git.changes import FileChange, decode_path, is_binary, is_regular
from pipeline.git.patches import PatchPart, create_part_without_context
from pipeline.git.repository import Repository
from pipeline.hunks import OVERSIZE_BYTES
from serve.explain.line_similarity import (
    MAX_CANDIDATES,
    RIVAL_ADVANTAGE,
    LineFeatures,
    WordIndex,
    build_keys,
    compute_context_score,
    extract_features,
    extract_literals,
    find_search_term,
    is_similarity_above,
)

Item = TypeVar("Item")

# Minimum score of a moved line and its source.
MIN_MOVE_SCORE: Final = 0.8
# Lower minimum score of a moved line and its source if their context score is at least MOVE_CONTEXT_SCORE.
MIN_MOVE_SCORE_IN_CONTEXT: Final = 0.6
MOVE_CONTEXT_SCORE: Final = 0.6
# Minimum context score of a move between files.
FILE_CONTEXT_SCORE: Final = 0.25
# Minimum context score of a doubtful move: into source code from a test, example or document; to a file with another
# suffix; of a line that the commit removes from several files; of a restored line whose file had another name.
DOUBTFUL_MOVE_CONTEXT_SCORE: Final = 0.5
# Minimum weight of a line that moves within a file with a context score below FILE_CONTEXT_SCORE: short lines recur by
# chance.
MIN_WEIGHT_WITHOUT_CONTEXT: Final = 2.0
# The score of a moved line must exceed that of an edited line by this much, because most lines stay where they were.
MOVE_ADVANTAGE: Final = 0.1
# Maximum number of lines of a block that are compared with a line even if they share no rare word with it: 400 take
# 0.4 s.
MAX_BLOCK_LINES: Final = 400
# Roles of files from which lines seldom move into source code: tests, examples and documentation.
NON_CODE_ROLES: Final = ("tests", "prose")
# Maximum number of a commit's files that are searched for moved lines.
MAX_MOVE_FILES: Final = 200
MAX_MOVE_LINES: Final = 50_000  # maximum number of changed lines in these files
# After this many searches for a key among all lines of a commit, the positions of all keys are collected. A search of
# 50,000 lines takes 1 ms, and collecting them 10 ms.
MAX_KEY_SCANS: Final = 8
# Minimum number of words of a restored line, because short lines recur by chance.
MIN_RESTORED_WORDS: Final = 3
MIN_RESTORED_CHARACTERS: Final = 20  # minimum number of characters of all these words together


@dataclass(frozen=True, slots=True)
class UnsourcedLine:
    """Line for which no source was found in the parents of its commit.

    `path`, `number`, `text`: the line in this commit. `queried_text`: text of a requested line that came from it.
    `date`: committer time in seconds since the epoch.
    """

    commit_sha: str
    path: bytes
    number: int
    date: int
    text: str
    queried_text: str

    @property
    def suffix(self) -> str:
        """Suffix of the file's name, with the dot."""
        return get_suffix(self.path)

    @property
    def name(self) -> str:
        """Name of the file without its directory."""
        return get_name(decode_path(self.path))

    @property
    def searched_text(self) -> str | None:
        """Text by which to search for a removal of the line, stripped; None if it is too short."""
        words = extract_features(self.text).words
        if len(words) < MIN_RESTORED_WORDS or sum(map(len, words)) < MIN_RESTORED_CHARACTERS:
            return None
        return self.text.strip()

    @property
    def search_terms(self) -> list[str]:
        """Search terms of `text` and of `queried_text`, without duplicates."""
        terms = map(find_search_term, (self.text, self.queried_text))
        return list(dict.fromkeys(filter(None, terms)))


@dataclass(slots=True, eq=False)  # not frozen, which would double the time to create one
class ChangedLine:
    """Line that a commit removes or adds.

    `path`: path of the file; for a removed line, its path in the parent. `lines`: all lines of this file. `number`:
    position of the line among them, from 1. `file_index`, `block_index`: positions of its file and block in the diff of
    the commit, from 0.
    """

    path: bytes
    lines: Sequence[str]
    number: int
    file_index: int
    block_index: int

    @property
    def text(self) -> str:
        """The line itself."""
        return self.lines[self.number - 1]

    @property
    def features(self) -> LineFeatures:
        """Features of the line."""
        return extract_features(self.text)


@dataclass(eq=False)
class DiffSide:
    """All lines that a commit removes, or all that it adds. A position is an index into these lines.

    `file_ranges`, `block_ranges`: positions of the lines of each file and of each block, by its index in the diff.
    `_starts`, `_first_lines`: first position and first line of each block. `_lines`: lines by position, once created.
    `_positions`: for each requested key, the positions of its lines; after MAX_KEY_SCANS searches, for all keys.
    """

    texts: list[str] = field(default_factory=list)
    file_ranges: dict[int, range] = field(default_factory=dict)
    block_ranges: dict[int, range] = field(default_factory=dict)
    _starts: list[int] = field(default_factory=list)
    _first_lines: list[ChangedLine] = field(default_factory=list)
    _lines: dict[int, ChangedLine] = field(default_factory=dict)
    _positions: dict[str, list[int]] = field(default_factory=dict)

    def add_block(self, first_line: ChangedLine, count: int) -> None:
        """Add the `count` lines of a block. All blocks of a file must be added before those of the next file."""
        if count:
            start, number = len(self.texts), first_line.number
            self.texts += first_line.lines[number - 1 : number - 1 + count]
            self._starts.append(start)
            self._first_lines.append(first_line)
            self.block_ranges[first_line.block_index] = range(start, len(self.texts))
            file_start = self.file_ranges.get(first_line.file_index, range(start, start)).start
            self.file_ranges[first_line.file_index] = range(file_start, len(self.texts))

    def __getitem__(self, position: int) -> ChangedLine:
        """Return the line at a position, always the same object. Creating all objects in advance would take long."""
        if position not in self._lines:
            index = bisect_right(self._starts, position) - 1
            first = self._first_lines[index]
            number = first.number + position - self._starts[index]
            self._lines[position] = ChangedLine(
                first.path, first.lines, number, first.file_index, first.block_index
            )
        return self._lines[position]

    @cached_property
    def keys(self) -> list[str]:
        """Key of each line."""
        return build_keys(self.texts)

    @cached_property
    def distinct_keys(self) -> frozenset[str]:
        """The different keys."""
        return frozenset(self.keys)

    def find_equal(self, key: str) -> Sequence[int]:
        """Return the positions of the lines with this key."""
        if key not in self.distinct_keys:
            return ()
        if key not in self._positions and len(self._positions) < MAX_KEY_SCANS:
            self._positions[key] = [position for position, other in enumerate(self.keys) if other == key]
        elif key not in self._positions:
            self._positions.clear()
            for position, other in enumerate(self.keys):
                self._positions.setdefault(other, []).append(position)
        return self._positions[key]

    def has_literal_once(self, literal: str) -> bool:
        """Check whether exactly one line has a literal."""
        lines = (text for text in self.texts if literal in text and literal in extract_literals(text))
        return len(list(islice(lines, 2))) == 1


@dataclass(frozen=True, eq=False)
class ChangedLines:
    """Lines that a commit removes and adds, compared with one parent.

    `is_complete`: False if files were left out because of a limit.
    """

    removed: DiffSide
    added: DiffSide
    is_complete: bool = True
    _best_context_scores: dict[ChangedLine, float] = field(default_factory=dict)
    _added_by_word: dict[int, WordIndex] = field(default_factory=dict)  # by `file_index`
    _successors: dict[ChangedLine, list[ChangedLine]] = field(default_factory=dict)
    _unique_literals: dict[str, bool] = field(default_factory=dict)

    @cached_property
    def _removed_by_word(self) -> WordIndex:
        """Removed lines whose text the commit does not add again. A line that is added again was moved, not edited."""
        keys, added_keys = self.removed.keys, self.added.distinct_keys
        positions = range(len(keys))
        return WordIndex(self.removed.texts, positions, lambda position: keys[position] in added_keys)

    def find_candidates(self, features: LineFeatures) -> list[ChangedLine]:
        """Return the removed lines equal to a line, then those that share a rare word with it."""
        equal = self.removed.find_equal(features.key)[:MAX_CANDIDATES]
        positions = [*equal, *self._removed_by_word.find_by_rare_words(features)]
        return [self.removed[position] for position in dict.fromkeys(positions)]

    def is_source(
        self,
        removed: ChangedLine,
        features: LineFeatures,
        path: bytes,
        old_path: bytes,
        score: float,
        context_score: float,
    ) -> bool:
        """Check whether a removed line was moved and became a line outside its block, here called the moved line.

        `features`: features of the moved line. `path`, `old_path`: path of the moved line's file in the commit and in
        the parent. `score`, `context_score`: scores of the removed and the moved line.
        """
        if self._shares_unique_literal(features, removed):
            return True
        if removed.path not in (path, old_path):
            return self._is_move_between_files(removed, path, score, context_score)
        if score < MIN_MOVE_SCORE and context_score < MOVE_CONTEXT_SCORE:
            return False
        return context_score >= FILE_CONTEXT_SCORE or features.weight >= MIN_WEIGHT_WITHOUT_CONTEXT

    def _is_move_between_files(
        self, removed: ChangedLine, path: bytes, score: float, context_score: float
    ) -> bool:
        """Check whether a removed line became a line of another file. The arguments are those of `is_source`."""
        has_same_suffix = get_suffix(path) == get_suffix(removed.path)
        if score < MIN_MOVE_SCORE and (context_score < MOVE_CONTEXT_SCORE or not has_same_suffix):
            return False
        is_into_code = _is_code(path) and not _is_code(removed.path)
        equal = self.removed.find_equal(removed.features.key)
        is_repeated = any(position not in self.removed.file_ranges[removed.file_index] for position in equal)
        is_doubtful = is_into_code or is_repeated or not has_same_suffix
        return context_score >= (DOUBTFUL_MOVE_CONTEXT_SCORE if is_doubtful else FILE_CONTEXT_SCORE)

    def compute_best_context_score(self, removed: ChangedLine) -> float:
        """Return the best context score of a removed line and the added lines of equal text.

        Return 0 unless the commit adds more lines of this text than it removes. Only the added line with the best score
        continues the removed line.
        """
        if removed not in self._best_context_scores:
            added, all_removed = (
                side.find_equal(removed.features.key) for side in (self.added, self.removed)
            )
            candidates = added[:MAX_CANDIDATES] if len(added) > len(all_removed) else ()
            self._best_context_scores[removed] = max(
                (
                    compute_context_score(line.lines, line.number, removed.lines, removed.number)
                    for line in map(self.added.__getitem__, candidates)
                ),
                default=0.0,
            )
        return self._best_context_scores[removed]

    def has_better_successor(self, removed: ChangedLine, path: bytes, number: int, similarity: float) -> bool:
        """Check whether the file of a removed line has an added line that continues it better than a given line.

        `path`, `number`: the given line. `similarity`: similarity of the removed and the given line, or a lower value.
        Most lines stay where they were, so an added line of the removed line's block is better even if it is less
        similar by up to MOVE_ADVANTAGE. Any other line is better only if it is more similar by RIVAL_ADVANTAGE.
        """
        if similarity == 1:
            return False
        return any(
            is_similarity_above(
                line.features,
                removed.features,
                similarity
                + (-MOVE_ADVANTAGE if line.block_index == removed.block_index else RIVAL_ADVANTAGE),
            )
            for line in self._find_successors(removed)
            if (line.path, line.number) != (path, number)
        )

    def _find_successors(self, removed: ChangedLine) -> list[ChangedLine]:
        """Return the added lines of a removed line's block, and those of its file that share a rare word with it."""
        file_range = self.added.file_ranges.get(removed.file_index, range(0))
        if removed.file_index not in self._added_by_word:
            texts = self.added.texts[file_range.start : file_range.stop]
            self._added_by_word[removed.file_index] = WordIndex(texts, file_range)
        if removed not in self._successors:
            by_word = self._added_by_word[removed.file_index].find_by_rare_words(removed.features)
            block_range = self.added.block_ranges.get(removed.block_index, range(0))[:MAX_BLOCK_LINES]
            positions = dict.fromkeys(chain(by_word, block_range))
            self._successors[removed] = [self.added[position] for position in positions]
        return self._successors[removed]

    def _shares_unique_literal(self, features: LineFeatures, removed: ChangedLine) -> bool:
        """Check whether a line has a literal that only this removed line and one added line of the commit have."""
        return any(
            literal in features.words and self._is_unique(literal)
            for literal in extract_literals(removed.text)
        )

    def _is_unique(self, literal: str) -> bool:
        """Check whether exactly one removed and one added line have a literal."""
        if literal not in self._unique_literals:
            sides = self.removed, self.added
            self._unique_literals[literal] = all(side.has_literal_once(literal) for side in sides)
        return self._unique_literals[literal]


def load_changed_lines(repository: Repository, changes: Sequence[FileChange]) -> ChangedLines:
    """Return the lines that changes of files remove and add, except those of files beyond the limits."""
    remaining_lines = MAX_MOVE_LINES
    is_complete = len(changes) <= MAX_MOVE_FILES
    removed, added = DiffSide(), DiffSide()
    block_index = 0
    for file_index, change in enumerate(changes[:MAX_MOVE_FILES]):
        if change.has_same_content or change.kind == "type_changed":
            continue
        versions = load_versions(repository, change)
        line_count = sum(part.old_count + part.new_count for part in versions.parts)
        if line_count > remaining_lines:
            is_complete = False
            continue
        remaining_lines -= line_count
        old_path = change.old_path or change.path
        for part in versions.parts:
            old_start, start = part.old_start, part.new_start
            removed.add_block(
                ChangedLine(old_path, versions.old_lines, old_start, file_index, block_index), part.old_count
            )
            added.add_block(
                ChangedLine(change.path, versions.lines, start, file_index, block_index), part.new_count
            )
            block_index += 1
    return ChangedLines(removed, added, is_complete)


@dataclass(frozen=True, slots=True)
class FileVersions:
    """Lines of both versions of a changed file.

    `parts`: the blocks; a single one with all lines if a version has no lines or cannot be compared line by line.
    """

    old_lines: Sequence[str]
    lines: Sequence[str]
    parts: Sequence[PatchPart]


def load_versions(repository: Repository, change: FileChange) -> FileVersions:
    """Read and compare both versions of a changed file."""
    old_blob, blob = change.old_blob, change.new_blob
    old_lines, lines = (read_lines(repository, sha) for sha in (old_blob, blob))
    parts: Sequence[PatchPart] = (create_whole_part(len(old_lines), len(lines)),)
    if old_lines and lines and old_blob and blob:
        parts = repository.diff_blobs(old_blob, blob)
    return FileVersions(old_lines, lines, parts)


def create_whole_part(old_count: int, count: int) -> PatchPart:
    """Return the part of a diff that replaces a whole file."""
    return create_part_without_context(1, old_count, 1, count)


def find_blob(repository: Repository, sha: str, path: bytes) -> str | None:
    """Return the sha of the blob of a commit's file; None if the commit has no regular file at `path`."""
    entry = repository.find_entry(sha, path)
    return entry.sha if entry and entry.name == path and is_regular(entry.mode) else None


def create_file_reader(repository: Repository) -> Callable[[str, bytes], list[str]]:
    """Return a function that reads the lines of a file at a commit, and caches them."""
    return cache(lambda sha, path: read_lines(repository, find_blob(repository, sha, path)))


def read_lines(repository: Repository, blob: str | None) -> list[str]:
    """Return the lines of a blob; an empty list if it is None, missing, binary or too large to compare."""
    lines = read_text(repository, blob).split("\n")
    return lines if lines[-1] else lines[:-1]


def read_text(repository: Repository, blob: str | None) -> str:
    """Return the text of a blob; an empty text if it is None, missing, binary or too large to compare."""
    if blob is None or not repository.contains(blob) or repository.read_blob_size(blob) > OVERSIZE_BYTES:
        return ""
    content = repository.read_blob(blob)
    return "" if is_binary(content) else content.decode("utf-8", "replace")


def _is_code(path: bytes) -> bool:
    return classify_role(decode_path(path)) not in NON_CODE_ROLES


def get_name(path: str) -> str:
    """Return the last part of a path in git."""
    return path.rpartition("/")[2]


def get_suffix(path: bytes) -> str:
    """Return the suffix of a file's name, with the dot."""
    return decode_path(os.path.splitext(path)[1])  # noqa: PTH122 - a path in git


def group_by_key(texts: Sequence[str], items: Iterable[Item]) -> dict[str, list[Item]]:
    """Group items by the keys of their texts."""
    by_key: dict[str, list[Item]] = defaultdict(list)
    for key, item in zip(build_keys(texts), items, strict=True):
        by_key[key].append(item)
    return by_key
