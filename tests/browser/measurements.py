"""Helpers that read the viewer's page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import FloatRect, Locator, Page

# Frames between two readings: a redraw after a gesture takes fewer, on a busy machine too.
POLL_FRAMES = 20
WAIT_FOR_FRAMES = """frames => new Promise(done => {
  const count = () => frames-- ? requestAnimationFrame(count) : done();
  count();
})"""
MAX_POLLS = 40
# JavaScript function that hides or shows the tab, for the page.
SET_HIDDEN = """hidden => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def find_card(page: Page, label: str, map_part: str = "") -> Locator:
    """Return the card of the node with a label, in one pane (map, plan or model) or in all."""
    container = page.locator(f".pane.{map_part}") if map_part else page
    return container.locator(f".card[aria-label^='{label},']")


def wait_until_stable(page: Page, read: Callable[[], Any]) -> Any:
    """Call `read` until two results in a row are equal, and return it."""
    previous = read()
    for _ in range(MAX_POLLS):
        page.evaluate(WAIT_FOR_FRAMES, POLL_FRAMES)
        current = read()
        if current == previous:
            return current
        previous = current
    raise AssertionError(f"not stable: {previous}")


def get_rectangle(locator: Locator) -> FloatRect:
    """Return the box of a visible element, in pixels of the window."""
    box = locator.bounding_box()
    assert box is not None
    return box


# JavaScript function that returns the size of the smallest visible text, in pixels on the screen.
SMALLEST_TEXT = """scope => Math.min(...[...document.querySelectorAll(`${scope} *`)].flatMap(element => {
  const hasText = [...element.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.data.trim());
  const box = element.getBoundingClientRect();
  const isInWindow = box.right > 0 && box.bottom > 0 && box.left < innerWidth && box.top < innerHeight;
  const isShown = element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  if (!hasText || !box.width || !isInWindow || !isShown || element.closest(".visually-hidden")) return [];
  const matrix = element.ownerSVGElement?.contains(element) ? element.getScreenCTM() : { a: 1 };
  return parseFloat(getComputedStyle(element).fontSize) * matrix.a;
}))"""


def measure_smallest_text(page: Page, scope: str = "body") -> float:
    """Return the height in pixels of the smallest text in the window."""
    return float(page.evaluate(SMALLEST_TEXT, scope))


def find_violations(page: Page) -> list[tuple[str, list[str]]]:
    """Return the rules of accessibility that the page breaks, in light or dark, with the elements."""
    violations = Axe().run(page).response["violations"]
    page.emulate_media(color_scheme="dark")
    violations += Axe().run(page, options={"runOnly": ["color-contrast"]}).response["violations"]
    page.emulate_media(color_scheme="light")
    return [(rule["id"], [node["html"] for node in rule["nodes"]][:3]) for rule in violations]
