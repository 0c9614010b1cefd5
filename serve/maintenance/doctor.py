"""Check after check, each on its own: one that fails is a finding, and stops no other.

Findings as a list for people, coloured on a terminal, and as JSON for programs.
"""

from __future__ import annotations

import json
import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from pipeline.git.errors import NotARepository
from pipeline.git.repository import open_repository
from serve import config
from serve.cli.terminal import write
from serve.config import Settings
from serve.maintenance import environment_checks, index_checks
from serve.maintenance.findings import Finding, Subject, Verdict, problem, warning
from serve.repositories import place_of
from serve.text import pasted, visible
from stores.errors import LineageError

if TYPE_CHECKING:
    from rich.console import Console


Check: TypeAlias = Callable[[Subject], Iterable[Finding]]

CHECKS: Final[dict[str, Check]] = {
    "git": environment_checks.check_git,
    "repository": environment_checks.check_repository,
    "home": index_checks.check_home,
    "room": index_checks.check_room,
    "index": index_checks.check_index,
    "locks": index_checks.check_locks,
    "write-ahead log": index_checks.check_log,
    "model files": environment_checks.check_files,
    "encoder": environment_checks.check_encoder,
    "encoder static": environment_checks.check_table,
    "cross-encoder": environment_checks.check_cross_encoder,
    "extensions": index_checks.check_extensions,
    "daemon": environment_checks.check_daemon,
    "hooks": environment_checks.check_hooks,
    "clients": environment_checks.check_clients,
}

logger = logging.getLogger(__name__)


def examine(path: Path, settings: Settings, checks: dict[str, Check] = CHECKS) -> Iterator[Finding]:
    """What each check finds, as it finds it; nothing is written, and no daemon started."""
    subject = Subject(path, settings, Path(sys.executable).parent)
    opened, refused = _opened(subject)
    if refused:
        yield refused
    for name, check in checks.items():
        yield from map(_from_here, _guarded(name, check, opened))


def _opened(subject: Subject) -> tuple[Subject, Finding | None]:
    """The subject with its repository and place, or what keeps us from them."""
    try:
        repository = open_repository(subject.path)
        found = replace(subject, repository=repository)
        return replace(found, place=place_of(subject.settings.home, repository)), None
    except NotARepository as error:
        remedy = "Run it in a repository, or name one: what concerns one was not checked."
        return subject, warning("repository", error.message, remedy)
    except LineageError as error:
        return subject, problem("repository", error.message, f"{error.hint[:1].upper()}{error.hint[1:]}.")


def _from_here(finding: Finding) -> Finding:
    """The finding, its commands as they are to be run where the person stands."""
    return replace(finding, found=pasted(finding.found), remedy=pasted(finding.remedy))


def _guarded(name: str, check: Check, subject: Subject) -> Iterator[Finding]:
    try:
        yield from check(subject)
    except LineageError as error:
        yield problem(name, error.message, error.hint)
    except Exception as error:  # whatever it is, the other checks say more about it
        logger.debug("the check of %s failed", name, exc_info=True)
        said = str(error) or type(error).__name__
        yield problem(name, f"could not be checked: {said.splitlines()[0]}", "LINEAGE_LOG=debug says where.")


_STYLES: Final = {Verdict.OK: "green", Verdict.WARNING: "yellow", Verdict.PROBLEM: "bold red"}
# For eyes that do not tell green from red, and for output without colour.
_SIGNS: Final = {Verdict.OK: "✓", Verdict.WARNING: "!", Verdict.PROBLEM: "✗"}
_SEVERITY: Final = (Verdict.PROBLEM, Verdict.WARNING, Verdict.OK)
# The longest name of a check that is always made.
NAME_CELLS: Final = 16


def is_ill(findings: Sequence[Finding]) -> bool:
    """Whether something does not work."""
    return _worst(findings) is Verdict.PROBLEM


def _worst(findings: Sequence[Finding]) -> Verdict:
    return next((each for each in _SEVERITY if each in {one.verdict for one in findings}), Verdict.OK)


def as_json(findings: Sequence[Finding]) -> str:
    """One document: the verdict over all, and each finding."""
    said = {
        "version": config.version(),
        "verdict": _worst(findings),
        "checks": [asdict(one) for one in findings],
    }
    return json.dumps(said, ensure_ascii=False, indent=2)


def told(findings: Iterable[Finding]) -> list[Finding]:
    """Print each finding as it comes, and at the end how many there were of each kind."""
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    kept = []
    for finding in findings:
        with console.capture() as lines:
            _show(finding, console)
        write(lines.get().rstrip("\n"))
        sys.stdout.flush()  # the next check may take a second
        kept.append(finding)
    write(_closing(kept))
    return kept


def _show(finding: Finding, console: Console) -> None:
    from rich.text import Text

    line = Text()
    line.append(f"{_SIGNS[finding.verdict]} ", style=_STYLES[finding.verdict])
    line.append(f"{finding.name:<{NAME_CELLS}}  ", style="bold")
    console.print(line.append(visible(finding.found)))
    if finding.remedy:
        style = "dim" if finding.verdict is Verdict.OK else ""
        console.print(Text(f"  {'':<{NAME_CELLS}}  → {visible(finding.remedy)}", style=style))


def _closing(findings: Sequence[Finding]) -> str:
    counts = Counter(one.verdict for one in findings)
    said = [
        f"{counts[kind]} {kind}{'s' if counts[kind] > 1 else ''}" for kind in _SEVERITY[:2] if counts[kind]
    ]
    return f"{len(findings)} checks: {', '.join(said) or 'all is well'}."
