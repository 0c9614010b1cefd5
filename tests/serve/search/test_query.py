"""Parsing of requests into queries."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Unpack

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve.find_types import DEFAULT_QUERY_PROFILE, FindRequest
from serve.search import query
from serve.search.query_hints import RepositoryContext
from stores.filters import translate_path_pattern
from tests.serve.search.helpers import ANY_CONTEXT, FindOptions

NOW = datetime(2024, 6, 30, tzinfo=UTC)
pieces = st.sampled_from(
    ["`", "'", '"', "/", "..", "a/b", "last 3 days", "since 2024", "in Rust", "[", "*", "!", "x.py", " "]
)


def parse(text: str, **options: Unpack[FindOptions]) -> query.Query:
    return query.parse_query(FindRequest(text, **options), NOW, ANY_CONTEXT)


@given(st.one_of(st.text(), st.lists(pieces).map("".join)))
def test_any_text_can_be_parsed(text: str) -> None:
    """Any text becomes a query, and paths found in it become patterns that the database accepts."""
    for pattern in parse(text).filters.preferred_paths:
        duckdb.execute("SELECT regexp_matches('src/a.py', ?)", [translate_path_pattern(pattern)[0]])


@pytest.mark.parametrize("piece", ["a-", "`a", "a/", "a.", "in ", "a::", "last "])
def test_parsing_time_is_linear(piece: str) -> None:
    """The longest allowed text of any shape is parsed in linear time: quadratic time would take minutes."""
    before = time.process_time()
    parse((piece * 100_000)[:100_000])
    assert time.process_time() - before < 5


def test_options_override_hints() -> None:
    """A filter set as an option replaces the hint in the query text."""
    filters = parse("retries in Rust in the last 3 days", language="Python", since="7d").filters
    assert (filters.language, filters.since) == ("python", NOW - timedelta(days=7))


@pytest.mark.parametrize(
    ("name", "language"),
    [("Python", "python"), (" PY ", "python"), (".py", "python"), (".Rs", "rust"), (".", "."), (".x", ".x")],
)
def test_language_by_its_suffix(name: str, language: str) -> None:
    """A language filter may be a name or a file suffix, with or without the dot."""
    assert parse("retries", language=name).filters.language == language


@pytest.mark.parametrize(("path", "pattern"), [("src/net/", "**/src/net/"), ("/etc/a.py", "**/etc/a.py")])
def test_paths_are_preferred_anywhere(path: str, pattern: str) -> None:
    """A path in the query text becomes a pattern that matches below any directory."""
    assert parse(f"timeouts in {path}").filters.preferred_paths == (pattern,)


def test_explanation_of_intent_and_hints() -> None:
    """The profile names the intent, its cue words and effect, and the hints in the text."""
    profile = parse("fix `connect` in src/net/ in Rust since 2024").query_profile
    assert profile.name == "BugFixPrecedent"
    assert profile.explanation == (
        "cue words fix; recent commits weigh 1.5 times as much; read from the query: language: rust; "
        "since: 2024-01-01; paths preferred: src/net/; names meant literally: connect"
    )


def test_explanation_of_an_origin_or_removal() -> None:
    """The profile says if a question about an origin or a removal was recognized, within one of the five intents."""
    profile = parse("when did we drop support of connect?").query_profile
    assert (
        profile.name == "ImplementationPattern" and f"; {query.Modifier.REMOVAL.value}" in profile.explanation
    )
    without_cues = parse("when was the flag removed").query_profile
    assert without_cues.name == "Unknown"
    assert without_cues.explanation == f"default lanes and weights; {query.Modifier.REMOVAL.value}"


def test_both_parts_of_a_qualified_name_are_named() -> None:
    """The profile names a quoted symbol with the symbol around it; only the name is searched in symbol names."""
    parsed = parse("fix `events.Event.extend()`")
    assert "names meant literally: Event.extend" in parsed.query_profile.explanation
    assert parsed.symbol_terms == ("extend",)


def test_language_that_the_history_lacks_is_named() -> None:
    """The profile names a language of the query that no file of the history is in."""
    context = RepositoryContext(lambda language: language != "kotlin", lambda _: False)
    request = FindRequest("retries in Kotlin in the last 3 days")
    profile = query.parse_query(request, NOW, context).query_profile
    assert profile.explanation.endswith("; no file of the history is in: kotlin")


def test_explanation_of_a_plain_query() -> None:
    """Without cues or hints the profile is the default one."""
    profile = parse("socket timeouts").query_profile
    assert profile == DEFAULT_QUERY_PROFILE
