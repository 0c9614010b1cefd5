"""Helpers that read the viewer's page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from playwright.sync_api import Locator, Page

from tests.browser.conftest import TIMEOUT_MS

# A redraw after a gesture takes less time.
POLL_MS = 500


def find_card(page: Page, label: str, map_part: str = "") -> Locator:
    """Return the card of the node with a label, in one pane (map, plan or model) or in all."""
    container = page.locator(f".pane.{map_part}") if map_part else page
    return container.locator(f".card[aria-label^='{label},']")


def wait_until_stable(page: Page, read: Callable[[], Any]) -> Any:
    """Call `read` until two results in a row are equal, and return it."""
    previous = read()
    for _ in range(TIMEOUT_MS // POLL_MS):
        page.wait_for_timeout(POLL_MS)
        current = read()
        if current == previous:
            return current
        previous = current
    raise AssertionError(f"not stable: {previous}")
