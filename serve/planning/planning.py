"""`lineage plan`: survey a history, show what it found, write the suggestions where that is wished."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline.git.repository import Repository, open_repository
from pipeline.survey.plan import Plan, plan
from serve.errors import BadRequest
from serve.planning import page, section


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
        section.check(repository)
    own = section.own_lines(section.current(repository)) if not wishes.replace else ()
    found = plan(repository, own)
    return [*page.page(found), *_written(repository, found, wishes)]


def _written(repository: Repository, found: Plan, wishes: Wishes) -> Iterator[str]:
    if not wishes.write:
        if found.suggestions:
            yield ""
            yield "Nothing was written. `lineage plan --write` puts these lines into .lineageignore."
        return
    changes = (section.replaced if wishes.replace else section.merged)(repository, found.suggestions)
    yield ""
    for change in changes:
        change.make()
        yield f"{change.said:<12} {change.name}"
        yield from (f"{'':<12} {note}" for note in change.notes)
    if changes[-1].said != "unchanged":
        yield "It acts on what is indexed from now on; `lineage index --rebuild --yes` applies it to everything."
