"""Resolution of file names: special names, other kinds of files, missing files, paths outside."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.repos import Repo
from tests.serve.explain.helpers import (
    THREE_LINES,
    create_five_line_repo,
    explain,
    get_limitation,
    list_blamed_commits,
    list_line_commits,
)

NAMES = ["-L1,1", "--help", "with space", 'quo"te', "new\nline", "tab\t", "ü", "*", ":(top)x", "a=b"]


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
        ("src/a.py:9", "src/a.py has 5 lines: the range starts after its end."),
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
        "mods/inner is a submodule, which is a separate repository: run `lineage explain x.py mods/inner`."
    )
    assert "is a submodule" in get_limitation(explain(repo, home, "mods/inner"))


def test_submodule_path_is_quoted(repo: Repo, home: Path) -> None:
    """The path of a submodule is quoted in the suggested command: it may contain shell syntax."""
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{repo.head},x;touch PWNED")
    repo.git("commit", "--quiet", "--message", "Add a submodule")
    assert "run `lineage explain a.py 'x;touch PWNED'`." in get_limitation(
        explain(repo, home, "x;touch PWNED/a.py")
    )


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
