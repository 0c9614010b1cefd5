"""What a lane gives: its best hunks, of equal scores the one that leads by content."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from stores.snapshot import Bools, Ints, Snapshot

Floats: TypeAlias = npt.NDArray[np.float64]

LANE_DEPTH: Final = 100
# A path named in the query is a strong hint, not a filter: half again leaves room for a far better match.
PREFERRED_PATH: Final = 1.5


@dataclass(frozen=True, slots=True)
class Ranked:
    """One hunk of a lane's ranking; everything but the score identifies it by content."""

    hunk_id: int
    score: float
    commit_date: datetime
    commit_sha: str
    file_path: str


def best(snapshot: Snapshot, scores: Floats, eligible: Bools, limit: int) -> tuple[Ranked, ...]:
    """The eligible hunks of the highest scores, best first; `scores` has one for each position."""
    positions = np.flatnonzero(eligible)
    return best_of(snapshot, positions, scores[positions], limit)


def best_of(snapshot: Snapshot, positions: Ints, scores: Floats, limit: int) -> tuple[Ranked, ...]:
    """Of the hunks at these positions, which ascend, those of the highest scores, best first."""
    chosen = _highest(scores, limit)
    shown = snapshot.hunks.shown.take(positions[chosen]).to_pydict()
    ids = snapshot.hunks.ids[positions[chosen]].tolist()
    return tuple(Ranked(*row) for row in zip(ids, scores[chosen].tolist(), *shown.values(), strict=True))


def _highest(scores: Floats, limit: int) -> Ints:
    chosen = np.arange(len(scores))
    if len(scores) > limit > 0:
        chosen = np.flatnonzero(scores >= np.partition(scores, len(scores) - limit)[len(scores) - limit])
    # A stable sort keeps positions ascending where scores are equal.
    return chosen[np.argsort(-scores[chosen], kind="stable")][:limit]
