"""What a merge itself wrote: nothing where it is clean, else its own lines and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.git.merges import TREE, Entries, wrote_files
from pipeline.hunks import Changed
from tests.pipeline.git.tree_helpers import begun, changed, only, scratch, summary
from tests.repos import Repo

Folder: TypeAlias = "Mapping[str, str | Folder]"

contents = st.sampled_from(["1", "2", "3"])
folders = st.recursive(
    st.dictionaries(st.sampled_from("xy"), contents, min_size=1, max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("xyde"), contents | inner, min_size=1, max_size=4),
    max_leaves=6,
)


class Trees:
    """Folders as git keeps them: each by a name that says its content."""

    def __init__(self) -> None:
        self.kept: dict[bytes, Folder] = {}

    def entries(self, folder: Folder) -> Entries:
        return {name.encode(): self.entry(inside) for name, inside in folder.items()}

    def entry(self, inside: str | Folder) -> tuple[bytes, bytes]:
        if isinstance(inside, str):
            return b"100644", inside.encode()
        named = repr(sorted(flat(inside).items())).encode()
        self.kept[named] = inside
        return TREE, named

    def read(self, named: bytes) -> Entries:
        return self.entries(self.kept[named])


def flat(folder: Folder, under: str = "") -> dict[str, str]:
    """Path -> content of every file."""
    found: dict[str, str] = {}
    for name, inside in folder.items():
        found |= {under + name: inside} if isinstance(inside, str) else flat(inside, f"{under}{name}/")
    return found


@given(folders, st.lists(folders, min_size=2, max_size=3))
def test_a_merge_that_wrote_a_file_is_never_missed(result: Folder, parents: list[Folder]) -> None:
    """Where files and folders keep their names apart the answer is exact; else a doubt counts as yes."""
    trees = Trees()
    answer = wrote_files(trees.entries(result), [trees.entries(parent) for parent in parents], trees.read)
    own, theirs = flat(result), [flat(parent) for parent in parents]
    paths = {path for files in (own, *theirs) for path in files}
    expected = any(all(own.get(path) != files.get(path) for files in theirs) for path in paths)
    mixed = any(f"{path}/" in other[: len(path) + 1] for path in paths for other in paths)
    assert answer == expected or (mixed and answer)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return begun(tmp_path / "work")


def test_a_clean_merge_has_no_hunks(repo: Repo) -> None:
    """What a merge took from its branches is indexed with them, files and lines alike."""
    repo.branch("side")
    text = (repo.path / "a.py").read_text()
    repo.write("a.py", text.replace("line 2\n", "side\n"))
    repo.commit_file("side.py", "side\n")
    repo.switch("main")
    repo.commit_file("a.py", text.replace("line 18\n", "main\n"))
    repo.merge("side")
    assert changed(repo) == Changed((), all_ignored=False)


def test_a_resolved_conflict_is_what_the_merge_wrote(repo: Repo) -> None:
    """Lines that no parent has are the merge's own, beside what they replaced in the closest parent."""
    text = (repo.path / "a.py").read_text()
    repo.branch("side")
    repo.commit_file("a.py", text.replace("line 9\n", "side 9\n").replace("line 1\n", "side 1\n"))
    repo.switch("main")
    repo.commit_file("a.py", text.replace("line 9\n", "main 9\n"))
    settled = text.replace("line 9\n", "both 9\n").replace("line 1\n", "side 1\n")
    repo.merge("side", resolution={"a.py": settled})
    hunk = only(repo)
    assert summary([hunk]) == [("a.py", "modified", "text", 1, 1)]
    assert (hunk.added_text, hunk.removed_text) == ("both 9", "side 9")
    assert [(part.added, part.removed) for part in hunk.parts] == [((9,), (9,))]
    assert hunk.old_blob is None


def test_a_merge_can_add_delete_and_drop_by_hand(repo: Repo) -> None:
    """A file only the merge has, one only the merge lacks, and lines both parents had."""
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
    assert summary(changed(repo).hunks) == [
        ("a.py", "modified", "text", 0, 1),
        ("evil.py", "added", "text", 1, 0),
        ("gone.py", "deleted", "text", 0, 1),
    ]


def test_a_rename_on_one_branch_and_an_edit_on_the_other_merge_cleanly(repo: Repo) -> None:
    """Renames are followed towards every parent, so the moved file is not taken for a new one."""
    text = (repo.path / "a.py").read_text()
    repo.branch("side")
    repo.rename("a.py", "b.py")
    repo.commit("Move")
    repo.switch("main")
    repo.commit_file("a.py", text.replace("line 5\n", "five\n"))
    repo.merge("side")
    assert repo.git("ls-files") == "b.py"
    assert changed(repo).hunks == ()


def test_an_octopus_merge_differs_from_every_parent(repo: Repo) -> None:
    """With three parents a line must be new to all three."""
    for name in ("one", "two"):
        repo.branch(name, "main")
        repo.commit_file(f"{name}.py", f"{name}\n")
        repo.switch("main")
    repo.commit_file("main.py", "main\n")
    repo.merge("one", "two", resolution={"extra.py": "extra\n"})
    assert repo.git("rev-list", "--parents", "-1", "HEAD").count(" ") == 3
    assert summary(changed(repo).hunks) == [("extra.py", "added", "text", 1, 0)]


def test_a_binary_settled_by_hand_is_named(repo: Repo) -> None:
    """A binary that is no parent's is a hunk of the merge."""
    repo.commit_file("image", b"\0base")
    repo.branch("side")
    repo.commit_file("image", b"\0side")
    repo.switch("main")
    repo.commit_file("image", b"\0main")
    repo.merge("side")
    repo.write("image", b"\0both")
    repo.commit("Merge", amend=True)
    assert summary(changed(repo).hunks) == [("image", "modified", "binary", 0, 0)]


def merged(repo: Repo, texts: Sequence[str], result: str) -> str:
    """A merge of parents with these texts of one file, with that result."""
    messages = [f"parent {number}".encode() for number in range(len(texts))]
    parents = [
        repo.git("commit-tree", tree(repo, text), stdin=message)
        for text, message in zip(texts, messages, strict=True)
    ]
    return repo.git("commit-tree", tree(repo, result), *(f"-p{sha}" for sha in parents), stdin=b"merge")


def tree(repo: Repo, text: str) -> str:
    blob = repo.git("hash-object", "-w", "--stdin", stdin=text.encode())
    return repo.git("mktree", stdin=f"100644 blob {blob}\tfile.txt\n".encode())


texts = st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=12).map(
    lambda lines: "".join(f"{line}\n" for line in lines)
)


@settings(max_examples=30)
@given(st.lists(texts, min_size=2, max_size=3), texts)
def test_a_merge_adds_what_git_marks_in_every_column(parents: list[str], result: str) -> None:
    """The added lines of a merge are those `git show --cc` prefixes with a plus for each parent."""
    with scratch() as repo:
        sha = merged(repo, parents, result)
        shown = repo.git("show", "--cc", "--format=", "-U100", sha).split("\n")
        marks = "+" * len(parents)
        expected = [line.removeprefix(marks) for line in shown if line.startswith(marks)]
        expected = [line for line in expected if line in set("abcdefg")]  # the file's name is marked too
        mine = [line for hunk in changed(repo, sha).hunks for line in hunk.added_text.split()]
        assert mine == expected
