"""What a person is told of an index run."""

from __future__ import annotations

import errno
import signal
import sys
from pathlib import Path

import pytest

from pipeline import write
from pipeline.run import Progress
from pipeline.signals import ENDING
from serve import logs
from serve.cli import exit_codes, index_output
from stores import database, history
from tests.pipeline.histories import interleaved, place
from tests.repos import Repo
from tests.serve.commands import indexed
from tests.serve.processes import heard
from tests.serve.sample_index import WordEncoder


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    monkeypatch.setattr(
        "pipeline.encoders.base.OnnxEncoder.encode", lambda _, texts: WordEncoder().encode(texts)
    )
    return interleaved(tmp_path / "repo", rounds=2)


def stopping(monkeypatch: pytest.MonkeyPatch, stage: str, number: int, calls: int = 1) -> None:
    """Have a signal come when a stage of the run is called for this time."""
    function, left = getattr(write, stage), [calls]

    def stopped(*given: object, **named: object) -> object:
        left[0] -= 1
        if not left[0]:
            signal.raise_signal(number)
        return function(*given, **named)

    monkeypatch.setattr(write, stage, stopped)


@pytest.mark.parametrize("digits", [7, 40])
def test_events_fit_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], digits: int
) -> None:
    """There the watermark is short, so that 80 columns are enough; programs get the whole of it."""
    logs.configure("info")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: digits == 7)
    with index_output.heard(bar=False) as hear:
        hear(Progress(commits=9_900, total=9_999, hunks=99_999, watermark="0123456789" * 4))
    line = capsys.readouterr().err.rstrip("\n")
    assert len(line.partition("watermark=")[2]) == digits
    assert (len(line) <= 80) is (digits == 7)


@pytest.mark.parametrize("number", ENDING)
def test_a_stopped_run_says_how_far_it_came(
    repo: Repo,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    number: signal.Signals,
) -> None:
    """One line, of what is written and of what there was to do; the exit code is the signal's."""
    stopping(monkeypatch, "write_batch", number, calls=3)
    with heard(number):
        assert indexed(repo, "--commit-batch", "5") == 128 + number
    assert (
        capfd.readouterr().err
        == f"stopped after 10 of 17 commits; `lineage index {repo.path}` goes on from there\n"
    )
    with database.reading(place(repo, home)) as connection:
        status = history.status(connection)
    assert status and status.commits == 10


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("stage", "says"),
    [
        ("begin", ""),
        ("write_batch", "stopped after 0 of 17 commits; `lineage index {path}` goes on from there\n"),
        (
            "finish",
            "stopped after all 17 commits, before the index was complete; `lineage index {path}` goes on from there\n",
        ),
    ],
)
def test_a_run_stopped_at_its_ends(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], stage: str, says: str
) -> None:
    """Before it knows what there is to do it says nothing; behind the last commit it is not done yet."""
    stopping(monkeypatch, stage, signal.SIGINT)
    with heard(signal.SIGINT):
        assert indexed(repo) == 130
    assert capfd.readouterr() == ("", says.format(path=repo.path))


@pytest.mark.usefixtures("home")
def test_a_second_signal_takes_the_last_word(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Who presses Ctrl-C again while it is said leaves at once, and silently."""
    stopping(monkeypatch, "write_batch", signal.SIGINT)
    monkeypatch.setattr("serve.cli.index_output.note", lambda _: signal.raise_signal(signal.SIGINT))
    with heard(signal.SIGINT):
        assert indexed(repo) == 130
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("home")
def test_nobody_hears_the_last_word(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that was closed takes no word, and the run ends as it would have."""

    def gone(_: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    stopping(monkeypatch, "write_batch", signal.SIGHUP)
    monkeypatch.setattr("serve.cli.index_output.note", gone)
    with heard(signal.SIGHUP):
        assert indexed(repo) == 129


def test_a_bar_whose_terminal_was_closed() -> None:
    """It fails as it is taken away, on the way out of what the terminal ended; other failures are failures."""
    for cause, is_one in ((KeyboardInterrupt(), True), (ValueError(), False)):
        error = OSError(errno.EIO, "Input/output error")
        error.__context__ = cause
        assert exit_codes.is_interrupt(error) is is_one
