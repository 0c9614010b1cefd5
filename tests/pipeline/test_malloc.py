"""Malloc limits, tested in separate processes because they cannot be undone."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

# Variables that configure or replace the allocator.
ALLOCATOR_VARIABLES = ("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD")

glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc's allocator")

# After a large block was freed, glibc keeps twice its size at the end of the heap.
MEASURE_FREED_MEMORY = """
import re
from pathlib import Path
from pipeline import malloc
def kilobytes():
    return int(re.search(r"Rss: +([0-9]+)", Path("/proc/self/smaps_rollup").read_text())[1])
{limit}
large = bytearray(16 << 20)
del large
before = kilobytes()
blocks = [bytearray(100 << 10) for _ in range(150)]
del blocks
print(kilobytes() - before)
"""
PRINT_MALLOC_INFO = """
import ctypes, threading
from pipeline import malloc
{limit}
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
def test_freed_memory_is_returned() -> None:
    """Of 15 MB freed memory at most one stays; without the limits more than 10 stay."""
    assert int(run_program(MEASURE_FREED_MEMORY, is_limited=True)) < 1_000
    assert int(run_program(MEASURE_FREED_MEMORY, is_limited=False)) > 10_000


@glibc
def test_threads_share_an_arena() -> None:
    """With the limits all threads use one arena; without them each has its own."""
    assert run_program(PRINT_MALLOC_INFO, is_limited=True).count("<heap nr=") == 1
    assert run_program(PRINT_MALLOC_INFO, is_limited=False).count("<heap nr=") > 1


def run_program(program: str, *, is_limited: bool) -> str:
    text = program.format(limit="malloc.limit_malloc_arenas()" if is_limited else "")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(ALLOCATOR_VARIABLES)
    }
    result = subprocess.run(
        [sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=True
    )
    return result.stdout
