"""Benchmark of a full index run: time to the first answer and to the last vector, peak memory, and index size.

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
from tests.bench.histories import History, clone_history, measure_pack
from tests.bench.programs import PROJECT, run_lineage, run_program
from tests.bench.report import (
    BenchmarkOptions,
    Row,
    compute_median,
    format_seconds,
    main,
    print_line,
    print_table,
)

# Upper bounds of the ratios, and of the memory in bytes.
RUNTIME_SHARE: Final = 1.2
GIT_SHARE: Final = 8.0
MAX_BYTES: Final = 1.2e9
PACK_SHARE: Final = 1.4

# Largest columns in the table of sizes.
SHOWN_COLUMNS: Final = 10


@dataclass(frozen=True, slots=True)
class Round:
    """Wall seconds of git, ONNX Runtime alone, a full run and one that skips the vectors; peak bytes of the full run.

    The run that skips the vectors ends when the whole history can be asked by words, the full run at the last vector.
    """

    git: float
    runtime: float
    full: float
    full_bytes: int
    words: float

    @property
    def limit_seconds(self) -> float:
        return RUNTIME_SHARE * self.runtime + GIT_SHARE * self.git


def measure(clone: Path, folder: Path, options: BenchmarkOptions) -> Sequence[Row]:
    """Return the rows of one clone; print the size by column and the symbols by language."""
    history = clone_history(clone, folder / "clone", options.commits)
    home = folder / "home"
    rounds = [_measure_round(history, folder, home) for _ in range(options.runs)]
    print_line(f"\n{history.name}: size by column, in bytes")
    print_table(indexes.measure_tables(history.path, home, by_column=True).head(SHOWN_COLUMNS))
    print_line(f"\n{history.name}: symbols by language")
    print_table(indexes.compute_symbol_shares(history.path, home))
    return [
        *_create_time_rows(history, rounds),
        _create_memory_row(history, rounds),
        _create_size_row(history, folder, home),
    ]


def _measure_round(history: History, folder: Path, home: Path) -> Round:
    words_home = folder / "words"
    for old_home in (home, words_home):
        shutil.rmtree(old_home, ignore_errors=True)
    git_seconds = references.time_git_log(history.path)
    words = run_lineage(words_home, "index", history.path, "--no-progress", "--skip-vectors", memory=False)
    full = run_lineage(home, "index", history.path, "--no-progress")
    runtime_seconds = _time_runtime(history, home)
    return Round(git_seconds, runtime_seconds, full.seconds, full.peak_bytes, words.seconds)


def _time_runtime(history: History, home: Path) -> float:
    """Time ONNX Runtime in a new process, without threads and memory of earlier work."""
    code = (
        "import sys; from pathlib import Path; from tests.bench import indexes, references;"
        "print(references.time_runtime(indexes.load_embedded_texts(*map(Path, sys.argv[1:]))))"
    )
    return float(run_program((sys.executable, "-c", code, str(history.path), str(home)), home=PROJECT).out)


def _create_time_rows(history: History, rounds: Sequence[Round]) -> list[Row]:
    git_seconds = [one_round.git for one_round in rounds]
    runtime_seconds = [one_round.runtime for one_round in rounds]
    full_seconds = [one_round.full for one_round in rounds]
    words_seconds = [one_round.words for one_round in rounds]
    return [
        Row(
            history.name,
            f"full index of {history.commit_count:,} commits / (1.2 x runtime + 8 x git log -p)",
            compute_median([one_round.full / one_round.limit_seconds for one_round in rounds]),
            1.0,
            f"index {format_seconds(full_seconds)}, runtime {format_seconds(runtime_seconds)}, "
            f"git log -p {format_seconds(git_seconds)}",
        ),
        Row(
            history.name,
            "whole history answers by words / git log -p",
            compute_median([one_round.words / one_round.git for one_round in rounds]),
            GIT_SHARE,
            f"words {format_seconds(words_seconds)}, git log -p {format_seconds(git_seconds)}",
        ),
        Row(
            history.name,
            "whole history answers by words / last vector",
            compute_median([one_round.words / one_round.full for one_round in rounds]),
            None,
            f"words {format_seconds(words_seconds)}, last vector {format_seconds(full_seconds)}",
        ),
    ]


def _create_memory_row(history: History, rounds: Sequence[Round]) -> Row:
    return Row(
        history.name,
        "peak memory of the full index, bytes",
        max(one_round.full_bytes for one_round in rounds),
        MAX_BYTES,
        f"all processes, the largest of {len(rounds)}",
    )


def _create_size_row(history: History, folder: Path, home: Path) -> Row:
    index_bytes, pack_bytes = (
        indexes.measure_index(history.path, home),
        measure_pack(history.path, folder / "fresh.git"),
    )
    largest_tables = indexes.measure_tables(history.path, home).head(4).iter_rows()
    table_shares = ", ".join(f"{name} {100 * size / index_bytes:.0f} %" for name, size in largest_tables)
    return Row(
        history.name,
        "index size / pack of a fresh clone",
        index_bytes / pack_bytes,
        PACK_SHARE,
        f"{index_bytes:,} / {pack_bytes:,} bytes; {table_shares}",
    )


if __name__ == "__main__":
    main(measure, __doc__ or "")
