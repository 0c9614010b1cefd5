"""Search for lines: in the changes of the index, and in the files of a revision.

In the index, `LineSearcher` looks for commits that removed a line before a later commit restored it, and for leads:
commits that may have written an earlier form of a line. A change is what one commit did to one file. The index finds
changes by their words (its full-text terms), and files are read from git to check them. A lead is found by a search
term: the longest literal of a line, or else its longest name.
"""

from __future__ import annotations

import logging
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache, partial
from heapq import nlargest
from itertools import chain, islice
from typing import Final, TypeVar

from pipeline.git.changes import decode_path
from pipeline.git.git_cli import GitProgram
from pipeline.git.repository import Repository, UnreadableObject
from pipeline.interrupts import Deadline
from pipeline.text import count_terms
from serve.explain.blame import BlamedLine
from serve.explain.changed_lines import (
    DOUBTFUL_MOVE_CONTEXT_SCORE,
    FILE_CONTEXT_SCORE,
    UnsourcedLine,
    create_file_reader,
    find_blob,
    get_name,
    get_suffix,
    read_text,
)
from serve.explain.line_similarity import (
    MAX_CANDIDATES,
    build_key,
    build_keys,
    compute_context_score,
    is_copy,
)
from serve.explain.line_sources import LineSource, SourceFinder
from stores import exact_search, history
from stores.database import DamagedIndex
from stores.errors import StorageError
from stores.exact_search import LineChange
from stores.history import ReachabilityDelta
from stores.index_copy import OpenIndex
from stores.locks import IndexBusy

# Maximum number of leads of a search term: the oldest commits that add it. In a sample of 22 lines, the oldest was the
# commit sought for 14 lines, and one of the three oldest for 17.
LEADS_PER_TERM: Final = 3
# A line is repeated code, such as the head of a method, if it equals more than this many lines of the parent commit.
# Repeated code never counts as a copy, and counts as restored only from a file of the same name.
MAX_EQUAL_LINES: Final = 1
# Exit code of `git grep` without a matching line. Higher exit codes are errors.
NO_MATCH: Final = 1
# Maximum number of lines, and of search terms, that are looked up in the index at once. Each takes 5 ms.
MAX_SEARCHES: Final = 24
# A line or search term is looked up in the index by at most this many of its words.
MAX_WORDS: Final = 4
# Maximum number of changes that are read from the index for a line or search term. Reading 300 takes 3 ms.
MAX_FOUND_CHANGES: Final = 300
# Maximum number of these changes whose files are read from git. Reading a file takes 0.3 ms.
MAX_READ_CHANGES: Final = 100
# Maximum number of file contents in memory. The content after one change of a file is used again for its next change.
MAX_CACHED_BLOBS: Final = 32

_Search = TypeVar("_Search")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Lead:
    """Lead of a line. `text`: the search term that the commit added, or its line that was replaced later."""

    commit_sha: str
    file_path: str
    text: str


@dataclass
class LineSearcher:
    """Searcher of an open index.

    `limitations`: sentences about what was not searched. `has_failed`: the index could not be searched.
    `_removals`: for each searched line, the changes that may have removed it earlier, newest first. `_first_additions`:
    for each search term and file suffix, the first changes that add the term to a file with this suffix.
    `_changes_by_words`: for each set of words, the changes whose text has all of them, oldest first.
    `_texts_by_commit`: searched lines of each commit. `_repeated_keys`: keys (`build_key`) of those that are repeated.
    """

    repository: Repository
    git: GitProgram
    index: OpenIndex
    reachability: ReachabilityDelta
    deadline: Deadline
    limitations: list[str]
    has_failed: bool = False
    _removals: dict[UnsourcedLine, Sequence[LineChange]] = field(default_factory=dict)
    _first_additions: dict[tuple[str, str], Sequence[LineChange]] = field(default_factory=dict)
    _changes_by_words: dict[frozenset[str], Sequence[LineChange]] = field(default_factory=dict)
    _texts_by_commit: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _repeated_keys: dict[str, set[str]] = field(default_factory=dict)
    _read_blob: Callable[[str | None], str] = field(init=False)
    _read_file: Callable[[str, bytes], list[str]] = field(init=False)
    _read_keys: Callable[[str, bytes], frozenset[str]] = field(init=False)

    def __post_init__(self) -> None:
        """Create the caches of files, and of the keys of their lines."""
        self._read_blob = lru_cache(MAX_CACHED_BLOBS)(partial(read_text, self.repository))
        self._read_file = create_file_reader(self.repository)
        self._read_keys = cache(lambda sha, path: frozenset(build_keys(self._read_file(sha, path))))

    def load_changes(self, lines: Sequence[UnsourcedLine]) -> None:
        """Look up the words of lines and of their search terms, and cache the changes for a later search.

        When MAX_SEARCHES sets of words are cached, no more are looked up. Errors of the index are ignored, because the
        later search reports them.
        """
        removal_words = (_select_words(text) for line in lines if (text := line.searched_text))
        lead_words = (_select_lead_words(term, line.suffix) for line in lines for term in line.search_terms)
        max_count = max(0, MAX_SEARCHES - len(self._changes_by_words))
        with suppress(DamagedIndex, IndexBusy, StorageError), self.index.translate_errors():
            self._find_changes(list(islice(chain(removal_words, lead_words), max_count)))

    def _find_changes(self, word_sets: Sequence[frozenset[str]]) -> list[Sequence[LineChange]]:
        """Return for each set of words the changes whose text has all of them, oldest first."""
        missing = [words for words in dict.fromkeys(word_sets) if words not in self._changes_by_words]
        changes = exact_search.find_changes_with_terms(
            self.index.connection, missing, self._is_reachable, MAX_FOUND_CHANGES
        )
        self._changes_by_words.update(zip(missing, changes, strict=True))
        return [self._changes_by_words[words] for words in word_sets]

    def search_removals(self, lines: Sequence[UnsourcedLine]) -> None:
        """Search the index for changes that may have removed the lines. `find_removed` uses the result.

        Raises DeadlineExceeded if the time runs out.
        """
        for line in lines:
            self._texts_by_commit[line.commit_sha].add(line.text.strip())
        self._repeated_keys.clear()  # they depend on `_texts_by_commit`
        self.load_changes(lines)  # also for `search_leads`, so that the index is searched once
        texts = self._limit([line.searched_text for line in lines])
        with self._note_errors():
            change_lists = self._find_changes([_select_words(text) for text in texts])
            changes_by_text = dict(zip(texts, change_lists, strict=True))
            paths_by_line: dict[UnsourcedLine, Set[str]] = {}
            for line in lines:
                if line.searched_text in changes_by_text:
                    with self._skip_unreadable():
                        paths_by_line[line] = self._find_old_paths(line, changes_by_text[line.searched_text])
            self._removals.update(self._load_removals(paths_by_line))

    def _find_old_paths(self, line: UnsourcedLine, changes: Iterable[LineChange]) -> Set[str]:
        """Return the paths of files that may have had a line earlier; none if a parent still has the line in its file.

        If a parent has the file, only files of the same name count. If more than MAX_READ_CHANGES changes were to be
        read, or the index of a shallow clone lacks changes, all files of the same name count.

        `changes`: changes whose text has the words of the line.
        """
        parents = self.repository.read_commit(line.commit_sha).parents
        if any(build_key(line.text) in self._read_keys(parent, line.path) for parent in parents):
            return frozenset()  # the commit moved or repeated the line, but did not restore it
        earlier = [
            change for change in changes if change.date <= line.date and change.commit_sha != line.commit_sha
        ]
        if self.repository.is_shallow or len(earlier) > MAX_READ_CHANGES:
            return exact_search.find_paths(self.index.connection, line.name)
        paths: set[str] = set()
        for change in earlier:
            self.deadline.check()
            with self._skip_unreadable():
                if self._count_line(line, change.commit_sha, change.path):
                    paths.add(decode_path(change.path))
        self._add_renamed_paths(paths)
        if any(find_blob(self.repository, parent, line.path) for parent in parents):
            return {path for path in paths if get_name(path) == line.name}
        return paths

    def _add_renamed_paths(self, paths: set[str]) -> None:
        """Add the paths to which these paths were ever renamed, directly or in several steps."""
        unfollowed = list(paths)
        while unfollowed:
            new_paths = self._renames.get(unfollowed.pop(), frozenset()) - paths
            paths |= new_paths
            unfollowed += new_paths

    def _load_removals(
        self, paths_by_line: Mapping[UnsourcedLine, Set[str]]
    ) -> Iterator[tuple[UnsourcedLine, Sequence[LineChange]]]:
        """Yield each line with the changes that remove lines of a file at one of the line's paths, newest first."""
        if not any(paths_by_line.values()):
            return
        paths, last_date = set().union(*paths_by_line.values()), max(line.date for line in paths_by_line)
        removals = [
            (decode_path(change.old_path or change.path), change)
            for change in exact_search.find_removals(
                self.index.connection, paths, self._is_reachable, last_date
            )
        ]
        for line, line_paths in paths_by_line.items():
            yield line, [change for path, change in removals if path in line_paths]

    def search_leads(self, lines: Sequence[UnsourcedLine]) -> None:
        """Search the index for the first additions of the lines' search terms. `find_leads` uses the result.

        Raises DeadlineExceeded if the time runs out.
        """
        last_dates: dict[tuple[str, str], int] = {}
        for line in lines:
            for term in line.search_terms:
                key = term, line.suffix
                last_dates[key] = max(line.date, last_dates.get(key, line.date))
        keys = self._limit(last_dates)
        with self._note_errors():
            change_lists = self._find_changes([_select_lead_words(term, suffix) for term, suffix in keys])
            for (term, suffix), changes in zip(keys, change_lists, strict=True):
                earlier = (
                    change
                    for change in changes
                    if change.date < last_dates[term, suffix] and get_suffix(change.path) == suffix
                )
                self._first_additions[term, suffix] = self._select_first_additions(earlier, term)

    def _select_first_additions(self, changes: Iterable[LineChange], term: str) -> list[LineChange]:
        """Return one change for each of the LEADS_PER_TERM oldest commits that add a term to a file.

        A change adds the term if the file has it more often afterwards. `changes`: oldest first.
        """
        additions: dict[str, LineChange] = {}
        for change in islice(changes, MAX_READ_CHANGES):
            self.deadline.check()
            with self._skip_unreadable():
                if change.commit_sha not in additions and self._adds_term(change, term):
                    additions[change.commit_sha] = change
            if len(additions) == LEADS_PER_TERM:
                break
        return list(additions.values())

    def _adds_term(self, change: LineChange, term: str) -> bool:
        count = self._count_term(term, change.commit_sha, change.path)
        parents = self.repository.read_commit(change.commit_sha).parents[:1] if count else ()
        old_path = change.old_path or change.path
        return count > sum(self._count_term(term, parent, old_path) for parent in parents)

    def _count_term(self, term: str, sha: str, path: bytes) -> int:
        """Return how often a file of a commit has a term. Parts of longer words do not count."""
        text = self._read_text(sha, path)
        if term not in text:  # many times as fast as a regular expression
            return 0
        escaped_term = re.escape(term)
        # The pattern starts with the term itself, because `re` searches fastest for patterns that start with a text.
        no_word_before = rf"(?<!\w{escaped_term})" if re.match(r"\w", term) else ""
        no_word_after = r"(?!\w)" if re.search(r"\w$", term) else ""
        return len(re.findall(escaped_term + no_word_before + no_word_after, text))

    def _read_text(self, sha: str, path: bytes) -> str:
        return self._read_blob(find_blob(self.repository, sha, path))

    def _limit(self, searches: Iterable[_Search | None]) -> list[_Search]:
        """Return the first MAX_SEARCHES different searches that are not None. If there are more, add a limitation."""
        unique = list(dict.fromkeys(search for search in searches if search is not None))
        if len(unique) > MAX_SEARCHES:
            self.limitations.append(
                "Some lines were not checked for earlier removals or possible earlier commits."
            )
        return unique[:MAX_SEARCHES]

    @cached_property
    def _is_reachable(self) -> Callable[[str], bool]:
        return history.build_reachability_test(self.index.connection, self.reachability)

    @cached_property
    def _renames(self) -> Mapping[str, Set[str]]:
        return exact_search.load_renames(self.index.connection)

    @contextmanager
    def _note_errors(self) -> Iterator[None]:
        """Turn an error of the index into a limitation."""
        try:
            with self.index.translate_errors():
                yield
        except (DamagedIndex, IndexBusy, StorageError) as error:
            self.has_failed = True
            self.limitations.append(" ".join(f"The index could not be searched. {error}".split()))

    @contextmanager
    def _skip_unreadable(self) -> Iterator[None]:
        """If an object cannot be read, add a limitation and leave the context, so that the search goes on."""
        try:
            yield
        except UnreadableObject as error:
            add_unreadable_limitation(error, self.limitations)

    def find_removed(self, line: UnsourcedLine) -> LineSource | None:
        """Return the source of a restored line: the same line in the parent of the last commit that removed it.

        If the removed line is from a file of another name, the commit of the restored line must create its file, and
        the restored line must not be repeated code. Return None if no removed line counts, or if the lines around the
        removed and the restored line differ too much.
        """
        line_parents = self.repository.read_commit(line.commit_sha).parents
        for change in self._removals.get(line, ()):
            self.deadline.check()
            with self._skip_unreadable():
                if not self._has_removed(change, line, line_parents):
                    continue
                if not self._is_ancestor(change.commit_sha, line.commit_sha):
                    continue
                old_path = change.old_path or change.path
                is_same_name = get_name(decode_path(old_path)) == line.name
                finder = SourceFinder(self.repository, change.commit_sha)
                sources = islice(finder.find_removed(old_path, build_key(line.text)), MAX_CANDIDATES)
                source = self._select_source(line, sources, is_same_name)
                if source and not is_same_name and self._is_repeated(line, line_parents[0]):
                    return None
                return source
        return None

    def _has_removed(self, change: LineChange, line: UnsourcedLine, line_parents: Sequence[str]) -> bool:
        """Check whether an earlier change removed a line from a file, which has the line in none of `line_parents`.

        `line_parents`: parents of the line's commit.
        """
        # An equal date is not excluded, because an ancestor can have it. `find_removed` checks for an ancestor.
        if change.date > line.date or change.commit_sha == line.commit_sha:
            return False
        path = change.old_path or change.path
        if any(self._count_line(line, parent, path) for parent in line_parents):
            return False
        count = self._count_line(line, change.commit_sha, change.path)
        change_parents = self.repository.read_commit(change.commit_sha).parents
        return any(self._count_line(line, parent, path) > count for parent in change_parents)

    def _count_line(self, line: UnsourcedLine, sha: str, path: bytes) -> int:
        """Return how many lines of a commit's file equal a line, apart from white space around them."""
        text, line_text = self._read_text(sha, path), line.text.strip()
        if line_text not in text:  # many times as fast as splitting the lines
            return 0
        return sum(file_line.strip() == line_text for file_line in text.split("\n"))

    def _select_source(
        self, line: UnsourcedLine, sources: Iterable[LineSource], is_same_name: bool
    ) -> LineSource | None:
        """Return the source with the best context score; None if the best score is too low."""
        lines = self._read_file(line.commit_sha, line.path)
        best_context_score = 0.0
        best_source: LineSource | None = None
        for source in sources:
            old_lines = self._read_file(source.parent, source.path)
            context_score = compute_context_score(lines, line.number, old_lines, source.number)
            if context_score > best_context_score:
                best_context_score, best_source = context_score, source
        # A restored line from a file of another name needs the score of a doubtful move.
        min_context_score = FILE_CONTEXT_SCORE if is_same_name else DOUBTFUL_MOVE_CONTEXT_SCORE
        return best_source if best_context_score >= min_context_score else None

    def _is_repeated(self, line: UnsourcedLine, parent: str) -> bool:
        """Check whether a line, such as an import, is equal to several lines of the parent commit."""
        sha = line.commit_sha
        if sha not in self._repeated_keys:
            texts = self._texts_by_commit[sha]
            self._repeated_keys[sha] = find_repeated_lines(self.git, parent, texts, self.deadline)
        return build_key(line.text) in self._repeated_keys[sha]

    def find_leads(self, line: UnsourcedLine) -> Iterator[Lead]:
        """Yield the oldest commits that added a search term of the line to a file with the same suffix."""
        for term in line.search_terms:
            for change in self._first_additions.get((term, line.suffix), ()):
                if change.date < line.date:
                    yield Lead(change.commit_sha, decode_path(change.path), term)

    def _is_ancestor(self, older: str, newer: str) -> bool:
        seconds = self.deadline.remaining_seconds
        return (
            self.git.run("merge-base", "--is-ancestor", older, newer, timeout_seconds=seconds).exit_code == 0
        )


def _select_words(text: str) -> frozenset[str]:
    """Return the MAX_WORDS longest words of a text. Long words are rare, so few changes have all of them."""
    return frozenset(nlargest(MAX_WORDS, sorted(count_terms(text)), key=len))


def _select_lead_words(term: str, suffix: str) -> frozenset[str]:
    """Return words of a search term and of a file suffix. The suffix counts, because a change has its path as words."""
    return _select_words(term).union(count_terms(suffix))


def select_copies(
    repository: Repository,
    git: GitProgram,
    lines: Sequence[str],
    copies: Iterable[BlamedLine],
    deadline: Deadline,
) -> dict[int, LineSource]:
    """Return the sources of copied lines, by line number.

    Repeated code is left out, and so are lines whose neighbors differ from those of the source. `lines`: all lines of
    the file. `copies`: lines of the file that git blame finds in the parent. A copy counts as `moved`.
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
    repeated_keys = {key for parent in parents for key in find_repeated_lines(git, parent, texts, deadline)}
    return {
        number: source
        for number, source in sources.items()
        if build_key(lines[number - 1]) not in repeated_keys
    }


def find_repeated_lines(git: GitProgram, revision: str, texts: Set[str], deadline: Deadline) -> set[str]:
    """Return the keys of the texts that equal more than MAX_EQUAL_LINES lines of a revision.

    If git fails, return the keys of all texts. Raises GitTimeout at the deadline.
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


def add_unreadable_limitation(error: UnreadableObject, limitations: list[str]) -> None:
    """Log that objects of a commit cannot be read, and add a limitation."""
    logger.warning("Some earlier commits could not be read: %s", error)
    limitations.append("Some earlier commits could not be read.")
