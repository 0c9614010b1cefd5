"""Fixtures shared by all tests, and the rule that a full test run must not skip tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from pipeline.encoders import base, cross_encoder
from pipeline.workers import count_usable_cpus
from serve import config

# As in the programs, before anything imports numpy.
config.configure_libraries()
# For tests that use the ONNX runtime directly; the encoder sets this itself.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
# A shell ignores these in background jobs, and so does nohup. Tests send them to the programs that they start.
for _number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)
# No deadline per example, because test machines may be shared and slow.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


@pytest.fixture(scope="session", autouse=True)
def shared_models() -> Iterator[None]:
    """Load each model once for all tests of this process. Commands load it each time, for about a second."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (base, cross_encoder):
            patch.setattr(module, "load_model", load_once(module.load_model))
        patch.setattr(base, "load_query_model", load_once(base.load_query_model))
        yield


def load_once(load_model: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with a cache of the bundled models; files of a test are always loaded."""
    bundled, load = base.MODELS_DIR, cache(load_model)
    return lambda *arguments: (load if bundled == base.MODELS_DIR else load_model)(*arguments)


@pytest.fixture(scope="session", autouse=True)
def user_directories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep tests that set no directories of their own out of the developer's home."""
    directory = tmp_path_factory.mktemp("user")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("LINEAGE_HOME", "MINDMAP_DATA_DIR", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR"):
            patch.setenv(name, str(directory / name.lower()))
        yield


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Empty LINEAGE_HOME, and no daemon."""
    path = tmp_path / "lineage-home"
    monkeypatch.setenv("LINEAGE_HOME", str(path))
    monkeypatch.setenv("LINEAGE_NO_DAEMON", "1")
    return path


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spread the tests with their own time limit over the first half, so that none of minutes runs alone at the end.

    Each worker gets consecutive tests.
    """
    long_tests = [item for item in items if item.get_closest_marker("timeout")]
    others = [item for item in items if not item.get_closest_marker("timeout")]
    step = max(1, len(others) // (2 * len(long_tests))) if long_tests else 1
    for number, item in enumerate(long_tests):
        others.insert(number * (step + 1), item)
    items[:] = others


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return the number of workers for `-n logical`: two more than processors, as many tests wait for programs.

    On two processors, a tenth of the tests took 10 % less time with four workers than with three; with five, no less.
    """
    return count_usable_cpus() + 2


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail the run if NO_SKIPPED_TESTS is set and a test was skipped."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("NO_SKIPPED_TESTS") and reporter and reporter.stats.get("skipped") and not exitstatus:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Explain why skipped tests fail the run."""
    if os.environ.get("NO_SKIPPED_TESTS") and terminalreporter.stats.get("skipped"):
        terminalreporter.write_line(
            "NO_SKIPPED_TESTS is set: the skipped tests above count as failures.", red=True
        )
