"""Our part of `.lineageignore`: between two marks, above the person's own lines, which so have the last word."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Final

from pipeline.git.repository import Repository
from pipeline.ignore import IGNORE_FILE, patterns
from pipeline.survey.plan import Suggestion
from serve.initializing.changes import Change
from serve.initializing.fences import BrokenFence, Fences
from serve.initializing.folders import BareRepository, check_own
from serve.replacing import content_of
from stores.errors import LineageError

FENCES: Final = Fences(
    b"# >>> lineage plan (generated: write your own lines below the end) >>>",
    b"# <<< lineage plan <<<",
    breaks=1,
)
# What --replace takes away lies beside the file under this ending, where git does not have it.
ASIDE: Final = ".bak"


class SectionRefused(LineageError):
    """The file cannot take our part."""


def own_lines(content: bytes | None) -> tuple[str, ...]:
    """The lines that are not ours."""
    try:
        return patterns(FENCES.removed(content or b""))
    except BrokenFence as broken:
        raise _broken(broken) from broken


def current(repository: Repository) -> bytes | None:
    """What is in the file now; in a bare repository, what HEAD has."""
    if repository.is_bare:
        return repository.read_at_head(IGNORE_FILE)
    file = repository.root / IGNORE_FILE
    return content_of(file) if file.is_file() else None


def check(repository: Repository) -> None:
    """Refuse what could not be written, before the work is done."""
    file = repository.root / IGNORE_FILE
    if repository.is_bare:
        raise BareRepository(
            f"{repository.root} is a bare repository: {IGNORE_FILE} is read from HEAD there.",
            hint="Run `lineage plan --write` in a work tree, commit the file and push it.",
        )
    check_own(repository, file, SectionRefused, by_hand="the patterns")


def merged(repository: Repository, suggestions: Sequence[Suggestion]) -> list[Change]:
    """The file with our part in it; without one where nothing is suggested any more."""
    file, before = repository.root / IGNORE_FILE, current(repository)
    old = before or b""
    there = FENCES.encloses(old)
    if not suggestions:
        after, said = (FENCES.removed(old), "taken out") if there else (old, "unchanged")
    elif there:
        after, said = FENCES.renewed(old, _part(suggestions)), "renewed"
    else:
        after = FENCES.added(old, _part(suggestions), at=0)
        said = "created" if before is None else "added"
    unchanged = after == old
    return [Change(IGNORE_FILE, file, "unchanged" if unchanged else said, None if unchanged else after)]


def replaced(repository: Repository, suggestions: Sequence[Suggestion]) -> list[Change]:
    """The file with our part alone; what was there is kept first, where git does not have it."""
    file, before = repository.root / IGNORE_FILE, current(repository)
    after = _part(suggestions) + b"\n" if suggestions else b""
    if (before or b"") == after:
        return [Change(IGNORE_FILE, file, "unchanged")]
    change = Change(IGNORE_FILE, file, "created" if before is None else "replaced", after)
    if not before or before == repository.read_at_head(IGNORE_FILE):
        return [change]
    aside = _unused(file.with_name(IGNORE_FILE + ASIDE))
    note = f"what was in {IGNORE_FILE}, because git does not have it"
    return [Change(aside.name, aside, "kept", before, notes=(note,)), change]


def _part(suggestions: Sequence[Suggestion]) -> bytes:
    # Without the figures of the reason, which every commit would change.
    lines = [line for one in suggestions for line in (f"# {one.reason.partition(':')[0]}", one.pattern)]
    return b"\n".join((FENCES.start, *(os.fsencode(line) for line in lines), FENCES.end))


def _unused(file: Path) -> Path:
    """The file's name, or the first of this name with a number that nothing has."""
    names = (file if not number else file.with_name(f"{file.name}{number}") for number in count())
    return next(name for name in names if not os.path.lexists(name))


def _broken(broken: BrokenFence) -> SectionRefused:
    return SectionRefused(f"{IGNORE_FILE}: {broken.message}.", hint=f"{broken.hint}.".capitalize())
