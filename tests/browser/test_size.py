"""A map of 5,000 nodes is drawn as far as it is seen: what is in the page stays small at every scale."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser import maps
from tests.browser.conftest import Looking, Site

# Some twenty elements a card, and a few hundred cards.
MOST_ELEMENTS = 6_000
ELEMENTS = "document.querySelectorAll('.scene *').length"
# Notes whether there is anything on the picture whenever it is shown, which may be for a moment.
WATCH = """canvas => new MutationObserver(() => {
  if (canvas.hidden || window.painted) return;
  window.painted = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean);
}).observe(canvas, { attributes: true, attributeFilter: ["hidden"] })"""


def test_only_what_is_in_view_is_drawn(site: Site, looking: Looking) -> None:
    """From the whole map down to single cards; and what is selected is there at every scale."""
    document = site.write(maps.large(5_000, 500))
    page = looking.open("#/map/mm_test?view=map")
    expect(page.locator(".branches")).to_have_count(1)
    page.keyboard.press("e")
    page.keyboard.press("0")
    expect(page.locator(".scene")).to_have_class(re.compile("far"))
    assert page.evaluate(ELEMENTS) < MOST_ELEMENTS
    chosen = list(document.nodes)[2_500]
    page.locator("#search").fill(chosen)
    page.keyboard.press("Enter")
    expect(page.locator(f"[data-id='{chosen}']")).to_be_in_viewport()
    for _ in range(8):
        page.get_by_role("button", name="Wider").click()
        assert page.evaluate(ELEMENTS) < MOST_ELEMENTS
        expect(page.locator(f"[data-id='{chosen}']")).to_have_class(re.compile("selected"))


def test_what_a_gesture_uncovers_shows_at_once(site: Site, looking: Looking) -> None:
    """While the wheel turns, a picture of the whole map fills what is not drawn yet; at rest everything is drawn."""
    site.write(maps.large(5_000, 500))
    page = looking.open("#/map/mm_test?view=map")
    backdrop = page.locator(".backdrop")
    expect(page.locator(".branches")).to_have_count(1)
    page.keyboard.press("e")
    expect(backdrop).to_be_hidden()
    page.locator(".stage").hover()
    backdrop.evaluate(WATCH)
    page.mouse.wheel(0, 400)
    page.wait_for_function("window.painted")
    expect(backdrop).to_be_hidden()
    assert page.evaluate(ELEMENTS) < MOST_ELEMENTS


def test_another_theme_colours_the_small_map_too(site: Site, looking: Looking) -> None:
    """What is painted and not styled follows from light to dark, by the page's switch and by the system's."""
    site.write(maps.large(300, 20))
    page = looking.open("#/map/mm_test?view=map")
    small = page.locator(".minimap canvas")
    expect(page.locator(".branches")).to_have_count(1)
    page.emulate_media(color_scheme="light")
    light = small.evaluate("canvas => canvas.toDataURL()")
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("was => document.querySelector('.minimap canvas').toDataURL() !== was", arg=light)
    page.keyboard.press("t")
    assert small.evaluate("canvas => canvas.toDataURL()") == light
