"""Tests of `tests.eval.message_queries`: selection of commits, sampling, sentences of bodies."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.eval.commits import Commit, DuplicateGroups
from tests.eval.message_queries import (
    describes_change,
    draw_sample,
    find_body_sentence,
    mentions_file,
    select_commits,
    select_keywords,
    split_sentences,
)

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


def create_commit(subject: str, *paths: str, sha: str = "", body: str = "", parents: int = 1) -> Commit:
    """Return a commit whose sha defaults to its subject."""
    return Commit(sha or subject, ("p",) * parents, subject, body, paths or ("a.py",))


@pytest.mark.parametrize("subject", CHANGES)
def test_changes(subject: str) -> None:
    """A first word that is common in bumps and releases does not exclude a change."""
    assert describes_change(create_commit(subject))


@pytest.mark.parametrize("subject", NO_CHANGES)
def test_no_changes(subject: str) -> None:
    """Merges, reverts, bumps, releases and subjects of two words are excluded."""
    assert not describes_change(create_commit(subject))


def test_merges_and_reverts_with_other_subjects() -> None:
    """A merge is detected by its parents, and a revert by its body."""
    assert not describes_change(create_commit("Bring the topic home", parents=2))
    assert not describes_change(
        create_commit("Do without the timeout", body="This reverts commit 0123456789.\n")
    )


def test_select_commits() -> None:
    """Near-duplicates, repeated subjects and commits without an indexed file are excluded."""
    commits: Sequence[Commit] = (
        create_commit("Close the socket twice", sha="1"),
        create_commit("Close the socket once", sha="2"),
        create_commit("Close the socket once", "other.py", sha="3"),
        create_commit("Read the header again (#7)", sha="4"),
        create_commit("Read the header again", sha="5"),
        create_commit("Write the lock file", "poetry.lock", sha="6"),
        create_commit("Write both of them", "poetry.lock", "a.py", sha="7"),
    )
    selected = select_commits(commits, DuplicateGroups({"5": "4"}), lambda path: not path.endswith(".lock"))
    assert [commit.sha for commit in selected] == ["1", "4", "7"]


def test_mentions_file() -> None:
    """A file name matches with and without extension, in any case, as a whole word."""
    paths = ["src/http/WebSocket.kt", "docs/change-log.md"]
    assert mentions_file("Fix a race in WebSocket", paths)
    assert mentions_file("websocket.kt: fix a race", paths)
    assert mentions_file("Note it in the change-log", paths)
    assert not mentions_file("Fix a race in RealWebSocket and websockets", paths)
    assert not mentions_file("Fix a race", [])


def test_draw_sample() -> None:
    """A seed gives the same items in their order, another seed other items; a short list is returned whole."""
    items = list(range(1000))
    sample = draw_sample(items, 20, seed=1)
    assert sample == draw_sample(items, 20, seed=1) == sorted(sample)
    assert len(set(sample)) == 20
    assert sample != draw_sample(items, 20, seed=2)
    assert draw_sample(items[:5], 20, seed=1) == items[:5]


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
    """Bullets and wrapped lines become sentences; code, quotes, trailers and issue references are removed."""
    assert list(split_sentences(BODY)) == [
        "Socket close is fixed.",
        "The reader waited for a lock that the writer held, and neither of them ever let go.",
        "See for more.",
        "Another thing.",
    ]


def test_select_keywords() -> None:
    """Keywords are two or three words of a subject, in order, that no other subject has together."""
    subjects = [
        "Prevent an open redirect in the response",
        "Prevent open redirects",
        "Add a response time header",
    ]
    commits = [create_commit(subject) for subject in subjects]
    texts = {text: commit.sha for seed in range(40) for text, commit in select_keywords(commits, seed)}
    assert texts["response time"] == texts["Add time header"] == "Add a response time header"
    assert texts["Prevent response"] == "Prevent an open redirect in the response"
    assert "open redirect" not in texts and "Prevent redirects" not in texts
    assert {len(text.split()) for text in texts} == {2, 3}
    assert list(select_keywords(commits, 1)) == list(select_keywords(commits, 1))


def test_find_body_sentence() -> None:
    """The first sentence that shares less than half of its words with the subject is returned."""
    sentence = find_body_sentence("Fix socket close", BODY)
    assert sentence == "The reader waited for a lock that the writer held, and neither of them ever let go."
    assert find_body_sentence("Make sure the socket close is fixed", "Socket close is fixed.") is None
    assert find_body_sentence("Fix socket close", "") is None
    assert (
        find_body_sentence("Fix socket close", "This happened in a program such as:\n\n    run()\n") is None
    )
