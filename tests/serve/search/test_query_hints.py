"""Hints in the text of a query, dates and ages in filters, and question phrases."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pipeline.text import count_terms
from serve.api_types import format_rfc3339
from serve.errors import BadRequest
from serve.search import query_hints
from serve.search.query_hints import extract_content_words, parse_date, strip_question_phrases

NOW = datetime(2024, 6, 30, tzinfo=UTC)


LANGUAGES = frozenset({"python", "rust", "go", "typescript", "cpp", "c", "json"})
PATHS = frozenset({"src/net/", "src/net/tcp.rs", "app.py", "docs/"})


def parse(text: str) -> query_hints.Hints:
    return query_hints.parse_hints(
        text, NOW, query_hints.RepositoryContext(LANGUAGES.__contains__, PATHS.__contains__)
    )


@pytest.mark.parametrize(
    ("text", "language", "rest"),
    [
        ("retry logic in Python", "python", "retry logic"),
        ("retry logic in rust code", "rust", "retry logic"),
        ("TypeScript code that retries", "typescript", "that retries"),
        ("channels in Go", "go", "channels"),
        ("channels in golang", "go", "channels"),
        ("templates in C++", "cpp", "templates"),
        ("lang:py retries", "python", "retries"),
        ("language: json retries", "json", "retries"),
    ],
)
def test_language(text: str, language: str, rest: str) -> None:
    """A language named as such becomes a filter, and its phrase is removed from the text."""
    assert (parse(text).language, parse(text).text) == (language, rest)


@pytest.mark.parametrize(
    "text",
    [
        "drop support in Python 3.7",
        "get ready to go",
        "ready in go",
        "escape quotes in JSON",
        "retry logic in Kotlin",
        "python bindings",
        "vitamin c files",
        "in r.",
        "everything in py",
        "retries in Rust or Python",
        "retries in Rust, in Python",
        "retries in Python/Rust",
        "Python and Rust code",
    ],
)
def test_no_language(text: str) -> None:
    """Versions, ambiguous words, data formats, languages the history lacks and alternatives are no filters."""
    assert (parse(text).language, parse(text).text) == (None, text)


@pytest.mark.parametrize(
    ("text", "absent"),
    [
        ("retry logic in Kotlin", ("kotlin",)),
        ("retry logic in Python", ()),
        ("Kotlin code that retries", ("kotlin",)),
        ("retries in Kotlin or Python", ("kotlin",)),
        ("retries in Python or Kotlin", ("kotlin",)),
        ("retries in Kotlin, Java and Python", ("kotlin", "java")),
        ("lang:kt retries", ("kotlin",)),
        ("language: kotlin retries in Java", ("kotlin", "java")),
        ("language:klingon retries", ("klingon",)),
        ("add a language: support of plurals", ()),
        ("retries in Kotlin 1.9", ()),
        ("ready in swift", ()),
        (" ".join(f"lang:x{number}" for number in range(99)), ("x0", "x1", "x2", "x3", "x4")),
    ],
)
def test_languages_that_the_history_lacks(text: str, absent: tuple[str, ...]) -> None:
    """Languages that are named as such and that the history lacks are listed; without an index, none is."""
    assert parse(text).absent_languages == absent
    assert query_hints.parse_hints(text, NOW, query_hints.EMPTY_CONTEXT).absent_languages == ()


@pytest.mark.parametrize(
    ("text", "since", "rest"),
    [
        ("retries in the last 10 days", datetime(2024, 6, 20, tzinfo=UTC), "retries"),
        ("retries from the past two weeks", datetime(2024, 6, 16, tzinfo=UTC), "retries"),
        ("last month: retries", datetime(2024, 5, 31, tzinfo=UTC), ": retries"),
        ("retries over the previous year", datetime(2023, 7, 1, tzinfo=UTC), "retries"),
        ("retries since 2024-01-15", datetime(2024, 1, 15, tzinfo=UTC), "retries"),
        ("retries after 2023", datetime(2023, 1, 1, tzinfo=UTC), "retries"),
        ("retries since 2023-04", datetime(2023, 4, 1, tzinfo=UTC), "retries"),
        ("retries since 2024-13-45", None, "retries since 2024-13-45"),
        ("compute the last day of a month", None, "compute the last day of a month"),
        ("retries in the last 99999999 years", None, "retries in the last 99999999 years"),
        ("since 3.12 retries", None, "since 3.12 retries"),
        ("retries since 2023 in the pool", datetime(2023, 1, 1, tzinfo=UTC), "retries in the pool"),
        ("flush after 2000 bytes", None, "flush after 2000 bytes"),
        ("retries after 3000", None, "retries after 3000"),
        ("retries since 2024-07", None, "retries since 2024-07"),
        ("add previous month button", None, "add previous month button"),
        ("retries last week?", datetime(2024, 6, 23, tzinfo=UTC), "retries ?"),
        ("retries last week in the pool", datetime(2024, 6, 23, tzinfo=UTC), "retries in the pool"),
        (f"last {'9' * 5000} days", None, f"last {'9' * 5000} days"),
    ],
)
def test_timeframe(text: str, since: datetime | None, rest: str) -> None:
    """A time range becomes a lower bound on the date; a phrase that only looks like one stays in the text."""
    assert (parse(text).since, parse(text).text) == (since, rest)


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("timeouts in src/net/", ("src/net/",)),
        ("timeouts in ./src/net/tcp.rs, please", ("src/net/tcp.rs",)),
        ("timeouts in app.py and docs/", ("docs/", "app.py")),
        ("see https://example.org/a/b.py", ()),
        ("e.g. version 1.2.3 of foo.bar", ()),
        ("make_response.py()", ()),
    ],
)
def test_paths(text: str, paths: tuple[str, ...]) -> None:
    """Files and directories are found; URLs, versions and attributes are not."""
    assert parse(text).paths == paths


@pytest.mark.parametrize(
    "text",
    [
        "HTTP/2 support",
        "TCP/IP",
        "and/or",
        "HTTP/1.1",
        "read/write locks",
        "client/server",
        "Node.js",
        "other.py",
    ],
)
def test_no_paths(text: str) -> None:
    """A word with a slash or a dot that the history lacks is no path."""
    assert parse(text).paths == ()


def test_path_lookups_are_limited() -> None:
    """Of a text with a thousand slashes only the first paths are looked up."""
    looked_up_paths: list[str] = []

    def has_path(path: str) -> bool:
        looked_up_paths.append(path)
        return True

    context = query_hints.RepositoryContext(lambda _: False, has_path)
    assert len(query_hints.parse_hints(" ".join(f"a/{n}" for n in range(1_000)), NOW, context).paths) == len(
        looked_up_paths
    )
    assert len(looked_up_paths) == query_hints.MAX_PATHS


@pytest.mark.parametrize(
    ("text", "symbols"),
    [
        ("use of `connect`", ("connect",)),
        ("use of `net.tcp.connect(host, port)`", ("tcp.connect",)),
        ("use of 'Pool::get' and \"close\"", ("Pool.get", "close")),
        ("use of `Event#extend?`", ("Event.extend?",)),
        ("it's what isn't there", ()),
        ("a `two word` phrase", ()),
    ],
)
def test_quoted_symbols(text: str, symbols: tuple[str, ...]) -> None:
    """A quoted name is a symbol. The name of its innermost enclosing scope is kept."""
    assert tuple(map(str, parse(text).symbols)) == symbols


@pytest.mark.parametrize("text", ["in Python", "last 3 days", "in Python, last week"])
def test_query_of_hints_only_keeps_its_text(text: str) -> None:
    """A query that consists of hints keeps its text."""
    assert parse(text).text == text


NOON_OF_MARCH_31 = datetime(2024, 3, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30d", datetime(2024, 3, 1, 12, tzinfo=UTC)),
        ("0d", NOON_OF_MARCH_31),
        ("2W", datetime(2024, 3, 17, 12, tzinfo=UTC)),
        ("1m", datetime(2024, 3, 1, 12, tzinfo=UTC)),
        ("1y", datetime(2023, 4, 1, 12, tzinfo=UTC)),
        ("36h", datetime(2024, 3, 30, tzinfo=UTC)),
        ("2024-01-31", datetime(2024, 1, 31, tzinfo=UTC)),
        ("2024-01", datetime(2024, 1, 1, tzinfo=UTC)),
        (" 2023 ", datetime(2023, 1, 1, tzinfo=UTC)),
        ("2024-01-31T10:00:00Z", datetime(2024, 1, 31, 10, tzinfo=UTC)),
        ("2024-01-31t10:00:00.5z", datetime(2024, 1, 31, 10, 0, 0, 500_000, tzinfo=UTC)),
        ("2024-01-31T10:00:00+02:00", datetime(2024, 1, 31, 8, tzinfo=UTC)),
        (" 2024-01-31 10:00:00 ", datetime(2024, 1, 31, 10, tzinfo=UTC)),
    ],
)
def test_valid_dates(text: str, expected: datetime) -> None:
    """Ages, days, months, years and RFC 3339 times are parsed to a time in UTC."""
    assert parse_date(text, NOON_OF_MARCH_31) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "30",
        "-3d",
        "3 days",
        "2024-02-30",
        "2024-13",
        "0000",
        "٢٠٢٤",
        "99999999d",
        "٣d",
        "1e3d",
    ],
)
def test_invalid_dates_are_rejected(text: str) -> None:
    """Any other text is an error that shows the accepted formats."""
    with pytest.raises(BadRequest, match=r"is not a date or an age\.\n  Give an age such as `30d`"):
        parse_date(text, NOON_OF_MARCH_31)


def test_period_of_zero_days_is_no_filter() -> None:
    """A phrase such as "the last 0 days" names no period."""
    hints = query_hints.parse_hints("retries in the last 0 days", NOON_OF_MARCH_31, query_hints.EMPTY_CONTEXT)
    assert (hints.text, hints.since) == ("retries in the last 0 days", None)


@pytest.mark.parametrize("date", ["2023", "2023-11", "2023-11-30"])
def test_dates_in_text_and_options_agree(date: str) -> None:
    """A date in the query text means the same as in an option."""
    assert query_hints.parse_hints(
        f"retries since {date}", NOON_OF_MARCH_31, query_hints.EMPTY_CONTEXT
    ).since == parse_date(date, NOON_OF_MARCH_31)


def test_database_times_are_formatted_in_utc() -> None:
    """A naive time of the database is formatted as RFC 3339 in UTC, to the second."""
    assert format_rfc3339(datetime(2024, 1, 31, 10, 0, 0, 7)) == "2024-01-31T10:00:00Z"  # noqa: DTZ001 - naive


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("how did we connect", "connect"),
        ("How was it that the `retry_after` header is read?", "`retry_after` header is read?"),
        ("Why is it not retried?", "not retried?"),
        ("did we ever drop a Python version", "ever drop a Python version"),
        ("¿where is the pool closed", "pool closed"),
    ],
)
def test_question_phrases_are_removed(text: str, rest: str) -> None:
    """Function words at the start of a question are removed, up to the first content word or negation."""
    assert strip_question_phrases(text) == rest


@pytest.mark.parametrize(
    "text",
    [
        "do not retry",
        "so, how do I cancel a task?",
        "Why is it not?",
        "no longer wait for peers",
        "did: resolver for documents",
        "however",
        "how did we do this before?",
        "what?",
        "",
        "как это было",
    ],
)
def test_texts_without_question_phrases_stay(text: str) -> None:
    """Statements, and questions of function words only, stay unchanged."""
    assert strip_question_phrases(text) == text


def test_parts_of_contractions_are_no_content() -> None:
    """The `s` of "module's" and the `don`, `t` of "don't" are no content words, so no diff matches because of them."""
    terms = count_terms("the module's cache doesn't expire; don't retry")
    assert extract_content_words(terms) == {"modul", "cach", "expir", "retri"}
