"""Order of commits in an answer: the newest first, but never a commit before its descendant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from itertools import pairwise
from typing import Final

from pipeline.git.corrected_dates import compute_corrected_dates
from pipeline.git.git_cli import GitProgram
from pipeline.git.repository import Repository

# Arguments for git that print each commit with its parents, children first, before the tips.
HISTORY_ARGUMENTS: Final = ("rev-list", "--date-order", "--parents")


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
