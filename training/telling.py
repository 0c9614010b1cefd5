"""A commit's message -> what somebody might ask for the change by: subject, sentences, body. Pure.

Commits that tell of no change of their own (merges, reverts, bumps, what programs commit) teach nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pipeline.git.objects import Commit

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
