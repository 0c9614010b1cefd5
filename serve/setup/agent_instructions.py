"""Instructions for coding agents in AGENTS.md or CLAUDE.md: when to use lineage and how to read its answers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from pipeline.git.repository import Repository
from serve.setup.file_edit import FileChange, ManagedSection, SectionMarkerError, read_file
from serve.setup.git_hooks import check_editable, is_inside_repository
from stores.errors import LineageError

SECTION: Final = ManagedSection(b"<!-- lineage:start -->", b"<!-- lineage:end -->", leading_line_breaks=2)

AGENT_INSTRUCTIONS: Final = b"""\
<!-- lineage:start -->
## History of this repository: lineage

A local index of this repository's commits answers questions that the code at HEAD cannot answer. Ask before you
decide, not after.

- **How was this done before?** Tool `find_pattern`, or `lineage query --query "retry a request with backoff"`.
  Ask before you write something that may have been done here already: a feature like an earlier one, a fix like an
  earlier fix, an entry in a configuration file. Describe the change in plain words; a `symbol` in backquotes,
  "in src/net/", "in Rust" or "last 3 months" narrow the search. The hits are ranked guesses: read a hit's diff
  before you follow it.
- **Why does this look the way it does?** Tool `explain_change`, or `lineage explain src/net/client.py --lines 40:60`.
  Ask before you change or delete code whose reason you do not know. The hits are exact: the commits that wrote
  these lines, newest first, with their messages.

- **When was this text added or removed, in all commits?** Tool `search_changes`, or `lineage grep "retry("`. It is
  exact and counted. `explain_change` with `symbol`, or `lineage trace NAME`, follows a function or class, also a
  deleted one, through renames. Tool `show_commit`, or `lineage show COMMIT [FILE]`, shows a commit, its diff or a file
  as it was.

No tool finds where something is defined or used now: search the files for that. Without the tools, the commands answer
the same questions, as JSON. The index is updated in the background after every commit. If an answer says that the
index is behind HEAD and you need the newest commits, run `lineage index --incremental`.
<!-- lineage:end -->"""

# In order of preference. Most agents read the first, which is created if no file exists; some read only another one.
FILE_NAMES: Final = ("AGENTS.md", "CLAUDE.md", "GEMINI.md", "AGENT.md")

# Files of agents that read no other file. In them, a line `@FILE` includes another file.
INCLUDING_FILE_NAMES: Final = ("CLAUDE.md", "GEMINI.md")


class InvalidInstructionsFile(LineageError):
    """Error for a file that the section cannot be inserted into: not a regular file, or without an end marker."""


def plan_install(repository: Repository) -> Iterator[FileChange]:
    """Plan to write the section: into the file that has it, else the first existing file, else a new AGENTS.md.

    Other existing files whose agents do not read that one get a section that includes it, if they do not yet.
    """
    existing_names = [name for name in FILE_NAMES if os.path.lexists(repository.root / name)]
    names_with_section = [name for name in existing_names if _has_instructions(repository, name)]
    name = next(iter([*names_with_section, *existing_names, *FILE_NAMES]))
    yield _plan_section(repository, name, AGENT_INSTRUCTIONS)
    for other in INCLUDING_FILE_NAMES:
        file = repository.root / other
        is_other_file = file.is_file() and file.resolve() != (repository.root / name).resolve()
        include = b"@" + name.encode()
        if is_other_file and include not in (read_file(file) or b""):
            reference = b"\n".join((SECTION.start, include, SECTION.end))
            yield _plan_section(repository, other, reference)


def _plan_section(repository: Repository, name: str, text: bytes) -> FileChange:
    file = repository.root / name
    check_editable(repository, file, InvalidInstructionsFile, content_name="the instructions")
    before = read_file(file)
    if before is None:
        return FileChange(file, "created", text + b"\n")
    if not _has_section(repository, name):
        after = SECTION.insert_into(before, text, offset=len(before))
        return FileChange(file, "added", after)
    after = SECTION.update_in(before, text)
    if after == before:
        return FileChange(file, "unchanged")
    return FileChange(file, "updated", after)


def plan_removals(repository: Repository) -> list[FileChange]:
    """Plan to remove the section from each file that has it.

    A file with nothing else in it is deleted, unless it is a symbolic link or HEAD has it.
    """
    return [_plan_removal(repository, name) for name in FILE_NAMES if _has_section(repository, name)]


def _plan_removal(repository: Repository, name: str) -> FileChange:
    file = repository.root / name
    after = SECTION.remove_from(read_file(file) or b"")
    # Deleting a link would leave its target, which has the section.
    if after.strip() or file.is_symlink() or repository.read_file_at_head(name) is not None:
        return FileChange(file, "removed", after)
    return FileChange(file, "deleted", is_deletion=True)


def _has_instructions(repository: Repository, name: str) -> bool:
    """Return whether the file has the section with the instructions, not one that includes another file."""
    return _has_section(repository, name) and b"find_pattern" in (repository.root / name).read_bytes()


def _has_section(repository: Repository, name: str) -> bool:
    file = repository.root / name
    if not file.is_file() or not is_inside_repository(repository, file):
        return False
    try:
        return SECTION.is_in(read_file(file) or b"")
    except SectionMarkerError as error:
        raise InvalidInstructionsFile(f"{file}: {error.message}", hint=error.hint) from error
