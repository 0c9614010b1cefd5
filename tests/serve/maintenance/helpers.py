"""Helpers that run the checks of `lineage doctor` in this process."""

from __future__ import annotations

from pathlib import Path

from serve import config
from serve.maintenance import doctor
from serve.maintenance.checks import Check, CheckResult, Verdict

OK, WARNING, PROBLEM = Verdict.OK, Verdict.WARNING, Verdict.PROBLEM
# Checks that take seconds and do not depend on the repository.
SLOW_CHECKS = ("encoder", "encoder static", "cross-encoder", "model files", "extensions")
QUICK_CHECKS = {name: check for name, check in doctor.CHECKS.items() if name not in SLOW_CHECKS}


def run_checks(path: Path, checks: dict[str, Check] = QUICK_CHECKS) -> dict[str, CheckResult]:
    """Run the checks. Return the results by name."""
    return {result.name: result for result in doctor.run_checks(path, config.load_settings(), checks)}


def find_failed_checks(path: Path) -> dict[str, Verdict]:
    """Run the quick checks. Return the verdicts that are not OK, by name."""
    return {name: result.verdict for name, result in run_checks(path).items() if result.verdict is not OK}


def snapshot_files(directory: Path) -> dict[Path, tuple[int, int, int]]:
    """Return mode, size and modification time of the directory and everything in it."""
    stats = {path: path.lstat() for path in (directory, *directory.rglob("*"))}
    return {path: (status.st_mode, status.st_size, status.st_mtime_ns) for path, status in stats.items()}
