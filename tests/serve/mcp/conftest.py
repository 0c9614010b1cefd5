"""Fixtures of the MCP tests: a repository and a LINEAGE_HOME."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repos import Repo
from tests.serve.commands import create_timeout_repo
from tests.serve.daemon.daemons import create_client


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return create_timeout_repo(tmp_path / "repo")


@pytest.fixture
def home(home: Path) -> Iterator[Path]:
    """LINEAGE_HOME directory whose daemon, if the test starts one, is stopped after the test."""
    yield home
    create_client(home).stop()
