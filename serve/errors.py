"""Errors that several modules of `serve` use. `stores` and `pipeline` define further errors."""

from __future__ import annotations

from stores.errors import LineageError


class BadRequest(LineageError):
    """Error for an invalid request or option."""


class NeedsRebuild(LineageError):
    """Error for an index whose vectors cannot be compared with those of this program."""


class NoAnswer(LineageError):
    """Error for a search of several indexes if none of them can answer."""


class Cancelled(LineageError):
    """Error for a command that the user cancelled, and that changed nothing."""

    def __init__(self, message: str = "Cancelled: nothing was done.") -> None:
        super().__init__(message)


class NoWorkingDirectory(LineageError):
    """Error for a working directory that was deleted."""

    def __init__(self) -> None:
        super().__init__(
            "The working directory no longer exists.",
            hint='Change to another directory. If the deleted one exists again, run `cd "$PWD"`.',
        )
