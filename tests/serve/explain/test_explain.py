"""explain_change on real repositories: every line its commit, whatever happened to the file."""

from __future__ import annotations

import os
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

import pytest

from serve.errors import BadRequest
from serve.explain.answer import ExplainHit
from serve.explain.request import Request
from tests.repos import FIRST_DATE, Repo
from tests.serve.explain.asking import blamed, commits, explain, limitation, shas
from tests.serve.indexed import index

THREE = "one\ntwo\nthree\n"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A file of five lines that three commits wrote."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("src/a.py", "one\ntwo\nthree\n", "Write three lines\n\nWith a body.")
    repo.commit_file("src/a.py", "one\nTWO\nthree\n", "Shout the second")
    repo.commit_file("src/a.py", "one\nTWO\nthree\nfour\nfive\n", "Count on")
    return repo


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
        "provenance": "EXACT",
    }
    assert list(ExplainHit.__dataclass_fields__) == [
        "commit_sha", "commit_message", "commit_author", "commit_date", "blame_lines", "file_path", "diff_excerpt",
        "diff_truncated", "provenance",
    ]  # fmt: skip


def test_newest_first(repo: Repo, home: Path) -> None:
    """With only a file, the whole of it is explained, newest commit first."""
    answer = explain(repo, home, "src/a.py")
    assert shas(answer) == repo.git("rev-list", "HEAD").split()
    assert [hit.blame_lines for hit in answer.hits] == [(4, 5), (2,), (1, 3)]
    assert answer.meta.explain.lines_queried == (1, 5)
    assert commits(answer) == blamed(repo, "src/a.py")


@pytest.mark.parametrize(
    ("start", "end", "queried"),
    [(1, 0, (1, 5)), (4, 0, (4, 5)), (1, 2, (1, 2)), (5, 99, (5, 5)), (2, 2, (2, 2))],
)
def test_range_is_clamped(repo: Repo, home: Path, start: int, end: int, queried: tuple[int, int]) -> None:
    """Open and too large ends are taken to the end of the file."""
    assert explain(repo, home, "src/a.py", start, end).meta.explain.lines_queried == queried


@pytest.mark.parametrize(("k", "hits"), [(-1, 1), (0, 1), (2, 2), (99, 3)])
def test_k_cuts_after_counting(repo: Repo, home: Path, k: int, hits: int) -> None:
    """k is taken into 1 to 20 and cuts the hits; commits_unique counts before."""
    answer = explain(repo, home, "src/a.py", k=k)
    assert (len(answer.hits), answer.meta.explain.commits_unique) == (hits, 3)


@pytest.mark.parametrize(
    "request_",
    [
        Request(""),
        Request("a\0b"),
        Request("a", 0),
        Request("a", -1),
        Request("a", 1, -2),
        Request("a", 3, 2),
    ],
)
def test_bad_requests(repo: Repo, home: Path, request_: Request) -> None:
    """Ranges and names that no file could have are refused with a hint."""
    with pytest.raises(BadRequest, match=r"\n  "):
        explain(repo, home, request_.file, request_.line_start, request_.line_end)


def test_without_diff(repo: Repo, home: Path) -> None:
    """Without diffs there is no excerpt at all."""
    assert [hit.diff_excerpt for hit in explain(repo, home, "src/a.py", include_diff=False).hits] == [
        None
    ] * 3


def test_uncommitted_lines(repo: Repo, home: Path) -> None:
    """Lines of the work tree that no commit has are named and are in no hit."""
    repo.write("src/a.py", "zero\none\nTWO\nthree\nfour\nnew\nnewer\nfive\n")
    answer = explain(repo, home, "src/a.py")
    assert limitation(answer) == "Lines 1, 6-7 are not committed yet."
    assert commits(answer) == blamed(repo, "src/a.py")
    assert sorted(number for hit in answer.hits for number in hit.blame_lines) == [2, 3, 4, 5, 8]


def test_rename_of_a_folder(repo: Repo, home: Path) -> None:
    """After a folder is moved its lines keep their commits, shown under the path the file had then."""
    repo.rename("src", "lib/deep")
    repo.commit("Move")
    answer = explain(repo, home, "lib/deep/a.py")
    assert shas(answer) == repo.git("rev-list", "HEAD~1").split()
    assert {hit.file_path for hit in answer.hits} == {"src/a.py"}
    assert all(hit.diff_excerpt for hit in answer.hits)


def test_rename_not_committed(repo: Repo, home: Path) -> None:
    """A file moved with `git mv` and not committed yet has its history."""
    repo.rename("src/a.py", "b.py")
    assert shas(explain(repo, home, "b.py")) == repo.git("rev-list", "HEAD").split()


def test_reformatting_is_looked_through(repo: Repo, home: Path) -> None:
    """A commit named in .git-blame-ignore-revs does not own the lines it only reformatted."""
    before = blamed(repo, "src/a.py")
    sha = repo.commit_file("src/a.py", "  one\n  TWO\n  three\n  four\n  five\n", "Reformat")
    assert set(commits(explain(repo, home, "src/a.py"))) == {sha}
    repo.write(".git-blame-ignore-revs", f"# reformatted\n{sha}  # by a tool\n\n")
    assert commits(explain(repo, home, "src/a.py")) == before
    assert commits(explain(repo, home, "src/a.py", ignore_whitespace=True)) == before


def test_ignored_revisions_may_be_nonsense(repo: Repo, home: Path) -> None:
    """Lines of .git-blame-ignore-revs that name no commit do no harm, and are mentioned."""
    repo.write(
        ".git-blame-ignore-revs", f"{'0' * 40}\nHEAD\n--help\n{repo.git('rev-parse', 'HEAD^{tree}')}\n"
    )
    answer = explain(repo, home, "src/a.py")
    assert commits(answer) == blamed(repo, "src/a.py")
    assert "no full commit names were passed over" in limitation(answer)


def test_configured_ignore_file(repo: Repo, home: Path) -> None:
    """The file that blame.ignoreRevsFile names is honoured."""
    before = blamed(repo, "src/a.py")
    sha = repo.commit_file("src/a.py", "  one\n  TWO\n  three\n  four\n  five\n", "Reformat")
    repo.write("quiet", f"{sha}\n")
    repo.git("config", "blame.ignoreRevsFile", "quiet")
    assert commits(explain(repo, home, "src/a.py")) == before == blamed(repo, "src/a.py")


def test_configured_ignore_file_is_missing(repo: Repo, home: Path) -> None:
    """A blame.ignoreRevsFile that is not there, which stops git, is a note."""
    repo.git("config", "blame.ignoreRevsFile", "nowhere")
    answer = explain(repo, home, "src/a.py")
    assert answer.hits == ()
    assert "nowhere" in limitation(answer)


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
    assert set(commits(explain(repo, home, "b.py", 3))) == {moved}
    answer = explain(repo, home, "b.py", 3, follow_moves=True)
    assert set(commits(answer)) == {first}
    assert answer.hits[0].file_path == "a.py"
    assert "long_enough_to_be_told_apart_0" in (answer.hits[0].diff_excerpt or "")


def test_block_between_equal_lines(tmp_path: Path, home: Path) -> None:
    """Lines that blame gives to an added block and the diff to what stood there have that block for an excerpt."""
    repo = Repo.create(tmp_path / "repo")
    blocks = [f"  it({n}, () => {{\n    x({n});\n    check();\n    done();\n  }});\n\n" for n in range(4)]
    repo.commit_file("a.js", "".join(blocks[:2] + blocks[3:]), "Begin")
    sha = repo.commit_file("a.js", "".join(blocks), "Add a block")
    mine = [number for number, commit in enumerate(blamed(repo, "a.js"), start=1) if commit == sha]
    for number in mine:
        (hit,) = explain(repo, home, "a.js", number, number).hits
        assert "+    x(2);\n" in (hit.diff_excerpt or "")


NAMES = ["-L1,1", "--help", "with space", 'quo"te', "new\nline", "tab\t", "ü", "*", ":(top)x", "a=b"]


@pytest.mark.parametrize("name", NAMES)
def test_any_name(tmp_path: Path, home: Path, name: str) -> None:
    """A file's name is never taken for an option or a pattern."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("other", "first\n")
    sha = repo.commit_file(name, THREE)
    repo.write("other", "x\n")
    answer = explain(repo, home, name)
    assert commits(answer) == [sha] * 3
    assert answer.hits[0].file_path == name
    assert answer.hits[0].diff_excerpt == "@@ -0,0 +1,3 @@\n+one\n+two\n+three\n"


def test_name_that_is_not_utf8(tmp_path: Path, home: Path) -> None:
    """Bytes of a name that are no text come through, and are shown escaped."""
    repo = Repo.create(tmp_path / "repo")
    repo.write(b"caf\xe9/x.py", THREE)
    sha = repo.commit("Write")
    answer = explain(repo, home, os.fsdecode(b"caf\xe9/x.py"))
    assert commits(answer) == [sha] * 3
    assert answer.hits[0].file_path == "caf\\xe9/x.py"


def test_deleted_file(repo: Repo, home: Path) -> None:
    """A file deleted in a commit is a note that names the commit."""
    repo.remove("src/a.py")
    sha = repo.commit("Drop it")
    answer = explain(repo, home, "src/a.py")
    assert (answer.hits, answer.meta.explain.lines_queried) == ((), (0, 0))
    assert (
        limitation(answer)
        == f"src/a.py does not exist in HEAD: commit {sha[:12]} (Drop it) was the last to change it."
    )


def test_renamed_since(repo: Repo, home: Path) -> None:
    """Asked under its old name, the note says what the file is called now."""
    repo.rename("src/a.py", "b.py")
    sha = repo.commit("Rename it")
    said = f"src/a.py does not exist in HEAD: commit {sha[:12]} (Rename it) renamed it to b.py. Ask about that file."
    assert limitation(explain(repo, home, "src/a.py")) == said


def test_deleted_in_the_work_tree(repo: Repo, home: Path) -> None:
    """A file that only the work tree lacks is explained as HEAD has it, and that is said."""
    (repo.path / "src/a.py").unlink()
    answer = explain(repo, home, "src/a.py")
    assert commits(answer) == blamed(repo, "src/a.py", "HEAD")
    assert limitation(answer) == "src/a.py is not in the work tree; this is about HEAD's version of it."


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("nowhere.py", "nowhere.py does not exist in HEAD, nor did it before."),
        ("src", "src is a folder: name a file in it."),
        (".", "The repository is a folder: name a file in it."),
        ("src/a.py/b", "src/a.py/b does not exist in HEAD, nor did it before."),
        ("untracked.py", "untracked.py does not exist in HEAD: git does not track it, so it has no history."),
        ("../other/secret", "../other/secret lies outside the repository."),
        ("/etc/passwd", "/etc/passwd lies outside the repository."),
        ("way-out/secret", "way-out/secret lies outside the repository."),
        (".git/config", ".git/config does not exist in HEAD: git does not track it, so it has no history."),
        ("loop/x", "loop/x does not exist in HEAD, nor did it before."),
        ("d" * 5000, "d" * 5000 + " does not exist in HEAD, nor did it before."),
        ("pipe", "pipe is too large to explain, or no regular file."),
        ("data.bin", "data.bin is binary: it has no lines to explain."),
        ("empty", "empty is empty."),
        ("src/a.py:9", "src/a.py has 5 lines: the range starts after its end."),
    ],
)
def test_no_lines_to_explain(repo: Repo, home: Path, file: str, says: str) -> None:
    """What has no lines to blame is a note, never an error."""
    (repo.path.parent / "other").mkdir()
    (repo.path.parent / "other/secret").write_text("secret\n")
    repo.symlink("way-out", "../other")
    repo.write("data.bin", b"a\0b\n")
    repo.write("empty", "")
    repo.commit_file("pipe", "x\n")
    (repo.path / "pipe").unlink()
    os.mkfifo(repo.path / "pipe")
    repo.write("untracked.py", "x\n")
    repo.symlink("loop", "loop")
    name, _, start = file.partition(":")
    answer = explain(repo, home, name, int(start or 1))
    assert (answer.hits, answer.lines, answer.meta.explain.blame_coverage) == ((), (), 0.0)
    assert limitation(answer) == says


def test_folder_that_became_a_file(repo: Repo, home: Path) -> None:
    """Where HEAD has a folder and the work tree a file, each name is what it is."""
    (repo.path / "src/a.py").unlink()
    (repo.path / "src").rmdir()
    repo.write("src", "x\n")
    assert limitation(explain(repo, home, "src")) == "git could not say: no such path 'src' in HEAD."
    assert len(explain(repo, home, "src/a.py").hits) == 3


def test_symlink(repo: Repo, home: Path) -> None:
    """A link is explained itself, wherever it leads, and the note says so."""
    repo.symlink("link", "../../secret")
    sha = repo.commit("Link")
    answer = explain(repo, home, "link")
    assert [(line.text, line.commit_sha) for line in answer.lines] == [("../../secret", sha)]
    assert limitation(answer) == (
        "link is a symbolic link to ../../secret; this is about the link, not about what it names."
    )


def test_through_a_linked_folder(repo: Repo, home: Path) -> None:
    """A path through a link that stays inside is the file it leads to."""
    repo.symlink("source", "src")
    answer = explain(repo, home, "source/a.py")
    assert commits(answer) == blamed(repo, "src/a.py")


def test_submodule(repo: Repo, home: Path, tmp_path: Path) -> None:
    """A file in a submodule belongs to another repository: the note says how to ask there."""
    inner = Repo.create(tmp_path / "inner")
    inner.commit_file("x.py", THREE)
    repo.git(
        "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner.path.as_uri(), "mods/inner"
    )
    repo.commit("Add a submodule")
    assert limitation(explain(repo, home, "mods/inner/x.py")) == (
        "mods/inner is a submodule, a repository of its own: `lineage explain x.py mods/inner`."
    )
    assert "is a submodule" in limitation(explain(repo, home, "mods/inner"))


def test_from_where_the_person_stands(repo: Repo, home: Path) -> None:
    """A name counts from the repository's top, else from the person's folder; with `./`, from there first."""
    repo.commit_file("a.py", "top\n", "Another a.py")
    here = repo.path / "src"
    assert explain(repo, home, "a.py", here=here).lines[0].text == "top"
    assert explain(repo, home, "./a.py", here=here).lines[0].text == "one"
    assert explain(repo, home, "../a.py", here=here).lines[0].text == "top"
    assert explain(repo, home, str(here / "a.py"), here=here).lines[0].text == "one"
    (repo.path / "a.py").unlink()
    repo.commit("Without it")
    assert explain(repo, home, "a.py", here=here).lines[0].text == "one"


def test_bare_repository(repo: Repo, home: Path, tmp_path: Path) -> None:
    """A bare repository is explained as HEAD has it."""
    bare = repo.clone(tmp_path / "bare.git", "--bare")
    answer = explain(bare, home, "src/a.py", 2)
    assert commits(answer) == blamed(repo, "src/a.py", "-L2,")
    assert limitation(answer) == ""


def test_linked_work_tree(repo: Repo, home: Path, tmp_path: Path) -> None:
    """A linked work tree is asked about its own files and its own HEAD."""
    repo.git("worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"), "HEAD~1")
    side = Repo(tmp_path / "side")
    assert commits(explain(side, home, "src/a.py")) == blamed(side, "src/a.py")
    assert len(explain(side, home, "src/a.py").lines) == 3


def test_shallow_clone(repo: Repo, home: Path, tmp_path: Path) -> None:
    """At a shallow boundary the note says that history ends there, and no change is made up."""
    shallow = repo.clone(tmp_path / "shallow", "--depth=2")
    answer = explain(shallow, home, "src/a.py")
    assert limitation(answer) == (
        "History ends at the boundary of this shallow clone: lines 1-3 are shown at its last commit and may be "
        "older; `git fetch --unshallow` brings the rest."
    )
    assert [bool(hit.diff_excerpt) for hit in answer.hits] == [True, False]


def test_partial_clone_never_fetches(repo: Repo, home: Path, tmp_path: Path) -> None:
    """Where a partial clone lacks the history, a note says so and nothing is fetched."""
    repo.git("config", "uploadpack.allowFilter", "true")
    partial = repo.clone(tmp_path / "partial", "--filter=blob:none")
    before = partial.git("count-objects", "-v")
    answer = explain(partial, home, "src/a.py")
    assert "nothing is fetched" in limitation(answer)
    assert partial.git("count-objects", "-v") == before


def test_no_commits(tmp_path: Path, home: Path) -> None:
    """A repository without commits says so."""
    repo = Repo.create(tmp_path / "repo")
    repo.write("a.py", "x\n")
    answer = explain(repo, home, "a.py")
    assert limitation(answer) == "The repository has no commits yet."
    assert answer.meta.hint == "The repository has no commits yet."


def test_merge_in_progress(repo: Repo, home: Path) -> None:
    """In the middle of a merge the lines of both sides have their commits."""
    repo.branch("side", "HEAD~1")
    repo.commit_file("src/a.py", "ONE\nTWO\nthree\n", "Side")
    repo.switch("main")
    repo.git("merge", "--no-commit", "--no-ff", "side")
    answer = explain(repo, home, "src/a.py")
    assert commits(answer) == blamed(repo, "src/a.py")
    assert None not in commits(answer)


def test_line_ends_that_git_converts(repo: Repo, home: Path) -> None:
    """A file checked out with other line ends than it is kept with is not all uncommitted."""
    repo.git("config", "core.autocrlf", "true")
    repo.write("src/a.py", "one\r\nTWO\r\nthree\r\nfour\r\nfive\r\n")
    assert commits(explain(repo, home, "src/a.py")) == blamed(repo, "src/a.py")
    assert None not in commits(explain(repo, home, "src/a.py"))


def test_encoding_that_git_converts(repo: Repo, home: Path) -> None:
    """A file that is UTF-16 in the work tree only has the lines git has."""
    repo.write(".gitattributes", "*.txt text working-tree-encoding=UTF-16LE-BOM\n")
    repo.write("a.txt", "\ufeffone\ntwo\u010a\nthree\n".encode("utf-16-le"))
    sha = repo.commit("Write it")
    answer = explain(repo, home, "a.txt")
    assert [line.text.lstrip("\ufeff") for line in answer.lines] == ["one", "two\u010a", "three"]
    assert (commits(answer), answer.meta.explain.lines_queried) == ([sha] * 3, (1, 3))


def test_conflict(repo: Repo, home: Path) -> None:
    """In a conflict the marks are not committed, and the lines of both sides have their commits."""
    repo.branch("side", "HEAD~1")
    repo.commit_file("src/a.py", "one\nside\nthree\n", "Side")
    repo.switch("main")
    repo.commit_file("src/a.py", "one\nmain\nthree\n", "Main")
    repo.git("merge", "side", check=False)
    answer = explain(repo, home, "src/a.py")
    assert limitation(answer) == "Lines 2, 4, 6 are not committed yet."
    assert commits(answer) == blamed(repo, "src/a.py")


def test_in_a_submodule(repo: Repo, home: Path, tmp_path: Path) -> None:
    """Asked in the submodule itself, its file has its history."""
    inner = Repo.create(tmp_path / "inner")
    sha = inner.commit_file("x.py", THREE)
    repo.git(
        "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner.path.as_uri(), "mods/inner"
    )
    assert commits(explain(Repo(repo.path / "mods/inner"), home, "x.py")) == [sha] * 3


def test_file_without_a_last_line_end(repo: Repo, home: Path) -> None:
    """A last line without its end is a line."""
    repo.commit_file("b", "x\ny")
    assert explain(repo, home, "b").meta.explain.lines_queried == (1, 2)


def test_same_dates_are_children_first(tmp_path: Path, home: Path) -> None:
    """Commits of one date are in topological order."""
    repo = Repo.create(tmp_path / "repo")
    for number in range(12):
        repo.write("a", "".join(f"{n}\n" for n in range(number + 1)))
        repo.commit(f"{number}", date=FIRST_DATE)
    assert shas(explain(repo, home, "a", k=20)) == repo.git("rev-list", "--topo-order", "HEAD").split()


def test_clock_that_went_back(tmp_path: Path, home: Path) -> None:
    """The order is the committers' dates', also where a child claims to be older."""
    repo = Repo.create(tmp_path / "repo")
    first = repo.commit_file("a", "1\n")
    repo.write("a", "1\n2\n")
    second = repo.commit("2", date=FIRST_DATE - timedelta(days=400))
    assert shas(explain(repo, home, "a")) == [first, second]


def test_mailmap(repo: Repo, home: Path) -> None:
    """Authors are named as .mailmap has them."""
    repo.write(".mailmap", "Countess <c@example.org> <ada@example.org>\n")
    assert {hit.commit_author for hit in explain(repo, home, "src/a.py").hits} == {"Countess"}


def test_rewritten_history(repo: Repo, home: Path) -> None:
    """After a rewrite the new commits are named, and the index is said to be behind."""
    index(repo, home)
    repo.git("reset", "--quiet", "--soft", "HEAD~2")
    new = repo.commit("Squashed")
    answer = explain(repo, home, "src/a.py", include_related=True)
    assert shas(answer) == [new, repo.git("rev-parse", "HEAD~1")]
    assert answer.meta.index_status.commits_behind_head == 1
    assert answer.meta.explain.blame_coverage == 0.4
    gone = {related.commit_sha for related in answer.meta.explain.related_commits}
    assert not gone - set(repo.git("rev-list", "HEAD").split())
    assert answer.meta.hint == "The index is 1 commit behind HEAD: run `lineage index --incremental`."


def test_history_pruned_below_a_ref(repo: Repo, home: Path) -> None:
    """Where git itself cannot read the history, the note has its reason."""
    blob = repo.git("rev-parse", "HEAD~1:src/a.py")
    (repo.path / ".git/objects" / blob[:2] / blob[2:]).unlink()
    answer = explain(repo, home, "src/a.py")
    assert answer.hits == ()
    assert limitation(answer).startswith("git could not say: ")
