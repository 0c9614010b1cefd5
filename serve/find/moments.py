"""Moments as people write them: `30d`, `2024-01-31`, `2024-01`, `2024`, `2024-01-31T12:00:00Z`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from serve.errors import BadRequest

# Months and years of a relative age are round numbers of days: nobody means the hour in "six months ago".
UNITS: Final = {
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
    "m": timedelta(days=30),
    "y": timedelta(days=365),
}
_AGE: Final = re.compile(r"(\d+)([hdwmy])", re.ASCII | re.IGNORECASE)
# A day, a month or a year: the same with an option as in running text.
DATE: Final = r"\d{4}(?:-\d{2}(?:-\d{2})?)?"
_DATE: Final = re.compile(DATE, re.ASCII)


def moment(text: str, now: datetime) -> datetime:
    """The moment a person means, in UTC; a day, a month and a year are their first instant there."""
    age = _AGE.fullmatch(text.strip())
    try:
        if age:
            return now - int(age[1]) * UNITS[age[2].lower()]
        if _DATE.fullmatch(text.strip()):
            return _first_instant(text.strip())
        # RFC 3339 lets `t` and `z` be small.
        said = datetime.fromisoformat(text.strip().upper())
        return said.astimezone(UTC) if said.tzinfo else said.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise BadRequest(
            f"{text!r} is not a date or an age.",
            hint="Give an age such as `30d` (h, d, w, m, y), a date `2024-01-31`, `2024-01` or `2024`, "
            "or `2024-01-31T12:00:00Z`.",
        ) from error


def said(moment: datetime) -> str:
    """A moment as an option takes it: a day that it is the beginning of, or the second in UTC."""
    if moment == moment.replace(hour=0, minute=0, second=0, microsecond=0):
        return moment.date().isoformat()
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def date(text: str) -> datetime | None:
    """The first instant of a day, a month or a year; None for one the calendar does not have."""
    try:
        return _first_instant(text)
    except ValueError:
        return None


def ago(count: int, unit: str, now: datetime) -> datetime | None:
    """The moment `count` units (`day`, `weeks`, ...) ago; None when that lies before the calendar."""
    try:
        return now - count * UNITS[unit[0]]
    except OverflowError:
        return None


def _first_instant(text: str) -> datetime:
    return datetime.fromisoformat(f"{text}-01-01"[:10]).replace(tzinfo=UTC)
