"""Log configuration: one logfmt line (`level=info event=...`) for each event, on stderr."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import Final

from serve.text import add_path_to_commands, escape_controls

# Python's level for each level of `config.LOG_LEVELS`. Python has no level below debug.
_LEVELS: Final = {
    "off": logging.CRITICAL + 1,
    "error": logging.ERROR,
    "warn": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
    "trace": logging.DEBUG,
}


class _StderrHandler(logging.Handler):
    """Handler that looks up `sys.stderr` at every event, because a progress bar replaces it."""

    def emit(self, record: logging.LogRecord) -> None:
        # A full disk or a closed reader must not end the operation that logs.
        with suppress(OSError, ValueError):
            print(self.format(record), file=sys.stderr, flush=True)  # noqa: T201 - this is the log


def configure(level: str) -> None:
    """Send events of `level` (one of `config.LOG_LEVELS`) and above to stderr."""
    handler = _StderrHandler()
    handler.setFormatter(_LogfmtFormatter())
    logging.basicConfig(level=_LEVELS[level], handlers=[handler], force=True)


class _LogfmtFormatter(logging.Formatter):
    """Formatter of logfmt lines. A message that does not begin with `event=` becomes `message="..."`."""

    def format(self, record: logging.LogRecord) -> str:
        message = escape_controls(add_path_to_commands(record.getMessage()))
        if not message.startswith("event="):
            message = _quote_message(message)
        return f"level={record.levelname.lower()} {message}"


def _quote_message(message: str) -> str:
    return 'message="' + message.replace('"', "'") + '"'
