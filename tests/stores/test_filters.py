"""Filters: what each one keeps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from pathspec import GitIgnoreSpec

from stores.filters import BadPathFilter, Where
from tests.stores.sample_index import FIRST_DATE, Doc, small_index
from tests.stores.search_helpers import by_text

PATHS = ["app.py", "src/app.py", "src/net/app.rs", "docs/src/guide.md", "tests/test_app.py", "src b/ü.py"]
DOCS = [
    Doc(1, "app.py", author="Ada Lovelace", email="ada@example.org"),
    Doc(2, "src/app.py", author="Grace Hopper", email="GRACE@navy.example"),
    Doc(3, "src/net/app.rs", language="rust", author="Ångström", email="a@b"),
    Doc(4, "LICENSE", language=None),
]


def paths(where: Where, docs: list[Doc] = DOCS) -> set[str]:
    return {hit.file_path for hit in by_text(small_index(docs), ["word"], where)}


def test_language_keeps_its_hunks() -> None:
    """A language filter keeps hunks of that language; a file of unknown language is in none."""
    assert paths(Where(language="python")) == {"app.py", "src/app.py"}


@pytest.mark.parametrize(
    "since",
    [
        FIRST_DATE + timedelta(days=3),
        (FIRST_DATE + timedelta(days=3)).replace(tzinfo=UTC),
        (FIRST_DATE + timedelta(days=3, hours=2)).replace(tzinfo=timezone(timedelta(hours=2))),
    ],
)
def test_since_is_a_lower_bound(since: datetime) -> None:
    """A commit of exactly that moment is kept, whatever the zone the moment was given in."""
    assert paths(Where(since=since)) == {"src/net/app.rs", "LICENSE"}


@pytest.mark.parametrize(
    ("author", "kept"),
    [
        ("grace", {"src/app.py"}),
        ("NAVY.example", {"src/app.py"}),
        ("ångström", {"src/net/app.rs"}),
        ("Grace Hopper <grace@navy.example>", {"src/app.py"}),
        ("%", set()),
    ],
)
def test_author_is_a_part_of_name_or_address(author: str, kept: set[str]) -> None:
    """The author filter finds a part of the name or the address in any case, and has no wildcards."""
    assert paths(Where(author=author)) == kept


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
    """The path filter keeps what the same line in a .gitignore would name."""
    spec = GitIgnoreSpec.from_lines(["*", pattern] if pattern.startswith("!") else [pattern])
    expected = {path for path in PATHS if spec.match_file(path)}
    assert paths(Where(path=pattern), [Doc(n, path) for n, path in enumerate(PATHS)]) == expected
    assert expected and expected != set(PATHS)


@pytest.mark.parametrize("pattern", ["", "  ", "# note", "!", "/"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    """A line that names nothing in a .gitignore is no filter either, and the error shows forms that are."""
    with pytest.raises(BadPathFilter, match=r"gitignore pattern such as"):
        paths(Where(path=pattern))


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
    """Falling ranges, of which git matches nothing either, and classes by name: most are a name's own brackets."""
    with pytest.raises(BadPathFilter, match=r"escaped: `app/\\\[post-id\\\]/`"):
        paths(Where(path=pattern))


def test_brackets_of_a_name_are_escaped() -> None:
    """As the hint says; a filter that is too large for the database's expressions is refused too."""
    docs = [Doc(1, "app/[post-id]/page.tsx"), Doc(2, "app/t/page.tsx")]
    assert paths(Where(path=r"app/\[post-id\]/"), docs) == {"app/[post-id]/page.tsx"}
    with pytest.raises(BadPathFilter, match="gitignore pattern such as"):
        paths(Where(path="?" * 100_000), docs)


def test_filters_narrow_together() -> None:
    """Several filters keep what passes them all."""
    assert paths(Where(language="python", path="src/", author="hopper")) == {"src/app.py"}
    assert paths(Where(language="rust", author="hopper")) == set()
