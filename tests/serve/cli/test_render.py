"""Answers as people and programs see them."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from serve.api_types import PLAIN, Compatibility, FindAnswer, FindMeta, IndexState, PatternHit, QueryProfile
from serve.cli import query, render
from serve.index_status import compatibility_fields
from stores.compatibility import FORCE, Status, Verdict

HIT = PatternHit(
    commit_sha="8eb4340f4c0e61a0360186d7eca4ca4bda877647",
    commit_message="Add retries\n\nThe server drops\nidle connections.\n",
    commit_author="Ada Lovelace",
    commit_date="2020-01-01T13:00:00Z",
    file_path="src/net/tcp.py",
    change_kind="modified",
    diff_excerpt="@@ -1 +1,2 @@ class Pool:\n-    old\r\n+\tnew\n+    more",
    diff_truncated=True,
    related_head_symbols=("connect", "retry", "a", "b", "c"),
    similarity=0.281498,
    recency_weight=0.01,
    combined_score=0.0328,
)
META = FindMeta(
    index_status=IndexState("8eb4340f", 2, "2020-01-02T00:00:00Z"),
    hint="The index is 2 commits behind HEAD: run `lineage index --incremental`.",
    compatibility=Compatibility("compatible"),
    query_profile=QueryProfile("ImplementationPattern", "cue words how did; default lanes and weights"),
)
PAGE = """\
 1. Add retries
    8eb4340f4c0e  2020-01-01  Ada Lovelace  score 0.03
    The server drops
    idle connections.
    src/net/tcp.py  modified  in connect, retry, a, b, …
    │ @@ -1 +1,2 @@ class Pool:
    │ -    old
    │ +   new
    │ +    more
    │ …

The index is 2 commits behind HEAD: run `lineage index --incremental`.
asked as ImplementationPattern: cue words how did; default lanes and weights
"""


def page(answer: FindAnswer, *, colour: bool = False) -> str:
    screen = io.StringIO()
    kind: Any = {"force_terminal": True, "color_system": "standard"} if colour else {"force_terminal": False}
    render.show(answer, Console(file=screen, width=80, highlight=False, **kind))
    return "".join(f"{line.rstrip()}\n" for line in screen.getvalue().splitlines())


def test_page() -> None:
    """A person sees each commit, where it acted, the beginning of its diff, and what is to be said."""
    assert page(FindAnswer((HIT,), META)) == PAGE


@pytest.mark.parametrize("end", ["\r\n", "\r", ""])
def test_lines_of_web_pages(end: str) -> None:
    """A message whose lines end as a forge's page sent them reads like any other, also cut behind its last."""
    said = f"Add retries\r\n\r\nThe server drops\r\nidle connections.{end}"
    assert page(FindAnswer((replace(HIT, commit_message=said),), META)) == PAGE


def test_a_plain_question_is_taken_for_nothing() -> None:
    """What a question was taken for is said where it changed anything, or might have."""
    plain = replace(META, query_profile=PLAIN)
    assert page(FindAnswer((HIT,), plain)) == PAGE[: PAGE.index("asked as")]


def test_long_lines_are_cut_not_wrapped() -> None:
    """A line wider than the terminal ends in an ellipsis, so that the page keeps its columns."""
    wide = replace(HIT, diff_excerpt="+" + "x" * 500, related_head_symbols=("y" * 500,))
    lines = page(FindAnswer((wide,), META)).splitlines()
    assert sum(line.endswith("…") for line in lines) >= 2
    assert all(len(line) <= 80 for line in lines)


def test_long_messages_are_cut() -> None:
    """Of a message the subject and three lines of what follows are shown, and a mark where there is more."""
    body = [f"Line {number}." for number in range(1, 5)]
    for count, rest in ((3, []), (4, ["    …"])):
        said = "\n\n".join(["Add retries", *body[:count]])
        lines = page(FindAnswer((replace(HIT, commit_message=said),), META)).splitlines()
        assert lines[2 : lines.index("    src/net/tcp.py  modified  in connect, retry, a, b, …")] == [
            *(f"    {line}" for line in body[:3]),
            *rest,
        ]


def drawn(hit: PatternHit, question: str = "") -> list[str]:
    """The lines of a hit's change on the page that answers a question."""
    screen = io.StringIO()
    query._page(question, FindAnswer((hit,), META), Console(file=screen, width=80, highlight=False))
    return [line[6:].rstrip() for line in screen.getvalue().splitlines() if line.startswith("    │")]


@pytest.mark.parametrize(("count", "rest"), [(11, []), (12, ["…"])])
def test_long_changes_are_cut(count: int, rest: list[str]) -> None:
    """Of a change twelve lines are shown, and a mark where there are more."""
    rows = [f"+{number}" for number in range(count)]
    long = replace(HIT, diff_excerpt="\n".join(["@@ -0,0 +1 @@", *rows, ""]), diff_truncated=False)
    assert drawn(long) == ["@@ -0,0 +1 @@", *rows[:11], *rest]


def test_the_page_begins_where_the_answer_is() -> None:
    """Of a long change the lines with the question's words are shown, between marks; function words are none."""
    rows = [f"+{number} how did we" for number in range(5)] + [f"+{number}" for number in range(5, 30)]
    rows[20] = "+    retrying = True"
    long = replace(HIT, diff_excerpt="\n".join(["@@ -0,0 +1,30 @@", *rows, ""]), diff_truncated=False)
    shown = drawn(long, "how did we retry")
    assert shown == ["…", "@@ -0,0 +18,10 @@", *rows[17:27], "…"]
    assert drawn(long, "how did we do it")[0] == "@@ -0,0 +1,30 @@"


def test_page_is_coloured_on_a_terminal() -> None:
    """On a terminal added and removed lines are told apart by colour, and nothing else differs."""
    coloured = page(FindAnswer((HIT,), META), colour=True)
    assert "\x1b[32m    │ +   new\x1b[0m" in coloured
    assert "\x1b[31m    │ -    old\x1b[0m" in coloured


def test_strangers_cannot_drive_the_terminal() -> None:
    """Control characters and console markup in a history are shown, not obeyed."""
    hostile = replace(
        HIT,
        commit_message="\x1b]0;owned\x07 [red]x[/red]",
        commit_author="\x9b31m",
        file_path="a\x1b[2J",
        diff_excerpt="+\x1b[8m\x08",
        related_head_symbols=("\x1b",),
    )
    shown = page(FindAnswer((hostile,), META), colour=False)
    assert not {"\x1b", "\x07", "\x08", "\x9b"} & set(shown)
    assert "␛]0;owned␇ [red]x[/red]" in shown


def test_text_is_not_turned_around() -> None:
    """Marks that turn the direction of what follows are shown, and letters written from right to left stay."""
    marks = [chr(code) for code in (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))]
    turned = replace(
        HIT,
        commit_message=f"Let {''.join(marks)} in\n\nand \u2066shalom \u05e9\u05dc\u05d5\u05dd",
        commit_author="\u202eecilA",
        file_path="a\u202ecod.exe",
        diff_excerpt="+if admin: \u2067# not",
        related_head_symbols=("\u2069x",),
    )
    answer = FindAnswer((turned,), replace(META, hint="\u202e"))
    shown = page(answer)
    assert not set(marks) & set(shown)
    assert "\\u202eecilA" in shown and "a\\u202ecod.exe" in shown and "\u05e9\u05dc\u05d5\u05dd" in shown
    assert json.loads(render.as_json(answer))["hits"][0]["commit_author"] == "\u202eecilA"


def test_sparse_hits_have_a_page() -> None:
    """A commit without a message and a hunk without text leave no holes."""
    bare = replace(HIT, commit_message="", diff_excerpt="", diff_truncated=False, related_head_symbols=())
    assert page(FindAnswer((bare,), replace(META, hint=None))).splitlines()[:4] == [
        " 1. (no message)",
        "    8eb4340f4c0e  2020-01-01  Ada Lovelace  score 0.03",
        "    src/net/tcp.py  modified",
        "",
    ]


def test_what_matched() -> None:
    """A reranked hit says in one line why it is there, and whether it is weak."""
    strong = replace(HIT, matched="message: retries; path: tcp", weak=False)
    assert "\n    message: retries; path: tcp\n" in page(FindAnswer((strong,), META))
    assert "\n    weak match; message: retries; path: tcp\n" in page(
        FindAnswer((replace(strong, weak=True),), META)
    )


def test_json_document() -> None:
    """The document has hits and meta, every field of a hit in the specified order, and no verdict when all is well."""
    document = json.loads(render.as_json(FindAnswer((HIT,), META)))
    assert list(document) == ["hits", "meta"]
    assert list(document["hits"][0]) == [
        name for name in PatternHit.__dataclass_fields__ if name not in {"matched", "weak"}
    ]
    reranked = replace(HIT, matched="message: retries", weak=False)
    document = json.loads(render.as_json(FindAnswer((reranked,), META)))
    assert list(document["hits"][0]) == list(PatternHit.__dataclass_fields__)
    assert document["meta"] == {
        "index_status": {
            "last_indexed_commit": "8eb4340f",
            "commits_behind_head": 2,
            "indexed_at": "2020-01-02T00:00:00Z",
        },
        "hint": META.hint,
        "query_profile": {"name": META.query_profile.name, "explanation": META.query_profile.explanation},
    }


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (
            Verdict(Status.NEEDS_REFRESH, "parser_python 0, now 1", remedy=FORCE),
            {"status": "query_compatible_needs_refresh", "reason": "parser_python 0, now 1"},
        ),
        (
            Verdict(Status.UNKNOWN, missing=("words_version",), remedy=FORCE),
            {"status": "unknown", "missing_components": ["words_version"]},
        ),
    ],
)
def test_json_names_the_verdict(verdict: Verdict, expected: dict[str, object]) -> None:
    """An index that is not compatible says so in an object of its own."""
    meta = replace(META, compatibility=compatibility_fields(verdict))
    document = json.loads(render.as_json(FindAnswer((), meta)))
    assert document["meta"]["compatibility"] == expected
