"""Which state of the project a number belongs to."""

from __future__ import annotations

from pathlib import Path

from tests.bench.programs import PROJECT
from tests.eval import results
from tests.repos import Repo


def test_numbers_do_not_change_the_code_that_made_them(tmp_path: Path) -> None:
    """A run that kept its numbers leaves the next one's code as committed; a changed program does not."""
    repo = Repo.create(tmp_path / "project")
    kept = results.FILE.relative_to(PROJECT).as_posix()
    repo.write("program.py", "a = 1\n")
    repo.write(kept, "numbers\n")
    head = repo.commit("Begin")
    assert results.measured(repo.path) == head
    repo.write(kept, "more numbers\n")
    assert results.measured(repo.path) == head
    repo.write("program.py", "a = 2\n")
    assert results.measured(repo.path) == f"{head}+"
