"""Phase timings: the summary's bars and the `--profile` line.

Times are wall time. The phases of the workers (diff, parse) are summed over all of them; `share` divides them
by the number of workers, so that no phase exceeds the run it was part of.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

# Phases that run in the workers, side by side.
WORKER_PHASES: Final = ("diff", "parse")
PROFILE_FIELDS: Final = {
    "walk": "commit_walk_ms",
    "diff": "diff_extract_ms",
    "parse": "tree_sitter_parse_ms",
    "embed": "embed_ms",
    "storage": "storage_write_ms",
    "fts": "fts_insert_ms",
    "symbols": "head_symbols_ms",
}
# The phases of the summary, in the specification's words.
SUMMARY_PHASES: Final = ("embed", "storage", "diff", "parse", "symbols", "fts")


@dataclass(slots=True)
class Profile:
    """Seconds by phase and totals of one run; a worker's share travels back beside its rows."""

    seconds: dict[str, float] = field(default_factory=dict)
    diff_bytes: int = 0
    added_lines: int = 0

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Book the wall time of the body."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.spend(name, time.perf_counter() - started)

    def spend(self, name: str, seconds: float) -> None:
        """Book some seconds."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    def add(self, other: Profile) -> None:
        """Book what a worker spent."""
        for name, seconds in other.seconds.items():
            self.spend(name, seconds)
        self.diff_bytes += other.diff_bytes
        self.added_lines += other.added_lines

    def shares(self, workers: int) -> list[tuple[str, float]]:
        """(phase, wall seconds) in descending order, without phases of no whole millisecond."""
        spent = (
            (name, self.seconds.get(name, 0.0) / _side_by_side(name, workers)) for name in SUMMARY_PHASES
        )
        return sorted(((name, s) for name, s in spent if s >= 0.001), key=lambda pair: -pair[1])

    def line(self) -> str:
        """The one-line JSON object of `--profile`: whole milliseconds, bytes and lines."""
        times = {key: round(self.seconds.get(name, 0.0) * 1000) for name, key in PROFILE_FIELDS.items()}
        totals = {"total_diff_bytes": self.diff_bytes, "total_added_lines": self.added_lines}
        return json.dumps(times | totals)


def _side_by_side(name: str, workers: int) -> int:
    return max(workers, 1) if name in WORKER_PHASES else 1
