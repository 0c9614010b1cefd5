"""A whole index of a history: its wall time, the part that is not embedding, memory, and size.

python -m tests.bench.indexing CLONE...

Every round times git, the bare runtime and the index one after the other, and ratios are taken within the
round, so that a slow minute of the machine slows both sides.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench import indexes, references
from tests.bench.histories import History, cut, pack_bytes
from tests.bench.programs import PROJECT, lineage, run
from tests.bench.report import Asked, Row, main, median, say, seconds, show

# The limits of the project's first performance table.
RUNTIME_SHARE: Final = 1.2
GIT_SHARE: Final = 8.0
MOST_BYTES: Final = 1.2e9
PACK_SHARE: Final = 4.0

LARGEST_PARTS: Final = 10


@dataclass(frozen=True, slots=True)
class Round:
    """One round's wall seconds and peak bytes."""

    git: float
    runtime: float
    full: float
    full_bytes: int
    zeros: float

    @property
    def allowed(self) -> float:
        return RUNTIME_SHARE * self.runtime + GIT_SHARE * self.git


def measure(clone: Path, folder: Path, asked: Asked) -> Sequence[Row]:
    """All rows of one history; the tables of room and symbols are printed on the way."""
    history = cut(clone, folder / "clone", asked.commits)
    home = folder / "home"
    rounds = [_round(history, folder, home) for _ in range(asked.runs)]
    say(f"\n{history.name}: room by column, in bytes")
    show(indexes.room(history.path, home, by_column=True).head(LARGEST_PARTS))
    say(f"\n{history.name}: symbols by language")
    show(indexes.symbol_shares(history.path, home))
    return [*_times(history, rounds), _memory(history, rounds), _size(history, folder, home)]


def zeros_command(history: Path) -> tuple[str, ...]:
    """The program that indexes without embedding."""
    return (sys.executable, "-m", "tests.bench.index_without_embedding", str(history))


def _round(history: History, folder: Path, home: Path) -> Round:
    for old in (home, folder / "zeros"):
        shutil.rmtree(old, ignore_errors=True)
    git = references.git_log_seconds(history.path)
    without = run(zeros_command(history.path), home=folder / "zeros", memory=False).seconds
    full = lineage(home, "index", history.path, "--no-progress")
    runtime = _raw_runtime(history, home)
    return Round(git, runtime, full.seconds, full.peak_bytes, without)


def _raw_runtime(history: History, home: Path) -> float:
    """In a process of its own: what ran here before would leave its threads and its memory behind."""
    code = (
        "import sys; from pathlib import Path; from tests.bench import indexes, references;"
        "print(references.raw_runtime_seconds(indexes.texts(*map(Path, sys.argv[1:]))))"
    )
    return float(run((sys.executable, "-c", code, str(history.path), str(home)), home=PROJECT).out)


def _times(history: History, rounds: Sequence[Round]) -> list[Row]:
    log, raw = [r.git for r in rounds], [r.runtime for r in rounds]
    full, without = [r.full for r in rounds], [r.zeros for r in rounds]
    return [
        Row(
            history.name,
            f"full index of {history.commits:,} commits / (1.2 x runtime + 8 x git log -p)",
            median([r.full / r.allowed for r in rounds]),
            1.0,
            f"index {seconds(full)}, runtime {seconds(raw)}, git log -p {seconds(log)}",
        ),
        Row(
            history.name,
            "everything but embedding / git log -p",
            median([r.zeros / r.git for r in rounds]),
            GIT_SHARE,
            f"index of zeros {seconds(without)}, git log -p {seconds(log)}",
        ),
    ]


def _memory(history: History, rounds: Sequence[Round]) -> Row:
    return Row(
        history.name,
        "peak memory of the full index, bytes",
        max(r.full_bytes for r in rounds),
        MOST_BYTES,
        f"all processes, the largest of {len(rounds)}",
    )


def _size(history: History, folder: Path, home: Path) -> Row:
    index, pack = indexes.size(history.path, home), pack_bytes(history.path, folder / "fresh.git")
    parts = indexes.room(history.path, home).head(4).iter_rows()
    largest = ", ".join(f"{name} {100 * size / index:.0f} %" for name, size in parts)
    return Row(
        history.name,
        "index size / pack of a fresh clone",
        index / pack,
        PACK_SHARE,
        f"{index:,} / {pack:,} bytes; {largest}",
    )


if __name__ == "__main__":
    main(measure, __doc__ or "")
