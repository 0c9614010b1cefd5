"""Which recorded commits HEAD reaches."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reach:
    """Which recorded commits HEAD reaches, as a difference to what the index noted for its own HEAD.

    `gone`: commits the index's HEAD reaches and the present one does not; `back`: the other way round.
    With `complete`, `back` alone is everything HEAD reaches: the index's HEAD object no longer exists.
    """

    gone: tuple[str, ...] = ()
    back: tuple[str, ...] = ()
    complete: bool = False
