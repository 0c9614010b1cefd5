"""Benchmark of a full index run: wall time, time without embedding, peak memory, and index size.

python -m tests.bench.indexing CLONE...

Every round times git, ONNX Runtime alone and the index run in turn, and ratios are taken within the
round, so that a slow phase of the machine affects both sides.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench import indexes, references
from tests.bench.histories import History, clone_history, pack_bytes
from tests.bench.programs import PROJECT, run_lineage, run_program
from tests.bench.report import BenchmarkOptions, Row, format_seconds, main, median, print_line, print_table

# Upper bounds of the ratios, and of the memory in bytes.
RUNTIME_SHARE: Final = 1.2
GIT_SHARE: Final = 8.0
MAX_BYTES: Final = 1.2e9
PACK_SHARE: Final = 4.0

SHOWN_COLUMNS: Final = 10


@dataclass(frozen=True, slots=True)
class Round:
    """Wall seconds and peak bytes of one round."""

    git: float
    runtime: float
    full: float
    full_bytes: int
    without_embedding: float

    @property
    def limit_seconds(self) -> float:
        return RUNTIME_SHARE * self.runtime + GIT_SHARE * self.git


def measure(clone: Path, folder: Path, options: BenchmarkOptions) -> Sequence[Row]:
    """Return the rows of one clone; print the size by column and the symbols by language."""
    history = clone_history(clone, folder / "clone", options.commits)
    home = folder / "home"
    rounds = [_measure_round(history, folder, home) for _ in range(options.runs)]
    print_line(f"\n{history.name}: size by column, in bytes")
    print_table(indexes.table_sizes(history.path, home, by_column=True).head(SHOWN_COLUMNS))
    print_line(f"\n{history.name}: symbols by language")
    print_table(indexes.symbol_shares(history.path, home))
    return [*_time_rows(history, rounds), _memory_row(history, rounds), _size_row(history, folder, home)]


def index_without_embedding_command(history: Path) -> tuple[str, ...]:
    """Return the command that indexes without embedding."""
    return (sys.executable, "-m", "tests.bench.index_without_embedding", str(history))


def _measure_round(history: History, folder: Path, home: Path) -> Round:
    for old in (home, folder / "zeros"):
        shutil.rmtree(old, ignore_errors=True)
    git = references.git_log_seconds(history.path)
    without_embedding = run_program(
        index_without_embedding_command(history.path), home=folder / "zeros", memory=False
    ).seconds
    full = run_lineage(home, "index", history.path, "--no-progress")
    runtime = _runtime_seconds(history, home)
    return Round(git, runtime, full.seconds, full.peak_bytes, without_embedding)


def _runtime_seconds(history: History, home: Path) -> float:
    """Time ONNX Runtime in a new process, without threads and memory of earlier work."""
    code = (
        "import sys; from pathlib import Path; from tests.bench import indexes, references;"
        "print(references.runtime_seconds(indexes.embedded_texts(*map(Path, sys.argv[1:]))))"
    )
    return float(run_program((sys.executable, "-c", code, str(history.path), str(home)), home=PROJECT).out)


def _time_rows(history: History, rounds: Sequence[Round]) -> list[Row]:
    log, raw = [r.git for r in rounds], [r.runtime for r in rounds]
    full, without = [r.full for r in rounds], [r.without_embedding for r in rounds]
    return [
        Row(
            history.name,
            f"full index of {history.commits:,} commits / (1.2 x runtime + 8 x git log -p)",
            median([r.full / r.limit_seconds for r in rounds]),
            1.0,
            f"index {format_seconds(full)}, runtime {format_seconds(raw)}, git log -p {format_seconds(log)}",
        ),
        Row(
            history.name,
            "everything but embedding / git log -p",
            median([r.without_embedding / r.git for r in rounds]),
            GIT_SHARE,
            f"without embedding {format_seconds(without)}, git log -p {format_seconds(log)}",
        ),
    ]


def _memory_row(history: History, rounds: Sequence[Round]) -> Row:
    return Row(
        history.name,
        "peak memory of the full index, bytes",
        max(r.full_bytes for r in rounds),
        MAX_BYTES,
        f"all processes, the largest of {len(rounds)}",
    )


def _size_row(history: History, folder: Path, home: Path) -> Row:
    index, pack = indexes.index_size(history.path, home), pack_bytes(history.path, folder / "fresh.git")
    parts = indexes.table_sizes(history.path, home).head(4).iter_rows()
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
