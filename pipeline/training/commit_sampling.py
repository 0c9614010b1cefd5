"""Random sample of the informative commits of a repository, and the parts of their messages used as queries.

Merges, reverts, version bumps and commits by bots are skipped: their messages do not describe a change.

Merge commits are sampled apart, where the message has the title of a pull request.

The order is random, fixed by a seed.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Final

from pipeline.git.errors import UnreadableObject
from pipeline.git.objects import Commit
from pipeline.git.repository import Repository, open_repository
from pipeline.hunks import Hunk, extract_hunks
from pipeline.ignore import IgnoreRules
from pipeline.syntax.grammars import detect_language
from pipeline.text import build_semantic_text

MIN_SUBJECT_WORDS: Final = 3
# Shorter sentences ("As discussed.") fit any commit; longer ones are lists or code.
SENTENCE_WORDS: Final = range(6, 41)
MAX_SENTENCES: Final = 3

_BOT_AUTHOR: Final = re.compile(
    r"\[bot\]|\bbot\b|dependabot|renovate|greenkeeper|pre-commit-ci|pyup|weblate", re.I
)
_ROUTINE_SUBJECT: Final = re.compile(
    r"(?:\w+(?:\([^)]*\))?: )?(?:merge|revert|back(?:ed)? out|undo|bump|release|prepare|upgrade|version|update depend"
    r"|chore\b|v?\d+\.\d+)\b|.*\bdeps\b|.*\b(?:chang(?:e|ing) ?log|typos?|release notes)\b",
    re.IGNORECASE,
)
_ISSUE_NUMBER: Final = re.compile(
    r"\(?(?:\b(?:GH-|PR |issue |bug ))?#\d+\)?|\(?https?://\S+|\bGH-\d+", re.IGNORECASE
)
_COMMIT_TYPE_PREFIX: Final = re.compile(
    r"^(?:feat|fix|refactor|perf|docs|test|style|build|ci)(?:\([^)]*\))?!?:\s*", re.IGNORECASE
)
_TRAILER_OR_CODE: Final = re.compile(
    r"[A-Z][A-Za-z]+(?:-[A-Za-z]+)*:\s\S|\(cherry picked|git-svn-id|\s{4,}\S|\t|>|```|~~~|\||---"
    r"|(?:fix(?:e[sd])?|close[sd]?|resolve[sd]?|refs?|see|pr)\b:?\s+\S*#\d+",
    re.IGNORECASE,
)
_MERGE_SUBJECT: Final = re.compile(r"(?:auto )?merge\b", re.IGNORECASE)
# Decoration of a title: a number before it, reviewers after it.
_TITLE_DECORATION: Final = re.compile(r"^\d+: |\s+(?:r|a)=\S.*$")
_CONFLICTS: Final = re.compile(r"#|conflicts:", re.IGNORECASE)
_BULLET: Final = re.compile(r"\s{0,3}[-*+]\s+")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"'(])")


@dataclass(frozen=True, slots=True)
class MessageParts:
    """Parts of a commit message: `subject` and `sentences` without issue numbers, `body` without trailers."""

    subject: str
    sentences: tuple[str, ...]
    body: str


def is_informative(commit: Commit) -> bool:
    """Check that a commit is a single change by a person with a descriptive subject."""
    subject = commit.message.partition("\n")[0]
    return (
        len(commit.parents) == 1
        and not _BOT_AUTHOR.search(commit.author_name)
        and not _ROUTINE_SUBJECT.match(subject)
        and len(strip_issue_numbers(subject).split()) >= MIN_SUBJECT_WORDS
    )


def merge_title(message: str) -> str:
    """Return the pull-request title in a merge message; empty where there is no descriptive one."""
    subject, _, rest = message.partition("\n")
    title_line = next(filter(None, map(str.strip, rest.splitlines())), "")
    if (
        not _MERGE_SUBJECT.match(subject)
        or _CONFLICTS.match(title_line)
        or _ROUTINE_SUBJECT.match(title_line)
    ):
        return ""
    cleaned = _COMMIT_TYPE_PREFIX.sub("", strip_issue_numbers(_TITLE_DECORATION.sub("", title_line)))
    return cleaned if MIN_SUBJECT_WORDS <= len(cleaned.split()) < SENTENCE_WORDS.stop else ""


def split_message(message: str) -> MessageParts:
    """Split a commit message into subject, sentences and body."""
    subject, _, rest = message.partition("\n")
    paragraphs = split_paragraphs(rest)
    sentences = [
        strip_issue_numbers(said) for paragraph in paragraphs for said in _SENTENCE_END.split(paragraph)
    ]
    usable = [said for said in sentences if len(said.split()) in SENTENCE_WORDS]
    return MessageParts(
        _COMMIT_TYPE_PREFIX.sub("", strip_issue_numbers(subject)),
        tuple(usable[:MAX_SENTENCES]),
        "\n".join(paragraphs),
    )


def strip_issue_numbers(text: str) -> str:
    """Return the text in one line, without issue numbers."""
    return " ".join(_ISSUE_NUMBER.sub("", text).split())


def split_paragraphs(body: str) -> list[str]:
    """Return the paragraphs and list items of a body, a line each, without code, quotes and trailers."""
    paragraphs: list[list[str]] = [[]]
    for line in body.splitlines():
        bullet = _BULLET.match(line)
        if not line.strip() or bullet:
            paragraphs.append([])
        if not bullet and _TRAILER_OR_CODE.match(line):
            continue
        paragraphs[-1].append(_BULLET.sub("", line, count=1))
    return [said for said in (" ".join(" ".join(lines).split()) for lines in paragraphs) if said]


# A commit with more files is a mass edit: its message describes no single file.
MAX_FILES: Final = 20
# A text with fewer distinct words cannot be searched for.
MIN_WORDS: Final = 5
# The title of a larger merge does not describe each of its commits.
MAX_MERGED_COMMITS: Final = 20

_CHANGELOG_NAME: Final = re.compile(r"chang|news|history|release", re.IGNORECASE)
_HEADER_NAME: Final = re.compile(r"\w+(?=\s*[(:<{]|\s*$)")


@dataclass(frozen=True, slots=True)
class CommitSample:
    """A commit with its changelog hunks and its other hunks."""

    commit: Commit
    changelog_hunks: list[Hunk]
    hunks: list[Hunk]

    def sample_hunks(self, max_count: int) -> list[Hunk]:
        """Return at most `max_count` random hunks; the same ones at every call."""
        generator = random.Random(self.commit.sha)  # noqa: S311 - a repeatable draw, nothing secret
        return generator.sample(self.hunks, min(max_count, len(self.hunks)))


def sample_commits(path: Path, seed: int) -> Iterator[CommitSample]:
    """Yield the informative commits that HEAD reaches, in random order; skip unreadable commits and mass edits."""
    repository = open_repository(path)
    rules = IgnoreRules.from_repository(repository)
    head = repository.read_head()
    shas = repository.walk(head) if head else []
    random.Random(seed).shuffle(shas)  # noqa: S311 - a repeatable draw, nothing secret
    for sha in shas:
        try:
            commit = repository.read_commit(sha)
            if is_informative(commit):
                yield _split_changelogs(
                    commit, extract_hunks(repository, sha, _limit_files(rules.is_ignored)).hunks
                )
        except (UnreadableObject, _TooManyFiles):
            continue


@dataclass(frozen=True, slots=True)
class MergeSample:
    """A merge: its pull-request title and the commits it merged."""

    title: str
    commits: tuple[str, ...]


def sample_merges(path: Path, seed: int, max_count: int) -> Iterator[MergeSample]:
    """Yield at most `max_count` merges that HEAD reaches and that have a descriptive title."""
    repository = open_repository(path)
    head = repository.read_head()
    shas = repository.walk(head) if head else []
    random.Random(seed).shuffle(shas)  # noqa: S311 - a repeatable draw, nothing secret
    samples = (merge for sha in shas for merge in _merge_sample(repository, sha))
    return islice(samples, max_count)


def _merge_sample(repository: Repository, sha: str) -> Iterator[MergeSample]:
    with suppress(UnreadableObject):
        commit = repository.read_commit(sha)
        title = merge_title(commit.message) if len(commit.parents) == 2 else ""
        if title:
            first_parent, second_parent = commit.parents
            merged_commits = repository.walk(second_parent, hide=[first_parent])
            if len(merged_commits) <= MAX_MERGED_COMMITS:
                yield MergeSample(title, tuple(merged_commits))


class _TooManyFiles(Exception):
    """Raised when a commit changes more than MAX_FILES files, before any of them is read."""


def _limit_files(ignored: Callable[[str], bool]) -> Callable[[str], bool]:
    """Wrap an ignore rule: raise _TooManyFiles once more than MAX_FILES paths of a commit pass it."""
    count = 0

    def rule(path: str) -> bool:
        nonlocal count
        is_ignored = ignored(path)
        count += not is_ignored
        if count > MAX_FILES:
            raise _TooManyFiles
        return is_ignored

    return rule


def _split_changelogs(commit: Commit, changed: Sequence[Hunk]) -> CommitSample:
    text = [hunk for hunk in changed if hunk.added_text or hunk.removed_text]
    changelogs = [hunk for hunk in text if _is_changelog(hunk.file_path)]
    return CommitSample(commit, changelogs, [hunk for hunk in text if not _is_changelog(hunk.file_path)])


def _is_changelog(path: str) -> bool:
    pure = PurePosixPath(path)
    return pure.suffix in (".md", ".rst", ".txt", "") and any(
        map(_CHANGELOG_NAME.match, (pure.name, pure.parent.name))
    )


def change_text(hunk: Hunk, lines: str) -> str:
    """Return the semantic text of a hunk without its message; symbols come from hunk headings, without parsing."""
    headings = (_HEADER_NAME.search(part.header) for part in hunk.parts)
    return build_semantic_text(
        message="",
        path=hunk.file_path,
        language=detect_language(hunk.file_path),
        symbols=list(dict.fromkeys(found.group() for found in headings if found)),
        change=hunk.change_kind,
        added=lines,
        removed="",
    )
