"""A request, taken apart."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Unpack

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve.api_types import PLAIN, FindRequest
from serve.search import query
from stores.filters import path_regex
from tests.serve.search.helpers import ANYWHERE, Options

NOW = datetime(2024, 6, 30, tzinfo=UTC)
pieces = st.sampled_from(
    ["`", "'", '"', "/", "..", "a/b", "last 3 days", "since 2024", "in Rust", "[", "*", "!", "x.py", " "]
)


def read(text: str, **options: Unpack[Options]) -> query.Query:
    return query.parse_query(FindRequest(text, **options), NOW, ANYWHERE)


@given(st.one_of(st.text(), st.lists(pieces).map("".join)))
def test_any_text_can_be_read(text: str) -> None:
    """Whatever is typed becomes a query, and the paths found in it are patterns the database takes."""
    for pattern in read(text).where.near:
        duckdb.execute("SELECT regexp_matches('src/a.py', ?)", [path_regex(pattern)[0]])


@pytest.mark.parametrize("piece", ["a-", "`a", "a/", "a.", "in ", "a::", "last "])
def test_the_longest_query_is_read_at_once(piece: str) -> None:
    """A text of any shape, up to the limit, takes time by its length: by its square this would be minutes."""
    before = time.process_time()
    read((piece * 100_000)[:100_000])
    assert time.process_time() - before < 5


def test_options_win_over_the_text() -> None:
    """A filter that is given as an option replaces the one said in the query."""
    said = read("retries in Rust in the last 3 days", language="Python", since="7d").where
    assert (said.language, said.since) == ("python", NOW - timedelta(days=7))


@pytest.mark.parametrize(
    ("said", "language"),
    [("Python", "python"), (" PY ", "python"), (".py", "python"), (".Rs", "rust"), (".", "."), (".x", ".x")],
)
def test_language_by_its_suffix(said: str, language: str) -> None:
    """A language may be given by its name or by a suffix of its files, with the dot or without."""
    assert read("retries", language=said).where.language == language


@pytest.mark.parametrize(("path", "pattern"), [("src/net/", "**/src/net/"), ("/etc/a.py", "**/etc/a.py")])
def test_paths_are_preferred_anywhere(path: str, pattern: str) -> None:
    """A path said in the query is preferred wherever in the tree it begins."""
    assert read(f"timeouts in {path}").where.near == (pattern,)


def test_explanation_says_what_was_understood() -> None:
    """The profile names the intent, the cue words, what follows, and what was read from the text."""
    explained = read("fix `connect` in src/net/ in Rust since 2024").explained
    assert explained.name == "BugFixPrecedent"
    assert explained.explanation == (
        "cue words fix; recent commits weigh 1.5 times as much; read from the query: language: rust; "
        "since: 2024-01-01; paths preferred: src/net/; names meant literally: connect"
    )


def test_explanation_of_a_plain_query() -> None:
    """Without cues or hints the profile says that defaults are used."""
    explained = read("socket timeouts").explained
    assert explained == PLAIN
