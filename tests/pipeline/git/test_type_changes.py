"""A path that changes its type: a file, a symlink and a submodule become each other, content and all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from pipeline.git.repository import open_repository
from pipeline.hunks import OVERSIZE_BYTES, Hunk
from pipeline.parse import Parses
from tests.pipeline.git.tree_helpers import begun, changed, only, summary
from tests.repos import Repo

MODULE = "1" * 40
SOURCE = "def greet():\n    return 1\n"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return begun(tmp_path / "work")


def put(repo: Repo, path: str, kind: str) -> None:
    """Stage a path as one of three types."""
    if kind == "submodule":
        entry = f"160000,{MODULE},{path}"
    else:
        content, mode = {"file": (SOURCE, "100644"), "symlink": ("def x(): pass", "120000")}[kind]
        entry = f"{mode},{repo.git('hash-object', '-w', '--stdin', stdin=content.encode())},{path}"
    repo.git("update-index", "--add", "--cacheinfo", entry)


def symbols(repo: Repo, hunk: Hunk) -> list[str]:
    return [symbol.name for symbol in Parses().touched(hunk, open_repository(repo.path))]


# What stands for each type in a diff, and the symbols that its content defines.
TEXTS = {"file": SOURCE.rstrip(), "symlink": "def x(): pass", "submodule": f"Subproject commit {MODULE}"}
DEFINES: Mapping[str, list[str]] = {"file": ["greet"], "symlink": [], "submodule": []}


@pytest.mark.parametrize("old", TEXTS)
@pytest.mark.parametrize("new", TEXTS)
def test_both_contents_are_in_the_hunk(repo: Repo, old: str, new: str) -> None:
    """Texts and counts are git's; of a file's content alone are symbols looked for, and no commit is asked for."""
    if old == new:
        return
    for kind in (old, new):
        put(repo, "b.py", kind)
        repo.commit(kind, add=False)
    hunk = only(repo)
    expected = "text" if new == "file" else new
    assert (hunk.change_kind, hunk.content_kind) == ("type_changed", expected)
    assert (hunk.removed_text, hunk.added_text) == (TEXTS[old], TEXTS[new])
    counted = repo.git("show", "--numstat", "--format=", "HEAD")
    assert counted == f"{hunk.added_lines}\t{hunk.removed_lines}\tb.py"
    for sign, kind in (("-", old), ("+", new)):
        assert [f"{sign}{line}" in hunk.diff.split("\n") for line in TEXTS[kind].split("\n")] == [True] * len(
            TEXTS[kind].split("\n")
        )
    assert symbols(repo, hunk) == DEFINES[old] + DEFINES[new]
    assert [hunk.old_blob is not None, hunk.new_blob is not None] == [old == "file", new == "file"]


@pytest.mark.parametrize("new", ["symlink", "submodule"])
def test_a_file_that_is_no_text_is_named(repo: Repo, new: str) -> None:
    """Binary and oversize files have no lines when they become something else either."""
    for content, kind in ((b"\0\n", "binary"), (b"x\n" * OVERSIZE_BYTES, "oversize")):
        repo.commit_file("b.py", content)
        put(repo, "b.py", new)
        repo.commit("Another type", add=False)
        assert summary(changed(repo).hunks) == [("b.py", "type_changed", kind, 0, 0)]


def test_attributes_say_what_is_text(repo: Repo) -> None:
    """As `git show --numstat` has it, which counts no lines where one side is no text."""
    repo.commit_file(".gitattributes", "*.lock -diff\n")
    repo.commit_file("b.lock", "text\n")
    put(repo, "b.lock", "symlink")
    repo.commit("To link", add=False)
    assert repo.git("show", "--numstat", "--format=", "HEAD") == "-\t-\tb.lock"
    assert summary(changed(repo).hunks) == [("b.lock", "type_changed", "binary", 0, 0)]


def test_attributes_of_a_path_that_is_no_text(repo: Repo) -> None:
    """They count there as well, by the letters that can be read."""
    repo.write(".gitattributes", "*.py diff=python\n*.lock -diff\n")
    names = (b"\xe9.lock", b"\xe9.py")
    for name in names:
        repo.write(name, "text\n")
    repo.commit("Files")
    for name in names:
        file = repo.path / os.fsdecode(name)
        file.unlink()
        file.symlink_to("a.py")
    repo.commit("To links")
    assert summary(changed(repo).hunks) == [
        (r"\xe9.lock", "type_changed", "binary", 0, 0),
        (r"\xe9.py", "type_changed", "symlink", 1, 1),
    ]


@pytest.mark.parametrize("new", ["file", "symlink", "submodule"])
def test_a_merge_that_changes_a_type_wrote_it(repo: Repo, new: str) -> None:
    """What is of another type in every parent is the merge's own, content and all."""
    old = "symlink" if new == "file" else "file"
    put(repo, "b.py", old)
    base = repo.commit("Base", add=False)
    tree = {}
    for kind in (old, new):
        put(repo, "b.py", kind)
        tree[kind] = repo.git("write-tree")
    parents = [repo.git("commit-tree", tree[old], f"-p{base}", stdin=side) for side in (b"one", b"two")]
    merge = repo.git("commit-tree", tree[new], *(f"-p{parent}" for parent in parents), stdin=b"merge")
    hunk = only(repo, merge)
    assert (hunk.change_kind, hunk.added_text) == ("type_changed", TEXTS[new])
    assert f"+{TEXTS[new].splitlines()[0]}" in hunk.diff


def test_a_merge_that_changes_nothing_but_a_type(repo: Repo) -> None:
    """A symlink's target and a file may be the same bytes."""
    blob = repo.git("hash-object", "-w", "--stdin", stdin=b"a.py")
    link, file = (
        repo.git("mktree", stdin=f"{mode} blob {blob}\tb\n".encode()) for mode in ("120000", "100644")
    )
    parents = [repo.git("commit-tree", link, stdin=side) for side in (b"one", b"two")]
    merge = repo.git("commit-tree", file, *(f"-p{parent}" for parent in parents), stdin=b"merge")
    assert summary(changed(repo, merge).hunks) == [("b", "type_changed", "text", 0, 0)]
