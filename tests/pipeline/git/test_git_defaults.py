"""Constants that must equal git's defaults, compared with git's own output."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.git.changes import (
    BINARY_CHECK_BYTES,
    FileChange,
    exceeds_rename_limit,
    is_binary,
)
from tests.pipeline.git.tree_helpers import create_repo, extract_changes, extract_only_hunk
from tests.repos import Repo

FUNCTIONS = "".join(f"def f{n}():\n    first()\n    last()\n\n" for n in range(8))
# Old and new content whose patch depends on the context lines, on the heading of a part, or on the indentation.
EDITS = {
    "one line": (FUNCTIONS, FUNCTIONS.replace("f4", "g4")),
    "lines near each other": (FUNCTIONS, FUNCTIONS.replace("f3", "g3").replace("f5", "g5")),
    "block between equal blocks": (
        FUNCTIONS,
        FUNCTIONS.replace("def f4", "def x4():\n    first()\n    last()\n\ndef f4"),
    ),
    "indented block": (
        "for a in b:\n    if a:\n        print(a)\n    end()\n",
        "for a in b:\n    if b:\n        print(b)\n    end()\n\n    if a:\n        print(a)\n    end()\n",
    ),
    "white space": (FUNCTIONS, FUNCTIONS.replace("    first", "\tfirst").replace("last()", "last() ")),
}


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return create_repo(tmp_path / "work")


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("is_moved", [False, True])
def test_patch_is_that_of_git(repo: Repo, edit: str, is_moved: bool) -> None:
    """The patch of an edited file, moved or not, is the one that `git show` prints."""
    old, new = EDITS[edit]
    repo.commit_file("f.py", old + "# The end\n" * 20)
    if is_moved:
        repo.rename("f.py", "g.py")
    repo.commit_file("g.py" if is_moved else "f.py", new + "# The end\n" * 20)
    git_patch = repo.git("show", "--format=", "--find-renames", "HEAD") + "\n"
    assert extract_only_hunk(repo).diff == git_patch[git_patch.index("@@") :]


@pytest.mark.parametrize("indentation", ["", " ", "\t"])
def test_white_space_counts_for_renames(repo: Repo, indentation: str) -> None:
    """A moved file of which every line was indented is no rename, as in git."""
    repo.rename("a.py", "b.py")
    lines = (repo.path / "b.py").read_text().splitlines(keepends=True)
    repo.write("b.py", "".join(f"{indentation}{line}" for line in lines))
    repo.commit("Move")
    statuses = repo.git("show", "--find-renames", "--name-status", "--format=", "HEAD").splitlines()
    git_kinds = {{"A": "added", "D": "deleted", "R": "renamed"}[status[0]] for status in statuses}
    assert {hunk.change_kind for hunk in extract_changes(repo).hunks} == git_kinds
    assert git_kinds == ({"added", "deleted"} if indentation else {"renamed"})


@pytest.mark.parametrize("position", [0, BINARY_CHECK_BYTES - 1, BINARY_CHECK_BYTES])
def test_binary_check_is_that_of_git(repo: Repo, position: int) -> None:
    """A file is binary if one of its first 8,000 bytes is NUL."""
    content = b"x" * position + b"\0" + b"x" * 99 + b"\n"
    repo.commit_file("data", content)
    is_binary_for_git = repo.git("show", "--numstat", "--format=", "HEAD").startswith("-")
    assert is_binary(content) == is_binary_for_git == (position < 8_000)
    assert (extract_only_hunk(repo).content_kind == "binary") == is_binary_for_git


def test_rename_limit_is_that_of_git() -> None:
    """git compares contents of up to 1,000 deleted with 1,000 added files: `diff.renameLimit` in `git help config`."""
    deleted = FileChange(b"a", None, "deleted", 0o100644, 0, "0" * 40, None)
    added = replace(deleted, kind="added")
    assert not exceeds_rename_limit([deleted] * 1_000 + [added] * 1_000)
    assert exceeds_rename_limit([deleted] * 1_000 + [added] * 1_001)
    assert exceeds_rename_limit([deleted] * 1_001 + [added] * 1_000)
    assert not exceeds_rename_limit([deleted] * 100_000 + [added] * 10)
