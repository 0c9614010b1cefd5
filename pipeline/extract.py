"""Worker task: read batches of commits, and build all of their rows except the vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.file_classification import detect_language
from pipeline.git.repository import Commit, Repository, UnreadableObject, open_repository
from pipeline.hunks import Hunk, build_message_hunk, extract_hunks
from pipeline.profile import Profile
from pipeline.syntax.touched_symbols import TouchedSymbol, TouchedSymbolFinder
from pipeline.text import build_diff_text, build_full_text, build_semantic_text, compute_digest, count_terms
from stores import schema


class PathFilter(Protocol):
    """Filter of changed paths: ignore rules, or in a refresh of the history the paths of the recorded hunks."""

    def is_ignored(self, path: str) -> bool:
        """Return whether the path is excluded: its changes get no hunk."""


@dataclass(frozen=True, slots=True)
class ExtractTask:
    """Consecutive batches of commits to extract. A worker receives the task pickled, and opens the repository itself.

    `repository`: path for `open_repository`. `path_filter`: excludes changed paths. `batches`: SHAs of each batch.
    `diff_only`: only the diff of a hunk will be embedded (cache mode `diff`).
    """

    repository: Path
    path_filter: PathFilter
    batches: tuple[tuple[str, ...], ...]
    diff_only: bool = False


@dataclass(frozen=True, slots=True)
class ExtractedBatch:
    """Rows of a batch, in the schemas of `stores.schema`. Hunks are numbered from 0 in each batch.

    `shas`: all commits of the batch, also those without rows. `profile`: times of the phases of its extraction.
    """

    shas: tuple[str, ...]
    commits: pa.RecordBatch
    hunks: pa.RecordBatch
    hunk_symbols: pa.RecordBatch
    hunk_terms: pa.RecordBatch
    symbol_terms: pa.RecordBatch
    unreadable_commits: pa.RecordBatch
    profile: Profile

    @property
    def hunk_count(self) -> int:
        """Number of hunks of files. Hunks that have only the message of a commit are not counted."""
        return pc.sum(pc.not_equal(self.hunks["content_kind"], "message")).as_py() or 0


@dataclass(frozen=True, slots=True)
class CommitHunk:
    """Hunk of a commit, with the symbols that it touches."""

    commit: Commit
    hunk: Hunk
    symbols: tuple[TouchedSymbol, ...]

    @property
    def symbol_names(self) -> list[str]:
        """Names of the touched symbols, each once."""
        return list(dict.fromkeys(symbol.name for symbol in self.symbols))


@dataclass(slots=True)
class BatchContents:
    """Commits and hunks read so far from a batch."""

    commits: list[Commit] = field(default_factory=list)
    hunks: list[CommitHunk] = field(default_factory=list)
    unreadable_commits: list[UnreadableObject] = field(default_factory=list)
    profile: Profile = field(default_factory=Profile)


def extract_batches(task: ExtractTask) -> tuple[ExtractedBatch, ...]:
    """Return the rows of each batch. A commit that cannot be read has only a row in `unreadable_commits`."""
    repository = open_repository(task.repository)
    symbol_finder = TouchedSymbolFinder()  # one for all batches, because it caches parsed versions of files
    return tuple(
        _extract_batch(repository, shas, task.path_filter, symbol_finder, diff_only=task.diff_only)
        for shas in task.batches
    )


def _extract_batch(
    repository: Repository,
    shas: tuple[str, ...],
    path_filter: PathFilter,
    symbol_finder: TouchedSymbolFinder,
    *,
    diff_only: bool,
) -> ExtractedBatch:
    contents = BatchContents()
    for sha in shas:
        try:
            _read_commit(repository, sha, path_filter, symbol_finder, contents)
        except UnreadableObject as error:
            contents.unreadable_commits.append(UnreadableObject(sha, error.reason))
    return _build_batch(shas, contents, diff_only=diff_only)


def _read_commit(
    repository: Repository,
    sha: str,
    path_filter: PathFilter,
    symbol_finder: TouchedSymbolFinder,
    contents: BatchContents,
) -> None:
    """Add a commit and its hunks to `contents`, unless all files that it changes are ignored.

    A commit without changed files gets a hunk that has only its message.
    """
    profile = contents.profile
    with profile.measure("diff"):
        commit = repository.read_commit(sha)
        changes = extract_hunks(repository, sha, path_filter.is_ignored)
    if changes.all_ignored:
        return
    hunks = changes.hunks or (build_message_hunk(changes.merged_paths, is_merge=len(commit.parents) > 1),)
    with profile.measure("parse"):
        commit_hunks = [CommitHunk(commit, hunk, symbol_finder.find(hunk, repository)) for hunk in hunks]
    contents.commits.append(commit)
    contents.hunks.extend(commit_hunks)
    profile.diff_bytes += sum(len(hunk.diff.encode("utf-8", "surrogatepass")) for hunk in changes.hunks)
    profile.added_lines += sum(hunk.added_lines for hunk in changes.hunks)


def _build_batch(shas: tuple[str, ...], contents: BatchContents, *, diff_only: bool) -> ExtractedBatch:
    with contents.profile.measure("text"):
        hunk_terms = [_count_hunk_terms(commit_hunk) for commit_hunk in contents.hunks]
        symbol_terms = [count_terms(" ".join(commit_hunk.symbol_names)) for commit_hunk in contents.hunks]
        return ExtractedBatch(
            shas=shas,
            commits=_build_commit_rows(contents.commits),
            hunks=_build_hunk_rows(contents.hunks, hunk_terms, symbol_terms, diff_only=diff_only),
            hunk_symbols=_build_symbol_rows(contents.hunks),
            hunk_terms=build_term_rows(hunk_terms),
            symbol_terms=build_term_rows(symbol_terms),
            unreadable_commits=_build_unreadable_rows(contents.unreadable_commits),
            profile=contents.profile,
        )


def _count_hunk_terms(commit_hunk: CommitHunk) -> Counter[str]:
    return count_terms(
        build_full_text(
            message=commit_hunk.commit.message,
            path=commit_hunk.hunk.file_path,
            symbols=commit_hunk.symbol_names,
            added=commit_hunk.hunk.added_text,
            removed=commit_hunk.hunk.removed_text,
        )
    )


def _build_hunk_semantic_text(commit_hunk: CommitHunk) -> str:
    return build_semantic_text(
        message=commit_hunk.commit.message,
        path=commit_hunk.hunk.file_path,
        language=detect_language(commit_hunk.hunk.file_path),
        symbols=commit_hunk.symbol_names,
        change_kind=commit_hunk.hunk.change_kind,
        added=commit_hunk.hunk.added_text,
        removed=commit_hunk.hunk.removed_text,
    )


def _build_hunk_diff_text(hunk: Hunk) -> str:
    return build_diff_text(diff=hunk.diff, path=hunk.file_path, change_kind=hunk.change_kind)


def _build_commit_rows(commits: Sequence[Commit]) -> pa.RecordBatch:
    return build_record_batch(
        schema.COMMITS,
        commit_sha=[commit.sha for commit in commits],
        parents=[list(commit.parents) for commit in commits],
        author_name=[commit.author_name for commit in commits],
        author_email=[commit.author_email for commit in commits],
        author_date=[commit.author_date for commit in commits],
        commit_date=[commit.commit_date for commit in commits],
        message=[commit.message for commit in commits],
        message_digest=[compute_digest(commit.message) for commit in commits],
    )


def _build_hunk_rows(
    commit_hunks: Sequence[CommitHunk],
    hunk_terms: Sequence[Counter[str]],
    symbol_terms: Sequence[Counter[str]],
    *,
    diff_only: bool,
) -> pa.RecordBatch:
    semantic_texts = [_build_hunk_semantic_text(commit_hunk) for commit_hunk in commit_hunks]
    embedded_texts = (
        [_build_hunk_diff_text(commit_hunk.hunk) for commit_hunk in commit_hunks]
        if diff_only
        else semantic_texts
    )
    hunks = [commit_hunk.hunk for commit_hunk in commit_hunks]
    return build_record_batch(
        schema.HUNKS,
        hunk_id=range(len(commit_hunks)),
        commit_sha=[commit_hunk.commit.sha for commit_hunk in commit_hunks],
        file_path=[hunk.file_path for hunk in hunks],
        file_path_bytes=[hunk.file_path_bytes for hunk in hunks],
        old_path=[hunk.old_path for hunk in hunks],
        change_kind=[hunk.change_kind for hunk in hunks],
        content_kind=[hunk.content_kind for hunk in hunks],
        language=[detect_language(hunk.file_path) for hunk in hunks],
        added_lines=[hunk.added_lines for hunk in hunks],
        removed_lines=[hunk.removed_lines for hunk in hunks],
        diff=[hunk.diff for hunk in hunks],
        diff_truncated=[hunk.diff_truncated for hunk in hunks],
        semantic_text=semantic_texts,
        text_digest=[compute_digest(text) for text in embedded_texts],
        word_count=[counts.total() for counts in hunk_terms],
        symbol_word_count=[counts.total() for counts in symbol_terms],
    )


def _build_symbol_rows(commit_hunks: Sequence[CommitHunk]) -> pa.RecordBatch:
    pairs = [
        (number, symbol) for number, commit_hunk in enumerate(commit_hunks) for symbol in commit_hunk.symbols
    ]
    return build_record_batch(
        schema.HUNK_SYMBOLS,
        hunk_id=[number for number, _ in pairs],
        name=[symbol.name for _, symbol in pairs],
        parent=[symbol.parent for _, symbol in pairs],
        kind=[symbol.kind for _, symbol in pairs],
        confidence=[symbol.confidence for _, symbol in pairs],
    )


def _build_unreadable_rows(errors: Sequence[UnreadableObject]) -> pa.RecordBatch:
    return build_record_batch(
        schema.UNREADABLE,
        commit_sha=[error.sha for error in errors],
        reason=[error.reason for error in errors],
    )


def build_term_rows(documents: Sequence[Counter[str]]) -> pa.RecordBatch:
    """Return (document, term, frequency) rows. `documents`: frequency of each term in each hunk or symbol."""
    return build_record_batch(
        schema.DOCUMENT_TERMS,
        document=[number for number, counts in enumerate(documents) for _ in counts],
        term=[term for counts in documents for term in counts],
        frequency=[frequency for counts in documents for frequency in counts.values()],
    )


def build_record_batch(row_schema: pa.Schema, **columns: Iterable[object]) -> pa.RecordBatch:
    """Return a record batch of columns, in the order of the schema. Raises KeyError if a column is missing."""
    arrays = [pa.array(columns[column.name], type=column.type) for column in row_schema]
    return pa.record_batch(arrays, schema=row_schema)
