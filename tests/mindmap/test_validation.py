"""Ranges of lines as agents write them."""

from __future__ import annotations

import pytest

from mindmap.validation import BadLines, bounds, kept


def test_spans() -> None:
    """Lines are taken as agents write them and as commands take them, and kept in one form."""
    written = ("10-20", "10:20", " 10 - 20 ", "7", " 7 ", "7-7")
    assert [bounds(said) for said in written] == [(10, 20)] * 3 + [(7, 7)] * 3
    assert [kept(said) for said in written] == ["10-20"] * 3 + ["7"] * 3
    assert [kept(said) for said in (None, "", " ")] == [None] * 3


@pytest.mark.parametrize(
    "said", ["banana", "0", "20-10", "-5", "1-2-3", "1-", "1-2, 5-6", "9" * 20, "\u0661", ""]
)
def test_no_spans(said: str) -> None:
    """What is no range is refused with the form of one, in few words."""
    with pytest.raises(BadLines, match="`10-20`, or `10` for one"):
        bounds(said)
    with pytest.raises(BadLines) as refused:
        bounds(said + "x" * 10_000)
    assert len(str(refused.value)) < 300
