"""Effect of signals on a command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipeline.signals import TERMINATION_SIGNALS
from serve import process
from tests.serve.processes import use_default_signal_handler

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("number", TERMINATION_SIGNALS)
def test_signals_raise_keyboard_interrupt(number: signal.Signals) -> None:
    """Each signal raises KeyboardInterrupt and is recorded; afterwards the old handlers are restored."""
    with use_default_signal_handler(number):
        previous_handlers = [signal.getsignal(each) for each in (*TERMINATION_SIGNALS, signal.SIGALRM)]
        with pytest.raises(KeyboardInterrupt), process.handle_termination_signals() as received_signal:
            signal.raise_signal(number)
        assert process.compute_signal_exit_code(received_signal.number) == 128 + number
        assert [
            signal.getsignal(each) for each in (*TERMINATION_SIGNALS, signal.SIGALRM)
        ] == previous_handlers


def test_ignored_signal_stays_ignored() -> None:
    """An ignored signal, such as SIGHUP under nohup, stays ignored."""
    with use_default_signal_handler(signal.SIGHUP):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with process.handle_termination_signals():
            signal.raise_signal(signal.SIGHUP)


def test_alarm_of_the_caller_stays() -> None:
    """A timer that was set before, such as the time limit of a test, keeps running, with its handler."""
    previous_handler, previous_timer = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)
    handler = lambda *_: None  # noqa: E731
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 60)
    try:
        with process.handle_termination_signals():
            assert signal.getsignal(signal.SIGALRM) is handler
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    finally:
        signal.signal(signal.SIGALRM, previous_handler)
        signal.setitimer(signal.ITIMER_REAL, *previous_timer)


def test_signal_waits_for_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal during an import takes effect after the import."""
    (tmp_path / "loaded_whole.py").write_text(
        "import signal\nsignal.raise_signal(signal.SIGTERM)\nwhole = True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    is_complete = False
    with (
        use_default_signal_handler(signal.SIGTERM),
        pytest.raises(KeyboardInterrupt),
        process.handle_termination_signals() as received,
    ):
        import loaded_whole  # type: ignore[import-not-found]  # written above

        is_complete = loaded_whole.whole
        time.sleep(20)
    assert (is_complete, received.number) == (True, signal.SIGTERM)


def test_hanging_import_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An import that hangs is interrupted after `MAX_RETRIES` delays."""
    (tmp_path / "hangs.py").write_text(
        "import signal, time\nsignal.raise_signal(signal.SIGTERM)\ntime.sleep(20)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(process, "MAX_RETRIES", 5)
    before = time.monotonic()
    with (
        use_default_signal_handler(signal.SIGTERM),
        pytest.raises(KeyboardInterrupt),
        process.handle_termination_signals(),
    ):
        import hangs  # type: ignore[import-not-found]  # noqa: F401 - written above, to be loaded
    assert 5 * process.RETRY_SECONDS <= time.monotonic() - before < 10


def test_postponed_signal_is_dropped_at_exit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A postponed signal is dropped if the command ends during the import."""
    (tmp_path / "loaded_last.py").write_text(
        "import signal\nsignal.raise_signal(signal.SIGTERM)\nraise SystemExit(3)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with (
        use_default_signal_handler(signal.SIGTERM),
        pytest.raises(SystemExit),
        process.handle_termination_signals(),
    ):
        import loaded_last  # type: ignore[import-not-found]  # noqa: F401 - written above, to be loaded
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_interrupt_while_loading_is_silent(tmp_path: Path) -> None:
    """Ctrl-C while the program is importing ends it immediately, without a traceback."""
    (tmp_path / "slow.py").write_text("import time\nprint(flush=True)\ntime.sleep(20)\n")
    program = (
        "import sys\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "from serve.cli import entry\n"
        "class Slow:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'serve.cli.app': import slow\n"
        "sys.meta_path.insert(0, Slow())\n"
        "entry.main()\n"
    )
    with use_default_signal_handler(signal.SIGINT):
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert process.stdout and process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert (process.communicate(timeout=20)[1], process.returncode) == ("", -signal.SIGINT)
