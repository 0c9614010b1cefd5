"""Command `lineage init`: installation and removal of git hooks and agent instructions.

All changes are planned before the first is made, so that an error in a plan leaves all files unchanged.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pipeline.git.repository import Repository, open_repository
from serve import config
from serve.errors import BadRequest
from serve.repositories import find_index
from serve.setup import agent_instructions, git_hooks
from serve.setup.file_edit import FileChange
from serve.setup.git_hooks import (
    HOOK_NAMES,
    BareRepository,
    OutsideRepository,
    UnsupportedHook,
    find_hooks_directory,
)


@dataclass(frozen=True, slots=True)
class InitOptions:
    """Options of `lineage init`."""

    write_agent_md: bool = False
    force: bool = False
    remove: bool = False


def initialize(path: Path, options: InitOptions) -> list[str]:
    """Install the hooks (and the agent instructions on request) in the repository at `path`, or remove them.

    Return the lines to print: each changed file, and what to do next.
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
    return [
        *_format_changes(changes, repository),
        *(() if options.remove else _format_next_steps(repository)),
    ]


def _plan_install(repository: Repository, options: InitOptions) -> Iterator[FileChange]:
    directory = find_hooks_directory(repository)
    first_hook, *other_hooks = HOOK_NAMES
    plan_first = git_hooks.plan_forced_install if options.force else git_hooks.plan_install
    yield plan_first(directory / first_hook, repository)
    for name in other_hooks:
        yield _plan_optional_hook(directory / name, repository)
    if options.write_agent_md:
        yield from agent_instructions.plan_install(repository)


def _plan_optional_hook(file: Path, repository: Repository) -> FileChange:
    """Plan to install the hook, or skip it if that is not possible. The next commit updates the index anyway."""
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
        yield from agent_instructions.plan_removals(repository)


def _list_hooks_directories(repository: Repository) -> list[Path]:
    """Return the directories that may have lineage's hooks: git's default, and the one of `core.hooksPath`."""
    directories = [repository.common_dir / "hooks"]
    with suppress(OutsideRepository, BareRepository):
        directories.append(find_hooks_directory(repository))
    return list(dict.fromkeys(directories))


def _format_changes(changes: list[FileChange], repository: Repository) -> Iterator[str]:
    """Yield a line for each changed file, and its notes."""
    if not changes:
        yield f"nothing to remove in {repository.root}"
    for change in changes:
        yield f"{change.action:<12} {_format_path(change.file, repository)}"
        yield from (f"{'':<12} {note}" for note in change.notes)
    if any(_is_in_work_tree(change.file, repository) for change in changes if change.file.name in HOOK_NAMES):
        yield "These hooks are in the work tree. If you commit them, they also run for others who have lineage."


def _format_path(file: Path, repository: Repository) -> str:
    return str(file.relative_to(repository.root) if file.is_relative_to(repository.root) else file)


def _is_in_work_tree(file: Path, repository: Repository) -> bool:
    resolved_path = file.resolve()
    return resolved_path.is_relative_to(repository.root) and not resolved_path.is_relative_to(
        repository.common_dir
    )


def _format_next_steps(repository: Repository) -> Iterator[str]:
    """Yield a sentence if there is no index yet, and one if the hooks cannot find the program."""
    if find_index(config.load_settings().home, repository) is None:
        yield "Not indexed yet. Run `lineage index` now, or let the next commit start it in the background."
    if shutil.which("lineage") is None:
        yield "`lineage` is not on PATH. The hooks do nothing until it is."
