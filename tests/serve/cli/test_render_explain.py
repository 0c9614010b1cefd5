"""Terminal output of explanations."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

from rich.console import Console

from serve.api_types import (
    BlamedLine,
    Compatibility,
    ExplainAnswer,
    ExplainDetails,
    ExplainHit,
    ExplainMeta,
    IndexState,
    RelatedCommit,
)
from serve.cli import render_explain

FIRST, SECOND, OTHER = "8eb4340f4c12" + "0" * 28, "123456789012" + "0" * 28, "aaaaaaaaaaaa" + "0" * 28
HITS = (
    ExplainHit(
        commit_sha=FIRST,
        commit_message="Add retries\n\nThe server drops\nidle connections.\n",
        commit_author="Ada Lovelace",
        commit_date="2020-01-02T13:00:00Z",
        blame_lines=(9, 10, 13),
        file_path="src/tcp.py",
        diff_excerpt="@@ -8 +8,2 @@ class Pool:\n-    old\r\n+\tnew\n",
        diff_truncated=True,
    ),
    ExplainHit(
        commit_sha=SECOND,
        commit_message="",
        commit_author="Grace Hopper",
        commit_date="2020-01-01T13:00:00Z",
        blame_lines=(11,),
        file_path="tcp.py",
        diff_excerpt=None,
        diff_truncated=False,
    ),
)
META = ExplainMeta(
    index_status=IndexState(None, 3, None),
    hint="This repository is not indexed yet.",
    compatibility=Compatibility("unknown"),
    explain=ExplainDetails(
        lines_queried=(9, 13),
        commits_unique=3,
        blame_coverage=0.0,
        limitation="Line 12 is not committed yet.",
        related_commits=(RelatedCommit(OTHER, "Close\n\nit", "Ada", "2020-01-03T00:00:00Z", 2),),
        enrichment_limitation=None,
    ),
)
LINES = (
    BlamedLine(9, "def retry():", FIRST),
    BlamedLine(10, "\treturn 1\r", FIRST),
    BlamedLine(11, "", SECOND),
    BlamedLine(12, "new", None),
    BlamedLine(13, "end", FIRST),
    BlamedLine(14, "older", OTHER),
)
PAGE = """\
 1  8eb4340f4c12   9 │ def retry():
                  10 │     return 1
 2  123456789012  11 │
 ·  uncommitted   12 │ new
 1  8eb4340f4c12  13 │ end
 ·  aaaaaaaaaaaa  14 │ older

 1. Add retries
    8eb4340f4c12  2020-01-02  Ada Lovelace
    The server drops
    idle connections.
    src/tcp.py  lines 9-10, 13
    │ @@ -8 +8,2 @@ class Pool:
    │ -    old
    │ +   new
    │ …

 2. (no message)
    123456789012  2020-01-01  Grace Hopper
    tcp.py  line 11

Neighbours in the file's history (context, not proof):
    aaaaaaaaaaaa  2020-01-03  Ada  Close

Line 12 is not committed yet.
This repository is not indexed yet.
lines 9-13: 3 commits, the newest 2 shown (-k shows more)
"""


def render_page(answer: ExplainAnswer, *, colour: bool = False) -> str:
    """Return the terminal output of an answer."""
    screen = io.StringIO()
    kind: Any = {"force_terminal": True, "color_system": "standard"} if colour else {"force_terminal": False}
    render_explain.print_explain_answer(answer, Console(file=screen, width=80, highlight=False, **kind))
    return "".join(f"{line.rstrip()}\n" for line in screen.getvalue().splitlines())


def test_page_layout() -> None:
    """The page shows each line next to its commit, each commit with its diff, related commits and notes."""
    assert render_page(ExplainAnswer(HITS, META, LINES)) == PAGE


def test_long_range_is_shortened() -> None:
    """A long range shows the first lines of each commit's run, and only the first runs."""
    lines = tuple(BlamedLine(n, f"line {n}", FIRST if n % 10 else SECOND) for n in range(1, 1001))
    rows = render_page(ExplainAnswer(HITS, META, lines)).splitlines()
    assert rows[:5] == [
        " 1  8eb4340f4c12     1 │ line 1",
        "                     2 │ line 2",
        "                     3 │ line 3",
        "                     ⋮   6 more",
        " 2  123456789012    10 │ line 10",
    ]
    assert "… lines 201-1000: use --lines to see them" in rows


def test_control_characters_are_escaped() -> None:
    """Control characters and markup in content, messages, names and paths are shown as text."""
    hostile = replace(
        HITS[0],
        commit_message="\x1b]0;x\x07 [red]",
        commit_author="\x9b31m",
        file_path="a\x1b[2J",
        diff_excerpt="+\x1b[8m",
    )
    about = replace(
        META.explain,
        limitation="\x1b[1m",
        related_commits=(RelatedCommit(OTHER, "\x1bc", "\x1b", "2020-01-03", 1),),
    )
    answer = ExplainAnswer(
        (hostile,), replace(META, explain=about, hint="\x1b"), (BlamedLine(1, "\x1b[2J[b]x", FIRST),)
    )
    output = render_page(answer)
    assert not {"\x1b", "\x07", "\x9b"} & set(output)
    assert "␛[2J[b]x" in output


def test_commit_has_one_color() -> None:
    """A commit has the same color next to its lines and in its heading."""
    output = render_page(ExplainAnswer(HITS, META, LINES), colour=True)
    assert "\x1b[36m 1  8eb4340f4c12" in output
    assert "\x1b[36m    8eb4340f4c12" in output
    assert "def retry():" in output


def test_page_without_lines() -> None:
    """Without lines, the page shows only the note."""
    explained = replace(META.explain, limitation="a.py is empty.", related_commits=())
    assert render_page(ExplainAnswer((), replace(META, explain=explained, hint=None))) == "a.py is empty.\n"
