"""Which program this is, to people and to clients."""

from __future__ import annotations

from typing import Final

DISTRIBUTION: Final = "history-lineage"


def version() -> str:
    """The installed version."""
    from importlib.metadata import version as installed  # 15 ms that most commands never need

    return installed(DISTRIBUTION)
