"""Evolution of lines: the earlier commits that shaped them, back to the one that introduced them.

Each line is followed from the commit that blame returned for it (its hit): `line_sources` finds the line of the parent
commit that it came from, `git blame` the commit that wrote that line, and so on.
"""

from __future__ import annotations

import heapq
import logging
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from pipeline.cancellation import check_cancelled
from pipeline.git.changes import decode_path
from pipeline.git.commit_graph import sort_newest_first
from pipeline.git.git_cli import GitProgram, GitTimeout
from pipeline.git.repository import Repository, UnreadableObject
from serve.api_types import format_rfc3339
from serve.explain.blame import (
    BlamedLine,
    BlameFailed,
    BlameIgnoreRevs,
    BlameResult,
    blame_revision,
)
from serve.explain.file_history import FileHistoryReader, describe_missing_index
from serve.explain.line_search import Lead, LineSearcher, UnsourcedLine
from serve.explain.line_similarity import build_key, extract_features
from serve.explain.line_sources import (
    MIN_COPY_WEIGHT,
    MIN_WEIGHT,
    LineSource,
    SourceFinder,
    find_blob,
    is_copy,
    read_lines,
)
from serve.explain_types import EvolutionLead, EvolutionStep, StepName
from serve.index_status import truncate_line

# A function or a class. The evolution of more lines is the history of the file.
MAX_LINES: Final = 120
# Limits of the work: commits that are compared with their parents, and time.
MAX_COMMITS: Final = 60
MAX_SECONDS: Final = 1.5
# Steps to return: more do not fit on a screen. Those that introduced lines come first.
MAX_STEPS: Final = 20
# Guesses that an answer lists.
MAX_LEADS: Final = 6
MAX_MESSAGE_CHARACTERS: Final = 400
# git blame options that also find lines copied from any file of the parent. Lines of fewer than 15 letters and digits
# are idioms. A search takes 30 to 60 ms for a version of a file.
COPY_OPTIONS: Final = ("-C15", "-C15", "-C15")
MAX_COPY_SEARCHES: Final = 8
# Comments that are copied are mostly licenses.
COMMENT: Final = re.compile(r"\s*(?:\*|//|#|/\*|<!--)")
# Most lines of the parent that equal a copied line. A more frequent line is an idiom, such as the head of a method.
MAX_EQUAL_LINES: Final = 1
# A restored line may have been restored before, so the index is searched again. A search takes 0.1 s.
MAX_INDEX_SEARCHES: Final = 2


@dataclass(slots=True)
class _QueriedLines:
    """Queried lines that come from one line of an older version.

    `inexact`: those with an inferred source on the way. `anchored`: those for which that version is still
    the hit itself.
    """

    lines: set[int] = field(default_factory=set)
    inexact: set[int] = field(default_factory=set)
    anchored: set[int] = field(default_factory=set)

    def add(self, other: _QueriedLines) -> None:
        """Add the queried lines of another line of the same version."""
        self.lines |= other.lines
        self.inexact |= other.inexact
        self.anchored |= other.anchored


@dataclass(frozen=True, slots=True)
class _Version:
    """File of a commit, with the committer date in seconds."""

    date: int
    commit_sha: str
    path: bytes


@dataclass(slots=True)
class _Step:
    text: str  # as the commit wrote the line; of several, the one of the first queried line
    queried: _QueriedLines = field(default_factory=_QueriedLines)


@dataclass(slots=True)
class _LineWithoutSource:
    """Line without a source in its commit. `is_searched`: the index was searched for a commit that removed it."""

    line: UnsourcedLine
    version: _Version
    queried: _QueriedLines
    is_searched: bool = False


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Evolution:
    """Commits that shaped lines, guesses about still earlier ones, and a sentence about what may be missing."""

    steps: tuple[EvolutionStep, ...] = ()
    leads: tuple[EvolutionLead, ...] = ()
    limitation: str | None = None


NO_EVOLUTION: Final = Evolution()


@dataclass(slots=True)
class LineTracer:
    """Tracer of lines through the history. It processes the newest version first, so that lines share the work.

    `searcher`: search of the index; None without one. `queried_texts`: text of each queried line, by number.
    `deadline`: as in `time.monotonic`. `limitations`: sentences about what may be missing. `_pending`: lines to process
    of each version, by number. `_queue`: heap of these versions. `_leads`: guesses by commit, with queried lines.
    """

    repository: Repository
    git: GitProgram
    ignore_revs: BlameIgnoreRevs
    reader: FileHistoryReader
    searcher: LineSearcher | None
    queried_texts: Mapping[int, str]
    deadline: float
    limitations: list[str] = field(default_factory=list)
    _hits: set[str] = field(default_factory=set)
    _copy_searches: int = 0
    _is_limit_reached: bool = False
    _lines_without_source: list[_LineWithoutSource] = field(default_factory=list)
    _pending: dict[_Version, dict[int, _QueriedLines]] = field(default_factory=lambda: defaultdict(dict))
    _queue: list[tuple[int, str, bytes]] = field(default_factory=list)
    _finders: dict[str, SourceFinder] = field(default_factory=dict)
    _steps: dict[tuple[_Version, StepName], _Step] = field(default_factory=dict)
    _leads: dict[str, tuple[Lead, set[int]]] = field(default_factory=dict)

    def trace(self, lines: Sequence[BlamedLine], commit_times: Mapping[str, int]) -> Evolution:
        """Follow the lines from their hits until each is introduced or a limit is reached."""
        for line in lines:
            if line.is_committed:
                sha, numbers = line.origin.commit_sha, {line.number}
                self._hits.add(sha)
                queried = _QueriedLines(numbers, anchored=set(numbers))
                self._enqueue_line(
                    _Version(commit_times[sha], sha, line.origin.path), line.original_number, queried
                )
        for _ in range(MAX_INDEX_SEARCHES):
            self._process_queue()
            self._try(self._search_removed_lines)
        self._process_queue()
        self._record_introductions()
        return self._build_evolution()

    def _try(self, work: Callable[[], None]) -> None:
        """Run a part of the work. If git takes too long or an object is unreadable, note that and go on without it."""
        try:
            work()
        except GitTimeout:
            self._is_limit_reached = True
        except UnreadableObject as error:
            logger.warning("Some earlier commits could not be read: %s", error)
            self.limitations.append("Some earlier commits could not be read.")

    def _process_queue(self) -> None:
        """Process the versions, newest first, until none is left or a limit is reached."""
        while self._queue and not self._is_limit_reached:
            date, sha, path = heapq.heappop(self._queue)
            version = _Version(-date, sha, path)
            queried_lines = self._pending.pop(version)
            if len(self._finders) >= MAX_COMMITS or time.monotonic() > self.deadline:
                self._is_limit_reached = True
                break
            self._try(partial(self._process_version, version, queried_lines))

    def _search_removed_lines(self) -> None:
        """Search the index for commits that removed the lines without a source, and follow these lines from there."""
        if self.searcher is None:
            return
        if time.monotonic() > self.deadline:
            self._is_limit_reached = True
            return
        unsearched = [entry for entry in self._lines_without_source if not entry.is_searched]
        self.searcher.search([entry.line for entry in unsearched])
        restored: dict[tuple[str, bytes], dict[int, _QueriedLines]] = defaultdict(dict)
        try:
            for entry in unsearched:
                if time.monotonic() > self.deadline:
                    self._is_limit_reached = True
                    break
                check_cancelled()
                entry.is_searched = True
                source = self.searcher.find_removed(entry.line)
                if source:
                    self._lines_without_source.remove(entry)
                    self._record(entry.version, "restored", entry.line.text, entry.queried)
                    target = restored[source.parent, source.path].setdefault(source.number, _QueriedLines())
                    target.add(_QueriedLines(set(entry.queried.lines), set(entry.queried.lines)))
        finally:  # after an error, the lines found before it are still followed
            for (parent, path), numbers in restored.items():
                self._enqueue_sources(parent, path, numbers)

    def _record_introductions(self) -> None:
        """Record the lines without a source as introduced, and add their leads."""
        for entry in self._lines_without_source:
            self._record(entry.version, "introduced", entry.line.text, entry.queried)
            if time.monotonic() < self.deadline:
                check_cancelled()
                self._try(partial(self._add_leads, entry))
            else:
                self._is_limit_reached = True

    def _enqueue_line(self, version: _Version, number: int, queried: _QueriedLines) -> None:
        pending = self._pending[version]
        if not pending:
            heapq.heappush(self._queue, (-version.date, version.commit_sha, version.path))
        pending.setdefault(number, _QueriedLines()).add(queried)

    def _process_version(self, version: _Version, queried_lines: dict[int, _QueriedLines]) -> None:
        """Find the sources of a version's lines, record what the commit did, and enqueue the sources."""
        repository, sha = self.repository, version.commit_sha
        if sha in repository.shallow_boundary:
            if any(queried.lines - queried.anchored for queried in queried_lines.values()):
                self.limitations.append(
                    "This is a shallow clone, so earlier commits are missing. Run `git fetch --unshallow`."
                )
            return
        lines = read_lines(repository, find_blob(repository, sha, version.path))
        followed = {
            number: queried
            for number, queried in queried_lines.items()
            if number <= len(lines) and extract_features(lines[number - 1]).weight >= MIN_WEIGHT
        }
        if not followed:
            return
        finder = self._finders.setdefault(sha, SourceFinder(repository, sha))
        sources = finder.find_sources(version.path, followed)
        try:
            sources |= self._find_copies(version, finder, lines, followed.keys() - sources.keys())
        except GitTimeout:  # use the sources that are no copies
            self._is_limit_reached = True
        next_lines: dict[tuple[str, bytes], dict[int, _QueriedLines]] = defaultdict(dict)
        for number, queried in followed.items():
            text = lines[number - 1]
            source = sources.get(number)
            if source:
                self._record(version, source.step, text, queried)
                inexact = set(queried.inexact) if source.is_exact else set(queried.lines)
                target = next_lines[source.parent, source.path].setdefault(source.number, _QueriedLines())
                target.add(_QueriedLines(set(queried.lines), inexact))
            else:
                queried_text = self.queried_texts[min(queried.lines)]
                line = UnsourcedLine(sha, version.path, number, version.date, text, queried_text)
                self._lines_without_source.append(_LineWithoutSource(line, version, queried))
        for (parent, path), numbers in next_lines.items():
            self._enqueue_sources(parent, path, numbers)

    def _record(self, version: _Version, step: StepName, text: str, queried: _QueriedLines) -> None:
        """Record what a commit did to a line. Queried lines for which it is the hit are left out."""
        lines = queried.lines - queried.anchored
        if lines:
            record = self._steps.setdefault((version, step), _Step(text))
            if not record.queried.lines or min(lines) < min(record.queried.lines):
                record.text = text
            record.queried.add(_QueriedLines(lines, queried.inexact & lines))

    def _find_copies(
        self, version: _Version, finder: SourceFinder, lines: Sequence[str], numbers: Set[int]
    ) -> dict[int, LineSource]:
        """Return the sources of lines that the commit copied: the original is in the parent and was not removed."""
        numbers = {
            number
            for number in numbers
            if extract_features(lines[number - 1]).weight >= MIN_COPY_WEIGHT
            and not COMMENT.match(lines[number - 1])
        }
        if len(finder.parents) != 1 or not numbers:
            return {}
        if self._copy_searches >= MAX_COPY_SEARCHES:
            self.limitations.append("The sources of some copied lines were not searched.")
            return {}
        self._copy_searches += 1
        parent = finder.parents[0]
        revision = f"{parent}..{version.commit_sha}"
        result = self._run_blame(revision, version.path, numbers, COPY_OPTIONS)
        sources: dict[int, LineSource] = {}
        for line in result.lines if result else ():
            if line.origin.commit_sha == parent:
                path, number = line.origin.path, line.original_number
                old_lines = read_lines(self.repository, find_blob(self.repository, parent, path))
                if number <= len(old_lines) and is_copy(lines, line.number, old_lines, number):
                    sources[line.number] = LineSource(parent, path, number, "moved", is_exact=False)
        idioms = self._find_idioms(parent, {lines[number - 1].strip() for number in sources})
        return {
            number: source for number, source in sources.items() if build_key(lines[number - 1]) not in idioms
        }

    def _find_idioms(self, revision: str, texts: Set[str]) -> set[str]:
        """Return the keys of the texts that more than `MAX_EQUAL_LINES` lines of a revision have."""
        if not texts:
            return set()
        patterns = [argument for text in texts for argument in ("-e", text)]
        seconds = max(0.01, self.deadline - time.monotonic())
        output = self.git.run(
            "grep", "-hIF", "--no-line-number", "--no-column", "--no-color", *patterns, revision,
            timeout_seconds=seconds,
        )  # fmt: skip
        counts = Counter(map(build_key, output.stdout.decode("utf-8", "replace").split("\n")))
        return {key for text in texts if counts[key := build_key(text)] > MAX_EQUAL_LINES}

    def _add_leads(self, entry: _LineWithoutSource) -> None:
        """Add guesses about the idea of a line: what it replaced, and the oldest commits with its literal or name."""
        version = entry.version
        replaced = self._finders[version.commit_sha].find_replaced(version.path, entry.line.number)
        leads: list[Lead] = []
        if replaced:
            parent, path = replaced[0].parent, replaced[0].path
            old_lines = read_lines(self.repository, find_blob(self.repository, parent, path))
            result = self._run_blame(parent, path, {source.number for source in replaced})
            leads += (
                Lead(
                    line.origin.commit_sha, decode_path(line.origin.path), old_lines[line.number - 1].strip()
                )
                for line in (result.lines if result else ())
            )
        leads += self.searcher.find_leads(entry.line) if self.searcher else ()
        for lead in leads:
            self._leads.setdefault(lead.commit_sha, (lead, set()))[1].update(entry.queried.lines)

    def _run_blame(
        self, revision: str, path: bytes, numbers: Collection[int], options: Sequence[str] = ()
    ) -> BlameResult | None:
        seconds = max(0.01, self.deadline - time.monotonic())
        result = blame_revision(self.git, revision, path, numbers, self.ignore_revs, seconds, options)
        if isinstance(result, BlameFailed):
            logger.warning("git blame failed for an earlier commit: %s", result.reason)
            self.limitations.append("git blame failed for an earlier commit.")
            return None
        return result

    def _enqueue_sources(
        self, revision: str, path: bytes, queried_lines: Mapping[int, _QueriedLines]
    ) -> None:
        """Blame the sources of lines in a parent, and enqueue them in the versions that wrote them."""
        result = self._run_blame(revision, path, queried_lines)
        if result is None:
            return
        for line in result.lines:
            sha = line.origin.commit_sha
            version = _Version(result.commit_times[sha], sha, line.origin.path)
            self._enqueue_line(version, line.original_number, queried_lines[line.number])

    def _build_evolution(self) -> Evolution:
        dates = {version.commit_sha: version.date for version, _ in self._steps}
        order = sort_newest_first(dates, self.repository, self.git, self.reader.walked_history)
        positions = {sha: position for position, sha in enumerate(order)}
        records = sorted(self._steps.items(), key=lambda item: positions[item[0][0].commit_sha])
        # The commits that introduced lines come first, then those of most lines.
        by_weight = sorted(
            records, key=lambda item: (item[0][1] != "introduced", -len(item[1].queried.lines))
        )
        shown_keys = {key for key, _ in by_weight[:MAX_STEPS]}
        shown = [(key, record) for key, record in records if key in shown_keys]
        if len(records) > len(shown):
            self.limitations.append(f"Steps not listed: {len(records) - len(shown)}.")
        leads = [
            self._build_lead(lead, lines)
            for sha, (lead, lines) in self._leads.items()
            if sha not in positions and sha not in self._hits
        ][:MAX_LEADS]
        if self.searcher is None:
            self.limitations.append(describe_missing_index(self.reader))
        if self._is_limit_reached:
            self.limitations.append(
                "The search for earlier commits stopped at its limit: some may be missing."
            )
        if self.searcher and self.searcher.limitation:
            self.limitations.append(self.searcher.limitation)
        steps = [self._build_step(version, step, record) for (version, step), record in shown]
        return Evolution(tuple(steps), tuple(leads), " ".join(dict.fromkeys(self.limitations)) or None)

    def _build_step(self, version: _Version, step: StepName, record: _Step) -> EvolutionStep:
        commit = self.repository.read_commit(version.commit_sha)
        return EvolutionStep(
            commit_sha=commit.sha,
            commit_message=crop_message(commit.message),
            commit_author=commit.author_name,
            commit_date=format_rfc3339(commit.commit_date),
            file_path=decode_path(version.path),
            lines=tuple(sorted(record.queried.lines)),
            step=step,
            text=truncate_line(record.text.strip()),
            provenance="INFERRED" if record.queried.inexact else "EXACT",
        )

    def _build_lead(self, lead: Lead, lines: Iterable[int]) -> EvolutionLead:
        commit = self.repository.read_commit(lead.commit_sha)
        return EvolutionLead(
            commit_sha=commit.sha,
            commit_message=crop_message(commit.message),
            commit_author=commit.author_name,
            commit_date=format_rfc3339(commit.commit_date),
            file_path=lead.file_path,
            lines=tuple(sorted(lines)),
            text=truncate_line(lead.text),
        )


def trace_evolution(
    repository: Repository,
    git: GitProgram,
    ignore_revs: BlameIgnoreRevs,
    reader: FileHistoryReader,
    lines: Sequence[BlamedLine],
    commit_times: Mapping[str, int],
    content: Sequence[bytes],
) -> Evolution:
    """Return the evolution of blamed lines. Restored lines, and leads by literal or name, need an index."""
    if len(lines) > MAX_LINES:
        return Evolution(limitation=f"Earlier commits are listed for up to {MAX_LINES} lines: ask for fewer.")
    searcher = LineSearcher(repository, git, reader) if reader.index else None
    deadline = time.monotonic() + MAX_SECONDS
    texts = {line.number: content[line.number - 1].decode("utf-8", "replace") for line in lines}
    tracer = LineTracer(repository, git, ignore_revs, reader, searcher, texts, deadline)
    return tracer.trace(lines, commit_times)


def crop_message(message: str) -> str:
    """Return at most `MAX_MESSAGE_CHARACTERS` of a message, with `…` for the words that are left out."""
    if len(message) <= MAX_MESSAGE_CHARACTERS:
        return message
    return message[:MAX_MESSAGE_CHARACTERS].rsplit(None, 1)[0] + " …"
