"""What is said where nothing found is likely an answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from serve.search.find_pattern import NO_PRECEDENT, NOTHING_ASKED
from tests.repos import Repo
from tests.serve.sample_index import index
from tests.serve.search.helpers import Options, ask


def test_weak_hits_say_so(repo: Repo, home: Path) -> None:
    """Where nothing is likely an answer, each hit is marked and a hint says what that means."""
    index(repo, home)
    answer = ask(repo, home, "colour management of printers in the viewfinder", k=3)
    assert [hit.weak for hit in answer.hits] == [True] * 3
    assert answer.meta.hint == NO_PRECEDENT
    assert ask(repo, home, "Add a timeout to connect").meta.hint is None
    kept = ask(repo, home, "colour management of printers in the viewfinder", rerank=False)
    assert kept.meta.hint is None and kept.hits[0].weak is None


@pytest.mark.parametrize(
    ("text", "options", "named"),
    [
        ("", {"path": "./src/", "author": "ada"}, "path 'src/', author 'ada'"),
        (" in the last 2 years", {}, "since '2018-04-11T12:00:00Z'"),
        (" in rust", {"since": "2020"}, "language 'rust', since '2020-01-01'"),
        ("", {"since": "2019-01-01T06:30:00+01:00"}, "since '2019-01-01T05:30:00Z'"),
    ],
)
def test_weak_within_the_filters(repo: Repo, home: Path, text: str, options: Options, named: str) -> None:
    """Where filters left out other changes, weak hits say nothing of these, and the hint names the filters."""
    index(repo, home)
    answer = ask(repo, home, f"colour management of printers in the viewfinder{text}", **options)
    assert answer.hits and all(hit.weak for hit in answer.hits)
    assert answer.meta.hint == (
        f"Every hit is weak: nothing within the filters resembles it: {named}. Ask without them."
    )


def test_question_without_content(repo: Repo, home: Path) -> None:
    """A question of nothing but function words is told so, not that its answer was never done."""
    index(repo, home)
    assert ask(repo, home, "how did we do this before").meta.hint == NOTHING_ASKED
    assert ask(repo, home, "how did we connect").meta.hint is None


def test_no_claim_where_messages_say_nothing(tmp_path: Path, home: Path) -> None:
    """Of a commit that does not say what it did nobody knows that it is no precedent."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("pool.py", "def acquire():\n    pass\n", "wip")
    repo.commit_file("app.rs", "fn main() {}\n", "Add an entry")
    index(repo, home)
    answer = ask(repo, home, "colour management of printers in the viewfinder")
    assert {hit.commit_message: hit.weak for hit in answer.hits} == {"wip": None, "Add an entry": True}
    assert answer.meta.hint is None
