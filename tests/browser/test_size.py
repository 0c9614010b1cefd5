"""Size of the drawing of large maps: only visible cards are drawn, at every scale."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser import maps
from tests.browser.conftest import PageSession, Site

# The limit allows a few hundred cards of about twenty elements.
MAX_ELEMENTS = 6_000
COUNT_ELEMENTS = "document.querySelectorAll('.scene *').length"
# JavaScript function that sets `window.painted` if the backdrop has content at any time while it is shown.
WATCH_BACKDROP = """canvas => new MutationObserver(() => {
  if (canvas.hidden || window.painted) return;
  window.painted = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean);
}).observe(canvas, { attributes: true, attributeFilter: ["hidden"] })"""


def test_only_visible_cards_are_drawn(site: Site, session: PageSession) -> None:
    """The number of elements stays small at every scale, and the selected card is always drawn."""
    document = site.create_map(maps.create_large_map(5_000, 500))
    page = session.open("#/map/mm_test?view=map")
    expect(page.locator(".connectors")).to_have_count(1)
    page.keyboard.press("e")
    page.keyboard.press("0")
    expect(page.locator(".scene")).to_have_class(re.compile("far"))
    assert page.evaluate(COUNT_ELEMENTS) < MAX_ELEMENTS
    node_id = list(document.nodes)[2_500]
    page.locator("#search").fill(node_id)
    page.keyboard.press("Enter")
    expect(page.locator(f"[data-id='{node_id}']")).to_be_in_viewport()
    for _ in range(8):
        page.get_by_role("button", name="Zoom out").click()
        assert page.evaluate(COUNT_ELEMENTS) < MAX_ELEMENTS
        expect(page.locator(f"[data-id='{node_id}']")).to_have_class(re.compile("selected"))


def test_backdrop_during_gestures(site: Site, session: PageSession) -> None:
    """During a wheel gesture the backdrop fills undrawn parts, and disappears at rest."""
    site.create_map(maps.create_large_map(5_000, 500))
    page = session.open("#/map/mm_test?view=map")
    backdrop = page.locator(".backdrop")
    expect(page.locator(".connectors")).to_have_count(1)
    page.keyboard.press("e")
    expect(backdrop).to_be_hidden()
    page.locator(".stage").hover()
    backdrop.evaluate(WATCH_BACKDROP)
    page.mouse.wheel(0, 400)
    page.wait_for_function("window.painted")
    expect(backdrop).to_be_hidden()
    assert page.evaluate(COUNT_ELEMENTS) < MAX_ELEMENTS


def test_minimap_follows_theme(site: Site, session: PageSession) -> None:
    """The minimap is repainted when the theme changes, by the page's switch or the system."""
    site.create_map(maps.create_large_map(300, 20))
    page = session.open("#/map/mm_test?view=map")
    minimap = page.locator(".minimap canvas")
    expect(page.locator(".connectors")).to_have_count(1)
    page.emulate_media(color_scheme="light")
    light = minimap.evaluate("canvas => canvas.toDataURL()")
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(
        "previous => document.querySelector('.minimap canvas').toDataURL() !== previous", arg=light
    )
    page.keyboard.press("t")
    assert minimap.evaluate("canvas => canvas.toDataURL()") == light
