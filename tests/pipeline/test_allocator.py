"""What is freed goes back to the system. Asked of processes of their own: an allocator cannot be told to forget."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

glibc = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="only glibc's allocator is told anything"
)

# A large block that is freed has glibc keep as much from then on; what lies on the heap above it is then kept as well.
KEPT = """
from pathlib import Path
from pipeline import allocator
{told}
del_me = bytearray(16 << 20)
del del_me
begun = int(Path("/proc/self/statm").read_text().split()[1])
many = [bytearray(100 << 10) for _ in range(150)]
del many
print((int(Path("/proc/self/statm").read_text().split()[1]) - begun) * 4096)
"""
HEAPS = """
import ctypes, threading
from pipeline import allocator
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
    assert int(said(KEPT, told=True)) < 1 << 20
    assert int(said(KEPT, told=False)) > 10 << 20


@glibc
def test_one_heap_for_all_threads() -> None:
    """So that what one thread freed is there for the others; untold, each has its own."""
    assert said(HEAPS, told=True).count("<heap nr=") == 1
    assert said(HEAPS, told=False).count("<heap nr=") > 1


def said(program: str, *, told: bool) -> str:
    text = program.format(told="allocator.spare()" if told else "")
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout
