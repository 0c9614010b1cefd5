"""Resolution of file names: special names, other kinds of files, missing and deleted files, paths outside."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest

from pipeline.git.commit_graph import create_git_program
from pipeline.git.errors import UnreadableObject
from pipeline.git.git_cli import GitProgram
from pipeline.git.repository import open_repository
from serve.commit_types import ShowRequest
from serve.explain import target
from serve.explain.show_commit import show_commit
from tests.repos import Repo
from tests.serve.explain.helpers import (
    THREE_LINES,
    create_five_line_repo,
    explain,
    get_limitation,
    list_blamed_commits,
    list_line_commits,
)
from tests.serve.sample_index import build_index

NAMES = ["-L1,1", "--help", "with space", 'quo"te', "new\nline", "tab\t", "ü", "*", ":(top)x", "a=b"]
FUNCTION = """\
def connect(host, port):
    address = resolve_address(host)
    socket = create_socket(address, port)
    socket.set_timeout(30)
    return socket
"""


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return create_five_line_repo(tmp_path / "repo")


@pytest.mark.parametrize("name", NAMES)
def test_special_file_names(tmp_path: Path, home: Path, name: str) -> None:
    """A file name is never taken for an option or a pattern."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("other", "first\n")
    sha = repo.commit_file(name, THREE_LINES)
    repo.write("other", "x\n")
    answer = explain(repo, home, name)
    assert list_line_commits(answer) == [sha] * 3
    assert answer.hits[0].file_path == name
    assert answer.hits[0].diff_excerpt == "@@ -0,0 +1,3 @@\n+one\n+two\n+three\n"


def test_name_that_is_not_utf8(tmp_path: Path, home: Path) -> None:
    """Undecodable bytes of a name are accepted, and shown escaped."""
    repo = Repo.create(tmp_path / "repo")
    repo.write(b"caf\xe9/x.py", THREE_LINES)
    sha = repo.commit("Write")
    answer = explain(repo, home, os.fsdecode(b"caf\xe9/x.py"))
    assert list_line_commits(answer) == [sha] * 3
    assert answer.hits[0].file_path == "caf\\xe9/x.py"


def test_escaped_name(tmp_path: Path, home: Path) -> None:
    """A name is accepted as answers print it, with escaped bytes. A file with the name itself comes first."""
    repo = Repo.create(tmp_path / "repo")
    repo.write(b"caf\xe9/x.py", THREE_LINES)
    sha = repo.commit("Write")
    name = "caf\\xe9/x.py"
    assert list_line_commits(explain(repo, home, name)) == [sha] * 3
    content = show_commit(ShowRequest(f"HEAD:{name}"), repo.path).content
    diff = show_commit(ShowRequest("HEAD", name), repo.path).diff
    assert content and diff and (content.text, diff.path) == (THREE_LINES, name)
    later_sha = repo.commit_file(name, THREE_LINES)
    assert list_line_commits(explain(repo, home, name)) == [later_sha] * 3


def test_escaped_nul(tmp_path: Path, home: Path) -> None:
    """A NUL, which no name has, is not decoded."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "x\n")
    assert "does not exist in HEAD" in get_limitation(explain(repo, home, "x\\x00y"))


def test_suffix_that_is_not_utf8(tmp_path: Path, home: Path) -> None:
    """The index is searched for the lines of a file whose suffix has undecodable bytes; leads name it escaped."""
    repo = Repo.create(tmp_path / "repo")
    name = b"net.\xe9"
    repo.write(name, "connection_timeout = 10  # seconds until the client gives up\n")
    sha = repo.commit("Write")
    repo.write(name, "other = 1\n")
    repo.commit("Remove")
    repo.write(name, "other = 1\nlimit = min(connection_timeout, retry_interval)\n")
    repo.commit("Use it again")
    build_index(repo, home)
    answer = explain(repo, home, os.fsdecode(name), 2, 2, include_evolution=True)
    assert [(lead.commit_sha, lead.file_path) for lead in answer.meta.explain.leads] == [(sha, "net.\\xe9")]


def test_attribute_of_a_name_that_is_not_utf8(repo: Repo, home: Path) -> None:
    """git's attributes are looked up with the bytes of the name."""
    repo.write(".gitattributes", b"caf\xe9.txt text working-tree-encoding=UTF-16LE-BOM\n")
    repo.write(b"caf\xe9.txt", "\ufeffone\ntwo\n".encode("utf-16-le"))
    repo.commit("Write it")
    answer = explain(repo, home, os.fsdecode(b"caf\xe9.txt"))
    assert [line.text for line in answer.lines] == ["one", "two"]


@pytest.mark.parametrize("name", ["a`lineage index`b.py", "new\nline.py"])
def test_names_in_sentences(repo: Repo, home: Path, name: str) -> None:
    """A name in a sentence is on one line, and never looks like a suggested command."""
    repo.commit_file(f"lib/{name}", "x\n")
    repo.commit_file(f"gone/{name}", "x\n")
    (repo.path / "gone" / name).unlink()
    repo.write(f"empty/{name}", "")
    repo.git("add", f"empty/{name}")
    repo.git("commit", "--quiet", "--message", "Add an empty file")
    repo.write(f"untracked/{name}", "x\n")
    for file in (name, f"untracked/{name}", f"gone/{name}", f"empty/{name}", f"../{name}", f"lib/{name}/x"):
        note = get_limitation(explain(repo, home, file))
        assert note and "`" not in note and "\n" not in note
    repo.symlink("link", name)
    repo.commit("Link")
    assert "`" not in get_limitation(explain(repo, home, "link"))


def test_deleted_in_the_work_tree(repo: Repo, home: Path) -> None:
    """For a file missing only in the work tree, HEAD's version is explained, and the limitation says so."""
    (repo.path / "src/a.py").unlink()
    answer = explain(repo, home, "src/a.py")
    assert list_line_commits(answer) == list_blamed_commits(repo, "src/a.py", "HEAD")
    assert get_limitation(answer) == "src/a.py is not in the work tree: this explains its version in HEAD."


@pytest.mark.parametrize(
    ("file", "suggestion"),
    [
        ("src/b.py", "src/a.py"),
        ("a.py", "lib/A.py or src/a.py"),
        ("src/aa.py", "src/a.py"),
        ("lib/aa.py", "lib/A.py"),
    ],
)
def test_similar_names_are_suggested(repo: Repo, home: Path, file: str, suggestion: str) -> None:
    """For an unknown name, files of the same name elsewhere or of a similar name in the directory are suggested."""
    repo.commit_file("lib/A.py", "x\n")
    expected = f"{file} does not exist in HEAD and never did. Did you mean {suggestion}?"
    assert get_limitation(explain(repo, home, file)) == expected


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("nowhere.py", "nowhere.py does not exist in HEAD and never did."),
        ("src", "src is a directory: name a file in it."),
        (".", "The repository is a directory: name a file in it."),
        ("src/a.py/b", "src/a.py/b does not exist in HEAD and never did."),
        ("untracked.py", "untracked.py does not exist in HEAD: git does not track it, so it has no history."),
        ("../other/secret", "../other/secret lies outside the repository."),
        ("/etc/passwd", "/etc/passwd lies outside the repository."),
        ("way-out/secret", "way-out/secret lies outside the repository."),
        (".git/config", ".git/config does not exist in HEAD: git does not track it, so it has no history."),
        ("loop/x", "loop/x does not exist in HEAD and never did."),
        ("d" * 5000, "d" * 5000 + " does not exist in HEAD and never did."),
        ("pipe", "pipe is too large to explain, or not a regular file."),
        ("data.bin", "data.bin is binary: it has no lines to explain."),
        ("empty", "empty is empty."),
        ("src/a.py:9", "src/a.py has 5 lines, and the requested range starts after them."),
    ],
)
def test_targets_without_lines(repo: Repo, home: Path, file: str, expected: str) -> None:
    """A target without lines gives a limitation, never an error."""
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
    assert get_limitation(answer) == expected


def test_directory_replaced_by_a_file(repo: Repo, home: Path) -> None:
    """If a directory of HEAD is a file in the work tree, both names are resolved by where they exist."""
    (repo.path / "src/a.py").unlink()
    (repo.path / "src").rmdir()
    repo.write("src", "x\n")
    assert get_limitation(explain(repo, home, "src")) == "git blame failed: no such path 'src' in HEAD."
    assert len(explain(repo, home, "src/a.py").hits) == 3


def test_symlink(repo: Repo, home: Path) -> None:
    """A symbolic link itself is explained, and the limitation says so."""
    repo.symlink("link", "../../secret")
    sha = repo.commit("Link")
    answer = explain(repo, home, "link")
    assert [(line.text, line.commit_sha) for line in answer.lines] == [("../../secret", sha)]
    assert get_limitation(answer) == (
        "link is a symbolic link to ../../secret: this explains the link itself."
    )


def test_symlink_of_a_commit(repo: Repo, home: Path) -> None:
    """The version of a link in HEAD, or the last one before its removal, is explained as a link too."""
    repo.symlink("link", "../../secret")
    parent = repo.commit("Link")
    note = "link is a symbolic link to ../../secret: this explains the link itself."
    (repo.path / "link").unlink()
    assert get_limitation(explain(repo, home, "link")) == (
        f"link is not in the work tree: this explains its version in HEAD. {note}"
    )
    repo.commit("Drop it")
    assert get_limitation(explain(repo, home, "link")).endswith(
        f"This explains its last version, in commit {parent[:12]}. {note}"
    )


def test_linked_directory(repo: Repo, home: Path) -> None:
    """A path through a linked directory inside the repository is the file it leads to."""
    repo.symlink("source", "src")
    answer = explain(repo, home, "source/a.py")
    assert list_line_commits(answer) == list_blamed_commits(repo, "src/a.py")


def test_submodule(repo: Repo, home: Path, tmp_path: Path) -> None:
    """For a file in a submodule the limitation shows the command for that repository."""
    inner = Repo.create(tmp_path / "inner")
    inner.commit_file("x.py", THREE_LINES)
    repo.git(
        "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner.path.as_uri(), "mods/inner"
    )
    repo.commit("Add a submodule")
    assert get_limitation(explain(repo, home, "mods/inner/x.py")) == (
        "mods/inner is a submodule, which is a separate repository: "
        f"run `lineage explain x.py {repo.path}/mods/inner`."
    )
    assert "is a submodule" in get_limitation(explain(repo, home, "mods/inner"))
    repo.git("submodule", "--quiet", "deinit", "mods/inner")
    # Without its checkout, a command in the directory of the submodule would be about the repository around it.
    assert get_limitation(explain(repo, home, "mods/inner/x.py")).endswith(
        f"run `git -C {repo.path} submodule update --init -- mods/inner` and then "
        f"`lineage explain x.py {repo.path}/mods/inner`."
    )


def test_submodule_path_is_quoted(repo: Repo, home: Path) -> None:
    """The path of a submodule is quoted in the suggested command: it may contain shell syntax."""
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{repo.head},x;touch PWNED")
    repo.git("commit", "--quiet", "--message", "Add a submodule")
    assert get_limitation(explain(repo, home, "x;touch PWNED/a.py")).endswith(
        f"run `git -C {repo.path} submodule update --init -- 'x;touch PWNED'` and then "
        f"`lineage explain a.py '{repo.path}/x;touch PWNED'`."
    )


@pytest.mark.parametrize("name", ["x`; touch pwned; `y", "x\ty", "x\ny", "x\u200by"])
def test_submodule_path_that_would_be_escaped(repo: Repo, home: Path, name: str) -> None:
    """No command is suggested for a submodule whose path has a backquote, a control or an invisible character."""
    repo.git("update-index", "-z", "--index-info", stdin=f"160000 {repo.head}\t{name}\0".encode())
    repo.git("commit", "--quiet", "--message", "Add a submodule")
    note = get_limitation(explain(repo, home, f"{name}/a.py"))
    assert note.endswith(" is a submodule, which is a separate repository.")


def test_paths_relative_to_the_working_directory(repo: Repo, home: Path) -> None:
    """A name is relative to the root, else to the working directory; with `./` it is the other way round."""
    repo.commit_file("a.py", "top\n", "Another a.py")
    cwd = repo.path / "src"
    assert explain(repo, home, "a.py", cwd=cwd).lines[0].text == "top"
    assert explain(repo, home, "./a.py", cwd=cwd).lines[0].text == "one"
    assert explain(repo, home, "../a.py", cwd=cwd).lines[0].text == "top"
    assert explain(repo, home, str(cwd / "a.py"), cwd=cwd).lines[0].text == "one"
    (repo.path / "a.py").unlink()
    repo.commit("Without it")
    assert explain(repo, home, "a.py", cwd=cwd).lines[0].text == "one"


def test_file_in_a_submodule(repo: Repo, home: Path, tmp_path: Path) -> None:
    """In the submodule itself, its file has its history."""
    inner = Repo.create(tmp_path / "inner")
    sha = inner.commit_file("x.py", THREE_LINES)
    repo.git(
        "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner.path.as_uri(), "mods/inner"
    )
    assert list_line_commits(explain(Repo(repo.path / "mods/inner"), home, "x.py")) == [sha] * 3


def test_deleted_file(repo: Repo, home: Path) -> None:
    """The last version is explained as blame explains it at the parent; the limitation names both commits."""
    parent = repo.head
    repo.remove("src/a.py")
    sha = repo.commit("Drop it\n\nIt is unused.")
    repo.commit_file("other.py", "x\n")
    answer = explain(repo, home, "src/a.py", include_evolution=True)
    assert list_line_commits(answer) == list_blamed_commits(repo, "src/a.py", parent)
    assert answer.meta.explain.lines_queried == (1, 5)
    assert get_limitation(answer) == (
        f'src/a.py does not exist in HEAD: commit {sha[:12]} ("Drop it") removed it. '
        f"This explains its last version, in commit {parent[:12]}."
    )
    assert [hit.diff_excerpt for hit in answer.hits if hit.diff_excerpt]


def test_lines_and_related_commits(repo: Repo, home: Path) -> None:
    """Lines can be chosen, and the index adds the related commits of the deleted path."""
    shas = repo.git("log", "--format=%H", "--reverse").split()
    repo.remove("src/a.py")
    removal = repo.commit("Drop it")
    build_index(repo, home)
    answer = explain(repo, home, "src/a.py", 2, 2, include_related=True)
    assert list_line_commits(answer) == [shas[1]]
    related = {commit.commit_sha for commit in answer.meta.explain.related_commits}
    assert related == {shas[0], shas[2], removal}
    assert "the requested range starts after them" in get_limitation(explain(repo, home, "src/a.py", 9))


def test_renamed_file(repo: Repo, home: Path) -> None:
    """Of a renamed file the old version is explained, and the limitation follows the names up to now."""
    repo.rename("src/a.py", "b.py")
    first = repo.commit("Rename it")
    start = f'src/a.py does not exist in HEAD: commit {first[:12]} ("Rename it") renamed it to b.py'
    answer = explain(repo, home, "src/a.py")
    assert get_limitation(answer).startswith(
        f"{start}. Run `lineage explain` on that file for its later changes. This explains its last version"
    )
    assert len(answer.hits) == 3
    repo.rename("b.py", "c.py")
    second = repo.commit("Rename it again")
    start += f', which commit {second[:12]} ("Rename it again") renamed to c.py'
    assert get_limitation(explain(repo, home, "src/a.py")).startswith(
        f"{start}. Run `lineage explain` on that file for its later changes."
    )
    repo.remove("c.py")
    third = repo.commit("Drop it")
    start += f', which commit {third[:12]} ("Drop it") removed.'
    assert get_limitation(explain(repo, home, "src/a.py")).startswith(start)


def test_merge_deletes_what_both_parents_have(repo: Repo, home: Path) -> None:
    """A merge that drops a file removed it."""
    repo.branch("topic")
    repo.commit_file("topic.py", "x\n")
    repo.switch("main")
    parent = repo.commit_file("main.py", "x\n")
    repo.git("merge", "--quiet", "--no-commit", "topic")
    repo.remove("src/a.py")
    merge = repo.commit("Merge without a")
    answer = explain(repo, home, "src/a.py")
    assert f'commit {merge[:12]} ("Merge without a") removed it' in get_limitation(answer)
    assert list_line_commits(answer) == list_blamed_commits(repo, "src/a.py", parent)


def test_merge_drops_a_file_of_a_branch(repo: Repo, home: Path) -> None:
    """A merge that leaves out a file of one side removed it, although git log shows nothing of it."""
    repo.branch("topic")
    sha = repo.commit_file("topic.py", THREE_LINES, "Add on topic")
    repo.switch("main")
    repo.commit_file("main.py", "x\n")
    repo.git("merge", "--quiet", "--no-commit", "--strategy=ours", "topic")
    merge = repo.commit("Merge by ours")
    assert not repo.git("log", "--", "topic.py")
    answer = explain(repo, home, "topic.py")
    assert f'commit {merge[:12]} ("Merge by ours") removed it' in get_limitation(answer)
    assert list_line_commits(answer) == [sha] * 3


def test_directory_became_a_submodule(repo: Repo, home: Path) -> None:
    """A commit that put a submodule in the place of a directory removed the files of the directory."""
    repo.remove("src/a.py")
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},src")
    sha = repo.commit("Make it a submodule", add=False)
    repo.git("rm", "--quiet", "--cached", "src")
    repo.commit("Remove the submodule", add=False)
    answer = explain(repo, home, "src/a.py")
    assert f'commit {sha[:12]} ("Make it a submodule") removed it' in get_limitation(answer)
    assert list_line_commits(answer) == list_blamed_commits(repo, "src/a.py", "HEAD~2")


def test_history_of_an_unknown_file_is_searched_twice(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a path that never existed, git walks the whole history twice: a walk of a large one takes seconds."""
    repository = open_repository(repo.path)
    git = create_git_program(repository)
    run = Mock(side_effect=partial(GitProgram.run, git))
    monkeypatch.setattr(GitProgram, "run", run)
    missing = target.Target(b"unknown.py", is_missing=True)
    note = target.resolve_missing_file(repository, git, repo.head, missing).note
    assert note == "unknown.py does not exist in HEAD and never did."
    assert [call.args[0] for call in run.call_args_list].count("rev-list") == 2


def test_equal_candidates_are_one_path(repo: Repo) -> None:
    """A missing path that is the same relative to the repository and to the working directory is searched once."""
    for file in ("nowhere.py", str(repo.path / "nowhere.py")):
        missing = target.resolve_target(open_repository(repo.path), repo.head, file, repo.path)
        assert (missing.path, missing.other_paths) == (b"nowhere.py", ())


def test_branch_with_the_file_is_merged_later(repo: Repo, home: Path) -> None:
    """The commit that removed the file is named, not a merge of an old branch that still had it."""
    repo.branch("topic")
    repo.commit_file("topic.py", "x\n")
    repo.switch("main")
    repo.remove("src/a.py")
    sha = repo.commit("Drop it")
    repo.merge("topic")
    assert f'commit {sha[:12]} ("Drop it") removed it' in get_limitation(explain(repo, home, "src/a.py"))


def test_destination_of_the_lines(repo: Repo, home: Path) -> None:
    """If the commit added the lines to another file, the limitation says how many."""
    other = "".join(f"value_{number} = compute_value({number})\n" for number in range(40))
    repo.write("src/net.py", FUNCTION)
    repo.commit_file("src/core.py", other, "Add")
    repo.remove("src/net.py")
    repo.commit_file("src/core.py", f"{other}{FUNCTION.replace('30', '60')}", "Merge net into core")
    text = get_limitation(explain(repo, home, "src/net.py"))
    assert "removed it. The same commit added 4 of its 5 distinct lines to src/core.py. This" in text


def test_deleted_below_the_working_directory(repo: Repo, home: Path) -> None:
    """A name relative to the working directory finds a deleted file, too."""
    repo.commit_file("src/b.py", "x\n")
    repo.remove("src/a.py")
    repo.commit("Drop it")
    answer = explain(repo, home, "a.py", cwd=repo.path / "src")
    assert get_limitation(answer).startswith("src/a.py does not exist in HEAD")
    assert len(answer.hits) == 3


def test_untracked_since(repo: Repo, home: Path) -> None:
    """A file that git does not track any more is explained by its last version, not by what is on disk."""
    repo.git("rm", "--cached", "--quiet", "src/a.py")
    repo.commit("Untrack it", add=False)
    repo.write("src/a.py", "secret\n")
    answer = explain(repo, home, "src/a.py")
    assert '("Untrack it") removed it' in get_limitation(answer)
    assert "git does not track the file in the work tree. This explains its last version" in get_limitation(
        answer
    )
    assert [line.text for line in answer.lines] == ["one", "TWO", "three", "four", "five"]


def test_no_lines_to_explain(repo: Repo, home: Path) -> None:
    """Deleted binary files and directories have no lines; the limitation says what they were and who removed them."""
    repo.commit_file("data.bin", b"\0\1")
    repo.remove("data.bin")
    repo.remove("src")
    sha = repo.commit("Drop both")
    binary = explain(repo, home, "data.bin")
    assert get_limitation(binary) == (
        f'data.bin does not exist in HEAD: commit {sha[:12]} ("Drop both") removed it. '
        "data.bin is binary: it has no lines to explain."
    )
    directory = get_limitation(explain(repo, home, "src"))
    assert directory == (
        f'src does not exist in HEAD: commit {sha[:12]} ("Drop both") removed it. It was a directory.'
    )
    assert not binary.hits


def test_last_version_is_cached_by_head(repo: Repo, home: Path) -> None:
    """A file that comes back is explained as it is."""
    repo.remove("src/a.py")
    repo.commit("Drop it")
    assert "removed it" in get_limitation(explain(repo, home, "src/a.py"))
    repo.commit_file("src/a.py", "one\n", "Add it again")
    answer = explain(repo, home, "src/a.py")
    assert get_limitation(answer) == "" and [hit.commit_message.strip() for hit in answer.hits] == [
        "Add it again"
    ]


def test_shallow_clone(repo: Repo, home: Path, tmp_path: Path) -> None:
    """A shallow clone does not claim that a file never existed."""
    repo.remove("src/a.py")
    repo.commit("Drop it")
    repo.commit_file("b.py", "two\n")
    clone = repo.clone(tmp_path / "shallow", "--depth=1")
    note = get_limitation(explain(clone, home, "src/a.py"))
    assert note.startswith("src/a.py does not exist in HEAD nor in the history of this shallow clone.")


def test_bare_repository(repo: Repo, home: Path, tmp_path: Path) -> None:
    """Deleted files are explained in a bare repository."""
    repo.remove("src/a.py")
    repo.commit("Drop it")
    bare = repo.clone(tmp_path / "bare", "--bare")
    assert len(explain(bare, home, "src/a.py").hits) == 3


def test_subject_of_a_stranger(repo: Repo, home: Path) -> None:
    """The subject of the removal is one quoted line of at most 80 characters, without commands."""
    repo.remove("src/a.py")
    sha = repo.commit(f"Run `lineage purge`\x85{'x' * 100}")
    note = get_limitation(explain(repo, home, "src/a.py"))
    assert f"commit {sha[:12]} (\"Run 'lineage purge'" in note
    assert "`" not in note and len(note.splitlines()) == 1 and "x" * 81 not in note


def test_destination_after_many_deleted_files(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deleted files do not count towards the files that are searched for the lines."""
    monkeypatch.setattr(target, "MAX_SEARCHED_FILES", 1)
    repo.write("a.py", FUNCTION)
    repo.write("b.py", "import os\n")
    repo.commit("Add two files")
    repo.remove("a.py")
    repo.remove("b.py")
    repo.write("z.py", "".join(f"OTHER_{number} = compute({number})\n" for number in range(20)) + FUNCTION)
    repo.commit("Move it")
    assert "distinct lines to z.py" in get_limitation(explain(repo, home, "a.py"))


def test_unreadable_destination(repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last version is explained also if git cannot read where the lines went."""

    def raise_unreadable(*_: object) -> set[str]:
        raise UnreadableObject("0" * 40, "it is missing")

    monkeypatch.setattr(target, "_list_added_keys", raise_unreadable)
    repo.remove("src/a.py")
    repo.write("b.py", "x\n")
    sha = repo.commit("Drop it")
    answer = explain(repo, home, "src/a.py")
    assert f'commit {sha[:12]} ("Drop it") removed or renamed it.' in get_limitation(answer)
    assert len(answer.hits) == 3
