"""Tests of `tests.eval.baselines`: `git log --grep`."""

from __future__ import annotations

from pathlib import Path

from tests.eval.baselines import GrepSearcher, extract_words
from tests.repos import Repo


def test_order(tmp_path: Path) -> None:
    """Commits with more matching words come first, then newer ones; stop words are ignored."""
    repo = Repo.create(tmp_path)
    old = repo.commit("Timeouts of sockets")
    both = repo.commit("Give the client a TIMEOUT")
    repo.commit("Nothing of it")
    new = repo.commit("A timeout more")
    searcher = GrepSearcher(repo.path)
    assert searcher.search("How did we add a timeout to the client?", 10) == [both, new, old]
    assert searcher.search("How did we add a timeout to the client?", 1) == [both]
    assert searcher.search("how was that done before?", 10) == []


def test_extract_words() -> None:
    """Identifiers stay whole, punctuation is removed, and words are distinct."""
    assert extract_words("Where was `foo_bar.baz` used, before foo_bar.baz?") == ["foo_bar.baz"]
