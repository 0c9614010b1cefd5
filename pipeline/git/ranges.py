"""Commit ranges in the syntax of git (`v1.2..v1.3`, `main...topic`, `^main topic`, `topic`), and tips of branches.

git resolves the ranges, so a range may have any revision that `git rev-list` accepts, but no options and no paths. A
revision may have spaces only between braces, as in `main@{1 week ago}` or `HEAD^{/fix a bug}`.
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
from itertools import pairwise
from typing import Final

from pipeline.git.attributes import MAX_PATTERN_CHARACTERS, NamePattern
from pipeline.git.changes import decode_path
from pipeline.git.errors import NotACommit, UnreadableObject
from pipeline.git.git_cli import GitProgram
from pipeline.git.libgit2 import check_alternates, check_objects
from pipeline.git.objects import EPOCH, collect_reachable, parse_seconds
from pipeline.git.repository import Repository
from pipeline.interrupts import check_cancelled
from stores.errors import LineageError

# Matches the end of a pattern, from the last `/` before the first wildcard.
_WILDCARD_PART: Final = re.compile(r"/[^/*?\[\\]*[*?\[\\].*", re.DOTALL)
RANGE_HINT: Final = (
    "Give a range as for `git log`: `v1.2..v1.3`, `main...topic`, `^main topic`, or one branch or tag."
)
# Maximum number of branches and tags that an error suggests for a misspelled name.
MAX_SUGGESTIONS: Final = 3
# Maximum number of times that git starts again after a commit that it cannot read.
MAX_RESTARTS: Final = 100
# A plumbing command, because user settings do not change the output. It lists no files for merges.
_DIFF_TREE: Final = (
    "diff-tree", "--stdin", "-r", "--root", "-z", "--always", "--no-renames", "-O/dev/null"
)  # fmt: skip
# Fields that git prints: SHA, parents, the author's name and address after `.mailmap`, seconds of the committer date,
# message.
_FORMAT: Final = "%H%x00%P%x00%aN%x00%aE%x00%ct%x00%B%x00"
# Number of fields of a commit between its SHA and its files: the other five of _FORMAT, and an empty one.
_COMMIT_FIELDS: Final = 6
# Matches the dots of a range outside of braces.
_DOTS: Final = re.compile(r"\.{2,3}(?![^{]*\})")
# Matches git's warning about a ref file that contains no SHA, for example after a crash.
_BROKEN_REF: Final = re.compile(r"^warning: ignoring broken ref (.+)$", re.MULTILINE)
_SHA: Final = re.compile(r"[0-9a-f]{40}")
# Matches a word of a range: a revision or `A..B`, with spaces only between braces.
_WORD: Final = re.compile(r"(?:[^\s{]|\{[^}]*\}?)+")


class BadRange(LineageError):
    """The text is not a range of commits, or names a revision that the repository does not have."""


@dataclass(frozen=True, slots=True)
class RangeCommit:
    """Commit of a range.

    `paths`: files that the commit changes, with both paths of a renamed file; none for a merge.
    `author_name`, `author_email`: after `.mailmap`. `date`: committer date, in UTC without a time zone.
    """

    sha: str
    parents: tuple[str, ...]
    author_name: str
    author_email: str
    date: datetime
    message: str
    paths: tuple[str, ...]


def list_range(
    repository: Repository, git: GitProgram, text: str, excluded_tips: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the commits of a range, newest first. Raises BadRange.

    `text`: the range. `excluded_tips`: commits to leave out, together with all commits that they reach.
    """
    words = _split_words(text)
    # The excluded tips go to stdin, because thousands of indexed branches would be too long for a command line.
    stdin = "".join(f"^{sha}\n" for sha in excluded_tips).encode("ascii")
    output = git.run("rev-list", "--stdin", "--end-of-options", *words, "--", stdin=stdin)
    if not output.exit_code:
        return tuple(output.stdout.decode("ascii").split())
    shas = _list_damaged_range(repository, git, words, excluded_tips)
    if not shas:
        raise _build_error(repository, git, text, output.stderr)
    return shas


def _list_damaged_range(
    repository: Repository, git: GitProgram, words: Sequence[str], excluded_tips: Collection[str]
) -> tuple[str, ...]:
    """Return the commits of a range, newest first, even if some are missing or damaged.

    Such a commit is listed, but not the commits that only it reaches. The result is empty if git does not resolve the
    range, or if the range names a commit that cannot be read.
    """
    output = git.run("rev-parse", "--revs-only", *words, "--")
    names = [] if output.exit_code else output.stdout.decode("ascii").split()
    if not all(repository.is_commit(name.removeprefix("^")) for name in names):
        return ()
    tips = [name for name in names if not name.startswith("^")]
    all_excluded_tips = [*excluded_tips, *(name.removeprefix("^") for name in names if name.startswith("^"))]
    excluded_commits = collect_reachable(all_excluded_tips, repository.read_parents)
    reached_commits = collect_reachable(tips, repository.read_parents, excluded_commits)

    def read_date(sha: str) -> datetime:
        with suppress(UnreadableObject):
            return repository.read_commit(sha).commit_date
        return EPOCH

    return tuple(sorted(reached_commits, key=read_date, reverse=True))


def read_commits(
    repository: Repository, git: GitProgram, shas: Sequence[str]
) -> tuple[list[RangeCommit], list[UnreadableObject]]:
    """Return the readable commits among the given ones, in the same order, and the errors of the unreadable ones.

    A commit at a shallow boundary has no paths, because its parent is unknown.
    """
    commits = _read_with_git(repository, git, shas)
    if len(commits) == len(shas):
        return commits, []
    check_objects(repository.objects_dir)
    errors = find_read_errors(repository, git, shas)  # git ends at the first commit that it cannot read
    unreadable = {error.sha for error in errors}
    readable = [sha for sha in shas if sha not in unreadable]
    commits = _read_with_git(repository, git, readable)
    errors += [UnreadableObject(sha, "git cannot read it") for sha in readable[len(commits) :]]
    return commits, errors


def find_read_errors(repository: Repository, git: GitProgram, shas: Sequence[str]) -> list[UnreadableObject]:
    """Return the errors of the commits that libgit2 or git cannot read.

    git is stricter than libgit2: it also fails at a tree with an empty file name, for example. git stops at the first
    commit that it cannot read, and is then started again with the next commit, at most MAX_RESTARTS times.
    """
    errors = {sha: error for sha in shas if (error := _find_read_error(repository, sha))}
    pending = [sha for sha in shas if sha not in errors]
    for _ in range(MAX_RESTARTS):
        stdin = "".join(f"{sha}\n" for sha in pending).encode()
        output = git.run(*_DIFF_TREE, "-c", "-s", "--format=%H", stdin=stdin)
        read_count = output.stdout.count(b"\0")
        if read_count >= len(pending):
            break
        sha = pending[read_count]
        errors[sha] = UnreadableObject(sha, "git cannot read it")
        pending = pending[read_count + 1 :]
    return [errors[sha] for sha in shas if sha in errors]


def _find_read_error(repository: Repository, sha: str) -> UnreadableObject | None:
    """Return the error of libgit2 for a commit or a directory that the commit changes; None if it can read them."""
    check_cancelled()
    try:
        if len(repository.read_commit(sha).parents) < 2:
            repository.list_changed_paths(sha)
        else:
            repository.diff_with_parents(sha)
    except UnreadableObject as error:
        return UnreadableObject(sha, error.reason)
    return None


def _read_with_git(repository: Repository, git: GitProgram, shas: Sequence[str]) -> list[RangeCommit]:
    """Return the commits before the first one that git cannot read."""
    separator = secrets.token_hex()  # so that no message or file name can contain it
    output = git.run(
        *_DIFF_TREE,
        "--name-only",
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
    """Parse the fields of a commit after its SHA."""
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
    """Return the commits of a range that no tip reaches. Raises BadRange.

    `tips`: SHAs. None, and commits that the repository does not have, are ignored.
    """
    known_tips = {sha for sha in tips if sha and repository.contains(sha)}
    return frozenset(list_range(repository, git, text, known_tips))


def list_positive_revisions(text: str) -> list[str]:
    """Return the revisions whose commits a range includes: `B` for `A..B`, `A` and `B` for `A...B`, none for `^A`.

    A revision that is omitted on one side, as in `A..`, is `HEAD`.
    """
    names = []
    for word in _WORD.findall(text):
        if not word.startswith("^"):
            parts = _DOTS.split(word)
            names += parts if "..." in _DOTS.findall(word) else parts[-1:]
    return [name or "HEAD" for name in names]


def list_ref_commits(repository: Repository, git: GitProgram, patterns: Iterable[str]) -> list[str]:
    """Return the commits of the refs that match any of the patterns, each once, in the order of the refs' names.

    `patterns`: globs, names, or leading directories of names, as for `git for-each-ref`. A pattern that starts with
    `refs/` can select refs of all kinds; another pattern, only local branches, remote-tracking branches and tags. Refs
    of trees and blobs, and of commits that the repository does not have, are left out. Raises UnreadableObject if git
    cannot list the refs, and BadRange for a pattern that is too long.
    """
    tips: dict[str, None] = {}
    for sha in list_ref_objects(git, patterns).values():
        with suppress(UnreadableObject):
            if commit := repository.resolve_revision(sha):
                tips[commit] = None
    return list(tips)


def list_unreadable_refs(repository: Repository, git: GitProgram, patterns: Iterable[str]) -> list[str]:
    """Return the names of the refs that cannot be read, or whose object is missing or damaged.

    `patterns`: as for `list_ref_commits`.
    """
    names = []
    for name, sha in list_ref_objects(git, patterns).items():
        try:
            is_readable = repository.resolve_revision(sha) is not None
        except NotACommit:
            continue
        except UnreadableObject:
            is_readable = False
        if not is_readable:
            names.append(name)
    return names


def list_ref_objects(git: GitProgram, patterns: Iterable[str]) -> dict[str, str]:
    """Return ref -> object for the refs that match any of the patterns, also for other objects than commits.

    `patterns`: as for `list_ref_commits`. A ref that git cannot read has an empty string as its object.

    git lists all refs in the directories of the patterns, and `NamePattern` selects from them, because git takes
    exponential time to match some globs. Raises UnreadableObject if git cannot list the refs, and BadRange for a
    pattern that is too long.
    """
    full_patterns = [full for pattern in patterns for full in _list_full_patterns(pattern)]
    if not full_patterns:  # git would list all refs
        return {}
    name_patterns = [NamePattern(os.fsencode(full)) for full in full_patterns]
    directories = dict.fromkeys(_WILDCARD_PART.sub("", full) for full in full_patterns)
    output = git.run("for-each-ref", "--format=%(objectname) %(refname)", *directories)
    if output.exit_code:
        raise UnreadableObject("the references", (output.stderr or "git for-each-ref failed").splitlines()[0])
    lines = [line.partition(b" ") for line in output.stdout.splitlines()]
    lines += [(b"", b"", os.fsencode(name)) for name in _BROKEN_REF.findall(output.stderr)]
    return {
        decode_path(name): sha.decode("ascii")
        for sha, _, name in lines
        if any(pattern.matches(name) for pattern in name_patterns)
    }


def _list_full_patterns(pattern: str) -> list[str]:
    """Expand a pattern to patterns of full ref names, which start with `refs/`. Raises BadRange if it is too long."""
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise BadRange(
            f"A pattern has {len(pattern):,} characters; it can have at most {MAX_PATTERN_CHARACTERS:,}.",
            hint="Give a shorter pattern.",
        )
    prefixes = ("",) if pattern.startswith("refs/") else ("refs/heads/", "refs/remotes/", "refs/tags/")
    return [prefix + pattern for prefix in prefixes]


def suggest_references(repository: Repository, name: str) -> str:
    """Return a sentence that suggests branches and tags with names similar to `name`; empty if there are none."""
    similar_names = get_close_matches(name, repository.list_references(), n=MAX_SUGGESTIONS)
    return f"Did you mean {' or '.join(map(_escape, similar_names))}?" if similar_names else ""


def check_damage(git: GitProgram, revision: str) -> None:
    """Raise UnreadableObject if a revision's object, or an object needed to find it, is missing or damaged.

    Raises StorageError if objects may not be read, and DamagedRepository if an alternate object directory is missing.
    """
    output = git.run("rev-parse", "--verify", "--quiet", revision)
    sha = output.stdout.decode().strip()
    # A full SHA resolves to itself, even if there is no such object. That is no damage.
    names_other_sha = output.exit_code == 0 and _SHA.fullmatch(sha) is not None and sha != revision.lower()
    if names_other_sha and git.run("cat-file", "-t", sha).exit_code:
        check_objects(git.objects_dir)
        check_alternates(git.objects_dir)
        raise UnreadableObject(revision, f"{sha} is missing or damaged")
    is_damaged = output.exit_code > 1 and output.stderr.startswith("error: ")
    # git prints "Could not read" if a revision such as `main~2` needs a missing parent.
    if is_damaged or "error: Could not read " in output.stderr:
        check_objects(git.objects_dir)
        check_alternates(git.objects_dir)
        raise UnreadableObject(revision, output.stderr.splitlines()[-1].partition(": ")[2])


def _names_object(repository: Repository, name: str) -> bool:
    """Return whether a revision names an object, even if the object is unreadable or no commit."""
    with suppress(UnreadableObject):
        return repository.resolve_revision(name) is not None
    return True


def _split_words(text: str) -> list[str]:
    """Return the words of a range.

    Raises BadRange if it is empty, or has a NUL, a lone surrogate, an option or misplaced dots.
    """
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
    _check_dots(text, words)
    return words


def _check_dots(text: str, words: Sequence[str]) -> None:
    """Raise BadRange for dots without a name, and for a space on one side of the dots."""
    for word in words:
        if word in ("..", "..."):  # to git, `..` is a directory and `...` has no commits
            raise BadRange(f"{text!r:.200} names no commit before or after {word!r}.", hint=RANGE_HINT)
    for word, following in pairwise(words):
        # git would put HEAD on the side without a name.
        if (word.endswith("..") and following[0] != "^") or (following.startswith("..") and word[0] != "^"):
            raise BadRange(f"{text!r:.200} has a space before or after the dots.", hint=RANGE_HINT)


def _build_error(repository: Repository, git: GitProgram, text: str, reason: str) -> BadRange:
    """Return the error for a range that git refuses. `reason`: message of git.

    The error names the first revision that the repository does not have, or the reason if it has them all. Raises
    UnreadableObject if that first revision is damaged.
    """
    for word in _WORD.findall(text):
        for name in filter(None, _DOTS.split(word.removeprefix("^"))):
            if not _names_object(repository, name):
                check_damage(git, name)
                suggestion = suggest_references(repository, name)
                shallow_note = " A shallow clone lacks old commits." if repository.is_shallow else ""
                return BadRange(
                    f"The repository has no commit {name!r:.200}.{shallow_note}",
                    hint=f"{suggestion} {RANGE_HINT}".lstrip(),
                )
    detail = reason.splitlines()[0].removeprefix("fatal: ") if reason else "git refuses it"
    if detail.startswith("usage:"):
        detail = "it excludes commits, and includes none"
    return BadRange(f"{text!r:.200} is not a range of commits: {_escape(detail)}.", hint=RANGE_HINT)


def _escape(text: str) -> str:
    """Return a text for use in a sentence: as a Python literal if some characters are not printable."""
    return text if text.isprintable() else repr(text)
