"""Similarity of lines."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Sequence
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve.explain import changed_lines, line_similarity
from serve.explain.changed_lines import (
    MAX_BLOCK_LINES,
    ChangedLine,
    ChangedLines,
    DiffSide,
)
from serve.explain.line_similarity import (
    MAX_CANDIDATES,
    MAX_LINE_CHARACTERS,
    MAX_SEARCH_WORDS,
    LineFeatures,
    WordIndex,
    build_key,
    build_keys,
    compute_containment,
    compute_similarity,
    count_common_tokens,
    extract_features,
    find_search_term,
    split_name,
)


def compare(first: str, second: str) -> float:
    return compute_similarity(extract_features(first), extract_features(second))


def contain(first: str, second: str) -> float:
    return compute_containment(extract_features(first), extract_features(second))


def test_white_space_does_not_matter() -> None:
    """Lines that differ in white space alone are equal."""
    assert compare("  call( a,b )", "\tcall(a, b)") == 1


def test_edited_lines_are_ordered_by_similarity() -> None:
    """An edited line is more similar than one that shares only its syntax."""
    line = "socket.set_timeout(retries * DELAY)"
    scores = [
        compare(line, other)
        for other in (
            "socket.set_timeout(retries * PAUSE)",
            "socket.set_timeout(compute_limit(PAUSE))",
            "server.add_handler(route * METHOD)",
        )
    ]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] > 0.7
    assert scores[2] < 0.5


def test_common_words_alone_are_not_similar() -> None:
    """Two signatures that share only words of the language are not similar."""
    assert compare("pub fn len(&self) -> usize {", "pub fn is_none(&self) -> bool {") == 0


def test_split_line_is_contained() -> None:
    """A part of a line is contained in it; common words alone are not."""
    whole = 'app.use(function(request, response){ response.header("X-Powered-By", "Express") })'
    assert contain('response.header("X-Powered-By", "Express")', whole) > 0.8
    assert contain("return self", "return self.value") == 0
    assert contain("first = 1", "second = 2") == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("base_url=None,", "app, base_url=None, path=None"),
        ("self.flashes = None", "self.flashes: Flashes = None"),
    ],
)
def test_whole_line_in_a_longer_one(old: str, new: str) -> None:
    """A short line that stands in a longer one completely is contained."""
    assert contain(old, new) > 0.5


def test_very_long_lines_are_only_compared_for_equality() -> None:
    """The similarity of minified code is not computed."""
    line = "word " * MAX_LINE_CHARACTERS
    assert compare(line, line + "more") == 0
    assert compare(line, f"  {line}") == 1


def test_count_common_tokens() -> None:
    """The bit-parallel algorithm equals the recurrence of the longest common subsequence."""
    generator = random.Random(1)  # noqa: S311 - repeatable choice, nothing secret
    for _ in range(50):
        first, second = ([generator.choice("abc") for _ in range(generator.randrange(9))] for _ in "12")
        table = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
        for row, one in enumerate(first):
            for column, other in enumerate(second):
                table[row + 1][column + 1] = (
                    table[row][column] + 1
                    if one == other
                    else max(table[row][column + 1], table[row + 1][column])
                )
        assert count_common_tokens(first, second) == table[-1][-1]


def test_split_name() -> None:
    """Names of different styles have the same words; a short name is one word."""
    assert (
        split_name("maxRetries")
        == split_name("MAX_RETRIES")
        == split_name("max_retries")
        == ("max", "retries")
    )
    assert split_name("HTTPServer") == ("http", "server")
    assert split_name("i") == ("i",)


def build_rewrite(count: int, common: str) -> ChangedLines:
    """Return a rewrite of a file of so many lines: each keeps its number and common words, and changes a word."""
    old, new = ([f"{word}(item_{number}, {common})" for number in range(count)] for word in ("load", "read"))
    removed, added = DiffSide(), DiffSide()
    for side, lines in ((removed, old), (added, new)):
        side.add_block(ChangedLine(b"data.py", lines, 1, file_index=0, block_index=0), count)
    return ChangedLines(removed, added)


def test_successors_are_found_by_rare_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """A removed line is compared with few added lines, those of its block and of rare words, however many there are."""
    compared: set[str] = set()
    compute_dice = line_similarity.compute_dice

    def count_comparison(first: LineFeatures, second: LineFeatures) -> float:
        compared.add(first.key)
        return compute_dice(first, second)

    monkeypatch.setattr(line_similarity, "compute_dice", count_comparison)
    rewrite = build_rewrite(2_000, "configuration")
    assert rewrite.has_better_successor(rewrite.removed[300], b"other.py", 1, 0.7)
    assert not rewrite.has_better_successor(rewrite.removed[300], b"data.py", 301, 0.7)
    assert len(compared) <= MAX_BLOCK_LINES + MAX_SEARCH_WORDS * MAX_CANDIDATES


LINES = st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"])))


@given(LINES)
def test_keys_of_lines(lines: Sequence[str]) -> None:
    """The keys of many lines are those of the single lines."""
    assert build_keys(lines) == [build_key(line) for line in lines]


@given(LINES, st.integers(1, 3))
def test_lines_with_a_rare_word(lines: Sequence[str], most: int) -> None:
    """The lines with one of the rarest words are found, whatever their case, and no lines of commoner words."""
    lines = [*lines, 'Sum = readΔΣFile("Some Path here")', "sum of a file", "İstanbul file"]
    index = WordIndex(lines, range(len(lines)))
    with pytest.MonkeyPatch.context() as context:
        context.setattr(line_similarity, "MAX_CANDIDATES", most)
        for line in lines:
            features = extract_features(line)
            by_word = {
                word: [number for number, other in enumerate(lines) if word in extract_features(other).words]
                for word in features.words
            }
            rarest = sorted((len(numbers), word) for word, numbers in by_word.items())[:MAX_SEARCH_WORDS]
            expected = [number for count, word in rarest if count <= most for number in by_word[word]]
            assert list(index.find_by_rare_words(features)) == list(dict.fromkeys(expected))


def test_words_of_few_lines_are_extracted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search for similar removed lines extracts the words of a few of them."""
    extract = Mock(side_effect=extract_features)
    monkeypatch.setattr(changed_lines, "extract_features", extract)
    rewrite = build_rewrite(2_000, "configuration")
    rewrite.find_candidates(extract_features("value_300 = compute(configuration)"))
    assert extract.call_count < 4 * MAX_CANDIDATES


def test_words_are_extracted_once() -> None:
    """The words of a line are extracted once, however many words are looked up in it."""
    extract_features.cache_clear()
    lines = [f"position = find(option_{number})" for number in range(5_000)]
    index = WordIndex(lines, range(len(lines)))
    for word in ("it", "on", "po", "op", "in"):  # a part of each line, but a word of none
        assert list(index.find_by_rare_words(extract_features(f"{word} = {word}"))) == []
    assert extract_features.cache_info().misses <= len(lines) + 5


def test_positions_of_equal_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """The positions are the same for few keys, which are searched one by one, and for many, which are collected."""
    texts = [str(number % 20) for number in range(100)]
    side = DiffSide()
    side.add_block(ChangedLine(b"a", texts, 1, 0, 0), len(texts))
    expected = {text: [number for number, other in enumerate(texts) if other == text] for text in texts}
    assert {text: list(side.find_equal(text)) for text in texts} == expected
    assert list(side.find_equal("absent")) == []
    monkeypatch.setattr(DiffSide, "keys", property(lambda _: pytest.fail("The keys are searched again.")))
    assert {text: list(side.find_equal(text)) for text in texts} == expected


def test_order_of_candidates() -> None:
    """Candidates come once each, in an order that does not depend on the hashes of words."""
    rewrite = build_rewrite(20, "alpha, beta, gamma")
    expected = [line.number for line in rewrite.find_candidates(rewrite.added[4].features)]
    code = "from tests.serve.explain.test_line_similarity import build_rewrite\n"
    code += "rewrite = build_rewrite(20, 'alpha, beta, gamma')\n"
    code += "print([line.number for line in rewrite.find_candidates(rewrite.added[4].features)])"
    for seed in "12":
        environment = os.environ | {"PYTHONHASHSEED": seed}
        output = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        assert output.stdout.strip() == str(expected)
    assert sorted(expected) == list(range(1, 21))


@pytest.mark.parametrize(
    ("line", "term"),
    [
        ("res.set('X-Powered-By', expressApplication)", "X-Powered-By"),
        ("socket.set_read_timeout(1)", "set_read_timeout"),
        ("return self", ""),
    ],
)
def test_find_search_term(line: str, term: str) -> None:
    """The search term is the longest literal, else the longest name that is no common word."""
    assert find_search_term(line) == term
