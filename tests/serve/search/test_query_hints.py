"""What a query's text says beside its subject."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from serve.search import query_hints

NOW = datetime(2024, 6, 30, tzinfo=UTC)


LANGUAGES = frozenset({"python", "rust", "go", "typescript", "cpp", "c", "json"})
PATHS = frozenset({"src/net/", "src/net/tcp.rs", "app.py", "docs/"})


def read(text: str) -> query_hints.Hints:
    return query_hints.read(text, NOW, query_hints.Here(LANGUAGES.__contains__, PATHS.__contains__))


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
    """A language said as such is a filter, and leaves the words to search by."""
    assert (read(text).language, read(text).text) == (language, rest)


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
    """A version, a word of another meaning, data, a language the history lacks and one of two are no filter."""
    assert (read(text).language, read(text).text) == (None, text)


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
    """A timeframe is a lower bound on the date; what only looks like one stays part of the query."""
    assert (read(text).since, read(text).text) == (since, rest)


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
    """File and folder names are found; addresses, versions and attributes are none."""
    assert read(text).paths == paths


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
    """What has a slash or a dot and lies nowhere in the history is no path."""
    assert read(text).paths == ()


def test_a_pasted_text_names_few_paths() -> None:
    """Of a text with a thousand slashes the index is asked about the first few."""
    asked: list[str] = []

    def holds(path: str) -> bool:
        asked.append(path)
        return True

    here = query_hints.Here(lambda _: False, holds)
    assert len(query_hints.read(" ".join(f"a/{n}" for n in range(1_000)), NOW, here).paths) == len(asked)
    assert len(asked) == query_hints.MOST_PATHS


@pytest.mark.parametrize(
    ("text", "symbols"),
    [
        ("use of `connect`", ("connect",)),
        ("use of `net.tcp.connect(host, port)`", ("connect",)),
        ("use of 'Pool::get' and \"close\"", ("get", "close")),
        ("it's what isn't there", ()),
        ("a `two word` phrase", ()),
    ],
)
def test_quoted_symbols(text: str, symbols: tuple[str, ...]) -> None:
    """A name in quotes is meant literally; what encloses it in the source is left aside."""
    assert read(text).symbols == symbols


@pytest.mark.parametrize("text", ["in Python", "last 3 days", "in Python, last week"])
def test_nothing_but_hints_keeps_its_words(text: str) -> None:
    """A query that is all hints is still searched by its words."""
    assert read(text).text == text
