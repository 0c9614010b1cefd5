"""Dates and ages as people write them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from serve.api_types import rfc3339
from serve.errors import BadRequest
from serve.search import query_hints
from serve.search.query_hints import moment

NOW = datetime(2024, 3, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30d", datetime(2024, 3, 1, 12, tzinfo=UTC)),
        ("0d", NOW),
        ("2W", datetime(2024, 3, 17, 12, tzinfo=UTC)),
        ("1m", datetime(2024, 3, 1, 12, tzinfo=UTC)),
        ("1y", datetime(2023, 4, 1, 12, tzinfo=UTC)),
        ("36h", datetime(2024, 3, 30, tzinfo=UTC)),
        ("2024-01-31", datetime(2024, 1, 31, tzinfo=UTC)),
        ("2024-01", datetime(2024, 1, 1, tzinfo=UTC)),
        (" 2023 ", datetime(2023, 1, 1, tzinfo=UTC)),
        ("2024-01-31T10:00:00Z", datetime(2024, 1, 31, 10, tzinfo=UTC)),
        ("2024-01-31t10:00:00.5z", datetime(2024, 1, 31, 10, 0, 0, 500_000, tzinfo=UTC)),
        ("2024-01-31T10:00:00+02:00", datetime(2024, 1, 31, 8, tzinfo=UTC)),
        (" 2024-01-31 10:00:00 ", datetime(2024, 1, 31, 10, tzinfo=UTC)),
    ],
)
def test_forms(text: str, expected: datetime) -> None:
    """Ages, dates to the day, the month or the year and RFC 3339 moments mean a moment in UTC."""
    assert moment(text, NOW) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "30",
        "-3d",
        "3 days",
        "2024-02-30",
        "2024-13",
        "0000",
        "٢٠٢٤",
        "99999999d",
        "٣d",
        "1e3d",
    ],
)
def test_what_is_neither_is_refused(text: str) -> None:
    """Anything else is an error that shows the accepted forms."""
    with pytest.raises(BadRequest, match=r"is not a date or an age\.\n  Give an age such as `30d`"):
        moment(text, NOW)


@pytest.mark.parametrize("date", ["2023", "2023-11", "2023-11-30"])
def test_one_calendar(date: str) -> None:
    """What may be said in a question's text may be given as an option, and means the same."""
    assert query_hints.read(f"retries since {date}", NOW, query_hints.NOTHING_HERE).since == moment(date, NOW)


def test_database_moments_are_shown_in_utc() -> None:
    """A naive moment of the database is printed as RFC 3339 in UTC, to the second."""
    assert rfc3339(datetime(2024, 1, 31, 10, 0, 0, 7)) == "2024-01-31T10:00:00Z"  # noqa: DTZ001 - as it gives it
