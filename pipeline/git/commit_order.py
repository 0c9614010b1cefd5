"""Order of commits, newest first but never a commit before its descendant, and the corrected dates that prove it.

The corrected date of a commit is its committer date, or one second after the latest corrected date of its parents if
that is later. So it is later than those of all ancestors, even where a committer's clock was wrong. git stores these
dates in its commit-graph file (`git help format-commit-graph`), so no history is walked.
"""

from __future__ import annotations

import mmap
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Final

from pipeline.git.commit_graph import get_graph_file
from pipeline.git.git_cli import GitProgram
from pipeline.git.objects import Parents, collect_reachable, sort_topologically
from pipeline.git.repository import Repository, UnreadableObject

# Prints each commit with its parents, children first. The tips follow these arguments.
HISTORY_ARGUMENTS: Final = ("rev-list", "--date-order", "--parents")

# Commits to read because the graph lacks them. An index run writes the graph again when it lacks 200.
MAX_MISSING_COMMITS: Final = 400
HASH_BYTES: Final = 20  # SHA-1, like everywhere in this package
DATE_MASK: Final = (1 << 34) - 1
LARGE_OFFSET: Final = 1 << 31


def sort_newest_first(
    dates: Mapping[str, int], repository: Repository, git: GitProgram, walked_history: bytes = b""
) -> list[str]:
    """Sort commits by committer date (seconds by SHA), newest first; descendants come before their ancestors.

    A committer's clock can be wrong, so the history decides first, as in `git log --date-order`. It is walked only
    where git's commit-graph does not prove the dates right. If git cannot read the history, only the dates decide.
    `walked_history`: what git prints for `HISTORY_ARGUMENTS` and HEAD, if it is known.
    """
    shas = sorted(dates, key=lambda sha: (-dates[sha], sha))
    if len(shas) < 2 or _do_dates_agree(shas, dates, repository, git):
        return shas
    descendants = _find_descendants(shas, BytesIO(walked_history))
    if len(descendants) < len(shas):
        descendants = _load_descendants(shas, git)
    return _sort_descendants_first(shas, descendants)


def _do_dates_agree(
    shas: Sequence[str], dates: Mapping[str, int], repository: Repository, git: GitProgram
) -> bool:
    """Return whether the commit-graph proves that no commit of this order has a descendant after it."""
    if git.commit_graph_dir is None:
        return False
    corrected_dates = compute_corrected_dates(repository, git.commit_graph_dir, dates)
    # The corrected date of a descendant is always later.
    return corrected_dates is not None and all(
        corrected_dates[newer] >= corrected_dates[older] for newer, older in pairwise(shas)
    )


def _load_descendants(shas: Sequence[str], git: GitProgram) -> dict[str, int]:
    """Walk the history down to the last of the commits, and return their descendants as `_find_descendants` does."""
    with git.start(*HISTORY_ARGUMENTS, "--stdin", stdin="\n".join(shas).encode()) as walk:
        return _find_descendants(shas, walk.process.stdout or ())


def _find_descendants(shas: Sequence[str], history: Iterable[bytes]) -> dict[str, int]:
    """Return for each commit, as the bits of a number, which of the others descend from it: bit n is `shas[n]`.

    `history`: lines with the SHA of a commit and of its parents, children first. It is read only as far as needed.
    """
    bits = {sha.encode(): 1 << position for position, sha in enumerate(shas)}
    descendants: dict[str, int] = {}
    pending: dict[bytes, int] = {}  # what reaches the parents of the commits read so far
    for line in history:
        sha, *parents = line.split()
        reaching = pending.pop(sha, 0)
        if sha in bits:
            descendants[sha.decode()] = reaching
            reaching |= bits[sha]
            if len(descendants) == len(shas):
                break
        if reaching:
            pending.update((parent, pending.get(parent, 0) | reaching) for parent in parents)
    return descendants


def _sort_descendants_first(shas: Sequence[str], descendants: Mapping[str, int]) -> list[str]:
    """Move commits of the order behind their descendants, as little as possible."""
    waiting = {sha: 1 << position for position, sha in enumerate(shas)}
    placed = 0
    order: list[str] = []
    while waiting:
        sha = next(sha for sha in waiting if not descendants.get(sha, 0) & ~placed)
        placed |= waiting.pop(sha)
        order.append(sha)
    return order


def compute_corrected_dates(
    repository: Repository, graph_dir: Path, dates: Mapping[str, int]
) -> dict[str, int] | None:
    """Return the corrected date of each commit, in seconds. `dates` are the committer dates by SHA, in seconds.

    None if there is no graph with corrected dates, if it lacks more than `MAX_MISSING_COMMITS`, or if it has another
    date for one of these commits: it has no dates after the year 2514.
    """
    with (
        suppress(OSError, ValueError, LookupError, UnreadableObject),
        get_graph_file(graph_dir).open("rb") as file,
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
