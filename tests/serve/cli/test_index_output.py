"""Output of an index run."""

from __future__ import annotations

import errno
import signal
import sys
from pathlib import Path

import pytest

from pipeline import write
from pipeline.interrupts import TERMINATION_SIGNALS
from pipeline.run import Progress
from serve import process
from serve.cli import index_output, terminal
from stores import database, history
from tests.pipeline.histories import create_interleaved_repo, get_location
from tests.repos import Repo
from tests.serve.commands import run_index
from tests.serve.processes import use_default_signal_handler
from tests.serve.sample_index import WordEncoder


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """Repository with 17 commits, embedded by a simple computation."""
    monkeypatch.setenv("LINEAGE_LOG", "warn")
    monkeypatch.setattr(
        "pipeline.encoders.base.OnnxEncoder.encode", lambda _, texts: WordEncoder().encode(texts)
    )
    return create_interleaved_repo(tmp_path / "repo", rounds=2)


def raise_signal_at(monkeypatch: pytest.MonkeyPatch, stage: str, number: int, calls: int = 1) -> None:
    """Raise a signal when a stage of the run is called for the `calls`-th time."""
    function, remaining = getattr(write, stage), [calls]

    def call_stage(*args: object, **kwargs: object) -> object:
        remaining[0] -= 1
        if not remaining[0]:
            signal.raise_signal(number)
        return function(*args, **kwargs)

    monkeypatch.setattr(write, stage, call_stage)


@pytest.mark.parametrize("digits", [7, 40])
def test_events_fit_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], digits: int
) -> None:
    """On a terminal the watermark is shortened to fit 80 columns; programs get all of it."""
    process.configure_log("info")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: digits == 7)
    with index_output.report_progress(show_bar=False) as report:
        report(
            Progress(
                processed_commits=9_900, total_commits=9_999, written_hunks=99_999, watermark="0123456789" * 4
            )
        )
    line = capsys.readouterr().err.rstrip("\n")
    assert len(line.partition("watermark=")[2]) == digits
    assert (len(line) <= 80) is (digits == 7)


@pytest.mark.parametrize("number", TERMINATION_SIGNALS)
def test_interrupted_run_prints_progress(
    repo: Repo,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    number: signal.Signals,
) -> None:
    """An interrupted run prints one line with written and total commits; the exit code is the signal's."""
    raise_signal_at(monkeypatch, "write_batch", number, calls=3)
    with use_default_signal_handler(number):
        assert run_index(repo, "--commit-batch", "5") == 128 + number
    assert (
        capfd.readouterr().err
        == f"stopped after 10 of 17 commits. Run `lineage index {repo.path}` to continue.\n"
    )
    with database.open_for_reading(get_location(repo, home)) as connection:
        status = history.load_index_summary(connection)
    assert status and status.commits == 10


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("stage", "message"),
    [
        ("start_run", ""),
        ("write_batch", "stopped after 0 of 17 commits. Run `lineage index {path}` to continue.\n"),
        (
            "finish_run",
            "stopped after all 17 commits, but before the index was complete. "
            "Run `lineage index {path}` to continue.\n",
        ),
    ],
)
def test_interrupt_at_start_or_end(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], stage: str, message: str
) -> None:
    """A run prints nothing if interrupted before it knows the total, and a note after the last commit."""
    raise_signal_at(monkeypatch, stage, signal.SIGINT)
    with use_default_signal_handler(signal.SIGINT):
        assert run_index(repo) == 130
    assert capfd.readouterr() == ("", message.format(path=repo.path))


@pytest.mark.usefixtures("home")
def test_second_signal_exits_silently(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A second Ctrl-C during the message ends the program at once and silently."""
    raise_signal_at(monkeypatch, "write_batch", signal.SIGINT)
    monkeypatch.setattr("serve.cli.index_output.print_note", lambda _: signal.raise_signal(signal.SIGINT))
    with use_default_signal_handler(signal.SIGINT):
        assert run_index(repo) == 130
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("home")
def test_message_to_a_closed_terminal_is_dropped(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the terminal is closed, the message is dropped and the run ends as usual."""

    def fail(_: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    raise_signal_at(monkeypatch, "write_batch", signal.SIGHUP)
    monkeypatch.setattr("serve.cli.index_output.print_note", fail)
    with use_default_signal_handler(signal.SIGHUP):
        assert run_index(repo) == 129


def test_progress_bar_on_a_closed_terminal() -> None:
    """An EIO of the progress bar counts as an interrupt only if an interrupt caused it."""
    for cause, is_interrupt in ((KeyboardInterrupt(), True), (ValueError(), False)):
        error = OSError(errno.EIO, "Input/output error")
        error.__context__ = cause
        assert terminal.is_interrupt(error) is is_interrupt
