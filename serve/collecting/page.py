"""What may go, as a list."""

from __future__ import annotations

from collections.abc import Sequence

from serve.collecting.garbage import Garbage
from serve.visible import visible

NOTHING = "Nothing to collect."


def lines(found: Sequence[Garbage]) -> list[str]:
    """One line for each, and the sum of what is sure to be garbage."""
    if not found:
        return [NOTHING]
    sure = [one for one in found if one.sure]
    more = [f"{len(found) - len(sure)} may be needed again"] if len(sure) < len(found) else []
    total = f"{amount(sum(one.bytes for one in sure))} in {len(sure)}"
    return [*map(line, found), f"{'; '.join([total, *more])}."]


def line(one: Garbage) -> str:
    """What it is, why it may go, and how much that frees."""
    return visible(f"{amount(one.bytes):>9}  {one.what}: {one.why}")


def amount(size: int) -> str:
    """Bytes as a person reads them."""
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} B"
