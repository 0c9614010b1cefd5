"""Histories for tests of whole passes, and passes over them with an encoder that can be computed by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.git.repository import open_repository
from pipeline.run import Options, Pass, Progress, Summary
from pipeline.workers import Workers
from serve.repositories import place_of
from stores import locks
from stores.index_location import Place
from tests.repos import Repo
from tests.serve.sample_index import WordEncoder

GREETER = """\
class Greeter:
    def greet(self, name):
        return "hello " + name

    def part(self, name):
        return "bye " + name
"""


def interleaved(path: Path, rounds: int = 6) -> Repo:
    """Two branches that grow by turns and merge again and again, so that no walk is one line."""
    repo = Repo.create(path)
    repo.commit_file("greeter.py", GREETER, "Greet and part")
    for number in range(rounds):
        repo.branch(f"topic{number}")
        for step in range(3):
            repo.commit_file(
                f"topic{number}.py", f"def step{step}():\n    return {number}\n", f"Step {step} of {number}"
            )
            repo.switch("main")
            repo.commit_file(
                "main.py", f"def turn():\n    return {number * 10 + step}\n", f"Turn {number}.{step}"
            )
            repo.switch(f"topic{number}")
        repo.switch("main")
        repo.merge(f"topic{number}", message=f"Bring in topic {number}")
    repo.commit_file("package-lock.json", "{}", "Only what is ignored")
    repo.commit("Nothing at all")
    return repo


def place(repo: Repo, home: Path) -> Place:
    return place_of(home, open_repository(repo.path))


def index(
    repo: Repo, home: Path, heard: list[Progress] | None = None, *, jobs: int = 1, **options: Any
) -> Summary:
    """One pass over the repository as it stands."""
    report = (lambda _: None) if heard is None else heard.append
    repository = open_repository(repo.path)
    here = place(repo, home)
    with locks.sole_run(here), Workers(jobs) as workers:
        return Pass(repository, here, Options(**options), WordEncoder(), workers, report).run()
