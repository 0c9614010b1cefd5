"""Ranges of commits in git's syntax, such as `v1.2..v1.3`, `main...topic`, `^main topic` or `topic`; tips of branches.

git itself resolves them, with all that `git rev-list` accepts for revisions. Options and paths are no part of a range.
A revision may have spaces between braces only, as in `main@{1 week ago}` or `HEAD^{/fix a bug}`.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Final

from pipeline.git.changes import decode_path
from pipeline.git.errors import UnreadableObject
from pipeline.git.git_cli import GitProgram
from pipeline.git.objects import EPOCH, normalize_seconds
from pipeline.git.repository import Repository
from stores.errors import LineageError

RANGE_HINT: Final = (
    "Give a range as for `git log`: `v1.2..v1.3`, `main...topic`, `^main topic`, or one branch or tag."
)
# Names that an error suggests.
MAX_SUGGESTIONS: Final = 3
# User settings do not change the output of this plumbing command. It lists no files of merges.
_DIFF_TREE: Final = (
    "diff-tree", "--stdin", "-r", "--root", "-z", "--always", "--name-only", "--no-renames", "-O/dev/null"
)  # fmt: skip
_FORMAT: Final = "%H%x00%P%x00%aN%x00%aE%x00%ct%x00%B%x00"
# Fields of a commit in the output after its sha: those of the format, and an empty one before the files.
_COMMIT_FIELDS: Final = 6
_DOTS: Final = re.compile(r"\.{2,3}")
# A revision, with spaces between braces only.
_WORD: Final = re.compile(r"(?:[^\s{]|\{[^}]*\}?)+")


class BadRange(LineageError):
    """Text that is no range of commits, or that names a revision which the repository lacks."""


@dataclass(frozen=True, slots=True)
class RangeCommit:
    """Commit of a range, with the files that it changes: none for a merge, and both paths of a renamed file.

    `author_name` and `author_email` are mapped by `.mailmap`; `date` is the committer's, in UTC without a zone.
    """

    sha: str
    parents: tuple[str, ...]
    author_name: str
    author_email: str
    date: datetime
    message: str
    paths: tuple[str, ...]


def list_range(
    repository: Repository, git: GitProgram, text: str, excluded: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return the commits of a range that none of the excluded commits reaches, newest first. Raises BadRange."""
    words = _split_words(text)
    # Thousands of indexed branches would exceed the length of a command line.
    stdin = "".join(f"^{sha}\n" for sha in excluded).encode("ascii")
    output = git.run("rev-list", "--stdin", "--end-of-options", *words, "--", stdin=stdin)
    if output.exit_code:
        raise _build_error(repository, text, output.stderr)
    return tuple(output.stdout.decode("ascii").split())


def read_commits(repository: Repository, git: GitProgram, shas: Sequence[str]) -> list[RangeCommit]:
    """Return these commits, in their order. Without the last ones if git cannot read a tree of the next one.

    A commit at a shallow boundary has no files, because its parent is unknown.
    """
    separator = secrets.token_hex()  # so that no message or file name can contain it
    output = git.run(
        *_DIFF_TREE,
        "--encoding=UTF-8",
        f"--format={separator}{_FORMAT}",
        stdin="".join(f"{sha}\n" for sha in shas).encode(),
    )
    fields = output.stdout.split(b"\0")
    starts: list[int] = []
    for position, field in enumerate(fields):
        if field.startswith(separator.encode()):
            starts.append(position)
    ends = [*starts[1:], len(fields) - 1][: len(starts)]
    return [
        _parse_commit(sha, fields[start + 1 : end], repository.shallow_boundary)
        for sha, start, end in zip(shas, starts, ends, strict=False)
    ]


def _parse_commit(sha: str, fields: Sequence[bytes], shallow_boundary: Collection[str]) -> RangeCommit:
    parents, name, email, seconds, message = (
        field.decode("utf-8", "replace") for field in fields[: _COMMIT_FIELDS - 1]
    )
    paths = [field.removeprefix(b"\n") for field in fields[_COMMIT_FIELDS:]]
    return RangeCommit(
        sha,
        tuple(parents.split()),
        name,
        email,
        EPOCH + timedelta(seconds=normalize_seconds(int(seconds or 0))),
        message.rstrip("\n"),
        () if sha in shallow_boundary else tuple(decode_path(path) for path in paths if path),
    )


def list_range_outside(
    repository: Repository, git: GitProgram, text: str, tips: Iterable[str | None]
) -> frozenset[str]:
    """Return the commits of a range that none of the tips reaches. Tips that the repository lacks do not count."""
    known_tips = {sha for sha in tips if sha and repository.contains(sha)}
    return frozenset(list_range(repository, git, text, known_tips))


def list_included_names(text: str) -> list[str]:
    """Return the revisions of a range whose commits belong to it: of `A..B` the second one."""
    names = []
    for word in _WORD.findall(text):
        if not word.startswith("^"):
            parts = _DOTS.split(word)
            names += parts if "..." in word else parts[-1:]
    return [name or "HEAD" for name in names]


def list_branch_tips(repository: Repository, git: GitProgram, patterns: Iterable[str]) -> list[str]:
    """Return the commits of the refs that match a pattern, each once, in the order of the refs' names.

    A pattern is a glob of `git for-each-ref`, or a name or its first parts: of local branches, remote-tracking branches
    and tags, or of any refs if it starts with `refs/`. Refs of other objects and of missing commits are left out.
    """
    full_patterns = [full for pattern in patterns for full in _expand_pattern(pattern)]
    if not full_patterns:
        return []
    output = git.run("for-each-ref", "--format=%(objectname)", *full_patterns)
    tips: dict[str, None] = {}
    for sha in output.stdout.decode("ascii").split():
        with suppress(UnreadableObject):
            if commit := repository.resolve_revision(sha):
                tips[commit] = None
    return list(tips)


def _expand_pattern(pattern: str) -> list[str]:
    if pattern.startswith("refs/"):
        return [pattern]
    return [f"refs/{folder}/{pattern}" for folder in ("heads", "remotes", "tags")]


def suggest_references(repository: Repository, name: str) -> str:
    """Return a sentence that names the branches and tags with a name like this one; empty if there are none."""
    similar_names = get_close_matches(name, repository.list_references(), n=MAX_SUGGESTIONS)
    return f"Did you mean {' or '.join(map(_escape, similar_names))}?" if similar_names else ""


def _names_object(repository: Repository, name: str) -> bool:
    with suppress(UnreadableObject):  # git says what it is
        return repository.resolve_revision(name) is not None
    return True


def _split_words(text: str) -> list[str]:
    words = _WORD.findall(text)
    if not words or "\0" in text:
        raise BadRange("The range is empty.", hint=RANGE_HINT)
    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:  # a lone surrogate, which JSON allows
        raise BadRange(f"{text!r:.200} is not valid Unicode.", hint=RANGE_HINT) from error
    for word in words:
        if word.startswith("-"):
            raise BadRange(f"{word!r:.200} is not a revision.", hint=RANGE_HINT)
    return words


def _build_error(repository: Repository, text: str, reason: str) -> BadRange:
    """Return the error for a range that git refuses, about the first revision that the repository lacks."""
    for word in _WORD.findall(text):
        for name in filter(None, _DOTS.split(word.removeprefix("^"))):
            if not _names_object(repository, name):
                suggestion = suggest_references(repository, name)
                shallow = " A shallow clone lacks old commits." if repository.is_shallow else ""
                return BadRange(
                    f"The repository has no commit {name!r:.200}.{shallow}",
                    hint=f"{suggestion} {RANGE_HINT}".lstrip(),
                )
    detail = reason.splitlines()[0].removeprefix("fatal: ") if reason else "git refuses it"
    if detail.startswith("usage:"):
        detail = "it excludes commits, and includes none"
    return BadRange(f"{text!r:.200} is not a range of commits: {_escape(detail)}.", hint=RANGE_HINT)


def _escape(text: str) -> str:
    """Return a text for a sentence, quoted if it has control characters or bidirectional controls."""
    return text if text.isprintable() else repr(text)
