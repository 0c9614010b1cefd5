"""Messages about commits that could not be read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Unpack

import pytest

from serve.cli.render import format_status
from serve.index_status import load_status_at_path
from serve.text import describe_unreadable_remedy
from stores import database, history
from tests.pipeline.histories import get_location, run_index
from tests.repos import Repo
from tests.serve.commands import run_captured
from tests.serve.search.helpers import FindOptions, find


def load_hint(repo: Repo, home: Path, text: str, **options: Unpack[FindOptions]) -> str | None:
    """Return the hint of an answer."""
    return find(repo, home, text, **options).meta.hint


@pytest.fixture
def clone(tmp_path: Path) -> Repo:
    """Shallow clone that also lacks one of its own blobs."""
    origin = Repo.create(tmp_path / "origin")
    for number in range(3):
        origin.commit_file("a.py", f"a = {number}\n", f"Change {number}")
    clone = origin.clone(tmp_path / "clone", "--depth=2")
    clone.commit_file("b.py", "b = 1\n", "Lose this")
    blob = clone.git("rev-parse", "HEAD:b.py")
    (clone.path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    return clone


def test_each_reason_has_its_remedy(clone: Repo, tmp_path: Path) -> None:
    """Commits at a shallow boundary and other unreadable commits have different remedies; both can apply."""
    run_index(clone, tmp_path / "home")
    with database.open_for_reading(get_location(clone, tmp_path / "home")) as connection:
        unreadable_commits = history.load_unreadable_commits(connection)
    remedies = {describe_unreadable_remedy([entry]) for entry in unreadable_commits}
    assert remedies == {
        "Run `git fetch --unshallow`, then `lineage index`.",
        "`git fsck` lists what is missing; every `lineage index` tries them again.",
    }
    assert describe_unreadable_remedy(unreadable_commits) == (
        "For those at the shallow boundary, run `git fetch --unshallow`, then `lineage index`. "
        "For the others, `git fsck` lists what is missing; every `lineage index` tries them again."
    )


def test_status_counts_unreadable_commits(clone: Repo, tmp_path: Path) -> None:
    """The status ends with the number of unreadable commits, after its specified lines."""
    run_index(clone, tmp_path / "home")
    *specified, last = format_status(*load_status_at_path(clone.path, tmp_path / "home")).splitlines()
    assert specified[-1] == "compatibility: compatible" and len(specified) == 6
    assert last == "unreadable: 2 commits; `lineage index` lists them and says how to get them."


def test_answers_mention_unreadable_commits(clone: Repo, tmp_path: Path) -> None:
    """If a query finds nothing likely, the hint says that commits could not be read."""
    home = tmp_path / "home"
    message = "1 commit could not be read and may hold the answer."
    # git commits only if it has all blobs. It would restore the lost one by itself only if the file is new enough.
    clone.git("hash-object", "-w", "b.py")
    clone.commit_file("c.py", "def connect():\n    retry()\n", "Retry the connection")
    run_index(clone, home)
    assert load_hint(clone, home, "retry the connection") is None
    assert message in str(load_hint(clone, home, "colour management of printers in the viewfinder"))
    assert message in str(load_hint(clone, home, "retry", author="nobody"))


def test_hint_without_readable_commits(tmp_path: Path) -> None:
    """If no commit could be read, the hint says so."""
    origin = Repo.create(tmp_path / "origin")
    origin.git("config", "uploadpack.allowFilter", "true")
    origin.commit_file("a.py", "a = 1\n")
    clone = origin.clone(tmp_path / "clone", "--filter=blob:none", "--no-checkout")
    run_index(clone, tmp_path / "home")
    assert load_hint(clone, tmp_path / "home", "change") == (
        "Nothing is indexed: 1 commit could not be read. `lineage index` lists them and says how to get them."
    )


@pytest.mark.parametrize(
    "command",
    [
        ["index"],
        ["plan"],
        ["log", "HEAD~1..HEAD"],
        ["log", "HEAD"],
        ["show", "HEAD~1", "--repository"],
    ],
)
def test_object_directory_that_may_not_be_read(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    """Objects that may not be read are named with advice about permissions, and do not count as missing."""
    assert not home.exists()  # keeps the tests out of the user's indexes
    repo = Repo.create(tmp_path / "repo")
    sha, access = [repo.commit_file("a.py", f"a = {number}\n") for number in range(3)][1], os.access
    directory = repo.path / ".git" / "objects" / sha[:2]
    (directory / sha[2:]).unlink()
    monkeypatch.setattr(os, "access", lambda path, mode: path != directory and access(path, mode))
    code, _, error = run_captured(*command, str(repo.path))
    assert code == 1
    assert f"error: Permission denied: {directory}\n  Check the owner and the permissions" in error
