"""Fixtures of the tests of installations."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.serve.update.install_helpers import create_venv_module


@pytest.fixture(scope="session")
def venv_module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory for the import path, with a module `venv` that creates virtual environments faster."""
    return create_venv_module(tmp_path_factory.mktemp("venv"))
