"""Hints about weak hits."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from serve.find_types import FindRequest
from serve.repositories import resolve_repositories
from serve.search.find_pattern import NO_CONTENT_WORDS, NO_PRECEDENT, PatternSearcher
from serve.search.merged_search import find_in_repositories
from stores import database
from tests.pipeline.histories import get_location
from tests.repos import Repo
from tests.serve.sample_index import WordEncoder, build_index
from tests.serve.search.helpers import NOW, FindOptions, find


def test_weak_hits_are_marked(repo: Repo, home: Path) -> None:
    """If no hit is a likely answer, every hit is marked and a hint explains it."""
    build_index(repo, home)
    answer = find(repo, home, "colour management of printers in the viewfinder", k=3)
    assert [hit.weak for hit in answer.hits] == [True] * 3
    assert answer.meta.hint == NO_PRECEDENT
    assert find(repo, home, "Add a timeout to connect").meta.hint is None
    unranked = find(repo, home, "colour management of printers in the viewfinder", rerank=False)
    assert unranked.meta.hint is None and unranked.hits[0].weak is None


def test_a_name_that_only_the_code_has_is_no_weak_hit(tmp_path: Path, home: Path) -> None:
    """A single name finds the change that brings it, although no message has the name."""
    repo = Repo.create(tmp_path / "name")
    repo.commit_file("a.py", "timeout = 1\n", "Change the settings")
    repo.commit_file("b.py", "colour = 2\n", "Change the other settings")
    build_index(repo, home)
    answer = find(repo, home, "timeout", k=2)
    assert [hit.weak for hit in answer.hits] == [False, True]


@pytest.mark.parametrize("path", [None, "src"])
def test_weak_hits_before_all_vectors(repo: Repo, home: Path, path: str | None) -> None:
    """While vectors are missing, weak hits give no hint, because changes without one are found by words only."""
    build_index(repo, home)
    with database.open_for_writing(get_location(repo, home)) as connection:
        connection.execute("DELETE FROM vectors WHERE rowid = (SELECT max(rowid) FROM vectors)")
    request = FindRequest("colour management of printers in the viewfinder", path=path)
    with closing(PatternSearcher(home, load_encoder=lambda _: WordEncoder())) as searcher:
        alone = searcher.find(request, repo.path, NOW)
        merged = find_in_repositories(searcher, request, resolve_repositories(home, ["*"], home), NOW)
    for answer in (alone, merged):
        assert answer.hits and all(hit.weak for hit in answer.hits)
        assert "vectors for " in (answer.meta.hint or "") and "hit is weak" not in (answer.meta.hint or "")


@pytest.mark.parametrize(
    ("text", "options", "filters"),
    [
        ("", {"path": "./src/", "author": "ada"}, "path 'src/', author 'ada'"),
        (" in the last 2 years", {}, "since '2018-04-11T12:00:00Z'"),
        (" in rust", {"since": "2020"}, "language 'rust', since '2020-01-01'"),
        ("", {"since": "2019-01-01T06:30:00+01:00"}, "since '2019-01-01T05:30:00Z'"),
    ],
)
def test_weak_hits_with_filters(
    repo: Repo, home: Path, text: str, options: FindOptions, filters: str
) -> None:
    """With filters, the hint about weak hits names the filters."""
    build_index(repo, home)
    answer = find(repo, home, f"colour management of printers in the viewfinder{text}", **options)
    assert answer.hits and all(hit.weak for hit in answer.hits)
    assert answer.meta.hint == (
        f"Every hit is weak: nothing within the filters ({filters}) resembles the query. Search without them."
    )


def test_query_without_content_words(repo: Repo, home: Path) -> None:
    """A query of function words gets a hint about that, not about weak hits."""
    build_index(repo, home)
    assert find(repo, home, "how did we do this before").meta.hint == NO_CONTENT_WORDS
    assert find(repo, home, "how did we connect").meta.hint is None


def test_uninformative_messages_are_not_weak(tmp_path: Path, home: Path) -> None:
    """An unlikely hit with an uninformative message is not marked as weak."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("pool.py", "def acquire():\n    pass\n", "wip")
    repo.commit_file("app.rs", "fn main() {}\n", "Add an entry")
    build_index(repo, home)
    answer = find(repo, home, "colour management of printers in the viewfinder")
    assert {hit.commit_message: hit.weak for hit in answer.hits} == {"wip": None, "Add an entry": True}
    assert answer.meta.hint is None
