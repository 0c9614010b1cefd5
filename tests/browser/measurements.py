"""What is read off the viewer's page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from playwright.sync_api import Locator, Page

from tests.browser.conftest import PATIENCE_MS

# Longer than a gesture takes to be drawn sharp.
LOOK_MS = 500


def card(page: Page, label: str, part: str = "") -> Locator:
    where = page.locator(f".pane.{part}") if part else page
    return where.locator(f".card[aria-label^='{label},']")


def at_rest(page: Page, read: Callable[[], Any]) -> Any:
    """What is read, once it stays the same: a busy machine draws when it comes to it."""
    was = read()
    for _ in range(PATIENCE_MS // LOOK_MS):
        page.wait_for_timeout(LOOK_MS)
        now = read()
        if now == was:
            return now
        was = now
    raise AssertionError(f"never at rest: {was}")
