"""Search for lines: in the diffs of the index, and in the files of a revision.

The diffs show which commit removed a line before it was restored, and possible earlier commits of a line (leads). The
search term of a line is a long literal or name.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import Final

from pipeline.git.changes import decode_path
from pipeline.git.git_cli import GitProgram
from pipeline.git.repository import Repository
from pipeline.interrupts import Deadline
from serve.explain.blame import BlamedLine
from serve.explain.changed_lines import (
    DOUBTFUL_MOVE_CONTEXT_SCORE,
    FILE_CONTEXT_SCORE,
    MAX_CANDIDATES,
    create_file_reader,
    find_blob,
)
from serve.explain.file_history import FileHistoryReader
from serve.explain.line_similarity import (
    build_key,
    build_keys,
    compute_context_score,
    extract_features,
    find_search_term,
    is_copy,
)
from serve.explain.line_sources import LineSource, SourceFinder
from stores import exact_search, history
from stores.database import DamagedIndex
from stores.errors import StorageError
from stores.exact_search import DiffLinePattern, LineChange
from stores.locks import IndexBusy

# Least length of a restored line, in all of its words: short lines recur by chance.
MIN_RESTORED_CHARACTERS: Final = 20
MIN_RESTORED_WORDS: Final = 3
# Commits that become leads, the oldest that add the search term. For 14 of 22 lines the oldest one was right, for 17
# one of the three oldest.
LEADS_PER_TERM: Final = 3
# A line with more equal lines in the parent is repeated code, such as the head of a method, and no copy.
MAX_EQUAL_LINES: Final = 1
# Exit code of `git grep` without a matching line. Higher ones are errors.
NO_MATCH: Final = 1
# Expressions of one search. Each adds 5 ms to the 100 ms of a search.
MAX_PATTERNS: Final = 24


@dataclass(frozen=True, slots=True)
class UnsourcedLine:
    """Line for which no source was found in the parents of its commit.

    `text`: the line in this commit. `queried_text`: the line of the request that came from it. `date`: committer time
    in seconds since the epoch.
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
        return _get_suffix(decode_path(self.path))

    @property
    def removal_pattern(self) -> DiffLinePattern | None:
        """Pattern of a diff that removes the line; None if the line is too short."""
        words = extract_features(self.text).words
        if len(words) < MIN_RESTORED_WORDS or sum(map(len, words)) < MIN_RESTORED_CHARACTERS:
            return None
        line = self.text.strip()
        return DiffLinePattern(line, rf"(?m)^-[ \t]*{re.escape(line)}[ \t\r]*$")

    @property
    def search_terms(self) -> list[str]:
        """Search terms of the line and of the queried line, without duplicates."""
        terms = map(find_search_term, (self.text, self.queried_text))
        return list(dict.fromkeys(filter(None, terms)))


@dataclass(frozen=True, slots=True)
class Lead:
    """Possible earlier commit of a line. `text`: the literal or name that both have, or the line that was replaced."""

    commit_sha: str
    file_path: str
    text: str


@dataclass(slots=True)
class LineSearcher:
    """Searcher of the diffs of an open index.

    `limitation`: sentence about what was not searched, or empty. `has_failed`: the index could not be searched.
    `_searched_dates`: date until which each pattern was searched. `_texts`: texts of the searched lines by commit.
    `_repeated_lines`: by commit, the keys of its searched texts that its first parent has more than once.
    """

    repository: Repository
    git: GitProgram
    reader: FileHistoryReader
    deadline: Deadline
    limitation: str = ""
    has_failed: bool = False
    _changes_by_pattern: dict[DiffLinePattern, list[LineChange]] = field(default_factory=dict)
    _searched_dates: dict[DiffLinePattern, int] = field(default_factory=dict)
    _texts: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _repeated_lines: dict[str, set[str]] = field(default_factory=dict)
    _read_file: Callable[[str, bytes], list[str]] = field(init=False)
    _read_keys: Callable[[str, bytes], frozenset[str]] = field(init=False)

    def __post_init__(self) -> None:
        """Create the caches of files, and of the keys of their lines."""
        self._read_file = create_file_reader(self.repository)
        self._read_keys = cache(lambda sha, path: frozenset(build_keys(self._read_file(sha, path))))

    def search(self, lines: Sequence[UnsourcedLine]) -> None:
        """Search the diffs for removals of the lines and additions of their search terms.

        `find_removed` and `find_leads` use the result.
        """
        dates: dict[DiffLinePattern, int] = {}
        for line in lines:
            for pattern in _list_patterns(line):
                dates[pattern] = max(line.date, dates.get(pattern, 0))
        patterns = [pattern for pattern in dates if dates[pattern] > self._searched_dates.get(pattern, -1)]
        expressions = list(dict.fromkeys(pattern.regex for pattern in patterns))
        if len(expressions) > MAX_PATTERNS:
            self.limitation = (
                "Only some of the lines were searched for restored lines and possible earlier commits."
            )
        patterns = [pattern for pattern in patterns if pattern.regex in expressions[:MAX_PATTERNS]]
        for line in lines:
            self._texts[line.commit_sha].add(line.text.strip())
        self._repeated_lines.clear()
        index = self.reader.index
        if index is None or not patterns:
            return
        try:
            with index.translate_errors():
                is_reachable = history.build_reachability_test(
                    index.connection, self.reader.status.reachability
                )
                last_date = max(dates[pattern] for pattern in patterns)
                changes = exact_search.find_line_changes(index.connection, patterns, is_reachable, last_date)
                self._changes_by_pattern.update(zip(patterns, changes, strict=True))
                self._searched_dates.update(dict.fromkeys(patterns, last_date))
        except (DamagedIndex, IndexBusy, StorageError) as error:
            self.has_failed = True
            self.limitation = " ".join(f"The index could not be searched. {error}".split())

    def find_removed(self, line: UnsourcedLine) -> LineSource | None:
        """Return the source of a restored line: the same line in the parent of the last commit that removed it.

        It must have been in a file of the same name, unless the commit of the line creates the file. Return None if the
        line was not removed before, or if the lines around it differ too much.
        """
        pattern = line.removal_pattern
        changes = self._changes_by_pattern.get(pattern, []) if pattern else []
        # Commits of one second are ordered by the graph alone.
        earlier = [
            change
            for change in reversed(changes)
            if change.date <= line.date and change.commit_sha != line.commit_sha
        ]
        if not earlier:
            return None
        key, parents = build_key(line.text), self.repository.read_commit(line.commit_sha).parents
        if any(key in self._read_keys(parent, line.path) for parent in parents):
            return None  # the file had the line elsewhere, so it was not restored
        is_new_file = not any(find_blob(self.repository, parent, line.path) for parent in parents)
        name = line.path.rpartition(b"/")[2]
        for change in earlier:
            old_path = os.fsencode(change.old_path or change.file_path)
            is_same_name = old_path.rpartition(b"/")[2] == name
            if (is_new_file or is_same_name) and self._is_ancestor(change.commit_sha, line.commit_sha):
                sources = SourceFinder(self.repository, change.commit_sha).find_removed(old_path, key)
                source = self._select_source(line, islice(sources, MAX_CANDIDATES), is_same_name)
                if source is None:
                    return None
                return source if is_same_name or not self._is_repeated(line, parents[0]) else None
        return None

    def _select_source(
        self, line: UnsourcedLine, sources: Iterable[LineSource], is_same_name: bool
    ) -> LineSource | None:
        """Return the removed line with the best context score; None if that is too low."""
        best_context_score, best_source = (
            FILE_CONTEXT_SCORE if is_same_name else DOUBTFUL_MOVE_CONTEXT_SCORE,
            None,
        )
        for source in sources:
            lines = self._read_file(line.commit_sha, line.path)
            old_lines = self._read_file(source.parent, source.path)
            context_score = compute_context_score(lines, line.number, old_lines, source.number)
            if context_score > best_context_score or (
                best_source is None and context_score == best_context_score
            ):
                best_context_score, best_source = context_score, source
        return best_source

    def _is_repeated(self, line: UnsourcedLine, parent: str) -> bool:
        """Check whether several lines of the parent are equal to a line, such as an import."""
        sha = line.commit_sha
        if sha not in self._repeated_lines:
            self._repeated_lines[sha] = find_repeated_lines(self.git, parent, self._texts[sha], self.deadline)
        return build_key(line.text) in self._repeated_lines[sha]

    def find_leads(self, line: UnsourcedLine) -> Iterator[Lead]:
        """Yield the oldest commits that added a search term of the line to a file with the same suffix."""
        for term in line.search_terms:
            changes = self._changes_by_pattern.get(_build_term_pattern(term, line.suffix), [])
            first_changes: dict[str, LineChange] = {}  # of each commit, oldest first
            for change in changes:
                if change.date < line.date and _get_suffix(change.file_path) == line.suffix:
                    first_changes.setdefault(change.commit_sha, change)
            for change in islice(first_changes.values(), LEADS_PER_TERM):
                yield Lead(change.commit_sha, change.file_path, term)

    def _is_ancestor(self, older: str, newer: str) -> bool:
        seconds = self.deadline.remaining_seconds
        return (
            self.git.run("merge-base", "--is-ancestor", older, newer, timeout_seconds=seconds).exit_code == 0
        )


def _list_patterns(line: UnsourcedLine) -> Iterator[DiffLinePattern]:
    if removal := line.removal_pattern:
        yield removal
    yield from (_build_term_pattern(term, line.suffix) for term in line.search_terms)


def _build_term_pattern(term: str, suffix: str) -> DiffLinePattern:
    """Return the pattern of a diff that adds a term to a file with this suffix. A name must be a whole word there."""
    boundary = r"\b" if re.fullmatch(r"\w+", term, re.ASCII) else ""
    return DiffLinePattern(term, rf"(?m)^\+.*{boundary}{re.escape(term)}{boundary}", suffix)


def _get_suffix(path: str) -> str:
    return os.path.splitext(path)[1]  # noqa: PTH122 - a path in git


def select_copies(
    repository: Repository,
    git: GitProgram,
    lines: Sequence[str],
    copies: Iterable[BlamedLine],
    deadline: Deadline,
) -> dict[int, LineSource]:
    """Return the sources of copied lines, by line number, without repeated lines and chance matches.

    `copies`: lines that git blame finds in the parent.
    """
    read_file = create_file_reader(repository)
    sources: dict[int, LineSource] = {}
    for line in copies:
        parent, path = line.origin.commit_sha, line.origin.path
        old_lines = read_file(parent, path)
        number = line.original_number
        if number <= len(old_lines) and is_copy(lines, line.number, old_lines, number):
            sources[line.number] = LineSource(parent, path, number, "moved", is_exact=False)
    parents = {source.parent for source in sources.values()}
    texts = {lines[number - 1].strip() for number in sources}
    repeated_lines = {key for parent in parents for key in find_repeated_lines(git, parent, texts, deadline)}
    return {
        number: source
        for number, source in sources.items()
        if build_key(lines[number - 1]) not in repeated_lines
    }


def find_repeated_lines(git: GitProgram, revision: str, texts: Set[str], deadline: Deadline) -> set[str]:
    """Return the keys of the texts that more than `MAX_EQUAL_LINES` lines of a revision have; of all if git fails.

    Raises GitTimeout at the deadline.
    """
    if not texts:
        return set()
    patterns = [argument for text in texts for argument in ("-e", text)]
    output = git.run(
        "grep", "-hIF", "--no-line-number", "--no-column", "--no-color", *patterns, revision,
        timeout_seconds=deadline.remaining_seconds,
    )  # fmt: skip
    if output.exit_code > NO_MATCH:
        return set(map(build_key, texts))
    counts = Counter(map(build_key, output.stdout.decode("utf-8", "replace").split("\n")))
    return {key for key in map(build_key, texts) if counts[key] > MAX_EQUAL_LINES}
