"""A file system that refuses, for tests: read-only for everybody, root included, wherever they run."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

_WRITING: Final = os.O_RDWR | os.O_WRONLY | os.O_CREAT | os.O_TRUNC
_CHANGING: Final = ("chmod", "rename", "replace", "unlink", "truncate")


def read_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a file system that is mounted read-only answers to whoever would change something in this folder.

    The database engine does not ask Python; it is told to open files for reading, and does no more.
    """

    def refuse(path: Any) -> None:
        if isinstance(path, (str, os.PathLike)) and Path(path).is_relative_to(folder):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    def guarded(change: Callable[..., Any], harmless: Callable[..., bool]) -> Callable[..., Any]:
        def call(path: Any, *more: Any, **named: Any) -> Any:
            if not harmless(path, *more):
                refuse(path)
            return change(path, *more, **named)

        return call

    monkeypatch.setattr(os, "open", guarded(os.open, lambda _, flags, *__: not flags & _WRITING))
    # Of a folder that is there the system says that, first.
    monkeypatch.setattr(os, "mkdir", guarded(os.mkdir, lambda path, *_: os.path.lexists(path)))
    for name in _CHANGING:
        monkeypatch.setattr(os, name, guarded(getattr(os, name), lambda *_: False))
