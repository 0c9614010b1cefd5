"""Every measure, one after the other, and one table at the end.

python -m tests.bench CLONE...
"""

from __future__ import annotations

from typing import Final

from tests.bench import agents, company, everyday, explain, growth, hooks, indexing, killed, warm
from tests.bench.report import Row, arguments, say, show_rows, workspace

MEASURES: Final = (indexing, growth, everyday, explain, warm, killed, hooks, company, agents)


def main() -> None:
    asked = arguments(__doc__ or "")
    rows: list[Row] = []
    for clone in asked.clones:
        for measure in MEASURES:
            say(f"{clone}: {measure.__name__.rpartition('.')[2]}")
            with workspace() as folder:
                rows += measure.measure(clone, folder, asked)
    with workspace() as folder:
        rows += everyday.measure_wide(folder, asked)
    show_rows(rows)


if __name__ == "__main__":
    main()
