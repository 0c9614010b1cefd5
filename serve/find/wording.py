"""The words that only ask, told from those that say what is asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from pipeline.text import words

# What a question is built with and no change is about. Their stems are rare in code, where BM25 takes them for telling.
FUNCTION_WORDS: Final = frozenset(
    words(
        "a about all an and any are as at be been before being but by can could did do does doing done for from get"
        " gets getting got had has have how i if in into is it its made make more no not of on only or our should so"
        " some such than that the their them then there these they this those to us use used using was way we were"
        " what when where which who why will with would you"
    )
)

# They say nothing alone, and turn what follows into its opposite.
_TURNING: Final = frozenset(words("no not"))
# A sentence that does not ask may begin with them too, and mean them: "do not retry", "no longer wait".
_ASKS: Final = re.compile(
    r"\W*(?:how|what|when|where|which|who|why|(?:are|can|could|did|do|have|should|were) (?:i|they|we|you))\b",
    re.IGNORECASE,
)


def telling(terms: Iterable[str]) -> frozenset[str]:
    """The words that say what is asked for."""
    return frozenset(terms) - FUNCTION_WORDS


def asked_for(text: str) -> str:
    """A question without the words it only begins with: "how did we retry" -> "retry"; whole where it is only these.

    An encoder reads them as a part of the meaning, and the fewer words follow the larger.
    """
    if not _ASKS.match(text):
        return text
    said = text.split()
    silent = FUNCTION_WORDS - _TURNING
    telling = (place for place, word in enumerate(said) if not silent.issuperset(words(word)))
    rest = " ".join(said[next(telling, 0) :])
    return text if FUNCTION_WORDS.issuperset(words(rest)) else rest
