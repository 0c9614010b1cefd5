"""A history's commits as their authors tell them, read with `git log`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench.programs import git

# Control characters part fields and entries: no message of a sane history holds them, and a line break may be in any.
_ENTRY: Final = "\x01"
_FIELD: Final = "\x02"
_FORMAT: Final = "--format=%x01%H%x02%P%x02%s%x02%b%x02"


@dataclass(frozen=True, slots=True)
class Told:
    """One commit: `subject` on one line, `body` below it, `paths` it changed (none for a merge)."""

    sha: str
    parents: tuple[str, ...]
    subject: str
    body: str
    paths: tuple[str, ...]


def told(repository: Path) -> Iterator[Told]:
    """Every commit HEAD reaches, oldest first."""
    log = ("log", "--reverse", "--no-renames", "--name-only", _FORMAT, "HEAD")
    for entry in git(repository, "-c", "core.quotePath=off", *log).split(_ENTRY)[1:]:
        fields = entry.split(_FIELD)
        if len(fields) == 5:
            sha, parents, subject, body, paths = fields
            yield Told(sha, tuple(parents.split()), subject, body, tuple(paths.strip("\n").splitlines()))
