"""The shared daemon: whether it answers, which program it is, and who could meet it. None is started."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import Final

from serve.daemon import address
from serve.daemon.address import Address
from serve.daemon.client import Remote
from serve.doctor.finding import Finding, Subject, ok, problem, warning
from stores.errors import LineageError
from stores.holders import holders

# A daemon answers for itself in a millisecond, however many questions it has in hand.
PATIENCE_SECONDS: Final = 5.0
STOP: Final = "`lineage daemon stop`; the next question starts another."


def check(subject: Subject) -> Iterator[Finding]:
    """Whether questions find the daemon they need, and nobody else does."""
    if not subject.settings.daemon:
        yield ok("daemon", "switched off by LINEAGE_NO_DAEMON")
        return
    met = Address(subject.settings.home)
    if not os.path.lexists(met.socket):
        yield ok("daemon", "none is running; the next question starts one")
        return
    # Before it is asked: asking closes the folder.
    unsafe = _unsafe(met.socket)
    yield unsafe or _answer(met)


def _unsafe(socket: Path) -> Finding | None:
    """What lets somebody else meet the daemon, or pass for it."""
    for path, allowed in ((socket.parent, 0o700), (socket, 0o600)):
        status = path.lstat()
        if status.st_uid != os.getuid():
            return problem(
                "daemon", f"{path} belongs to another user", "Remove it, or set LINEAGE_NO_DAEMON=1."
            )
        if stat.S_IMODE(status.st_mode) & ~allowed & 0o077:
            mode = f"{stat.S_IMODE(status.st_mode):04o}"
            fix = f"`chmod {allowed:o} {quote(str(path))}`, then {STOP}"
            return problem("daemon", f"{path} is open to other users (mode {mode})", fix)
    return None


def _answer(met: Address) -> Finding:
    try:
        report = Remote(met, patience=PATIENCE_SECONDS).report()
    except LineageError as error:
        remedy = f"`kill -9 {_pid(met)}` ends it; the next question starts another." if _pid(met) else STOP
        return problem("daemon", error.message, remedy)
    if report is None:
        return warning(
            "daemon",
            f"{met.socket} was left behind by one that was killed",
            "Nothing: the next question replaces it; `lineage gc` removes it.",
        )
    count = len(report.holdings)
    kept = f"{count} {'index' if count == 1 else 'indexes'} at hand"
    said = f"process {report.pid}, version {report.version}, {kept}"
    if report.build != address.build():
        return warning(
            "daemon",
            f"{said}; of another build than this program",
            f"The next question replaces it; or {STOP}",
        )
    return ok("daemon", said)


def _pid(met: Address) -> str:
    """The daemon that holds the lock, as far as it can be told."""
    held = holders(met.lock)
    return str(held[0].pid) if held else ""
