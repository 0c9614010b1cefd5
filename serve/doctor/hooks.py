"""git's hooks: whether they have our block, the current one, and a program to start with it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from pipeline.git.repository import Repository
from serve.doctor.finding import Finding, Subject, ok, warning
from serve.initializing.block import BLOCK, FENCES, HOOKS
from serve.initializing.fences import BrokenFence
from serve.initializing.folders import hooks_folder
from serve.replacing import content_of
from stores.errors import LineageError


def check(subject: Subject) -> Iterator[Finding]:
    """Whether commits bring the index up to date by themselves."""
    repository = subject.repository
    if repository is None or repository.is_bare:
        return
    try:
        folder = hooks_folder(repository)
    except LineageError as error:
        yield ok("hooks", error.message, error.hint)
        return
    faults = {name: fault for name in HOOKS if (fault := _fault(folder / name))}
    if len(faults) == len(HOOKS) and set(faults.values()) == {ABSENT}:
        yield ok("hooks", "none installed", "`lineage init` keeps the index fresh by itself.")
        return
    if faults:
        said = "; ".join(f"{name} {fault}" for name, fault in faults.items())
        yield warning("hooks", said, _remedy(folder, faults))
    else:
        yield ok("hooks", f"{', '.join(HOOKS)} in {_shown(folder, repository)}")
    yield _program(subject)


ABSENT = "has no part of ours"
SWITCHED_OFF = "may not be executed, so git skips it"


def _fault(file: Path) -> str:
    """What keeps this hook from bringing the index up to date; nothing when it does."""
    text = content_of(file) if file.is_file() else None
    try:
        if text is None or not FENCES.encloses(text):
            return ABSENT
    except BrokenFence:
        return "has a part of ours without an end"
    if not os.access(file, os.X_OK):
        return SWITCHED_OFF
    return "" if FENCES.renewed(text, BLOCK) == text else "has an older part of ours"


def _remedy(folder: Path, faults: dict[str, str]) -> str:
    off = [str(folder / name) for name, fault in faults.items() if fault == SWITCHED_OFF]
    return f"`chmod +x {' '.join(off)}`, then `lineage init`." if off else "`lineage init` renews them."


def _program(subject: Subject) -> Finding:
    """The program that the hooks find, as far as this environment tells: git's may have another PATH."""
    found = shutil.which("lineage")
    if found is None:
        return warning(
            "hooks' program",
            "`lineage` is not on PATH, so the hooks do nothing",
            f"Put the folder it is in on PATH: {subject.mine}",
        )
    if Path(found).resolve().parent != subject.mine.resolve():
        return warning(
            "hooks' program",
            f"the hooks start {found}, another installation than this one in {subject.mine}",
            "Put this one first on PATH, or remove the other.",
        )
    return ok("hooks' program", found)


def _shown(folder: Path, repository: Repository) -> Path:
    return folder.relative_to(repository.root) if folder.is_relative_to(repository.root) else folder
