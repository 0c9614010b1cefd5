"""Hints in the text of a query, and its function words.

Function words ("how", "the", "was") have no meaning of their own. All other words are content words.

- `parse_hints`: search for the language, time range, paths and quoted symbol names that a query mentions.
- `parse_date`: parser of ages and dates (`30d`, `2024-01-31`, `2024-01`, `2024`, `2024-01-31T12:00:00Z`).
- `FUNCTION_WORDS`, `strip_question_phrases`: function words, and their removal from the start of a question.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Final

from pipeline.file_classification import LANGUAGE_BY_SUFFIX, LANGUAGES_WITHOUT_SYMBOLS, detect_language
from pipeline.text import count_terms
from serve.errors import BadRequest
from serve.references import find_numbers
from stores.filters import CommitRange, QuotedSymbol, ReleaseFilter

# A month counts 30 days and a year 365: relative ages need no calendar.
AGE_UNITS: Final = {
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
    "m": timedelta(days=30),
    "y": timedelta(days=365),
}
_AGE: Final = re.compile(r"(\d+)([hdwmy])", re.ASCII | re.IGNORECASE)
# Year, month or day, both in an option and in the text of a query.
DATE_PATTERN: Final = r"\d{4}(?:-\d{2}(?:-\d{2})?)?"
_DATE_REGEX: Final = re.compile(DATE_PATTERN, re.ASCII)

# Words that do not count as matched words of a hit. They are rare in code, so BM25 gives them a high weight.
FUNCTION_WORDS: Final = frozenset(
    count_terms(
        "a about all an and any are as at be been before being but by can could did do does doing done for from get"
        " gets getting got had has have how i if in into is it its made make more no not of on only or our should so"
        " some such than that the their them then there these they this those to us use used using was way we were"
        " what when where which who why will with would you"
        # Parts of "module's", "don't" and the like.
        " didn doesn don isn ll re s t ve"
    )
)

# Verbs that say how something was changed. A question and the subject of its answer often use different verbs.
CHANGE_VERBS: Final = frozenset(
    count_terms(
        "add allow avoid change correct create delete deprecate disable drop enable extend fix handle implement improve"
        " introduce make move prevent refactor remove rename replace resolve support update use"
    )
)

# Function words that `strip_question_phrases` keeps, because they negate the words after them.
_NEGATIONS: Final = frozenset(count_terms("no not"))
# Matches the start of a question. In a statement, leading function words have a meaning: "do not retry".
_QUESTION_START: Final = re.compile(
    r"\W*(?:how|what|when|where|which|who|why|(?:are|can|could|did|do|have|should|were) (?:i|they|we|you))\b",
    re.IGNORECASE,
)

# Spellings of languages that are neither names nor file suffixes in `pipeline.file_classification`.
_LANGUAGE_ALIASES: Final = {"golang": "go", "c++": "cpp", "c#": "csharp", "objc": "objective-c"}
LANGUAGES: Final = (
    {name: name for name in LANGUAGE_BY_SUFFIX.values()} | LANGUAGE_BY_SUFFIX | _LANGUAGE_ALIASES
)
# Languages whose names are common words need this capitalization: "in Go", not "ready in go".
_AMBIGUOUS_NAMES: Final = {"c": "C", "d": "D", "go": "Go", "r": "R", "swift": "Swift", "dart": "Dart"}
# "Quotes in JSON" asks for code that writes JSON, so only `language:json` filters by a data or markup language.
_FILTERABLE_LANGUAGES: Final = (
    frozenset(LANGUAGE_BY_SUFFIX.values())
    - LANGUAGES_WITHOUT_SYMBOLS
    - {"make", "cmake", "sql", "graphql", "protobuf"}
)

# Maximum number of paths to look up. Each needs a query of the index, and a pasted text may have thousands of slashes.
MAX_PATHS: Final = 20

# Maximum number of issues and pull requests whose commits are looked up. A pasted log may name thousands.
MAX_NUMBERS: Final = 10

# Maximum number of phrases that are looked up as the name of a release.
MAX_RELEASES: Final = 20

# Maximum number of listed languages that the history lacks. A pasted text may have thousands of words that look like
# languages.
MAX_ABSENT_LANGUAGES: Final = 5

_LANGUAGE_FIELD: Final = re.compile(r"\b(?:language|lang):\s*([\w+#-]+)", re.IGNORECASE)
# Before a number it is no mention: "in Python 3.12" is about a supported version, not about the language of the code.
_LANGUAGE_MENTION: Final = re.compile(
    r"\bin ([\w+#-]+)(?: code| files?| sources?)?(?![\w+#/-]|\s*\d|\.\w)"
    # At most 40 characters, because a long run of hyphens would take quadratic time. No language name is as long.
    r"|\b([\w+#-]{1,40}) (?:code|files?|sources?)\b",
    re.IGNORECASE,
)
# Text between two alternative languages: "in Java or Python" filters by neither.
_CONJUNCTION: Final = r"\s*(?:,|/|&|\band\b|\bor\b)\s*"
# Number of characters before a language in which the previous alternative is searched.
CONJUNCTION_WINDOW: Final = 60
_NEXT_ALTERNATIVE: Final = re.compile(rf"{_CONJUNCTION}(?:in\s+)?([\w+#-]{{1,40}})", re.IGNORECASE)
_PREVIOUS_ALTERNATIVE: Final = re.compile(rf"([\w+#-]{{1,40}}){_CONJUNCTION}$", re.IGNORECASE)
_NUMBER_WORDS: Final = {
    "a": 1,
    "an": 1,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "few": 3,
}
_RELATIVE_PERIOD: Final = re.compile(
    r"\b(?P<within>(?:in|over|within|during|from|for) )?(?:the )?(?:last|past|previous) "
    rf"(?:(?P<count>\d{{1,6}}|{'|'.join(_NUMBER_WORDS)}) )?(?P<unit>day|week|month|year)s?\b(?! of\b)",
    re.IGNORECASE,
)
# "in 3.8", "for version 3.8", "of the release v3.8". No other word may stand before the number: "in Python 3.8" is
# about another program.
_RELEASE: Final = re.compile(
    r"\b(?:in|of|for)\s+(?:the\s+)?(?:(?:version|release|tag)\s+)?`?(?P<tag>[\w/+-]*\d[\w./+-]*)`?",
    re.IGNORECASE,
)
# Text before a release that makes the release the start or end of a range: "since version 3".
_RELEASE_RANGE: Final = re.compile(
    r"\b(?:since|after|before|until|from|to)\s+(?:the\s+)?(?:version|release|tag)\s+\Z", re.IGNORECASE
)
# Number of characters before a release in which `_RELEASE_RANGE` is searched.
RANGE_WINDOW: Final = 40
_SINCE_DATE: Final = re.compile(rf"\b(?:since|after) ({DATE_PATTERN})(?![\d.-])", re.IGNORECASE)
_NEXT_WORD: Final = re.compile(r"\s+([\w-]+)")
_PATH: Final = re.compile(
    r"(?<![\w/:.+-])(?:\.{0,2}/)?[\w.+-]+(?:/[\w.+-]+)+/?|(?<![\w/:.+-])[\w+-]+/(?=[\s,;:)]|$)"
)
_FILE_NAME: Final = re.compile(r"(?<![\w/.:+-])[\w-]+(?:\.[\w-]+)*\.[A-Za-z]\w*(?![\w/(])")
_WORD_CHARACTER: Final = re.compile(r"\w")
_QUOTED: Final = re.compile(r"`([^`\n]+)`|\"([^\"\n]+)\"|(?<!\w)'([^'\n]+)'(?!\w)")
_SYMBOL: Final = re.compile(r"((?:[^\W\d]\w*(?:\.|::|#))*[^\W\d]\w*[!?]?)(?:\(.*\))?")
_SCOPE_SEPARATOR: Final = re.compile(r"\.|::|#")


@dataclass(frozen=True, slots=True)
class Hints:
    """Hints found in a query.

    `text` is the query without the phrases that state a language, a release or a time range. `since` is the start of
    the time range. `paths` are files or directories to prefer, `symbols` are quoted names. `absent_languages` are
    languages that the query names and the history lacks. `release` is the release that the query asks about. `numbers`
    are the issues and pull requests that the query names.
    """

    text: str
    language: str | None = None
    since: datetime | None = None
    paths: tuple[str, ...] = ()
    symbols: tuple[QuotedSymbol, ...] = ()
    absent_languages: tuple[str, ...] = ()
    release: ReleaseFilter | None = None
    numbers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RepositoryContext:
    """Facts about the repository that decide which words of a query are hints.

    - `has_language`: checks whether the history has files in a language.
    - `has_path`: checks whether some path in the history contains the components of a given path, one after the other.
    - `work_tree`: root of the work tree; None for a bare repository.
    - `is_indexed`: False without an index. The languages of the history are then unknown.
    - `find_release`: returns the commits first released in a tag; None if there is no such tag.
    - `find_referring_commits`: returns the commits that belong to issues or pull requests, given as `#12`.
    - `own_names`: names of the repository, such as `owner/repo`, which may stand before the number of an issue.
    - `commit_range`: commits of the request's range.
    """

    has_language: Callable[[str], bool]
    has_path: Callable[[str], bool]
    work_tree: Path | None = None
    is_indexed: bool = True
    find_release: Callable[[str], ReleaseFilter | None] = lambda _: None
    find_referring_commits: Callable[[Collection[str]], frozenset[str]] = lambda _: frozenset()
    own_names: Collection[str] = ()
    commit_range: CommitRange | None = None


# Without an index no word of a query is a language or a path.
EMPTY_CONTEXT: Final = RepositoryContext(lambda _: False, lambda _: False, is_indexed=False)


def parse_hints(text: str, now: datetime, context: RepositoryContext) -> Hints:
    """Find the hints in a query. Languages and paths that the history lacks are no hints."""
    remaining_text, language = _extract_language(text, context.has_language)
    remaining_text, release = _extract_release(remaining_text, context.find_release)
    remaining_text, since = _extract_timeframe(remaining_text, now)
    remaining_text = " ".join(remaining_text.split())
    numbers = (reference.text for reference in find_numbers(text, context.own_names))
    return Hints(
        # If the query consists of hints only, search for its whole text.
        text=remaining_text if _WORD_CHARACTER.search(remaining_text) else text,
        language=language,
        since=since,
        paths=tuple(filter(context.has_path, islice(dict.fromkeys(_find_paths(remaining_text)), MAX_PATHS))),
        symbols=tuple(dict.fromkeys(_find_symbols(remaining_text))),
        absent_languages=_find_absent_languages(text, context) if context.is_indexed else (),
        release=release,
        numbers=tuple(islice(dict.fromkeys(numbers), MAX_NUMBERS)),
    )


def _find_absent_languages(text: str, context: RepositoryContext) -> tuple[str, ...]:
    """Return the languages that the text names and the history lacks, at most MAX_ABSENT_LANGUAGES."""
    absent_languages = (
        name for name in dict.fromkeys(_find_languages(text)) if not context.has_language(name)
    )
    return tuple(islice(absent_languages, MAX_ABSENT_LANGUAGES))


def _find_languages(text: str) -> Iterator[str]:
    """Yield each language that the text names, also both languages of "in Java or Python".

    An unknown language of a field, as in `language:cobol`, is yielded too.
    """
    for match in _LANGUAGE_FIELD.finditer(text):
        # After a colon and a space, the word may be no language: "add a language: support of plurals".
        is_field = " " not in match[0]
        if language := LANGUAGES.get(match[1].lower(), match[1] if is_field else None):
            yield language
    for match in _LANGUAGE_MENTION.finditer(text):
        words = (match[1] or match[2], *_find_alternatives(text, match))
        yield from filter(None, map(_resolve_language_mention, words))


def _extract_language(text: str, has_language: Callable[[str], bool]) -> tuple[str, str | None]:
    """Return the text without the phrase that names a language, and the language; None without such a phrase."""
    for match in _LANGUAGE_FIELD.finditer(text):
        language = LANGUAGES.get(match[1].lower())
        if language and has_language(language):
            return text.replace(match[0], " "), language
    for match in _LANGUAGE_MENTION.finditer(text):
        language = _resolve_language_mention(match[1] or match[2])
        if language is None or not has_language(language):
            continue
        if not any(map(_resolve_language_mention, _find_alternatives(text, match))):
            return text.replace(match[0], " ", 1), language
    return text, None


def _find_alternatives(text: str, match: re.Match[str]) -> list[str]:
    """Return the words that are alternatives to the matched language, as in "in Java or Python"."""
    # Only some characters before the language are searched: a pasted text may name a language thousands of times.
    before = _PREVIOUS_ALTERNATIVE.search(text, max(0, match.start() - CONJUNCTION_WINDOW), match.start())
    after = _NEXT_ALTERNATIVE.match(text, match.end())
    return [alternative[1] for alternative in (before, after) if alternative]


def _resolve_language_mention(word: str) -> str | None:
    """Return the programming language that a word in running text means; None if it means none."""
    lower_word = word.lower()
    language = LANGUAGES.get(lower_word)
    is_only_suffix = lower_word in LANGUAGE_BY_SUFFIX and lower_word != language
    is_common_word = word != _AMBIGUOUS_NAMES.get(lower_word, word)
    if language not in _FILTERABLE_LANGUAGES or is_only_suffix or is_common_word:
        return None
    return language


def _extract_release(
    text: str, find_release: Callable[[str], ReleaseFilter | None]
) -> tuple[str, ReleaseFilter | None]:
    """Return the text without the phrase that names a release, and the release; None without such a phrase."""
    for match in islice(_RELEASE.finditer(text), MAX_RELEASES):
        name = match["tag"].rstrip("./+-")
        # A bare number may be a count: "in 2 steps".
        is_range = _RELEASE_RANGE.search(text, max(0, match.start() - RANGE_WINDOW), match.start())
        release = None if name.isdecimal() or is_range else find_release(name)
        if release:
            return f"{text[: match.start()]} {text[match.end() :]}", release
    return text, None


def _extract_timeframe(text: str, now: datetime) -> tuple[str, datetime | None]:
    """Return the text without the phrase that names a time range, and its start; None without such a phrase."""
    # "last month" alone may describe a thing, as in "last month button".
    if (match := _RELATIVE_PERIOD.search(text)) and (
        match["within"] or match["count"] or _ends_phrase(text, match)
    ):
        count = match["count"] or "1"
        since = subtract_period(_NUMBER_WORDS.get(count.lower()) or int(count), match["unit"].lower(), now)
        return (text.replace(match[0], " "), since) if since else (text, None)
    # A bare year may be a count: "after 2000 requests".
    if (match := _SINCE_DATE.search(text)) and ("-" in match[1] or _ends_phrase(text, match)):
        since = parse_calendar_date(match[1])
        return (text.replace(match[0], " "), since) if since and since <= now else (text, None)
    return text, None


def _ends_phrase(text: str, match: re.Match[str]) -> bool:
    """Check that no content word follows the match. In "previous month button", a content word follows."""
    next_word = _NEXT_WORD.match(text, match.end())
    return next_word is None or FUNCTION_WORDS.issuperset(count_terms(next_word[1]))


def _find_paths(text: str) -> Iterable[str]:
    """Yield the words that may be paths: first those with a slash, then file names with a known suffix."""
    for match in _PATH.finditer(text):
        path = match[0].removeprefix("./").rstrip(".,:")
        if _WORD_CHARACTER.search(path):
            yield path
    for match in _FILE_NAME.finditer(text):
        if detect_language(match[0]):
            yield match[0]


def _find_symbols(text: str) -> Iterable[QuotedSymbol]:
    """Yield the quoted texts that can be names of symbols, such as `Flask.run()`."""
    for match in _QUOTED.finditer(text):
        symbol = _SYMBOL.fullmatch((match[1] or match[2] or match[3]).strip())
        if symbol:
            *scopes, name = _SCOPE_SEPARATOR.split(symbol[1])
            yield QuotedSymbol(name, scopes[-1] if scopes else "")


def parse_date(text: str, now: datetime) -> datetime:
    """Parse an age or a date into a time in UTC. A day, month or year means its first instant. Raises BadRequest."""
    age = _AGE.fullmatch(text.strip())
    try:
        if age:
            return now - int(age[1]) * AGE_UNITS[age[2].lower()]
        if _DATE_REGEX.fullmatch(text.strip()):
            return _parse_period_start(text.strip())
        # RFC 3339 allows lower case `t` and `z`.
        parsed = datetime.fromisoformat(text.strip().upper())
        return parsed.astimezone(UTC) if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise BadRequest(
            f"{text!r} is not a date or an age.",
            hint="Give an age such as `30d` (h, d, w, m, y), a date `2024-01-31`, `2024-01` or `2024`, "
            "or `2024-01-31T12:00:00Z`.",
        ) from error


def format_date(time: datetime) -> str:
    """Format a time in UTC for `parse_date`: midnight as a day, any other time to the second."""
    if time == time.replace(hour=0, minute=0, second=0, microsecond=0):
        return time.date().isoformat()
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"


def parse_calendar_date(text: str) -> datetime | None:
    """Return the first instant of a day, month or year in UTC; None if the calendar lacks it."""
    try:
        return _parse_period_start(text)
    except ValueError:
        return None


def subtract_period(count: int, unit: str, now: datetime) -> datetime | None:
    """Return the time `count` units (`day`, `weeks`, ...) before `now`; None for 0, and before year 1."""
    try:
        return now - count * AGE_UNITS[unit[0]] if count else None
    except OverflowError:
        return None


def _parse_period_start(text: str) -> datetime:
    first_day = f"{text}-01-01"[:10]  # completes a year or a month
    return datetime.fromisoformat(first_day).replace(tzinfo=UTC)


def extract_content_words(terms: Iterable[str]) -> frozenset[str]:
    """Return the terms without function words."""
    return frozenset(terms) - FUNCTION_WORDS


def extract_topic_words(terms: Iterable[str]) -> frozenset[str]:
    """Return the content words without CHANGE_VERBS; all content words if each is such a verb."""
    content_words = extract_content_words(terms)
    return content_words - CHANGE_VERBS or content_words


def strip_question_phrases(text: str) -> str:
    """Remove the function words at the start of a question: "how did we retry" -> "retry".

    The encoder would count these words as part of the meaning, most of all in a short question. Negations stay. A text
    without content words, or that does not start like a question, stays unchanged.
    """
    if not _QUESTION_START.match(text):
        return text
    tokens = text.split()
    removable = FUNCTION_WORDS - _NEGATIONS
    content_indexes = (
        index for index, token in enumerate(tokens) if not removable.issuperset(count_terms(token))
    )
    remaining_text = " ".join(tokens[next(content_indexes, 0) :])
    return text if FUNCTION_WORDS.issuperset(count_terms(remaining_text)) else remaining_text
