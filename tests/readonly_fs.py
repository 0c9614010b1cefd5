"""Simulated read-only file system, which also applies to root."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

WRITE_FLAGS: Final = os.O_RDWR | os.O_WRONLY | os.O_CREAT | os.O_TRUNC
CHANGING_FUNCTIONS: Final = ("chmod", "rename", "replace", "unlink", "truncate")


def make_read_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make functions of `os` that would change something in `folder` fail as on a read-only file system.

    DuckDB does not use them; on an index it only opens files for reading.
    """

    def refuse(path: Any) -> None:
        if isinstance(path, (str, os.PathLike)) and Path(path).is_relative_to(folder):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    def guarded(function: Callable[..., Any], is_harmless: Callable[..., bool]) -> Callable[..., Any]:
        def call(path: Any, *args: Any, **kwargs: Any) -> Any:
            if not is_harmless(path, *args):
                refuse(path)
            return function(path, *args, **kwargs)

        return call

    monkeypatch.setattr(os, "open", guarded(os.open, lambda _, flags, *__: not flags & WRITE_FLAGS))
    # For an existing directory the system reports EEXIST first.
    monkeypatch.setattr(os, "mkdir", guarded(os.mkdir, lambda path, *_: os.path.lexists(path)))
    for name in CHANGING_FUNCTIONS:
        monkeypatch.setattr(os, name, guarded(getattr(os, name), lambda *_: False))
