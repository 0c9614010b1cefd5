"""Moments as people write them: `30d`, `2024-01-31`, `2024-01`, `2024`, `2024-01-31T12:00:00Z`.

The words that only ask, told from those that say what is asked for.

What a query says between the lines: a language, paths, quoted symbol names, a timeframe.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Final

from pipeline.syntax.languages import BY_SUFFIX, WITHOUT_SYMBOLS, language_of
from pipeline.text import words
from serve.errors import BadRequest

# Months and years of a relative age are round numbers of days: nobody means the hour in "six months ago".
UNITS: Final = {
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
    "m": timedelta(days=30),
    "y": timedelta(days=365),
}
_AGE: Final = re.compile(r"(\d+)([hdwmy])", re.ASCII | re.IGNORECASE)
# A day, a month or a year: the same with an option as in running text.
DATE: Final = r"\d{4}(?:-\d{2}(?:-\d{2})?)?"
_DATE: Final = re.compile(DATE, re.ASCII)


def moment(text: str, now: datetime) -> datetime:
    """The moment a person means, in UTC; a day, a month and a year are their first instant there."""
    age = _AGE.fullmatch(text.strip())
    try:
        if age:
            return now - int(age[1]) * UNITS[age[2].lower()]
        if _DATE.fullmatch(text.strip()):
            return _first_instant(text.strip())
        # RFC 3339 lets `t` and `z` be small.
        said = datetime.fromisoformat(text.strip().upper())
        return said.astimezone(UTC) if said.tzinfo else said.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise BadRequest(
            f"{text!r} is not a date or an age.",
            hint="Give an age such as `30d` (h, d, w, m, y), a date `2024-01-31`, `2024-01` or `2024`, "
            "or `2024-01-31T12:00:00Z`.",
        ) from error


def said(moment: datetime) -> str:
    """A moment as an option takes it: a day that it is the beginning of, or the second in UTC."""
    if moment == moment.replace(hour=0, minute=0, second=0, microsecond=0):
        return moment.date().isoformat()
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def date(text: str) -> datetime | None:
    """The first instant of a day, a month or a year; None for one the calendar does not have."""
    try:
        return _first_instant(text)
    except ValueError:
        return None


def ago(count: int, unit: str, now: datetime) -> datetime | None:
    """The moment `count` units (`day`, `weeks`, ...) ago; None when that lies before the calendar."""
    try:
        return now - count * UNITS[unit[0]]
    except OverflowError:
        return None


def _first_instant(text: str) -> datetime:
    return datetime.fromisoformat(f"{text}-01-01"[:10]).replace(tzinfo=UTC)


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


@dataclass(frozen=True, slots=True)
class Hints:
    """What was found, and `text`: the query without the phrases that only said it.

    `paths` are file or folder names to prefer, `symbols` names meant literally.
    """

    text: str
    language: str | None = None
    since: datetime | None = None
    paths: tuple[str, ...] = ()
    symbols: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Here:
    """What a question is asked of, as far as its words may speak of it.

    `speaks` says whether the history has files of a language, `holds` whether one of its paths has this one in it, as
    whole parts; `root` is where the work tree lies, None where nobody can have typed paths of it.
    """

    speaks: Callable[[str], bool]
    holds: Callable[[str], bool]
    root: Path | None = None


# Where there is no index yet, a question's words are only words.
NOTHING_HERE: Final = Here(lambda _: False, lambda _: False)

# Other ways people write a language, beside the names of `pipeline.syntax.languages` and their suffixes.
_OTHER_NAMES: Final = {"golang": "go", "c++": "cpp", "c#": "csharp", "objc": "objective-c"}
LANGUAGES: Final = {name: name for name in BY_SUFFIX.values()} | BY_SUFFIX | _OTHER_NAMES
# These are words of other meanings too: in running text only `in Go` counts, not "ready in go".
_PROPER_NAMES: Final = {"c": "C", "d": "D", "go": "Go", "r": "R", "swift": "Swift", "dart": "Dart"}
# "Quotes in JSON" asks for the code that writes them: data and markup are a filter only as `language:json`.
_PROGRAMMED: Final = (
    frozenset(BY_SUFFIX.values()) - WITHOUT_SYMBOLS - {"make", "cmake", "sql", "graphql", "protobuf"}
)

# The index is asked about each; nobody names so many, and a text that is pasted in may have thousands of slashes.
MOST_PATHS: Final = 20

_NAMED: Final = re.compile(r"\b(?:language|lang):\s*([\w+#-]+)", re.IGNORECASE)
# "in Python 3.12" speaks of a version that is supported, not of the code's language.
_SPOKEN_OF: Final = re.compile(
    r"\bin ([\w+#-]+)(?: code| files?| sources?)?(?![\w+#/-]|\s*\d|\.\w)"
    # Bounded, because a text of hyphens has a beginning at each of them: longer than any language's name.
    r"|\b([\w+#-]{1,40}) (?:code|files?|sources?)\b",
    re.IGNORECASE,
)
# Another language beside the one that was named: an answer may be of either.
_BESIDE: Final = r"\s*(?:,|/|&|\band\b|\bor\b)\s*"
# Characters before a language in which the end of another one's name is looked for.
NEAR: Final = 60
_AND_ANOTHER: Final = re.compile(rf"{_BESIDE}(?:in\s+)?([\w+#-]{{1,40}})", re.IGNORECASE)
_ANOTHER_AND: Final = re.compile(rf"([\w+#-]{{1,40}}){_BESIDE}$", re.IGNORECASE)
_NUMBERS: Final = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "few": 3}
_LAST: Final = re.compile(
    r"\b(?P<within>(?:in|over|within|during|from|for) )?(?:the )?(?:last|past|previous) "
    rf"(?:(?P<count>\d{{1,6}}|{'|'.join(_NUMBERS)}) )?(?P<unit>day|week|month|year)s?\b(?! of\b)",
    re.IGNORECASE,
)
_SINCE: Final = re.compile(rf"\b(?:since|after) ({DATE})(?![\d.-])", re.IGNORECASE)
_FOLLOWING: Final = re.compile(r"\s+([\w-]+)")
_PATH: Final = re.compile(
    r"(?<![\w/:.+-])(?:\.{0,2}/)?[\w.+-]+(?:/[\w.+-]+)+/?|(?<![\w/:.+-])[\w+-]+/(?=[\s,;:)]|$)"
)
_FILE: Final = re.compile(r"(?<![\w/.:+-])[\w-]+(?:\.[\w-]+)*\.[A-Za-z]\w*(?![\w/(])")
_WORD: Final = re.compile(r"\w")
_QUOTED: Final = re.compile(r"`([^`\n]+)`|\"([^\"\n]+)\"|(?<!\w)'([^'\n]+)'(?!\w)")
_SYMBOL: Final = re.compile(r"(?:[^\W\d]\w*(?:\.|::|#))*([^\W\d]\w*[!?]?)(?:\(.*\))?")


def read(text: str, now: datetime, here: Here) -> Hints:
    """The hints of a query: what it says of languages and paths that there are here, and of names and times."""
    rest, language = _language(text, here.speaks)
    rest, since = _timeframe(rest, now)
    rest = " ".join(rest.split())
    return Hints(
        # A query that is nothing but hints still has words to search by.
        text=rest if _WORD.search(rest) else text,
        language=language,
        since=since,
        paths=tuple(filter(here.holds, islice(dict.fromkeys(_paths(rest)), MOST_PATHS))),
        symbols=tuple(dict.fromkeys(_symbols(rest))),
    )


def _language(text: str, speaks: Callable[[str], bool]) -> tuple[str, str | None]:
    for match in _NAMED.finditer(text):
        language = LANGUAGES.get(match[1].lower())
        if language and speaks(language):
            return text.replace(match[0], " "), language
    for match in _SPOKEN_OF.finditer(text):
        language = _spoken(match[1] or match[2])
        if language and speaks(language) and not _speaks_of_another(text, match):
            return text.replace(match[0], " ", 1), language
    return text, None


def _speaks_of_another(text: str, match: re.Match[str]) -> bool:
    """Whether a second language stands beside the one that matched: "in Java or Python"."""
    # Looked for nearby alone: a text that is pasted in may name a language thousands of times.
    before = _ANOTHER_AND.search(text, max(0, match.start() - NEAR), match.start())
    beside = (before, _AND_ANOTHER.match(text, match.end()))
    return any(_spoken(other[1]) for other in beside if other)


def _spoken(word: str) -> str | None:
    """The programming language a word in running text means."""
    language = LANGUAGES.get(word.lower())
    suffix_only = word.lower() in BY_SUFFIX and word.lower() != language
    if language not in _PROGRAMMED or suffix_only or word != _PROPER_NAMES.get(word.lower(), word):
        return None
    return language


def _timeframe(text: str, now: datetime) -> tuple[str, datetime | None]:
    if (match := _LAST.search(text)) and (match["within"] or match["count"] or _ends(text, match)):
        count = match["count"] or "1"
        since = ago(_NUMBERS.get(count.lower()) or int(count), match["unit"].lower(), now)
        return (text.replace(match[0], " "), since) if since else (text, None)
    # A bare number may count anything: "after 2000 requests".
    if (match := _SINCE.search(text)) and ("-" in match[1] or _ends(text, match)):
        since = date(match[1])
        return (text.replace(match[0], " "), since) if since and since <= now else (text, None)
    return text, None


def _ends(text: str, match: re.Match[str]) -> bool:
    """Whether a phrase is not about the word behind it, as "previous month" is in "previous month button"."""
    following = _FOLLOWING.match(text, match.end())
    return following is None or FUNCTION_WORDS.issuperset(words(following[1]))


def _paths(text: str) -> Iterable[str]:
    for match in _PATH.finditer(text):
        path = match[0].removeprefix("./").rstrip(".,:")
        if _WORD.search(path):
            yield path
    for match in _FILE.finditer(text):
        if language_of(match[0]):
            yield match[0]


def _symbols(text: str) -> Iterable[str]:
    for match in _QUOTED.finditer(text):
        symbol = _SYMBOL.fullmatch((match[1] or match[2] or match[3]).strip())
        if symbol:
            yield symbol[1]
