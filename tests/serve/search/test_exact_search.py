"""Exact search: the commits of `git log -S` and `git log -G`, in order, with their lines."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.git.errors import MISSING_OBJECT_HINT
from serve.commit_types import ChangeSearchAnswer, ChangeSearchRequest
from serve.errors import BadRequest
from serve.search.exact_search import search_changes
from stores.database import NotIndexed
from tests.repos import Repo
from tests.serve.sample_index import build_index

# Longer than the 64 KB of a diff that an index stores, and than the 1 MiB of a file that it compares.
LONG_TEXT = "".join(f"line {number} of many {'-' * 100}\n" for number in range(700))
OVERSIZE_TEXT = "".join(f"line {number} of many {'=' * 1600}\n" for number in range(700))

History = Callable[..., ChangeSearchAnswer]


def create_history(path: Path) -> Repo:
    """Create a history in which each commit is a case that a search by words or by stored diffs could get wrong."""
    repo = Repo.create(path)
    repo.commit_file("a.py", "total = 1\nname = 'é'\nprint(total)\n", "Add a")
    repo.commit_file("a.py", "print(total)\nname = 'é'\ntotal = 1\n", "Move a line within a file")
    repo.commit_file("a.py", "total += 1\nname = 'ö'\nprint(total, total)\n", "Change occurrences")
    repo.commit_file("long.txt", LONG_TEXT + "needle at the end\n", "Add a long file")
    repo.rename("long.txt", "renamed.txt")
    repo.commit("Rename a long file")
    repo.commit_file("renamed.txt", LONG_TEXT.replace("many", "few") + "two needles\n", "Rewrite a long file")
    repo.commit_file("data.json", OVERSIZE_TEXT + "needle in much data\n", "Add data")
    repo.commit_file("data.json", OVERSIZE_TEXT, "Change data")
    repo.symlink("link", "needle/target")
    repo.commit("Add a link")
    repo.commit_file("crlf.txt", "first\r\nsecond\r\n", "Add a file with CRLF")
    repo.commit_file("crlf.txt", "first\r\nthird", "Change the last line")
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{'c0ffee' + '0' * 34},module")
    repo.commit("Add a submodule", add=False)
    repo.commit_file("replaced", "a replaced line\n", "Add a file to replace")
    repo.remove("replaced")
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{'c0ffee' + '0' * 34},replaced")
    repo.commit("Replace a file by a submodule", add=False)
    repo.branch("topic")
    repo.commit_file("topic.py", "needle = 1\n", "Add a needle on a branch")
    repo.switch("main")
    repo.remove("crlf.txt")
    repo.commit("Delete a file", add=False)
    repo.merge("topic")
    return repo


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    return create_history(tmp_path_factory.mktemp("exact") / "repo")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, repo: Repo) -> Path:
    home = tmp_path_factory.mktemp("exact") / "home"
    build_index(repo, home)
    return home


@pytest.fixture
def search(repo: Repo, index: Path) -> History:
    def run(pattern: str, **options: Any) -> ChangeSearchAnswer:
        return search_changes(ChangeSearchRequest(pattern, **options), repo.path, index)

    return run


def get_shas(answer: ChangeSearchAnswer) -> list[str]:
    return [hit.commit_sha for hit in answer.hits]


def get_subjects(answer: ChangeSearchAnswer) -> list[str]:
    return [hit.commit_subject for hit in answer.hits]


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "total",
            "print(total)",
            "total, total",
            "+=",
            "= 1",
            " ",
            "é",
            "'ö'",
            "\\",
            "%",
            "(",
            "[^x]",
            "zzz",
        ),
        *("needle", "needles", "of many", "of few", "line 699 ", "needle/target", "Subproject", "c0ffee0"),
        *("first", "second", "third", "\r", "d\r", "a replaced"),
    ],
)
def test_text_equals_git_log_s(repo: Repo, search: History, pattern: str) -> None:
    """A text finds the commits of `git log -S`: moved lines, renames and long, large and linked files included."""
    assert get_shas(search(pattern)) == repo.git("log", f"-S{pattern}", "--format=%H").split()


@pytest.mark.parametrize(
    "pattern",
    [
        *("total", "^total", "total$", r"print\(.*\)$", "[^x]*name", "1[^y]*print", "a|b", "(te|ta)"),
        *("need+le", "^needle", "^two needles$", "-$", "^line 69[0-9] ", "/target$", "^Subproject"),
        *("^first", "^[[:alpha:]]+$", ".", "ö", "'.'", "^a replaced"),
    ],
)
def test_expression_equals_git_log_g(repo: Repo, search: History, pattern: str) -> None:
    """An expression finds the commits of `git log -G`, line by line: nothing matches across two lines."""
    assert get_shas(search(pattern, is_regex=True)) == repo.git("log", f"-G{pattern}", "--format=%H").split()


def test_renamed_from_a_path_that_is_not_utf8(tmp_path: Path) -> None:
    """A long diff is completed from the file before a rename, also if its name is not UTF-8."""
    repo = Repo.create(tmp_path / "repo")
    latin_path = os.fsdecode(b"gr\xf6\xdfe.txt")
    long_line = f"one of many {'-' * 70_000}\n"
    repo.commit_file(latin_path, long_line + LONG_TEXT.replace("many", "all"), "Add")
    repo.rename(latin_path, "renamed.txt")
    repo.commit_file(
        "renamed.txt", long_line.replace("many", "few") + LONG_TEXT.replace("many", "all"), "Rename"
    )
    build_index(repo, tmp_path / "home")
    for pattern, subjects in (("of many", ["Rename", "Add"]), ("of few", ["Rename"]), ("of all", ["Add"])):
        request = ChangeSearchRequest(pattern)
        assert get_subjects(search_changes(request, repo.path, tmp_path / "home")) == subjects


def test_lines_and_counts(search: History) -> None:
    """A hit has the lines with their numbers, and the counts of each file."""
    (hit,) = search("total, total").hits
    (file,) = hit.files
    assert (file.path, file.change_kind, file.added, file.removed) == ("a.py", "modified", 1, 0)
    assert [(line.sign, line.number, line.text) for line in file.lines] == [("+", 3, "print(total, total)")]
    (long,) = search("of many", path="long.txt").hits
    assert [(file.path, file.added, file.removed) for file in long.files] == [("long.txt", 700, 0)]
    (data,) = search("in much data", only_removed=True).hits
    assert [(line.sign, line.number) for line in data.files[0].lines] == [("-", 701)]


def test_added_and_removed(search: History) -> None:
    """`added` and `removed` select the direction of the change; both together are an error."""
    assert get_subjects(search("of many", only_added=True, path="*.txt")) == ["Add a long file"]
    assert get_subjects(search("of many", only_removed=True)) == ["Rewrite a long file"]
    (hit,) = search("line 7 ", is_regex=True, only_removed=True, path="*.txt").hits
    assert {line.sign for line in hit.files[0].lines} == {"-"}
    with pytest.raises(BadRequest):
        search("x", only_added=True, only_removed=True)


def test_order_limit_and_count(search: History) -> None:
    """The count is of all commits, the limit applies to those shown, and the order can be reversed."""
    newest = search("needle")
    assert newest.meta.search.count_phrase == "5 commits, all shown"
    oldest = search("needle", oldest_first=True, limit=2)
    assert get_shas(oldest) == get_shas(newest)[::-1][:2]
    assert oldest.meta.search.count_phrase == "5 commits, first 2 shown"
    assert newest.meta.search.last is None
    assert oldest.meta.search.last == replace(newest.hits[0], files=())
    assert search("needles").meta.search.count_phrase == "1 commit"
    with pytest.raises(BadRequest):
        search("x", limit=0)


def test_filters(search: History) -> None:
    """Filters are those of a query: path, dates and author."""
    assert get_subjects(search("needle", path="topic.py")) == ["Add a needle on a branch"]
    assert len(search("needle", author="ada").hits) == 5
    assert not search("needle", author="nobody").hits
    assert get_subjects(search("needle", until="2020-01-01T16:30:00Z")) == ["Add a long file"]
    assert not search("needle", since="2021").hits
    with pytest.raises(BadRequest):
        search("needle", path="[")


def test_limits_of_a_hit(search: History) -> None:
    """A hit has as many files and lines as requested, counts all files, and shortens a line around its match."""
    (hit,) = search("line 7", path="*.txt", oldest_first=True, limit=1, max_lines=3).hits
    assert (len(hit.files[0].lines), hit.files[0].added) == (3, 11)


def test_text_that_cannot_be_encoded(search: History) -> None:
    """A byte of the command line that is not UTF-8 is a usage error, in a text and in an expression."""
    for is_regex in (False, True):
        with pytest.raises(BadRequest, match="valid UTF-8"):
            search("caf\udce9", is_regex=is_regex)


def test_expression_that_only_duckdb_rejects(search: History) -> None:
    """DuckDB has an older RE2 than this process, so it rejects `(?<name>`, with a usage error."""
    with pytest.raises(BadRequest, match=r"is not valid: invalid perl operator: \(\?<") as caught:
        search("(?<name>total)", is_regex=True)
    assert "RE2" in caught.value.hint


def test_long_line_is_shortened_around_its_match(tmp_path: Path, home: Path) -> None:
    """Of a long line the part around the match is shown."""
    repo = Repo.create(tmp_path / "minified")
    repo.commit_file("min.js", "a" * 5_000 + "NEEDLE" + "b" * 5_000 + "\n")
    build_index(repo, home)
    (hit,) = search_changes(ChangeSearchRequest("NEEDLE"), repo.path, home).hits
    text = hit.files[0].lines[0].text
    assert len(text) < 300
    assert text.startswith("…a") and "aNEEDLEb" in text and text.endswith("b…")


def test_what_is_left_out(tmp_path: Path, home: Path) -> None:
    """Ignored and binary files are not searched, merges count with their own lines; no hits say so."""
    repo = Repo.create(tmp_path / "left-out")
    repo.commit_file("a.txt", "1\n", "Start")
    repo.commit_file("yarn.lock", "needle\n", "Lock")
    repo.commit_file("image.png", b"\0needle", "Image")
    repo.commit_file("large.bin", b"\0needle" + bytes(1 << 20), "Large image")
    repo.branch("topic")
    repo.commit_file("a.txt", "2\nbrought\n", "Topic")
    repo.switch("main")
    repo.commit_file("a.txt", "3\n", "Main")
    repo.merge("topic", message="Resolve", resolution={"a.txt": f"needle\nbrought\n{LONG_TEXT}end\n"})
    build_index(repo, home)
    assert get_subjects(search_changes(ChangeSearchRequest("brought"), repo.path, home)) == ["Topic"]
    answer = search_changes(ChangeSearchRequest("needle"), repo.path, home)
    assert get_subjects(answer) == ["Resolve"]
    assert answer.meta.search.limitation is None
    answer = search_changes(ChangeSearchRequest("needle", path="yarn.lock"), repo.path, home)
    assert not answer.hits
    assert (answer.meta.search.limitation or "").startswith("Not searched: commits that HEAD does not reach")
    assert answer.meta.search.count_phrase == "0 commits, outside the path at least 1"
    answer = search_changes(ChangeSearchRequest("no", path="a.*", only_added=True), repo.path, home)
    assert answer.meta.search.elsewhere == 0
    assert answer.meta.search.count_phrase == "0 commits"
    answer = search_changes(ChangeSearchRequest("absent", commit_range="main"), repo.path, home)
    assert (answer.meta.search.limitation or "").startswith("Not searched: ignored paths")
    hint = search_changes(ChangeSearchRequest("end"), repo.path, home).meta.hint
    assert (
        hint
        == "Only the first lines of 1 merge were searched, because so many lines differ from all parents."
    )


def test_reachability_and_new_commits(tmp_path: Path, repo: Repo, index: Path) -> None:
    """Only commits that HEAD reaches count, and the hint names those that are not indexed."""
    home = tmp_path / "home"
    shutil.copytree(index, home)
    on_branch = get_subjects(search_at(repo, home, "topic"))
    before_branch = get_subjects(search_at(repo, home, "topic~1"))
    assert "Add a needle on a branch" in on_branch
    assert before_branch == [subject for subject in on_branch if subject != "Add a needle on a branch"]
    repo.git("switch", "--quiet", "main")
    repo.branch("ahead")
    try:
        repo.commit_file("new.txt", "needle\n", "Not indexed")
        answer = search_changes(ChangeSearchRequest("needle"), repo.path, home)
    finally:
        repo.switch("main")
    assert len(answer.hits) == 5
    assert "1 commit behind HEAD" in (answer.meta.hint or "")


def search_at(repo: Repo, home: Path, revision: str) -> ChangeSearchAnswer:
    """Search with HEAD at this revision."""
    repo.git("switch", "--quiet", "--detach", revision)
    try:
        return search_changes(ChangeSearchRequest("needle"), repo.path, home)
    finally:
        repo.switch("main")


def test_missing_file_is_reported(tmp_path: Path, home: Path) -> None:
    """A long change whose file this clone lacks is counted in the hint, and the others are found."""
    repo = Repo.create(tmp_path / "damaged")
    repo.commit_file("long.txt", LONG_TEXT + "needle\n", "Add a long file")
    repo.commit_file("a.txt", "needle\n", "Add a")
    build_index(repo, home)
    blob = repo.git("rev-parse", "HEAD:long.txt")
    (repo.path / ".git/objects" / blob[:2] / blob[2:]).unlink()
    answer = search_changes(ChangeSearchRequest("needle"), repo.path, home)
    assert get_subjects(answer) == ["Add a"]
    assert "1 large change could not be searched" in (answer.meta.hint or "")
    assert MISSING_OBJECT_HINT in (answer.meta.hint or "")


def test_without_an_index(tmp_path: Path, home: Path) -> None:
    """Without an index the search is an error that names the command, because no commits would be a wrong answer."""
    repo = Repo.create(tmp_path / "new")
    repo.commit_file("a.txt", "needle\n")
    with pytest.raises(NotIndexed, match="lineage index"):
        search_changes(ChangeSearchRequest("needle"), repo.path, home)


def test_deleted_objects_of_unreachable_commits(tmp_path: Path, home: Path) -> None:
    """A large change that HEAD no longer reaches is not read, as git may have deleted it."""
    repo = Repo.create(tmp_path / "pruned")
    repo.commit_file("a.txt", "needle\n", "Start")
    repo.commit_file("long.txt", LONG_TEXT, "Long")
    build_index(repo, home)
    repo.git("reset", "--quiet", "--hard", "HEAD~1")
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "--quiet", "--prune=now")
    answer = search_changes(ChangeSearchRequest("needle"), repo.path, home)
    assert (get_subjects(answer), answer.meta.hint) == (["Start"], None)
