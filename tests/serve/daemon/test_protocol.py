"""Messages between the daemon and its clients."""

from __future__ import annotations

import subprocess
import sys

from serve.daemon.protocol import ErrorResponse
from serve.errors import NoAnswer

DECODE_IN_THREADS = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
from serve.daemon import protocol
from serve.find_types import FindAnswer

sys.setswitchinterval(1e-6)
barrier = threading.Barrier(20)

def decode(_):
    barrier.wait()
    try:
        protocol.decode(b"{}", FindAnswer)
    except ValueError as error:
        return str(error)

with ThreadPoolExecutor(20) as pool:
    assert set(pool.map(decode, range(20))) == {"Object missing required field `hits`"}
"""


def test_first_answers_in_several_threads() -> None:
    """Threads can decode the first answers of a process at the same time. Five tries, as a race may not happen."""
    for _ in range(5):
        subprocess.run([sys.executable, "-c", DECODE_IN_THREADS], check=True)


def test_class_of_an_error() -> None:
    """A client gets the error of a search without any answer with its class, so that it can complete the message."""
    error = ErrorResponse.from_error(NoAnswer("alpha: no answer", hint="Wait.")).error
    assert (type(error), error.message, error.hint) == (NoAnswer, "alpha: no answer", "Wait.")
