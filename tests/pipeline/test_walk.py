"""Commit walks: order, watermarks, unreadable and unreachable commits; the order of commits, newest first."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Collection, Sequence
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import walk
from pipeline.git import commit_graph
from pipeline.git.commit_graph import create_git_program
from pipeline.git.repository import Repository, open_repository
from pipeline.walk import exclude_recorded, list_candidate_commits, sort_newest_first, split_into_chunks
from tests.repos import FIRST_DATE, Repo, read_dates

# Parents of each commit after the first, as distances back in the order of creation.
parent_distances = st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True), max_size=14)


def create_history(repo: Repo, history: list[list[int]], *, is_shuffled: bool = False) -> list[str]:
    """Create commits with these parents, and a last commit that reaches all of them; return the shas in this order.

    `is_shuffled`: give the commits random dates, which may contradict the order.
    """
    generator = random.Random(len(history))  # noqa: S311 - dates, not secrets
    stream = []
    for number, distances in enumerate([[], *history, list(range(1, len(history) + 2))], start=1):
        seconds = 1_600_000_000 + (generator.randrange(10_000) if is_shuffled else number)
        parents = [number - distance for distance in distances if distance < number]
        stream += [f"commit refs/heads/main\nmark :{number}\ncommitter A <a@example.org> {seconds} +0000"]
        stream += [f"data {len(str(number))}\n{number}"]
        stream += [f"{'merge' if index else 'from'} :{parent}" for index, parent in enumerate(parents)]
    stream += ["", "done", ""]  # without a line break at the end, git would wait for more input
    marks = repo.path / "marks"
    repo.git("fast-import", "--quiet", "--done", f"--export-marks={marks}", stdin="\n".join(stream).encode())
    return [line.split()[1] for line in sorted(marks.read_text().splitlines(), key=get_mark)]


def get_mark(line: str) -> int:
    return int(line.split()[0].removeprefix(":"))


def find_pending(
    repository: Repository,
    head: str,
    watermark: str | None,
    recorded: Collection[str] = (),
    unreadable: Collection[str] = (),
) -> list[str]:
    """Return the commits that a run with this watermark has to index or to retry."""
    candidates = list_candidate_commits(repository, head, watermark, unreadable)
    return exclude_recorded(candidates, set(recorded).intersection, unreadable)


def is_topologically_sorted(repository: Repository, shas: Sequence[str]) -> bool:
    """Return whether every commit follows those of its parents that are listed."""
    positions = {sha: number for number, sha in enumerate(shas)}
    return all(
        positions[parent] < positions[sha]
        for sha in shas
        for parent in repository.read_commit(sha).parents
        if parent in positions
    )


@settings(max_examples=25)
@given(parent_distances, st.booleans())
def test_walk_agrees_with_git(history: list[list[int]], is_shuffled: bool) -> None:
    """The walk lists the commits of `git rev-list`, once each, parents before children, with any dates."""
    with tempfile.TemporaryDirectory() as directory:
        repo = Repo.create(Path(directory) / "work")
        create_history(repo, history, is_shuffled=is_shuffled)
        opened = open_repository(repo.path)
        shas = opened.walk(repo.head)
        assert sorted(shas) == sorted(repo.git("rev-list", "HEAD").split())
        assert is_topologically_sorted(opened, shas)
        assert shas[-1] == repo.head


@settings(max_examples=25)
@given(parent_distances, st.data())
def test_walk_from_a_watermark(history: list[list[int]], data: st.DataObject) -> None:
    """Like `git rev-list`, the walk omits commits that the watermark reaches. It keeps the order of a full walk."""
    with tempfile.TemporaryDirectory() as directory:
        repo = Repo.create(Path(directory) / "work")
        watermark = data.draw(st.sampled_from(create_history(repo, history)))
        opened = open_repository(repo.path)
        new_commits = opened.walk(repo.head, hide=[watermark])
        assert sorted(new_commits) == sorted(repo.git("rev-list", "HEAD", f"^{watermark}").split())
        assert new_commits == [sha for sha in opened.walk(repo.head) if sha in set(new_commits)]


@settings(max_examples=25)
@given(parent_distances, st.data())
def test_interrupted_run_continues(history: list[list[int]], data: st.DataObject) -> None:
    """After any number of indexed commits, exactly the others are pending, in the order of the full walk."""
    with tempfile.TemporaryDirectory() as directory:
        repo = Repo.create(Path(directory) / "work")
        create_history(repo, history)
        opened = open_repository(repo.path)
        all_commits = find_pending(opened, repo.head, None)
        indexed_commits = all_commits[: data.draw(st.integers(0, len(all_commits)))]
        watermark = indexed_commits[-1] if indexed_commits else None
        pending_commits = find_pending(opened, repo.head, watermark, indexed_commits)
        assert indexed_commits + pending_commits == all_commits


def test_order_follows_first_parents(tmp_path: Path) -> None:
    """The commits of each merged branch are consecutive, and the branch of a merge's first parent comes first."""
    repo = Repo.create(tmp_path / "work")
    base = repo.commit("base")
    repo.branch("side")
    side_commits = [repo.commit("side 1"), repo.commit("side 2")]
    repo.switch("main")
    main_commits = [repo.commit("main 1"), repo.commit("main 2")]
    merge = repo.merge("side")
    assert open_repository(repo.path).walk(merge) == [base, *main_commits, *side_commits, merge]


def test_missing_commit(tmp_path: Path) -> None:
    """A missing commit is listed, but its ancestors are not. The other branches are listed completely."""
    repo = Repo.create(tmp_path / "work")
    base = repo.commit("base")
    repo.branch("side")
    missing, child = repo.commit("missing"), repo.commit("child")
    repo.switch("main")
    main = repo.commit("main")
    merge = repo.merge("side")
    (repo.path / ".git/objects" / missing[:2] / missing[2:]).unlink()
    opened = open_repository(repo.path)
    assert opened.walk(merge) == [base, main, missing, child, merge]
    assert opened.walk(merge, hide=[main]) == [missing, child, merge]
    assert not opened.can_diff(missing)


def test_missing_watermark(tmp_path: Path) -> None:
    """If the commit of the watermark no longer exists, all commits that are not recorded are pending."""
    repo = Repo.create(tmp_path / "work")
    shas = [repo.commit("one"), repo.commit("two")]
    opened = open_repository(repo.path)
    assert find_pending(opened, repo.head, "0" * 40) == shas
    assert find_pending(opened, repo.head, "0" * 40, shas[:1]) == shas[1:]


def test_amended_commit(tmp_path: Path) -> None:
    """After an amend only the new commit is pending."""
    repo = Repo.create(tmp_path / "work")
    repo.commit("one")
    old = repo.commit("two")
    new = repo.commit("two, better", amend=True)
    assert find_pending(open_repository(repo.path), new, old) == [new]


def test_unreadable_commits_are_retried(tmp_path: Path) -> None:
    """Unreadable commits are pending at each run, even if recorded or behind the watermark."""
    repo = Repo.create(tmp_path / "work")
    shas = [repo.commit("one"), repo.commit("two"), repo.commit("three")]
    opened = open_repository(repo.path)
    assert find_pending(opened, repo.head, shas[1], shas) == []
    assert find_pending(opened, repo.head, shas[1], shas, shas[:1]) == shas[:1]


def test_unreachable_unreadable_commits_are_not_retried(tmp_path: Path) -> None:
    """Unreadable commits that HEAD does not reach, or that no longer exist, are not pending."""
    repo = Repo.create(tmp_path / "work")
    shas = [repo.commit("one"), repo.commit("two")]
    repo.branch("side")
    other = repo.commit("other")
    repo.switch("main")
    opened = open_repository(repo.path)
    assert find_pending(opened, repo.head, shas[0], shas[:1], [other, "0" * 40]) == shas[1:]


def test_deepened_shallow_clone(tmp_path: Path) -> None:
    """After `--unshallow`, the new commits behind the watermark are pending."""
    repo = Repo.create(tmp_path / "work")
    shas = [repo.commit(name) for name in ("one", "two", "three")]
    clone = repo.clone(tmp_path / "shallow", "--depth=2")
    recorded, boundary = shas[2:], shas[1:2]
    shallow = open_repository(clone.path)
    assert find_pending(shallow, repo.head, repo.head, recorded, boundary) == boundary
    clone.git("fetch", "--quiet", "--unshallow")
    deepened = open_repository(clone.path)
    assert find_pending(deepened, repo.head, repo.head, recorded, boundary) == shas[:2]


def test_split_into_chunks() -> None:
    """Chunks are in order and have the given size, except the last."""
    shas = [str(number) for number in range(7)]
    assert list(split_into_chunks(shas, 3)) == [("0", "1", "2"), ("3", "4", "5"), ("6",)]
    assert list(split_into_chunks([], 3)) == []


def test_long_history(tmp_path: Path) -> None:
    """A linear history of 3,000 commits is listed in order, and its root commit is found."""
    repo = Repo.create(tmp_path / "work")
    count = 3000
    lines = [
        f"commit refs/heads/main\ncommitter A <a@example.org> {1_600_000_000 + n} +0000\ndata 1\nx\n"
        for n in range(count)
    ]
    repo.git("fast-import", "--quiet", stdin="\n".join(lines).encode())
    opened = open_repository(repo.path)
    shas = opened.walk(repo.head)
    assert len(shas) == count
    assert all(opened.read_commit(child).parents == (parent,) for parent, child in pairwise(shas))
    assert opened.find_root_commit(repo.head) == shas[0]


def create_random_history(path: Path, seed: int, count: int = 30) -> Repo:
    """Create commits with random parents and dates. Many dates are equal, or earlier than those of the parents."""
    repo = Repo.create(path)
    generator = random.Random(seed)  # noqa: S311 - a history, not secrets
    stream = []
    for number in range(1, count + 1):
        seconds = generator.choice([number * 10, number * 10, generator.randrange(count * 10), 2**32])
        parent_count = min(number - 1, generator.choice([1, 1, 2, 3]))
        parents = generator.sample(range(max(1, number - 6), number), parent_count)
        if number == count:
            parents = list(range(1, count))
        stream += [f"commit refs/heads/main\nmark :{number}\ncommitter A <a@example.org> {seconds} +0000"]
        stream += [f"data {len(str(number))}\n{number}"]
        stream += [f"{'merge' if index else 'from'} :{parent}" for index, parent in enumerate(parents)]
    repo.git("fast-import", "--quiet", "--force", stdin="\n".join([*stream, ""]).encode())
    return repo


def sort_by_definition(dates: dict[str, int], repo: Repo) -> list[str]:
    """Sort commits by repeatedly taking the newest commit whose descendants have all been taken."""
    waiting = dict(dates)
    order: list[str] = []
    ancestors = {sha: set(repo.git("rev-list", sha).split()) - {sha} for sha in dates}
    while waiting:
        free = [sha for sha in waiting if not any(sha in ancestors[other] for other in waiting)]
        order.append(min(free, key=lambda sha: (-dates[sha], sha)))
        del waiting[order[-1]]
    return order


def sort_with_graph(repo: Repo, dates: dict[str, int], graph_dir: Path | None) -> list[str]:
    repository = open_repository(repo.path)
    return sort_newest_first(dates, repository, create_git_program(repository, graph_dir))


@pytest.mark.parametrize("seed", range(8))
def test_order_of_random_histories(tmp_path: Path, seed: int) -> None:
    """Random commits of histories with wrong dates have the same order with and without a commit-graph."""
    repo = create_random_history(tmp_path / "repo", seed)
    commit_graph.refresh(open_repository(repo.path), tmp_path / "graph")
    all_dates = read_dates(repo)
    generator = random.Random(seed)  # noqa: S311 - a selection, not secrets
    for count in (2, 5, len(all_dates)):
        dates = dict(generator.sample(sorted(all_dates.items()), count))
        expected = sort_by_definition(dates, repo)
        assert sort_with_graph(repo, dates, None) == expected
        assert sort_with_graph(repo, dates, tmp_path / "graph") == expected


def test_right_dates_need_no_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The history is not walked where the commit-graph proves the dates right, nor for a single commit."""
    repo = create_random_history(tmp_path / "repo", seed=1)
    repo.git("switch", "--quiet", "--orphan", "right")
    first = repo.commit("First")
    repo.branch("side")
    side = repo.commit("Side", date=FIRST_DATE + timedelta(days=2))
    repo.switch("right")
    later = repo.commit("Later", date=FIRST_DATE + timedelta(days=1))
    repo.merge("side")
    commit_graph.refresh(open_repository(repo.path), tmp_path / "graph")
    monkeypatch.setattr(walk, "_load_descendants", None)
    dates = {sha: date for sha, date in read_dates(repo).items() if sha != repo.head}
    assert sort_with_graph(repo, dates, tmp_path / "graph") == [side, later, first]
    assert sort_with_graph(repo, {first: 1}, None) == [first]
    with pytest.raises(TypeError):
        sort_with_graph(repo, dates, None)


def test_unreadable_history_is_sorted_by_date(tmp_path: Path) -> None:
    """If a commit is missing, git cannot walk the history, so only the dates decide the order."""
    repo = Repo.create(tmp_path / "repo")
    missing = repo.commit("Missing")
    shas = [repo.commit(f"{number}") for number in range(3)]
    (repo.path / ".git/objects" / missing[:2] / missing[2:]).unlink()
    dates = {sha: number for number, sha in enumerate(shas)}
    assert sort_with_graph(repo, dates, None) == shas[::-1]
