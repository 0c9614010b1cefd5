"""Validation of line ranges."""

from __future__ import annotations

import pytest

from mindmap.validation import BadLines, normalize_line_range, parse_line_range


def test_line_ranges() -> None:
    """Line ranges are accepted in several forms and stored in one."""
    spellings = ("10-20", "10:20", " 10 - 20 ", "7", " 7 ", "7-7")
    assert [parse_line_range(text) for text in spellings] == [(10, 20)] * 3 + [(7, 7)] * 3
    assert [normalize_line_range(text) for text in spellings] == ["10-20"] * 3 + ["7"] * 3
    assert [normalize_line_range(text) for text in (None, "", " ")] == [None] * 3


@pytest.mark.parametrize(
    "text", ["banana", "0", "20-10", "-5", "1-2-3", "1-", "1-2, 5-6", "9" * 20, "\u0661", ""]
)
def test_invalid_line_ranges(text: str) -> None:
    """An invalid line range raises a short error that shows a valid one."""
    with pytest.raises(BadLines, match="`10-20`, or `10` for one"):
        parse_line_range(text)
    with pytest.raises(BadLines) as caught:
        parse_line_range(text + "x" * 10_000)
    assert len(str(caught.value)) < 300
