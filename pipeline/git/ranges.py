"""Commit ranges in git's syntax (`v1.2..v1.3`, `main...topic`, `^main topic`, `topic`), and the tips of branches.

git itself resolves them: a range may have every revision that `git rev-list` accepts, but no options and no paths.
A revision may have spaces only between braces, as in `main@{1 week ago}` or `HEAD^{/fix a bug}`.
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
from pipeline.git.objects import EPOCH, parse_seconds
from pipeline.git.repository import Repository
from pipeline.wildmatch import MAX_PATTERN_CHARACTERS, NamePattern
from stores.errors import LineageError

RANGE_HINT: Final = (
    "Give a range as for `git log`: `v1.2..v1.3`, `main...topic`, `^main topic`, or one branch or tag."
)
# Largest number of branches and tags that an error suggests for a misspelled name.
MAX_SUGGESTIONS: Final = 3
# A plumbing command, because user settings do not change its output. It lists no files of merges.
_DIFF_TREE: Final = (
    "diff-tree", "--stdin", "-r", "--root", "-z", "--always", "--name-only", "--no-renames", "-O/dev/null"
)  # fmt: skip
_FORMAT: Final = "%H%x00%P%x00%aN%x00%aE%x00%ct%x00%B%x00"
# Fields of a commit in the output, without the files: the five of the format after the sha, and an empty one.
_COMMIT_FIELDS: Final = 6
# Dots of a range, outside of braces.
_DOTS: Final = re.compile(r"\.{2,3}(?![^{]*\})")
# A revision, with spaces between braces only.
_WORD: Final = re.compile(r"(?:[^\s{]|\{[^}]*\}?)+")


class BadRange(LineageError):
    """Text that is not a range of commits, or names a revision that the repository does not have."""


@dataclass(frozen=True, slots=True)
class RangeCommit:
    """Commit of a range.

    `paths`: files that it changes; none for a merge, and both paths of a renamed file. `author_name` and
    `author_email`: after `.mailmap`. `date`: committer date, in UTC without a time zone.
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
    """Return the commits of a range, newest first, without those that an excluded commit reaches. Raises BadRange."""
    words = _split_words(text)
    # On stdin, because thousands of indexed branches would exceed the length of a command line.
    stdin = "".join(f"^{sha}\n" for sha in excluded).encode("ascii")
    output = git.run("rev-list", "--stdin", "--end-of-options", *words, "--", stdin=stdin)
    if output.exit_code:
        raise _build_error(repository, text, output.stderr)
    return tuple(output.stdout.decode("ascii").split())


def read_commits(repository: Repository, git: GitProgram, shas: Sequence[str]) -> list[RangeCommit]:
    """Return these commits, in their order. If git cannot read the tree of one, this and all later ones are missing.

    A commit at a shallow boundary has no paths, because its parent is unknown.
    """
    separator = secrets.token_hex()  # so that no message or file name can contain it
    output = git.run(
        *_DIFF_TREE,
        "--encoding=UTF-8",
        f"--format={separator}{_FORMAT}",
        stdin="".join(f"{sha}\n" for sha in shas).encode(),
    )
    fields = output.stdout.split(b"\0")[:-1]  # the output ends with NUL
    starts = [position for position, field in enumerate(fields) if field.startswith(separator.encode())]
    ends = [*starts[1:], len(fields)]
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
        EPOCH + timedelta(seconds=parse_seconds(seconds)),
        message.rstrip("\n"),
        () if sha in shallow_boundary else tuple(decode_path(path) for path in paths if path),
    )


def list_range_outside(
    repository: Repository, git: GitProgram, text: str, tips: Iterable[str | None]
) -> frozenset[str]:
    """Return the commits of a range that no tip reaches. Tips that the repository does not have are ignored."""
    known_tips = {sha for sha in tips if sha and repository.contains(sha)}
    return frozenset(list_range(repository, git, text, known_tips))


def list_included_names(text: str) -> list[str]:
    """Return the revisions whose commits a range includes: `B` for `A..B`, both for `A...B`, none for `^A`."""
    names = []
    for word in _WORD.findall(text):
        if not word.startswith("^"):
            parts = _DOTS.split(word)
            names += parts if "..." in _DOTS.findall(word) else parts[-1:]
    return [name or "HEAD" for name in names]


def list_branch_tips(repository: Repository, git: GitProgram, patterns: Iterable[str]) -> list[str]:
    """Return the commits of the refs that match a pattern, each once, in the order of the refs' names.

    A pattern is as for `git for-each-ref`: a glob, a name, or the directories that a name starts with. It selects local
    branches, remote-tracking branches and tags; if it starts with `refs/`, any refs. Refs of trees and blobs, and of
    commits that the repository does not have, are left out. git itself would take exponential time for some globs.
    Raises UnreadableObject if git cannot list the refs, and BadRange for a pattern that is too long.
    """
    name_patterns = [name_pattern for pattern in patterns for name_pattern in _compile_pattern(pattern)]
    output = git.run("for-each-ref", "--format=%(objectname) %(refname)")
    if output.exit_code:
        raise UnreadableObject("the references", (output.stderr or "git for-each-ref failed").splitlines()[0])
    tips: dict[str, None] = {}
    for line in output.stdout.splitlines():
        sha, _, name = line.partition(b" ")
        if any(pattern.matches(name) for pattern in name_patterns):
            with suppress(UnreadableObject):
                if commit := repository.resolve_revision(sha.decode("ascii")):
                    tips[commit] = None
    return list(tips)


def _compile_pattern(pattern: str) -> list[NamePattern]:
    """Return the patterns of full names of refs. Raises BadRange."""
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise BadRange(
            f"A pattern has {len(pattern):,} characters; it can have at most {MAX_PATTERN_CHARACTERS:,}.",
            hint="Give a shorter pattern.",
        )
    folders = ("",) if pattern.startswith("refs/") else ("refs/heads/", "refs/remotes/", "refs/tags/")
    return [NamePattern(os.fsencode(folder + pattern)) for folder in folders]


def suggest_references(repository: Repository, name: str) -> str:
    """Return a sentence with the names of branches and tags that are similar to this one; empty if there are none."""
    similar_names = get_close_matches(name, repository.list_references(), n=MAX_SUGGESTIONS)
    return f"Did you mean {' or '.join(map(_escape, similar_names))}?" if similar_names else ""


def _names_object(repository: Repository, name: str) -> bool:
    """Return whether an object has this name. True also for one that is unreadable or no commit: git reports these."""
    with suppress(UnreadableObject):
        return repository.resolve_revision(name) is not None
    return True


def _split_words(text: str) -> list[str]:
    words = _WORD.findall(text)
    if "\0" in text:
        raise BadRange("The range contains a NUL character.", hint=RANGE_HINT)
    if not words:
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
    """Return the error for a range that git refuses: it names the first revision that the repository does not have."""
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
    """Return a text for a sentence; as a Python literal if it has characters that are not printable."""
    return text if text.isprintable() else repr(text)
