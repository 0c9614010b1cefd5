"""Findings as a list for people, coloured on a terminal, and as JSON for programs."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from serve import about
from serve.doctor.finding import Finding, Verdict
from serve.terminal import write
from serve.visible import visible

if TYPE_CHECKING:
    from rich.console import Console

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
        "version": about.version(),
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
