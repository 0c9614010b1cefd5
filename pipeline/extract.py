"""A handful of commits -> their rows, but for the vectors: what one worker does with one batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from pipeline.git.repository import Commit, Repository, UnreadableObject, open_repository
from pipeline.hunks import Hunk, hunks
from pipeline.ignore import IgnoreRules
from pipeline.parse import Parses, Touched
from pipeline.profile import Profile
from pipeline.syntax.grammars import language_of
from pipeline.text import diff_text, digest, lane_text, semantic_text, words
from stores import schema


@dataclass(frozen=True, slots=True)
class Task:
    """Consecutive commits of one repository, small enough to travel to a worker.

    `diff_only`: of a hunk the diff alone is embedded, the cache's mode `diff`.
    """

    repository: Path
    rules: IgnoreRules
    shas: tuple[str, ...]
    diff_only: bool = False


@dataclass(frozen=True, slots=True)
class Extracted:
    """The rows of one batch, in the schemas of `stores.schema`; row numbers count from 0."""

    shas: tuple[str, ...]
    commits: pa.RecordBatch
    hunks: pa.RecordBatch
    hunk_symbols: pa.RecordBatch
    hunk_words: pa.RecordBatch
    symbol_words: pa.RecordBatch
    unreadable: pa.RecordBatch
    profile: Profile


@dataclass(frozen=True, slots=True)
class TouchedHunk:
    """A hunk, the symbols it touched, and the commit both belong to."""

    commit: Commit
    hunk: Hunk
    touched: tuple[Touched, ...]

    @property
    def names(self) -> list[str]:
        """What it touched, each name once."""
        return list(dict.fromkeys(symbol.name for symbol in self.touched))


@dataclass(slots=True)
class Readings:
    """What was read of a batch so far."""

    commits: list[Commit] = field(default_factory=list)
    hunks: list[TouchedHunk] = field(default_factory=list)
    unreadable: list[UnreadableObject] = field(default_factory=list)
    profile: Profile = field(default_factory=Profile)


def extract(task: Task) -> Extracted:
    """Everything the index keeps of a task's commits; what cannot be read is named, not raised."""
    repository, parses = opened(task.repository), _parses(task.repository)
    readings = Readings()
    for sha in task.shas:
        try:
            _read(repository, sha, task.rules, parses, readings)
        except UnreadableObject as unreadable:
            readings.unreadable.append(UnreadableObject(sha, unreadable.reason))
    return _rows(task, readings)


@lru_cache(maxsize=1)
def opened(path: Path) -> Repository:
    """The repository at a path, open from one batch to the next."""
    return open_repository(path)


@lru_cache(maxsize=1)
def _parses(path: Path) -> Parses:  # noqa: ARG001 - what it is kept by
    """One for the repository: files live longer than batches, and a version is followed by asking for its blob."""
    return Parses()


def forget() -> None:
    """Let go of the repository and what was read of it: after a fetch it may reach further back."""
    opened.cache_clear()
    _parses.cache_clear()


def _read(repository: Repository, sha: str, rules: IgnoreRules, parses: Parses, readings: Readings) -> None:
    """Add one commit and its hunks, or nothing where every path it changed is ignored."""
    profile = readings.profile
    with profile.phase("diff"):
        commit = repository.commit(sha)
        changed = hunks(repository, sha, rules.ignored)
    if changed.all_ignored:
        return
    with profile.phase("parse"):
        touched = [TouchedHunk(commit, hunk, parses.touched(hunk, repository)) for hunk in changed.hunks]
    readings.commits.append(commit)
    readings.hunks.extend(touched)
    profile.diff_bytes += sum(len(hunk.diff) for hunk in changed.hunks)
    profile.added_lines += sum(hunk.added_lines for hunk in changed.hunks)


def _rows(task: Task, readings: Readings) -> Extracted:
    with readings.profile.phase("text"):
        lane_words = [_lane_words(entry) for entry in readings.hunks]
        symbol_words = [words(" ".join(entry.names)) for entry in readings.hunks]
        return Extracted(
            shas=task.shas,
            commits=_commit_rows(readings.commits),
            hunks=_hunk_rows(readings.hunks, lane_words, symbol_words, diff_only=task.diff_only),
            hunk_symbols=_symbol_rows(readings.hunks),
            hunk_words=word_rows(lane_words),
            symbol_words=word_rows(symbol_words),
            unreadable=_unreadable_rows(readings.unreadable),
            profile=readings.profile,
        )


def _lane_words(entry: TouchedHunk) -> Counter[str]:
    return words(
        lane_text(
            message=entry.commit.message,
            path=entry.hunk.file_path,
            symbols=entry.names,
            added=entry.hunk.added_text,
            removed=entry.hunk.removed_text,
        )
    )


def _semantic_text(entry: TouchedHunk) -> str:
    return semantic_text(
        message=entry.commit.message,
        path=entry.hunk.file_path,
        language=language_of(entry.hunk.file_path),
        symbols=entry.names,
        change=entry.hunk.change_kind,
        added=entry.hunk.added_text,
        removed=entry.hunk.removed_text,
    )


def _diff_text(hunk: Hunk) -> str:
    return diff_text(diff=hunk.diff, path=hunk.file_path, change=hunk.change_kind)


def _commit_rows(commits: Sequence[Commit]) -> pa.RecordBatch:
    return batch_of(
        schema.COMMITS,
        commit_sha=[c.sha for c in commits],
        parents=[list(c.parents) for c in commits],
        author_name=[c.author_name for c in commits],
        author_email=[c.author_email for c in commits],
        author_date=[c.author_date for c in commits],
        commit_date=[c.commit_date for c in commits],
        message=[c.message for c in commits],
        message_digest=[digest(c.message) for c in commits],
    )


def _hunk_rows(
    entries: Sequence[TouchedHunk],
    lane_words: Sequence[Counter[str]],
    symbol_words: Sequence[Counter[str]],
    *,
    diff_only: bool,
) -> pa.RecordBatch:
    texts = [_semantic_text(entry) for entry in entries]
    embedded = [_diff_text(entry.hunk) for entry in entries] if diff_only else texts
    found = [entry.hunk for entry in entries]
    return batch_of(
        schema.HUNKS,
        hunk_id=range(len(entries)),
        commit_sha=[entry.commit.sha for entry in entries],
        file_path=[hunk.file_path for hunk in found],
        file_path_bytes=[hunk.file_path_bytes for hunk in found],
        old_path=[hunk.old_path for hunk in found],
        change_kind=[hunk.change_kind for hunk in found],
        content_kind=[hunk.content_kind for hunk in found],
        language=[language_of(hunk.file_path) for hunk in found],
        added_lines=[hunk.added_lines for hunk in found],
        removed_lines=[hunk.removed_lines for hunk in found],
        diff=[hunk.diff for hunk in found],
        diff_truncated=[hunk.diff_truncated for hunk in found],
        semantic_text=texts,
        text_digest=[digest(text) for text in embedded],
        word_count=[counts.total() for counts in lane_words],
        symbol_word_count=[counts.total() for counts in symbol_words],
    )


def _symbol_rows(entries: Sequence[TouchedHunk]) -> pa.RecordBatch:
    pairs = [(number, symbol) for number, entry in enumerate(entries) for symbol in entry.touched]
    return batch_of(
        schema.HUNK_SYMBOLS,
        hunk_id=[number for number, _ in pairs],
        name=[symbol.name for _, symbol in pairs],
        parent=[symbol.parent for _, symbol in pairs],
        kind=[symbol.kind for _, symbol in pairs],
        confidence=[symbol.confidence for _, symbol in pairs],
    )


def _unreadable_rows(unreadable: Sequence[UnreadableObject]) -> pa.RecordBatch:
    return batch_of(
        schema.UNREADABLE,
        commit_sha=[entry.sha for entry in unreadable],
        reason=[entry.reason for entry in unreadable],
    )


def word_rows(documents: Sequence[Counter[str]]) -> pa.RecordBatch:
    """(document, term, frequency) of each document, numbered from 0, in the order of `documents`."""
    return batch_of(
        schema.WORDS,
        document=[number for number, counts in enumerate(documents) for _ in counts],
        term=[term for counts in documents for term in counts],
        frequency=[times for counts in documents for times in counts.values()],
    )


def batch_of(target: pa.Schema, **columns: Iterable[object]) -> pa.RecordBatch:
    """A record batch in a schema's own column order; a missing column is an error."""
    arrays = [pa.array(columns[field.name], type=field.type) for field in target]
    return pa.record_batch(arrays, schema=target)
