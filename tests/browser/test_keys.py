"""The viewer's page by keyboard: every key, and keys that follow each other quickly."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser import maps
from tests.browser.conftest import Looking, Site
from tests.browser.maps import HEAD
from tests.browser.measurements import at_rest, card
from tests.mindmap.sample_maps import id_of


def test_everything_goes_by_keyboard(site: Site, looking: Looking) -> None:
    """Tab reaches the tree, arrows go through it, keys fold, read, light up and help."""
    site.write(maps.small())
    page = looking.open("#/map/mm_test?view=map")
    tree = page.get_by_role("tree")
    tree.focus()
    active = re.compile("map-root")
    expect(tree).to_have_attribute("aria-activedescendant", active)
    for key in ("ArrowDown", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    expect(page.locator(".node h2")).to_have_text(HEAD)
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".card.selected")).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Space")
    expect(page.locator(".card.selected")).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".card.selected")).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("g")
    expect(page.locator(".node h2")).to_have_text(HEAD)
    page.keyboard.press("Enter")
    expect(page.locator("#side-body")).to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Follow what agents do")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("h")
    expect(page.locator(".session")).to_have_count(1)


# Presses keys one right behind the other, before the browser paints: what is drawn by then is drawn at once.
TYPE = """async keys => {
  for (const key of keys) {
    (document.activeElement ?? document.body).dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    await null;
  }
}"""


def test_a_key_right_behind_a_closing_sheet_is_not_lost(site: Site, looking: Looking) -> None:
    """The browser says that a sheet is closed after it is; a key in between counts."""
    site.write(maps.small())
    page = looking.open("#/map/mm_test?view=map")
    expect(card(page, HEAD)).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.evaluate(f"document.querySelector('dialog').close(); ({TYPE})(['h'])")
    expect(page.locator(".session")).to_have_count(1)


def test_a_key_right_behind_an_opening_sheet_is_the_sheets(site: Site, looking: Looking) -> None:
    """What lies behind the sheet hears nothing from the moment that it is asked for."""
    site.write(maps.small())
    page = looking.open("#/map/mm_test?view=map")
    expect(card(page, HEAD)).to_be_visible()
    page.evaluate(TYPE, ["?", "h"])
    expect(page.get_by_role("dialog")).to_be_visible()
    expect(page).to_have_url(re.compile("#/map/mm_test"))


def test_a_key_right_behind_enter_is_the_panels(site: Site, looking: Looking) -> None:
    """Opened by Enter, the panel has the focus at once: an arrow scrolls it and leaves the selection."""
    document = site.write(maps.small())
    page = looking.open(f"#/map/mm_test/node/{id_of(document, HEAD)}?view=map")
    expect(page.locator(".node h2")).to_have_text(HEAD)
    page.evaluate(TYPE, ["\\", "Enter", "ArrowDown"])
    expect(page.locator("#side-body")).to_be_focused()
    expect(page.locator(".node h2")).to_have_text(HEAD)


def test_a_key_right_behind_going_to_the_sessions_does_not_go_back(site: Site, looking: Looking) -> None:
    """The address tells of the way out a moment later; a key in between is of the sessions."""
    site.write(maps.small())
    page = looking.open("#/map/mm_test?view=map")
    expect(card(page, HEAD)).to_be_visible()
    page.evaluate(TYPE, ["h", "1"])
    expect(page.locator(".session")).to_have_count(1)


def test_a_key_while_the_view_glides_is_not_lost(site: Site, looking: Looking) -> None:
    """Closer, said on the way to the whole map, is closer than the whole map."""
    site.write(maps.large(300, 20))
    page = looking.open("#/map/mm_test?view=map")
    page.emulate_media(reduced_motion="no-preference")
    expect(page.locator(".card").first).to_be_visible()
    page.keyboard.press("e")
    page.keyboard.press("0")
    scale = "document.querySelector('.scene > g').transform.baseVal.consolidate().matrix.a"
    expect(page.locator(".scene")).to_have_class(re.compile("far|mid"))
    whole = at_rest(page, lambda: page.evaluate(scale))
    page.evaluate(TYPE, ["0", "+"])
    page.wait_for_function(f"wanted => Math.abs({scale} - wanted) < wanted / 1_000", arg=1.3 * whole)
