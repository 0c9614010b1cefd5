"""What a person is told of commits that could not be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from serve.render import status_lines
from serve.standing import of_path
from serve.unread import remedy
from stores import database, history
from tests.pipeline.histories import index, place
from tests.repos import Repo


@pytest.fixture
def clone(tmp_path: Path) -> Repo:
    """A shallow clone, so without what lies before its boundary, that has lost a blob of its own besides."""
    origin = Repo.create(tmp_path / "origin")
    for number in range(3):
        origin.commit_file("a.py", f"a = {number}\n", f"Change {number}")
    clone = origin.clone(tmp_path / "clone", "--depth=2")
    clone.commit_file("b.py", "b = 1\n", "Lose this")
    blob = clone.git("rev-parse", "HEAD:b.py")
    (clone.path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    return clone


def test_each_reason_has_its_remedy(clone: Repo, tmp_path: Path) -> None:
    """Commits at a shallow boundary are fetched, others looked for; of both at once both are said."""
    index(clone, tmp_path / "home")
    with database.reading(place(clone, tmp_path / "home")) as connection:
        both = history.unreadable(connection)
    said = {remedy([entry]) for entry in both}
    assert said == {
        "`git fetch --unshallow`, then `lineage index`, takes them up.",
        "`git fsck` names what is missing; every `lineage index` tries them again.",
    }
    assert remedy(both) == (
        "`git fetch --unshallow`, then `lineage index`, takes up those at the shallow boundary; "
        "of the others `git fsck` names what is missing, and every `lineage index` tries them again."
    )


def test_status_says_how_many_after_its_own_lines(clone: Repo, tmp_path: Path) -> None:
    """The specified lines come first, as ever."""
    index(clone, tmp_path / "home")
    *specified, last = status_lines(*of_path(clone.path, tmp_path / "home")).splitlines()
    assert specified[-1] == "compatibility: compatible" and len(specified) == 6
    assert last == "unreadable: 2 commits, tried again by each `lineage index`"
