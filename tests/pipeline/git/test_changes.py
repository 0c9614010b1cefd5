"""Renames: into and out of ignored directories, of long and oversized files, and of symlinks and submodules."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.git import changes
from pipeline.git.repository import open_repository
from pipeline.hunks import CommitChanges, extract_hunks
from tests.pipeline.git.tree_helpers import create_repo, extract_changes, extract_only_hunk, summarize_hunks
from tests.repos import Repo

IGNORED_DIRECTORY = "vendor/"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return create_repo(tmp_path / "work")


def extract_visible_changes(repo: Repo) -> CommitChanges:
    """Return the changes of HEAD outside of the ignored directory."""
    return extract_hunks(
        open_repository(repo.path), repo.head, lambda path: path.startswith(IGNORED_DIRECTORY)
    )


@pytest.mark.parametrize("is_edited", [False, True])
def test_a_move_into_an_ignored_directory_is_a_deletion(repo: Repo, is_edited: bool) -> None:
    """A file that moves into an ignored directory is a deleted file, with its text as removed text."""
    repo.rename("a.py", "vendor/a.py")
    if is_edited:
        repo.write("vendor/a.py", (repo.path / "vendor/a.py").read_text() + "more\n")
    repo.commit_file("b.py", "b\n", "Move")
    assert summarize_hunks(extract_visible_changes(repo).hunks) == [
        ("a.py", "deleted", "text", 0, 20),
        ("b.py", "added", "text", 1, 0),
    ]
    assert extract_visible_changes(repo).hunks[0].removed_text.startswith("line 1\n")
    assert extract_visible_changes(repo).hunks[0].new_blob is None


def test_a_move_out_of_an_ignored_directory_is_an_addition(repo: Repo) -> None:
    """A file that moves out of an ignored directory is an added file, without an old path."""
    repo.rename("a.py", "vendor/a.py")
    repo.commit("Away")
    repo.rename("vendor/a.py", "c.py")
    repo.commit("Back")
    [hunk] = extract_visible_changes(repo).hunks
    assert summarize_hunks([hunk]) == [("c.py", "added", "text", 20, 0)]
    assert (hunk.old_path, hunk.old_blob) == (None, None)


def test_a_move_within_an_ignored_directory_is_ignored(repo: Repo) -> None:
    """A commit that moves a file within an ignored directory has no hunks."""
    repo.rename("a.py", "vendor/a.py")
    repo.commit("Away")
    repo.rename("vendor/a.py", "vendor/b.py")
    repo.commit("Within")
    assert extract_visible_changes(repo) == CommitChanges((), all_ignored=True)


def test_a_merge_that_moves_a_file_into_an_ignored_directory(repo: Repo) -> None:
    """A merge that moves a file into an ignored directory has a hunk that deletes the file."""
    repo.branch("side")
    repo.commit_file("side.py", "side\n")
    repo.switch("main")
    repo.commit_file("main.py", "main\n")
    repo.git("merge", "--quiet", "--no-ff", "--no-commit", "side")
    repo.rename("a.py", "vendor/a.py")
    repo.commit("Merge")
    assert summarize_hunks(extract_visible_changes(repo).hunks) == [("a.py", "deleted", "text", 0, 20)]


@pytest.mark.parametrize("large_file_change", ["added", "deleted", "moved"])
def test_a_large_file_does_not_prevent_renames_of_others(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, large_file_change: str
) -> None:
    """A large file is paired only by equal content; the other files are paired as in git."""
    monkeypatch.setattr(changes, "MAX_RENAME_BYTES", 1_000)
    if large_file_change != "added":
        repo.write("large.txt", "x\n" * 1_000)
    repo.write("other.py", "".join(f"other {n}\n" for n in range(20)))
    repo.commit("Second")
    repo.rename("a.py", "moved/b.py")
    repo.write("moved/b.py", (repo.path / "moved/b.py").read_text() + "more\n")
    repo.rename("other.py", "another.py")
    if large_file_change == "added":
        repo.write("large.txt", "x\n" * 1_000)
    elif large_file_change == "deleted":
        repo.remove("large.txt")
    else:
        repo.rename("large.txt", "huge.txt")
    repo.commit("Move")
    expected_change = {
        "added": ("large.txt", "added", "text", 1_000, 0),
        "deleted": ("large.txt", "deleted", "text", 0, 1_000),
        "moved": ("huge.txt", "renamed", "text", 0, 0),
    }[large_file_change]
    hunks = extract_changes(repo).hunks
    assert summarize_hunks(hunks) == sorted(
        [("another.py", "renamed", "text", 0, 0), ("moved/b.py", "renamed", "text", 1, 0), expected_change]
    )
    moved_hunk = next(hunk for hunk in hunks if hunk.file_path == "moved/b.py")
    assert (moved_hunk.old_path, moved_hunk.added_text) == ("a.py", "more")
    git_changes = repo.git("show", "--find-renames", "--name-status", "--format=", "HEAD")
    assert "a.py\tmoved/b.py" in git_changes


def test_oversized_files_with_odd_names(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Oversized files are paired even if paths are not UTF-8 or a file was replaced by a directory."""
    monkeypatch.setattr(changes, "MAX_RENAME_BYTES", 1_000)
    blob = repo.git("hash-object", "-w", "--stdin", stdin=b"x\n" * 1_000)
    stage = ("update-index", "--add", "-z", "--index-info")
    repo.git(
        *stage, stdin=f"100644 {blob}\t".encode() + b"gr\xf6\xdfe\0" + f"100644 {blob}\tlarge\0".encode()
    )
    repo.commit("Second", add=False)
    repo.git("rm", "--cached", "--quiet", "large")
    entries = [b"a.py\0", b"gr\xf6\xdfe\0"]
    repo.git(*stage, stdin=b"".join(b"0 " + b"0" * 40 + b"\t" + entry for entry in entries))
    small_blob = repo.git("hash-object", "-w", "--stdin", stdin=(repo.path / "a.py").read_bytes() + b"more\n")
    repo.git(
        *stage, stdin=f"100644 {small_blob}\tlarge/b.py\0".encode() + f"100644 {blob}\t".encode() + b"\xe9\0"
    )
    repo.commit("Third", add=False)
    hunk_changes = [(hunk.old_path, hunk.file_path, hunk.change_kind) for hunk in extract_changes(repo).hunks]
    assert hunk_changes in (
        [(None, "large", "deleted"), ("a.py", "large/b.py", "renamed"), (r"gr\xf6\xdfe", r"\xe9", "renamed")],
        [(None, r"gr\xf6\xdfe", "deleted"), ("a.py", "large/b.py", "renamed"), ("large", r"\xe9", "renamed")],
    )


@pytest.mark.parametrize("limit", [changes.RENAME_LIMIT, 0])
def test_moved_symlinks_and_submodules_are_renames(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """Symlinks and submodules are paired by equal content, as in git, below and above the rename limit."""
    monkeypatch.setattr(changes, "RENAME_LIMIT", limit)
    repo.symlink("link", "a.py")
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module")
    repo.git("add", "link")
    repo.commit("Second", add=False)
    repo.git("mv", "link", "linked")
    repo.git("update-index", "--force-remove", "module")
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub/module")
    repo.commit("Move", add=False)
    assert [
        line.split() for line in repo.git("show", "--name-status", "-M", "--format=", "HEAD").split("\n")
    ] == [
        ["R100", "link", "linked"],
        ["R100", "module", "sub/module"],
    ]
    assert [(hunk.old_path, *summarize_hunks([hunk])[0]) for hunk in extract_changes(repo).hunks] == [
        ("link", "linked", "renamed", "symlink", 0, 0),
        ("module", "sub/module", "renamed", "submodule", 0, 0),
    ]


def test_a_file_is_not_renamed_to_a_symlink(repo: Repo) -> None:
    """A file and a symlink of equal content are not paired as a rename. Files with different permissions are."""
    repo.commit_file("name", "a.py")
    (repo.path / "name").unlink()
    repo.symlink("link", "a.py")
    repo.commit("Move")
    assert [(hunk.file_path, hunk.change_kind) for hunk in extract_changes(repo).hunks] == [
        ("link", "added"),
        ("name", "deleted"),
    ]
    repo.rename("a.py", "run.py")
    (repo.path / "run.py").chmod(0o755)
    repo.commit("Move")
    assert extract_only_hunk(repo).change_kind == "renamed"


def write_numbered_lines(repo: Repo, path: str, count: int, changed: range) -> None:
    """Write a file of `count` similar lines. The lines in `changed` have another end."""
    lines = (f"line {number}{' changed' if number in changed else ''}\n" for number in range(count))
    repo.write(path, "".join(lines))


@pytest.mark.parametrize("changed", [range(350), range(800, 1150), range(1750, 2100)])
def test_long_file_with_many_changed_lines_is_renamed(repo: Repo, changed: range) -> None:
    """A long file is renamed for git and for the index, wherever its changed lines are."""
    write_numbered_lines(repo, "old.txt", 2_100, range(0))
    repo.commit("Write")
    repo.rename("old.txt", "new.txt")
    write_numbered_lines(repo, "new.txt", 2_100, changed)
    repo.commit("Move")
    assert repo.git("show", "--find-renames", "--name-status", "--format=", "HEAD").startswith("R0")
    [hunk] = extract_changes(repo).hunks
    assert summarize_hunks([hunk]) == [("new.txt", "renamed", "text", len(changed), len(changed))]
    assert hunk.old_path == "old.txt"


def test_most_similar_long_files_are_paired(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long file is paired with the file that has most of its lines. Above the size limit, no files are compared."""
    write_numbered_lines(repo, "a.txt", 2_100, range(0))
    repo.commit("Write")
    repo.rename("a.txt", "b.txt")
    write_numbered_lines(repo, "b.txt", 2_100, range(600))
    write_numbered_lines(repo, "c.txt", 2_100, range(350))
    repo.commit("Move")
    assert summarize_hunks(extract_changes(repo).hunks) == [
        ("b.txt", "added", "text", 2_100, 0),
        ("c.txt", "renamed", "text", 350, 350),
    ]
    monkeypatch.setattr(changes, "MAX_COMPARED_BYTES", 10_000)
    assert {hunk.change_kind for hunk in extract_changes(repo).hunks} == {"added", "deleted"}
