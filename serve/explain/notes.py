"""Sentences about the limitations of an explanation, and hints about the index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from pipeline.git.changes import decode_path
from pipeline.git.git_cli import GitProgram
from pipeline.git.repository import Repository
from serve.explain.blame import BlamedLine, BlameFailed, BlameIgnoreRevs
from serve.explain.file_history import Enrichment, FileHistoryReader
from serve.explain.target import Target
from serve.explain_types import ExplainRequest
from serve.index_status import build_index_hints
from serve.text import format_ranges

# Similar file names to suggest. Nobody reads a longer list.
MAX_SUGGESTIONS: Final = 3
# Ranges of lines to list. More of them mean a rewrite of the file, which the first ones already show.
MAX_LINE_RANGES: Final = 6


@dataclass(frozen=True, slots=True)
class Coverage:
    """Numbers of blamed lines: all, those whose commit an index run can index, and those whose commit is indexed."""

    lines: int
    indexable: int
    indexed: int

    @property
    def share(self) -> float:
        """Share of the lines whose commit is in the index."""
        return round(self.indexed / self.lines, 6) if self.lines else 0.0


def describe_empty_range(target: Target, request: ExplainRequest) -> str:
    """Say why the requested range has no lines; return an empty text if it has lines."""
    count = len(target.lines)
    if not count:
        return f"{target.display_path} is empty."
    if request.line_start > count:
        return f"{target.display_path} has {_format_count(count, 'line')}: the range starts after its end."
    return ""


def describe_blame_failure(failure: BlameFailed, repository: Repository) -> str:
    """Say why `git blame` failed."""
    if repository.is_partial_clone:
        return (
            f"git could not read the history: {failure.reason}. "
            "This partial clone lacks objects, and lineage does not fetch them."
        )
    return f"git blame failed: {failure.reason}."


def describe_line_limitations(lines: Sequence[BlamedLine], repository: Repository) -> Iterator[str]:
    """Yield sentences about uncommitted lines, and about lines blamed on the oldest commits of a shallow clone."""
    uncommitted_lines = [line.number for line in lines if not line.is_committed]
    if uncommitted_lines:
        yield f"{_format_lines(uncommitted_lines)} not committed yet."
    boundary_lines = [line.number for line in lines if line.origin.commit_sha in repository.shallow_boundary]
    if boundary_lines:
        yield (
            f"The history of this shallow clone ends: {_format_lines(boundary_lines).lower()} shown at its oldest "
            "commit and may be older. `git fetch --unshallow` gets the rest."
        )


def describe_file_limitations(
    target: Target, ignore_revs: BlameIgnoreRevs, repository: Repository, git: GitProgram
) -> Iterator[str]:
    """Yield sentences about the file, invalid lines of `.git-blame-ignore-revs`, and git filters that do not run."""
    if target.note:
        yield target.note
    if ignore_revs.note and target.content is not None:
        yield ignore_revs.note
    if target.is_missing or target.revision:
        return
    driver = repository.get_attribute(target.display_path, "filter")
    if isinstance(driver, str) and any(
        name.rpartition(".")[0] == f"filter.{driver}" for name in git.filter_settings
    ):
        yield (
            f"git's filter {driver!r} was not run on this file: lines that it changes count as not committed."
        )


def describe_enrichment_limitation(
    reader: FileHistoryReader, enrichment: Enrichment, path: str
) -> str | None:
    """Say which data the index could not add; return None if it added all."""
    if enrichment.error:
        return f"The index could not be read. {enrichment.error}"
    if reader.index is None:
        return "There is no index, so coverage and related commits are unknown."
    if reader.status.commits_behind:
        commits = _format_count(reader.status.commits_behind, "commit")
        return f"The index is {commits} behind HEAD: related commits may be missing."
    if not enrichment.has_file_history:
        return f"The index has no change of {path}, so there are no related commits."
    return None


def describe_missing_index(reader: FileHistoryReader) -> str:
    """Say what the evolution of lines lacks without an index, or with one that cannot be read."""
    reason = "The index cannot be read" if reader.error else "There is no index"
    remedy = "" if reader.error else " Run `lineage index`."
    return f"{reason}, so restored lines and some possible earlier commits are missing.{remedy}"


def build_hint(reader: FileHistoryReader, enrichment: Enrichment, coverage: Coverage) -> str | None:
    """Say what the user can do about the index; return None if nothing is to be done."""
    if enrichment.error:
        return enrichment.error
    if reader.status.verdict is None:
        if not reader.status.commits_behind:
            return "The repository has no commits yet."
        return (
            "This repository is not indexed yet. Blame needs no index; "
            "run `lineage index` for related commits and `lineage query`."
        )
    hints = list(build_index_hints(reader.status))
    if coverage.indexed < coverage.indexable and not reader.status.commits_behind:
        hints.append("Some lines come from commits that are not indexed: run `lineage index`.")
    return " ".join(hints) or None


def find_similar_files(path: bytes, head: str, git: GitProgram) -> list[str]:
    """Return files of HEAD with the same name elsewhere, or else with a similar name in the same directory."""
    # In a partial clone, git may fail at a missing directory. The files that it listed before are still useful.
    files = git.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", head).stdout.split(b"\0")
    directory, _, name = path.rpartition(b"/")
    same_name_files = [file for file in files if file.rpartition(b"/")[2].lower() == name.lower()]
    if same_name_files:
        return [decode_path(file) for file in same_name_files[:MAX_SUGGESTIONS]]
    siblings = [decode_path(file) for file in files if file and file.rpartition(b"/")[0] == directory]
    return get_close_matches(decode_path(path), siblings, n=MAX_SUGGESTIONS, cutoff=0.8)


def _format_lines(numbers: Sequence[int]) -> str:
    """Return a subject and verb for a sentence about lines, such as "Lines 3-7, 9 are"."""
    ranges = format_ranges(numbers)
    text = ", ".join(ranges[:MAX_LINE_RANGES]) + (" and others" if len(ranges) > MAX_LINE_RANGES else "")
    return f"Line {text} is" if len(numbers) == 1 else f"Lines {text} are"


def _format_count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
