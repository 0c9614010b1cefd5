"""What is freed goes back to the system. Asked of processes of their own: an allocator cannot be told to forget."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

# What somebody may have told the allocator already, or put in its place.
TOUCHING = ("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD")

glibc = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="only glibc's allocator is told anything"
)

# Once a large block was freed, glibc keeps twice as much at the end of the heap.
KEPT = """
import re
from pathlib import Path
from pipeline import malloc
def kilobytes():
    return int(re.search(r"Rss: +([0-9]+)", Path("/proc/self/smaps_rollup").read_text())[1])
{told}
large = bytearray(16 << 20)
del large
begun = kilobytes()
many = [bytearray(100 << 10) for _ in range(150)]
del many
print(kilobytes() - begun)
"""
HEAPS = """
import ctypes, threading
from pipeline import malloc
{told}
libc, together = ctypes.CDLL(None), threading.Barrier(4)
libc.malloc.restype = ctypes.c_void_p
def allocate():
    together.wait()
    libc.malloc(1000)
    together.wait()
threads = [threading.Thread(target=allocate) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
libc.fdopen.restype = ctypes.c_void_p
libc.malloc_info(0, ctypes.c_void_p(libc.fdopen(1, b"w")))
libc.fflush(None)
"""


@glibc
def test_freed_memory_goes_back() -> None:
    """A megabyte at most stays of fifteen; untold, they all do."""
    assert int(said(KEPT, told=True)) < 1_000
    assert int(said(KEPT, told=False)) > 10_000


@glibc
def test_one_heap_for_all_threads() -> None:
    """So that what one thread freed is there for the others; untold, each has its own."""
    assert said(HEAPS, told=True).count("<heap nr=") == 1
    assert said(HEAPS, told=False).count("<heap nr=") > 1


def said(program: str, *, told: bool) -> str:
    text = program.format(told="malloc.limit_malloc_arenas()" if told else "")
    untouched = {name: value for name, value in os.environ.items() if not name.startswith(TOUCHING)}
    done = subprocess.run(
        [sys.executable, "-c", text], env=untouched, capture_output=True, text=True, check=True
    )
    return done.stdout
