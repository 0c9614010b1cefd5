"""Classification of questions."""

from __future__ import annotations

import pytest

from serve.search import query
from serve.search.query import Intent, Modifier


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
    ("text", "modifier"),
    [
        ("when was the cookie parser introduced?", Modifier.ORIGIN),
        ("since when do we retry", Modifier.ORIGIN),
        ("where does the name of the router come from", Modifier.ORIGIN),
        ("first selector that compares texts", Modifier.ORIGIN),
        ("when and why did we get rid of connect?", Modifier.REMOVAL),
        ("why was the first parser dropped?", Modifier.REMOVAL),
        ("the workflow for canaries, when did it go away?", Modifier.REMOVAL),
        ("removal of the last pieces of connect", Modifier.REMOVAL),
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
        ("how do old sessions get deleted?", Modifier.REMOVAL),
        ("how did we drop the header?", Modifier.REMOVAL),
        ("why does the first request fail?", None),
        ("which parser reads the first line?", None),
        ("who first used the pool?", Modifier.ORIGIN),
        ("which change first let people ask for directories?", Modifier.ORIGIN),
        ("how was the workflow set up at first?", Modifier.ORIGIN),
        ("", None),
    ],
)
def test_modifiers(text: str, modifier: Modifier | None) -> None:
    """Questions about an origin or a removal are recognized by cue words, whatever the intent; statements are not."""
    classification = query.classify_intent(text)
    assert classification.modifier is modifier
    is_origin = modifier is Modifier.ORIGIN
    assert (classification.retrieval_profile.recency_weight == 0) == is_origin


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
