"""Near-identical commits count as one."""

from __future__ import annotations

from pathlib import Path

from tests.eval.commits import told
from tests.eval.near_duplicates import Twins, patch_ids
from tests.eval.question import Question
from tests.eval.rankings import Ranking
from tests.repos import Repo


def test_families(tmp_path: Path) -> None:
    """A cherry-pick and a commit told alike are the oldest one's twins; equal subjects elsewhere are not."""
    repo = Repo.create(tmp_path)
    repo.commit_file("a.py", "a = 1\n", "Begin")
    repo.branch("fix")
    fixed = repo.commit_file("b.py", "b = 1\n", "Close the socket")
    repo.switch("main")
    picked = repo.commit_file("b.py", "b = 1\n", "Backport: close the socket")
    repo.remove("b.py")
    repo.commit("Take it back")
    again = repo.commit_file("b.py", "b = 2\n", "Close the socket")
    elsewhere = repo.commit_file("c.py", "c = 1\n", "Close the socket")
    repo.merge("fix")

    twins = Twins.of(tuple(told(repo.path)), patch_ids(repo.path))

    assert {twins.one(sha) for sha in (fixed, picked, again)} == {fixed}
    assert twins.one(elsewhere) == elsewhere
    ranking = Ranking.of("any", [(elsewhere, 0.9), (again, 0.8), (picked, 0.7)])
    assert ranking.renamed(twins.one) == Ranking("any", [elsewhere, fixed], [0.9, 0.8])
    assert Ranking("grep", [again, elsewhere, picked]).renamed(twins.one).commits == [fixed, elsewhere]
    assert twins.asked(Question("?", {again: 1, picked: 3, elsewhere: 2})).grades == {fixed: 3, elsewhere: 2}


def test_told(tmp_path: Path) -> None:
    """Commits come oldest first, with their paths, and a message may hold what looks like a field."""
    repo = Repo.create(tmp_path)
    repo.write("a/é.py", "a = 1\n")
    first = repo.commit_file("b.py", "b = 1\n", "Begin\nhere\n\nWith a body.\n\n--format=%x00")
    empty = repo.commit("Change nothing")
    one, other = told(repo.path)
    assert (one.sha, one.subject, one.paths) == (first, "Begin here", ("a/é.py", "b.py"))
    assert one.body == "With a body.\n\n--format=%x00\n"
    assert (other.sha, other.parents, other.paths) == (empty, (first,), ())
