"""Test of `tests.bench.memory`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.bench.programs import run_program

ALLOCATED_BYTES = 40_000_000
PROGRAM = f"""
import subprocess, sys, time
allocated = bytearray(b"x") * {ALLOCATED_BYTES}
if len(sys.argv) < 3:
    subprocess.run([sys.executable, "-c", sys.argv[1], sys.argv[1], "child"], check=True)
else:
    time.sleep(0.5)
"""


def test_session_memory_includes_children(tmp_path: Path) -> None:
    """The memory of a session includes child processes."""
    result = run_program((sys.executable, "-c", PROGRAM, PROGRAM), home=tmp_path)
    assert 2 * ALLOCATED_BYTES < result.peak_bytes < 4 * ALLOCATED_BYTES
    assert result.seconds > 0.5
