"""Line numbers as a person reads them: `3-7, 9`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def spans(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Runs of consecutive numbers in ascending ones."""
    start = last = None
    for number in numbers:
        if start is None or last is None:
            start = number
        elif number != last + 1:
            yield start, last
            start = number
        last = number
    if start is not None and last is not None:
        yield start, last


def named(numbers: Sequence[int]) -> list[str]:
    """Each run of consecutive numbers in ascending ones, by its ends."""
    return [f"{first}" if first == last else f"{first}-{last}" for first, last in spans(numbers)]
