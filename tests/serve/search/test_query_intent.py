"""What kind of precedent a query asks for."""

from __future__ import annotations

import pytest

from serve.search import query
from serve.search.query import Intent


@pytest.mark.parametrize(
    ("text", "kind"),
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
def test_kind(text: str, kind: Intent) -> None:
    """The kind with the most cue words is picked, and none without any; cues are whole words."""
    assert query.classify_intent(text).intent is kind


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
    """Tests, documentation and configuration are asked for by name, whatever the kind of question."""
    assert query.classify_intent(text).roles == roles


def test_bug_fixes_weigh_recency_half_more() -> None:
    """Bug-fix intent raises the recency weight by 1.5."""
    assert query.PROFILES[Intent.BUG_FIX].recency == pytest.approx(0.05 * 1.5)
    others = {query.PROFILES[kind].recency for kind in Intent if kind is not Intent.BUG_FIX}
    assert others == {0.05}


def test_configuration_alone_disables_the_symbol_lane() -> None:
    """Only configuration questions go without the symbol-name lane."""
    assert [kind for kind in Intent if not query.PROFILES[kind].symbols] == [Intent.CONFIGURATION]


def test_api_usage_alone_widens_the_pool() -> None:
    """Only questions of usage consider more than fifty candidates."""
    assert {kind for kind in Intent if query.PROFILES[kind].candidates > 50} == {Intent.API_USAGE}
