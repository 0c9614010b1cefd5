"""Corrected commit dates: each is later than those of all ancestors, even where a committer's clock was wrong.

The corrected date of a commit is its committer date, or one second after the latest corrected date of its parents if
that is later. git stores them in its commit-graph file (`git help format-commit-graph`), so no history is walked.
"""

from __future__ import annotations

import mmap
from bisect import bisect_left
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC
from pathlib import Path
from typing import Final

from pipeline.git.objects import Parents, collect_reachable, sort_topologically
from pipeline.git.repository import Repository, UnreadableObject

# Commits to read because the graph lacks them. An index run writes the graph again when it lacks 200.
MAX_MISSING_COMMITS: Final = 400
HASH_BYTES: Final = 20  # SHA-1, like everywhere in this package
DATE_MASK: Final = (1 << 34) - 1
LARGE_OFFSET: Final = 1 << 31


def compute_corrected_dates(
    repository: Repository, graph_dir: Path, dates: Mapping[str, int]
) -> dict[str, int] | None:
    """Return the corrected date of each commit, in seconds. `dates` are the committer dates by SHA, in seconds.

    None if there is no graph with corrected dates, if it lacks more than `MAX_MISSING_COMMITS`, or if it has another
    date for one of these commits: it has no dates after the year 2514.
    """
    with (
        suppress(OSError, ValueError, LookupError, UnreadableObject),
        (graph_dir / "info" / "commit-graph").open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        return _compute_dates(repository, _GraphFile(content), dates)
    return None


def _compute_dates(
    repository: Repository, graph: _GraphFile, expected_dates: Mapping[str, int]
) -> dict[str, int] | None:
    dates: dict[str, int] = {}
    corrected_dates: dict[str, int] = {}

    def load_parents(sha: str) -> Parents:
        position = graph.find_position(sha)
        if position is not None:
            dates[sha], corrected_dates[sha] = graph.read_dates(position)
            return ()
        if len(dates) - len(corrected_dates) == MAX_MISSING_COMMITS:
            raise LookupError
        commit = repository.read_commit(sha)
        dates[sha] = int(commit.commit_date.replace(tzinfo=UTC).timestamp())
        return commit.parents

    parents = collect_reachable(expected_dates, load_parents)
    # The sort takes one start commit: "" is an artificial child of all of them.
    for sha in sort_topologically("", {**parents, "": tuple(expected_dates)})[:-1]:
        if sha not in corrected_dates:
            corrected_dates[sha] = max(
                [dates[sha], *(corrected_dates[parent] + 1 for parent in parents[sha])]
            )
    if any(dates[sha] != date for sha, date in expected_dates.items()):
        return None
    return {sha: corrected_dates[sha] for sha in expected_dates}


class _GraphFile:
    """Dates in the content of a commit-graph file. Damaged content raises ValueError or LookupError."""

    def __init__(self, content: mmap.mmap) -> None:
        self._content = content
        starts = range(8, 8 + 12 * content[6], 12)
        self._chunks = {content[start : start + 4]: self._read_integer(start + 4, 8) for start in starts}

    def find_position(self, sha: str) -> int | None:
        """Return the position of a commit in the sorted list of the graph's commits; None if it is not one."""
        object_id, first_byte = bytes.fromhex(sha), int(sha[:2], 16)
        fanout = self._chunks[b"OIDF"] + 4 * first_byte
        start = self._read_integer(fanout - 4, 4) if first_byte else 0
        end = self._read_integer(fanout, 4)
        position = bisect_left(range(end), object_id, start, key=self._read_object_id)
        return position if position < end and self._read_object_id(position) == object_id else None

    def read_dates(self, position: int) -> tuple[int, int]:
        """Return the committer date and the corrected date of the commit at a position, in seconds."""
        entry = self._chunks[b"CDAT"] + position * (HASH_BYTES + 16)
        date = self._read_integer(entry + HASH_BYTES + 8, 8) & DATE_MASK
        offset = self._read_integer(self._chunks[b"GDA2"] + 4 * position, 4)
        if offset & LARGE_OFFSET:
            offset = self._read_integer(self._chunks[b"GDO2"] + 8 * (offset ^ LARGE_OFFSET), 8)
        return date, date + offset

    def _read_object_id(self, position: int) -> bytes:
        start = self._chunks[b"OIDL"] + position * HASH_BYTES
        return self._content[start : start + HASH_BYTES]

    def _read_integer(self, start: int, size: int) -> int:
        data = self._content[start : start + size]
        if len(data) < size:
            raise ValueError("the file ends here")
        return int.from_bytes(data)
