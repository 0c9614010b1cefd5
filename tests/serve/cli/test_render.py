"""JSON and terminal output of query answers, and terminal output of explanations."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import pytest

from serve.api_types import Compatibility, IndexState, Release
from serve.cli import query, render
from serve.errors import BadRequest
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
from serve.find_types import DEFAULT_QUERY_PROFILE, FindAnswer, FindMeta, PatternHit, QueryProfile
from serve.index_status import build_compatibility
from serve.references import Reference
from stores.compatibility import FORCE_COMMAND, CompatibilityStatus, CompatibilityVerdict
from tests.serve.cli.terminals import format_output

format_answer = partial(format_output, render.print_find_answer)
format_explanation = partial(format_output, render.print_explain_answer)

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
    query_profile=QueryProfile("ImplementationPattern", "cue words how did; default weights"),
)
TERMINAL_OUTPUT = """\
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
query profile ImplementationPattern: cue words how did; default weights
"""


def test_output_layout() -> None:
    """The output has each commit with its path and diff excerpt, then the hint and the query profile."""
    assert format_answer(FindAnswer((HIT,), META)) == TERMINAL_OUTPUT


def test_hit_without_a_file() -> None:
    """For a commit that changes no file itself, `(no file)` is in place of a path. A merge lists the merged paths."""
    merge = replace(
        HIT,
        commit_message="Merge pull request #42",
        file_path="",
        change_kind="merged",
        diff_excerpt=" src/login.py\n src/limits.py\n",
        diff_truncated=False,
        related_head_symbols=(),
    )
    empty = replace(merge, commit_message="Decide", change_kind="empty", diff_excerpt="")
    meta = replace(META, hint=None, query_profile=DEFAULT_QUERY_PROFILE)
    assert format_answer(FindAnswer((merge, empty), meta)).splitlines() == [
        " 1. Merge pull request #42",
        "    8eb4340f4c0e  2020-01-01  Ada Lovelace  score 0.03",
        "    (no file)  merged",
        "    │  src/login.py",
        "    │  src/limits.py",
        "",
        " 2. Decide",
        "    8eb4340f4c0e  2020-01-01  Ada Lovelace  score 0.03",
        "    (no file)  empty",
        "",
    ]


def test_evidence() -> None:
    """After the score follow the references that the subject lacks, the release and the copies, all escaped."""
    references = (
        Reference("pull_request", "#42"),
        Reference("ticket", "AB-7"),
        Reference("trailer", "Reviewed-by: Ada"),
    )
    hit = replace(
        HIT,
        commit_message="Merge pull request #42\n\nAB-7",
        commit_author="Ada",
        references=references,
        release=Release("v1\x1b", "2020-02-01T00:00:00Z"),
        also=("5" * 40,),
    )
    lines = format_answer(FindAnswer((hit,), META)).splitlines()
    assert lines[1].endswith("score 0.03  AB-7 · first tag v1␛ · also 5555…")


@pytest.mark.parametrize("end", ["\r\n", "\r", ""])
def test_crlf_messages(end: str) -> None:
    """A message with CRLF line ends is shown like any other, even if it is truncated inside the last CRLF."""
    message = f"Add retries\r\n\r\nThe server drops\r\nidle connections.{end}"
    assert format_answer(FindAnswer((replace(HIT, commit_message=message),), META)) == TERMINAL_OUTPUT


def test_default_query_profile_is_not_shown() -> None:
    """The query profile is shown only if it is not the default."""
    meta = replace(META, query_profile=DEFAULT_QUERY_PROFILE)
    assert (
        format_answer(FindAnswer((HIT,), meta)) == TERMINAL_OUTPUT[: TERMINAL_OUTPUT.index("query profile")]
    )


def test_long_lines_are_truncated() -> None:
    """A line wider than the terminal is truncated with an ellipsis."""
    hit = replace(HIT, diff_excerpt="+" + "x" * 500, related_head_symbols=("y" * 500,))
    lines = format_answer(FindAnswer((hit,), META)).splitlines()
    assert sum(line.endswith("…") for line in lines) >= 2
    assert all(len(line) <= 80 for line in lines)


def test_long_messages_are_truncated() -> None:
    """Of a message, the subject and three lines of the body are shown, with a mark if the body has more lines."""
    body = [f"Line {number}." for number in range(1, 5)]
    for count, rest in ((3, []), (4, ["    …"])):
        message = "\n\n".join(["Add retries", *body[:count]])
        lines = format_answer(FindAnswer((replace(HIT, commit_message=message),), META)).splitlines()
        assert lines[2 : lines.index("    src/net/tcp.py  modified  in connect, retry, a, b, …")] == [
            *(f"    {line}" for line in body[:3]),
            *rest,
        ]


def format_diff(hit: PatternHit, question: str = "") -> list[str]:
    """Return the diff lines of a hit in the terminal output for a question."""
    output = format_output(partial(query.print_hits, question), FindAnswer((hit,), META))
    return [line[6:] for line in output.splitlines() if line.startswith("    │")]


@pytest.mark.parametrize(("count", "rest"), [(11, []), (12, ["…"])])
def test_long_diffs_are_truncated(count: int, rest: list[str]) -> None:
    """Of a diff, twelve lines are shown, with a mark if it has more lines."""
    rows = [f"+{number}" for number in range(count)]
    long = replace(HIT, diff_excerpt="\n".join(["@@ -0,0 +1 @@", *rows, ""]), diff_truncated=False)
    assert format_diff(long) == ["@@ -0,0 +1 @@", *rows[:11], *rest]


def test_long_diff_shows_matching_lines() -> None:
    """A long diff shows the lines with the question's words, ignoring function words."""
    rows = [f"+{number} how did we" for number in range(5)] + [f"+{number}" for number in range(5, 30)]
    rows[20] = "+    retrying = True"
    long = replace(HIT, diff_excerpt="\n".join(["@@ -0,0 +1,30 @@", *rows, ""]), diff_truncated=False)
    lines = format_diff(long, "how did we retry")
    assert lines == ["…", "@@ -0,0 +18,10 @@", *rows[17:27], "…"]
    assert format_diff(long, "how did we do it")[0] == "@@ -0,0 +1,30 @@"


def test_output_is_colored_on_a_terminal() -> None:
    """On a terminal, added and removed lines differ in color, and nothing else changes."""
    colored = format_answer(FindAnswer((HIT,), META), is_colored=True)
    assert "\x1b[32m    │ +   new\x1b[0m" in colored
    assert "\x1b[31m    │ -    old\x1b[0m" in colored


def test_control_characters_are_escaped() -> None:
    """Control characters and console markup in a history are shown as text."""
    hit = replace(
        HIT,
        commit_message="\x1b]0;owned\x07 [red]x[/red]",
        commit_author="\x9b31m",
        file_path="a\x1b[2J",
        diff_excerpt="+\x1b[8m\x08",
        related_head_symbols=("\x1b",),
    )
    output = format_answer(FindAnswer((hit,), META), is_colored=False)
    assert not {"\x1b", "\x07", "\x08", "\x9b"} & set(output)
    assert "␛]0;owned␇ [red]x[/red]" in output


def test_bidirectional_controls_are_escaped() -> None:
    """Bidirectional controls are shown as escapes. Right-to-left letters are printed unchanged."""
    marks = [chr(code) for code in (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))]
    hit = replace(
        HIT,
        commit_message=f"Let {''.join(marks)} in\n\nand \u2066shalom \u05e9\u05dc\u05d5\u05dd",
        commit_author="\u202eecilA",
        file_path="a\u202ecod.exe",
        diff_excerpt="+if admin: \u2067# not",
        related_head_symbols=("\u2069x",),
    )
    answer = FindAnswer((hit,), replace(META, hint="\u202e"))
    output = format_answer(answer)
    assert not set(marks) & set(output)
    assert "\\u202eecilA" in output and "a\\u202ecod.exe" in output and "\u05e9\u05dc\u05d5\u05dd" in output
    assert json.loads(render.to_json(answer))["hits"][0]["commit_author"] == "\u202eecilA"
    assert not set(marks) & set(render.to_json(answer))


def test_invisible_characters_are_escaped() -> None:
    """Characters that nobody sees are shown as escapes. Emoji, joined letters and accents stay."""
    hidden = "\u200b\u2060\ufeff\u00ad\u3164\u2028" + "".join(chr(0xE0000 + ord(letter)) for letter in "obey")
    visible = (
        "\U0001f469\u200d\U0001f4bb \u2764\ufe0f \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 caf\u00e9"
    )
    answer = FindAnswer(
        (replace(HIT, commit_message=f"Add{hidden}\n\n{visible}", diff_excerpt=f"+{hidden}"),), META
    )
    output, document = format_answer(answer), render.to_json(answer)
    assert not set(hidden) & (set(output) | set(document))
    assert "Add\\u200b\\u2060" in output and "\\U000e006f\\U000e0062" in output and visible in output
    assert json.loads(document)["hits"][0]["commit_message"] == f"Add{hidden}\n\n{visible}"


def test_hit_without_message_or_diff() -> None:
    """A hit without message and diff leaves no gaps."""
    hit = replace(HIT, commit_message="", diff_excerpt="", diff_truncated=False, related_head_symbols=())
    assert format_answer(FindAnswer((hit,), replace(META, hint=None))).splitlines()[:4] == [
        " 1. (no message)",
        "    8eb4340f4c0e  2020-01-01  Ada Lovelace  score 0.03",
        "    src/net/tcp.py  modified",
        "",
    ]


def test_changelog_is_shown() -> None:
    """A hit has the lines of its changelog below its message, without control characters."""
    answer = FindAnswer((replace(HIT, commit_message="Retry", changelog=("- Retry \x1bit",)),), META)
    assert format_answer(answer).splitlines()[2] == "    changelog: - Retry ␛it"


def test_matched_words_are_shown() -> None:
    """A reranked hit has a line with the matched words, which also says if the hit is weak."""
    strong = replace(HIT, matched="message: retries; path: tcp", weak=False)
    assert "\n    message: retries; path: tcp\n" in format_answer(FindAnswer((strong,), META))
    assert "\n    weak match; message: retries; path: tcp\n" in format_answer(
        FindAnswer((replace(strong, weak=True),), META)
    )


def test_json_document() -> None:
    """The JSON has all fields of `hits` and `meta`, in order. The verdict is left out if the index is compatible."""
    document = json.loads(render.to_json(FindAnswer((HIT,), META)))
    assert list(document) == ["hits", "meta"]
    optional_fields = {
        "matched",
        "weak",
        "repository",
        "author_date",
        "references",
        "release",
        "also",
        "reverted_by",
        "changelog",
    }
    all_fields = list(PatternHit.__dataclass_fields__)
    assert list(document["hits"][0]) == [name for name in all_fields if name not in optional_fields]
    reranked = replace(
        HIT,
        matched="message: retries",
        weak=False,
        repository="repo",
        author_date=HIT.commit_date,
        references=(Reference("issue", "#12"),),
        release=Release("1.0", HIT.commit_date),
        also=(HIT.commit_sha,),
        reverted_by=HIT.commit_sha,
        changelog=("- Retry it",),
    )
    document = json.loads(render.to_json(FindAnswer((reranked,), META)))
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


def test_json_on_one_line_and_with_chosen_fields() -> None:
    """JSON without indentation is one line. Selected fields are in the given order. An unknown field is an error."""
    answer = FindAnswer((HIT,), META)
    text = render.to_json(answer, fields=["file_path", " commit_sha"])
    assert text.startswith('{"hits":[{"file_path":"src/net/tcp.py","commit_sha":"8eb4340f')
    assert "\n" not in text and "\n" in render.to_json(answer, indent=2)
    with pytest.raises(BadRequest, match="Hits have no field 'path'"):
        render.to_json(answer, fields=["path"])


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (
            CompatibilityVerdict(
                CompatibilityStatus.NEEDS_REFRESH, "parser_python 0, now 1", remedy=FORCE_COMMAND
            ),
            {"status": "query_compatible_needs_refresh", "reason": "parser_python 0, now 1"},
        ),
        (
            CompatibilityVerdict(
                CompatibilityStatus.UNKNOWN, missing=("words_version",), remedy=FORCE_COMMAND
            ),
            {"status": "unknown", "missing_components": ["words_version"]},
        ),
    ],
)
def test_json_includes_verdict(verdict: CompatibilityVerdict, expected: dict[str, object]) -> None:
    """The JSON of an incompatible index contains its verdict."""
    meta = replace(META, compatibility=build_compatibility(verdict))
    document = json.loads(render.to_json(FindAnswer((), meta)))
    assert document["meta"]["compatibility"] == expected


FIRST, SECOND, OTHER = "8eb4340f4c12" + "0" * 28, "123456789012" + "0" * 28, "aaaaaaaaaaaa" + "0" * 28
EXPLAIN_HITS = (
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
EXPLAIN_META = ExplainMeta(
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
EXPLAINED_LINES = (
    ExplainedLine(9, "def retry():", FIRST),
    ExplainedLine(10, "\treturn 1\r", FIRST),
    ExplainedLine(11, "", SECOND),
    ExplainedLine(12, "new", None),
    ExplainedLine(13, "end", FIRST),
    ExplainedLine(14, "older", OTHER),
)
EXPLAIN_OUTPUT = """\
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


def test_explanation_layout() -> None:
    """The output has each line next to its commit, each commit with its diff, related commits and notes."""
    assert format_explanation(ExplainAnswer(EXPLAIN_HITS, EXPLAIN_META, EXPLAINED_LINES)) == EXPLAIN_OUTPUT


EVOLUTION_OUTPUT = """\
Earlier commits that shaped the lines (= equal text, ≈ inferred):
    aaaaaaaaaaaa  2020-01-01  modified     Retry twice  lines 9-10
    src/tcp.py ≈ retry(2)
    123456789012  2019-01-01  introduced   (no message)  line 9
    tcp.py = retry()
Leads: possible sources of the lines (guesses):
    8eb4340f4c12  2018-01-01  Sketch  retry_count
Some are missing.

"""


def test_evolution_of_lines() -> None:
    """Earlier commits are printed with their step, lines and text, then possible earlier commits and the limitation."""
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
    details = replace(
        EXPLAIN_META.explain, evolution=steps, leads=leads, evolution_limitation="Some are missing."
    )
    output = format_explanation(
        ExplainAnswer(EXPLAIN_HITS, replace(EXPLAIN_META, explain=details), EXPLAINED_LINES)
    )
    assert output == EXPLAIN_OUTPUT.replace("Related commits", EVOLUTION_OUTPUT + "Related commits")


def test_long_range_is_shortened() -> None:
    """A long range shows the first lines of each commit's run, and only the first runs."""
    lines = tuple(ExplainedLine(n, f"line {n}", FIRST if n % 10 else SECOND) for n in range(1, 1001))
    rows = format_explanation(ExplainAnswer(EXPLAIN_HITS, EXPLAIN_META, lines)).splitlines()
    assert rows[:5] == [
        " 1  8eb4340f4c12     1 │ line 1",
        "                     2 │ line 2",
        "                     3 │ line 3",
        "                     ⋮   6 more",
        " 2  123456789012    10 │ line 10",
    ]
    assert "… lines 201-1000. Use --lines to see them." in rows


def test_control_characters_of_explanations_are_escaped() -> None:
    """Control characters and markup in content, messages, names and paths are shown as text."""
    hit = replace(
        EXPLAIN_HITS[0],
        commit_message="\x1b]0;x\x07 [red]",
        commit_author="\x9b31m",
        file_path="a\x1b[2J",
        diff_excerpt="+\x1b[8m",
    )
    details = replace(
        EXPLAIN_META.explain,
        limitation="\x1b[1m",
        related_commits=(RelatedCommit(OTHER, "\x1bc", "\x1b", "2020-01-03", 1),),
    )
    answer = ExplainAnswer(
        (hit,), replace(EXPLAIN_META, explain=details, hint="\x1b"), (ExplainedLine(1, "\x1b[2J[b]x", FIRST),)
    )
    output = format_explanation(answer)
    assert not {"\x1b", "\x07", "\x9b"} & set(output)
    assert "␛[2J[b]x" in output


def test_commit_has_one_color() -> None:
    """A commit has the same color next to its lines and in its heading."""
    output = format_explanation(ExplainAnswer(EXPLAIN_HITS, EXPLAIN_META, EXPLAINED_LINES), is_colored=True)
    assert "\x1b[36m 1  8eb4340f4c12" in output
    assert "\x1b[36m    8eb4340f4c12" in output
    assert "def retry():" in output


def test_explanation_without_lines() -> None:
    """Without lines and commits, the output is the limitation and the hint, in which the limitation is not repeated."""
    details = replace(EXPLAIN_META.explain, limitation="a.py is empty.", related_commits=())
    assert (
        format_explanation(ExplainAnswer((), replace(EXPLAIN_META, explain=details, hint=None)))
        == "a.py is empty.\n"
    )
    for hint, output in (("a.py is empty.", ""), ("a.py is empty. Run it.", "Run it.\n")):
        answer = ExplainAnswer((), replace(EXPLAIN_META, explain=details, hint=hint))
        assert format_explanation(answer) == f"a.py is empty.\n{output}"
