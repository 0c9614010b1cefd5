"""Contents of the sample repository of these tests."""

from __future__ import annotations

from typing import Final

COMMITS: Final = 40
# Each merges two commits.
MERGES: Final = 4
MESSAGE: Final = """Let waiting for {thing} end after {number} seconds (#{number})

A peer that never answers kept {thing} and its caller forever. The limit can be given by whoever asks.
"""
THINGS: Final = ("sockets", "locks", "queues", "pipes", "timers", "frames", "replies", "handles")
