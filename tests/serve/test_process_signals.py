"""What a signal does to a command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipeline.signals import ENDING
from serve import process
from tests.serve.processes import heard

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("number", ENDING)
def test_signals_interrupt(number: signal.Signals) -> None:
    """Each raises what Ctrl-C does, and is told; afterwards all is as it was."""
    with heard(number):
        before = [signal.getsignal(each) for each in (*ENDING, signal.SIGALRM)]
        with pytest.raises(KeyboardInterrupt), process.in_order() as told:
            signal.raise_signal(number)
        assert process.code(told.number) == 128 + number
        assert [signal.getsignal(each) for each in (*ENDING, signal.SIGALRM)] == before


def test_what_is_ignored_stays_ignored() -> None:
    """As SIGHUP under nohup."""
    with heard(signal.SIGHUP):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with process.in_order():
            signal.raise_signal(signal.SIGHUP)


def test_an_import_is_not_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that is being loaded would lose the signal, or crash; once it is there the signal comes."""
    (tmp_path / "loaded_whole.py").write_text(
        "import signal\nsignal.raise_signal(signal.SIGTERM)\nwhole = True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    whole = False
    with heard(signal.SIGTERM), pytest.raises(KeyboardInterrupt), process.in_order() as told:
        import loaded_whole  # type: ignore[import-not-found]  # written above

        whole = loaded_whole.whole
        time.sleep(20)
    assert (whole, told.number) == (True, signal.SIGTERM)


def test_a_library_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An import that does not end is interrupted after all."""
    (tmp_path / "hangs.py").write_text(
        "import signal, time\nsignal.raise_signal(signal.SIGTERM)\ntime.sleep(20)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(process, "MOST_TIMES", 5)
    before = time.monotonic()
    with heard(signal.SIGTERM), pytest.raises(KeyboardInterrupt), process.in_order():
        import hangs  # type: ignore[import-not-found]  # noqa: F401 - written above, to be loaded
    assert 5 * process.AGAIN_SECONDS <= time.monotonic() - before < 10


def test_a_command_that_ends_within_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal that would have come once all is done comes to nobody, and ends nothing."""
    (tmp_path / "loaded_last.py").write_text(
        "import signal\nsignal.raise_signal(signal.SIGTERM)\nraise SystemExit(3)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with heard(signal.SIGTERM), pytest.raises(SystemExit), process.in_order():
        import loaded_last  # type: ignore[import-not-found]  # noqa: F401 - written above, to be loaded
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_nothing_is_said_while_the_program_loads(tmp_path: Path) -> None:
    """Ctrl-C before there is anything to put in order ends it at once, without a traceback."""
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
    with heard(signal.SIGINT):
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
