"""Parsing of requests into queries: intents, requested changes, and path filters as typed or completed by shells."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Unpack

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve.errors import BadRequest
from serve.find_types import DEFAULT_QUERY_PROFILE, FindRequest
from serve.search import query
from serve.search.query import Intent, RequestedChange, normalize_path_filter
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
    ("since", "until", "end"),
    [("0d", None, "now"), ("2024", "2023", "'2023'"), ("2d", "3d", "'3d'")],
)
def test_empty_period(since: str, until: str | None, end: str) -> None:
    """A period that does not start before its end is an error."""
    request = FindRequest("timeouts", since=since, until=until)
    with pytest.raises(BadRequest, match=rf"its start '{since}' is not before its end, {end}\."):
        query.parse_query(request, NOW, ANY_CONTEXT)


def test_start_in_the_future() -> None:
    """A period may start in the future, because the clock of a commit's author may be wrong."""
    assert parse("retries", since="2030-01-01").filters.since == datetime(2030, 1, 1, tzinfo=UTC)


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
        "cue words fix; recency counts 1.5 times as much; read from the query: language: rust; "
        "since: 2024-01-01; paths preferred: src/net/; names meant literally: connect"
    )


def test_explanation_of_an_origin_or_removal() -> None:
    """The profile says if a question about an origin or a removal was recognized, within one of the five intents."""
    profile = parse("when did we drop support of connect?").query_profile
    assert (
        profile.name == "ImplementationPattern"
        and f"; {query.RequestedChange.REMOVAL.value}" in profile.explanation
    )
    without_cues = parse("when was the flag removed").query_profile
    assert without_cues.name == "Unknown"
    assert without_cues.explanation == f"default lanes and weights; {query.RequestedChange.REMOVAL.value}"


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


@pytest.mark.parametrize(
    ("text", "intent"),
    [
        ("fix crash when the socket is closed", Intent.BUG_FIX),
        ("How did we fix the deadlock in config loading?", Intent.BUG_FIX),
        ("pin dependencies in the lockfile", Intent.CONFIGURATION),
        ("ci workflow that runs mypy", Intent.CONFIGURATION),
        ("usage of the retry decorator", Intent.API_USAGE),
        ("examples of calling send_file", Intent.API_USAGE),
        ("how did we implement pagination", Intent.IMPLEMENTATION),
        ("add streaming support", Intent.IMPLEMENTATION),
        ("socket timeouts", Intent.UNKNOWN),
        ("prefix addition", Intent.UNKNOWN),
        ("", Intent.UNKNOWN),
    ],
)
def test_intents(text: str, intent: Intent) -> None:
    """The intent with the most cue words wins, UNKNOWN without any; cues are whole words."""
    assert query.classify_intent(text).intent is intent


@pytest.mark.parametrize(
    ("text", "roles"),
    [
        ("tests for redirects", {"tests"}),
        ("changelog for 0.18", {"prose"}),
        ("documentation of the test fixtures", {"prose", "tests"}),
        ("pin dependencies", {"other"}),
        ("fix the ci workflow", {"other"}),
        ("mock transport for testing", set()),
        ("support zstd content decoding", set()),
        ("latest documents", {"prose"}),
        ("attestation and contests", set()),
    ],
)
def test_roles(text: str, roles: set[str]) -> None:
    """Tests, documentation and configuration are recognized by cue words, whatever the intent."""
    assert query.classify_intent(text).roles == roles


@pytest.mark.parametrize(
    ("text", "requested_change"),
    [
        ("when was the cookie parser introduced?", RequestedChange.ORIGIN),
        ("since when do we retry", RequestedChange.ORIGIN),
        ("where does the name of the router come from", RequestedChange.ORIGIN),
        ("first selector that compares texts", RequestedChange.ORIGIN),
        ("when and why did we get rid of connect?", RequestedChange.REMOVAL),
        ("why was the first parser dropped?", RequestedChange.REMOVAL),
        ("the workflow for canaries, when did it go away?", RequestedChange.REMOVAL),
        ("removal of the last pieces of connect", RequestedChange.REMOVAL),
        ("how did we add signed cookies?", None),
        ("adding, removing and toggling classes: how was that built?", None),
        ("how is the constructor used to check addresses?", None),
        ("the parser no longer fails for an empty first line", None),
        ("fix what was introduced in 20.1", None),
        ("how do we remove a header from a response?", None),
        ("how do we delete a user?", None),
        ("how do I stop the server?", None),
        ("how to get rid of a warning", None),
        ("how does the parser learn the encoding?", None),
        ("how do old sessions get deleted?", RequestedChange.REMOVAL),
        ("how did we drop the header?", RequestedChange.REMOVAL),
        ("why does the first request fail?", None),
        ("which parser reads the first line?", None),
        ("who first used the pool?", RequestedChange.ORIGIN),
        ("which change first let people ask for directories?", RequestedChange.ORIGIN),
        ("how was the workflow set up at first?", RequestedChange.ORIGIN),
        ("", None),
    ],
)
def test_requested_changes(text: str, requested_change: RequestedChange | None) -> None:
    """Questions about an origin or a removal are recognized by cue words, whatever the intent; statements are not."""
    classification = query.classify_intent(text)
    assert classification.requested_change is requested_change
    is_origin = requested_change is RequestedChange.ORIGIN
    assert (classification.retrieval_profile.recency_weight == 0) == is_origin


@pytest.mark.parametrize(
    ("text", "is_question"),
    [
        ("how did we add a timeout", True),
        ("the socket waits forever", True),
        ("add socket timeout", False),
        ("open redirect", False),
        ("retry uploads in python", True),
    ],
)
def test_questions_have_function_words(text: str, is_question: bool) -> None:
    """A text with function words is a question, also if the search leaves all of them out."""
    assert parse(text).is_question is is_question


def test_recency_weight_of_bug_fixes() -> None:
    """Bug-fix intent multiplies the recency weight by 1.5."""
    assert query.PROFILES[Intent.BUG_FIX].recency_weight == pytest.approx(0.05 * 1.5)
    others = {query.PROFILES[intent].recency_weight for intent in Intent if intent is not Intent.BUG_FIX}
    assert others == {0.05}


def test_only_configuration_disables_the_symbol_lane() -> None:
    """Only configuration questions run without the symbol-name lane."""
    assert [intent for intent in Intent if not query.PROFILES[intent].uses_symbol_lane] == [
        Intent.CONFIGURATION
    ]


def test_only_api_usage_has_more_candidates() -> None:
    """Only questions of API usage have more than 50 candidates."""
    assert {intent for intent in Intent if query.PROFILES[intent].candidate_count > 50} == {Intent.API_USAGE}


def has_no_path(_: str) -> bool:
    """Return False, as for a history without the path."""
    return False


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A work tree that contains a directory of its own name."""
    root = tmp_path / "app"
    (root / "app").mkdir(parents=True)
    (root / "app/models.py").touch()
    (root / "main.py").touch()
    return root


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("src/", "src/"),
        ("*.py", "*.py"),
        ("/docs", "/docs"),
        ("!docs/", "!docs/"),
        (".github/", ".github/"),
        ("a..b", "a..b"),
        ("./src/a.py", "src/a.py"),
        (".//./src/", "src/"),
        ("./*.py", "*.py"),
    ],
)
def test_path_patterns(root: Path, pattern: str, expected: str) -> None:
    """A pattern stays unchanged except for a leading `./`, with or without a work tree."""
    assert (
        normalize_path_filter(pattern, root, has_no_path)
        == normalize_path_filter(pattern, None, has_no_path)
        == expected
    )


def test_absolute_paths_into_the_work_tree(root: Path, tmp_path: Path) -> None:
    """An absolute path into the work tree, existing or not, becomes relative to the root and keeps a final slash."""
    (tmp_path / "link").symlink_to(root)
    assert normalize_path_filter(f"{root}/main.py", root, has_no_path) == "/main.py"
    assert normalize_path_filter(f"{root}/app/", root, has_no_path) == "/app/"
    assert normalize_path_filter(f"{root}/gone/*.py", root, has_no_path) == "/gone/*.py"
    assert normalize_path_filter(f"{tmp_path}/link/main.py", root, has_no_path) == "/main.py"
    assert normalize_path_filter(f"{root}/main.py", None, has_no_path) == f"{root}/main.py"


def test_special_characters_of_existing_paths_are_escaped(root: Path) -> None:
    """Special characters are literal in an existing path and a pattern otherwise."""
    (root / "[id]").mkdir()
    assert normalize_path_filter(f"{root}/[id]/", root, has_no_path) == r"/\[id\]/"
    assert normalize_path_filter(f"{root}/[ab]/", root, has_no_path) == "/[ab]/"


def test_escaped_bytes_of_answers_are_literal(root: Path) -> None:
    """A path with undecodable bytes, escaped as answers show it, matches literally."""
    path = r"caf\xe9/latin.py"
    assert normalize_path_filter(path, root, {path}.__contains__) == r"caf\\xe9/latin.py"
    assert normalize_path_filter(path, root, has_no_path) == path


def test_rooted_patterns(root: Path) -> None:
    """A pattern with a leading slash that is no path of the file system is relative to the root."""
    inside = root / str(root).lstrip("/") / "deep.py"
    inside.parent.mkdir(parents=True)
    inside.touch()
    assert normalize_path_filter(f"{root}/deep.py", root, has_no_path) == f"{root}/deep.py"
    assert normalize_path_filter("/lib", root, has_no_path) == "/lib"
    assert normalize_path_filter("/nul\0", root, has_no_path) == "/nul\0"


@pytest.mark.parametrize("pattern", [".", "./", "././", "..", "../x", "a/../b", "./../", "{root}", "{root}/"])
def test_paths_outside_the_work_tree_are_rejected(root: Path, pattern: str) -> None:
    """The root, its parents and its siblings are errors whose hint shows valid patterns."""
    with pytest.raises(BadRequest, match="relative to the repository's root"):
        normalize_path_filter(pattern.format(root=root), root, has_no_path)


def test_existing_paths_elsewhere_are_rejected(root: Path, tmp_path: Path) -> None:
    """An existing path outside the work tree is an error; one that does not exist is a pattern."""
    (tmp_path / "other").mkdir()
    with pytest.raises(BadRequest, match="names nothing inside the repository"):
        normalize_path_filter(f"{tmp_path}/other", root, has_no_path)
    assert normalize_path_filter(f"{tmp_path}/nowhere", root, has_no_path) == f"{tmp_path}/nowhere"
    assert (
        normalize_path_filter(f"{tmp_path}/other", root, {f"{tmp_path}/other".strip("/")}.__contains__)
        == f"{tmp_path}/other"
    )
