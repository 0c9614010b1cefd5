"""Effect of signals on a command."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from pipeline.interrupts import TERMINATION_SIGNALS
from serve import process
from tests.serve.commands import create_timeout_repo
from tests.serve.processes import use_default_signal_handler

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def traceback_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore after each test what prints tracebacks, because a program that got a signal prints no more of them."""
    for module, name in ((sys, "unraisablehook"), (threading, "excepthook")):
        monkeypatch.setattr(module, name, getattr(module, name))
    monkeypatch.setattr(logging.getLogger("concurrent.futures"), "disabled", False)


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


def wait_for_interrupt() -> None:
    """Wait for a signal, without a limit, because a virtual machine can stand still for longer than a single sleep."""
    while True:
        time.sleep(0.01)


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
        wait_for_interrupt()
    assert (is_complete, received.number) == (True, signal.SIGTERM)


def test_hanging_import_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An import that hangs is interrupted after `MAX_RETRIES` delays."""
    (tmp_path / "hangs.py").write_text(
        "import signal, time\nsignal.raise_signal(signal.SIGTERM)\nwhile True:\n    time.sleep(0.01)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(process, "MAX_RETRIES", 5)
    before = time.monotonic()
    with (
        use_default_signal_handler(signal.SIGTERM),
        pytest.raises(KeyboardInterrupt),
        process.handle_termination_signals() as received,
    ):
        import hangs  # type: ignore[import-not-found]  # noqa: F401 - written above, to be loaded
    assert received.retries == 5
    assert time.monotonic() - before >= 5 * process.RETRY_SECONDS


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


def test_signal_in_a_finalizer(capfd: pytest.CaptureFixture[str]) -> None:
    """A signal during a finalizer, which loses exceptions, takes effect after it and prints no traceback."""

    class Finalized:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)
            time.sleep(0)

    with (
        use_default_signal_handler(signal.SIGTERM),
        pytest.raises(KeyboardInterrupt),
        process.handle_termination_signals() as received,
    ):
        Finalized()
        wait_for_interrupt()
    assert received.number == signal.SIGTERM
    assert capfd.readouterr().err == ""


def test_failed_thread_after_a_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that fails prints its traceback, but not while the command ends because of a signal."""
    failures: list[type[BaseException]] = []
    monkeypatch.setattr(threading, "excepthook", lambda failure: failures.append(failure.exc_type))

    def fail_in_thread() -> None:
        thread = threading.Thread(target=int, args=["x"])
        thread.start()
        thread.join()

    with use_default_signal_handler(signal.SIGTERM), process.handle_termination_signals():
        fail_in_thread()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        fail_in_thread()
    assert failures == [ValueError]


def test_signal_at_the_end_of_a_command() -> None:
    """A signal after the end of a command, before the handlers are restored, prints no traceback."""
    program = (
        "import signal, sys; from serve.cli.app import main\n"
        "signal.setitimer = lambda *_: signal.raise_signal(signal.SIGTERM)\n"  # it is called at the end
        "sys.exit(main(['--version']))"
    )
    with use_default_signal_handler(signal.SIGTERM):
        result = subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
        )
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("command", ["lineage", "lineage_mcp", "mindmap"])
def test_interrupt_while_loading_is_silent(command: str) -> None:
    """Ctrl-C while a program imports its first module ends it immediately, without a traceback."""
    program = (
        "import sys, time, history_lineage\n"
        "class Slow:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'serve': print(flush=True); time.sleep(60)\n"
        "sys.meta_path.insert(0, Slow())\n"
        f"history_lineage.{command}()\n"
    )
    with use_default_signal_handler(signal.SIGINT):
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert process.stdout and process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert (process.communicate(timeout=20)[1], process.returncode) == ("", -signal.SIGINT)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_in_the_first_seconds_of_an_index_run(
    tmp_path: Path, home: Path, number: signal.Signals
) -> None:
    """An index run and its workers print no traceback, whenever a signal to all of them arrives."""
    repo = create_timeout_repo(tmp_path / "repo")
    program_path = str(Path(sys.executable).with_name("lineage"))
    command = [program_path, "index", str(repo.path), "--workers", "2", "--rebuild", "--yes"]
    for delay in (0.1, 0.4, 0.7, 1.0, 1.5):
        with use_default_signal_handler(number):
            program = subprocess.Popen(
                command,
                env=os.environ | {"LINEAGE_HOME": str(home), "LINEAGE_LOG": "off"},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        with suppress(subprocess.TimeoutExpired):
            program.wait(delay)
        with suppress(ProcessLookupError):  # it may have finished
            os.killpg(program.pid, number)
        errors = program.communicate(timeout=60)[1]
        assert all(line.startswith("stopped after ") for line in errors.splitlines()), errors
        assert program.returncode in (0, -number, 128 + number)


JOBLIB_PROGRAM = """
import sys, time, warnings
from joblib import Parallel, delayed
from pipeline import interrupts
from serve import config, process

config.configure_libraries()
warnings.filterwarnings("ignore", ".*have been cancelled")
with process.handle_termination_signals() as received:
    try:
        print(flush=True)
        interrupts.start_resource_tracker()
        with interrupts.defer_signals():
            results = Parallel(2, return_as="generator")(delayed(time.sleep)(0.1) for _ in range(2_000))
        list(results)
    except KeyboardInterrupt:
        sys.exit(process.compute_signal_exit_code(received.number))
"""


def start_joblib_program() -> subprocess.Popen[str]:
    """Start the program in a process group of its own, and return it when it is about to start its workers."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
    with ExitStack() as stack:
        for number in TERMINATION_SIGNALS:
            stack.enter_context(use_default_signal_handler(number))
        program = subprocess.Popen(
            [sys.executable, "-c", JOBLIB_PROGRAM],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    assert program.stdout and program.stdout.readline()
    return program


@pytest.mark.parametrize("number", TERMINATION_SIGNALS)
@pytest.mark.parametrize("delay", [0.1, 0.4])
def test_signal_to_joblib_workers(number: signal.Signals, delay: float) -> None:
    """A signal to a program and its joblib workers prints nothing, at any time during their start or work."""
    program = start_joblib_program()
    time.sleep(delay)
    os.killpg(program.pid, number)
    # Ends when all processes that can print have ended.
    assert (program.communicate(timeout=60)[1], program.returncode) == ("", 128 + number)


@pytest.mark.skipif(shutil.which("ps") is None, reason="needs the ps program (Debian's procps)")
def test_killed_joblib_program() -> None:
    """After `kill -9` of a program and its workers, the trackers delete their semaphores without a warning."""
    program = start_joblib_program()
    processes = dict[int, str]()
    while sum("popen_loky" in command for command in processes.values()) < 2:
        assert program.poll() is None
        time.sleep(0.1)
        processes = list_session(program.pid)
    program.kill()
    for pid, command in processes.items():
        if "resource_tracker" not in command:
            os.kill(pid, signal.SIGKILL)
    assert (program.communicate(timeout=60)[1], program.returncode) == ("", -signal.SIGKILL)


def list_session(leader: int) -> dict[int, str]:
    """Return process ids and command lines of the session that the process `leader` started."""
    list_processes = ["ps", "-A", "-ww", "-o", "pid=,sess=,args="]
    output = subprocess.run(list_processes, capture_output=True, text=True, check=True).stdout
    rows = [line.split(maxsplit=2) for line in output.splitlines()]
    return {int(pid): command for pid, session, command in rows if int(session) == leader}
