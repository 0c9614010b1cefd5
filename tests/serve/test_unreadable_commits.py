"""What a person is told of commits that could not be read."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

import pytest

from serve.cli.render import status_lines
from serve.index_status import of_path
from serve.text import remedy
from stores import database, history
from tests.pipeline.histories import index, place
from tests.repos import Repo
from tests.serve.search.helpers import Options, ask


def asked(repo: Repo, home: Path, text: str, **options: Unpack[Options]) -> str | None:
    """The hint of an answer."""
    return ask(repo, home, text, **options).meta.hint


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
    assert last == "unreadable: 2 commits; `lineage index` says which, and what brings them."


def test_answers_say_what_they_lack(clone: Repo, tmp_path: Path) -> None:
    """Where nothing, or nothing likely, was found, it may be among what could not be read."""
    home = tmp_path / "home"
    says = "1 commit could not be read and may be what was asked for."
    clone.commit_file("c.py", "def connect():\n    retry()\n", "Retry the connection")
    index(clone, home)
    assert asked(clone, home, "retry the connection") is None
    assert says in str(asked(clone, home, "colour management of printers in the viewfinder"))
    assert says in str(asked(clone, home, "retry", author="nobody"))


def test_an_index_of_nothing_says_why(tmp_path: Path) -> None:
    """Commits there are, but not a readable one."""
    origin = Repo.create(tmp_path / "origin")
    origin.git("config", "uploadpack.allowFilter", "true")
    origin.commit_file("a.py", "a = 1\n")
    clone = origin.clone(tmp_path / "clone", "--filter=blob:none", "--no-checkout")
    index(clone, tmp_path / "home")
    assert asked(clone, tmp_path / "home", "change") == (
        "Nothing is indexed: 1 commit could not be read. `lineage index` says which, and what brings them."
    )
