"""Answers to calls about several items."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from pipeline.interrupts import RequestCancelled, use_cancellation_flag
from serve.api_types import Compatibility, IndexState
from serve.errors import BadRequest
from serve.excerpts import Detail
from serve.find_types import (
    DEFAULT_QUERY_PROFILE,
    ChangedFile,
    FindAnswer,
    FindMeta,
    FindRequest,
    PatternHit,
)
from serve.mcp.answer_lists import (
    ItemAnswer,
    ShortenedAnswer,
    answer_items,
    build_find_result,
    find_for_queries,
)
from stores.errors import LineageError
from stores.locks import IndexBusy
from tests.serve.mcp.clients import extract_structured_content, extract_text


@pytest.fixture
def asked() -> list[str]:
    """Items that were answered."""
    return []


def make_items(names: str) -> list[dict[str, str]]:
    return [{"pattern": name} for name in names]


def test_cancelled_list(asked: list[str]) -> None:
    """A cancelled call about a list does not go on to its next item."""
    flag = threading.Event()

    def answer_item(item: Mapping[str, str]) -> ItemAnswer:
        asked.append(item["pattern"])
        flag.set()
        return ItemAnswer(1, lambda _: ShortenedAnswer("", {}, 1))

    with use_cancellation_flag(flag), pytest.raises(RequestCancelled):
        answer_items(make_items("abc"), 3, 9, 1, answer_item)
    assert asked == ["a"]


@pytest.mark.parametrize(
    ("sizes", "budget", "shares"),
    [
        ([6, 1, 0], 12, [6, 1, 0]),
        ([6, 9, 0, 1], 12, [5, 6, 0, 1]),
        ([9, 6, 0, 1], 12, [5, 6, 0, 1]),
        ([3, 9, 9, 9], 12, [3, 3, 3, 3]),
        ([9, 2, 9], 12, [5, 2, 5]),
        ([9, 9], 1, [1, 1]),
        ([20], 12, [12]),
    ],
)
def test_shares_of_a_list(asked: list[str], sizes: list[int], budget: int, shares: list[int]) -> None:
    """What smaller answers leave of the budget goes to larger ones, all together within it, and each is made once."""

    def answer_item(item: Mapping[str, str]) -> ItemAnswer:
        asked.append(item["pattern"])
        size = sizes[int(item["pattern"])]

        def shorten(share: int) -> ShortenedAnswer:
            used = min(size, share)
            return ShortenedAnswer(f"used {used}", {"used": used}, used)

        return ItemAnswer(size, shorten)

    names = "".join(map(str, range(len(sizes))))
    result = answer_items(make_items(names), len(sizes), budget, 1, answer_item)
    content = extract_structured_content(result)
    assert [answer["used"] for answer in content.get("results", [content])] == shares
    assert extract_text(result).count("used") == len(sizes) and asked == list(names)


def test_failed_item_has_its_error() -> None:
    """A failed item has its error in its place; if all fail, the call does."""

    def answer_item(item: Mapping[str, str]) -> ItemAnswer:
        if item["pattern"] != "b":
            raise BadRequest(f"No {item['pattern']}.", hint="Say b.")
        return ItemAnswer(1, lambda _: ShortenedAnswer("found", {"hits": []}, 1))

    result = answer_items(make_items("ab"), 2, 9, 1, answer_item)
    assert extract_text(result) == "pattern: a\nError: No a. Say b.\n\npattern: b\nfound"
    assert extract_structured_content(result)["results"][0] == {
        "request": {"pattern": "a"},
        "error": "No a. Say b.",
    }
    with pytest.raises(BadRequest, match=r"No a\.\s+Say b\.\s+No c\."):
        answer_items(make_items("ac"), 2, 9, 1, answer_item)


@pytest.mark.parametrize(("queries", "prefix"), [(["retry"], ""), (["retry", "backoff"], "query 1, ")])
def test_patch_shown_above(queries: list[str], prefix: str) -> None:
    """A patch that is shown above, or whose copy is, is replaced by that place in the text; its fields stay."""
    hit = PatternHit(
        *(
            "1" * 40,
            "Retry #3\n\nServers are slow.",
            "Ada",
            "2024-02-01T10:00:00Z",
            "a.py",
            "modified",
            "+a = 1",
        ),
        *(False, (), 0.5, 0.0, 0.875),
        files=(ChangedFile("a.py", 1, 0),),
        file_count=1,
        also=("2" * 40,),
    )
    others = [replace(hit, commit_sha=digit * 40, also=(), commit_message="Retry later") for digit in "32"]
    meta = FindMeta(IndexState("6f1e", 0, None), None, Compatibility("compatible"), DEFAULT_QUERY_PROFILE)
    hits = [[others[0], hit], [replace(hit, also=()), others[1]]]
    if len(queries) == 1:
        hits = [[*hits[0], others[1]]]
    result = build_find_result(queries, [FindAnswer(tuple(group), meta) for group in hits], Detail.FULL, None)
    text = extract_text(result)
    assert text.count("+a = 1") == (2 if len(queries) == 1 else 3)
    assert text.endswith(f". 2222222222 2024-02-01 Retry later\nshown above ({prefix}hit 2)")
    if len(queries) > 1:
        # The first hit of an answer is shown again if only a reduced one is above.
        assert "1. 1111111111 2024-02-01 Retry #3\nfiles: a.py modified +1\n" in text
    assert json.dumps(extract_structured_content(result)).count("+a = 1") == sum(map(len, hits))


def test_cancelled_questions(asked: list[str]) -> None:
    """A cancelled call about several questions does not go on to its next question."""
    flag = threading.Event()

    def find(request: FindRequest) -> FindAnswer:
        asked.append(request.text)
        flag.set()
        raise BadRequest("Failed.")

    with use_cancellation_flag(flag), pytest.raises(RequestCancelled):
        find_for_queries(find, FindRequest("a"), ["a", "b"])
    assert asked == ["a"]


@pytest.mark.parametrize(
    ("error", "count"), [(BadRequest("Too long."), 10), (IndexBusy("The index is busy."), 1)]
)
def test_questions_after_an_error(asked: list[str], error: LineageError, count: int) -> None:
    """After an error about a question the next ones are asked, but not if no question can be answered."""

    def find(request: FindRequest) -> Any:
        asked.append(request.text)
        raise error

    with pytest.raises(type(error), match=error.message):
        find_for_queries(find, FindRequest("0"), [str(number) for number in range(12)])
    assert len(asked) == count
