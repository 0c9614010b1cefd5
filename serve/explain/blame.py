"""Commits that blame looks through: those of `.git-blame-ignore-revs`, which many repositories keep.

The git program's blame: the command, started early and read late, and what its answer says.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipeline.git.git_cli import Git, Running
from pipeline.git.repository import Repository
from serve.api_types import ExplainRequest
from serve.explain.target import Target

FILE: Final = ".git-blame-ignore-revs"
SETTING: Final = "blame.ignorerevsfile"
REVISION: Final = re.compile(rb"[0-9a-fA-F]{40}(?:[0-9a-fA-F]{24})?")


@dataclass(frozen=True, slots=True)
class Ignoring:
    """The commits of the repository's own file, and what is to be said about lines that name none.

    git reads the files of `blame.ignoreRevsFile` itself; `files` is what is in them, for whoever wants to know
    whether anything changed. It refuses to work where one is not there, and many people have named one for all
    their repositories: `settings` are then those to go by, without it.
    """

    revisions: tuple[str, ...] = ()
    note: str = ""
    files: tuple[bytes, ...] = ()
    settings: tuple[tuple[str, str], ...] | None = None

    @property
    def arguments(self) -> list[str]:
        """How git is told."""
        return [f"--ignore-rev={revision}" for revision in self.revisions]


def ignoring(repository: Repository) -> Ignoring:
    """What is to be ignored here.

    The lines of the repository's own file are read here and not by git, which refuses to work when one of them
    is no full commit name.
    """
    own = _own(repository)
    lines = [line for line in (raw.partition(b"#")[0].strip() for raw in own.split(b"\n")) if line]
    named = [line.decode().lower() for line in lines if REVISION.fullmatch(line)]
    known = tuple(revision for revision in dict.fromkeys(named) if repository.is_commit(revision))
    configured = {value: _place(repository, value) for value in _configured(repository) if value}
    absent = {value for value, path in configured.items() if not path.is_file()}
    passed_over = f"Lines of {FILE} that are no full commit names were passed over."
    return Ignoring(
        revisions=known,
        note="" if len(named) == len(lines) else passed_over,
        files=tuple(_content(path) for path in configured.values()),
        settings=_settings_without(repository, absent) if absent else None,
    )


def _settings_without(repository: Repository, absent: set[str]) -> tuple[tuple[str, str], ...]:
    return tuple(said for said in repository.configuration if said[0] != SETTING or said[1] not in absent)


def _place(repository: Repository, value: str) -> Path:
    return repository.root / os.path.expanduser(value)  # noqa: PTH111 - leaves nobody's home as it is


def _own(repository: Repository) -> bytes:
    if repository.is_bare:
        return repository.read_at_head(FILE) or b""
    return _content(repository.root / FILE)


def _configured(repository: Repository) -> list[str]:
    return [value for name, value in repository.configuration if name == SETTING]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.is_file() else b""
    except OSError:
        return b""


HEADER: Final = re.compile(rb"([0-9a-f]{40,64}) (\d+) (\d+)(?: \d+)?")
UNCOMMITTED: Final = re.compile(r"0+")
ESCAPE: Final = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
NAMED_ESCAPES: Final = {
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"v": b"\v",
}


@dataclass(frozen=True, slots=True)
class Origin:
    """Where lines come from: the commit that wrote them and the file as it was called there.

    `previous` is the commit and path that blame would have looked at next; None where the file began.
    """

    commit_sha: str
    path: bytes
    previous: tuple[str, bytes] | None


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the asked range; `original` is its number in the origin's file."""

    number: int
    original: int
    origin: Origin

    @property
    def committed(self) -> bool:
        """Whether any commit has the line."""
        return UNCOMMITTED.fullmatch(self.origin.commit_sha) is None


@dataclass(frozen=True, slots=True)
class Blame:
    """Every line of the range; `dates` are the committers' clocks, in seconds, by commit."""

    lines: tuple[Line, ...]
    dates: dict[str, int]


@dataclass(frozen=True, slots=True)
class Refused:
    """git could not say; `reason` is its own."""

    reason: str


@contextmanager
def started(
    git: Git, target: Target, asked: tuple[int, int], request: ExplainRequest, ignored: Ignoring
) -> Iterator[Running]:
    """The program at work on these lines of the target."""
    options = [
        "blame",
        "--porcelain",
        "--no-textconv",
        f"-L{asked[0]},{asked[1]}",
        *(["-w"] if request.ignore_whitespace else []),
        *(["-M", "-C"] if request.follow_moves else []),
        *ignored.arguments,
    ]
    # The content in hand, not the file: it may change meanwhile, and the lines are those of the key.
    source = ["HEAD"] if target.committed else ["--contents", "-"]
    given = None if target.committed else target.content
    with git.started(*options, *source, "--", target.path, given=given) as running:
        yield running


def read(running: Running) -> Blame | Refused:
    """The program's answer, waited for."""
    done = running.finished()
    if done.code:
        return Refused(
            done.complaint.splitlines()[-1].removeprefix("fatal: ") if done.complaint else "no reason"
        )
    return parsed(done.out)


def parsed(porcelain: bytes) -> Blame:
    """The lines in what `git blame --porcelain` prints.

    A commit's details come with its first line, its path again wherever it has several.
    """
    lines: list[Line] = []
    dates: dict[str, int] = {}
    origins: dict[str, Origin] = {}
    sha, original, number = "", 0, 0
    previous: tuple[str, bytes] | None = None
    for row in porcelain.split(b"\n"):
        key, _, value = row.partition(b" ")
        if row[:1] == b"\t":
            lines.append(Line(number, original, origins[sha]))
        elif header := HEADER.fullmatch(row):
            sha, original, number = header[1].decode(), int(header[2]), int(header[3])
            previous = None
        elif key == b"committer-time":
            dates[sha] = int(value)
        elif key == b"previous":
            before, _, path = value.partition(b" ")
            previous = (before.decode(), unquoted(path))
        elif key == b"filename":
            origins[sha] = Origin(sha, unquoted(value), previous)
    return Blame(tuple(lines), dates)


def unquoted(path: bytes) -> bytes:
    """A path as git prints it: in quotes, like C, where it has signs that would not fit a line."""
    if not (len(path) > 1 and path[:1] == path[-1:] == b'"'):
        return path
    return ESCAPE.sub(_escaped, path[1:-1])


def _escaped(match: re.Match[bytes]) -> bytes:
    sign = match[1]
    return bytes([int(sign, 8)]) if len(sign) == 3 else NAMED_ESCAPES.get(sign, sign)
