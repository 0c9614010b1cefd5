"""What a survey found, as a person reads it.

Our part of `.lineageignore`: between two marks, above the person's own lines, which so have the last word.

`lineage plan`: survey a history, show what it found, write the suggestions where that is wished.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

from pipeline.directory_stats import TOP, Directory
from pipeline.git.repository import Repository, open_repository
from pipeline.ignore import IGNORE_FILE, patterns
from pipeline.ignore_suggestions import Effect, Plan, Suggestion, plan
from serve.errors import BadRequest
from serve.setup.file_edit import BrokenFence, Change, Fences, content_of
from serve.setup.git_hooks import BareRepository, check_own
from serve.text import visible
from stores.errors import LineageError

BAR_CELLS: Final = 20
# Directories shown one by one; what each of the others has is too little to look at.
SHOWN: Final = 20
LONGEST_NAME: Final = 32


def page(plan: Plan) -> Iterator[str]:
    """The lines: what was surveyed, each directory's share, what is suggested."""
    yield f"{plan.commits:,} commits up to {plan.head[:12]}, {plan.hunks:,} hunks (files changed, commit by commit)"
    if plan.ignored:
        yield f"{plan.ignored:,} more are left out already: by default, by git's attributes, by your .lineageignore"
    if plan.unread:
        yield f"{plan.unread:,} commits could not be read; `git fsck` names what is missing"
    yield ""
    yield from _table(plan)
    yield ""
    yield from _suggested(plan)


def _table(plan: Plan) -> Iterator[str]:
    shown = plan.directories[:SHOWN]
    width = max((len(_name(one)) for one in shown), default=0)
    width = max(width, len("directory"))
    yield f"{'directory':<{width}}  {'commits':>9}  {'share':<{BAR_CELLS + 5}}  {'hunks':>9}  mostly"
    for one in shown:
        share = one.commits / max(plan.commits, 1)
        bar = f"{'█' * round(share * BAR_CELLS):<{BAR_CELLS}} {share:>4.0%}"
        yield f"{_name(one):<{width}}  {one.commits:>9,}  {bar}  {one.hunks:>9,}  {_mostly(one)}"
    if len(plan.directories) > SHOWN:
        yield f"and {len(plan.directories) - SHOWN:,} more directories"
    yield "A commit counts in each directory it changes, so the shares add up to more than 100 %."


def _suggested(plan: Plan) -> Iterator[str]:
    if not plan.suggestions:
        yield "Nothing to suggest: no directory is large and only copied, generated, data or prose."
        return
    width = max(len(visible(one.pattern)) for one in plan.suggestions)
    yield "Suggested for .lineageignore:"
    for one in plan.suggestions:
        yield f"  {visible(one.pattern):<{width}}  {_effect(one.effect, plan)}"
        yield f"  {'':<{width}}  {one.reason}"
    if len(plan.suggestions) > 1:
        yield f"  {'together':<{width}}  {_effect(plan.together, plan)}"


def _effect(effect: Effect, plan: Plan) -> str:
    share = effect.hunks / max(plan.hunks, 1)
    return (
        f"leaves out {effect.hunks:,} hunks ({share:.0%}) of {effect.commits:,} commits, "
        f"{effect.whole:,} of them wholly"
    )


def _name(one: Directory) -> str:
    name = "(top level)" if one.path == TOP else visible(one.path)
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def _mostly(one: Directory) -> str:
    """The kind that most of its files are of."""
    if one.judged and one.machine / one.judged > 0.5:
        return "made by programs"
    kinds = {"code": one.code, "prose": one.prose, "data": one.data}
    kinds["markup, settings, other"] = one.files - sum(kinds.values())
    return max(kinds, key=lambda kind: kinds[kind])


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


@dataclass(frozen=True, slots=True)
class Wishes:
    """The flags of `lineage plan`."""

    write: bool = False
    replace: bool = False


def planned(path: Path, wishes: Wishes) -> list[str]:
    """Survey the repository at `path`, and write if wished; the lines to show."""
    if wishes.replace and not wishes.write:
        raise BadRequest(
            "--replace says how to write, and --write was not given.",
            hint="Give `--write --replace` to overwrite the whole .lineageignore; without both nothing is written.",
        )
    repository = open_repository(path)
    if wishes.write:
        check(repository)
    own = own_lines(current(repository)) if not wishes.replace else ()
    found = plan(repository, own)
    return [*page(found), *_written(repository, found, wishes)]


def _written(repository: Repository, found: Plan, wishes: Wishes) -> Iterator[str]:
    if not wishes.write:
        if found.suggestions:
            yield ""
            yield "Nothing was written. `lineage plan --write` puts these lines into .lineageignore."
        return
    changes = (replaced if wishes.replace else merged)(repository, found.suggestions)
    yield ""
    for change in changes:
        change.make()
        yield f"{change.said:<12} {change.name}"
        yield from (f"{'':<12} {note}" for note in change.notes)
    if changes[-1].said != "unchanged":
        yield "It acts on what is indexed from now on; `lineage index --rebuild --yes` applies it to everything."
