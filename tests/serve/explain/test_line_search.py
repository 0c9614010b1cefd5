"""Search of the index and of earlier files for restored lines and possible earlier commits."""

from __future__ import annotations

from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any

import pytest

from pipeline.git.errors import UnreadableObject
from pipeline.git.objects import LATEST_SECONDS, TreeEntry
from pipeline.git.repository import Repository
from serve.explain import line_search
from serve.explain.line_search import LineSearcher, UnsourcedLine
from serve.explain_types import ExplainDetails
from stores import exact_search
from stores.exact_search import find_line_changes
from stores.hunk_details import Connection
from tests.repos import Repo
from tests.serve.explain.helpers import explain
from tests.serve.sample_index import build_index
from tests.stores.sample_index import SampleHunk, create_index

CONNECT = """\
def connect(address, retries):
    socket = open_socket(address)
    socket.set_timeout(retries * DELAY)
    return socket
"""
OTHER = "import sys\n\n\ndef main():\n    print_usage(sys.argv)\n    sys.exit(2)\n"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo.create(tmp_path / "repo")


def trace(repo: Repo, home: Path, file: str, line: int, last_line: int = 0) -> ExplainDetails:
    return explain(repo, home, file, line, last_line or line, include_evolution=True).meta.explain


def list_steps(details: ExplainDetails) -> list[tuple[str, str]]:
    """Return step and subject of each commit, newest first."""
    return [(step.step, step.commit_message) for step in details.evolution]


def restore(repo: Repo, content: str | bytes) -> None:
    """Write a file of lines that is removed and restored, and indent its lines, so that the restoration is a step."""
    content = content.encode() if isinstance(content, str) else content
    repo.commit_file("net.py", content, "Add connect")
    repo.commit_file("net.py", OTHER, "Remove connect")
    repo.commit_file("net.py", content, "Restore connect")
    repo.commit_file("net.py", content.replace(b"    ", b"\t"), "Indent")


def test_restored_line_that_is_not_utf8(repo: Repo, home: Path) -> None:
    """A restored line of a Latin-1 file is found."""
    restore(repo, CONNECT.replace("DELAY", 'parse("größte Verzögerung")').encode("latin-1"))
    build_index(repo, home)
    assert list_steps(trace(repo, home, "net.py", 3)) == [
        ("restored", "Restore connect"),
        ("introduced", "Add connect"),
    ]


@pytest.mark.parametrize(
    ("old", "encoding", "is_lead"),
    [
        ("größte_Verzögerung", "utf-8", True),
        ("größte_Verzögerung", "latin-1", True),
        ("größte_Verzögerungé", "utf-8", False),
        ("é/etc/größte_Verzögerung", "utf-8", True),
    ],
)
def test_lead_that_is_not_ascii(repo: Repo, home: Path, old: str, encoding: str, is_lead: bool) -> None:
    """A commit that adds the literal of a new line is a lead, also in a Latin-1 file; one of a longer word is none."""
    repo.commit_file("part.py", f'load("/etc/{old}")\n'.encode(encoding), "Read /etc/größte_Verzögerung")
    repo.commit_file(
        "net.py", f'{OTHER}settings = read("/etc/größte_Verzögerung")\n'.encode(encoding), "Use it"
    )
    build_index(repo, home)
    leads = trace(repo, home, "net.py", 7).leads
    assert len(leads) == is_lead


def test_lines_are_looked_up_once_while_git_searches(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While git runs, terms are looked up as far as the limit; the later search looks up only the others."""
    restore(repo, CONNECT)
    build_index(repo, home)
    monkeypatch.setattr(line_search, "MAX_SEARCHES", 2)
    load_candidates, find_changes = LineSearcher.load_candidates, exact_search.find_changes_with_terms
    is_git_running: list[bool] = []
    searches: list[tuple[bool, int]] = []

    def record_loading(searcher: LineSearcher, lines: Sequence[UnsourcedLine]) -> None:
        is_git_running.append(True)
        load_candidates(searcher, lines)
        is_git_running.clear()

    def record_searches(connection: Connection, terms: Sequence[Set[str]], *arguments: Any) -> Any:
        searches.append((bool(is_git_running), len(terms)))
        return find_changes(connection, terms, *arguments)

    monkeypatch.setattr(LineSearcher, "load_candidates", record_loading)
    monkeypatch.setattr(exact_search, "find_changes_with_terms", record_searches)
    steps = list_steps(trace(repo, home, "net.py", 2, 3))
    assert steps == [("restored", "Restore connect"), ("introduced", "Add connect")]
    during_git = [count for is_running, count in searches if is_running]
    assert sum(during_git) == 2 and max(during_git) == 2


REMOVED_LINE = "socket.set_timeout(retries * DELAY)"


@pytest.mark.parametrize(
    ("diff", "is_removal"),
    [
        (f"-{REMOVED_LINE}\n", True),
        (f" x\n-\t  {REMOVED_LINE} \t\r\n+y\n", True),
        (f"-x\n-{REMOVED_LINE}", True),
        (f"+{REMOVED_LINE}\n", False),
        (f" {REMOVED_LINE}\n", False),
        (f"-{REMOVED_LINE} + 1\n", False),
        (f"-{REMOVED_LINE}é\n", False),
        (f"-x; {REMOVED_LINE}\n", False),
        (f"-{REMOVED_LINE.replace('*', '_')}\n", False),
    ],
)
def test_removal_pattern(diff: str, is_removal: bool) -> None:
    """A diff removes a line if it has the whole line, with any white space around it, after a minus sign."""
    line = UnsourcedLine("f" * 40, b"net.py", 1, 0, f"    {REMOVED_LINE}\r", "")
    assert line.removal_pattern is not None
    connection = create_index([SampleHunk(1, "net.py")])
    connection.execute("UPDATE hunks SET diff = ?", [f"@@ -1 +1 @@\n{diff}"])
    (changes,) = find_line_changes(connection, [line.removal_pattern], lambda _: True, 0, LATEST_SECONDS)
    assert len(changes) == is_removal


def test_restored_line_of_a_shallow_clone(repo: Repo, home: Path, tmp_path: Path) -> None:
    """A restored line is found if a shallow clone has its removal, but not the commit that added it."""
    repo.commit_file("other.py", OTHER, "Start")
    restore(repo, CONNECT)
    clone = repo.clone(tmp_path / "shallow", "--depth=4")
    build_index(clone, home)
    details = trace(clone, home, "net.py", 3)
    assert list_steps(details) == [("restored", "Restore connect")]
    assert "Run `git fetch --unshallow`." in (details.evolution_limitation or "")


def test_number_of_searched_lines_is_bounded(repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many lines, the first ones are searched, and the answer says so."""
    restore(repo, CONNECT)
    build_index(repo, home)
    assert [step.lines for step in trace(repo, home, "net.py", 2, 3).evolution] == [(2, 3), (2, 3)]
    monkeypatch.setattr(line_search, "MAX_SEARCHES", 1)
    details = trace(repo, home, "net.py", 2, 3)
    assert [(step.step, step.lines) for step in details.evolution] == [
        ("restored", (2,)),
        ("introduced", (3,)),
        ("introduced", (2,)),
    ]
    assert details.evolution_limitation == (
        "Only some of the lines were searched for restored lines and possible earlier commits."
    )


def test_number_of_read_files_is_bounded(repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If many files may have a line, its removal is searched without reading all of them; leads may be missing."""
    restore(repo, CONNECT)
    repo.commit_file("new.py", "\nother.set_timeout(9)\n", "Use it")
    build_index(repo, home)
    assert "Add connect" in [lead.commit_message for lead in trace(repo, home, "new.py", 2).leads]
    monkeypatch.setattr(line_search, "MAX_READ_FILES", 0)
    assert trace(repo, home, "new.py", 2).leads == ()
    assert list_steps(trace(repo, home, "net.py", 3)) == [
        ("restored", "Restore connect"),
        ("introduced", "Add connect"),
    ]


def test_unreadable_candidates_keep_the_others(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the tree of one possible commit is missing, the other commits of restored lines and leads are found."""
    unreadable = repo.commit_file("plan.py", OTHER, "Plan socket.set_timeout(retries * DELAY)")
    repo.commit_file("plan.py", f"{OTHER}{OTHER}", "Plan more")
    restore(repo, CONNECT)
    repo.commit_file("new.py", "\nother.set_timeout(9)\n", "Use it")
    build_index(repo, home)
    find_entry = Repository.find_entry

    def fail_once(repository: Repository, sha: str, path: bytes) -> TreeEntry | None:
        if sha == unreadable:
            raise UnreadableObject(sha, "its tree is missing")
        return find_entry(repository, sha, path)

    monkeypatch.setattr(Repository, "find_entry", fail_once)
    details = trace(repo, home, "net.py", 3)
    assert list_steps(details) == [("restored", "Restore connect"), ("introduced", "Add connect")]
    assert details.evolution_limitation == "Some earlier commits could not be read."
    details = trace(repo, home, "new.py", 2)
    assert [lead.commit_message for lead in details.leads] == ["Add connect", "Restore connect"]
    assert details.evolution_limitation == "Some earlier commits could not be read."
