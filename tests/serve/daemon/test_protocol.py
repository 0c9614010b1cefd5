"""Messages between the daemon and its clients."""

from __future__ import annotations

import subprocess
import sys

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
