"""Hunks of merge commits: lines and files that the merge itself changed. Without such changes: the merged paths."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.git.repository import open_repository
from pipeline.hunks import CommitChanges, extract_hunks
from tests.pipeline.git.tree_helpers import (
    create_repo,
    create_temporary_repo,
    extract_changes,
    extract_only_hunk,
    summarize_hunks,
)
from tests.repos import Repo


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return create_repo(tmp_path / "work")


def test_a_clean_merge_has_no_hunks(repo: Repo) -> None:
    """A merge has no hunks for files and lines that it took unchanged from its parents. It lists the merged files."""
    repo.branch("side")
    text = (repo.path / "a.py").read_text()
    repo.write("a.py", text.replace("line 2\n", "side\n"))
    repo.commit_file("side.py", "side\n")
    repo.switch("main")
    repo.commit_file("a.py", text.replace("line 18\n", "main\n"))
    repo.merge("side")
    assert extract_changes(repo) == CommitChanges((), all_ignored=False, merged_paths=("a.py", "side.py"))


def test_paths_of_a_clean_merge(repo: Repo) -> None:
    """The merged paths are all that differ from the first parent, even in an octopus merge. A rename has two paths."""
    for name in ("one", "two"):
        repo.branch(name, "main")
        repo.rename("a.py", f"sub/{name}.py") if name == "one" else repo.write("two.py", "2\n")
        repo.commit(name)
    repo.switch("main")
    repo.commit_file("main.py", "main\n")
    repo.merge("one", "two")
    assert extract_changes(repo).merged_paths == ("a.py", "sub/one.py", "two.py")
    repo.merge("two")
    assert extract_changes(repo) == CommitChanges((), all_ignored=False)


def test_ignored_paths_of_a_merge(repo: Repo) -> None:
    """Ignored paths are left out. If a merge changes only ignored paths, `all_ignored` is set, as for any commit."""

    def extract() -> CommitChanges:
        return extract_hunks(open_repository(repo.path), repo.head, lambda path: path.endswith(".lock"))

    repo.branch("side")
    repo.commit_file("x.lock", "side\n")
    repo.switch("main")
    repo.commit_file("x.lock", "main\n")
    repo.merge("side", resolution={"x.lock": "both\n"})
    assert extract() == CommitChanges((), all_ignored=True)
    repo.switch("side")
    repo.commit_file("side.py", "side\n")
    repo.switch("main")
    repo.merge("side", resolution={"x.lock": "all\n"})
    assert extract() == CommitChanges((), all_ignored=False, merged_paths=("side.py",))


def test_a_resolved_conflict_is_a_hunk(repo: Repo) -> None:
    """The hunk has the lines that no parent has, and the lines they replaced in the parent with the smallest diff."""
    text = (repo.path / "a.py").read_text()
    repo.branch("side")
    repo.commit_file("a.py", text.replace("line 9\n", "side 9\n").replace("line 1\n", "side 1\n"))
    repo.switch("main")
    repo.commit_file("a.py", text.replace("line 9\n", "main 9\n"))
    resolved = text.replace("line 9\n", "both 9\n").replace("line 1\n", "side 1\n")
    repo.merge("side", resolution={"a.py": resolved})
    hunk = extract_only_hunk(repo)
    assert summarize_hunks([hunk]) == [("a.py", "modified", "text", 1, 1)]
    assert (hunk.added_text, hunk.removed_text) == ("both 9", "side 9")
    assert [(part.added, part.removed) for part in hunk.parts] == [((9,), (9,))]
    assert hunk.old_blob is None


def test_a_merge_with_manual_changes(repo: Repo) -> None:
    """A file that only the merge has, a file that only the merge lacks, and removed lines of both parents are hunks."""
    repo.write("gone.py", "gone\n")
    repo.commit("Second")
    text = (repo.path / "a.py").read_text()
    repo.branch("side")
    repo.commit_file("side.py", "side\n")
    repo.switch("main")
    repo.commit_file("main.py", "main\n")
    repo.git("merge", "--quiet", "--no-ff", "--no-commit", "side")
    repo.write("evil.py", "evil\n")
    repo.remove("gone.py")
    repo.write("a.py", text.replace("line 5\n", ""))
    repo.commit("Merge")
    assert summarize_hunks(extract_changes(repo).hunks) == [
        ("a.py", "modified", "text", 0, 1),
        ("evil.py", "added", "text", 1, 0),
        ("gone.py", "deleted", "text", 0, 1),
    ]


def test_a_rename_on_one_branch_and_an_edit_on_the_other_merge_cleanly(repo: Repo) -> None:
    """A file that one branch renamed and the other edited is no hunk of a clean merge."""
    text = (repo.path / "a.py").read_text()
    repo.branch("side")
    repo.rename("a.py", "b.py")
    repo.commit("Move")
    repo.switch("main")
    repo.commit_file("a.py", text.replace("line 5\n", "five\n"))
    repo.merge("side")
    assert repo.git("ls-files") == "b.py"
    assert extract_changes(repo).hunks == ()


def test_an_octopus_merge_differs_from_every_parent(repo: Repo) -> None:
    """A merge of three parents has a hunk only for the file that no parent has."""
    for name in ("one", "two"):
        repo.branch(name, "main")
        repo.commit_file(f"{name}.py", f"{name}\n")
        repo.switch("main")
    repo.commit_file("main.py", "main\n")
    repo.merge("one", "two", resolution={"extra.py": "extra\n"})
    assert repo.git("rev-list", "--parents", "-1", "HEAD").count(" ") == 3
    assert summarize_hunks(extract_changes(repo).hunks) == [("extra.py", "added", "text", 1, 0)]


def test_a_manually_resolved_binary_file_is_a_hunk(repo: Repo) -> None:
    """A binary file that differs from both parents is a hunk without lines."""
    repo.commit_file("image", b"\0base")
    repo.branch("side")
    repo.commit_file("image", b"\0side")
    repo.switch("main")
    repo.commit_file("image", b"\0main")
    repo.merge("side")
    repo.write("image", b"\0both")
    repo.commit("Merge", amend=True)
    assert summarize_hunks(extract_changes(repo).hunks) == [("image", "modified", "binary", 0, 0)]


def create_merge(repo: Repo, texts: Sequence[str], result: str) -> str:
    """Create a merge of one file, and return the sha of the merge.

    `texts`: contents of the file in the parents. `result`: its content in the merge.
    """
    messages = [f"parent {number}".encode() for number in range(len(texts))]
    parents = [
        repo.git("commit-tree", create_tree(repo, text), stdin=message)
        for text, message in zip(texts, messages, strict=True)
    ]
    return repo.git(
        "commit-tree", create_tree(repo, result), *(f"-p{sha}" for sha in parents), stdin=b"merge"
    )


def create_tree(repo: Repo, text: str) -> str:
    blob = repo.git("hash-object", "-w", "--stdin", stdin=text.encode())
    return repo.git("mktree", stdin=f"100644 blob {blob}\tfile.txt\n".encode())


texts = st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=12).map(
    lambda lines: "".join(f"{line}\n" for line in lines)
)


@settings(max_examples=30)
@given(st.lists(texts, min_size=2, max_size=3), texts)
def test_added_lines_are_those_of_git_show_cc(parents: list[str], result: str) -> None:
    """The added lines are those that `git show --cc` marks with a plus for each parent."""
    with create_temporary_repo() as repo:
        sha = create_merge(repo, parents, result)
        git_lines = repo.git("show", "--cc", "--format=", "-U100", sha).split("\n")
        marks = "+" * len(parents)
        expected = [line.removeprefix(marks) for line in git_lines if line.startswith(marks)]
        expected = [line for line in expected if line in set("abcdefg")]  # the file's name is marked too
        added = [line for hunk in extract_changes(repo, sha).hunks for line in hunk.added_text.split()]
        assert added == expected
