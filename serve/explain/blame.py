"""`git blame`: options, parser of its porcelain output, `.git-blame-ignore-revs`; excerpts of diffs."""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipeline.git import patches
from pipeline.git.git_cli import RUN_TIMEOUT_SECONDS, GitProcess, GitProgram
from pipeline.git.objects import normalize_seconds
from pipeline.git.repository import Repository, UnreadableObject
from pipeline.hunks import OVERSIZE_BYTES
from serve import diff_excerpts
from serve.diff_excerpts import CONTEXT_LINES, DiffLine
from serve.explain.target import Target
from serve.explain_types import ExplainRequest
from serve.index_status import EXCERPT_COLUMNS, EXCERPT_LINES, truncate_line

IGNORE_REVS_FILE: Final = ".git-blame-ignore-revs"
IGNORE_REVS_SETTING: Final = "blame.ignorerevsfile"
FULL_SHA: Final = re.compile(rb"[0-9a-fA-F]{40}(?:[0-9a-fA-F]{24})?")

LINE_HEADER: Final = re.compile(rb"([0-9a-f]{40,64}) (\d+) (\d+)(?: \d+)?")
ZERO_SHA: Final = re.compile(r"0+")
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
    - `note`: sentence for the user about invalid lines in that file; empty if there are none.
    - `configured_contents`: contents of the files that the git setting `blame.ignoreRevsFile` names. git reads these
      files itself; they are loaded here only for the cache key of an answer.
    - `replacement_config`: settings that replace the user and system configuration, without `blame.ignoreRevsFile`
      settings that name missing files, because git fails on those. None if no file is missing: nothing is replaced.
    """

    revisions: tuple[str, ...] = ()
    note: str = ""
    configured_contents: tuple[bytes, ...] = ()
    replacement_config: tuple[tuple[str, str], ...] | None = None

    @property
    def arguments(self) -> list[str]:
        """Command line options for git."""
        return [f"--ignore-rev={revision}" for revision in self.revisions]


def load_ignore_revs(repository: Repository) -> BlameIgnoreRevs:
    """Load the commits that blame skips in this repository.

    This reads `.git-blame-ignore-revs` itself, because git fails on a line that is not a full commit hash.
    """
    content = _read_ignore_revs(repository)
    entries = [line for line in (raw.partition(b"#")[0].strip() for raw in content.split(b"\n")) if line]
    hashes = [line.decode().lower() for line in entries if FULL_SHA.fullmatch(line)]
    revisions = tuple(revision for revision in dict.fromkeys(hashes) if repository.is_commit(revision))
    configured_paths = {
        value: _expand_path(repository, value) for value in _list_configured_files(repository) if value
    }
    missing_files = {value for value, path in configured_paths.items() if not path.is_file()}
    return BlameIgnoreRevs(
        revisions=revisions,
        note=""
        if len(hashes) == len(entries)
        else f"Some lines of {IGNORE_REVS_FILE} have no effect: write full commit hashes.",
        configured_contents=tuple(_read_or_empty(path) for path in configured_paths.values()),
        replacement_config=_drop_missing_files(repository, missing_files) if missing_files else None,
    )


def _drop_missing_files(repository: Repository, missing_files: set[str]) -> tuple[tuple[str, str], ...]:
    """Return the git configuration without `blame.ignoreRevsFile` settings that name missing files."""
    return tuple(
        (name, value)
        for name, value in repository.config
        if name != IGNORE_REVS_SETTING or value not in missing_files
    )


def _expand_path(repository: Repository, value: str) -> Path:
    return repository.root / os.path.expanduser(value)  # noqa: PTH111 - `Path.expanduser` raises for an unknown user


def _read_ignore_revs(repository: Repository) -> bytes:
    if repository.is_bare:
        return repository.read_file_at_head(IGNORE_REVS_FILE) or b""
    return _read_or_empty(repository.root / IGNORE_REVS_FILE)


def _list_configured_files(repository: Repository) -> list[str]:
    return [value for name, value in repository.config if name == IGNORE_REVS_SETTING]


def _read_or_empty(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.is_file() else b""
    except OSError:
        return b""


@dataclass(frozen=True, slots=True)
class LineOrigin:
    """Origin of lines: the commit that wrote them, and the path of their file in this commit.

    `previous` is the parent commit and the path of the file there; None if the commit created the file.
    """

    commit_sha: str
    path: bytes
    previous: tuple[str, bytes] | None


@dataclass(frozen=True, slots=True)
class BlamedLine:
    """Line with its origin, its number in the current file (`number`) and its number in the file of the origin."""

    number: int
    original_number: int
    origin: LineOrigin

    @property
    def is_committed(self) -> bool:
        """True if a commit contains the line."""
        return ZERO_SHA.fullmatch(self.origin.commit_sha) is None


@dataclass(frozen=True, slots=True)
class BlameResult:
    """Blamed lines, and the committer time of each commit in seconds since the epoch."""

    lines: tuple[BlamedLine, ...]
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
) -> Iterator[GitProcess]:
    """Start git to blame an inclusive range of lines; `read_blame` waits for it and returns the result."""
    options = [
        "blame",
        "--porcelain",
        "--no-textconv",
        f"-L{line_range[0]},{line_range[1]}",
        *(["-w"] if request.ignore_whitespace else []),
        *(["-C"] if request.follow_moves else []),  # within a file too, as with -M
        *ignore_revs.arguments,
    ]
    # The file can change meanwhile, so pass the content from which the cache key is computed.
    source = [target.revision] if target.revision else ["--contents", "-"]
    stdin = None if target.revision else target.content
    with git.start(*options, *source, "--", target.path, stdin=stdin) as blame_process:
        yield blame_process


def blame_revision(
    git: GitProgram,
    revision: str,
    path: bytes,
    numbers: Collection[int],
    ignore_revs: BlameIgnoreRevs,
    timeout_seconds: float,
    options: Sequence[str] = (),
) -> BlameResult | BlameFailed:
    """Blame lines of a file in a revision, with further options of `git blame`. Raises GitTimeout."""
    ranges = [f"-L{first},{last}" for first, last in _merge_ranges(numbers)]
    arguments = ["blame", "--porcelain", "--no-textconv", *options, *ranges, *ignore_revs.arguments]
    output = git.run(*arguments, revision, "--", path, timeout_seconds=timeout_seconds)
    return BlameFailed(output.stderr) if output.exit_code else parse_porcelain(output.stdout)


def _merge_ranges(numbers: Collection[int]) -> list[tuple[int, int]]:
    """Return the runs of consecutive numbers."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = ranges[-1][0], number
        else:
            ranges.append((number, number))
    return ranges


def read_blame(blame_process: GitProcess, timeout_seconds: float | None = None) -> BlameResult | BlameFailed:
    """Wait for git and return its result. Raises GitTimeout: git can take exponential time to match attributes."""
    output = blame_process.wait(timeout_seconds or RUN_TIMEOUT_SECONDS)
    if output.exit_code:
        last_line = output.stderr.splitlines()[-1] if output.stderr else "no reason given"
        return BlameFailed(last_line.removeprefix("fatal: "))
    return parse_porcelain(output.stdout)


def parse_porcelain(porcelain: bytes) -> BlameResult:
    """Parse the output of `git blame --porcelain`.

    git prints the details of a commit only with the first of its lines, and a path whenever it changes.
    """
    lines: list[BlamedLine] = []
    commit_times: dict[str, int] = {}
    origins: dict[str, LineOrigin] = {}
    sha, original_number, number = "", 0, 0
    previous: tuple[str, bytes] | None = None
    for row in porcelain.split(b"\n"):
        key, _, value = row.partition(b" ")
        if row[:1] == b"\t":
            lines.append(BlamedLine(number, original_number, origins[sha]))
        elif header := LINE_HEADER.fullmatch(row):
            sha, original_number, number = header[1].decode(), int(header[2]), int(header[3])
            previous = None
        elif key == b"committer-time":
            commit_times[sha] = normalize_seconds(int(value))
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
    return ESCAPE.sub(_decode_escape, path[1:-1])


def _decode_escape(match: re.Match[bytes]) -> bytes:
    escape = match[1]
    return bytes([int(escape, 8)]) if len(escape) == 3 else NAMED_ESCAPES.get(escape, escape)


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Excerpt of a diff; `is_truncated` if it omits a part that concerns the blamed lines."""

    text: str
    is_truncated: bool


EMPTY_EXCERPT: Final = Excerpt("", is_truncated=False)


def find_main_origin(lines: Sequence[BlamedLine]) -> LineOrigin:
    """Return the origin of most of the lines."""
    return Counter(line.origin for line in lines).most_common(1)[0][0]


def build_excerpt(repository: Repository, lines: Sequence[BlamedLine]) -> Excerpt:
    """Return the excerpt of a commit's diff for lines blamed on it, in the file that most of them come from.

    It is empty at a shallow boundary, where the parent is unknown; empty and truncated if a version of the file is
    missing or too large to compare.
    """
    origin = find_main_origin(lines)
    if origin.commit_sha in repository.shallow_boundary:
        return EMPTY_EXCERPT
    numbers = {line.original_number for line in lines if line.origin == origin}
    try:
        body = _diff_versions(repository, origin)
    except UnreadableObject:
        return Excerpt("", is_truncated=True)
    if body is None:
        return Excerpt("", is_truncated=True)
    return select_sections(diff_excerpts.split_sections(body), numbers)


def _diff_versions(repository: Repository, origin: LineOrigin) -> str | None:
    """Return the `@@` sections between the two versions of the file; None if one is too large to compare."""
    new = repository.find_entry(origin.commit_sha, origin.path)
    old = repository.find_entry(*origin.previous) if origin.previous else None
    blobs = [entry.sha if entry else None for entry in (old, new)]
    if any(repository.read_blob_size(blob) > OVERSIZE_BYTES for blob in blobs if blob):
        return None
    body = patches.strip_file_header(repository.create_blob_patch(*blobs).data)
    return body.decode("utf-8", errors="replace")


def select_sections(sections: Sequence[str], numbers: set[int]) -> Excerpt:
    """Return the sections that contain the numbered new lines; if they are too long, only the lines near these."""
    if not sections:
        return EMPTY_EXCERPT
    sorted_numbers = sorted(numbers)
    distances = [_measure_distance(section, sorted_numbers) for section in sections]
    touched_sections = [
        section for section, distance in zip(sections, distances, strict=True) if distance == 0
    ]
    # Blame and diff can disagree about equal lines around an added block, or if blame skipped a commit.
    if not touched_sections:
        nearest = sections[distances.index(min(distances))]
        touched_sections = [nearest]
        numbers = {_find_nearest_line(nearest, number) for number in numbers}
    text = "".join(touched_sections)
    if text.count("\n") <= EXCERPT_LINES:
        return _crop(text, is_truncated=False)
    windows = "".join(window for section in touched_sections for window in _format_windows(section, numbers))
    return _crop("\n".join(windows.split("\n")[:EXCERPT_LINES]), is_truncated=True)


def _measure_distance(section: str, numbers: Sequence[int]) -> int:
    """Return the distance in lines from a section to the nearest of the sorted numbers; 0 if it has one of them."""
    _, _, start, count = diff_excerpts.parse_section_header(section)
    index = bisect_left(numbers, start)
    before = [start - numbers[index - 1]] if index else []
    after = [max(0, numbers[index] - (start + count - 1))] if index < len(numbers) else []
    return min([*before, *after])


def _find_nearest_line(section: str, number: int) -> int:
    """Return the new line of the section that is nearest to a line number."""
    _, _, start, count = diff_excerpts.parse_section_header(section)
    return max(start, min(number, start + count - 1))


def _format_windows(section: str, numbers: set[int]) -> Iterator[str]:
    """Yield the lines near the numbered ones, each run of consecutive lines as a section of its own."""
    lines = list(diff_excerpts.parse_section_lines(section))
    shown_indexes = {
        nearby_index
        for index, line in enumerate(lines)
        if line.text[:1] != "-" and line.new_number in numbers
        for nearby_index in range(index - CONTEXT_LINES, index + CONTEXT_LINES + 1)
        if 0 <= nearby_index < len(lines)
    }
    run: list[DiffLine] = []
    for index, line in enumerate(lines):
        if index in shown_indexes:
            run.append(line)
        elif run:
            yield diff_excerpts.format_lines(section, run)
            run = []
    if run:
        yield diff_excerpts.format_lines(section, run)


def _crop(text: str, *, is_truncated: bool) -> Excerpt:
    """Return an excerpt with long lines truncated."""
    lines = text.split("\n")
    cropped = "\n".join(map(truncate_line, lines))
    return Excerpt(cropped, is_truncated or any(len(line) > EXCERPT_COLUMNS for line in lines))
