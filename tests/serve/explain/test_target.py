"""What a file's name can lead to: any name at all, other kinds of files, nothing, somewhere else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.repos import Repo
from tests.serve.explain.helpers import THREE, blamed, commits, counted, explain, limitation

NAMES = ["-L1,1", "--help", "with space", 'quo"te', "new\nline", "tab\t", "ü", "*", ":(top)x", "a=b"]


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return counted(tmp_path / "repo")


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
    ("file", "alike"),
    [
        ("src/b.py", "src/a.py"),
        ("a.py", "lib/A.py or src/a.py"),
        ("src/aa.py", "src/a.py"),
        ("lib/aa.py", "lib/A.py"),
    ],
)
def test_what_was_meant(repo: Repo, home: Path, file: str, alike: str) -> None:
    """A name that no commit has is answered with files of that name elsewhere, or of a like name beside it."""
    repo.commit_file("lib/A.py", "x\n")
    said = f"{file} does not exist in HEAD, nor did it before. Did you mean {alike}?"
    assert limitation(explain(repo, home, file)) == said


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


def test_in_a_submodule(repo: Repo, home: Path, tmp_path: Path) -> None:
    """Asked in the submodule itself, its file has its history."""
    inner = Repo.create(tmp_path / "inner")
    sha = inner.commit_file("x.py", THREE)
    repo.git(
        "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner.path.as_uri(), "mods/inner"
    )
    assert commits(explain(Repo(repo.path / "mods/inner"), home, "x.py")) == [sha] * 3
