"""Which commits an index pass visits, and in which order."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.git.repository import Repository, open_repository
from pipeline.walk import batches, pending
from tests.repos import Repo

# Parents of each commit after the first, as distances back in the order of making.
histories = st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True), max_size=14)


def build(repo: Repo, history: list[list[int]], *, shuffled: bool = False) -> list[str]:
    """Commits of any shape, all reached by the last; their dates need not follow their order."""
    clocks = random.Random(len(history))  # noqa: S311 - dates, not secrets
    stream = []
    for number, distances in enumerate([[], *history, list(range(1, len(history) + 2))], start=1):
        seconds = 1_600_000_000 + (clocks.randrange(10_000) if shuffled else number)
        parents = [number - distance for distance in distances if distance < number]
        stream += [f"commit refs/heads/main\nmark :{number}\ncommitter A <a@example.org> {seconds} +0000"]
        stream += [f"data {len(str(number))}\n{number}"]
        stream += [f"{'merge' if place else 'from'} :{parent}" for place, parent in enumerate(parents)]
    stream += ["", "done", ""]  # git reads a last `merge` without a line break for ever
    marks = repo.path / "marks"
    repo.git("fast-import", "--quiet", "--done", f"--export-marks={marks}", stdin="\n".join(stream).encode())
    return [line.split()[1] for line in sorted(marks.read_text().splitlines(), key=_mark)]


def _mark(line: str) -> int:
    return int(line.split()[0].removeprefix(":"))


def nothing(shas: Sequence[str]) -> set[str]:
    del shas
    return set()


def in_order(opened: Repository, shas: Sequence[str]) -> bool:
    """Whether every commit comes after those of its parents that are listed."""
    place = {sha: number for number, sha in enumerate(shas)}
    return all(
        place[parent] < place[sha] for sha in shas for parent in opened.commit(sha).parents if parent in place
    )


@settings(max_examples=25)
@given(histories, st.booleans())
def test_the_walk_agrees_with_git(history: list[list[int]], shuffled: bool) -> None:
    """The walk visits what `git rev-list` lists, once each, parents before children, whatever the dates."""
    with tempfile.TemporaryDirectory() as folder:
        repo = Repo.create(Path(folder) / "work")
        build(repo, history, shuffled=shuffled)
        opened = open_repository(repo.path)
        walked = opened.walk(repo.head)
        assert sorted(walked) == sorted(repo.git("rev-list", "HEAD").split())
        assert in_order(opened, walked)
        assert walked[-1] == repo.head


@settings(max_examples=25)
@given(histories, st.data())
def test_a_walk_behind_a_watermark_is_the_full_walks_rest(
    history: list[list[int]], data: st.DataObject
) -> None:
    """What a watermark reaches is left out as `git rev-list` does, and the order of the rest stays."""
    with tempfile.TemporaryDirectory() as folder:
        repo = Repo.create(Path(folder) / "work")
        watermark = data.draw(st.sampled_from(build(repo, history)))
        opened = open_repository(repo.path)
        rest = opened.walk(repo.head, hide=[watermark])
        assert sorted(rest) == sorted(repo.git("rev-list", "HEAD", f"^{watermark}").split())
        assert rest == [sha for sha in opened.walk(repo.head) if sha in set(rest)]


@settings(max_examples=25)
@given(histories, st.data())
def test_a_pass_cut_short_is_taken_up_where_it_ended(history: list[list[int]], data: st.DataObject) -> None:
    """After any number of commits the watermark and the record together leave exactly the others."""
    with tempfile.TemporaryDirectory() as folder:
        repo = Repo.create(Path(folder) / "work")
        build(repo, history)
        opened = open_repository(repo.path)
        full = pending(opened, repo.head, None, nothing)
        done = full[: data.draw(st.integers(0, len(full)))]
        watermark = done[-1] if done else None
        rest = pending(opened, repo.head, watermark, lambda shas: set(done).intersection(shas))
        assert done + rest == full


def test_the_order_follows_first_parents(tmp_path: Path) -> None:
    """A branch comes as one piece before its merge, so that a file's versions follow one another."""
    repo = Repo.create(tmp_path / "work")
    base = repo.commit("base")
    repo.branch("side")
    side = [repo.commit("side 1"), repo.commit("side 2")]
    repo.switch("main")
    main = [repo.commit("main 1"), repo.commit("main 2")]
    merge = repo.merge("side")
    assert open_repository(repo.path).walk(merge) == [base, *main, *side, merge]


def test_a_missing_commit_ends_its_line_and_no_other(tmp_path: Path) -> None:
    """A history with a hole is walked as far as it goes; the hole itself is in the list."""
    repo = Repo.create(tmp_path / "work")
    base = repo.commit("base")
    repo.branch("side")
    hole, above = repo.commit("hole"), repo.commit("above")
    repo.switch("main")
    main = repo.commit("main")
    merge = repo.merge("side")
    (repo.path / ".git/objects" / hole[:2] / hole[2:]).unlink()
    opened = open_repository(repo.path)
    assert opened.walk(merge) == [base, main, hole, above, merge]
    assert opened.walk(merge, hide=[main]) == [hole, above, merge]
    assert not opened.readable(hole)


def test_a_pruned_watermark_means_a_full_walk(tmp_path: Path) -> None:
    """When the watermark's commit no longer exists, everything is looked at again, recorded or not."""
    repo = Repo.create(tmp_path / "work")
    shas = [repo.commit("one"), repo.commit("two")]
    opened = open_repository(repo.path)
    assert pending(opened, repo.head, "0" * 40, nothing) == shas
    assert pending(opened, repo.head, "0" * 40, lambda found: {shas[0]} & set(found)) == shas[1:]


def test_rewritten_history_leaves_only_the_new_commits(tmp_path: Path) -> None:
    """After an amend the new commit is pending, and what both histories share is not."""
    repo = Repo.create(tmp_path / "work")
    repo.commit("one")
    old = repo.commit("two")
    new = repo.commit("two, better", amend=True)
    assert pending(open_repository(repo.path), new, old, nothing) == [new]


def test_unreadable_commits_are_tried_again(tmp_path: Path) -> None:
    """Commits remembered as unreadable are pending at each run, recorded or behind the watermark."""
    repo = Repo.create(tmp_path / "work")
    shas = [repo.commit("one"), repo.commit("two"), repo.commit("three")]
    opened = open_repository(repo.path)
    everything = set(shas)
    assert pending(opened, repo.head, shas[1], everything.intersection) == []
    assert pending(opened, repo.head, shas[1], everything.intersection, [shas[0]]) == [shas[0]]


def test_what_head_does_not_reach_is_not_tried(tmp_path: Path) -> None:
    """An unreadable commit of a branch that HEAD is not on waits until it is; so does one that is gone."""
    repo = Repo.create(tmp_path / "work")
    shas = [repo.commit("one"), repo.commit("two")]
    repo.branch("side")
    beside = repo.commit("beside")
    repo.switch("main")
    opened = open_repository(repo.path)
    assert pending(opened, repo.head, shas[0], set(shas[:1]).intersection, [beside, "0" * 40]) == [shas[1]]


def test_deepening_a_shallow_clone_uncovers_its_past(tmp_path: Path) -> None:
    """Once the boundary has parents, the commits behind the watermark are pending although it hides them."""
    repo = Repo.create(tmp_path / "work")
    shas = [repo.commit(name) for name in ("one", "two", "three")]
    clone = repo.clone(tmp_path / "shallow", "--depth=2")
    boundary = shas[1]
    known = {shas[2]}
    shallow = open_repository(clone.path)
    assert pending(shallow, repo.head, repo.head, known.intersection, [boundary]) == [boundary]
    clone.git("fetch", "--quiet", "--unshallow")
    whole = open_repository(clone.path)
    assert pending(whole, repo.head, repo.head, known.intersection, [boundary]) == shas[:2]


def test_batches_keep_order_and_lose_nothing() -> None:
    """Batches have the asked size but for the last, and together are the whole."""
    shas = [str(number) for number in range(7)]
    assert list(batches(shas, 3)) == [("0", "1", "2"), ("3", "4", "5"), ("6",)]
    assert list(batches([], 3)) == []


def test_a_long_history_needs_no_recursion(tmp_path: Path) -> None:
    """Thousands of commits in a line are walked in order."""
    repo = Repo.create(tmp_path / "work")
    count = 3000
    lines = [
        f"commit refs/heads/main\ncommitter A <a@example.org> {1_600_000_000 + n} +0000\ndata 1\nx\n"
        for n in range(count)
    ]
    repo.git("fast-import", "--quiet", stdin="\n".join(lines).encode())
    opened = open_repository(repo.path)
    walked = opened.walk(repo.head)
    assert len(walked) == count
    assert all(opened.commit(child).parents == (parent,) for parent, child in pairwise(walked))
    assert opened.first_commit(repo.head) == walked[0]
