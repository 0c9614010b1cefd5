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
    chosen = _highest(scores, np.flatnonzero(eligible), limit)
    shown = snapshot.hunks.shown.take(chosen).to_pydict()
    rows = zip(snapshot.hunks.ids[chosen].tolist(), scores[chosen].tolist(), *shown.values(), strict=True)
    return tuple(Ranked(*row) for row in rows)


def _highest(scores: Floats, positions: Ints, limit: int) -> Ints:
    if len(positions) > limit > 0:
        found = scores[positions]
        least = np.partition(found, len(found) - limit)[len(found) - limit]
        positions = positions[found >= least]
    # Positions ascend, and a stable sort keeps them so where scores are equal.
    return positions[np.argsort(-scores[positions], kind="stable")][:limit]
