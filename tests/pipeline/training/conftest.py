"""Fixtures: a small repository with descriptive messages, and the lists mined from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.training import mine_lists
from pipeline.training.mine_lists import MiningTask, mine_repository
from tests.pipeline.training.sample_history import COMMITS, MERGES, MESSAGE, THINGS
from tests.repos import Repo


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    """A repository with commits, a version bump and merges of pull requests."""
    repo = Repo.create(tmp_path_factory.mktemp("repo") / "repo")
    repo.commit_file("README", "A client\n", "Begin with a readme file")
    for number in range(COMMITS):
        thing = THINGS[number % len(THINGS)]
        repo.write(
            f"src/{thing}_{number}.py",
            f"def {thing}_{number}(limit={number}):\n    return waited(limit, {thing})\n",
        )
        repo.write("CHANGES.md", f"- `{thing}` number {number} no longer wait for peers that never answer\n")
        repo.commit(MESSAGE.format(thing=thing, number=number))
    repo.commit_file("src/limits.py", "limit = 3\n", "Bump version to 3")
    for number in range(MERGES):
        repo.branch(f"part{number}", "main")
        repo.switch(f"part{number}")
        for step in ("reading", "writing"):
            name = f"{step}_{number}"
            repo.commit_file(
                f"src/{name}.py",
                f"def {name}(limit):\n    return waited(limit)\n",
                f"Measure {step} {number} too",
            )
        repo.switch("main")
        repo.merge(
            f"part{number}",
            message=f"Merge pull request #{number} from ada/part{number}\n\nLook at how slow port {number} is",
        )
    return repo


@pytest.fixture
def lists(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of lists mined from the repository."""
    monkeypatch.setattr(mine_lists, "MIN_COMMITS", 10)
    task = MiningTask(repo.path, tmp_path / "repo.npz", 100, 80, 1)
    assert mine_repository(task).startswith(f"repo: {COMMITS + 2 * MERGES} commits, ")
    assert mine_repository(task) == "repo: already mined"
    return task.file
