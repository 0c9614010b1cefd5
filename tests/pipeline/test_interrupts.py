"""Deferral of termination signals."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from pipeline import interrupts
from pipeline.interrupts import TERMINATION_SIGNALS


@pytest.fixture(autouse=True)
def interrupt_handlers() -> Iterator[None]:
    """Make each termination signal raise KeyboardInterrupt, and restore the handlers afterwards."""
    previous_handlers = [signal.signal(number, signal.default_int_handler) for number in TERMINATION_SIGNALS]
    yield
    for number, handler in zip(TERMINATION_SIGNALS, previous_handlers, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("number", TERMINATION_SIGNALS)
def test_signal_is_deferred(number: signal.Signals) -> None:
    """A signal that arrives twice in the body is raised once, after the body. Later signals are not deferred."""
    completed = []
    with pytest.raises(KeyboardInterrupt), interrupts.defer_signals():
        signal.raise_signal(number)
        signal.raise_signal(number)
        completed.append(number)
    assert completed == [number]
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)


def test_body_error_is_the_context() -> None:
    """If the body fails after a signal, its error is the context of the signal's exception."""
    with pytest.raises(KeyboardInterrupt) as error_info, interrupts.defer_signals():
        signal.raise_signal(signal.SIGINT)
        raise ValueError
    assert isinstance(error_info.value.__context__, ValueError)


def test_nested_deferral() -> None:
    """With nested deferrals, the signal is raised after the outer body."""
    completed = []
    with pytest.raises(KeyboardInterrupt), interrupts.defer_signals():
        with interrupts.defer_signals():
            signal.raise_signal(signal.SIGINT)
        completed.append("outer")
    assert completed == ["outer"]


def test_ignored_signal_stays_ignored() -> None:
    """An ignored signal, such as SIGHUP under `nohup`, has no effect and remains ignored."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with interrupts.defer_signals():
        signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_other_thread_defers_nothing() -> None:
    """Outside the main thread no handler is replaced."""
    handlers = []

    def run() -> None:
        with interrupts.defer_signals():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert handlers == [signal.default_int_handler]


def test_started_processes_block_signals() -> None:
    """A process that is started in the body never receives termination signals. A process that starts later does."""
    program = "import signal; print(*sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])))"
    command = [sys.executable, "-c", program]
    with interrupts.defer_signals():
        blocked = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert blocked.split() == [str(int(number)) for number in sorted(TERMINATION_SIGNALS)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "\n"
