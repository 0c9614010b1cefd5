"""Files that move: into what is ignored and out of it, beside large ones, and what is no file."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.git import changes
from pipeline.git.repository import open_repository
from pipeline.hunks import Changed, hunks
from tests.pipeline.git.tree_helpers import begun, changed, only, summary
from tests.repos import Repo

VENDORED = "vendor/"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return begun(tmp_path / "work")


def seen(repo: Repo) -> Changed:
    """What HEAD changed outside of the ignored folder."""
    return hunks(open_repository(repo.path), repo.head, lambda path: path.startswith(VENDORED))


@pytest.mark.parametrize("edited", [False, True])
def test_a_move_into_an_ignored_folder_is_a_deletion(repo: Repo, edited: bool) -> None:
    """The message that says why is kept, and so is what went."""
    repo.rename("a.py", "vendor/a.py")
    if edited:
        repo.write("vendor/a.py", (repo.path / "vendor/a.py").read_text() + "more\n")
    repo.commit_file("b.py", "b\n", "Move")
    assert summary(seen(repo).hunks) == [("a.py", "deleted", "text", 0, 20), ("b.py", "added", "text", 1, 0)]
    assert seen(repo).hunks[0].removed_text.startswith("line 1\n")
    assert seen(repo).hunks[0].new_blob is None


def test_a_move_out_of_an_ignored_folder_is_an_addition(repo: Repo) -> None:
    """As if the file had not been there before, since in the index it was not."""
    repo.rename("a.py", "vendor/a.py")
    repo.commit("Away")
    repo.rename("vendor/a.py", "c.py")
    repo.commit("Back")
    [hunk] = seen(repo).hunks
    assert summary([hunk]) == [("c.py", "added", "text", 20, 0)]
    assert (hunk.old_path, hunk.old_blob) == (None, None)


def test_a_move_within_an_ignored_folder_is_ignored(repo: Repo) -> None:
    """Nothing of it is outside."""
    repo.rename("a.py", "vendor/a.py")
    repo.commit("Away")
    repo.rename("vendor/a.py", "vendor/b.py")
    repo.commit("Within")
    assert seen(repo) == Changed((), all_ignored=True)


def test_a_merge_that_moves_a_file_behind_the_rules(repo: Repo) -> None:
    """Deleted against every parent, where only the merge did it."""
    repo.branch("side")
    repo.commit_file("side.py", "side\n")
    repo.switch("main")
    repo.commit_file("main.py", "main\n")
    repo.git("merge", "--quiet", "--no-ff", "--no-commit", "side")
    repo.rename("a.py", "vendor/a.py")
    repo.commit("Merge")
    assert summary(seen(repo).hunks) == [("a.py", "deleted", "text", 0, 20)]


@pytest.mark.parametrize("large", ["added", "deleted", "moved"])
def test_a_large_file_leaves_the_others_their_names(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, large: str
) -> None:
    """It alone is not compared by likeness; equal content names it still, and its neighbours are paired as by git."""
    monkeypatch.setattr(changes, "RENAME_BYTES", 1_000)
    if large != "added":
        repo.write("large.txt", "x\n" * 1_000)
    repo.write("other.py", "".join(f"other {n}\n" for n in range(20)))
    repo.commit("Second")
    repo.rename("a.py", "moved/b.py")
    repo.write("moved/b.py", (repo.path / "moved/b.py").read_text() + "more\n")
    repo.rename("other.py", "another.py")
    if large == "added":
        repo.write("large.txt", "x\n" * 1_000)
    elif large == "deleted":
        repo.remove("large.txt")
    else:
        repo.rename("large.txt", "huge.txt")
    repo.commit("Move")
    beside = {
        "added": ("large.txt", "added", "text", 1_000, 0),
        "deleted": ("large.txt", "deleted", "text", 0, 1_000),
        "moved": ("huge.txt", "renamed", "text", 0, 0),
    }[large]
    found = changed(repo).hunks
    assert summary(found) == sorted(
        [("another.py", "renamed", "text", 0, 0), ("moved/b.py", "renamed", "text", 1, 0), beside]
    )
    moved = next(hunk for hunk in found if hunk.file_path == "moved/b.py")
    assert (moved.old_path, moved.added_text) == ("a.py", "more")
    told = repo.git("show", "--find-renames", "--name-status", "--format=", "HEAD")
    assert "a.py\tmoved/b.py" in told


def test_large_files_may_have_any_name(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths that are no text, and a file in whose place there is a folder now."""
    monkeypatch.setattr(changes, "RENAME_BYTES", 1_000)
    blob = repo.git("hash-object", "-w", "--stdin", stdin=b"x\n" * 1_000)
    stage = ("update-index", "--add", "-z", "--index-info")
    repo.git(
        *stage, stdin=f"100644 {blob}\t".encode() + b"gr\xf6\xdfe\0" + f"100644 {blob}\tlarge\0".encode()
    )
    repo.commit("Second", add=False)
    repo.git("rm", "--cached", "--quiet", "large")
    entries = [b"a.py\0", b"gr\xf6\xdfe\0"]
    repo.git(*stage, stdin=b"".join(b"0 " + b"0" * 40 + b"\t" + entry for entry in entries))
    small = repo.git("hash-object", "-w", "--stdin", stdin=(repo.path / "a.py").read_bytes() + b"more\n")
    repo.git(*stage, stdin=f"100644 {small}\tlarge/b.py\0".encode() + f"100644 {blob}\t".encode() + b"\xe9\0")
    repo.commit("Third", add=False)
    found = [(hunk.old_path, hunk.file_path, hunk.change_kind) for hunk in changed(repo).hunks]
    assert found in (
        [(None, "large", "deleted"), ("a.py", "large/b.py", "renamed"), (r"gr\xf6\xdfe", r"\xe9", "renamed")],
        [(None, r"gr\xf6\xdfe", "deleted"), ("a.py", "large/b.py", "renamed"), ("large", r"\xe9", "renamed")],
    )


@pytest.mark.parametrize("limit", [changes.RENAME_LIMIT, 0])
def test_symlinks_and_submodules_that_move_keep_their_history(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """git pairs what is no file by equal content, whatever the commit's size; a file is no symlink's source."""
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
    assert [(hunk.old_path, *summary([hunk])[0]) for hunk in changed(repo).hunks] == [
        ("link", "linked", "renamed", "symlink", 0, 0),
        ("module", "sub/module", "renamed", "submodule", 0, 0),
    ]


def test_a_file_is_no_symlinks_source(repo: Repo) -> None:
    """The same bytes as another type are another thing; a file that was made executable is the same."""
    repo.commit_file("name", "a.py")
    (repo.path / "name").unlink()
    repo.symlink("link", "a.py")
    repo.commit("Move")
    assert [(hunk.file_path, hunk.change_kind) for hunk in changed(repo).hunks] == [
        ("link", "added"),
        ("name", "deleted"),
    ]
    repo.rename("a.py", "run.py")
    (repo.path / "run.py").chmod(0o755)
    repo.commit("Move")
    assert only(repo).change_kind == "renamed"
