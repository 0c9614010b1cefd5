"""Every measure, one after the other, and one table at the end.

python -m tests.bench CLONE...
"""

from __future__ import annotations

from typing import Final

from tests.bench import (
    agents,
    concurrent_queries,
    everyday,
    explain,
    hooks,
    indexing,
    kill_recovery,
    memory_growth,
    mindmaps,
    page,
    viewer,
    warm,
)
from tests.bench.report import Row, arguments, say, show_rows, workspace

MEASURES: Final = (
    indexing,
    memory_growth,
    everyday,
    explain,
    warm,
    kill_recovery,
    hooks,
    concurrent_queries,
    agents,
)
WITHOUT_CLONE: Final = (mindmaps.measure, viewer.measure, page.measure)


def main() -> None:
    asked = arguments(__doc__ or "")
    rows: list[Row] = []
    for clone in asked.clones:
        for measure in MEASURES:
            say(f"{clone}: {measure.__name__.rpartition('.')[2]}")
            with workspace() as folder:
                rows += measure.measure(clone, folder, asked)
    for made in (everyday.measure_wide, memory_growth.measure_even):
        with workspace() as folder:
            rows += made(folder, asked)
    for without in WITHOUT_CLONE:
        say(without.__module__.rpartition(".")[2])
        with workspace() as folder:
            rows += without(folder)
    show_rows(rows)


if __name__ == "__main__":
    main()
