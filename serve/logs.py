"""Log events on stderr, one line each: `level=info event=...`; LINEAGE_LOG sets how many."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import Final

from serve.text import pasted, visible

_LEVELS: Final = {
    "off": logging.CRITICAL + 1,
    "error": logging.ERROR,
    "warn": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
    "trace": logging.DEBUG,
}


class _Stderr(logging.Handler):
    """Writes to whatever stderr is at the moment: a progress bar puts itself in its place."""

    def emit(self, record: logging.LogRecord) -> None:
        # A full disk, or a reader that has gone, must not end what is being told of.
        with suppress(OSError, ValueError):
            print(self.format(record), file=sys.stderr, flush=True)  # noqa: T201 - this is the log


def configure(level: str) -> None:
    """Send the events of this level and above to stderr; `level` as in `settings.LOG_LEVELS`."""
    handler = _Stderr()
    handler.setFormatter(_Line())
    logging.basicConfig(level=_LEVELS[level], handlers=[handler], force=True)


class _Line(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        message = visible(pasted(record.getMessage()))
        return f"level={record.levelname.lower()} {message if message.startswith('event=') else _quoted(message)}"


def _quoted(message: str) -> str:
    return 'message="' + message.replace('"', "'") + '"'
