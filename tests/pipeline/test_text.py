"""Semantic text and words."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pipeline import text


def test_an_identifier_counts_whole_and_in_parts() -> None:
    """camelCase and snake_case are split, parts are stemmed, the identifier is kept whole."""
    assert text.words("parseHTTPHeaders(user_names2)") == {
        "pars": 1, "http": 1, "header": 1, "parsehttpheaders": 1,
        "user": 1, "name": 1, "2": 1, "user_names2": 1,
    }  # fmt: skip


def test_a_plain_word_counts_once_under_its_stem() -> None:
    """Word forms meet at one stem, so that a question matches code written in another form."""
    assert text.words("caching cached caches Cache") == {"cach": 3 + 1}


def test_words_outside_ascii_stay_whole() -> None:
    """Letters of every script are letters; case splits only ASCII identifiers."""
    assert set(text.words("größe_日本 Ünïcode")) == {"größe", "日本", "größe_日本", "ünïcode"}


def test_a_hash_is_not_a_word() -> None:
    """A run too long to be typed leaves no word."""
    assert text.words("a" * (text.LONGEST_WORD + 1)) == {}


def test_words_in_their_order() -> None:
    """Token by token, what is made of parts behind its parts; in a sequence the parts stand for it."""
    said = text.spelled("parseHTTP the retries")
    assert said == [("pars", "http", "parsehttp"), ("the",), ("retri",)]
    assert text.sequence(said) == ["pars", "http", "the", "retri"]


def test_identifiers_and_how_they_were_written() -> None:
    """What is made of parts is an identifier; each word is known as it was typed first."""
    asked = "Retrying parseHTTP, retry max_retries"
    assert text.identifiers(asked) == {"parsehttp", "max_retries"}
    written = {"retri": "Retrying", "pars": "parse", "http": "HTTP", "parsehttp": "parseHTTP"}
    assert text.as_written(asked) == written | {"max": "max", "max_retries": "max_retries"}


@given(st.text())
def test_spelled_words_are_the_words(said: str) -> None:
    """Counted or in their order, they are the same words."""
    assert Counter(word for token in text.spelled(said) for word in token) == text.words(said)


@given(st.binary())
def test_any_bytes_pass(data: bytes) -> None:
    """Whatever a file holds, words and digests come out."""
    decoded = data.decode("utf-8", errors="replace")
    assert all(word and count > 0 for word, count in text.words(decoded).items())
    assert len(text.digest(data.decode("utf-8", errors="surrogateescape"))) == 16


@given(st.text(), st.text())
def test_words_add_up(left: str, right: str) -> None:
    """The words of two texts are the words of the texts on two lines."""
    assert text.words(f"{left}\n{right}") == text.words(left) + text.words(right)


def whole(**changes: str) -> str:
    parts = {
        "message": "Cache the template lookup\n\n\nIt was slow.",
        "path": "src/templating.py",
        "change": "modified",
        "added": "    key  = (loader,\tname)\n\n    return cache[key]\n",
        "removed": "    return find(name)\n",
    }
    return text.semantic_text(**(parts | changes), language="python", symbols=["Loader", "find"])


def test_semantic_text_in_the_specified_order() -> None:
    """Commit, file, language, symbols, change, added lines; blank space that says nothing is left out."""
    assert whole() == (
        "Cache the template lookup\nIt was slow.\n"
        "file: src/templating.py\n"
        "language: python\n"
        "symbols: Loader, find\n"
        "change: modified\n"
        "key = (loader, name)\nreturn cache[key]"
    )


def test_a_deletion_shows_what_it_removed() -> None:
    """With nothing added the removed lines stand in."""
    assert whole(added="").endswith("change: modified\nreturn find(name)")


def test_a_long_message_leaves_room_for_the_change() -> None:
    """However long the message, the change is in the text."""
    assert whole(message="x" * 10_000).endswith("return cache[key]")


def test_the_lane_text_has_no_cuts() -> None:
    """Full text reads all of a long message and change."""
    long = "word " * 5_000
    lane = text.lane_text(message=long, path="a.py", symbols=["f"], added=long, removed="gone")
    assert text.words(lane)["word"] == 10_000 and "gone" not in text.words(lane)
