"""Search of the index and of earlier files for restored lines and possible earlier commits."""

from __future__ import annotations

from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any

import pytest

from pipeline.git.errors import UnreadableObject
from pipeline.git.objects import TreeEntry
from pipeline.git.repository import Repository
from serve.explain import line_search
from serve.explain.changed_lines import UnsourcedLine
from serve.explain.line_search import LineSearcher
from serve.explain_types import ExplainDetails
from stores import exact_search
from stores.hunk_details import Connection
from tests.repos import Repo
from tests.serve.explain.helpers import explain
from tests.serve.sample_index import build_index

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
    load_changes, find_changes = LineSearcher.load_changes, exact_search.find_changes_with_terms
    is_git_running: list[bool] = []
    searches: list[tuple[bool, int]] = []

    def record_loading(searcher: LineSearcher, lines: Sequence[UnsourcedLine]) -> None:
        is_git_running.append(True)
        load_changes(searcher, lines)
        is_git_running.clear()

    def record_searches(connection: Connection, terms: Sequence[Set[str]], *arguments: Any) -> Any:
        searches.append((bool(is_git_running), len(terms)))
        return find_changes(connection, terms, *arguments)

    monkeypatch.setattr(LineSearcher, "load_changes", record_loading)
    monkeypatch.setattr(exact_search, "find_changes_with_terms", record_searches)
    steps = list_steps(trace(repo, home, "net.py", 2, 3))
    assert steps == [("restored", "Restore connect"), ("introduced", "Add connect")]
    during_git = [count for is_running, count in searches if is_running]
    assert sum(during_git) == 2 and max(during_git) == 2


REMOVED_LINE = "socket.set_timeout(retries * DELAY)"


@pytest.mark.parametrize(
    ("old_line", "is_removal"),
    [
        (REMOVED_LINE, True),
        (f"\t  {REMOVED_LINE} \t\r", True),
        (f"{REMOVED_LINE} + 1", False),
        (f"{REMOVED_LINE}é", False),
        (f"x; {REMOVED_LINE}", False),
        (REMOVED_LINE.replace("*", "_"), False),
    ],
)
def test_whole_lines_are_restored(repo: Repo, home: Path, old_line: str, is_removal: bool) -> None:
    """A line is restored if an earlier commit removed the whole line, with any white space around it."""
    head, tail = "def connect(address, retries):\n", "    return socket\n"
    repo.commit_file("net.py", f"{head}{old_line}\n{tail}", "Add connect")
    repo.commit_file("net.py", OTHER, "Remove connect")
    repo.commit_file("net.py", f"{head}    {REMOVED_LINE}\n{tail}", "Restore connect")
    repo.commit_file("net.py", f"{head}  {REMOVED_LINE}\n{tail}", "Indent")
    build_index(repo, home)
    steps = [step for step, _ in list_steps(trace(repo, home, "net.py", 2))]
    assert steps[0] == ("restored" if is_removal else "introduced")


def test_line_of_a_renamed_file_is_restored(repo: Repo, home: Path) -> None:
    """A line that a file lost after it was renamed is found."""
    repo.commit_file("net.py", CONNECT + OTHER, "Add connect")
    repo.git("mv", "net.py", "sockets.py")
    repo.commit("Rename")
    repo.commit_file("sockets.py", OTHER, "Remove connect")
    repo.commit_file("new.py", CONNECT, "Restore connect")
    repo.commit_file("new.py", CONNECT.replace("    ", "  "), "Indent")
    build_index(repo, home)
    assert list_steps(trace(repo, home, "new.py", 3)) == [
        ("restored", "Restore connect"),
        ("introduced", "Add connect"),
    ]


def test_line_that_another_file_moved_is_not_restored(repo: Repo, home: Path) -> None:
    """A line of a new file is not restored from a file that only moved it and still has it."""
    repo.commit_file("net.py", CONNECT + OTHER, "Add connect")
    repo.commit_file("net.py", OTHER + CONNECT, "Move connect")
    repo.commit_file("net.py", OTHER.replace("2", "3") + CONNECT, "Change the code")
    repo.commit_file("new.py", CONNECT, "Add a copy")
    repo.commit_file("new.py", CONNECT.replace("    ", "  "), "Indent")
    build_index(repo, home)
    assert "restored" not in [step for step, _ in list_steps(trace(repo, home, "new.py", 3))]


def test_common_line_is_restored_from_the_same_name(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line that many files had is restored in a file of the same name, and not in one of another name."""
    monkeypatch.setattr(line_search, "MAX_READ_CHANGES", 0)
    for name, steps in ("lib/net.py", ["restored", "introduced"]), ("lib/new.py", ["introduced"]):
        repo.commit_file("net.py", CONNECT, f"Add connect for {name}")
        repo.remove("net.py")
        repo.commit(f"Remove connect for {name}")
        repo.commit_file(name, CONNECT, f"Restore connect in {name}")
        repo.commit_file(name, CONNECT.replace("    ", "  "), f"Indent {name}")
        build_index(repo, home)
        assert [step for step, _ in list_steps(trace(repo, home, name, 3))] == steps


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
        "Some lines were not checked for earlier removals or possible earlier commits."
    )


def test_number_of_read_files_is_bounded(repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If many files may have a line, its removal is searched without reading all of them; leads may be missing."""
    restore(repo, CONNECT)
    repo.commit_file("new.py", "\nother.set_timeout(9)\n", "Use it")
    build_index(repo, home)
    assert "Add connect" in [lead.commit_message for lead in trace(repo, home, "new.py", 2).leads]
    monkeypatch.setattr(line_search, "MAX_READ_CHANGES", 0)
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
