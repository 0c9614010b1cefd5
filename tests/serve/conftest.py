"""Fixtures of a repository and its index, for all tests that do not change them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repos import Repo
from tests.serve.commands import create_timeout_repo
from tests.serve.daemon.daemons import create_client
from tests.serve.sample_index import build_index


@pytest.fixture(scope="session")
def shared_repo(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    """Repository that no test changes."""
    return create_timeout_repo(tmp_path_factory.mktemp("shared") / "repo")


@pytest.fixture(scope="session")
def shared_index(tmp_path_factory: pytest.TempPathFactory, shared_repo: Repo) -> Iterator[Path]:
    """LINEAGE_HOME with the index of the shared repository. A daemon that a test starts there runs until the end."""
    path = tmp_path_factory.mktemp("shared") / "home"
    build_index(shared_repo, path)
    yield path
    create_client(path).stop()
