"""Fixtures of the daemon tests: a repository and a LINEAGE_HOME."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repos import Repo
from tests.serve.commands import create_timeout_repo
from tests.serve.daemon.daemons import ROOT, create_client


@pytest.fixture
def home(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Index directory whose daemon is stopped after the test."""
    monkeypatch.delenv("LINEAGE_NO_DAEMON")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    yield home
    create_client(home).stop()


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return create_timeout_repo(tmp_path / "repo")


@pytest.fixture
def shared_home(shared_index: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Index directory of the shared repository, whose daemon answers several tests."""
    monkeypatch.delenv("LINEAGE_NO_DAEMON", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return shared_index
