"""Processes of other programs."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import time

# Linux: operation of `prctl`, and the capabilities that let root read every file.
PR_CAPBSET_DROP = 24
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2


def respect_permissions() -> None:
    """Make the program that this process executes respect file permissions, also if it runs as root."""
    if sys.platform == "linux":
        for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
            ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability)


def wait_for_end(pid: int) -> bool:
    """Wait up to 5 seconds until a process has ended or is a zombie. Return False if neither happened."""
    for _ in range(100):
        state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, check=False).stdout
        if not state.strip() or state.startswith(b"Z"):
            return True
        time.sleep(0.05)
    return False
