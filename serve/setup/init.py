"""Command `lineage init`: installation and removal of git hooks and of instructions for coding agents.

All changes are planned before the first is made, so that an error in a plan leaves all files unchanged. The
instructions, in AGENTS.md or CLAUDE.md, say when to use lineage and how to read its answers.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipeline.git.repository import Repository, open_repository
from serve import config
from serve.errors import BadRequest
from serve.repositories import find_index
from serve.setup import git_hooks
from serve.setup.file_edit import FileChange, ManagedSection, SectionMarkerError, read_file
from serve.setup.git_hooks import (
    HOOK_NAMES,
    BareRepository,
    OutsideRepository,
    UnsupportedHook,
    check_editable,
    find_hooks_directory,
    is_in_work_tree,
)
from stores.errors import LineageError

SECTION: Final = ManagedSection(b"<!-- lineage:start -->", b"<!-- lineage:end -->")

AGENT_INSTRUCTIONS: Final = b"""\
<!-- lineage:start -->
## History of this repository: lineage

A local index of this repository's commits answers questions that the code at HEAD cannot answer. Ask before you
decide, not after.

- **How was this done before?** Tool `find_pattern`, or `lineage query "retry a request with backoff"`.
  Ask before you write something that may have been done here already: a feature like an earlier one, a fix like an
  earlier fix, an entry in a configuration file. Describe the change in plain words; a `symbol` in backquotes,
  "in src/net/", "in Rust" or "last 3 months" narrow the search. The hits are ranked guesses: read a hit's diff
  before you follow it.
- **Why does this look the way it does?** Tool `explain_change`, or `lineage explain src/net/client.py --lines 40:60`.
  Ask before you change or delete code whose reason you do not know. The hits are exact: the commits that wrote
  these lines, newest first, with their messages.

- **When was this text added or removed?** Tool `search_changes`, or `lineage grep "retry("`, finds all commits that
  did so. `explain_change` with `symbol`, or `lineage trace NAME`, follows a function or class, also a deleted one,
  through renames. Tool `show_commit`, or `lineage show COMMIT [FILE]`, shows a commit, its diff or a file as it was.

No tool finds where something is defined or used now: search the files for that. If you do not have the tools, run the
commands with `--text`, which is shorter than JSON. The index is updated in the background after every commit.
If an answer says that the index is behind HEAD and you need the newest commits, run `lineage index --incremental`.
<!-- lineage:end -->"""

# Files of instructions, in order of preference. Most agents read AGENTS.md, which is created if no file exists. Some
# agents read only one of the other files.
FILE_NAMES: Final = ("AGENTS.md", "CLAUDE.md", "GEMINI.md", "AGENT.md")

# Files whose agents do not read the other files of FILE_NAMES, but follow a line `@FILE` that includes one of these.
INCLUDING_FILE_NAMES: Final = ("CLAUDE.md", "GEMINI.md")


class InvalidInstructionsFile(LineageError):
    """Error for a file that is not a regular file, or has a section without an end marker."""


def plan_instructions(repository: Repository) -> Iterator[FileChange]:
    """Plan to write the section into the file that has it, else the first existing file, else a new AGENTS.md.

    CLAUDE.md and GEMINI.md, if they exist and were not chosen, get a section with a line `@FILE` that includes the
    chosen file.
    """
    existing_names = [name for name in FILE_NAMES if os.path.lexists(repository.root / name)]
    names_with_section = [name for name in existing_names if _has_instructions(repository, name)]
    name = [*names_with_section, *existing_names, *FILE_NAMES][0]
    yield _plan_section(repository, name, AGENT_INSTRUCTIONS)
    for including_name in INCLUDING_FILE_NAMES:
        file = repository.root / including_name
        is_other_file = file.is_file() and file.resolve() != (repository.root / name).resolve()
        include_line = b"@" + name.encode()
        if is_other_file and include_line not in (read_file(file) or b""):
            section = b"\n".join((SECTION.start, include_line, SECTION.end))
            yield _plan_section(repository, including_name, section)


def _plan_section(repository: Repository, name: str, section: bytes) -> FileChange:
    """Plan to write the section, with its markers, into the file."""
    file = repository.root / name
    check_editable(repository, file, InvalidInstructionsFile, content_name="the instructions")
    before = read_file(file)
    if before is None:
        return FileChange(file, "created", section + b"\n")
    if not _has_section(repository, name):
        after = SECTION.insert_into(before, section, offset=len(before))
        return FileChange(file, "added", after)
    after = SECTION.update_in(before, section)
    if after == before:
        return FileChange(file, "unchanged")
    return FileChange(file, "updated", after)


def plan_instruction_removals(repository: Repository) -> list[FileChange]:
    """Plan to remove the section from each file that has it.

    A file that begins with the section and has nothing else is deleted, unless it is a symbolic link or HEAD has it.
    """
    return [_plan_section_removal(repository, name) for name in FILE_NAMES if _has_section(repository, name)]


def _plan_section_removal(repository: Repository, name: str) -> FileChange:
    """Plan to remove the section. The action is "deleted" if the whole file is deleted, else "removed"."""
    file = repository.root / name
    before = read_file(file) or b""
    after = SECTION.remove_from(before)
    is_created_by_lineage = not after and before.startswith(SECTION.start)
    # A link is kept, because deleting it would leave the section in its target.
    if not is_created_by_lineage or file.is_symlink() or repository.read_file_at_head(name) is not None:
        return FileChange(file, "removed", after)
    return FileChange(file, "deleted", is_deletion=True)


def _has_instructions(repository: Repository, name: str) -> bool:
    """Return whether the file has a section with the instructions, not a section that includes another file."""
    # Only the instructions name the tool `find_pattern`.
    return _has_section(repository, name) and b"find_pattern" in (repository.root / name).read_bytes()


def _has_section(repository: Repository, name: str) -> bool:
    file = repository.root / name
    if not file.is_file() or not is_in_work_tree(repository, file):
        return False
    try:
        return SECTION.is_in(read_file(file) or b"")
    except SectionMarkerError as error:
        raise InvalidInstructionsFile(f"{file}: {error.message}", hint=error.hint) from error


@dataclass(frozen=True, slots=True)
class InitOptions:
    """Options of `lineage init`."""

    write_agent_md: bool = False
    force: bool = False
    remove: bool = False


def initialize(path: Path, options: InitOptions) -> list[str]:
    """Install the hooks (and the agent instructions on request) in the repository at `path`, or remove them.

    Return the lines to print: each change, and what to do next.
    """
    if options.remove and (options.force or options.write_agent_md):
        raise BadRequest(
            "--remove cannot be combined with --force or --write-agent-md.",
            hint="Use --remove without other options to remove everything that `lineage init` wrote.",
        )
    repository = open_repository(path)
    changes = list(_plan_removal(repository) if options.remove else _plan_install(repository, options))
    for change in changes:
        change.apply()
        if options.remove and change.file.name in HOOK_NAMES:
            _remove_empty_directories(change.file.parent, repository)
    return [
        *_format_changes(changes, repository),
        *(() if options.remove else _format_next_steps(repository)),
    ]


def _remove_empty_directories(hooks_directory: Path, repository: Repository) -> None:
    """Remove the directory that `core.hooksPath` names, and its parents in the work tree, as far as they are empty.

    `init` may have created them. The directory of a submodule, which is in git's index, stays.
    """
    if hooks_directory == repository.common_dir / "hooks":
        return
    parents = hooks_directory.parents if is_in_work_tree(repository, hooks_directory) else ()
    with suppress(OSError):  # a directory has other files, or is a link
        for directory in (hooks_directory, *parents):
            path = os.path.relpath(os.path.realpath(directory), repository.root)
            if path == os.curdir or repository.is_in_index(os.fsencode(path)):
                return
            directory.rmdir()


def _plan_install(repository: Repository, options: InitOptions) -> Iterator[FileChange]:
    directory = find_hooks_directory(repository)
    post_commit, *optional_hooks = HOOK_NAMES
    plan_post_commit = git_hooks.plan_forced_install if options.force else git_hooks.plan_install
    yield plan_post_commit(directory / post_commit, repository)
    for name in optional_hooks:
        yield _plan_optional_hook(directory / name, repository)
    if options.write_agent_md:
        yield from plan_instructions(repository)


def _plan_optional_hook(file: Path, repository: Repository) -> FileChange:
    """Plan to install the hook, or to skip it if it is unsupported.

    Skipping is harmless: the index is updated after the next commit, by the post-commit hook.
    """
    try:
        return git_hooks.plan_install(file, repository)
    except UnsupportedHook as error:
        return FileChange(file, "skipped", notes=(error.message,))


def _plan_removal(repository: Repository) -> Iterator[FileChange]:
    for directory in _list_hooks_directories(repository):
        for name in HOOK_NAMES:
            if change := git_hooks.plan_removal(directory / name, repository):
                yield change
    if not repository.is_bare:
        yield from plan_instruction_removals(repository)


def _list_hooks_directories(repository: Repository) -> list[Path]:
    """Return the directories that may have lineage's hooks: git's default, and the value of `core.hooksPath`."""
    directories = [repository.common_dir / "hooks"]
    with suppress(OutsideRepository, BareRepository):
        directories.append(find_hooks_directory(repository))
    return list(dict.fromkeys(directories))


def _format_changes(changes: list[FileChange], repository: Repository) -> Iterator[str]:
    """Yield a line for each change, its notes, and a warning if hooks are in the work tree."""
    if not changes:
        yield f"nothing to remove in {repository.root}"
    for change in changes:
        yield f"{change.action:<12} {_format_path(change.file, repository)}"
        yield from (f"{'':<12} {note}" for note in change.notes)
    if any(is_in_work_tree(repository, change.file) for change in changes if change.file.name in HOOK_NAMES):
        yield "These hooks are in the work tree. If you commit them, they also run for others who have lineage."


def _format_path(file: Path, repository: Repository) -> str:
    return str(file.relative_to(repository.root) if file.is_relative_to(repository.root) else file)


def _format_next_steps(repository: Repository) -> Iterator[str]:
    """Yield a sentence if there is no index yet, and one if the hooks cannot find the program."""
    if find_index(config.load_settings().home, repository) is None:
        yield "Not indexed yet. Run `lineage index` now, or let the next commit start it in the background."
    if shutil.which("lineage") is None:
        yield "`lineage` is not on PATH. The hooks do nothing until it is."
