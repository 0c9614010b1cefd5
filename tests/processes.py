"""Processes of other programs."""

from __future__ import annotations

import subprocess
import time


def wait_for_end(pid: int) -> bool:
    """Wait up to 5 seconds until a process has ended or is a zombie. Return False if neither happened."""
    for _ in range(100):
        state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, check=False).stdout
        if not state.strip() or state.startswith(b"Z"):
            return True
        time.sleep(0.05)
    return False
