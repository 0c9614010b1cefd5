"""Benchmark of everyday commands as whole processes: an index run without new commits, one with a new commit, a query.

python -m tests.bench.everyday CLONE...

The new commit is measured on each clone and on a synthetic history with 5,000 files at HEAD.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.bench import indexes
from tests.bench.histories import History, add_commit, clone_history, create_wide_history
from tests.bench.programs import ProgramResult, run_lineage, run_program
from tests.bench.report import BenchmarkOptions, Row, compute_median, format_seconds, main

# Upper bounds of the wall times.
NO_OP_SECONDS: Final = 0.5
COMMIT_SECONDS: Final = 3.0
QUERY_SECONDS: Final = 3.0
QUERY: Final = "close the socket when the connection was lost"

# An index run without new commits must not import these.
HEAVY_MODULES: Final = ("onnxruntime", "tokenizers", "tree_sitter", "polars", "pyarrow", "numpy")


def measure(clone: Path, folder: Path, options: BenchmarkOptions) -> Sequence[Row]:
    """Return the rows of one clone; its index is built first, untimed."""
    history = clone_history(clone, folder / "clone", options.commits)
    home = folder / "home"
    run_lineage(home, "index", history.path, "--no-progress")
    return [
        *measure_no_op(history, home, options.runs),
        measure_query(history, home, options.runs),
        measure_new_commit(history, home, options.runs),
    ]


def measure_wide(folder: Path, options: BenchmarkOptions) -> Sequence[Row]:
    """Return the row of the synthetic history."""
    history, home = create_wide_history(folder / "wide"), folder / "home"
    run_lineage(home, "index", history.path, "--no-progress")
    return [measure_new_commit(history, home, options.runs)]


def measure_no_op(history: History, home: Path, runs: int) -> list[Row]:
    """Measure `index --incremental` when HEAD is indexed: time, files written, heavy modules imported."""
    before = indexes.list_index_files(history.path, home)
    results = [run_lineage(home, "index", history.path, "--incremental", memory=False) for _ in range(runs)]
    assert all(run.out.startswith("index up-to-date at ") for run in results), results[0].out
    written_files = [
        name
        for name, stat in indexes.list_index_files(history.path, home).items()
        if before.get(name) != stat
    ]
    times = [run.seconds for run in results]
    heavy_modules = _list_heavy_modules(history, home)
    return [
        Row(
            history.name,
            "index --incremental without new commits, seconds",
            compute_median(times),
            NO_OP_SECONDS,
            format_seconds(times),
        ),
        Row(history.name, "the same: files written", len(written_files), 0, ", ".join(written_files)),
        Row(
            history.name,
            "the same: heavy modules imported",
            len(heavy_modules),
            0,
            ", ".join(heavy_modules),
        ),
    ]


def measure_new_commit(history: History, home: Path, runs: int) -> Row:
    """Measure `index --incremental` after a commit to one file."""
    results = []
    for number in range(runs):
        add_commit(history, number)
        command = ("index", history.path, "--incremental", "--profile", "--no-progress")
        results.append(run_lineage(home, *command, memory=False))
    times = [run.seconds for run in results]
    head_symbols_ms = compute_median([_parse_head_symbols_ms(run) for run in results])
    detail = f"{format_seconds(times)}; HEAD symbols {head_symbols_ms:.0f} ms of it"
    return Row(history.name, "one new commit, seconds", compute_median(times), COMMIT_SECONDS, detail)


def measure_query(history: History, home: Path, runs: int) -> Row:
    """Measure `lineage query` without a daemon, including loading the model."""
    arguments = ("query", history.path, "--query", QUERY)
    results = [run_lineage(home, *arguments, memory=False) for _ in range(runs)]
    times = [run.seconds for run in results]
    hits = len(json.loads(results[0].out)["hits"])
    detail = f"{format_seconds(times)}; {hits} hits, peak memory {run_lineage(home, *arguments).peak_bytes:,} bytes"
    return Row(history.name, "query, seconds", compute_median(times), QUERY_SECONDS, detail)


def _list_heavy_modules(history: History, home: Path) -> list[str]:
    command = ("-X", "importtime", "-m", "serve.cli.app", "index", str(history.path), "--incremental")
    import_log = run_program((sys.executable, *command), home=home).err
    modules = {line.rpartition("|")[2].strip().partition(".")[0] for line in import_log.splitlines()}
    return [name for name in HEAVY_MODULES if name in modules]


def _parse_head_symbols_ms(run: ProgramResult) -> float:
    return float(json.loads(run.out.splitlines()[-1])["head_symbols_ms"])


if __name__ == "__main__":
    main(measure, __doc__ or "", measure_wide)
