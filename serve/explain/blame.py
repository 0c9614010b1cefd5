"""The git program's blame: options, porcelain parser, and `.git-blame-ignore-revs`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipeline.git.git_cli import GitProgram, RunningGit
from pipeline.git.repository import Repository
from serve.api_types import ExplainRequest
from serve.explain.target import Target

IGNORE_REVS_FILE: Final = ".git-blame-ignore-revs"
IGNORE_REVS_SETTING: Final = "blame.ignorerevsfile"
FULL_SHA: Final = re.compile(rb"[0-9a-fA-F]{40}(?:[0-9a-fA-F]{24})?")

LINE_HEADER: Final = re.compile(rb"([0-9a-f]{40,64}) (\d+) (\d+)(?: \d+)?")
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
class BlameIgnoreRevs:
    """Commits that blame skips.

    - `revisions`: commits listed in the repository's `.git-blame-ignore-revs`.
    - `note`: sentence about invalid lines in that file, else empty.
    - `files`: contents of the files of the setting `blame.ignoreRevsFile`, which git reads itself; part of the key.
    - `settings`: the git configuration without settings that name missing files, on which git would fail; None if no
      file is missing.
    """

    revisions: tuple[str, ...] = ()
    note: str = ""
    files: tuple[bytes, ...] = ()
    settings: tuple[tuple[str, str], ...] | None = None

    @property
    def arguments(self) -> list[str]:
        """Command line options for git."""
        return [f"--ignore-rev={revision}" for revision in self.revisions]


def load_ignore_revs(repository: Repository) -> BlameIgnoreRevs:
    """Load the commits that blame skips in this repository.

    `.git-blame-ignore-revs` is read here because git fails on a line that is not a full commit hash.
    """
    content = _read_ignore_revs(repository)
    lines = [line for line in (raw.partition(b"#")[0].strip() for raw in content.split(b"\n")) if line]
    hashes = [line.decode().lower() for line in lines if FULL_SHA.fullmatch(line)]
    revisions = tuple(revision for revision in dict.fromkeys(hashes) if repository.is_commit(revision))
    configured = {value: _expand_path(repository, value) for value in _configured_files(repository) if value}
    missing = {value for value, path in configured.items() if not path.is_file()}
    return BlameIgnoreRevs(
        revisions=revisions,
        note=""
        if len(hashes) == len(lines)
        else f"Lines of {IGNORE_REVS_FILE} that are not full commit hashes were ignored.",
        files=tuple(_read_or_empty(path) for path in configured.values()),
        settings=_settings_without(repository, missing) if missing else None,
    )


def _settings_without(repository: Repository, missing: set[str]) -> tuple[tuple[str, str], ...]:
    """Return the git configuration without settings that name missing files."""
    return tuple(
        (name, value)
        for name, value in repository.config
        if name != IGNORE_REVS_SETTING or value not in missing
    )


def _expand_path(repository: Repository, value: str) -> Path:
    return repository.root / os.path.expanduser(value)  # noqa: PTH111 - `Path.expanduser` raises for an unknown user


def _read_ignore_revs(repository: Repository) -> bytes:
    if repository.is_bare:
        return repository.read_at_head(IGNORE_REVS_FILE) or b""
    return _read_or_empty(repository.root / IGNORE_REVS_FILE)


def _configured_files(repository: Repository) -> list[str]:
    return [value for name, value in repository.config if name == IGNORE_REVS_SETTING]


def _read_or_empty(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.is_file() else b""
    except OSError:
        return b""


@dataclass(frozen=True, slots=True)
class LineOrigin:
    """Commit that wrote lines, and the path of their file in it.

    `previous` is the parent commit and the path of the file there; None if the commit created the file.
    """

    commit_sha: str
    path: bytes
    previous: tuple[str, bytes] | None


@dataclass(frozen=True, slots=True)
class OriginLine:
    """A blamed line: its number in the current file, and in the file of its origin."""

    number: int
    original_number: int
    origin: LineOrigin

    @property
    def is_committed(self) -> bool:
        """True if a commit contains the line."""
        return UNCOMMITTED.fullmatch(self.origin.commit_sha) is None


@dataclass(frozen=True, slots=True)
class BlameResult:
    """Blamed lines, and the committer time of each commit in seconds since the epoch."""

    lines: tuple[OriginLine, ...]
    commit_times: dict[str, int]


@dataclass(frozen=True, slots=True)
class BlameFailed:
    """Failure of git with its error message."""

    reason: str


@contextmanager
def start_blame(
    git: GitProgram,
    target: Target,
    line_range: tuple[int, int],
    request: ExplainRequest,
    ignore_revs: BlameIgnoreRevs,
) -> Iterator[RunningGit]:
    """Start blame of an inclusive range of lines, for `read_blame` to wait for."""
    options = [
        "blame",
        "--porcelain",
        "--no-textconv",
        f"-L{line_range[0]},{line_range[1]}",
        *(["-w"] if request.ignore_whitespace else []),
        *(["-M", "-C"] if request.follow_moves else []),
        *ignore_revs.arguments,
    ]
    # Blame the content that was read, not the file: the file can change, and the cache key has the content.
    source = ["HEAD"] if target.is_from_head else ["--contents", "-"]
    stdin = None if target.is_from_head else target.content
    with git.start(*options, *source, "--", target.path, stdin=stdin) as running:
        yield running


def read_blame(running: RunningGit) -> BlameResult | BlameFailed:
    """Wait for git and return its result."""
    output = running.wait()
    if output.exit_code:
        last_line = output.stderr.splitlines()[-1] if output.stderr else "no reason given"
        return BlameFailed(last_line.removeprefix("fatal: "))
    return parse_porcelain(output.stdout)


def parse_porcelain(porcelain: bytes) -> BlameResult:
    """Parse the output of `git blame --porcelain`.

    git prints the details of a commit at its first line only, and its path again whenever that differs.
    """
    lines: list[OriginLine] = []
    commit_times: dict[str, int] = {}
    origins: dict[str, LineOrigin] = {}
    sha, original_number, number = "", 0, 0
    previous: tuple[str, bytes] | None = None
    for row in porcelain.split(b"\n"):
        key, _, value = row.partition(b" ")
        if row[:1] == b"\t":
            lines.append(OriginLine(number, original_number, origins[sha]))
        elif header := LINE_HEADER.fullmatch(row):
            sha, original_number, number = header[1].decode(), int(header[2]), int(header[3])
            previous = None
        elif key == b"committer-time":
            commit_times[sha] = int(value)
        elif key == b"previous":
            parent, _, path = value.partition(b" ")
            previous = (parent.decode(), unquote_path(path))
        elif key == b"filename":
            origins[sha] = LineOrigin(sha, unquote_path(value), previous)
    return BlameResult(tuple(lines), commit_times)


def unquote_path(path: bytes) -> bytes:
    """Decode a path that git prints, which is C-quoted if it has special characters."""
    if not (len(path) > 1 and path[:1] == path[-1:] == b'"'):
        return path
    return ESCAPE.sub(_unescape, path[1:-1])


def _unescape(match: re.Match[bytes]) -> bytes:
    escape = match[1]
    return bytes([int(escape, 8)]) if len(escape) == 3 else NAMED_ESCAPES.get(escape, escape)
