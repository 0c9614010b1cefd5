"""Errors of a question or an option, beside those that `stores` and `pipeline` have of their own."""

from __future__ import annotations

from stores.errors import LineageError


class BadRequest(LineageError):
    """A question or an option that cannot be understood."""


class NeedsRebuild(LineageError):
    """The index was made by parts whose vectors cannot be compared with this program's."""


class Cancelled(LineageError):
    """A person left before anything was done."""

    def __init__(self, message: str = "Cancelled: nothing was done.") -> None:
        super().__init__(message)


class NoWorkingDirectory(LineageError):
    """The folder that relative paths count from was deleted."""

    def __init__(self) -> None:
        super().__init__(
            "The working directory no longer exists.",
            hint='Go to another, or with `cd "$PWD"` to the one that was made in its place.',
        )
