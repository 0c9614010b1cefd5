"""Commits that blame looks through: those of `.git-blame-ignore-revs`, which many repositories keep."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipeline.git.repository import Repository

FILE: Final = ".git-blame-ignore-revs"
SETTING: Final = "blame.ignorerevsfile"
REVISION: Final = re.compile(rb"[0-9a-fA-F]{40}(?:[0-9a-fA-F]{24})?")


@dataclass(frozen=True, slots=True)
class Ignoring:
    """The commits of the repository's own file, and what is to be said about lines that name none.

    git reads the files of `blame.ignoreRevsFile` itself; `files` is what is in them, for whoever wants to know
    whether anything changed. It refuses to work where one is not there, and many people have named one for all
    their repositories: `settings` are then those to go by, without it.
    """

    revisions: tuple[str, ...] = ()
    note: str = ""
    files: tuple[bytes, ...] = ()
    settings: tuple[tuple[str, str], ...] | None = None

    @property
    def arguments(self) -> list[str]:
        """How git is told."""
        return [f"--ignore-rev={revision}" for revision in self.revisions]


def ignoring(repository: Repository) -> Ignoring:
    """What is to be ignored here.

    The lines of the repository's own file are read here and not by git, which refuses to work when one of them
    is no full commit name.
    """
    own = _own(repository)
    lines = [line for line in (raw.partition(b"#")[0].strip() for raw in own.split(b"\n")) if line]
    named = [line.decode().lower() for line in lines if REVISION.fullmatch(line)]
    known = tuple(revision for revision in dict.fromkeys(named) if repository.is_commit(revision))
    configured = {value: _place(repository, value) for value in _configured(repository) if value}
    absent = {value for value, path in configured.items() if not path.is_file()}
    passed_over = f"Lines of {FILE} that are no full commit names were passed over."
    return Ignoring(
        revisions=known,
        note="" if len(named) == len(lines) else passed_over,
        files=tuple(_content(path) for path in configured.values()),
        settings=_settings_without(repository, absent) if absent else None,
    )


def _settings_without(repository: Repository, absent: set[str]) -> tuple[tuple[str, str], ...]:
    return tuple(said for said in repository.configuration if said[0] != SETTING or said[1] not in absent)


def _place(repository: Repository, value: str) -> Path:
    return repository.root / os.path.expanduser(value)  # noqa: PTH111 - leaves nobody's home as it is


def _own(repository: Repository) -> bytes:
    if repository.is_bare:
        return repository.read_at_head(FILE) or b""
    return _content(repository.root / FILE)


def _configured(repository: Repository) -> list[str]:
    return [value for name, value in repository.configuration if name == SETTING]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.is_file() else b""
    except OSError:
        return b""
