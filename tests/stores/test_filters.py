"""Query filters: language, date, author and path."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from pathspec import GitIgnoreSpec

from stores.filters import BadPathFilter, QueryFilter
from tests.stores.sample_index import FIRST_DATE, SampleHunk, create_index
from tests.stores.search_helpers import search_text

PATHS = ["app.py", "src/app.py", "src/net/app.rs", "docs/src/guide.md", "tests/test_app.py", "src b/ü.py"]
HUNKS = [
    SampleHunk(1, "app.py", author="Ada Lovelace", email="ada@example.org"),
    SampleHunk(2, "src/app.py", author="Grace Hopper", email="GRACE@navy.example"),
    SampleHunk(3, "src/net/app.rs", language="rust", author="Ångström", email="a@b"),
    SampleHunk(4, "LICENSE", language=None),
]


def find_paths(query_filter: QueryFilter, hunks: list[SampleHunk] = HUNKS) -> set[str]:
    """Return the paths of all hunks that pass the filter."""
    return {hit.file_path for hit in search_text(create_index(hunks), ["word"], query_filter)}


def test_language() -> None:
    """The language filter keeps only hunks of that language; hunks of unknown language are excluded."""
    assert find_paths(QueryFilter(language="python")) == {"app.py", "src/app.py"}


def test_negated_preferred_path() -> None:
    """A negated pattern does not count as the pattern."""
    with pytest.raises(BadPathFilter, match="'!src/' is not a path filter"):
        find_paths(QueryFilter(preferred_paths=("docs/", "!src/")))


def test_until_is_an_upper_bound() -> None:
    """`until` keeps commits before that time, so that `since` and `until` of neighbouring periods share none."""
    since = find_paths(QueryFilter(since=FIRST_DATE + timedelta(days=3)))
    until = find_paths(QueryFilter(until=FIRST_DATE + timedelta(days=3)))
    assert until and since and not until & since
    assert until | since == find_paths(QueryFilter())


@pytest.mark.parametrize(
    "since",
    [
        FIRST_DATE + timedelta(days=3),
        (FIRST_DATE + timedelta(days=3)).replace(tzinfo=UTC),
        (FIRST_DATE + timedelta(days=3, hours=2)).replace(tzinfo=timezone(timedelta(hours=2))),
    ],
)
def test_since_is_a_lower_bound(since: datetime) -> None:
    """`since` keeps commits of exactly that time, in any time zone."""
    assert find_paths(QueryFilter(since=since)) == {"src/net/app.rs", "LICENSE"}


@pytest.mark.parametrize(
    ("author", "expected"),
    [
        ("grace", {"src/app.py"}),
        ("NAVY.example", {"src/app.py"}),
        ("ångström", {"src/net/app.rs"}),
        ("Grace Hopper <grace@navy.example>", {"src/app.py"}),
        ("%", set()),
    ],
)
def test_author_matches_substring(author: str, expected: set[str]) -> None:
    """The author filter matches a part of the name or address, in any case and without wildcards."""
    assert find_paths(QueryFilter(author=author)) == expected


@pytest.mark.parametrize(
    "pattern",
    [
        "src/",
        "src",
        "/src",
        "*.py",
        "src/**",
        "src/*/app.rs",
        "/app.py",
        "t[a-f]sts/",
        "src b",
        "**/net",
        "!*.py",
        "ü.*",
    ],
)
def test_path_is_a_gitignore_pattern(pattern: str) -> None:
    """The path filter keeps the paths that the same line in a .gitignore would match."""
    spec = GitIgnoreSpec.from_lines(["*", pattern] if pattern.startswith("!") else [pattern])
    expected = {path for path in PATHS if spec.match_file(path)}
    assert (
        find_paths(QueryFilter(path=pattern), [SampleHunk(n, path) for n, path in enumerate(PATHS)])
        == expected
    )
    assert expected and expected != set(PATHS)


@pytest.mark.parametrize("pattern", ["", "  ", "# note", "!", "/"])
def test_empty_pattern_is_refused(pattern: str) -> None:
    """A line that matches nothing in a .gitignore is refused, with examples of valid patterns."""
    with pytest.raises(BadPathFilter, match=r"gitignore pattern such as"):
        find_paths(QueryFilter(path=pattern))


@pytest.mark.parametrize(
    "pattern",
    [
        "app/[post-id]/page.tsx",
        "[z-a]*",
        "[t-ip]",
        "[[:foo:]]",
        "[[:alpha:]]*",
        "[[:alpha:]]x",
        "[_[:digit:]]",
    ],
)
def test_brackets_that_match_nothing_are_refused(pattern: str) -> None:
    """Descending ranges and named character classes are refused: most are literal brackets of a file name."""
    with pytest.raises(
        BadPathFilter, match=r"Escape brackets that are part of a name: `app/\\\[post-id\\\]/`"
    ):
        find_paths(QueryFilter(path=pattern))


def test_escaped_brackets() -> None:
    """Escaped brackets are literal; a pattern too large for a DuckDB expression is refused."""
    hunks = [SampleHunk(1, "app/[post-id]/page.tsx"), SampleHunk(2, "app/t/page.tsx")]
    assert find_paths(QueryFilter(path=r"app/\[post-id\]/"), hunks) == {"app/[post-id]/page.tsx"}
    with pytest.raises(BadPathFilter, match="gitignore pattern such as"):
        find_paths(QueryFilter(path="?" * 100_000), hunks)


def test_filters_combine() -> None:
    """Several filters keep the hunks that pass all of them."""
    assert find_paths(QueryFilter(language="python", path="src/", author="hopper")) == {"src/app.py"}
    assert find_paths(QueryFilter(language="rust", author="hopper")) == set()
