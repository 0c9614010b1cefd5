"""The git program's blame: the command, started early and read late, and what its answer says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from pipeline.git.program import Git, Running
from serve.explain.ignoring import Ignoring
from serve.explain.target import Target
from serve.questions import ExplainRequest

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
