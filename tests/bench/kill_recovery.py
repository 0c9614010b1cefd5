"""`kill -9` in the middle of an index, then `index` again: is it the index of an undisturbed run?

python -m tests.bench.kill_recovery CLONE...

The run is followed by its log. Once it has told of the share of commits, it is killed a part of a batch later.
Only the main process is hit, as the system's memory killer would. A real run spends its time embedding, so most
blows fall there; runs without embedding are killed at moments all over, most of which fall while rows are
extracted or written.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipeline.run import COMMITS_PER_BATCH
from serve.index_status import of_path
from tests.bench import indexes
from tests.bench.histories import History, cut
from tests.bench.indexing import zeros_command
from tests.bench.programs import LINEAGE, lineage, run, start
from tests.bench.report import Asked, Row, main

SHARES: Final = (0.25, 0.5, 0.75)
MOST_REDONE: Final = 100
SEED: Final = 3

Content = dict[str, tuple[int, str]]

_EVENT: Final = re.compile(r"event=indexing commits=(\d+) total=(\d+)")


@dataclass(frozen=True, slots=True)
class Blow:
    """A run that was killed: commits it had told of, and commits of `total` that the index has behind it."""

    told: int
    total: int
    passed: int

    @property
    def redone(self) -> int:
        """Commits that may have been done and are to be done again: those told of and lost, and the batch in hand."""
        return max(0, min(self.told + COMMITS_PER_BATCH, self.total) - self.passed)


def measure(clone: Path, folder: Path, asked: Asked) -> Sequence[Row]:
    """Two rows for each share: what differs from a clean index, and commits that had to be done again."""
    history = cut(clone, folder / "clone", asked.commits)
    chance = random.Random(SEED)  # noqa: S311 - repeatable moments, nothing secret
    lineage(folder / "clean", "index", history.path, "--no-progress")
    clean = indexes.fingerprint(history.path, folder / "clean")
    killed = [
        row
        for share in SHARES
        for row in _killed_at(share, history, folder / "killed", clean, chance.random())
    ]
    return [
        *killed,
        _killed_anywhere(
            history, folder, [(turn + chance.random()) / asked.runs for turn in range(asked.runs)]
        ),
    ]


def _killed_at(share: float, history: History, home: Path, clean: Content, part: float) -> list[Row]:
    shutil.rmtree(home, ignore_errors=True)
    blow = strike(history, home, share, part)
    lineage(home, "index", history.path, "--no-progress")
    differing = _differing(clean, indexes.fingerprint(history.path, home))
    rows = sum(count for count, _ in clean.values())
    told = f"told of {blow.told:,} of {blow.total:,} commits, {blow.passed:,} need no second time"
    named = f"kill -9 at {share:.0%}"
    compared = "; ".join(differing) or f"{len(clean)} tables, {rows:,} rows"
    return [
        Row(history.name, f"{named}: tables that differ", len(differing), 0, compared),
        Row(history.name, f"{named}: commits redone, at most", blow.redone, MOST_REDONE, told),
    ]


def strike(history: History, home: Path, share: float, part: float = 0.0) -> Blow:
    """Start a run, kill it a part of a batch after it told of the share, and look at what it left."""
    began = time.perf_counter()
    process = start((*LINEAGE, "index", str(history.path), "--no-progress"), home=home)
    told, total = followed(process, share)
    assert process.stderr is not None
    batches = max(1, told // COMMITS_PER_BATCH)
    time.sleep(part * (time.perf_counter() - began) / batches)
    process.kill()
    process.wait()
    # At once, while its workers still find out that they are orphans.
    behind = of_path(history.path, home)[1].behind
    told, total = max(map(_counts, _EVENT.finditer(process.stderr.read())), default=(told, total))
    return Blow(told, total, total - behind)


def followed(process: subprocess.Popen[str], share: float) -> tuple[int, int]:
    """Read its log until it tells of this share of the commits; commits told of, and all."""
    assert process.stderr is not None
    told, total = 0, 0
    for line in process.stderr:
        if event := _EVENT.search(line):
            told, total = _counts(event)
            if told / total >= share:
                break
    return told, total


def _killed_anywhere(history: History, folder: Path, moments: Sequence[float]) -> Row:
    """Runs without embedding, killed at these parts of an undisturbed run's time, and run again."""
    whole = run(zeros_command(history.path), home=folder / "clean-zeros", memory=False).seconds
    clean = indexes.fingerprint(history.path, folder / "clean-zeros")
    differing = []
    for moment in moments:
        home = folder / f"zeros-{moment}"
        process = start(zeros_command(history.path), home=home)
        time.sleep(moment * whole)
        process.kill()
        process.communicate()
        run(zeros_command(history.path), home=home, memory=False)
        differing += _differing(clean, indexes.fingerprint(history.path, home))
    return Row(
        history.name,
        f"kill -9 at {len(moments)} moments of a run without embedding: tables that differ",
        len(differing),
        0,
        "; ".join(differing) or f"at {', '.join(f'{moment:.0%}' for moment in sorted(moments))}",
    )


def _differing(clean: Content, after: Content) -> list[str]:
    return [
        f"{table}: {after[table][0]:,} rows for {content[0]:,}"
        for table, content in clean.items()
        if after[table] != content
    ]


def _counts(event: re.Match[str]) -> tuple[int, int]:
    return int(event[1]), int(event[2])


if __name__ == "__main__":
    main(measure, __doc__ or "")
