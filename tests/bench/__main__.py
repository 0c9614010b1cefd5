"""All benchmarks, one after the other, with one table at the end.

python -m tests.bench CLONE...
"""

from __future__ import annotations

from typing import Final

from tests.bench import (
    agents,
    cluster,
    concurrent_queries,
    everyday,
    exact_search,
    explain,
    hooks,
    indexing,
    kill_recovery,
    log_and_trace,
    memory_growth,
    mindmaps,
    page,
    viewer,
    warm,
)
from tests.bench.report import Row, create_temporary_directory, parse_arguments, print_line, print_rows

BENCHMARKS: Final = (
    indexing,
    memory_growth,
    everyday,
    explain,
    exact_search,
    log_and_trace,
    warm,
    kill_recovery,
    hooks,
    concurrent_queries,
    agents,
    cluster,
)
SYNTHETIC_BENCHMARKS: Final = (mindmaps.measure, viewer.measure, page.measure)


def main() -> None:
    options = parse_arguments(__doc__ or "")
    rows: list[Row] = []
    for clone in options.clones:
        for benchmark in BENCHMARKS:
            print_line(f"{clone}: {benchmark.__name__.rpartition('.')[2]}")
            with create_temporary_directory() as folder:
                rows += benchmark.measure(clone, folder, options)
    for measure_synthetic in (everyday.measure_wide, memory_growth.measure_uniform):
        with create_temporary_directory() as folder:
            rows += measure_synthetic(folder, options)
    for measure_without_clone in SYNTHETIC_BENCHMARKS:
        print_line(measure_without_clone.__module__.rpartition(".")[2])
        with create_temporary_directory() as folder:
            rows += measure_without_clone(folder)
    print_rows(rows)


if __name__ == "__main__":
    main()
