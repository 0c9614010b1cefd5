"""Commits are asked for when their message tells of a change that can be found."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.eval.body_sentences import sentence_of, sentences
from tests.eval.commits import Told
from tests.eval.near_duplicates import Twins
from tests.eval.sampling import drawn, names_a_file, tellable, tells_a_change

CHANGES = (
    "Add a timeout to the client",
    "Updated the way headers are folded",
    "Prepare statements once and keep them",
    "Support HTTP/1.1 pipelining in the parser",
    "Release the lock before calling listeners",
    "Fix dependency on order of iteration",
    "Set cookies with version 1 attributes",
)
NO_CHANGES = (
    "Merge branch 'main' into topic",
    "Merge pull request #12 from someone/topic",
    'Revert "Add a timeout to the client"',
    "fix: revert the timeout of clients",
    "Bump actions/checkout from 3 to 4.1",
    "build(deps): bump qs in /examples",
    "deps: send@0.17.1",
    "Update dependency okio to v3.2",
    "Upgrade to Kotlin 1.9.20 everywhere",
    "Release 4.17",
    "Prepare for release 5.0.0",
    "ignore-0.4.33",
    "4.18.1",
    "Fix typo",
    "Typo (#1234)",
)


def commit(subject: str, *paths: str, sha: str = "", body: str = "", parents: int = 1) -> Told:
    return Told(sha or subject, ("p",) * parents, subject, body, paths or ("a.py",))


@pytest.mark.parametrize("subject", CHANGES)
def test_changes_are_asked(subject: str) -> None:
    """Words that bumps and releases begin with do not alone make one."""
    assert tells_a_change(commit(subject))


@pytest.mark.parametrize("subject", NO_CHANGES)
def test_housekeeping_is_not(subject: str) -> None:
    """Merges, reverts, bumps, releases and two words tell of no change."""
    assert not tells_a_change(commit(subject))


def test_what_the_body_gives_away() -> None:
    """A second parent makes a merge and git's own words a revert, whatever the subject says."""
    assert not tells_a_change(commit("Bring the topic home", parents=2))
    assert not tells_a_change(commit("Do without the timeout", body="This reverts commit 0123456789.\n"))


def test_tellable() -> None:
    """One of each family, no subject twice, and something in it that an index holds."""
    commits: Sequence[Told] = (
        commit("Close the socket twice", sha="1"),
        commit("Close the socket once", sha="2"),
        commit("Close the socket once", "other.py", sha="3"),
        commit("Read the header again (#7)", sha="4"),
        commit("Read the header again", sha="5"),
        commit("Write the lock file", "poetry.lock", sha="6"),
        commit("Write both of them", "poetry.lock", "a.py", sha="7"),
    )
    kept = tellable(commits, Twins({"5": "4"}), lambda path: not path.endswith(".lock"))
    assert [one.sha for one in kept] == ["1", "4", "7"]


def test_names_a_file() -> None:
    """A file's name counts with and without extension, in any case, as a whole word."""
    paths = ["src/http/WebSocket.kt", "docs/change-log.md"]
    assert names_a_file("Fix a race in WebSocket", paths)
    assert names_a_file("websocket.kt: fix a race", paths)
    assert names_a_file("Note it in the change-log", paths)
    assert not names_a_file("Fix a race in RealWebSocket and websockets", paths)
    assert not names_a_file("Fix a race", [])


def test_drawn() -> None:
    """A seed draws the same items in their order; another seed draws others; few are taken whole."""
    items = list(range(1000))
    one = drawn(items, 20, seed=1)
    assert one == drawn(items, 20, seed=1) == sorted(one)
    assert len(set(one)) == 20
    assert one != drawn(items, 20, seed=2)
    assert drawn(items[:5], 20, seed=1) == items[:5]


BODY = """Fixes #12
Socket close is fixed.

* The reader waited for a lock that the writer held,
  and neither of them ever let go. See https://example.org/x for more.
* Another thing.

    code = is_left_out(here, always)
> As somebody said, it is quoted here.

Co-authored-by: Ada Lovelace <ada@example.org>
"""


def test_sentences() -> None:
    """Bullets and wrapped lines become sentences; code, quotes, trailers and issue references do not."""
    assert list(sentences(BODY)) == [
        "Socket close is fixed.",
        "The reader waited for a lock that the writer held, and neither of them ever let go.",
        "See for more.",
        "Another thing.",
    ]


def test_sentence_in_other_words() -> None:
    """The first sentence that shares under half its words with the subject."""
    found = sentence_of("Fix socket close", BODY)
    assert found == "The reader waited for a lock that the writer held, and neither of them ever let go."
    assert sentence_of("Make sure the socket close is fixed", "Socket close is fixed.") is None
    assert sentence_of("Fix socket close", "") is None
    assert sentence_of("Fix socket close", "This happened in a program such as:\n\n    run()\n") is None
