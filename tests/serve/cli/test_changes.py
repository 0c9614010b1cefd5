"""`lineage grep`, `log`, `trace`, `related` and `show`: JSON when piped, output on a terminal, exit codes."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
from rich.cells import cell_len
from rich.console import Console

from serve.analysis.range_summary import DirectoryCount, KindGroup, LogAnswer, ReleaseNote
from serve.analysis.related_files import find_related_files
from serve.api_types import Compatibility, IndexState, Release
from serve.cli.render_changes import (
    MAX_LINES,
    print_grep_answer,
    print_log_answer,
    print_related_answer,
    print_show_answer,
    print_trace_answer,
)
from serve.cli.terminal import FAILED, PIPE_COLUMNS, PIPE_ROWS, USAGE_ERROR
from serve.commit_types import (
    ChangeHit,
    ChangeSearchAnswer,
    ChangeSearchDetails,
    ChangeSearchMeta,
    ChangeSearchRequest,
    MatchingFile,
    MatchingLine,
    ShowRequest,
    TraceRequest,
)
from serve.explain.show_commit import show_commit
from serve.references import Reference
from serve.related_types import Bot, Owner, RecentAuthor, RelatedFile, RelatedRequest
from serve.search.exact_search import search_changes
from serve.trace.trace_symbol import trace_symbol
from tests.repos import Repo
from tests.serve.cli.terminals import format_output
from tests.serve.commands import read_output, run_captured, run_lineage
from tests.serve.sample_index import build_index


@pytest.fixture(autouse=True)
def _home(shared_index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINEAGE_HOME", str(shared_index))


def test_text_when_piped(tmp_path: Path) -> None:
    """With `--text`, piped answers are text without colors, too. No line or path is wrapped or truncated."""
    repo = Repo.create(tmp_path / "repo")
    path = "/".join([*("directory" * 5 for _ in range(5)), "tcp.py"])
    subject = " ".join(["Add a timeout to connect", *["to all servers"] * 14])
    line = f"    timeout({', '.join(['seconds'] * 22)})"
    assert min(map(len, (path, subject, line))) > 200
    repo.commit_file("other.py", "x = 0\n")
    repo.write("a.py", "x = 1\n")
    repo.commit_file(path, f"def connect():\n{line}\n", subject)
    repo.write("a.py", "x = 2\n")
    repo.commit_file(path, f"def connect():\n{line}\n    return 1\n", "Return")
    build_index(repo, tmp_path / "home")
    expected = {
        ("query", "-q", "timeout", "-k", "1"): (f" 1. {subject}\n", f"    {path}  added", f"    │ +{line}\n"),
        ("explain", path): (
            f" 2. {subject}\n",
            f"    {path}  lines 1-2\n",
            f"2 │ {line}\n",
            f"    │ +{line}\n",
        ),
        ("grep", "timeout"): (f" 1. {subject}\n", f"    {path}  added, +1 -0\n", f"    │     2 +{line}\n"),
        ("log", "HEAD"): (f"  {subject}  Ada Lovelace\n", f"      2  {path.rpartition('/')[0]}/\n"),
        ("trace", "connect"): (
            f"  {subject}  Ada Lovelace\n",
            f"    {path}:connect\n",
            f"{path}:connect, {path}:1-3\n",
        ),
        ("related", "a.py"): (f"\n  {path}  2 commits  100%  lift 1.5  last 2020-01-01  ",),
        ("show", "HEAD~1", path): (f"    {subject}\n", f"+2    -0     {path}  added\n", f"\n+{line}\n"),
    }
    for environment in ({}, {"TERM": "dumb", "FORCE_COLOR": "1"}):
        for arguments, parts in expected.items():
            options = ("--repository", repo.path) if arguments[0] == "show" else (repo.path,)
            code, output, _ = run_captured(
                *arguments, *options, "--text", env=environment | {"LINEAGE_HOME": str(tmp_path / "home")}
            )
            assert code == 0 and "\x1b" not in output
            assert [part for part in parts if part not in output] == [], output


@pytest.mark.parametrize(
    "command",
    [
        ("query", "-q", "x"),
        ("explain", "src/tcp.py"),
        ("related", "src/tcp.py"),
        ("grep", "x"),
        ("trace", "connect"),
    ],
)
def test_fields_of_a_text(shared_repo: Repo, command: tuple[str, ...]) -> None:
    """`--fields` belongs to JSON, so `--text` with it is a usage error, and nothing is printed."""
    code, out, err = run_captured(*command, str(shared_repo.path), "--fields", "commit_sha", "--text")
    assert (code, out) == (2, "")
    assert "--fields" in err and "--text" in err


def test_grep_prints_json_when_piped(shared_repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    """When piped, `grep` prints the documented fields."""
    document = json.loads(read_output(capsys, "grep", "timeout()", shared_repo.path))
    assert document["hits"] == [
        {
            "commit_sha": shared_repo.git("rev-parse", "HEAD~1"),
            "commit_subject": "Add a timeout to connect",
            "commit_author": "Ada Lovelace",
            "commit_date": "2020-01-01T13:00:00Z",
            "files": [
                {
                    "path": "src/tcp.py",
                    "change_kind": "added",
                    "added": 1,
                    "removed": 0,
                    "lines": [{"sign": "+", "number": 2, "text": "    timeout()"}],
                }
            ],
            "file_count": 1,
            "provenance": "EXACT",
        }
    ]
    assert document["meta"]["search"] == {"commits": 1, "shown": 1, "order": "newest"}


def test_grep_options(shared_repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    """Each option of `grep` has an effect."""

    def find(*options: str) -> list[str]:
        document = json.loads(read_output(capsys, "grep", *options, "--", "timeout", shared_repo.path))
        return [hit["commit_subject"] for hit in document["hits"]]

    both = ["Describe the timeout ✓", "Add a timeout to connect"]
    assert find() == both == find("--regex") == find("--added") == find("--author", "ada")
    assert find("--oldest") == both[::-1]
    assert find("--oldest", "--limit", "1") == find("--path", "*.py") == both[1:]
    assert find("--since", "2020-01-01T13:30:00Z") == both[:1]
    assert find("--until", "2020-01-01T13:30:00Z") == both[1:]
    assert find("--removed") == []
    assert find("--range", "HEAD~1..") == both[:1]


def test_compact_grep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `--compact`, commits have no lines and three files at most; `--fields` selects the fields of hits."""
    repo = Repo.create(tmp_path / "repo")
    for name in "abcd":
        repo.write(f"{name}.py", "timeout = 1\n")
    repo.git("add", ".")
    sha = repo.commit("Add timeouts")
    build_index(repo, tmp_path / "home")
    monkeypatch.setenv("LINEAGE_HOME", str(tmp_path / "home"))
    options = ("grep", "timeout", repo.path, "--compact")
    document = json.loads(read_output(capsys, *options, "--fields", "file_count,files"))
    file = {"change_kind": "added", "added": 1, "removed": 0, "lines": []}
    files = [{"path": f"{name}.py", **file} for name in "abc"]
    assert document["hits"] == [{"file_count": 4, "files": files}]
    assert read_output(capsys, *options, "--text") == (
        " 1. Add timeouts\n"
        f"    {sha[:12]}  2020-01-01  Ada Lovelace\n"
        "    a.py  added, +1 -0\n"
        "    b.py  added, +1 -0\n"
        "    c.py  added, +1 -0\n"
        "    1 more file\n"
        "\n"
        "1 commit\n"
    )


def test_grep_on_a_terminal(shared_repo: Repo, shared_index: Path) -> None:
    """On a terminal, `grep` shows the matching lines of each commit, then the count.

    If no commit matches, it says what was not searched.
    """
    request = ChangeSearchRequest("timeout", oldest_first=True, limit=1)
    sha = shared_repo.git("rev-parse", "HEAD~1")[:12]
    output = format_output(print_grep_answer, search_changes(request, shared_repo.path, shared_index))
    assert output == (
        " 1. Add a timeout to connect\n"
        f"    {sha}  2020-01-01  Ada Lovelace\n"
        "    src/tcp.py  added, +1 -0\n"
        "    │     2 +    timeout()\n"
        "\n"
        "Newest: Describe the timeout ✓\n"
        f"    {shared_repo.git('rev-parse', 'HEAD')[:12]}  2020-01-01  Ada Lovelace\n"
        "\n"
        "2 commits, first 1 shown\n"
    )
    request = ChangeSearchRequest("absent")
    output = format_output(print_grep_answer, search_changes(request, shared_repo.path, shared_index))
    assert output == (
        "0 commits\n"
        "Not searched: commits that HEAD does not reach, ignored paths, binary files, and\n"
        "what merges bring from their parents.\n"
    )


def test_log_prints_json_when_piped(shared_repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    """When piped, `log` prints the documented fields."""
    document = json.loads(read_output(capsys, "log", "HEAD~1", shared_repo.path, "--limit", "1"))
    sha = shared_repo.git("rev-parse", "HEAD~1")
    assert document == {
        "range": "HEAD~1",
        "commits": 1,
        "authors": 1,
        "first_date": "2020-01-01T13:00:00Z",
        "last_date": "2020-01-01T13:00:00Z",
        "directories": [{"path": "src/", "commits": 1, "kinds": {"feature": 1}}],
        "kinds": [
            {
                "kind": "feature",
                "count": 1,
                "commits": [
                    {
                        "commit_sha": sha,
                        "commit_subject": "Add a timeout to connect",
                        "commit_author": "Ada Lovelace",
                        "commit_date": "2020-01-01T13:00:00Z",
                        "references": [],
                    }
                ],
            }
        ],
        "release_note_count": 1,
        "release_notes": [
            {
                "kind": "feature",
                "title": "Add a timeout to connect",
                "is_breaking": False,
                "references": [],
                "author": "Ada Lovelace",
                "commits": [sha],
            }
        ],
    }


def test_log_on_a_terminal() -> None:
    """The counts come before the release notes, under headings. Control characters of the repository are escaped."""
    group = KindGroup("fix", 1_200, ())
    notes = (
        ReleaseNote("refactoring", "Rename \x1b[31m", True, (), "Ada", ("a" * 40,)),
        ReleaseNote("feature", "Add x", False, ("#1", "#2", "#3", "#4", "#5"), "Ada", ("b" * 40,)),
        ReleaseNote("fix", "Fix x", False, (), "Grace", ("c" * 40,)),
    )
    answer = LogAnswer(
        *("v1..v2", 1_201, 2, "2020-01-01T13:00:00Z", "2020-02-01T13:00:00Z"),
        directories=(DirectoryCount("src/", 1_200, {}), DirectoryCount("", 1, {})),
        kinds=(group,),
        release_note_count=7,
        release_notes=notes,
        limitation="1 commit could not be read.",
    )
    assert format_output(print_log_answer, answer).splitlines() == [
        *("v1..v2: 1,201 commits by 2 authors, 2020-01-01 to 2020-02-01", "1 commit could not be read."),
        *("", "By directory", "  1,200  src/", "      1  (top level)", "", "By kind", "  1,200  fixes", ""),
        *("Candidates for release notes: 7, first 3 shown", "Breaking changes"),
        *("    aaaaaaaaaaaa  Rename ␛[31m  Ada", "Features"),
        *("    bbbbbbbbbbbb  Add x  #1, #2, #3, #4  Ada", "Fixes", "    cccccccccccc  Fix x  Grace"),
    ]
    empty = replace(answer, commits=0, first_date=None, directories=(), kinds=(), release_note_count=0)
    output = format_output(print_log_answer, replace(empty, release_notes=()))
    assert output.splitlines()[0] == "v1..v2: no commits"


def test_log_of_one_commit_on_a_terminal() -> None:
    """The title of a single commit has singular nouns and one date."""
    answer = LogAnswer(
        *("v1..v2", 1, 1, "2020-01-01T13:00:00Z", "2020-01-01T13:00:00Z"),
        directories=(),
        kinds=(),
        release_note_count=0,
        release_notes=(),
    )
    assert format_output(print_log_answer, answer) == "v1..v2: 1 commit by 1 author, 2020-01-01\n"


def test_trace_prints_json_when_piped(shared_repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    """When piped, `trace` prints the documented fields."""
    document = json.loads(read_output(capsys, "trace", "connect", shared_repo.path))
    assert document["hits"] == [
        {
            "commit_sha": shared_repo.git("rev-parse", "HEAD~1"),
            "commit_subject": "Add a timeout to connect",
            "commit_author": "Ada Lovelace",
            "commit_date": "2020-01-01T13:00:00Z",
            "step": "introduced",
            "symbol": "connect",
            "path": "src/tcp.py",
            "provenance": "EXACT",
        }
    ]
    details = document["meta"]["trace"]
    assert (details["symbol"], details["commits"]) == ("src/tcp.py:connect", 1)
    assert details["steps"] == {"introduced": 1}


def test_trace_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each option of `trace` has an effect.

    An unknown or ambiguous name is a failure. A text that cannot be a name is a usage error.
    """
    repo = Repo.create(tmp_path / "repo")
    for subject in ("first", "second", "third"):
        repo.commit_file("a.py", f"def run():\n    return {subject!r}\n", subject)
    repo.commit_file("b.py", "class B:\n    def run(self):\n        pass\n", "other")
    monkeypatch.setenv("LINEAGE_HOME", str(tmp_path / "home"))
    build_index(repo, tmp_path / "home")

    def trace(*options: str) -> list[str]:
        document = json.loads(read_output(capsys, "trace", "a.py:run", *options, repo.path))
        return [hit["commit_subject"] for hit in document["hits"]]

    assert trace() == ["third", "second", "first"] == trace("--oldest")[::-1]
    assert trace("--limit", "2") == ["third", "first"]
    for symbol, code in (("run", FAILED), ("walk", FAILED), ("()", USAGE_ERROR)):
        assert run_lineage("trace", symbol, repo.path) == code
    assert "Give one of them: b.py:B.run (1 commit), a.py:run (3 commits)." in capsys.readouterr().err


def test_fields_of_a_trace(shared_repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    """`--fields` selects the fields of each change in a trace. An unknown field is an error."""
    document = json.loads(
        read_output(capsys, "trace", "connect", shared_repo.path, "--fields", "step,commit_sha")
    )
    assert [list(hit) for hit in document["hits"]] == [["step", "commit_sha"]]
    code, _, err = run_captured("trace", "connect", str(shared_repo.path), "--fields", "file_path")
    assert code == USAGE_ERROR and "no field 'file_path'" in err


def test_trace_on_a_terminal(shared_repo: Repo, shared_index: Path) -> None:
    """On a terminal, `trace` shows the changes with their places, then the place at HEAD and the counts."""
    sha = shared_repo.git("rev-parse", "HEAD~1")[:12]
    answer = trace_symbol(TraceRequest("connect"), shared_repo.path, shared_index)
    renamed = replace(answer.hits[0], step="renamed", old_symbol="dial", provenance="INFERRED")
    changed = replace(
        answer.hits[0],
        step="modified",
        references=(Reference("issue", "#7"),),
        release=Release("v1", "2020-02-01"),
    )
    answer = replace(answer, hits=(changed, answer.hits[0], renamed))
    assert format_output(print_trace_answer, answer) == (
        f"{sha}  2020-01-01  modified    Add a timeout to connect  Ada Lovelace\n"
        "    src/tcp.py:connect  #7 · first tag v1\n"
        f"{sha}  2020-01-01  introduced  Add a timeout to connect  Ada Lovelace\n"
        f"{sha}  2020-01-01  renamed ≈   Add a timeout to connect  Ada Lovelace\n"
        "    src/tcp.py:connect from dial\n"
        "\n"
        "src/tcp.py:connect, src/tcp.py:1-2\n"
        "1 commit: 1 introduced\n"
    )


def test_trace_of_a_path_with_a_line_break(shared_repo: Repo, shared_index: Path) -> None:
    """A line break in a path or an author adds no line to the output."""
    answer = trace_symbol(TraceRequest("connect"), shared_repo.path, shared_index)
    hit = replace(answer.hits[0], path="a\nforged.py", commit_author="Ada\nforged")
    output = format_output(print_trace_answer, replace(answer, hits=(hit,)))
    assert output.count("forged") == 2 and "\nforged" not in output


def test_related_prints_json_when_piped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """When piped, `related` prints the documented fields; the options select fields and the number of items."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("other.py", "x = 1\n")
    for number in range(2):
        repo.write("a.py", f"def run():\n    return {number}\n")
        for name in ("c.py", "e.py", "f.py"):
            repo.write(name, f"x = {number}\n")
        sha = repo.commit_file("b.py", f"x = {number}\n", f"Fix {number}")
    monkeypatch.setenv("LINEAGE_HOME", str(tmp_path / "home"))
    build_index(repo, tmp_path / "home")
    document = json.loads(read_output(capsys, "related", "a.py", repo.path))
    last_commit = {"commit_sha": sha, "commit_date": "2020-01-01T15:00:00Z"}
    common = {"support": 2, "confidence": 1.0, "lift": 1.5, "commit_subject": "Fix 1"} | last_commit
    names = ["b.py", "c.py", "e.py", "f.py"]
    assert document["hits"] == [{"file_path": name} | common for name in names]
    person = {"name": "Ada Lovelace", "email": "ada@example.org", "share": 1.0, "lines": 2}
    assert document["meta"]["related"] == {
        "path": "a.py",
        "kind": "file",
        "commits": 2,
        "large_commits": 0,
        "max_files": 30,
        "lines": 2,
        "owners": [person],
        "recent_since": "2019-01-01T15:00:00Z",
        "recent_until": "2020-01-01T15:00:00Z",
        "recent_authors": [person | {"commits": 2, "lines": 4}],
        "hot_spots": [{"name": "run", "commits": 2, "fixes": 2} | last_commit],
    }

    def list_hits(*options: str) -> list[dict[str, object]]:
        hits: list[dict[str, object]] = json.loads(
            read_output(capsys, "related", "a.py", *options, repo.path)
        )["hits"]
        return hits

    assert list_hits("--fields", "support, file_path") == [
        {"support": 2, "file_path": name} for name in names
    ]
    assert len(list_hits("--limit", "1")) == 1
    assert len(list_hits("--compact")) == 3
    for arguments, code, message in (
        (
            ("d.py",),
            FAILED,
            "does not exist in HEAD and never did.\n  Name a file or directory that HEAD has",
        ),
        (("../d.py",), USAGE_ERROR, "is not inside the repository"),
        (("a.py", "--fields", "path"), USAGE_ERROR, "no field 'path'"),
        (("a.py", "--limit", "0"), USAGE_ERROR, "less than 1"),
    ):
        assert run_lineage("related", *arguments, repo.path) == code
        assert message in capsys.readouterr().err


def test_related_shortens_by_cells(shared_repo: Repo, shared_index: Path) -> None:
    """A long name of wide characters takes no more terminal cells than one of narrow characters. Its end is shown."""
    answer = find_related_files(RelatedRequest("src/tcp.py"), shared_repo.path, shared_index)
    names = ("日本/" * 20, "long/" * 20)
    hits = tuple(
        RelatedFile(f"{name}b.py", 1, 0.5, 2.0, "1" * 40, "Add", "2020-01-02T00:00:00Z") for name in names
    )
    lines = format_output(print_related_answer, replace(answer, hits=hits)).splitlines()
    wide, narrow = (line.split("  ")[1] for line in lines if "b.py" in line)
    assert cell_len(narrow) == 44 and 42 <= cell_len(wide) <= 44
    assert wide.endswith("日本/b.py")


def test_related_on_a_terminal(shared_repo: Repo, shared_index: Path) -> None:
    """On a terminal, `related` shows each list as an aligned table with escaped names. Empty lists are left out."""
    answer = find_related_files(RelatedRequest("src/tcp.py"), shared_repo.path, shared_index)
    sha = shared_repo.git("rev-parse", "HEAD~1")
    assert format_output(print_related_answer, answer) == (
        "src/tcp.py  1 commit\n"
        "\n"
        "Owners by surviving lines (2)\n"
        "  Ada Lovelace  100%  2\n"
        "\n"
        "Recent work, 2019-01-01 to 2020-01-01\n"
        "  Ada Lovelace  100%  1 commit  2 lines\n"
        "\n"
        "Hot spots\n"
        f"  connect  1 commit  0 fixes  last 2020-01-01  {sha[:12]}\n"
    )
    date = "2020-01-02T00:00:00Z"
    hits = (
        RelatedFile("a\nforged.py", 12, 0.5, 3.04, "1" * 40, "Add", date),
        RelatedFile(f"{'long/' * 20}b.py", 1, 0.004, 120, "2" * 40, "Add", date),
    )
    details = replace(
        answer.meta.related,
        old_paths=("old.py",),
        large_commits=2,
        owners=(Owner("Ada", "ada@x", 2000, 0.996), Owner("日本", "e@x", 8, 0.004)),
        recent_authors=(RecentAuthor("Ada", "ada@x", 1, 2000, 1.0),),
        bots=(Bot("renovate[bot]", 1, 2),),
        hot_spots=(replace(answer.meta.related.hot_spots[0], line=7, fixes=1),),
        limitation="It is old.",
    )
    answer = replace(
        answer, hits=hits, meta=replace(answer.meta, related=details, hint="Run `lineage index`.")
    )
    assert format_output(partial(print_related_answer, compact=True), answer) == (
        "src/tcp.py  1 commit; 2 with more than 30 files do not count for related files\n"
        "  formerly old.py\n"
        "\n"
        "Files that change with it\n"
        "  a␊forged.py                                   12 commits  50%    lift 3.0\n"
        "  …ong/long/long/long/long/long/long/long/b.py    1 commit  <1%  lift 120.0\n"
        "\n"
        "Owners by surviving lines (2)\n"
        "  Ada   100%  2,000\n"
        "  日本   <1%      8\n"
        "\n"
        "Recent work, 2019-01-01 to 2020-01-01\n"
        "  Ada  100%  1 commit  2,000 lines\n"
        "\n"
        "Bots\n"
        "  renovate[bot]  1 line  2 commits recently\n"
        "\n"
        "Hot spots\n"
        "  connect:7  1 commit  1 fix\n"
        "\n"
        "It is old.\n"
        "\n"
        "Run `lineage index`.\n"
    )


def test_show_prints_json_when_piped(shared_repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    """When piped, `show` prints the commit with its files, a diff, or a file as it was."""
    options = ("--repository", shared_repo.path)
    document = json.loads(read_output(capsys, "show", "HEAD", *options))
    assert document["files"] == [{"path": "docs/ü.md", "change_kind": "added", "added": 1, "removed": 0}]
    document = json.loads(read_output(capsys, "show", "HEAD~1", "src/tcp.py", *options))
    assert document["diff"]["text"] == "@@ -0,0 +1,2 @@\n+def connect():\n+    timeout()\n"
    document = json.loads(read_output(capsys, "show", "HEAD", "src/tcp.py", "--lines", ":1", *options))
    assert document["content"]["text"] == "def connect():\n"
    by_name = read_output(capsys, "show", "HEAD:src/tcp.py", "--repository", shared_repo.path.name)
    assert json.loads(by_name)["content"]["line_count"] == 2


def test_show_on_a_terminal(shared_repo: Repo) -> None:
    """On a terminal, `show` prints the commit, then the diff or the numbered lines."""
    sha, parent = shared_repo.git("rev-parse", "HEAD", "HEAD~1").split()
    commit = (
        f"commit {sha}\nparents {parent[:12]}\nAda Lovelace <ada@example.org>  2020-01-01T14:00:00Z\n"
        "\n    Describe the timeout ✓\n\n"
    )
    diff = show_commit(ShowRequest("HEAD", "docs/ü.md"), shared_repo.path)
    assert format_output(print_show_answer, diff) == (
        commit + "+1    -0     docs/ü.md  added\n\n@@ -0,0 +1 @@\n+# timeout ü\n"
    )
    content = show_commit(ShowRequest("HEAD:src/tcp.py"), shared_repo.path)
    assert format_output(print_show_answer, content) == (
        commit + "src/tcp.py  lines 1-2 of 2\n1 │ def connect():\n2 │     timeout()\n"
    )


def test_show_of_many_lines(tmp_path: Path) -> None:
    """The lines of a message and of a file are printed together, since each call of rich takes 70 µs."""
    repo = Repo.create(tmp_path / "repo")
    lines = "".join(f"  line {number}\n" for number in range(500))
    repo.commit_file("a.txt", lines, f"Subject\n\n{lines}")
    console = Mock(wraps=Console(file=io.StringIO(), width=PIPE_COLUMNS, height=PIPE_ROWS))
    for request in (ShowRequest("HEAD", "a.txt"), ShowRequest("HEAD:a.txt")):
        print_show_answer(show_commit(request, repo.path), console)
    assert console.print.call_count <= 6


def test_exit_codes(shared_repo: Repo, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong argument is a usage error, a missing index a failure; both say what to do."""
    assert run_lineage("grep", "(a", shared_repo.path, "--regex") == USAGE_ERROR
    assert "syntax of RE2" in capsys.readouterr().err
    assert run_lineage("show", "nowhere", "--repository", shared_repo.path) == USAGE_ERROR
    assert "Give the sha of a commit" in capsys.readouterr().err
    repo = Repo.create(tmp_path / "new")
    repo.commit_file("a.txt", "a\n")
    assert run_lineage("grep", "a", repo.path) == FAILED
    assert "lineage index" in capsys.readouterr().err


def test_lines_of_several_files(capsys: pytest.CaptureFixture[str]) -> None:
    """MAX_LINES limits the shown lines of a whole commit. Files with lines that are not shown end with `…`."""
    lines = tuple(MatchingLine("+", number, f"needle {number}") for number in range(1, MAX_LINES))
    files = tuple(MatchingFile(name, "added", len(lines), 0, lines) for name in ("a.py", "b.py", "c.py"))
    # The search returned no lines of the last file.
    files = (*files, MatchingFile("d.py", "added", 1, 0, ()))
    hit = ChangeHit("1" * 40, "Add", "Ada", "2020-01-01T00:00:00Z", None, files, 5)
    details = ChangeSearchDetails(1, 1, "newest", limitation="")
    meta = ChangeSearchMeta(IndexState(None, 0, None), None, Compatibility("compatible"), details)
    print_grep_answer(ChangeSearchAnswer((hit,), meta), Console(width=100))
    rows = [row.strip() for row in capsys.readouterr().out.splitlines()]
    assert sum("needle" in row for row in rows) == MAX_LINES
    assert rows[rows.index("b.py  added, +11 -0") :][:7] == [
        "b.py  added, +11 -0",
        "│     1 +needle 1",
        "│ …",
        "c.py  added, +11 -0",
        "│ …",
        "d.py  added, +1 -0",
        "│ …",
    ]
