"""What every test shares: an own home, and skips that a checked run does not accept."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest

from serve import config

# As at the program's door, before anything imports numpy.
config.calm_libraries()
# Some tests run the runtime themselves; the encoder sees to it on its own.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
# How long an example takes is the machine's affair, and that is shared.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty LINEAGE_HOME; no daemon is left behind for it."""
    place = tmp_path / "lineage-home"
    monkeypatch.setenv("LINEAGE_HOME", str(place))
    monkeypatch.setenv("LINEAGE_NO_DAEMON", "1")
    return place


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Where every system package is installed, a skipped test is a failure."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("NO_SKIPPED_TESTS") and reporter and reporter.stats.get("skipped") and not exitstatus:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if os.environ.get("NO_SKIPPED_TESTS") and terminalreporter.stats.get("skipped"):
        terminalreporter.write_line(
            "NO_SKIPPED_TESTS is set: the skipped tests above count as failures.", red=True
        )
