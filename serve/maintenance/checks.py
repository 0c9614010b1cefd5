"""Types of the checks of `lineage doctor`: input, results and their verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

from pipeline.git.repository import Repository
from serve.config import Settings
from stores.index_location import IndexLocation


class Verdict(StrEnum):
    """Severity of a result. WARNING: something works, but not as well as it should. PROBLEM: it does not work."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of a check. The fields are those of the JSON document.

    `found`: description of the state, one line. `remedy`: what the user can do, one line, or empty.
    """

    name: str
    verdict: Verdict
    found: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class CheckContext:
    """Input of all checks.

    `path`: PATH argument of the command. `install_directory`: directory that the running program is installed in.
    `repository`, `location`: the repository at `path` and the location of its index, None if there is none.
    """

    path: Path
    settings: Settings
    install_directory: Path
    repository: Repository | None = None
    location: IndexLocation | None = None


def report_ok(name: str, found: str, remedy: str = "") -> CheckResult:
    """Return a result for something that works. A remedy is optional advice."""
    return CheckResult(name, Verdict.OK, found, remedy)


def report_warning(name: str, found: str, remedy: str) -> CheckResult:
    """Return a result for something that works, but not as well as it should."""
    return CheckResult(name, Verdict.WARNING, found, remedy)


def report_problem(name: str, found: str, remedy: str) -> CheckResult:
    """Return a result for something that does not work."""
    return CheckResult(name, Verdict.PROBLEM, found, remedy)


Check: TypeAlias = Callable[[CheckContext], Iterable[CheckResult]]
