"""Command `lineage doctor`: run of all checks, and output of their results as a list or as JSON.

Checks are independent: the error of a check becomes a result and does not stop the other checks.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pipeline.git.errors import NotARepository
from pipeline.git.repository import open_repository
from serve import config
from serve.cli import terminal
from serve.cli.terminal import is_interrupt, print_raw, translate_system_error
from serve.config import Settings
from serve.maintenance import environment_checks
from serve.maintenance.checks import (
    Check,
    CheckContext,
    CheckResult,
    Verdict,
    check_commit_graph,
    check_disk_space,
    check_extensions,
    check_home,
    check_index,
    check_locks,
    check_write_ahead_log,
    report_problem,
    report_warning,
)
from serve.repositories import locate_index
from serve.text import add_path_to_commands, escape_line, format_count
from stores.errors import LineageError

if TYPE_CHECKING:
    from rich.console import Console

logger = logging.getLogger(__name__)

# The checks in the order in which they run, by the name that the result gets if the check raises an error.
CHECKS: Final[Mapping[str, Check]] = {
    "git": environment_checks.check_git,
    "repository": environment_checks.check_repository,
    "home": check_home,
    "disk space": check_disk_space,
    "index": check_index,
    "commit-graph": check_commit_graph,
    "locks": check_locks,
    "write-ahead log": check_write_ahead_log,
    "model files": environment_checks.check_model_files,
    "encoder": environment_checks.check_encoder,
    "encoder static": environment_checks.check_static_encoder,
    "cross-encoder": environment_checks.check_cross_encoder,
    "extensions": check_extensions,
    "daemon": environment_checks.check_daemon,
    "hooks": environment_checks.check_hooks,
    "clients": environment_checks.check_clients,
}
_STYLES: Final = {Verdict.OK: "green", Verdict.WARNING: "yellow", Verdict.PROBLEM: "bold red"}
# The symbols distinguish the verdicts without color, also for users who cannot tell green from red.
_SYMBOLS: Final = {Verdict.OK: "✓", Verdict.WARNING: "!", Verdict.PROBLEM: "✗"}
_VERDICTS_WORST_FIRST: Final = (Verdict.PROBLEM, Verdict.WARNING, Verdict.OK)
# Characters in the column of names. A longer name, as of a client or an extension, shifts the rest of its line.
NAME_WIDTH: Final = 16


def run_checks(path: Path, settings: Settings, checks: Mapping[str, Check] = CHECKS) -> Iterator[CheckResult]:
    """Run the checks, by default all, and yield each result as soon as it exists.

    Nothing is written and no daemon is started.
    """
    context, failure = _open_repository(CheckContext(path, settings, Path(sys.executable).parent))
    if failure:
        yield _add_path_to_commands(failure)
    for name, check in checks.items():
        yield from map(_add_path_to_commands, _run_check(name, check, context))


def _open_repository(context: CheckContext) -> tuple[CheckContext, CheckResult | None]:
    """Open the repository and locate its index. Return the context with both, and None.

    Without a usable repository, return the context unchanged, and a result with the reason.
    """
    try:
        repository = open_repository(context.path)
        location = locate_index(context.settings.home, repository)
        return replace(context, repository=repository, location=location), None
    except NotARepository as error:
        remedy = (
            "Checks of a repository were skipped. Run `lineage doctor` in a repository, or with its path."
        )
        return context, report_warning("repository", error.message, remedy)
    except LineageError as error:
        return context, report_problem("repository", error.message, error.hint)


def _add_path_to_commands(result: CheckResult) -> CheckResult:
    """Add the PATH argument of `doctor` to the suggested commands, so that they work from the current directory."""
    return replace(
        result, found=add_path_to_commands(result.found), remedy=add_path_to_commands(result.remedy)
    )


def _run_check(name: str, check: Check, context: CheckContext) -> Iterator[CheckResult]:
    try:
        yield from check(context)
    except LineageError as error:
        yield report_problem(name, error.message, error.hint)
    except Exception as error:  # an unexpected error of one check must not stop the others
        if is_interrupt(error):
            raise
        if isinstance(known_error := translate_system_error(error), LineageError):
            yield report_problem(name, known_error.message, known_error.hint)
            return
        logger.debug("the check of %s failed", name, exc_info=True)
        reason = str(error) or type(error).__name__
        remedy = "Set LINEAGE_LOG=debug to see the traceback."
        yield report_problem(name, f"could not be checked: {reason.splitlines()[0]}", remedy)


def has_problem(results: Sequence[CheckResult]) -> bool:
    """Return whether a check found a problem. Warnings do not count."""
    return _find_worst_verdict(results) is Verdict.PROBLEM


def _find_worst_verdict(results: Sequence[CheckResult]) -> Verdict:
    verdicts = {result.verdict for result in results}
    return next((verdict for verdict in _VERDICTS_WORST_FIRST if verdict in verdicts), Verdict.OK)


def format_json(results: Sequence[CheckResult]) -> str:
    """Return a JSON document with the program's version, the worst verdict and each result."""
    document = {
        "version": config.read_version(),
        "verdict": _find_worst_verdict(results),
        "checks": [asdict(result) for result in results],
    }
    return terminal.format_json(document, indent=2)


def print_results(results: Iterable[CheckResult]) -> list[CheckResult]:
    """Print each result as it arrives, then the number of warnings and problems. Return the results."""
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    printed_results = []
    for result in results:
        with console.capture() as capture:
            _print_result(result, console)
        print_raw(capture.get().rstrip("\n"))
        sys.stdout.flush()  # the next check may take seconds
        printed_results.append(result)
    print_raw(_format_summary(printed_results))
    return printed_results


def _print_result(result: CheckResult, console: Console) -> None:
    from rich.text import Text

    line = Text()
    line.append(f"{_SYMBOLS[result.verdict]} ", style=_STYLES[result.verdict])
    line.append(f"{result.name:<{NAME_WIDTH}}  ", style="bold")
    console.print(line.append(escape_line(result.found)))
    if result.remedy:
        style = "dim" if result.verdict is Verdict.OK else ""
        console.print(Text(f"  {'':<{NAME_WIDTH}}  → {escape_line(result.remedy)}", style=style))


def _format_summary(results: Sequence[CheckResult]) -> str:
    counts = Counter(result.verdict for result in results)
    counts_text = ", ".join(
        format_count(counts[verdict], verdict)
        for verdict in (Verdict.PROBLEM, Verdict.WARNING)
        if counts[verdict]
    )
    return f"{format_count(len(results), 'check')}: {counts_text or 'no problems'}."
