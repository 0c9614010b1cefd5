"""Terminal output of explanations."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from serve.api_types import Compatibility, IndexState
from serve.cli import render
from serve.explain_types import (
    EvolutionLead,
    EvolutionStep,
    ExplainAnswer,
    ExplainDetails,
    ExplainedLine,
    ExplainHit,
    ExplainMeta,
    RelatedCommit,
)
from tests.serve.cli.terminals import format_output

format_answer = partial(format_output, render.print_explain_answer)

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
    ExplainedLine(9, "def retry():", FIRST),
    ExplainedLine(10, "\treturn 1\r", FIRST),
    ExplainedLine(11, "", SECOND),
    ExplainedLine(12, "new", None),
    ExplainedLine(13, "end", FIRST),
    ExplainedLine(14, "older", OTHER),
)
TERMINAL_OUTPUT = """\
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

Related commits in the file's history (context, not proof):
    aaaaaaaaaaaa  2020-01-03  Ada  Close

Line 12 is not committed yet.
This repository is not indexed yet.
lines 9-13: 3 commits, the newest 2 shown (-k shows more)
"""


def test_output_layout() -> None:
    """The output has each line next to its commit, each commit with its diff, related commits and notes."""
    assert format_answer(ExplainAnswer(HITS, META, LINES)) == TERMINAL_OUTPUT


EVOLUTION_OUTPUT = """\
Earlier commits that shaped the lines (= equal text, ≈ inferred):
    aaaaaaaaaaaa  2020-01-01  modified     Retry twice  lines 9-10
    src/tcp.py ≈ retry(2)
    123456789012  2019-01-01  introduced   (no message)  line 9
    tcp.py = retry()
Leads: possible sources of the idea behind the lines (guesses):
    8eb4340f4c12  2018-01-01  Sketch  retry_count
Some are missing.

"""


def test_evolution() -> None:
    """Earlier commits are printed with their step, lines and text, then leads and what is missing."""
    steps = (
        EvolutionStep(
            commit_sha=OTHER,
            commit_message="Retry twice\n\nWhy",
            commit_author="Ada",
            commit_date="2020-01-01T00:00:00Z",
            file_path="src/tcp.py",
            lines=(9, 10),
            step="modified",
            text="retry(2)",
            provenance="INFERRED",
        ),
        EvolutionStep(SECOND, "", "Ada", "2019-01-01T0", "tcp.py", (9,), "introduced", "retry()", "EXACT"),
    )
    leads = (EvolutionLead(FIRST, "Sketch", "Ada", "2018-01-01T0", "tcp.py", (9,), "retry_count"),)
    details = replace(META.explain, evolution=steps, leads=leads, evolution_limitation="Some are missing.")
    output = format_answer(ExplainAnswer(HITS, replace(META, explain=details), LINES))
    assert output == TERMINAL_OUTPUT.replace("Related commits", EVOLUTION_OUTPUT + "Related commits")


def test_long_range_is_shortened() -> None:
    """A long range shows the first lines of each commit's run, and only the first runs."""
    lines = tuple(ExplainedLine(n, f"line {n}", FIRST if n % 10 else SECOND) for n in range(1, 1001))
    rows = format_answer(ExplainAnswer(HITS, META, lines)).splitlines()
    assert rows[:5] == [
        " 1  8eb4340f4c12     1 │ line 1",
        "                     2 │ line 2",
        "                     3 │ line 3",
        "                     ⋮   6 more",
        " 2  123456789012    10 │ line 10",
    ]
    assert "… lines 201-1000. Use --lines to see them." in rows


def test_control_characters_are_escaped() -> None:
    """Control characters and markup in content, messages, names and paths are shown as text."""
    hit = replace(
        HITS[0],
        commit_message="\x1b]0;x\x07 [red]",
        commit_author="\x9b31m",
        file_path="a\x1b[2J",
        diff_excerpt="+\x1b[8m",
    )
    details = replace(
        META.explain,
        limitation="\x1b[1m",
        related_commits=(RelatedCommit(OTHER, "\x1bc", "\x1b", "2020-01-03", 1),),
    )
    answer = ExplainAnswer(
        (hit,), replace(META, explain=details, hint="\x1b"), (ExplainedLine(1, "\x1b[2J[b]x", FIRST),)
    )
    output = format_answer(answer)
    assert not {"\x1b", "\x07", "\x9b"} & set(output)
    assert "␛[2J[b]x" in output


def test_commit_has_one_color() -> None:
    """A commit has the same color next to its lines and in its heading."""
    output = format_answer(ExplainAnswer(HITS, META, LINES), is_colored=True)
    assert "\x1b[36m 1  8eb4340f4c12" in output
    assert "\x1b[36m    8eb4340f4c12" in output
    assert "def retry():" in output


def test_output_without_lines() -> None:
    """Without lines and commits, the output is the limitation, once, and the rest of the hint."""
    details = replace(META.explain, limitation="a.py is empty.", related_commits=())
    assert format_answer(ExplainAnswer((), replace(META, explain=details, hint=None))) == "a.py is empty.\n"
    for hint, output in (("a.py is empty.", ""), ("a.py is empty. Run it.", "Run it.\n")):
        answer = ExplainAnswer((), replace(META, explain=details, hint=hint))
        assert format_answer(answer) == f"a.py is empty.\n{output}"
