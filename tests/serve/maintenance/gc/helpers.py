"""What `lineage gc` finds and leaves, asked without its command."""

from __future__ import annotations

from pathlib import Path

from pipeline.git.repository import open_repository
from serve.maintenance.gc import Garbage, Kind, collect, survey
from serve.repositories import place_of
from stores import database
from stores.index_location import Place
from tests.repos import Repo


def place(repo: Repo, home: Path) -> Place:
    return place_of(home, open_repository(repo.path))


def found(home: Path) -> dict[Kind, list[Garbage]]:
    kinds: dict[Kind, list[Garbage]] = {}
    for one in survey(home):
        kinds.setdefault(one.kind, []).append(one)
    return kinds


def sweep(home: Path, *, absent: bool = False) -> None:
    collect(home, yes=True, absent=absent, ask=None)


def recorded(repo: Repo, home: Path) -> set[str]:
    with database.reading(place(repo, home)) as connection:
        return {sha for (sha,) in connection.execute("SELECT commit_sha FROM commits").fetchall()}
