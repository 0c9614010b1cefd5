"""Command `lineage plan`: survey of the history, suggested ignore patterns, edits of `.lineageignore`.

The suggestions are a managed section above the user's own lines. Later lines take precedence, so the user's lines win.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

from pipeline.directory_stats import ROOT, DirectoryStats
from pipeline.git.errors import MISSING_OBJECT_HINT
from pipeline.git.repository import Repository, open_repository
from pipeline.ignore import IGNORE_FILE, parse_patterns
from pipeline.ignore_suggestions import IgnorePlan, PatternEffect, Suggestion, plan_ignore_patterns
from serve.errors import BadRequest
from serve.setup.file_edit import FileChange, ManagedSection, SectionMarkerError, read_file
from serve.setup.git_hooks import BareRepository, check_editable
from serve.text import SHA_DIGITS, escape_line, format_commit_count, format_count
from stores.errors import LineageError

SECTION: Final = ManagedSection(
    b"# >>> lineage plan (generated: write your own lines below the end) >>>",
    b"# <<< lineage plan <<<",
)
# Suffix of the copy that --replace makes of the old file if HEAD does not have its content.
BACKUP_SUFFIX: Final = ".bak"

# Characters of a bar that stands for 100 %.
BAR_WIDTH: Final = 20
# Maximum number of directories in the table. Further directories have too small shares to matter.
MAX_DIRECTORIES: Final = 20
# Longest directory name in the table, in characters.
MAX_NAME_WIDTH: Final = 32


class InvalidIgnoreFile(LineageError):
    """Error for an ignore file that is not a regular file or has a section without an end marker."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Options of `lineage plan`."""

    write: bool = False
    replace: bool = False


def run_plan(path: Path, options: PlanOptions) -> list[str]:
    """Survey the repository at `path` and write the suggestions on request. Return the lines to print."""
    if options.replace and not options.write:
        raise BadRequest(
            "--replace needs --write.",
            hint="Give `--write --replace` to overwrite the whole .lineageignore. Without --write nothing is written.",
        )
    repository = open_repository(path)
    if options.write:
        check_writable(repository)
    user_patterns = () if options.replace else parse_user_patterns(read_ignore_file(repository))
    plan = plan_ignore_patterns(repository, user_patterns)
    return [*format_plan(plan), *_write_suggestions(repository, plan, options)]


def _write_suggestions(repository: Repository, plan: IgnorePlan, options: PlanOptions) -> Iterator[str]:
    if not options.write:
        if note := _describe_pending_change(repository, plan.suggestions):
            yield ""
            yield note
        return
    plan_changes = plan_replacement if options.replace else plan_merge
    changes = plan_changes(repository, plan.suggestions)
    yield ""
    for change in changes:
        change.apply()
        yield f"{change.action:<12} {change.file.name}"
        yield from (f"{'':<12} {note}" for note in change.notes)
    if changes[-1].action != "unchanged":
        yield "Future index runs use it. `lineage index --rebuild --yes` applies it to the whole history."


def _describe_pending_change(repository: Repository, suggestions: Sequence[Suggestion]) -> str:
    """Return what `--write` would do; empty if there are no suggestions and the file has no section of lineage."""
    (change,) = plan_merge(repository, suggestions)
    if change.action == "unchanged":
        return f"{IGNORE_FILE} has these lines already." if suggestions else ""
    verb_phrase = (
        "puts these lines into lineage's section of"
        if suggestions
        else "removes lineage's lines, which are no longer suggested, from"
    )
    return f"Nothing was written. `lineage plan --write` {verb_phrase} {IGNORE_FILE}."


def parse_user_patterns(content: bytes | None) -> tuple[str, ...]:
    """Return the ignore patterns in the content of a file, except those in lineage's section."""
    try:
        return parse_patterns(SECTION.remove_from(content or b""))
    except SectionMarkerError as error:
        raise InvalidIgnoreFile(f"{IGNORE_FILE}: {error.message}", hint=error.hint) from error


def read_ignore_file(repository: Repository) -> bytes | None:
    """Return the content of `.lineageignore` (in a bare repository, of the file at HEAD); None if there is no file."""
    if repository.is_bare:
        return repository.read_file_at_head(IGNORE_FILE)
    file = repository.root / IGNORE_FILE
    return read_file(file) if file.is_file() else None


def check_writable(repository: Repository) -> None:
    """Raise an error if `.lineageignore` cannot be written, before the slow survey of the history."""
    file = repository.root / IGNORE_FILE
    if repository.is_bare:
        raise BareRepository(
            f"{repository.root} is a bare repository, where {IGNORE_FILE} is read from HEAD.",
            hint='Run "lineage plan --write" in a work tree, commit the file and push it.',
        )
    check_editable(repository, file, InvalidIgnoreFile, content_name="the patterns")


def plan_merge(repository: Repository, suggestions: Sequence[Suggestion]) -> list[FileChange]:
    """Plan to insert or update the section with the suggestions, or to remove it if there are none."""
    file, before = repository.root / IGNORE_FILE, read_ignore_file(repository)
    old_content, section = before or b"", _format_section(suggestions)
    if not suggestions:
        action, after = "updated", SECTION.remove_from(old_content)
    elif SECTION.is_in(old_content):
        action, after = "updated", SECTION.update_in(old_content, section)
    elif old_content:
        action, after = "added", SECTION.insert_into(old_content, section, offset=0)
    else:
        action, after = "created" if before is None else "added", section + b"\n"
    if after == old_content:
        return [FileChange(file, "unchanged")]
    return [FileChange(file, action, after)]


def plan_replacement(repository: Repository, suggestions: Sequence[Suggestion]) -> list[FileChange]:
    """Plan to replace the content by the suggestions, after a backup if git does not have the old content."""
    file, before = repository.root / IGNORE_FILE, read_ignore_file(repository)
    after = _format_section(suggestions) + b"\n" if suggestions else b""
    if (before or b"") == after:
        return [FileChange(file, "unchanged")]
    change = FileChange(file, "created" if before is None else "replaced", after)
    if not before or before == repository.read_file_at_head(IGNORE_FILE):
        return [change]
    backup = _find_unused_path(file.with_name(IGNORE_FILE + BACKUP_SUFFIX))
    note = f"copy of the old {IGNORE_FILE}, which git does not have"
    return [FileChange(backup, "backed up", before, notes=(note,)), change]


def _format_section(suggestions: Sequence[Suggestion]) -> bytes:
    # Omit the text after the colon of a reason: its figures would change with every commit.
    lines = [
        line
        for suggestion in suggestions
        for line in (f"# {suggestion.reason.partition(':')[0]}", suggestion.pattern)
    ]
    return b"\n".join((SECTION.start, *(os.fsencode(line) for line in lines), SECTION.end))


def _find_unused_path(file: Path) -> Path:
    """Return the path if no file has it, else the path with the first unused number appended."""
    if not os.path.lexists(file):
        return file
    numbered_paths = (file.with_name(f"{file.name}{number}") for number in count(1))
    return next(path for path in numbered_paths if not os.path.lexists(path))


def format_plan(plan: IgnorePlan) -> Iterator[str]:
    """Yield the lines of the survey: totals, the share of each directory, suggested patterns."""
    head = plan.head[:SHA_DIGITS]
    hunks = format_count(plan.hunks, "hunk")
    yield f"{format_commit_count(plan.commits)} up to {head}, {hunks} (one for each file that a commit changes)"
    if plan.ignored_hunks:
        yield f"{plan.ignored_hunks:,} more are already excluded by defaults, git attributes or your .lineageignore"
    if plan.unreadable_commits:
        commits = format_commit_count(plan.unreadable_commits)
        yield f"{commits} could not be read. {MISSING_OBJECT_HINT}"
    yield ""
    yield from _format_table(plan)
    yield ""
    yield from _format_suggestions(plan)


def _format_table(plan: IgnorePlan) -> Iterator[str]:
    directories = plan.directories[:MAX_DIRECTORIES]
    width = max(map(len, ["directory", *map(_format_directory_name, directories)]))
    share_width = BAR_WIDTH + len(" 100%")
    yield f"{'directory':<{width}}  {'commits':>9}  {'share':<{share_width}}  {'hunks':>9}  mostly"
    for directory in directories:
        share = directory.commits / max(plan.commits, 1)
        bar = f"{'█' * round(share * BAR_WIDTH):<{BAR_WIDTH}} {share:>4.0%}"
        counts = f"{directory.commits:>9,}  {bar}  {directory.hunks:>9,}"
        yield f"{_format_directory_name(directory):<{width}}  {counts}  {_find_main_file_kind(directory)}"
    if len(plan.directories) > MAX_DIRECTORIES:
        yield f"directories not listed: {len(plan.directories) - MAX_DIRECTORIES:,}"
    yield "A commit counts in each directory it changes, so the shares add up to more than 100 %."


def _format_suggestions(plan: IgnorePlan) -> Iterator[str]:
    if not plan.suggestions:
        yield "No suggestions: no large directory has only copied or generated files, data or prose."
        return
    patterns = [escape_line(suggestion.pattern) for suggestion in plan.suggestions]
    width = max(map(len, patterns))
    yield "Suggested for .lineageignore:"
    for pattern, suggestion in zip(patterns, plan.suggestions, strict=True):
        yield f"  {pattern:<{width}}  {_format_effect(suggestion.effect, plan)}"
        yield f"  {'':<{width}}  {suggestion.reason}"
    if len(plan.suggestions) > 1:
        yield f"  {'together':<{width}}  {_format_effect(plan.total_effect, plan)}"


def _format_effect(effect: PatternEffect, plan: IgnorePlan) -> str:
    share = effect.hunks / max(plan.hunks, 1)
    return (
        f"excludes {format_count(effect.hunks, 'hunk')} ({share:.0%} of all) in {format_commit_count(effect.commits)}, "
        f"{effect.skipped_commits:,} of these commits entirely"
    )


def _format_directory_name(directory: DirectoryStats) -> str:
    name = "(top level)" if directory.path == ROOT else escape_line(directory.path)
    return name if len(name) <= MAX_NAME_WIDTH else f"{name[: MAX_NAME_WIDTH - 1]}…"


def _find_main_file_kind(directory: DirectoryStats) -> str:
    """Return the most frequent kind of the directory's files; "generated" if most inspected files are."""
    if directory.inspected_files and directory.generated_files / directory.inspected_files > 0.5:
        return "generated"
    kinds = {"code": directory.code_files, "prose": directory.prose_files, "data": directory.data_files}
    kinds["markup, settings, other"] = directory.files - sum(kinds.values())
    return max(kinds, key=lambda kind: kinds[kind])
