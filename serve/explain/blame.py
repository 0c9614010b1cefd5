"""`git blame`: options, parser of its output, `.git-blame-ignore-revs`, and sentences about limitations."""

from __future__ import annotations

import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from pipeline.git import commit_graph
from pipeline.git.errors import REFETCH_COMMAND
from pipeline.git.git_cli import RUN_TIMEOUT_SECONDS, GitProcess, GitProgram
from pipeline.git.git_dir import read_or_empty
from pipeline.git.objects import parse_seconds
from pipeline.git.repository import Repository
from pipeline.interrupts import Deadline
from serve.explain.changed_lines import create_file_reader
from serve.explain.line_similarity import (
    MIN_WEIGHT,
    compute_containment,
    compute_similarity,
    extract_features,
)
from serve.explain.target import Target
from serve.explain_types import ExplainRequest
from serve.text import format_ranges

logger = logging.getLogger(__name__)

IGNORE_REVS_FILE: Final = ".git-blame-ignore-revs"
IGNORE_REVS_SETTING: Final = "blame.ignorerevsfile"
INCLUDE_SETTING: Final = re.compile(r"include\.path|includeif\..*\.path", re.DOTALL)
# Maximum number of line ranges in a sentence. More ranges mean that the file was rewritten, so the first ones suffice.
MAX_LINE_RANGES: Final = 6
# Option that disables the setting `blame.ignoreRevsFile`.
NO_IGNORE_FILE: Final = "--ignore-revs-file="
# Minimum similarity of a line and its origin. git guesses if it skips a commit, so a less similar origin is a guess.
MIN_ORIGIN_SIMILARITY: Final = 0.5
FULL_SHA: Final = re.compile(rb"[0-9a-fA-F]{40}(?:[0-9a-fA-F]{24})?")

# Header of a blamed line: commit, line number there, line number in the blamed file, size of the group that it begins.
LINE_HEADER: Final = re.compile(rb"([0-9a-f]{40,64}) (\d+) (\d+)(?: \d+)?")
ZERO_SHA: Final = re.compile(r"0+")
# Escapes in a C-quoted path.
ESCAPE: Final = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
NAMED_ESCAPES: Final = {
    b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class BlameIgnoreRevs:
    """Commits that blame skips.

    - `revisions`: existing commits that the repository's `.git-blame-ignore-revs` lists.
    - `note`: sentence for the user about invalid lines in that file; empty if there are none.
    - `configured_files`, `configured_contents`: the files that the git setting `blame.ignoreRevsFile` names, and their
      contents. git reads these files itself; they are loaded here only for the cache key of an answer.
    - `replacement_config`: git configuration without `blame.ignoreRevsFile` settings that git fails on, because they
      name a missing file or a directory. None if there are none: git then uses the user and system configuration.
    """

    revisions: tuple[str, ...] = ()
    note: str = ""
    configured_files: tuple[Path, ...] = ()
    configured_contents: tuple[bytes, ...] = ()
    replacement_config: tuple[tuple[str, str], ...] | None = None

    @property
    def has_commits(self) -> bool:
        """True if blame may skip a commit."""
        return bool(self.revisions or any(self.configured_contents))

    @property
    def arguments(self) -> list[str]:
        """Command line options for git."""
        return [f"--ignore-rev={revision}" for revision in self.revisions]


def load_ignore_revs(repository: Repository) -> BlameIgnoreRevs:
    """Load the commits that blame skips in this repository.

    git does not read `.git-blame-ignore-revs`, because it would fail on a line that is not a full commit hash.
    """
    content = _read_ignore_revs(repository)
    lines = (line.partition(b"#")[0].strip() for line in content.split(b"\n"))
    entries = list(filter(None, lines))
    hashes = [line.decode().lower() for line in entries if FULL_SHA.fullmatch(line)]
    revisions = tuple(revision for revision in dict.fromkeys(hashes) if repository.is_commit(revision))
    configured_files = _list_configured_files(repository)
    note = ""
    if len(hashes) < len(entries):
        note = f"Some lines of {IGNORE_REVS_FILE} have no effect: write full commit hashes."
    return BlameIgnoreRevs(
        revisions=revisions,
        note=note,
        configured_files=configured_files,
        configured_contents=tuple(map(read_or_empty, configured_files)),
        replacement_config=_list_usable_settings(repository)
        if any(map(_is_unusable, configured_files))
        else None,
    )


def _is_unusable(path: Path) -> bool:
    return not path.exists() or path.is_dir()  # git fails on both


def _list_usable_settings(repository: Repository) -> tuple[tuple[str, str], ...]:
    """Return the git configuration without `blame.ignoreRevsFile` settings that name unusable files.

    Include settings are left out too, because the list already has the settings of included files, and because git
    rejects a relative include in the environment.
    """
    return tuple(
        (name, value)
        for name, value in commit_graph.list_settings(repository)
        if not INCLUDE_SETTING.fullmatch(name)
        and not (name == IGNORE_REVS_SETTING and value and _is_unusable(_expand_path(repository, value)))
    )


def _expand_path(repository: Repository, value: str) -> Path:
    return repository.root / os.path.expanduser(value)  # noqa: PTH111 - `Path.expanduser` raises for an unknown user


def _read_ignore_revs(repository: Repository) -> bytes:
    file = repository.root / IGNORE_REVS_FILE
    return (repository.read_file_at_head(file.name) or b"") if repository.is_bare else read_or_empty(file)


def _list_configured_files(repository: Repository) -> tuple[Path, ...]:
    values = [value for name, value in repository.config if name == IGNORE_REVS_SETTING]
    return tuple(_expand_path(repository, value) for value in values if value)


@dataclass(frozen=True, slots=True)
class LineOrigin:
    """Origin of lines: the commit that wrote them, and the path of their file in this commit.

    `previous`: the parent commit and the path of the file there; None if the commit created the file.
    """

    commit_sha: str
    path: bytes
    previous: tuple[str, bytes] | None


@dataclass(frozen=True, slots=True)
class BlamedLine:
    """Line with its origin. `number`: line number in the blamed file. `original_number`: line number in the origin."""

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
class BlameFailure:
    """Failure of `git blame`. `reason`: last line of git's error message."""

    reason: str


@dataclass(frozen=True, slots=True)
class RunningBlame:
    """Running `git blame`. `start_without_index`: starts it without git's index file; None if a revision is blamed."""

    process: GitProcess
    start_without_index: Callable[[], AbstractContextManager[GitProcess]] | None

    def read(self, timeout_seconds: float | None = None) -> BlameResult | BlameFailure:
        """Wait for git and return its result. If git failed, as with a damaged index file, run it without that file.

        `timeout_seconds`: as in `read_blame`. Raises GitTimeout.
        """
        result = read_blame(self.process, timeout_seconds)
        if isinstance(result, BlameFailure) and self.start_without_index:
            with self.start_without_index() as process:
                second_result = read_blame(process, timeout_seconds)
            return second_result if isinstance(second_result, BlameResult) else result
        return result


@contextmanager
def start_blame(
    git: GitProgram,
    target: Target,
    line_range: tuple[int, int],
    request: ExplainRequest,
    ignore_revs: BlameIgnoreRevs,
) -> Iterator[RunningBlame]:
    """Start git to blame lines of the target, from the first to the last of `line_range`."""
    options = [
        "blame",
        "--porcelain",
        "--no-textconv",
        f"-L{line_range[0]},{line_range[1]}",
        *(["-w"] if request.ignore_whitespace else []),
        *(["-C"] if request.follow_moves else []),  # includes `-M`: moves within a file
        *ignore_revs.arguments,
    ]
    # The file can change while git runs, so git gets the content from which the cache key is computed.
    source = [target.revision] if target.revision else ["--contents", "-"]
    stdin = None if target.revision else target.content
    start = partial(git.start, *options, *source, "--", target.path, stdin=stdin)
    with start() as process:
        yield RunningBlame(process, None if target.revision else partial(start, without_index=True))


def blame_revision(
    git: GitProgram,
    revision: str,
    path: bytes,
    numbers: Collection[int],
    ignore_revs: BlameIgnoreRevs,
    timeout_seconds: float,
    options: Sequence[str] = (),
) -> BlameResult | BlameFailure:
    """Blame the numbered lines of a file in a revision; all lines if `numbers` is empty. Raises GitTimeout.

    `options`: further options of `git blame`.
    """
    with start_revision_blame(git, revision, path, numbers, ignore_revs, options) as process:
        return read_blame(process, timeout_seconds)


def start_revision_blame(
    git: GitProgram,
    revision: str,
    path: bytes,
    numbers: Collection[int],
    ignore_revs: BlameIgnoreRevs,
    options: Sequence[str] = (),
) -> AbstractContextManager[GitProcess]:
    """Start git to blame lines as `blame_revision` does. `read_blame` waits for the result."""
    ranges = [f"-L{first},{last}" for first, last in _merge_ranges(numbers)]
    arguments = ["blame", "--porcelain", "--no-textconv", *options, *ranges, *ignore_revs.arguments]
    return git.start(*arguments, revision, "--", path)


@dataclass(frozen=True, slots=True)
class RevisionBlamer:
    """Runner of git blame on past revisions, with a deadline.

    `limitations`: list to which a sentence is added if git fails.
    """

    repository: Repository
    git: GitProgram
    ignore_revs: BlameIgnoreRevs
    deadline: Deadline
    limitations: list[str]

    def blame(self, revision: str, path: bytes, numbers: Collection[int]) -> BlameResult:
        """Blame the numbered lines; the result is empty if git fails. Raises GitTimeout at the deadline."""
        with start_revision_blame(self.git, revision, path, numbers, self.ignore_revs) as process:
            return self.read(process)

    def start_with_all_commits(
        self, revision: str, path: bytes, numbers: Collection[int], options: Sequence[str] = ()
    ) -> AbstractContextManager[GitProcess]:
        """Start git to blame lines without skipping commits. `options`: further options of `git blame`."""
        options = (*options, NO_IGNORE_FILE)
        return start_revision_blame(self.git, revision, path, numbers, BlameIgnoreRevs(), options)

    def blame_without_guesses(self, revision: str, path: bytes, numbers: Collection[int]) -> BlameResult:
        """Blame lines as `blame` does. If git guessed the origin of a line, blame it without skipping commits."""
        result = self.blame(revision, path, numbers)
        if not self.ignore_revs.has_commits:
            return result
        guesses = _find_guesses(self.repository, revision, path, result)
        if not guesses:
            return result
        with self.start_with_all_commits(revision, path, guesses) as process:
            exact_result = self.read(process)
        lines = [line for line in result.lines if line.number not in guesses]
        return BlameResult((*lines, *exact_result.lines), result.commit_times | exact_result.commit_times)

    def read(self, process: GitProcess) -> BlameResult:
        """Wait for git; the result is empty if git fails. Raises GitTimeout at the deadline."""
        result = read_blame(process, self.deadline.remaining_seconds)
        if isinstance(result, BlameFailure):
            logger.warning("git blame failed for an earlier commit: %s", result.reason)
            self.limitations.append("git blame failed for an earlier commit.")
            return BlameResult((), {})
        return result


def _find_guesses(repository: Repository, revision: str, path: bytes, blame: BlameResult) -> set[int]:
    """Return the numbers of the lines of at least MIN_WEIGHT that are not similar to their origin.

    git skipped an ignored commit and guessed these origins.
    """
    read_file = create_file_reader(repository)
    texts = read_file(revision, path)
    guesses: set[int] = set()
    for line in blame.lines:
        old_texts = read_file(line.origin.commit_sha, line.origin.path)
        if line.number <= len(texts) and line.original_number <= len(old_texts):
            features = extract_features(texts[line.number - 1])
            old_features = extract_features(old_texts[line.original_number - 1])
            score = max(
                compute_similarity(features, old_features), compute_containment(features, old_features)
            )
            if features.weight >= MIN_WEIGHT and score < MIN_ORIGIN_SIMILARITY:
                guesses.add(line.number)
    return guesses


def _merge_ranges(numbers: Collection[int]) -> list[tuple[int, int]]:
    """Return the first and last number of each run of consecutive numbers."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = ranges[-1][0], number
        else:
            ranges.append((number, number))
    return ranges


def read_blame(blame_process: GitProcess, timeout_seconds: float | None = None) -> BlameResult | BlameFailure:
    """Wait for git and return its result. Raises GitTimeout, because matching attributes can take exponential time.

    `timeout_seconds`: None for RUN_TIMEOUT_SECONDS.
    """
    output = blame_process.wait(timeout_seconds or RUN_TIMEOUT_SECONDS)
    if output.exit_code:
        last_line = output.stderr.splitlines()[-1] if output.stderr else "no reason given"
        return BlameFailure(last_line.removeprefix("fatal: "))
    return parse_porcelain(output.stdout)


def parse_porcelain(porcelain: bytes) -> BlameResult:
    """Parse the output of `git blame --porcelain`.

    git prints the details of a commit only with the first of its lines, and the path again whenever it changes.
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
            commit_times[sha] = parse_seconds(value)
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


def find_main_origin(lines: Sequence[BlamedLine]) -> LineOrigin:
    """Return the most frequent origin of the lines."""
    return Counter(line.origin for line in lines).most_common(1)[0][0]


def describe_blame_failure(failure: BlameFailure, repository: Repository) -> str:
    """Say why `git blame` failed."""
    if failure.reason.startswith("invalid object name: "):
        files = ", ".join(map(str, _list_configured_files(repository)))
        hint = f"Write only full commit hashes to the file of `blame.ignoreRevsFile`: {files}."
        return f"git blame failed: {failure.reason}. {hint}"
    if repository.is_partial_clone and not failure.reason.startswith("could not open object name list: "):
        return (
            f"git could not read the history: {failure.reason}. "
            f"This partial clone lacks objects, and lineage does not fetch them: run {REFETCH_COMMAND}."
        )
    is_damaged = re.search("(?:loose|packed|bad) object|(?:to|not) read", failure.reason)
    return f"git blame failed: {failure.reason}.{' Run `git fsck` to list damaged objects.' if is_damaged else ''}"


def describe_line_limitations(lines: Sequence[BlamedLine], repository: Repository) -> Iterator[str]:
    """Yield sentences about uncommitted lines, and about lines blamed on the oldest commits of a shallow clone."""
    uncommitted_lines = [line.number for line in lines if not line.is_committed]
    if uncommitted_lines:
        yield f"{_format_lines(uncommitted_lines)} not committed yet."
    boundary_lines = [line.number for line in lines if line.origin.commit_sha in repository.shallow_boundary]
    if boundary_lines:
        yield (
            f"{_format_lines(boundary_lines)} attributed to the oldest commit of this shallow clone, but may be "
            "older. Run `git fetch --unshallow` to get the missing history."
        )


def describe_file_limitations(
    target: Target, ignore_revs: BlameIgnoreRevs, repository: Repository, git: GitProgram
) -> Iterator[str]:
    """Yield sentences about the file, invalid lines of `.git-blame-ignore-revs`, and git filters that do not run."""
    if target.note:
        yield target.note
    if ignore_revs.note and target.content is not None:
        yield ignore_revs.note
    if target.is_missing or target.revision:
        return
    driver = repository.get_attribute(target.path, "filter")
    if isinstance(driver, str) and any(
        name.rpartition(".")[0] == f"filter.{driver}" for name in git.filter_settings
    ):
        yield (
            f"git's filter {driver!r} was not run on this file, so lines that it changes count as not committed."
        )


def _format_lines(numbers: Sequence[int]) -> str:
    """Return a subject and verb for a sentence about lines, such as "Lines 3-7, 9 are"."""
    ranges = format_ranges(numbers)
    text = ", ".join(ranges[:MAX_LINE_RANGES]) + (" and others" if len(ranges) > MAX_LINE_RANGES else "")
    return f"Line {text} is" if len(numbers) == 1 else f"Lines {text} are"
