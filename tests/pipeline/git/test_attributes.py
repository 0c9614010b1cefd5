"""Git attributes of paths, and attributes files that libgit2 cannot use."""

from __future__ import annotations

import time
from pathlib import Path

import pygit2
import pytest

from pipeline.git.attributes import AttributeReader
from pipeline.git.repository import open_repository
from pipeline.hunks import extract_hunks
from tests.repos import Repo


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo.create(tmp_path / "work")
    repo.commit_file("a.py", "a = 1\n", "First")
    repo.commit_file("src/b.py", "b = 1\n", "Second")
    return repo


def test_attributes_of_head(repo: Repo) -> None:
    """Attributes come from HEAD where the work tree has no attributes file."""
    repo.commit_file(".gitattributes", "*.py linguist-generated\n")
    (repo.path / ".gitattributes").unlink()
    assert open_repository(repo.path).get_attribute("a.py", "linguist-generated") is True


@pytest.mark.parametrize("is_committed", [True, False])
@pytest.mark.parametrize(
    ("pattern", "path"), [("**/a*a/" * 12 + "b", "aaaa/" * 60 + "c.py"), ("*a" * 12 + "b", "a" * 200 + ".py")]
)
def test_slow_attribute_patterns_are_not_matched(
    repo: Repo, pattern: str, path: str, *, is_committed: bool
) -> None:
    """Attributes and changes are read even if libgit2 would need exponential time for a pattern."""
    repo.commit_file(path, "c = 1\n")
    attributes = f"{pattern} linguist-generated\n".encode()
    if is_committed:
        blob = repo.git("hash-object", "-w", "--stdin", stdin=attributes)
        entries = f"{repo.git('ls-tree', 'HEAD')}\n100644 blob {blob}\t.gitattributes\n"
        tree = repo.git("mktree", stdin=entries.encode())
        repo.git("update-ref", "HEAD", repo.git("commit-tree", "-m", "Four", "-p", "HEAD", tree))
    else:
        repo.write(".gitattributes", attributes)
    opened = open_repository(repo.path)
    assert opened.get_attribute(path, "linguist-generated") is None
    changes = [extract_hunks(opened, sha, lambda _path: False) for sha in opened.walk(repo.head)]
    assert path in {hunk.file_path for change in changes for hunk in change.hunks}


@pytest.mark.parametrize(
    "line",
    [
        "# text: *.c *.h *.py *.md *.txt",
        "  # *a*a*a*a*a",
        " \t# carriage return \r*a*a*a*a*a",
        "*.py\tdescription=*",
    ],
)
def test_stars_of_comments(repo: Repo, line: str) -> None:
    """A `*` in a comment is not part of a pattern, so the pattern does not count as slow."""
    repo.write(".gitattributes", f"{line}\n*.py linguist-generated\n")
    assert open_repository(repo.path).get_attribute("a.py", "linguist-generated") is True


@pytest.mark.parametrize(
    "pattern",
    [
        "*a*a*a*a*a",
        '  "* a* a* a* a* a"',
        "*\\ a*\\ a*a*a",
        '"*a*a*a*a',
        '""*a*a*a*a',
        "/ *a*a*a*a",
        "! *a*a*a*a",
        "[attr] *a*a*a*a",
        "\f *a*a*a*a*a",
        "! / *a*a*a*a*a",
        "\ufeff *a*a*a*a*a",
        "*a*a\\\n*a*a*a",
    ],
)
def test_slow_patterns_are_recognized(repo: Repo, pattern: str) -> None:
    """A pattern with many `*` is recognized, also where git or libgit2 skip spaces in it."""
    repo.write(".gitattributes", f"{pattern} text\n*.py linguist-generated\n")
    assert open_repository(repo.path).get_attribute("a.py", "linguist-generated") is None


def test_attributes_of_deep_paths_are_not_looked_up(repo: Repo) -> None:
    """Looking up the attributes files of all directories would take minutes for a path of 10,000 levels."""
    repo.write(".gitattributes", "*.py diff=python\n")
    lookups: list[str] = []
    reader = AttributeReader(pygit2.Repository(repo.path), repo.path, (), lookups.append)
    assert reader.find_diff_options(b"d/" * 50 + b"a.py")[0].endswith("a.py")
    assert len(lookups) == 51
    path = "e/" * 10_000 + "a.py"
    assert (reader.find_diff_options(path.encode())[0], reader.get(path, "diff")) == ("", None)
    assert len(lookups) == 51


def test_attributes_come_from_the_work_tree_or_from_a_bare_head(repo: Repo, tmp_path: Path) -> None:
    """Attributes files in subdirectories apply; a bare repository reads them at HEAD."""
    repo.write(".gitattributes", "*.py linguist-generated=true\n")
    repo.write("src/.gitattributes", "b.py -linguist-generated\n")
    repo.commit("Attributes")
    for path in (repo.path, repo.clone(tmp_path / "bare.git", "--bare").path):
        opened = open_repository(path)
        values = [opened.get_attribute(path, "linguist-generated") for path in ("a.py", "src/b.py", "c.c")]
        assert values == ["true", False, None]


@pytest.mark.parametrize("name", ["xfuncname", "funcname"])
def test_patterns_of_headings_in_the_configuration_are_not_used(repo: Repo, name: str) -> None:
    """`diff.*.xfuncname` changes no hunk and takes no time, also in a commit with a renamed file and a new mode."""
    repo.write(".gitattributes", "*.py diff=own\n")
    lines = "".join(f"{'a' * 30}{number}\n" for number in range(100))
    repo.write("a.py", lines)
    repo.write("b.py", f"b\n{lines}")
    repo.write("c.py", f"c\n{lines}")
    repo.commit("Add files")
    (repo.path / "b.py").unlink()
    for path, first_line in (("a.py", ""), ("c.py", "c\n"), ("d.py", "b\n")):
        repo.write(path, f"{first_line}{lines}end\n")
    (repo.path / "c.py").chmod(0o755)
    repo.commit("Rename a file")
    expected = extract_hunks(open_repository(repo.path), repo.head, lambda _path: False)
    assert {hunk.file_path for hunk in expected.hunks} == {"a.py", "c.py", "d.py"}
    repo.git("config", f"diff.own.{name}", "^((a+)+)+$")
    start = time.process_time()
    assert extract_hunks(open_repository(repo.path), repo.head, lambda _path: False) == expected
    assert time.process_time() - start < 5


@pytest.mark.parametrize("binary", ["true", "false", "auto"])
def test_binary_files_with_patterns_of_headings(repo: Repo, binary: str) -> None:
    """`diff.*.binary` applies as in git, also if the driver has patterns of headings."""
    repo.write(".gitattributes", "*.bin diff=own\n*.txt diff=own\n")
    repo.write("a.bin", b"\0\n")
    repo.write("a.txt", "text\n")
    repo.commit("Add files")
    repo.git("config", "diff.own.binary", binary)
    repo.git("config", "diff.own.xfuncname", "^a")
    commit = extract_hunks(open_repository(repo.path), repo.head, lambda _path: False)
    counts = [f"{hunk.added_lines}\t0\t{hunk.file_path}" for hunk in commit.hunks]
    assert counts == repo.git("show", "--numstat", "--format=").replace("-\t-", "0\t0").splitlines()


def test_javascript_takes_linear_time(repo: Repo) -> None:
    """libgit2's own patterns of headings for `diff=javascript`, which git does not have, are not used."""
    repo.write(".gitattributes", "*.js diff=javascript\n")
    line = "a." * 4_000 + "\n"
    repo.commit_file("a.js", line * 80)
    repo.commit_file("a.js", line * 80 + "b\n")
    start = time.process_time()
    assert extract_hunks(open_repository(repo.path), repo.head, lambda _path: False).hunks
    assert time.process_time() - start < 5


def test_slow_patterns_are_not_matched_for_renames(repo: Repo) -> None:
    """The patch of a commit with a rename does not match slow patterns of an attributes file either."""
    path = "a" * 200 + ".py"
    repo.commit_file(path, "c = 1\n" * 10)
    repo.git("mv", "a.py", "b.py")
    (repo.path / path).write_text("c = 1\n" * 11)
    repo.commit("Rename a file")
    repo.write(".gitattributes", "*a" * 12 + "b text\n")
    commit = extract_hunks(open_repository(repo.path), repo.head, lambda _path: False)
    assert {hunk.file_path for hunk in commit.hunks} == {"b.py", path}


def test_a_diff_attribute_that_is_not_utf8(repo: Repo) -> None:
    """The value of an attribute does not make a commit unreadable."""
    repo.write(".gitattributes", b"*.py diff=\xff\n")
    commit = extract_hunks(open_repository(repo.path), repo.head, lambda _path: False)
    assert [hunk.file_path for hunk in commit.hunks] == ["src/b.py"]
