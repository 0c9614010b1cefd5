"""Malloc limits, tested in separate processes because a process cannot undo them."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

# Environment variables that configure or replace the allocator.
ALLOCATOR_VARIABLES = ("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD")

requires_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc's allocator")

# By default, after the large block is freed, glibc retains twice its size at the end of the heap.
MEASURE_FREED_MEMORY = """
import re
from pathlib import Path
from pipeline import workers
def read_resident_kilobytes():
    return int(re.search(r"Rss: +([0-9]+)", Path("/proc/self/smaps_rollup").read_text())[1])
{configuration}
large = bytearray(16 << 20)
del large
kilobytes_before = read_resident_kilobytes()
blocks = [bytearray(100 << 10) for _ in range(150)]
del blocks
print(read_resident_kilobytes() - kilobytes_before)
"""
PRINT_MALLOC_INFO = """
import ctypes, threading
from pipeline import workers
{configuration}
libc, barrier = ctypes.CDLL(None), threading.Barrier(4)
libc.malloc.restype = ctypes.c_void_p
def allocate():
    barrier.wait()
    libc.malloc(1000)
    barrier.wait()
threads = [threading.Thread(target=allocate) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
libc.fdopen.restype = ctypes.c_void_p
libc.malloc_info(0, ctypes.c_void_p(libc.fdopen(1, b"w")))
libc.fflush(None)
"""


@requires_glibc
def test_freed_memory_is_returned() -> None:
    """Of 15 MB freed memory, malloc retains less than 1 MB with the limits and more than 10 MB without them."""
    assert int(run_program(MEASURE_FREED_MEMORY, is_configured=True)) < 1_000
    assert int(run_program(MEASURE_FREED_MEMORY, is_configured=False)) > 10_000


@requires_glibc
def test_threads_share_an_arena() -> None:
    """With the limits all threads use one arena; without them each has its own."""
    assert run_program(PRINT_MALLOC_INFO, is_configured=True).count("<heap nr=") == 1
    assert run_program(PRINT_MALLOC_INFO, is_configured=False).count("<heap nr=") > 1


def run_program(program: str, *, is_configured: bool) -> str:
    """Run a program, with or without the malloc limits. Return its output."""
    source = program.format(configuration="workers.configure_malloc()" if is_configured else "")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(ALLOCATOR_VARIABLES)
    }
    result = subprocess.run(
        [sys.executable, "-c", source], env=environment, capture_output=True, text=True, check=True
    )
    return result.stdout
