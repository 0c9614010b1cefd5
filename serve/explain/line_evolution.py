"""Evolution of lines: the earlier commits that shaped them, back to the one that introduced them.

Each line is followed from the commit of its hit: `line_sources` finds the line of the parent commit that it came from,
`git blame` the commit that wrote that line, and so on.
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
from pipeline.git.commit_order import sort_newest_first
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
from serve.explain.file_history import EndedLine, FileHistoryReader, Lead, LineSearcher
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
# Bounds of the work: commits that are compared with their parents, and time.
MAX_COMMITS: Final = 60
MAX_SECONDS: Final = 1.5
# Commits to return: more do not fit on a screen. Those that introduced lines come first.
MAX_STEPS: Final = 20
# Guesses that an answer lists.
MAX_LEADS: Final = 6
MAX_MESSAGE_CHARACTERS: Final = 400
# git blame options that also find lines copied from any file of the parent. Lines of fewer than 15 letters and digits
# are idioms. 30 to 60 ms for a version of a file.
COPY_OPTIONS: Final = ("-C15", "-C15", "-C15")
MAX_COPY_SEARCHES: Final = 8
# Comments that are copied are mostly licenses.
COMMENT: Final = re.compile(r"\s*(?:\*|//|#|/\*|<!--)")
# Equal lines in the parent if one is the source of a copy. More of them are an idiom, such as the head of a method.
MAX_EQUAL_LINES: Final = 1
# Searches of the index: a line that was restored can have been restored before. Each takes 0.1 s.
MAX_ROUNDS: Final = 2


@dataclass(slots=True)
class _Descent:
    """Queried lines that descend from a line. `inexact`: by an inferred link; `anchored`: those still at their hit."""

    lines: set[int] = field(default_factory=set)
    inexact: set[int] = field(default_factory=set)
    anchored: set[int] = field(default_factory=set)

    def add(self, other: _Descent) -> None:
        """Add the queried lines of another line."""
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
    text: str
    descent: _Descent = field(default_factory=_Descent)


@dataclass(slots=True)
class _EndedDescent:
    """Line without a source in its commit. `is_searched`: the index was searched for it."""

    line: EndedLine
    version: _Version
    descent: _Descent
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
    """Tracer of lines through the history. Versions are processed from the newest, so that lines share the work."""

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
    _is_bounded: bool = False
    _ended: list[_EndedDescent] = field(default_factory=list)
    _pending: dict[_Version, dict[int, _Descent]] = field(default_factory=lambda: defaultdict(dict))
    _queue: list[tuple[int, str, bytes]] = field(default_factory=list)
    _finders: dict[str, SourceFinder] = field(default_factory=dict)
    _steps: dict[tuple[_Version, StepName], _Step] = field(default_factory=dict)
    _leads: dict[str, tuple[Lead, set[int]]] = field(default_factory=dict)

    def trace(self, lines: Sequence[BlamedLine], commit_times: Mapping[str, int]) -> Evolution:
        """Follow the lines from their hits until each is introduced or the work reaches its bounds."""
        for line in lines:
            if line.is_committed:
                sha, numbers = line.origin.commit_sha, {line.number}
                self._hits.add(sha)
                descent = _Descent(numbers, anchored=set(numbers))
                self._add(_Version(commit_times[sha], sha, line.origin.path), line.original_number, descent)
        for _ in range(MAX_ROUNDS):
            self._process_queue()
            self._try(self._search_ended)
        self._process_queue()
        self._finish_ended()
        return self._build_evolution()

    def _try(self, step: Callable[[], None]) -> None:
        """Run a step. If git takes too long or an object is missing, the explanation is complete without it."""
        try:
            step()
        except GitTimeout:
            self._is_bounded = True
        except UnreadableObject as error:
            logger.warning("Some earlier commits could not be read: %s", error)
            self.limitations.append("Some earlier commits could not be read.")

    def _process_queue(self) -> None:
        """Process the versions, newest first, until none is left or the work reaches its bounds."""
        while self._queue and not self._is_bounded:
            date, sha, path = heapq.heappop(self._queue)
            version = _Version(-date, sha, path)
            descents = self._pending.pop(version)
            if len(self._finders) >= MAX_COMMITS or time.monotonic() > self.deadline:
                self._is_bounded = True
                break
            self._try(partial(self._process, version, descents))

    def _search_ended(self) -> None:
        """Search the index for the lines that ended, and go on with those that an earlier commit had removed."""
        if self.searcher is None:
            return
        if time.monotonic() > self.deadline:
            self._is_bounded = True
            return
        ended = [end for end in self._ended if not end.is_searched]
        self.searcher.search([end.line for end in ended])
        restored: dict[tuple[str, bytes], dict[int, _Descent]] = defaultdict(dict)
        try:
            for end in ended:
                if time.monotonic() > self.deadline:
                    self._is_bounded = True
                    break
                check_cancelled()
                end.is_searched = True
                source = self.searcher.find_removed(end.line)
                if source:
                    self._ended.remove(end)
                    self._record(end.version, "restored", end.line.text, end.descent)
                    target = restored[source.parent, source.path].setdefault(source.number, _Descent())
                    target.add(_Descent(set(end.descent.lines), set(end.descent.lines)))
        finally:  # an error of one line must not end the history of those found before
            for (parent, path), numbers in restored.items():
                self._blame(parent, path, numbers)

    def _finish_ended(self) -> None:
        """Record the lines without a source as introduced, and add their leads."""
        for end in self._ended:
            self._record(end.version, "introduced", end.line.text, end.descent)
            if time.monotonic() < self.deadline:
                check_cancelled()
                self._try(partial(self._add_leads, end))
            else:
                self._is_bounded = True

    def _add(self, version: _Version, number: int, descent: _Descent) -> None:
        pending = self._pending[version]
        if not pending:
            heapq.heappush(self._queue, (-version.date, version.commit_sha, version.path))
        pending.setdefault(number, _Descent()).add(descent)

    def _process(self, version: _Version, descents: dict[int, _Descent]) -> None:
        """Find the sources of a version's lines, record what the commit did, and blame the sources."""
        repository, sha = self.repository, version.commit_sha
        if sha in repository.shallow_boundary:
            if any(descent.lines - descent.anchored for descent in descents.values()):
                self.limitations.append(
                    "The history of this shallow clone ends: earlier commits are missing."
                )
            return
        lines = read_lines(repository, find_blob(repository, sha, version.path))
        followed = {
            number: descent
            for number, descent in descents.items()
            if number <= len(lines) and extract_features(lines[number - 1]).weight >= MIN_WEIGHT
        }
        if not followed:
            return
        finder = self._finders.setdefault(sha, SourceFinder(repository, sha))
        sources = finder.find_sources(version.path, followed)
        try:
            sources |= self._find_copies(version, finder, lines, followed.keys() - sources.keys())
        except GitTimeout:  # the other sources are known
            self._is_bounded = True
        next_lines: dict[tuple[str, bytes], dict[int, _Descent]] = defaultdict(dict)
        for number, descent in followed.items():
            text = lines[number - 1]
            source = sources.get(number)
            if source:
                self._record(version, source.step, text, descent)
                inexact = set(descent.inexact) if source.is_exact else set(descent.lines)
                target = next_lines[source.parent, source.path].setdefault(source.number, _Descent())
                target.add(_Descent(set(descent.lines), inexact))
            else:
                queried = self.queried_texts[min(descent.lines)]
                line = EndedLine(sha, version.path, number, version.date, text, queried)
                self._ended.append(_EndedDescent(line, version, descent))
        for (parent, path), numbers in next_lines.items():
            self._blame(parent, path, numbers)

    def _record(self, version: _Version, step: StepName, text: str, descent: _Descent) -> None:
        """Record a step of the lines that are past their hit."""
        lines = descent.lines - descent.anchored
        if lines:
            record = self._steps.setdefault((version, step), _Step(text))
            if not record.descent.lines or min(lines) < min(record.descent.lines):
                record.text = text
            record.descent.add(_Descent(lines, descent.inexact & lines))

    def _find_copies(
        self, version: _Version, finder: SourceFinder, lines: Sequence[str], numbers: Set[int]
    ) -> dict[int, LineSource]:
        """Return the sources of lines that the commit copied from lines that stay in the parent."""
        numbers = {
            number
            for number in numbers
            if extract_features(lines[number - 1]).weight >= MIN_COPY_WEIGHT
            and not COMMENT.match(lines[number - 1])
        }
        if len(finder.parents) != 1 or not numbers:
            return {}
        if self._copy_searches >= MAX_COPY_SEARCHES:
            self.limitations.append("Some lines were not searched for a line that they are a copy of.")
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
        """Return the keys of those lines that a revision has so often that a copy has no certain source."""
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

    def _add_leads(self, end: _EndedDescent) -> None:
        """Add guesses about the idea of a line: what it replaced, and the oldest commits with its literal or name."""
        version = end.version
        replaced = self._finders[version.commit_sha].find_replaced(version.path, end.line.number)
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
        leads += self.searcher.find_leads(end.line) if self.searcher else ()
        for lead in leads:
            self._leads.setdefault(lead.commit_sha, (lead, set()))[1].update(end.descent.lines)

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

    def _blame(self, revision: str, path: bytes, descents: Mapping[int, _Descent]) -> None:
        result = self._run_blame(revision, path, descents)
        if result is None:
            return
        for line in result.lines:
            sha = line.origin.commit_sha
            version = _Version(result.commit_times[sha], sha, line.origin.path)
            self._add(version, line.original_number, descents[line.number])

    def _build_evolution(self) -> Evolution:
        dates = {version.commit_sha: version.date for version, _ in self._steps}
        order = sort_newest_first(dates, self.repository, self.git, self.reader.walked_history)
        positions = {sha: position for position, sha in enumerate(order)}
        records = sorted(self._steps.items(), key=lambda item: positions[item[0][0].commit_sha])
        # The commits that introduced lines come first, then those of most lines.
        by_weight = sorted(
            records, key=lambda item: (item[0][1] != "introduced", -len(item[1].descent.lines))
        )
        shown_keys = {key for key, _ in by_weight[:MAX_STEPS]}
        shown = [(key, record) for key, record in records if key in shown_keys]
        if len(records) > len(shown):
            self.limitations.append(f"{len(records) - len(shown)} more steps are not listed.")
        leads = [
            self._build_lead(lead, lines)
            for sha, (lead, lines) in self._leads.items()
            if sha not in positions and sha not in self._hits
        ][:MAX_LEADS]
        if self.searcher is None:
            self.limitations.append("There is no index, so restored lines and some leads are missing.")
        if self._is_bounded:
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
            lines=tuple(sorted(record.descent.lines)),
            step=step,
            text=truncate_line(record.text.strip()),
            provenance="INFERRED" if record.descent.inexact else "EXACT",
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
    """Return the evolution of blamed lines; without an index, without restored lines and leads."""
    if len(lines) > MAX_LINES:
        return Evolution(limitation=f"Earlier commits are listed for up to {MAX_LINES} lines: ask for fewer.")
    searcher = LineSearcher(repository, git, reader) if reader.index else None
    deadline = time.monotonic() + MAX_SECONDS
    texts = {line.number: content[line.number - 1].decode("utf-8", "replace") for line in lines}
    tracer = LineTracer(repository, git, ignore_revs, reader, searcher, texts, deadline)
    return tracer.trace(lines, commit_times)


def crop_message(message: str) -> str:
    """Return a message, cut between words after MAX_MESSAGE_CHARACTERS."""
    if len(message) <= MAX_MESSAGE_CHARACTERS:
        return message
    return message[:MAX_MESSAGE_CHARACTERS].rsplit(None, 1)[0] + " …"
