"""Tests of `tests.eval.commits`: reading commits and grouping near-duplicates."""

from __future__ import annotations

from pathlib import Path

from tests.eval.commits import DuplicateGroups, read_commits, read_patch_ids
from tests.eval.judgments import JudgedQuery
from tests.eval.rankings import Ranking
from tests.repos import Repo


def test_near_duplicates(tmp_path: Path) -> None:
    """Equal patches are near-duplicates, and equal subjects with equal paths, but not equal subjects alone."""
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

    groups = DuplicateGroups.from_commits(tuple(read_commits(repo.path)), read_patch_ids(repo.path))

    assert {groups.get_canonical_sha(sha) for sha in (fixed, picked, again)} == {fixed}
    assert groups.get_canonical_sha(elsewhere) == elsewhere
    ranking = Ranking.from_hits("any", [(elsewhere, 0.9), (again, 0.8), (picked, 0.7)])
    assert ranking.map_commits(groups.get_canonical_sha) == Ranking("any", [elsewhere, fixed], [0.9, 0.8])
    assert Ranking("grep", [again, elsewhere, picked]).map_commits(groups.get_canonical_sha).commits == [
        fixed,
        elsewhere,
    ]
    merged = groups.merge_judgments(JudgedQuery("?", {again: 1, picked: 3, elsewhere: 2}))
    assert merged.grades == {fixed: 3, elsewhere: 2}


def test_read_commits(tmp_path: Path) -> None:
    """Commits are read oldest first with their paths, and a body may look like a format option."""
    repo = Repo.create(tmp_path)
    repo.write("a/é.py", "a = 1\n")
    first = repo.commit_file("b.py", "b = 1\n", "Begin\nhere\n\nWith a body.\n\n--format=%x00")
    empty = repo.commit("Change nothing")
    one, other = read_commits(repo.path)
    assert (one.sha, one.subject, one.paths) == (first, "Begin here", ("a/é.py", "b.py"))
    assert one.body == "With a body.\n\n--format=%x00\n"
    assert (other.sha, other.parents, other.paths) == (empty, (first,), ())
