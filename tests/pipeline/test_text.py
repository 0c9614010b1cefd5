"""Texts of hunks to embed and to index, and terms of a text."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pipeline import text


def test_identifier_terms() -> None:
    """The terms of an identifier are the stems of its camelCase and snake_case parts, and the whole identifier."""
    assert text.count_terms("parseHTTPHeaders(user_names2)") == {
        "pars": 1, "http": 1, "header": 1, "parsehttpheaders": 1,
        "user": 1, "name": 1, "2": 1, "user_names2": 1,
    }  # fmt: skip


def test_word_forms_share_a_stem() -> None:
    """Forms of a word count under one stem, so that a query matches code with another form."""
    assert text.count_terms("caching cached caches Cache") == {"cach": 3 + 1}


def test_non_ascii_words() -> None:
    """Letters of every script form words; only ASCII identifiers are split by case."""
    assert set(text.count_terms("größe_日本 Ünïcode")) == {"größe", "日本", "größe_日本", "ünïcode"}


def test_long_tokens_have_no_terms() -> None:
    """A token over the length limit yields no term."""
    assert text.count_terms("a" * (text.MAX_TOKEN_CHARACTERS + 1)) == {}


def test_tokenize() -> None:
    """A token has the stems of its parts, and the whole token if it has several. `list_part_stems` has only stems."""
    tokens = text.tokenize("parseHTTP the retries")
    assert tokens == [("pars", "http", "parsehttp"), ("the",), ("retri",)]
    assert text.list_part_stems(tokens) == ["pars", "http", "the", "retri"]


def test_compound_identifiers_and_surface_forms() -> None:
    """Tokens with several parts are compound; each term maps to its first spelling."""
    query = "Retrying parseHTTP, retry max_retries"
    assert text.find_compound_identifiers(query) == {"parsehttp", "max_retries"}
    forms = {"retri": "Retrying", "pars": "parse", "http": "HTTP", "parsehttp": "parseHTTP"}
    assert text.find_surface_forms(query) == forms | {"max": "max", "max_retries": "max_retries"}


@given(st.text())
def test_tokenized_and_counted_terms_agree(value: str) -> None:
    """`tokenize` and `count_terms` yield the same terms."""
    assert Counter(term for terms in text.tokenize(value) for term in terms) == text.count_terms(value)


@given(st.binary())
def test_any_bytes_have_terms_and_a_digest(data: bytes) -> None:
    """Any content has non-empty terms with positive counts, and a digest of 16 bytes."""
    decoded = data.decode("utf-8", errors="replace")
    assert all(term and count > 0 for term, count in text.count_terms(decoded).items())
    assert len(text.compute_digest(data.decode("utf-8", errors="surrogateescape"))) == 16


@given(st.text(), st.text())
def test_term_counts_are_additive(left: str, right: str) -> None:
    """The term counts of two lines are the sum of the counts of each line."""
    assert text.count_terms(f"{left}\n{right}") == text.count_terms(left) + text.count_terms(right)


def build_text(**changes: str) -> str:
    """Build the semantic text of a sample hunk with these changes."""
    fields = {
        "message": "Cache the template lookup\n\n\nIt was slow.",
        "path": "src/templating.py",
        "change_kind": "modified",
        "added": "    key  = (loader,\tname)\n\n    return cache[key]\n",
        "removed": "    return find(name)\n",
    }
    return text.build_semantic_text(**(fields | changes), language="python", symbols=["Loader", "find"])


def test_semantic_text() -> None:
    """The text has message, path, language, symbols, change and added lines, without redundant whitespace."""
    assert build_text() == (
        "Cache the template lookup\nIt was slow.\n"
        "file: src/templating.py\n"
        "language: python\n"
        "symbols: Loader, find\n"
        "change: modified\n"
        "key = (loader, name)\nreturn cache[key]"
    )


def test_semantic_text_without_a_file() -> None:
    """Without a file, the text has no line for it."""
    assert "file:" not in build_text(path="")
    assert text.build_diff_text(diff="", path="", change_kind="empty") == "change: empty"


def test_semantic_text_of_a_deletion() -> None:
    """If no line was added, the text has the removed lines."""
    assert build_text(added="").endswith("change: modified\nreturn find(name)")


def test_long_message_is_truncated() -> None:
    """A long message is truncated, so that the change is in the text."""
    assert build_text(message="x" * 10_000).endswith("return cache[key]")


def test_full_text_is_not_truncated() -> None:
    """The text for the full-text index has the whole message and all added lines, but no removed lines."""
    long_text = "word " * 5_000
    full_text = text.build_full_text(
        message=long_text, path="a.py", symbols=["f"], added=long_text, removed="gone"
    )
    assert text.count_terms(full_text)["word"] == 10_000 and "gone" not in text.count_terms(full_text)
