"""`explain_change` on real repositories."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from serve.errors import BadRequest
from serve.explain_types import ExplainHit, ExplainRequest
from tests.repos import FIRST_DATE, Repo
from tests.serve.explain.helpers import (
    create_five_line_repo,
    explain,
    get_limitation,
    list_blamed_commits,
    list_hit_commits,
    list_line_commits,
)
from tests.serve.sample_index import build_index


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return create_five_line_repo(tmp_path / "repo")


def test_hit_fields(repo: Repo, home: Path) -> None:
    """A hit has every field of the specification, in its order."""
    hit = asdict(explain(repo, home, "src/a.py", 2, 3).hits[0])
    assert hit == {
        "commit_sha": repo.git("rev-parse", "HEAD~1"),
        "commit_message": "Shout the second",
        "commit_author": "Ada Lovelace",
        "commit_date": "2020-01-01T14:00:00Z",
        "blame_lines": (2,),
        "file_path": "src/a.py",
        "diff_excerpt": "@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n",
        "diff_truncated": False,
        "author_date": None,
        "references": (),
        "release": None,
        "also": (),
        "reverted_by": None,
        "provenance": "EXACT",
    }
    assert list(ExplainHit.__dataclass_fields__) == [
        "commit_sha", "commit_message", "commit_author", "commit_date", "blame_lines", "file_path", "diff_excerpt",
        "diff_truncated", "author_date", "references", "release", "also", "reverted_by", "provenance",
    ]  # fmt: skip


def test_newest_first(repo: Repo, home: Path) -> None:
    """Without a range the complete file is explained, newest commit first."""
    answer = explain(repo, home, "src/a.py")
    assert list_hit_commits(answer) == repo.git("rev-list", "HEAD").split()
    assert [hit.blame_lines for hit in answer.hits] == [(4, 5), (2,), (1, 3)]
    assert answer.meta.explain.lines_queried == (1, 5)
    assert list_line_commits(answer) == list_blamed_commits(repo, "src/a.py")


@pytest.mark.parametrize(
    ("start", "end", "queried"),
    [(1, 0, (1, 5)), (4, 0, (4, 5)), (1, 2, (1, 2)), (5, 99, (5, 5)), (2, 2, (2, 2))],
)
def test_range_is_clamped(repo: Repo, home: Path, start: int, end: int, queried: tuple[int, int]) -> None:
    """Open and too large ends are clamped to the end of the file."""
    assert explain(repo, home, "src/a.py", start, end).meta.explain.lines_queried == queried


@pytest.mark.parametrize(("k", "hits"), [(-1, 1), (0, 1), (2, 2), (99, 3)])
def test_k_limits_hits_but_not_the_count(repo: Repo, home: Path, k: int, hits: int) -> None:
    """k is clamped to 1 to 20 and limits the hits; commits_unique counts all commits."""
    answer = explain(repo, home, "src/a.py", k=k)
    assert (len(answer.hits), answer.meta.explain.commits_unique) == (hits, 3)


@pytest.mark.parametrize(
    "invalid_request",
    [
        ExplainRequest(""),
        ExplainRequest("a\0b"),
        ExplainRequest("a", 0),
        ExplainRequest("a", -1),
        ExplainRequest("a", 1, -2),
        ExplainRequest("a", 3, 2),
    ],
)
def test_invalid_requests_are_rejected(repo: Repo, home: Path, invalid_request: ExplainRequest) -> None:
    """Ranges and names that no file can have are errors with a hint."""
    with pytest.raises(BadRequest, match=r"\n  "):
        explain(repo, home, invalid_request.file, invalid_request.line_start, invalid_request.line_end)


def test_without_diff(repo: Repo, home: Path) -> None:
    """Without `include_diff` hits have no excerpt."""
    assert [hit.diff_excerpt for hit in explain(repo, home, "src/a.py", include_diff=False).hits] == [
        None
    ] * 3


def test_uncommitted_lines(repo: Repo, home: Path) -> None:
    """Uncommitted lines are listed in the limitation and are in no hit."""
    repo.write("src/a.py", "zero\none\nTWO\nthree\nfour\nnew\nnewer\nfive\n")
    answer = explain(repo, home, "src/a.py")
    assert get_limitation(answer) == "Lines 1, 6-7 are not committed yet."
    assert list_line_commits(answer) == list_blamed_commits(repo, "src/a.py")
    assert sorted(number for hit in answer.hits for number in hit.blame_lines) == [2, 3, 4, 5, 8]


def test_renamed_directory(repo: Repo, home: Path) -> None:
    """After a directory is renamed, lines keep their commits and hits have the path of that time."""
    repo.rename("src", "lib/deep")
    repo.commit("Move")
    answer = explain(repo, home, "lib/deep/a.py")
    assert list_hit_commits(answer) == repo.git("rev-list", "HEAD~1").split()
    assert {hit.file_path for hit in answer.hits} == {"src/a.py"}
    assert all(hit.diff_excerpt for hit in answer.hits)


def test_uncommitted_rename(repo: Repo, home: Path) -> None:
    """A file renamed with `git mv` but not committed keeps its history."""
    repo.rename("src/a.py", "b.py")
    assert list_hit_commits(explain(repo, home, "b.py")) == repo.git("rev-list", "HEAD").split()


def test_white_space_is_ignored_on_request(repo: Repo, home: Path) -> None:
    """Without other means, lines that were only indented keep their commits if white space is ignored."""
    before = list_blamed_commits(repo, "src/a.py")
    sha = repo.commit_file("src/a.py", "  one\n\tTWO\nthree \n  four\n  five\n", "Reformat")
    assert list_line_commits(explain(repo, home, "src/a.py")) == [sha] * 5
    assert list_line_commits(explain(repo, home, "src/a.py", ignore_whitespace=True)) == before
    assert before == list_blamed_commits(repo, "src/a.py", "-w")


def test_ignored_revisions_are_skipped(repo: Repo, home: Path) -> None:
    """A commit listed in .git-blame-ignore-revs is skipped for lines that it reformatted."""
    before = list_blamed_commits(repo, "src/a.py")
    sha = repo.commit_file("src/a.py", "  one\n  TWO\n  three\n  four\n  five\n", "Reformat")
    assert set(list_line_commits(explain(repo, home, "src/a.py"))) == {sha}
    repo.write(".git-blame-ignore-revs", f"# reformatted\n{sha}  # by a tool\n\n")
    assert list_line_commits(explain(repo, home, "src/a.py")) == before
    assert list_line_commits(explain(repo, home, "src/a.py", ignore_whitespace=True)) == before


def test_invalid_ignored_revisions(repo: Repo, home: Path) -> None:
    """Invalid lines of .git-blame-ignore-revs have no effect, and the limitation says so."""
    repo.write(
        ".git-blame-ignore-revs", f"{'0' * 40}\nHEAD\n--help\n{repo.git('rev-parse', 'HEAD^{tree}')}\n"
    )
    answer = explain(repo, home, "src/a.py")
    assert list_line_commits(answer) == list_blamed_commits(repo, "src/a.py")
    assert "write full commit hashes" in get_limitation(answer)


def test_configured_ignore_file(repo: Repo, home: Path) -> None:
    """Blame skips the commits in the file of the setting blame.ignoreRevsFile."""
    before = list_blamed_commits(repo, "src/a.py")
    sha = repo.commit_file("src/a.py", "  one\n  TWO\n  three\n  four\n  five\n", "Reformat")
    repo.write("quiet", f"{sha}\n")
    repo.git("config", "blame.ignoreRevsFile", "quiet")
    assert (
        list_line_commits(explain(repo, home, "src/a.py")) == before == list_blamed_commits(repo, "src/a.py")
    )


def test_missing_configured_ignore_file(repo: Repo, home: Path) -> None:
    """A missing blame.ignoreRevsFile makes git fail, which becomes a limitation."""
    repo.git("config", "blame.ignoreRevsFile", "nowhere")
    answer = explain(repo, home, "src/a.py")
    assert answer.hits == ()
    assert "nowhere" in get_limitation(answer)


def test_moved_function(tmp_path: Path, home: Path) -> None:
    """A function moved between files keeps its commit when moves are followed."""
    repo = Repo.create(tmp_path / "repo")
    function = "".join(
        f"def long_enough_to_be_told_apart_{n}(argument):\n    return argument + {n}\n" for n in range(5)
    )
    first = repo.commit_file("a.py", "import os\n\n" + function, "Write it")
    repo.write("a.py", "import os\n")
    repo.write("b.py", "import sys\n\n" + function)
    moved = repo.commit("Move it")
    assert set(list_line_commits(explain(repo, home, "b.py", 3))) == {moved}
    answer = explain(repo, home, "b.py", 3, follow_moves=True)
    assert set(list_line_commits(answer)) == {first}
    assert answer.hits[0].file_path == "a.py"
    assert "long_enough_to_be_told_apart_0" in (answer.hits[0].diff_excerpt or "")


def test_function_moved_within_a_file(tmp_path: Path, home: Path) -> None:
    """A function moved within its file keeps its commit when moves are followed."""
    repo = Repo.create(tmp_path / "repo")
    first, second = (
        "".join(f"def {name}_function_{n}(argument):\n    return argument + {n}\n" for n in range(9))
        for name in ("first", "second")
    )
    sha = repo.commit_file("a.py", first + second, "Write it")
    moved = repo.commit_file("a.py", second + first, "Move it")
    assert set(list_line_commits(explain(repo, home, "a.py"))) == {sha, moved}
    assert set(list_line_commits(explain(repo, home, "a.py", follow_moves=True))) == {sha}
    assert set(list_blamed_commits(repo, "a.py", "-M")) == {sha}


def test_block_between_equal_lines(tmp_path: Path, home: Path) -> None:
    """If blame and diff disagree about an added block between equal lines, the excerpt shows the block."""
    repo = Repo.create(tmp_path / "repo")
    blocks = [f"  it({n}, () => {{\n    x({n});\n    check();\n    done();\n  }});\n\n" for n in range(4)]
    repo.commit_file("a.js", "".join(blocks[:2] + blocks[3:]), "Begin")
    sha = repo.commit_file("a.js", "".join(blocks), "Add a block")
    numbers = [
        number for number, commit in enumerate(list_blamed_commits(repo, "a.js"), start=1) if commit == sha
    ]
    for number in numbers:
        (hit,) = explain(repo, home, "a.js", number, number).hits
        assert "+    x(2);\n" in (hit.diff_excerpt or "")


def test_bare_repository(repo: Repo, home: Path, tmp_path: Path) -> None:
    """In a bare repository HEAD's version is explained."""
    bare = repo.clone(tmp_path / "bare.git", "--bare")
    answer = explain(bare, home, "src/a.py", 2)
    assert list_line_commits(answer) == list_blamed_commits(repo, "src/a.py", "-L2,")
    assert get_limitation(answer) == ""


def test_linked_work_tree(repo: Repo, home: Path, tmp_path: Path) -> None:
    """A linked work tree has its own files and its own HEAD."""
    repo.git("worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"), "HEAD~1")
    side = Repo(tmp_path / "side")
    assert list_line_commits(explain(side, home, "src/a.py")) == list_blamed_commits(side, "src/a.py")
    assert len(explain(side, home, "src/a.py").lines) == 3


def test_shallow_clone(repo: Repo, home: Path, tmp_path: Path) -> None:
    """At a shallow boundary the limitation says that the history ends, and there is no excerpt."""
    shallow = repo.clone(tmp_path / "shallow", "--depth=2")
    answer = explain(shallow, home, "src/a.py")
    assert get_limitation(answer) == (
        "Lines 1-3 are attributed to the oldest commit of this shallow clone, but may be older. "
        "Run `git fetch --unshallow` to get the missing history."
    )
    assert [bool(hit.diff_excerpt) for hit in answer.hits] == [True, False]


def test_shallow_clone_with_an_index(repo: Repo, home: Path, tmp_path: Path) -> None:
    """Commits at a shallow boundary cannot be indexed, so their lines give no hint to index."""
    shallow = repo.clone(tmp_path / "shallow", "--depth=2")
    build_index(shallow, home)
    answer = explain(shallow, home, "src/a.py")
    assert "git fetch --unshallow" in get_limitation(answer)
    assert (answer.meta.hint, answer.meta.explain.blame_coverage < 1) == (None, True)


def test_partial_clone_never_fetches(repo: Repo, home: Path, tmp_path: Path) -> None:
    """If a partial clone lacks objects, a limitation says so and nothing is fetched."""
    repo.git("config", "uploadpack.allowFilter", "true")
    partial = repo.clone(tmp_path / "partial", "--filter=blob:none")
    before = partial.git("count-objects", "-v")
    answer = explain(partial, home, "src/a.py")
    assert "lineage does not fetch them: run `git fetch --refetch" in get_limitation(answer)
    assert partial.git("count-objects", "-v") == before


def test_malformed_ignore_file_in_a_partial_clone(repo: Repo, home: Path, tmp_path: Path) -> None:
    """The error about a malformed blame.ignoreRevsFile names the file, and does not advise to fetch objects."""
    repo.git("config", "uploadpack.allowFilter", "true")
    partial = repo.clone(tmp_path / "partial", "--filter=tree:0")
    partial.write("skipped", "def foo():\n")
    partial.git("config", "blame.ignoreRevsFile", "skipped")
    limitation = get_limitation(explain(partial, home, "src/a.py"))
    assert limitation == (
        "git blame failed: invalid object name: def foo():. "
        f"Write only full commit hashes to the file of `blame.ignoreRevsFile`: {partial.path / 'skipped'}."
    )
    (partial.path / "skipped").unlink()
    limitation = get_limitation(explain(partial, home, "src/a.py"))
    assert limitation == "git blame failed: could not open object name list: skipped."


@pytest.mark.parametrize("file", ["gone.py", "src", "../../etc/passwd"])
def test_hint_says_why_there_are_no_hits(repo: Repo, home: Path, file: str) -> None:
    """For a missing file, a directory and a path outside the repository, the hint begins with the reason."""
    answer = explain(repo, home, file)
    assert answer.hits == () and answer.meta.hint is not None
    assert answer.meta.hint.startswith(get_limitation(answer))


def test_no_commits(tmp_path: Path, home: Path) -> None:
    """In a repository without commits, limitation and hint say so."""
    repo = Repo.create(tmp_path / "repo")
    repo.write("a.py", "x\n")
    answer = explain(repo, home, "a.py")
    assert get_limitation(answer) == "HEAD has no commit."
    assert answer.meta.hint is not None and f"{repo.path} has no commits yet." in answer.meta.hint


def test_merge_in_progress(repo: Repo, home: Path) -> None:
    """During a merge, lines of both sides have their commits."""
    repo.branch("side", "HEAD~1")
    repo.commit_file("src/a.py", "ONE\nTWO\nthree\n", "Side")
    repo.switch("main")
    repo.git("merge", "--no-commit", "--no-ff", "side")
    answer = explain(repo, home, "src/a.py")
    assert list_line_commits(answer) == list_blamed_commits(repo, "src/a.py")
    assert None not in list_line_commits(answer)


def test_converted_line_endings(repo: Repo, home: Path) -> None:
    """Lines of a file checked out with converted line endings count as committed."""
    repo.git("config", "core.autocrlf", "true")
    repo.write("src/a.py", "one\r\nTWO\r\nthree\r\nfour\r\nfive\r\n")
    assert list_line_commits(explain(repo, home, "src/a.py")) == list_blamed_commits(repo, "src/a.py")
    assert None not in list_line_commits(explain(repo, home, "src/a.py"))


def test_converted_encoding(repo: Repo, home: Path) -> None:
    """A file that is UTF-16 in the work tree only has the lines that git counts."""
    repo.write(".gitattributes", "*.txt text working-tree-encoding=UTF-16LE-BOM\n")
    repo.write("a.txt", "\ufeffone\ntwo\u010a\nthree\n".encode("utf-16-le"))
    sha = repo.commit("Write it")
    answer = explain(repo, home, "a.txt")
    assert [line.text for line in answer.lines] == ["one", "two\u010a", "three"]
    assert (list_line_commits(answer), answer.meta.explain.lines_queried) == ([sha] * 3, (1, 3))


def test_conflict(repo: Repo, home: Path) -> None:
    """In a conflict the markers are uncommitted, and lines of both sides have their commits."""
    repo.branch("side", "HEAD~1")
    repo.commit_file("src/a.py", "one\nside\nthree\n", "Side")
    repo.switch("main")
    repo.commit_file("src/a.py", "one\nmain\nthree\n", "Main")
    repo.git("merge", "side", check=False)
    answer = explain(repo, home, "src/a.py")
    assert get_limitation(answer) == "Lines 2, 4, 6 are not committed yet."
    assert list_line_commits(answer) == list_blamed_commits(repo, "src/a.py")


@pytest.mark.parametrize("text", ["one\nTWO\nthree\nfour\nfive\n", "one\nTWO\nthree\nfour\n5\nsix\n"])
def test_damaged_git_index(repo: Repo, home: Path, text: str) -> None:
    """git's index is not needed to explain a committed file, whether the work tree changes it or not."""
    repo.write("src/a.py", text)
    expected_commits = list_blamed_commits(repo, "src/a.py")
    (repo.path / ".git" / "index").write_bytes(b"damaged" * 40)
    answer = explain(repo, home, "src/a.py")
    assert list_line_commits(answer) == expected_commits
    assert "blame failed" not in get_limitation(answer)


def test_new_file_with_a_damaged_git_index(repo: Repo, home: Path) -> None:
    """Only the index has a new file, so the answer says what is wrong with the index."""
    repo.write("new.py", "one\n")
    repo.git("add", "new.py")
    (repo.path / ".git" / "index").write_bytes(b"damaged" * 40)
    assert get_limitation(explain(repo, home, "new.py")) == "git blame failed: index file corrupt."


def test_missing_final_line_break(repo: Repo, home: Path) -> None:
    """A last line without a line break counts."""
    repo.commit_file("b", "x\ny")
    assert explain(repo, home, "b").meta.explain.lines_queried == (1, 2)


def test_equal_dates_order_children_first(tmp_path: Path, home: Path) -> None:
    """Commits of equal dates are in topological order."""
    repo = Repo.create(tmp_path / "repo")
    for number in range(12):
        repo.write("a", "".join(f"{n}\n" for n in range(number + 1)))
        repo.commit(f"{number}", date=FIRST_DATE)
    assert (
        list_hit_commits(explain(repo, home, "a", k=20))
        == repo.git("rev-list", "--topo-order", "HEAD").split()
    )


def test_mailmap(repo: Repo, home: Path) -> None:
    """Author names are mapped by .mailmap."""
    repo.write(".mailmap", "Countess <c@example.org> <ada@example.org>\n")
    assert {hit.commit_author for hit in explain(repo, home, "src/a.py").hits} == {"Countess"}


def test_rewritten_history(repo: Repo, home: Path) -> None:
    """After a rewrite hits are the new commits, and the index is behind HEAD."""
    build_index(repo, home)
    repo.git("reset", "--quiet", "--soft", "HEAD~2")
    new = repo.commit("Squashed")
    answer = explain(repo, home, "src/a.py", include_related=True)
    assert list_hit_commits(answer) == [new, repo.git("rev-parse", "HEAD~1")]
    assert answer.meta.index_status.commits_behind_head == 1
    assert answer.meta.explain.blame_coverage == 0.4
    related_shas = {related.commit_sha for related in answer.meta.explain.related_commits}
    assert not related_shas - set(repo.git("rev-list", "HEAD").split())
    assert answer.meta.hint == "The index is 1 commit behind HEAD: run `lineage index --incremental`."


def test_missing_object(repo: Repo, home: Path) -> None:
    """If git cannot read the history, the limitation has its error message."""
    blob = repo.git("rev-parse", "HEAD~1:src/a.py")
    (repo.path / ".git/objects" / blob[:2] / blob[2:]).unlink()
    answer = explain(repo, home, "src/a.py")
    assert answer.hits == ()
    assert get_limitation(answer).startswith("git blame failed: ")
    assert get_limitation(answer).endswith(". Run `git fsck` to list damaged objects.")


def test_damaged_object(repo: Repo, home: Path) -> None:
    """The limitation names the damaged object, and says what to do."""
    blob = repo.git("rev-parse", "HEAD~1:src/a.py")
    file = repo.path / ".git/objects" / blob[:2] / blob[2:]
    file.chmod(0o644)
    file.write_bytes(b"damaged")
    limitation = get_limitation(explain(repo, home, "src/a.py"))
    assert blob in limitation and limitation.endswith("is corrupt. Run `git fsck` to list damaged objects.")
