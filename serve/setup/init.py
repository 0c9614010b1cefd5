"""`lineage init`: decide what is to change in a repository, then change it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pipeline.git.repository import Repository, open_repository
from serve import config
from serve.errors import BadRequest
from serve.repositories import existing_place
from serve.setup import agent_instructions, git_hooks
from serve.setup.file_edit import Change
from serve.setup.git_hooks import HOOKS, BareRepository, HookRefused, OutsideRepository, hooks_folder


@dataclass(frozen=True, slots=True)
class Wishes:
    """The flags of `lineage init`."""

    write_agent_md: bool = False
    force: bool = False
    remove: bool = False


def initialize(path: Path, wishes: Wishes) -> list[str]:
    """Put hooks, and instructions if wished, into the repository at `path`, or take them out; what was done."""
    if wishes.remove and (wishes.force or wishes.write_agent_md):
        raise BadRequest(
            "--remove takes everything out again.",
            hint="Give it alone, without --force and --write-agent-md.",
        )
    repository = open_repository(path)
    changes = list(_removal(repository) if wishes.remove else _installation(repository, wishes))
    for change in changes:
        change.make()
    return [*_lines(changes, repository), *(() if wishes.remove else _advice(repository))]


def _installation(repository: Repository, wishes: Wishes) -> Iterator[Change]:
    folder = hooks_folder(repository)
    first, *others = HOOKS
    put = git_hooks.forced if wishes.force else git_hooks.installed
    yield put(folder / first, repository)
    for name in others:
        yield _installed_or_not(folder / name, repository)
    if wishes.write_agent_md:
        yield agent_instructions.written(repository)


def _installed_or_not(file: Path, repository: Repository) -> Change:
    """The hook with our block; without it where it cannot take one, since the next commit comes anyway."""
    try:
        return git_hooks.installed(file, repository)
    except HookRefused as refused:
        return Change(file.name, file, "skipped", notes=(refused.message,))


def _removal(repository: Repository) -> Iterator[Change]:
    for folder in _folders(repository):
        for name in HOOKS:
            yield git_hooks.removed(folder / name, repository)
    if not repository.is_bare:
        yield from agent_instructions.removed(repository)


def _folders(repository: Repository) -> list[Path]:
    """Where hooks may have our block: git's own folder, and another one that is named now."""
    folders = [repository.common_dir / "hooks"]
    with suppress(OutsideRepository, BareRepository):
        folders.append(hooks_folder(repository))
    return list(dict.fromkeys(folders))


def _lines(changes: list[Change], repository: Repository) -> Iterator[str]:
    """A line for each file, and one for each thing to know about it."""
    told = [change for change in changes if change.said != "not there"]
    if not told:
        yield f"nothing of lineage's was found in {repository.root}"
    for change in told:
        yield f"{change.said:<12} {_shown(change.file, repository)}"
        yield from (f"{'':<12} {note}" for note in change.notes)
    if any(_is_shared(change.file, repository) for change in told if change.name in HOOKS):
        yield "These hooks lie in the work tree: who gets them by a commit and has lineage gets an index."


def _shown(file: Path, repository: Repository) -> str:
    return str(file.relative_to(repository.root) if file.is_relative_to(repository.root) else file)


def _is_shared(file: Path, repository: Repository) -> bool:
    real = file.resolve()
    return real.is_relative_to(repository.root) and not real.is_relative_to(repository.common_dir)


def _advice(repository: Repository) -> Iterator[str]:
    """What keeps the hooks from their work, or is left to them that a person may want at once."""
    if existing_place(config.read().home, repository) is None:
        yield "Not indexed yet: `lineage index` does it now; else the next commit does, in the background."
    if shutil.which("lineage") is None:
        yield "`lineage` is not on PATH: the hooks do nothing until it is."
