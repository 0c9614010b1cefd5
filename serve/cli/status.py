"""Table of `lineage status --all`: one row for each index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from serve.api_types import NamedRepository, format_rfc3339
from serve.index_status import load_status_at_path
from serve.repositories import list_repositories
from serve.text import escape_controls
from stores.errors import LineageError

HEADERS: Final = ("repository", "commits", "behind", "vectors", "indexed at", "state")
NO_INDEXES: Final = "No repository is indexed. Run `lineage index`."
# Columns of numbers are aligned to the right.
NUMBER_COLUMNS: Final = (1, 2, 3)
UNKNOWN: Final = "-"


def format_status_table(home: Path) -> str:
    """Return a table of all indexes, also of those whose repository is missing or that cannot be read."""
    rows = [HEADERS, *(_build_row(repository, home) for repository in list_repositories(home))]
    return "\n".join(_format_rows(rows)) if len(rows) > 1 else NO_INDEXES


def _build_row(repository: NamedRepository, home: Path) -> tuple[str, ...]:
    name = escape_controls(repository.name)
    try:
        location, status = load_status_at_path(Path(repository.path), home)
    except (LineageError, OSError) as error:
        reason = error.message if isinstance(error, LineageError) else str(error)
        return name, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, escape_controls(reason)
    if str(location.path) != repository.path or status.verdict is None:
        return name, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, "another repository has its path now"
    return (
        name,
        f"{status.commits:,}",
        f"{status.commits_behind:,}",
        f"{int(status.vector_share * 100)} %",
        format_rfc3339(status.indexed_at) if status.indexed_at else UNKNOWN,
        escape_controls(str(status.verdict)),
    )


def _format_rows(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.rjust(width) if column in NUMBER_COLUMNS else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()
