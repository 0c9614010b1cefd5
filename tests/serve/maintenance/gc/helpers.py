"""Helpers that find and delete items of `lineage gc` in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.git.repository import open_repository
from serve.maintenance.gc import DeletableItem, ItemKind, collect_garbage, find_deletable
from serve.repositories import locate_index
from stores import database
from stores.index_location import IndexLocation
from tests.repos import Repo


def find_location(repo: Repo, home: Path) -> IndexLocation:
    return locate_index(home, open_repository(repo.path))


def find_items(home: Path) -> dict[ItemKind, list[DeletableItem]]:
    items_by_kind: dict[ItemKind, list[DeletableItem]] = {}
    for item in find_deletable(home, lambda folder: pytest.fail(f"{folder} is unreadable"), pytest.fail):
        items_by_kind.setdefault(item.kind, []).append(item)
    return items_by_kind


def delete_items(home: Path, *, include_uncertain: bool = False) -> None:
    collect_garbage(home, yes=True, include_uncertain=include_uncertain, confirm=None)


def list_recorded_commits(repo: Repo, home: Path) -> set[str]:
    with database.open_for_reading(find_location(repo, home)) as connection:
        return {sha for (sha,) in connection.execute("SELECT commit_sha FROM commits").fetchall()}
