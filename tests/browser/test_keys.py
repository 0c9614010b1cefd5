"""Keyboard use of the page, keys in quick succession included."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser import maps
from tests.browser.conftest import PageSession, Site
from tests.browser.maps import ACTIVE_TASK
from tests.browser.measurements import get_rectangle, wait_until_stable
from tests.mindmap.sample_maps import find_id


def test_keyboard_navigation(site: Site, session: PageSession) -> None:
    """Arrow keys move through the tree, and other keys collapse, select, focus the panel and open the help."""
    site.create_map(maps.create_small_map())
    page = session.open("#/map/mm_test?view=map")
    tree = page.get_by_role("tree")
    tree.focus()
    root_id = re.compile("map-root")
    expect(tree).to_have_attribute("aria-activedescendant", root_id)
    for key in ("ArrowDown", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    expect(page.locator(".node h2")).to_have_text(ACTIVE_TASK)
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".card.selected")).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Space")
    expect(page.locator(".card.selected")).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".card.selected")).to_have_attribute("aria-expanded", "true")
    for key in ("Escape", "g"):
        page.keyboard.press(key)
    expect(page.locator(".node h2")).to_have_text(ACTIVE_TASK)
    page.keyboard.press("Enter")
    expect(page.locator("#side-body")).to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Follow the agent")
    badge = get_rectangle(page.get_by_role("dialog").locator(".link-count"))
    assert badge["width"] > badge["height"]  # in one line, as on a card
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("h")
    expect(page.locator(".session")).to_have_count(1)


# JavaScript function that presses keys in quick succession, before the browser paints.
PRESS_KEYS = """async keys => {
  for (const key of keys) {
    (document.activeElement ?? document.body).dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    await null;
  }
}"""


def test_keys_in_quick_succession(site: Site, session: PageSession) -> None:
    """A key right after one that focuses the panel, opens or closes the help or shows the sessions acts on these."""
    document = site.create_map(maps.create_small_map())
    page = session.open(f"#/map/mm_test/node/{find_id(document, ACTIVE_TASK)}?view=map")
    expect(page.locator(".node h2")).to_have_text(ACTIVE_TASK)
    page.evaluate(PRESS_KEYS, ["\\", "Enter", "ArrowDown"])  # the arrow key scrolls the panel
    expect(page.locator("#side-body")).to_be_focused()
    expect(page.locator(".node h2")).to_have_text(ACTIVE_TASK)
    page.evaluate(PRESS_KEYS, ["?", "h"])  # `h` goes to the dialog
    expect(page.get_by_role("dialog")).to_be_visible()
    expect(page).to_have_url(re.compile("#/map/mm_test"))
    page.evaluate(f"document.querySelector('dialog').close(); ({PRESS_KEYS})(['h', '1'])")  # `1` has no map
    expect(page.locator(".session")).to_have_count(1)


def test_key_during_animation(site: Site, session: PageSession) -> None:
    """A zoom during the animation to the whole map first jumps to the end of the animation."""
    site.create_map(maps.create_large_map(300, 20))
    page = session.open("#/map/mm_test?view=map")
    page.emulate_media(reduced_motion="no-preference")
    expect(page.locator(".card").first).to_be_visible()
    page.keyboard.press("e")
    page.keyboard.press("0")
    scale = "document.querySelector('.scene > g').transform.baseVal.consolidate().matrix.a"
    expect(page.locator(".scene")).to_have_class(re.compile("far|mid"))
    fit_scale = wait_until_stable(page, lambda: page.evaluate(scale))
    page.evaluate(PRESS_KEYS, ["0", "+"])
    page.wait_for_function(
        f"expected => Math.abs({scale} - expected) < expected / 1_000", arg=1.3 * fit_scale
    )
