"""Errors that users see."""

from __future__ import annotations

import pickle

import pytest

from pipeline.git.errors import NothingReadable, UnreadableObject
from stores.errors import LineageError, OutOfMemory, ThreadLimitReached


@pytest.mark.parametrize(
    "error",
    [
        OutOfMemory(),
        ThreadLimitReached(),
        UnreadableObject("abc", "missing"),
        NothingReadable(3, "abc", "Run `git fsck`."),
    ],
)
def test_errors_can_be_pickled(error: LineageError) -> None:
    """A worker process can return an error whose constructor has other arguments: all attributes are the same."""
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - pickled above
    assert type(copy) is type(error)
    assert (str(copy), vars(copy)) == (str(error), vars(error))
