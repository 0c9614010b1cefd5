"""Other programs, run to their end, and what they said when they failed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from stores.errors import LineageError

# The end of what a program says, which mostly says why it failed.
REPORTED_LINES: Final = 12


class ProgramFailed(LineageError):
    """A program that is needed is missing, or did not do its work."""


def said(*command: str | Path, more: Mapping[str, str] | None = None, given: str = "") -> str:
    """What a program prints; ProgramFailed, with its last words, when it fails."""
    words: Sequence[str] = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            env=os.environ | dict(more or {}),
            input=given,
            capture_output=True,
            encoding="utf-8",
            errors="replace",  # git's tags may be any bytes
            check=False,
        )
    except OSError as error:
        raise ProgramFailed(f"`{words[0]}` could not be run: {error.strerror}.") from error
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-REPORTED_LINES:]
        raise ProgramFailed("\n  ".join([f"`{' '.join(words)}` failed:", *last]))
    return done.stdout
