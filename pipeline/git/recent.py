"""What was read last, within a bound on its size; pure."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """Values by key; beyond the bound on the sum of their sizes, those longest unused are forgotten."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._kept: OrderedDict[Key, tuple[Value, int]] = OrderedDict()

    def get(self, key: Key) -> Value | None:
        """The value, when it is still kept."""
        found = self._kept.get(key)
        if found is None:
            return None
        self._kept.move_to_end(key)
        return found[0]

    def keep(self, key: Key, value: Value, size: int) -> None:
        """Keep a value that is not kept; not one that would drive out all others."""
        if size > self._limit // 2:
            return
        self._kept[key] = (value, size)
        self._size += size
        while self._size > self._limit:
            self._size -= self._kept.popitem(last=False)[1][1]
