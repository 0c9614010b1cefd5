"""Evolution of lines: the earlier commits that shaped them, back to the one that introduced them.

The search for a line starts at its hit, the commit that blame names. `line_sources` finds the source of the line: the
line of the hit's parent that became this line. `git blame` finds the commit that wrote the source. The search goes on
from this commit in the same way, until a line has no source.

A version is a file of one commit. A queried line is a line of the request. A step is a change of lines by a commit. A
lead is a possible earlier commit, found by a search term (a literal or name of the line) or by the line it replaced.
"""

from __future__ import annotations

import heapq
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeAlias

from pipeline.git.changes import decode_path
from pipeline.git.git_cli import GitProgram, GitTimeout
from pipeline.git.objects import Commit
from pipeline.git.repository import Repository, UnreadableObject
from pipeline.interrupts import Deadline, DeadlineExceeded
from pipeline.walk import sort_newest_first
from serve.api_types import format_rfc3339
from serve.excerpts import cut_message, truncate_line
from serve.explain.blame import BlamedLine, BlameIgnoreRevs, RevisionBlamer
from serve.explain.changed_lines import UnsourcedLine, find_blob, read_lines
from serve.explain.file_history import FileHistoryReader, describe_missing_index
from serve.explain.line_search import Lead, LineSearcher, add_unreadable_limitation, select_copies
from serve.explain.line_similarity import MIN_COPY_WEIGHT, MIN_WEIGHT, extract_features
from serve.explain.line_sources import LineSource, SourceFinder
from serve.explain_types import EvolutionLead, EvolutionStep, StepName

MAX_LINES: Final = 120  # maximum number of queried lines: enough for a function or a class
MAX_COMMITS: Final = 60  # maximum number of commits that are compared with their parents
MAX_SECONDS: Final = 1.5  # time limit of the search for earlier commits
# Maximum number of steps: more do not fit on a screen. Steps that introduced lines are preferred.
MAX_STEPS: Final = 20
MAX_LEADS: Final = 6
# Maximum length of the message of a step or lead, because an answer can have many of them.
MAX_MESSAGE_CHARACTERS: Final = 400
# With three `-C`, git blame also finds lines copied from any file of the parent. Copies of fewer than 15 letters and
# digits are excluded, because short lines recur by chance.
COPY_OPTIONS: Final = ("-C15", "-C15", "-C15")
# Maximum number of versions that are searched for copied lines. Each search takes 30 to 60 ms.
MAX_COPY_SEARCHES: Final = 8
# Start of a comment. Copied comments are mostly licenses, so their originals are not searched.
COMMENT: Final = re.compile(
    r"\s*(?:\*(?:\s|/|$)|//|/\*|<!--|--\s|#(?!!?\[|(?:define|elif|else|endif|if|include|pragma)\b))"
)


@dataclass(slots=True)
class _QueriedLines:
    """Numbers of the queried lines that come from one line of a version, or from the lines of a step.

    `numbers`: all of these queried lines. `inexact`: those that are connected to this line by at least one source that
    is not exact (`LineSource`). `at_hit`: those whose hit is the commit of this version.
    """

    numbers: set[int] = field(default_factory=set)
    inexact: set[int] = field(default_factory=set)
    at_hit: set[int] = field(default_factory=set)

    def add(self, other: _QueriedLines) -> None:
        """Add other queried lines."""
        self.numbers |= other.numbers
        self.inexact |= other.inexact
        self.at_hit |= other.at_hit


# Lines to blame next: for each commit and path, line numbers with the queried lines that come from that line.
_LinesByFile: TypeAlias = defaultdict[tuple[str, bytes], dict[int, _QueriedLines]]


def _add_source(lines_to_blame: _LinesByFile, source: LineSource, queried: _QueriedLines) -> None:
    """Add the source of a line to the lines to blame. `queried`: queried lines that come from the line."""
    inexact = set(queried.inexact) if source.is_exact else set(queried.numbers)
    queried_at_source = lines_to_blame[source.parent, source.path].setdefault(source.number, _QueriedLines())
    queried_at_source.add(_QueriedLines(set(queried.numbers), inexact))


@dataclass(frozen=True, slots=True)
class _Version:
    """Version of a file: its commit and its path there. `date`: committer time in seconds since the epoch."""

    date: int
    commit_sha: str
    path: bytes


@dataclass(slots=True)
class _Step:
    """Change of lines by a commit. `text`: the changed line from which the first of the queried lines comes."""

    version: _Version
    name: StepName
    text: str
    queried: _QueriedLines = field(default_factory=_QueriedLines)


@dataclass(slots=True)
class _UnsourcedEntry:
    """Line without a source: either introduced by its commit, or restored after an earlier commit removed it."""

    line: UnsourcedLine
    version: _Version
    queried: _QueriedLines


@dataclass(frozen=True, slots=True)
class Evolution:
    """Earlier commits of lines.

    `steps`: newest first. `limitation`: what may be missing. `is_complete`: False if time ran out or the index could
    not be read, so that the same request may find more later.
    """

    steps: tuple[EvolutionStep, ...] = ()
    leads: tuple[EvolutionLead, ...] = ()
    limitation: str | None = None
    is_complete: bool = True


NO_EVOLUTION: Final = Evolution()


@dataclass(slots=True)
class LineTracer:
    """Tracer of lines through the history. It takes the newest version first, and processes its lines together.

    `searcher`: searcher of the index; None without an index. `queried_texts`: text of each queried line, by number.
    `limitations`: sentences about what may be missing. `_unsearched`: lines without a source, whose earlier removal is
    to be searched for. `_introductions`: introduced lines. `_pending`: for each version, its lines to process, by
    number. `_queue`: heap of these versions, the newest first. `_finders`: source finders by commit. `_leads`: for each
    commit, its lead and the numbers of the queried lines that may come from it.
    """

    blamer: RevisionBlamer
    reader: FileHistoryReader
    searcher: LineSearcher | None
    queried_texts: Mapping[int, str]
    limitations: list[str]
    _hit_shas: set[str] = field(default_factory=set)
    _copy_searches: int = 0
    _is_limit_reached: bool = False
    _unsearched: list[_UnsourcedEntry] = field(default_factory=list)
    _introductions: list[_UnsourcedEntry] = field(default_factory=list)
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
                self._hit_shas.add(sha)
                queried = _QueriedLines(numbers, at_hit=set(numbers))
                version = _Version(commit_times[sha], sha, line.origin.path)
                self._enqueue_line(version, line.original_number, queried)
        self._process_queue()
        while self.searcher and self._unsearched and self.blamer.deadline.has_time():
            self._search_removed_lines(self.searcher)
            self._process_queue()
        self._record_introductions()
        return self._build_evolution()

    def _try(self, work: Callable[[], None]) -> None:
        """Run a part of the work. If the time runs out or an object is unreadable, note that and skip the rest."""
        try:
            work()
        except (GitTimeout, DeadlineExceeded):
            self.blamer.deadline.is_exceeded = True
        except UnreadableObject as error:
            add_unreadable_limitation(error, self.limitations)

    def _process_queue(self) -> None:
        """Process the versions, newest first, until the queue is empty or a limit is reached."""
        while self._queue and self.blamer.deadline.has_time():
            date, sha, path = heapq.heappop(self._queue)
            version = _Version(-date, sha, path)
            queried_lines = self._pending.pop(version)
            if sha not in self._finders and len(self._finders) >= MAX_COMMITS:
                self._is_limit_reached = True
                continue
            self._try(partial(self._process_version, version, queried_lines))

    def _search_removed_lines(self, searcher: LineSearcher) -> None:
        """Search the index for earlier removals of the lines in `_unsearched`. Enqueue the removed lines.

        Lines whose search does not finish are dropped, because it is unknown whether their commits introduced them.
        """
        unsearched, self._unsearched = self._unsearched, []
        self._try(partial(searcher.search_removals, [entry.line for entry in unsearched]))
        sources: _LinesByFile = defaultdict(dict)
        for entry in unsearched:
            if not self.blamer.deadline.has_time():
                break
            self._try(partial(self._classify_entry, searcher, entry, sources))
        self._try(partial(self._enqueue_sources, sources))

    def _classify_entry(self, searcher: LineSearcher, entry: _UnsourcedEntry, sources: _LinesByFile) -> None:
        """Record a line as restored and add its source if an earlier commit removed it. Else, it is introduced."""
        source = searcher.find_removed(entry.line)
        if source:
            self._record(entry.version, "restored", entry.line.text, entry.queried)
            _add_source(sources, source, entry.queried)
        else:
            self._introductions.append(entry)

    def _record_introductions(self) -> None:
        """Record the introduced lines, and add their leads."""
        if self.searcher and self.blamer.deadline.has_time():
            introduced = [entry.line for entry in self._introductions]
            self._try(partial(self.searcher.search_leads, introduced))
        by_version: dict[_Version, list[_UnsourcedEntry]] = defaultdict(list)
        for entry in self._introductions:
            self._record(entry.version, "introduced", entry.line.text, entry.queried)
            by_version[entry.version].append(entry)
        for version, entries in by_version.items():
            if self.blamer.deadline.has_time():
                self._try(partial(self._add_leads, version, entries))

    def _enqueue_line(self, version: _Version, number: int, queried: _QueriedLines) -> None:
        """Add a line of a version to the lines to process. `queried`: queried lines that come from it."""
        pending = self._pending[version]
        if not pending:
            heapq.heappush(self._queue, (-version.date, version.commit_sha, version.path))
        pending.setdefault(number, _QueriedLines()).add(queried)

    def _process_version(self, version: _Version, queried_lines: dict[int, _QueriedLines]) -> None:
        """Find the sources of a version's lines, record what the commit did, and enqueue the sources."""
        repository, sha = self.blamer.repository, version.commit_sha
        if sha in repository.shallow_boundary:
            # For the lines of a hit, `describe_line_limitations` says this.
            if any(queried.numbers - queried.at_hit for queried in queried_lines.values()):
                self.limitations.append(
                    "This is a shallow clone, so earlier commits are missing. Run `git fetch --unshallow`."
                )
            return
        lines = read_lines(repository, find_blob(repository, sha, version.path))
        traceable = {  # without braces and other lines of low weight, which recur everywhere
            number: queried
            for number, queried in queried_lines.items()
            if number <= len(lines) and extract_features(lines[number - 1]).weight >= MIN_WEIGHT
        }
        if not traceable:
            return
        finder = self._finders.setdefault(sha, SourceFinder(repository, sha))
        sources = finder.find_sources(version.path, traceable, self.blamer.deadline)
        unsourced: dict[int, UnsourcedLine] = {}
        for number in sorted(traceable.keys() - sources.keys()):
            text, queried_text = lines[number - 1], self.queried_texts[min(traceable[number].numbers)]
            unsourced[number] = UnsourcedLine(sha, version.path, number, version.date, text, queried_text)
        try:
            sources |= self._find_copies(version, finder, lines, unsourced)
        except GitTimeout:  # the lines without a source may be copies, so they are dropped
            self.blamer.deadline.is_exceeded = True
            traceable = {number: traceable[number] for number in sources}
        introductions = self._unsearched if self.searcher else self._introductions
        sources_by_file: _LinesByFile = defaultdict(dict)
        for number, queried in traceable.items():
            text = lines[number - 1]
            source = sources.get(number)
            if source:
                self._record(version, source.step, text, queried)
                _add_source(sources_by_file, source, queried)
            else:
                introductions.append(_UnsourcedEntry(unsourced[number], version, queried))
        self._enqueue_sources(sources_by_file)

    def _record(self, version: _Version, name: StepName, text: str, queried: _QueriedLines) -> None:
        """Record what a commit did to a line. Queried lines whose hit is this commit are left out."""
        numbers = queried.numbers - queried.at_hit
        if numbers:
            step = self._steps.setdefault((version, name), _Step(version, name, text))
            if step.queried.numbers and min(numbers) < min(step.queried.numbers):
                step.text = text
            step.queried.add(_QueriedLines(numbers, queried.inexact & numbers))

    def _find_copies(
        self,
        version: _Version,
        finder: SourceFinder,
        lines: Sequence[str],
        unsourced: Mapping[int, UnsourcedLine],
    ) -> dict[int, LineSource]:
        """Return the sources of lines that the commit copied from its parent without removing the originals.

        While git runs, all lines are looked up in the index for `_search_removed_lines`, because few will be copies.
        """
        candidates = {
            number
            for number, line in unsourced.items()
            if extract_features(line.text).weight >= MIN_COPY_WEIGHT and not COMMENT.match(line.text)
        }
        if len(finder.parents) != 1 or not candidates:
            return {}
        if self._copy_searches >= MAX_COPY_SEARCHES:
            self.limitations.append("Some lines were not checked for copies.")
            return {}
        self._copy_searches += 1
        parent = finder.parents[0]
        revision = f"{parent}..{version.commit_sha}"
        with self.blamer.start_with_all_commits(revision, version.path, candidates, COPY_OPTIONS) as process:
            if self.searcher:
                self.searcher.load_changes(list(unsourced.values()))
            result = self.blamer.read(process)
        copies = (line for line in result.lines if line.origin.commit_sha == parent)
        return select_copies(self.blamer.repository, self.blamer.git, lines, copies, self.blamer.deadline)

    def _add_leads(self, version: _Version, entries: Sequence[_UnsourcedEntry]) -> None:
        """Add the leads of introduced lines: commits that wrote what they replaced, or first added a search term."""
        finder = self._finders[version.commit_sha]
        replaced = [finder.find_replaced(version.path, entry.line.number) for entry in entries]
        leads_by_source = self._load_leads([source for sources in replaced for source in sources])
        for entry, sources in zip(entries, replaced, strict=True):
            leads = [leads_by_source[source] for source in sources if source in leads_by_source]
            if self.searcher:
                leads += self.searcher.find_leads(entry.line)
            for lead in leads:
                _, numbers = self._leads.setdefault(lead.commit_sha, (lead, set()))
                numbers |= entry.queried.numbers

    def _load_leads(self, replaced: Sequence[LineSource]) -> dict[LineSource, Lead]:
        """Return the commit that wrote each replaced line, as a lead. `replaced`: lines of one version of a file."""
        if not replaced:
            return {}
        parent, path = replaced[0].parent, replaced[0].path
        old_lines = read_lines(self.blamer.repository, find_blob(self.blamer.repository, parent, path))
        result = self.blamer.blame(parent, path, {source.number for source in replaced})
        leads = {
            line.number: Lead(
                line.origin.commit_sha, decode_path(line.origin.path), old_lines[line.number - 1].strip()
            )
            for line in result.lines
        }
        return {source: leads[source.number] for source in replaced if source.number in leads}

    def _enqueue_sources(self, sources: _LinesByFile) -> None:
        """Blame the sources in the files of their parent commits. Enqueue each source for the version that wrote it."""
        for (revision, path), queried_lines in sources.items():
            result = self.blamer.blame_without_guesses(revision, path, queried_lines)
            for line in result.lines:
                sha = line.origin.commit_sha
                version = _Version(result.commit_times[sha], sha, line.origin.path)
                self._enqueue_line(version, line.original_number, queried_lines[line.number])

    def _build_evolution(self) -> Evolution:
        dates = {version.commit_sha: version.date for version, _ in self._steps}
        order = sort_newest_first(dates, self.blamer.repository, self.blamer.git, self.reader.walked_history)
        positions = {sha: position for position, sha in enumerate(order)}
        steps = sorted(self._steps.values(), key=lambda step: positions[step.version.commit_sha])
        # Steps that introduced lines are preferred, and then steps with the most lines.
        preferred = sorted(steps, key=lambda step: (step.name != "introduced", -len(step.queried.numbers)))
        shown = [step for step in steps if step in preferred[:MAX_STEPS]]
        if len(steps) > len(shown):
            self.limitations.append(f"Steps not listed: {len(steps) - len(shown)}.")
        leads = [
            (lead, numbers)
            for sha, (lead, numbers) in self._leads.items()
            if sha not in positions and sha not in self._hit_shas
        ][:MAX_LEADS]
        commits: dict[str, Commit] = {}
        for sha in (*(step.version.commit_sha for step in shown), *(lead.commit_sha for lead, _ in leads)):
            self._try(partial(self._load_commit, sha, commits))
        if not all(finder.has_all_changed_lines for finder in self._finders.values()):
            self.limitations.append("Some files of very large commits were not searched for moved lines.")
        if self.searcher is None:
            self.limitations.append(describe_missing_index(self.reader))
        is_interrupted = self.blamer.deadline.is_exceeded
        if self._is_limit_reached or is_interrupted:
            self.limitations.append(
                "The search for earlier commits stopped at its limit, so some may be missing."
            )
        return Evolution(
            steps=tuple(
                _build_step(step, commits[step.version.commit_sha])
                for step in shown
                if step.version.commit_sha in commits
            ),
            leads=tuple(
                _build_lead(lead, numbers, commits[lead.commit_sha])
                for lead, numbers in leads
                if lead.commit_sha in commits
            ),
            limitation=" ".join(dict.fromkeys(self.limitations)) or None,
            is_complete=not (is_interrupted or (self.searcher and self.searcher.has_failed)),
        )

    def _load_commit(self, sha: str, commits: dict[str, Commit]) -> None:
        commits[sha] = self.blamer.repository.read_commit(sha)


def _build_step(step: _Step, commit: Commit) -> EvolutionStep:
    return EvolutionStep(
        commit_sha=commit.sha,
        commit_message=cut_message(commit.message, MAX_MESSAGE_CHARACTERS),
        commit_author=commit.author_name,
        commit_date=format_rfc3339(commit.commit_date),
        file_path=decode_path(step.version.path),
        lines=tuple(sorted(step.queried.numbers)),
        step=step.name,
        text=truncate_line(step.text.strip()),
        provenance="INFERRED" if step.queried.inexact else "EXACT",
    )


def _build_lead(lead: Lead, numbers: Iterable[int], commit: Commit) -> EvolutionLead:
    return EvolutionLead(
        commit_sha=commit.sha,
        commit_message=cut_message(commit.message, MAX_MESSAGE_CHARACTERS),
        commit_author=commit.author_name,
        commit_date=format_rfc3339(commit.commit_date),
        file_path=lead.file_path,
        lines=tuple(sorted(numbers)),
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
    """Return the evolution of blamed lines. Without an index, it lacks restored lines and leads by search terms.

    `commit_times`: committer times of the hits, in seconds since the epoch. `content`: lines of the blamed file.
    """
    if len(lines) > MAX_LINES:
        return Evolution(limitation=f"Earlier commits are listed for up to {MAX_LINES} lines. Ask for fewer.")
    deadline = Deadline.after(MAX_SECONDS)
    limitations: list[str] = []
    searcher: LineSearcher | None = None
    if reader.index:
        reachability = reader.status.reachability
        searcher = LineSearcher(repository, git, reader.index, reachability, deadline, limitations)
    texts = {line.number: content[line.number - 1].decode("utf-8", "replace") for line in lines}
    blamer = RevisionBlamer(repository, git, ignore_revs, deadline, limitations)
    return LineTracer(blamer, reader, searcher, texts, limitations).trace(lines, commit_times)
