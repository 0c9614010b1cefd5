"""Index runs of the evaluation in the test process, which does not have to load the libraries."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.programs import build_program_environment
from tests.eval import histories
from tests.serve.commands import run_captured


@pytest.fixture(autouse=True)
def run_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run `lineage index` in this process, without worker processes."""

    def run_lineage(home: Path, *arguments: str | Path, memory: bool) -> None:  # noqa: ARG001 - same signature
        code, _, errors = run_captured(*arguments, "--workers", "1", env=build_program_environment(home))
        assert code == 0, errors

    monkeypatch.setattr(histories, "run_lineage", run_lineage)
