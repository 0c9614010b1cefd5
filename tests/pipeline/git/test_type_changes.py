"""Changes of a path's type between file, symlink and submodule."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from pipeline.git.repository import open_repository
from pipeline.hunks import OVERSIZE_BYTES, Hunk
from pipeline.syntax.touched_symbols import TouchedSymbolFinder
from tests.pipeline.git.tree_helpers import create_repo, extract_changes, extract_only_hunk, summarize_hunks
from tests.repos import Repo

MODULE = "1" * 40
SOURCE = "def greet():\n    return 1\n"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return create_repo(tmp_path / "work")


def stage_path(repo: Repo, path: str, kind: str) -> None:
    """Stage a path as a file, symlink or submodule."""
    if kind == "submodule":
        entry = f"160000,{MODULE},{path}"
    else:
        content, mode = {"file": (SOURCE, "100644"), "symlink": ("def x(): pass", "120000")}[kind]
        entry = f"{mode},{repo.git('hash-object', '-w', '--stdin', stdin=content.encode())},{path}"
    repo.git("update-index", "--add", "--cacheinfo", entry)


def find_touched_symbols(repo: Repo, hunk: Hunk) -> list[str]:
    """Return the names of the symbols that a hunk touches."""
    return [symbol.name for symbol in TouchedSymbolFinder().find(hunk, open_repository(repo.path))]


# Text that a diff shows for each type of path, and the symbols that a path of this type defines.
DIFF_TEXTS = {"file": SOURCE.rstrip(), "symlink": "def x(): pass", "submodule": f"Subproject commit {MODULE}"}
DEFINED_SYMBOLS: Mapping[str, list[str]] = {"file": ["greet"], "symlink": [], "submodule": []}


@pytest.mark.parametrize("old", DIFF_TEXTS)
@pytest.mark.parametrize("new", DIFF_TEXTS)
def test_both_contents_are_in_the_hunk(repo: Repo, old: str, new: str) -> None:
    """A change of type is one hunk with both texts and the line counts of git.

    Only a side that is a regular file has a blob and symbols.
    """
    if old == new:
        return
    for kind in (old, new):
        stage_path(repo, "b.py", kind)
        repo.commit(kind, add=False)
    hunk = extract_only_hunk(repo)
    expected_kind = "text" if new == "file" else new
    assert (hunk.change_kind, hunk.content_kind) == ("type_changed", expected_kind)
    assert (hunk.removed_text, hunk.added_text) == (DIFF_TEXTS[old], DIFF_TEXTS[new])
    git_counts = repo.git("show", "--numstat", "--format=", "HEAD")
    assert git_counts == f"{hunk.added_lines}\t{hunk.removed_lines}\tb.py"
    for sign, kind in (("-", old), ("+", new)):
        assert [f"{sign}{line}" in hunk.diff.split("\n") for line in DIFF_TEXTS[kind].split("\n")] == [
            True
        ] * len(DIFF_TEXTS[kind].split("\n"))
    assert find_touched_symbols(repo, hunk) == DEFINED_SYMBOLS[old] + DEFINED_SYMBOLS[new]
    assert [hunk.old_blob is not None, hunk.new_blob is not None] == [old == "file", new == "file"]


@pytest.mark.parametrize("new", ["symlink", "submodule"])
def test_a_binary_or_oversize_file_has_no_lines(repo: Repo, new: str) -> None:
    """A binary or oversize file that becomes a symlink or submodule is a hunk without lines."""
    for content, kind in ((b"\0\n", "binary"), (b"x\n" * OVERSIZE_BYTES, "oversize")):
        repo.commit_file("b.py", content)
        stage_path(repo, "b.py", new)
        repo.commit("Another type", add=False)
        assert summarize_hunks(extract_changes(repo).hunks) == [("b.py", "type_changed", kind, 0, 0)]


def test_attributes_apply_to_type_changes(repo: Repo) -> None:
    """As in `git show --numstat`, a change of type has no line counts if attributes make the file binary."""
    repo.commit_file(".gitattributes", "*.lock -diff\n")
    repo.commit_file("b.lock", "text\n")
    stage_path(repo, "b.lock", "symlink")
    repo.commit("To link", add=False)
    assert repo.git("show", "--numstat", "--format=", "HEAD") == "-\t-\tb.lock"
    assert summarize_hunks(extract_changes(repo).hunks) == [("b.lock", "type_changed", "binary", 0, 0)]


def test_attributes_apply_to_paths_that_are_not_utf8(repo: Repo) -> None:
    """Attributes apply to a path that is not UTF-8 if their pattern matches the part of the path that is UTF-8."""
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
    assert summarize_hunks(extract_changes(repo).hunks) == [
        (r"\xe9.lock", "type_changed", "binary", 0, 0),
        (r"\xe9.py", "type_changed", "symlink", 1, 1),
    ]


@pytest.mark.parametrize("new", ["file", "symlink", "submodule"])
def test_a_type_change_by_a_merge_is_a_hunk(repo: Repo, new: str) -> None:
    """If a merge changes a type that all parents have, its hunk has the new content."""
    old = "symlink" if new == "file" else "file"
    stage_path(repo, "b.py", old)
    base = repo.commit("Base", add=False)
    tree = {}
    for kind in (old, new):
        stage_path(repo, "b.py", kind)
        tree[kind] = repo.git("write-tree")
    parents = [repo.git("commit-tree", tree[old], f"-p{base}", stdin=side) for side in (b"one", b"two")]
    merge = repo.git("commit-tree", tree[new], *(f"-p{parent}" for parent in parents), stdin=b"merge")
    hunk = extract_only_hunk(repo, merge)
    assert (hunk.change_kind, hunk.added_text) == ("type_changed", DIFF_TEXTS[new])
    assert f"+{DIFF_TEXTS[new].splitlines()[0]}" in hunk.diff


def test_a_merge_that_only_changes_a_type(repo: Repo) -> None:
    """A merge that turns a symlink into a file with the same bytes is a hunk without lines."""
    blob = repo.git("hash-object", "-w", "--stdin", stdin=b"a.py")
    link, file = (
        repo.git("mktree", stdin=f"{mode} blob {blob}\tb\n".encode()) for mode in ("120000", "100644")
    )
    parents = [repo.git("commit-tree", link, stdin=side) for side in (b"one", b"two")]
    merge = repo.git("commit-tree", file, *(f"-p{parent}" for parent in parents), stdin=b"merge")
    assert summarize_hunks(extract_changes(repo, merge).hunks) == [("b", "type_changed", "text", 0, 0)]
