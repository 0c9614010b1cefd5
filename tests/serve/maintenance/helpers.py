"""What the doctor finds, asked without its command."""

from __future__ import annotations

from pathlib import Path

from serve import config
from serve.maintenance import doctor
from serve.maintenance.findings import Finding, Verdict

OK, WARNING, PROBLEM = Verdict.OK, Verdict.WARNING, Verdict.PROBLEM
# Everything but what takes its time and is the same for every repository.
SLOW = ("encoder", "encoder static", "cross-encoder", "model files", "extensions")
QUICK = {name: check for name, check in doctor.CHECKS.items() if name not in SLOW}


def found(path: Path, checks: dict[str, doctor.Check] = QUICK) -> dict[str, Finding]:
    """What is found, by name."""
    return {one.name: one for one in doctor.examine(path, config.read(), checks)}


def ill(path: Path) -> dict[str, Verdict]:
    """What is not well."""
    return {name: one.verdict for name, one in found(path).items() if one.verdict is not OK}


def everything(folder: Path) -> dict[Path, tuple[int, int, int]]:
    """Every file below the folder, with what an access or a change would change."""
    stats = {path: path.lstat() for path in (folder, *folder.rglob("*"))}
    return {path: (said.st_mode, said.st_size, said.st_mtime_ns) for path, said in stats.items()}
