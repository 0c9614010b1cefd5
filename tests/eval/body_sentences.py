"""The body protocol: the first sentence below the subject that says it in other words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pipeline.text import words
from tests.eval.changelog import question_of

# A sentence that shares more of its words with the subject repeats it.
MOST_SHARED: Final = 0.5
# Shorter ones ("See the comment.", "As discussed.") could stand below any subject.
FEWEST_WORDS: Final = 6

_TRAILER: Final = re.compile(r"[A-Z][A-Za-z]+(?:-[A-Za-z]+)*:\s\S|\(cherry picked from|This reverts commit")
_CLOSES: Final = re.compile(
    r"(?:fix(?:e[sd])?|close[sd]?|resolve[sd]?|refs?|see|pr|ref)\b:?\s+(?:\S*#\d+|https?:)", re.IGNORECASE
)
_BULLET: Final = re.compile(r"\s{0,3}[-*+]\s+")
_QUOTED_LINE: Final = re.compile(r"\s{4,}\S|\t|>|```|~~~|\|")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"'(])")


def sentence_of(subject: str, body: str) -> str | None:
    """The body's first sentence that tells of the change in words of its own; None where there is none."""
    of_subject = set(words(subject))
    for sentence in sentences(body):
        said = set(words(sentence))
        # What ends in a colon only leads to the code or list that is left out.
        whole = len(sentence.split()) >= FEWEST_WORDS and not sentence.endswith(":")
        if whole and len(said & of_subject) < MOST_SHARED * len(said):
            return sentence
    return None


def sentences(body: str) -> Iterator[str]:
    """The sentences of a message's body, cleaned of markup and issue numbers; code, quotes and trailers are none."""
    for paragraph in _paragraphs(body):
        yield from filter(None, _SENTENCE_END.split(question_of(paragraph)))


def _paragraphs(body: str) -> Iterator[str]:
    lines: list[str] = []
    for line in [*body.splitlines(), ""]:
        breaks = not line.strip() or _left_out(line)
        if lines and (breaks or _BULLET.match(line)):
            yield "\n".join(lines)
            lines = []
        if not breaks:
            lines.append(_BULLET.sub("", line, count=1) if _BULLET.match(line) else line)


def _left_out(line: str) -> bool:
    patterns = (_TRAILER, _CLOSES, _QUOTED_LINE)
    return any(pattern.match(line) for pattern in patterns)
