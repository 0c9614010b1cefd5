"""What a check finds, and what it looks at."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pipeline.git.repository import Repository
from serve.config import Settings
from stores.index_location import Place


class Verdict(StrEnum):
    """How it stands: `warning` works today but less well than it should, `problem` does not work."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line found, and one line what to do about it, where there is something to do."""

    name: str
    verdict: Verdict
    found: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is examined: the repository at `path` and its place, None where there is none, and the settings.

    `mine` is the folder that the running program was installed into.
    """

    path: Path
    settings: Settings
    mine: Path
    repository: Repository | None = None
    place: Place | None = None


def ok(name: str, found: str, remedy: str = "") -> Finding:
    """Nothing has to be done."""
    return Finding(name, Verdict.OK, found, remedy)


def warning(name: str, found: str, remedy: str) -> Finding:
    """It works, less well than it should."""
    return Finding(name, Verdict.WARNING, found, remedy)


def problem(name: str, found: str, remedy: str) -> Finding:
    """It does not work."""
    return Finding(name, Verdict.PROBLEM, found, remedy)
