"""Test of `tests.eval.results`: version of the project."""

from __future__ import annotations

from pathlib import Path

from tests.bench.programs import PROJECT
from tests.eval import results
from tests.repos import Repo


def test_project_version(tmp_path: Path) -> None:
    """A modified results file does not mark the version as modified; a modified program does."""
    repo = Repo.create(tmp_path / "project")
    file = results.FILE.relative_to(PROJECT).as_posix()
    repo.write("program.py", "a = 1\n")
    repo.write(file, "results\n")
    head = repo.commit("Begin")
    assert results.get_project_version(repo.path) == head
    repo.write(file, "more results\n")
    assert results.get_project_version(repo.path) == head
    repo.write("program.py", "a = 2\n")
    assert results.get_project_version(repo.path) == f"{head}+"
