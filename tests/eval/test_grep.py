"""`git log --grep` as people use it."""

from __future__ import annotations

from pathlib import Path

from tests.eval.grep import Grep, words_of
from tests.repos import Repo


def test_more_words_then_newer(tmp_path: Path) -> None:
    """Commits with more of the words lead, newer ones among equals; question words are not looked for."""
    repo = Repo.create(tmp_path)
    old = repo.commit("Timeouts of sockets")
    both = repo.commit("Give the client a TIMEOUT")
    repo.commit("Nothing of it")
    new = repo.commit("A timeout more")
    assert Grep(repo.path).ask("How did we add a timeout to the client?", 10) == [both, new, old]
    assert Grep(repo.path).ask("How did we add a timeout to the client?", 1) == [both]
    assert Grep(repo.path).ask("how was that done before?", 10) == []


def test_words() -> None:
    """Names stay whole, punctuation goes, each word once."""
    assert words_of("Where was `foo_bar.baz` used, before foo_bar.baz?") == ["foo_bar.baz"]
