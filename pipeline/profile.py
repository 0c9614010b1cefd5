"""Timings of the phases of an index run, for the summary and the `--profile` line.

Seconds are wall time, not CPU time. The time of a phase that workers run in parallel is the sum over all workers, and
the `--profile` line has this sum. For the summary, `get_elapsed_times` divides the sum by the number of workers, so
that no phase seems longer than the run.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

logger = logging.getLogger(__name__)

# Phases that the workers run in parallel.
WORKER_PHASES: Final = ("diff", "parse", "text")
# JSON field of `--profile` for each phase.
PROFILE_FIELDS: Final = {
    "walk": "commit_walk_ms",
    "diff": "diff_extract_ms",
    "parse": "tree_sitter_parse_ms",
    "text": "text_build_ms",
    "embed": "embed_ms",
    "storage": "storage_write_ms",
    "fts": "fts_insert_ms",
    "symbols": "head_symbols_ms",
}
# Phases in the summary.
SUMMARY_PHASES: Final = ("embed", "storage", "diff", "parse", "text", "symbols", "fts")
# Phases that took less time are left out of the summary.
MIN_SUMMARY_SECONDS: Final = 0.001


@dataclass(slots=True)
class Profile:
    """Seconds of each phase, and totals, of a run or a part of a run. Workers return a profile with each batch's rows.

    `diff_bytes`: bytes of all diffs, in UTF-8. `added_lines`: added lines of all hunks.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    diff_bytes: int = 0
    added_lines: int = 0

    @contextmanager
    def measure(self, phase: str) -> Iterator[None]:
        """Add the wall time of the body of the `with` statement to a phase."""
        start_time = time.perf_counter()
        try:
            yield
        finally:
            self.add_time(phase, time.perf_counter() - start_time)

    def add_time(self, phase: str, seconds: float) -> None:
        """Add seconds to a phase, or subtract them if negative."""
        self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds

    def merge(self, other: Profile) -> None:
        """Add the times and totals of another profile."""
        for phase, seconds in other.seconds.items():
            self.add_time(phase, seconds)
        self.diff_bytes += other.diff_bytes
        self.added_lines += other.added_lines

    def get_elapsed_times(self, workers: int) -> list[tuple[str, float]]:
        """Return (phase, elapsed seconds) of SUMMARY_PHASES, longest first, without those under MIN_SUMMARY_SECONDS."""
        times = [
            (phase, self.seconds.get(phase, 0.0) / _get_divisor(phase, workers)) for phase in SUMMARY_PHASES
        ]
        long_times = [(phase, seconds) for phase, seconds in times if seconds >= MIN_SUMMARY_SECONDS]
        return sorted(long_times, key=lambda pair: pair[1], reverse=True)

    def to_json_line(self, **details: int | str) -> str:
        """Return the JSON object of `--profile` in one line: milliseconds, bytes, lines, and further `details`."""
        times = {key: round(self.seconds.get(phase, 0.0) * 1000) for phase, key in PROFILE_FIELDS.items()}
        totals = {"total_diff_bytes": self.diff_bytes, "total_added_lines": self.added_lines}
        return json.dumps(times | totals | details)


def _get_divisor(phase: str, workers: int) -> int:
    """Return the number of workers whose times are summed in the seconds of a phase."""
    return max(workers, 1) if phase in WORKER_PHASES else 1


def record_times(file: Path, profile: Profile) -> None:
    """Add the times of a run to a JSON file with the total times of all runs since the index was built.

    If the file cannot be written, log a warning.
    """
    total = Counter(load_times(file)) + Counter(profile.seconds)
    temp_file = file.with_name(f"{file.name}.draft")
    try:
        temp_file.touch(mode=0o600)
        temp_file.write_text(json.dumps({phase: round(seconds, 3) for phase, seconds in total.items()}))
        temp_file.replace(file)
    except OSError as error:  # not raised, because the run has succeeded
        logger.warning("The times of this run were not recorded: %s", error)


def load_times(file: Path) -> dict[str, float]:
    """Return the seconds by phase in the file of `record_times`; empty if it is missing or damaged."""
    if not file.is_file():
        return {}
    try:
        return {phase: float(seconds) for phase, seconds in json.loads(file.read_text()).items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}
