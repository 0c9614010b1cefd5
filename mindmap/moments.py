"""Moments as they stand in documents: ISO 8601, UTC, with milliseconds, so that text order is order in time."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def now() -> str:
    """This moment."""
    return timestamp(datetime.now(UTC))


def timestamp(moment: datetime) -> str:
    """A moment as text."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def not_before(moment: str, earlier: str) -> str:
    """The moment, or the earlier one where a clock went backwards: what comes later is never dated before."""
    return max(moment, earlier) if _MOMENT.fullmatch(earlier) else moment
