"""The bytes of `git status --porcelain -z` and of `git diff --numstat -z` -> what happened to files; pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

# Both sides of a merge touched these: the file in the work tree is in conflict, but for DD, where it is gone.
_UNMERGED: Final = ("AU", "UD", "UA", "DU", "AA", "UU")


@dataclass(frozen=True, slots=True)
class Changed:
    """One file that differs from HEAD; `action` as in a touch, `previous` the old path of a staged rename.

    Of a file that is untracked git has counted no lines, or those of another that had its name.
    """

    path: bytes
    action: str
    previous: bytes | None = None
    is_untracked: bool = False


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines added and deleted; both 0 for a binary file."""

    added: int
    deleted: int


def changed(status: bytes) -> list[Changed]:
    """The files in what `git status --porcelain -z` says, each once.

    After `git rm --cached` one file is said to be deleted, and then to be untracked: what is on disk wins, which git
    says last.
    """
    return list({change.path: change for change in _entries(status)}.values())


def lines(numstat: bytes) -> dict[bytes, Lines]:
    """Path -> lines in what `git diff --numstat -z` says; a renamed file under its new path."""
    counted: dict[bytes, Lines] = {}
    fields = iter(numstat.split(b"\0"))
    for field in fields:
        if field:
            added, deleted, path = field.split(b"\t", 2)
            if not path:
                _, path = next(fields), next(fields)
            counted[path] = Lines(_number(added), _number(deleted))
    return counted


def _entries(status: bytes) -> Iterator[Changed]:
    fields = iter(status.split(b"\0"))
    for field in fields:
        if field:
            code, path = field[:2].decode("ascii", "replace"), field[3:]
            old = next(fields) if {"R", "C"} & set(code) else None
            if not path.endswith(b"/"):  # a repository of its own inside this one
                yield from _changes(code, path, old)


def _changes(code: str, path: bytes, old: bytes | None) -> Iterator[Changed]:
    index, tree = code[0], code[1]
    if old is not None and index == "R" and tree != "D":
        yield Changed(path, "rename", old)
        return
    if old is not None and "R" in code:  # the index alone does not know both, or the new path is gone again
        yield Changed(old, "delete")
    yield Changed(path, "create" if code == " R" else _action(code), is_untracked=code == "??")


def _action(code: str) -> str:
    if code in _UNMERGED:
        return "modify"
    if code[1] == "D" or (code[0] == "D" and code[1] == " "):
        return "delete"
    return "create" if code == "??" or "A" in code else "modify"


def _number(digits: bytes) -> int:
    return 0 if digits == b"-" else int(digits)
