"""Dates and ages in filters."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from serve.api_types import format_rfc3339
from serve.errors import BadRequest
from serve.search import query_hints
from serve.search.query_hints import parse_date

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
def test_valid_dates(text: str, expected: datetime) -> None:
    """Ages, days, months, years and RFC 3339 times are parsed to a time in UTC."""
    assert parse_date(text, NOW) == expected


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
def test_invalid_dates_are_rejected(text: str) -> None:
    """Any other text is an error that shows the accepted formats."""
    with pytest.raises(BadRequest, match=r"is not a date or an age\.\n  Give an age such as `30d`"):
        parse_date(text, NOW)


@pytest.mark.parametrize("date", ["2023", "2023-11", "2023-11-30"])
def test_dates_in_text_and_options_agree(date: str) -> None:
    """A date in the query text means the same as in an option."""
    assert query_hints.parse_hints(
        f"retries since {date}", NOW, query_hints.EMPTY_CONTEXT
    ).since == parse_date(date, NOW)


def test_database_times_are_formatted_in_utc() -> None:
    """A naive time of the database is formatted as RFC 3339 in UTC, to the second."""
    assert format_rfc3339(datetime(2024, 1, 31, 10, 0, 0, 7)) == "2024-01-31T10:00:00Z"  # noqa: DTZ001 - naive
