"""A commit's message -> what somebody might ask for the change by: subject, sentences, body. Pure.

Commits that tell of no change of their own (merges, reverts, bumps, what programs commit) teach nothing.

One history -> its commits that tell something, with what they changed, and merges that tell what they brought.

Both in an order drawn by a seed.
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
from pipeline.hunks import Hunk, hunks
from pipeline.ignore import IgnoreRules
from pipeline.syntax.grammars import language_of
from pipeline.text import semantic_text

FEWEST_SUBJECT_WORDS: Final = 3
# Shorter ones ("As discussed.", "See below.") stand below any subject; longer ones are lists or code.
SENTENCE_WORDS: Final = range(6, 41)
MOST_SENTENCES: Final = 3

_PROGRAM: Final = re.compile(
    r"\[bot\]|\bbot\b|dependabot|renovate|greenkeeper|pre-commit-ci|pyup|weblate", re.I
)
_NO_CHANGE: Final = re.compile(
    r"(?:\w+(?:\([^)]*\))?: )?(?:merge|revert|back(?:ed)? out|undo|bump|release|prepare|upgrade|version|update depend"
    r"|chore\b|v?\d+\.\d+)\b|.*\bdeps\b|.*\b(?:chang(?:e|ing) ?log|typos?|release notes)\b",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(
    r"\(?(?:\b(?:GH-|PR |issue |bug ))?#\d+\)?|\(?https?://\S+|\bGH-\d+", re.IGNORECASE
)
_KIND: Final = re.compile(
    r"^(?:feat|fix|refactor|perf|docs|test|style|build|ci)(?:\([^)]*\))?!?:\s*", re.IGNORECASE
)
_LEFT_OUT: Final = re.compile(
    r"[A-Z][A-Za-z]+(?:-[A-Za-z]+)*:\s\S|\(cherry picked|git-svn-id|\s{4,}\S|\t|>|```|~~~|\||---"
    r"|(?:fix(?:e[sd])?|close[sd]?|resolve[sd]?|refs?|see|pr)\b:?\s+\S*#\d+",
    re.IGNORECASE,
)
_FORGE: Final = re.compile(r"(?:auto )?merge\b", re.IGNORECASE)
# What stands around a title there: a number before it, who reviewed it after.
_AROUND: Final = re.compile(r"^\d+: |\s+(?:r|a)=\S.*$")
_CONFLICTS: Final = re.compile(r"#|conflicts:", re.IGNORECASE)
_BULLET: Final = re.compile(r"\s{0,3}[-*+]\s+")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"'(])")


@dataclass(frozen=True, slots=True)
class Telling:
    """A message in parts: `subject` and `sentences` without the numbers of issues, `body` without trailers."""

    subject: str
    sentences: tuple[str, ...]
    body: str


def tells(commit: Commit) -> bool:
    """Whether a commit is one change by a person, told in words."""
    subject = commit.message.partition("\n")[0]
    return (
        len(commit.parents) == 1
        and not _PROGRAM.search(commit.author_name)
        and not _NO_CHANGE.match(subject)
        and len(plain(subject).split()) >= FEWEST_SUBJECT_WORDS
    )


def title(message: str) -> str:
    """What a merge says it brings: the line that a forge puts below its own; empty where there is none that tells."""
    subject, _, rest = message.partition("\n")
    said = next(filter(None, map(str.strip, rest.splitlines())), "")
    if not _FORGE.match(subject) or _CONFLICTS.match(said) or _NO_CHANGE.match(said):
        return ""
    told = _KIND.sub("", plain(_AROUND.sub("", said)))
    return told if FEWEST_SUBJECT_WORDS <= len(told.split()) < SENTENCE_WORDS.stop else ""


def telling(message: str) -> Telling:
    """The parts of a message."""
    subject, _, rest = message.partition("\n")
    paragraphs = _paragraphs(rest)
    sentences = [plain(said) for paragraph in paragraphs for said in _SENTENCE_END.split(paragraph)]
    kept = [said for said in sentences if len(said.split()) in SENTENCE_WORDS]
    return Telling(_KIND.sub("", plain(subject)), tuple(kept[:MOST_SENTENCES]), "\n".join(paragraphs))


def plain(text: str) -> str:
    """A text in one line, without the numbers of issues."""
    return " ".join(_NUMBER.sub("", text).split())


def _paragraphs(body: str) -> list[str]:
    """Paragraphs and list items, each as one line; code, quotes and trailers are none."""
    found: list[list[str]] = [[]]
    for line in body.splitlines():
        bullet = _BULLET.match(line)
        if not line.strip() or bullet:
            found.append([])
        if not bullet and _LEFT_OUT.match(line):
            continue
        found[-1].append(_BULLET.sub("", line, count=1))
    return [said for said in (" ".join(" ".join(lines).split()) for lines in found) if said]


# A commit of more files is a sweep: no file of it is what the message tells of.
MOST_FILES: Final = 20
# Fewer different words say nothing that could be found.
FEWEST_WORDS: Final = 5
# A merge of more commits brings more than its title tells.
MOST_BROUGHT: Final = 20

_NEWS: Final = re.compile(r"chang|news|history|release", re.IGNORECASE)
_NAME: Final = re.compile(r"\w+(?=\s*[(:<{]|\s*$)")


@dataclass(frozen=True, slots=True)
class Drawn:
    """A commit, what it says in changelogs, and its other changes."""

    commit: Commit
    news: list[Hunk]
    changes: list[Hunk]

    def some(self, most: int) -> list[Hunk]:
        """At most so many of its changes, the same ones every time."""
        chance = random.Random(self.commit.sha)  # noqa: S311 - a repeatable draw, nothing secret
        return chance.sample(self.changes, min(most, len(self.changes)))


def drawn(path: Path, seed: int) -> Iterator[Drawn]:
    """The commits of HEAD's history that tell something and are no sweeps; what cannot be read is passed over."""
    repository = open_repository(path)
    rules = IgnoreRules.of(repository)
    head = repository.head()
    shas = repository.walk(head) if head else []
    random.Random(seed).shuffle(shas)  # noqa: S311 - a repeatable draw, nothing secret
    for sha in shas:
        try:
            commit = repository.commit(sha)
            if tells(commit):
                yield _parted(commit, hunks(repository, sha, _few(rules.ignored)).hunks)
        except (UnreadableObject, _Sweep):
            continue


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge says it brings, and the commits that it brought."""

    title: str
    commits: tuple[str, ...]


def merges(path: Path, seed: int, most: int) -> Iterator[Merged]:
    """At most so many of the merges of HEAD's history that say what they bring."""
    repository = open_repository(path)
    head = repository.head()
    shas = repository.walk(head) if head else []
    random.Random(seed).shuffle(shas)  # noqa: S311 - a repeatable draw, nothing secret
    found = (merge for sha in shas for merge in _merged(repository, sha))
    return islice(found, most)


def _merged(repository: Repository, sha: str) -> Iterator[Merged]:
    with suppress(UnreadableObject):
        commit = repository.commit(sha)
        said = title(commit.message) if len(commit.parents) == 2 else ""
        if said:
            ours, theirs = commit.parents
            brought = repository.walk(theirs, hide=[ours])
            if len(brought) <= MOST_BROUGHT:
                yield Merged(said, tuple(brought))


class _Sweep(Exception):
    """A commit of too many files, noticed before any of them is read."""


def _few(ignored: Callable[[str], bool]) -> Callable[[str], bool]:
    """The rule, of one commit, until it has kept more than MOST_FILES."""
    kept = 0

    def rule(path: str) -> bool:
        nonlocal kept
        left_out = ignored(path)
        kept += not left_out
        if kept > MOST_FILES:
            raise _Sweep
        return left_out

    return rule


def _parted(commit: Commit, changed: Sequence[Hunk]) -> Drawn:
    text = [hunk for hunk in changed if hunk.added_text or hunk.removed_text]
    news = [hunk for hunk in text if _is_news(hunk.file_path)]
    return Drawn(commit, news, [hunk for hunk in text if not _is_news(hunk.file_path)])


def _is_news(path: str) -> bool:
    pure = PurePosixPath(path)
    return pure.suffix in (".md", ".rst", ".txt", "") and any(map(_NEWS.match, (pure.name, pure.parent.name)))


def change_text(hunk: Hunk, lines: str) -> str:
    """The text the encoder reads, without its message; symbols by the hunk's headings, which need no parse."""
    headings = (_NAME.search(part.header) for part in hunk.parts)
    return semantic_text(
        message="",
        path=hunk.file_path,
        language=language_of(hunk.file_path),
        symbols=list(dict.fromkeys(found.group() for found in headings if found)),
        change=hunk.change_kind,
        added=lines,
        removed="",
    )
