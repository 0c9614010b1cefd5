"""Signals that wait for the end of a step."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from pipeline import signals
from pipeline.signals import ENDING


@pytest.fixture(autouse=True)
def raising() -> Iterator[None]:
    """Each signal raises, as in a program at work."""
    before = [signal.signal(number, signal.default_int_handler) for number in ENDING]
    yield
    for number, handler in zip(ENDING, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_comes_after_the_step(number: signal.Signals) -> None:
    """However often it came meanwhile; the next one comes at once again."""
    done = []
    with pytest.raises(KeyboardInterrupt), signals.held_off():
        signal.raise_signal(number)
        signal.raise_signal(number)
        done.append(number)
    assert done == [number]
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)


def test_an_error_of_the_step_is_not_lost() -> None:
    """A step that fails after a signal came: the signal's error has the step's for its context."""
    with pytest.raises(KeyboardInterrupt) as caught, signals.held_off():
        signal.raise_signal(signal.SIGINT)
        raise ValueError
    assert isinstance(caught.value.__context__, ValueError)


def test_a_step_within_a_step() -> None:
    """The signal waits for the outer one."""
    done = []
    with pytest.raises(KeyboardInterrupt), signals.held_off():
        with signals.held_off():
            signal.raise_signal(signal.SIGINT)
        done.append("outer")
    assert done == ["outer"]


def test_what_is_ignored_stays_ignored() -> None:
    """As SIGHUP under nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with signals.held_off():
        signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_another_thread_holds_off_nothing() -> None:
    """Signals interrupt the main thread alone, whose handlers nobody else may set."""
    seen = []

    def step() -> None:
        with signals.held_off():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=step)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]
