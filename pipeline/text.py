"""Commit, hunk and symbols -> semantic text; any text -> code-aware, stemmed words. Pure.

Words: an identifier counts as itself and as its camelCase and snake_case parts, so that `parseHTTPHeader`
answers to "parse header"; parts are stemmed by Porter's algorithm, identifiers made of parts are kept whole.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Final, TypeAlias

import Stemmer

# The encoder reads 256 tokens, about 1,000 characters. A message of up to 400 leaves most of that to the change.
EMBEDDED_MESSAGE: Final = 400
# Twice what the encoder can read, so that dense code is not cut short of its window.
EMBEDDED_CHANGE: Final = 2_000
# Indentation and blank lines are rarely three quarters of a change.
READ_PER_EMBEDDED: Final = 4
# More names than this say only that the change is broad.
EMBEDDED_SYMBOLS: Final = 12
# A word this long is a hash, a key or minified code: nobody will type it.
LONGEST_WORD: Final = 64
# Neighbouring commits repeat their identifiers: on a history of 5,500 commits 94 of 100 are found, 95 if all were
# kept. Each costs about 350 bytes.
WORD_CACHE: Final = 1 << 14

Spelled: TypeAlias = list[tuple[str, ...]]

_TOKEN: Final = re.compile(r"\w+")
# ASCII without what `_TOKEN` leaves out.
_BLANKED: Final = bytes(code if code < 128 and _TOKEN.match(chr(code)) else ord(" ") for code in range(256))
_ASCII_PART: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
# Case says little outside ASCII identifiers: other words part only at underscores and digits.
_PART: Final = re.compile(r"[^\W\d_]+|\d+")


def semantic_text(
    *,
    message: str,
    path: str,
    language: str | None,
    symbols: Sequence[str],
    change: str,
    added: str,
    removed: str,
) -> str:
    """What the encoder reads of one hunk: commit, file, language, symbols, change, added lines.

    A hunk that only deletes shows the removed lines in place of the added ones.
    """
    return _joined(
        message=_squeezed(message, EMBEDDED_MESSAGE),
        path=path,
        language=language,
        symbols=symbols[:EMBEDDED_SYMBOLS],
        change=change,
        lines=_squeezed(added or removed, EMBEDDED_CHANGE),
    )


def diff_text(*, diff: str, path: str, change: str) -> str:
    """What the encoder reads of one hunk in cache mode `diff`: nothing of the commit; without text, the path."""
    return diff or _joined(message="", path=path, language=None, symbols=(), change=change, lines="")


def lane_text(*, message: str, path: str, symbols: Sequence[str], added: str, removed: str) -> str:
    """What the hunk-text lane reads: the same parts as `semantic_text`, without its cuts and labels."""
    return "\n".join((message, path, *symbols, added or removed))


def words(text: str) -> Counter[str]:
    """How often each word of a text occurs: identifiers whole, and their parts stemmed."""
    counts: dict[str, int] = {}
    for token, times in Counter(_tokens(text)).items():
        for word in _words_of(token):
            counts[word] = counts.get(word, 0) + times
    return Counter(counts)


def spelled(text: str) -> Spelled:
    """The words of a text in its order, token by token: parts, and behind several parts what they are parts of."""
    return list(map(_words_of, _tokens(text)))


def sequence(text: Spelled) -> list[str]:
    """The words of a text in its order, identifiers as their parts."""
    return [word for token in text for word in (token[:-1] if len(token) > 1 else token)]


def identifiers(text: str) -> set[str]:
    """The words of a text that are made of parts, whole: `parse_http`, `maxretries`."""
    return {found[-1] for token in set(_tokens(text)) if len(found := _words_of(token)) > 1}


def as_written(text: str) -> dict[str, str]:
    """Each word of a text, and how it stands there first: stems are no words that anybody typed."""
    written: dict[str, str] = {}
    for token in _tokens(text):
        for word, part in zip(_words_of(token), (*_parts(token), token), strict=False):
            written.setdefault(word, part)
    return written


def digest(text: str) -> bytes:
    """The 16-byte key of a text's vector."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _tokens(text: str) -> list[str]:
    """Runs of letters, digits and underscores; in plain ASCII found four times as fast."""
    return text.encode().translate(_BLANKED).decode().split() if text.isascii() else _TOKEN.findall(text)


@lru_cache(maxsize=WORD_CACHE)
def _words_of(token: str) -> tuple[str, ...]:
    if len(token) > LONGEST_WORD:
        return ()
    parts = _parts(token)
    stems = _stemmed([part.lower() for part in parts])
    return (*stems, token.lower()) if len(parts) > 1 else stems


def _parts(token: str) -> list[str]:
    return (_ASCII_PART if token.isascii() else _PART).findall(token)


def _stemmed(parts: Sequence[str]) -> tuple[str, ...]:
    # The stemmer takes the plural off a lone "s" and leaves nothing.
    return tuple(stem or part for stem, part in zip(_stemmer().stemWords(parts), parts, strict=True))


@cache
def _stemmer() -> Stemmer.Stemmer:
    # Without a cache of its own, of 10,000 words: what comes here has not been seen lately, and stemming takes less.
    return Stemmer.Stemmer("porter", 0)


def _joined(
    *, message: str, path: str, language: str | None, symbols: Sequence[str], change: str, lines: str
) -> str:
    parts = (
        message,
        f"file: {path}",
        f"language: {language}" if language else "",
        f"symbols: {', '.join(symbols)}" if symbols else "",
        f"change: {change}",
        lines,
    )
    return "\n".join(part for part in parts if part)


def _squeezed(text: str, limit: int) -> str:
    """The beginning, without blank lines and runs of blanks, which cost the encoder tokens and say nothing."""
    lines = (" ".join(line.split()) for line in text[: limit * READ_PER_EMBEDDED].splitlines())
    return "\n".join(line for line in lines if line)[:limit]
