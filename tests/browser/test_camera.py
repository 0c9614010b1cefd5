"""View of a map that grows, and of panes that change their size."""

from __future__ import annotations

import re
from typing import Final, Literal

import pytest
from playwright.sync_api import FloatRect, Locator, Page, expect

from mindmap.document import COMPLETED, IN_PROGRESS, ROOT, Mindmap, with_log_entry
from mindmap.nodes import add_nodes, create_mindmap, flatten_nodes
from tests.browser import maps
from tests.browser.conftest import PageSession, Site
from tests.browser.maps import ACTIVE_TASK
from tests.browser.measurements import find_card, get_rectangle, measure_smallest_text, wait_until_stable
from tests.mindmap.sample_maps import create_timestamp

# JavaScript function that returns the labels of cards that are not completely inside their pane.
FIND_CUT_CARDS = """() => [...document.querySelectorAll(".card")].flatMap(card => {
  const box = card.querySelector(".shape").getBoundingClientRect();
  const pane = card.closest(".stage").getBoundingClientRect();
  const isInside = box.left >= pane.left && box.right <= pane.right && box.top >= pane.top && box.bottom <= pane.bottom;
  return isInside ? [] : card.getAttribute("aria-label");
})"""

# JavaScript that counts the animations and gestures: during each, a shield over the cards suppresses hovering.
COUNT_ANIMATIONS = """window.animations = 0;
new MutationObserver(changes => {
  window.animations += changes.filter(({ target }) => target.className === "shield" && !target.hidden).length;
}).observe(document, { subtree: true, attributeFilter: ["hidden"] });"""


def add_branch(document: Mindmap, name: str, steps: int = 3) -> Mindmap:
    children = [{"label": f"{name} step {number}"} for number in range(steps)]
    branch = {"label": name, "type": "plan", "children": children}
    return add_nodes(document, ROOT, flatten_nodes([branch]), create_timestamp(30)).document


def expect_all_in_view(page: Page) -> None:
    assert wait_until_stable(page, lambda: page.evaluate(FIND_CUT_CARDS)) == []


def drag(page: Page, stage: Locator, x: int, y: int) -> None:
    box = get_rectangle(stage)
    corner = (box["x"] + box["width"] - 5, box["y"] + box["height"] - 5)
    page.mouse.move(*corner)
    page.mouse.down()
    page.mouse.move(corner[0] + x, corner[1] + y, steps=4)
    page.mouse.up()


def test_view_follows_growth(site: Site, session: PageSession) -> None:
    """Added branches come into view at a readable size, until the user pans, and again after "fit"."""
    site.create_map(maps.create_small_map())
    page = session.open("#/map/mm_test?view=plan")
    expect(find_card(page, ACTIVE_TASK)).to_be_visible()
    for number in range(9):
        site.change_map(lambda document, name=f"Branch {number}": add_branch(document, name))  # type: ignore[misc]
        expect(find_card(page, f"Branch {number} step 2")).to_be_in_viewport(ratio=1)
    expect_all_in_view(page)
    assert measure_smallest_text(page) >= 11
    drag(page, page.locator(".stage"), -300, -40)
    before = wait_until_stable(page, lambda: get_rectangle(find_card(page, ACTIVE_TASK)))
    site.change_map(lambda document: add_branch(document, "Late", 1))
    expect(page.locator(".current-entry .entry-words")).to_contain_text("Added 2 nodes")
    after = wait_until_stable(page, lambda: get_rectangle(find_card(page, ACTIVE_TASK)))
    assert abs(before["x"] - after["x"]) < 2 and abs(before["y"] - after["y"]) < 2
    page.keyboard.press("0")
    site.change_map(lambda document: add_branch(document, "Latest"))
    expect(find_card(page, "Latest step 2")).to_be_in_viewport(ratio=1)
    expect_all_in_view(page)


def test_view_fits_again_after_resize(own_site: Site, session: PageSession) -> None:
    """A banner, a closed panel and another window size fit the cards again."""
    session.ignore_console = True  # the browser logs failed requests
    own_site.create_map(maps.create_small_map())
    session.address = own_site.address
    page = session.open("#/map/mm_test")
    expect(find_card(page, ACTIVE_TASK)).to_be_visible()
    expect_all_in_view(page)
    page.keyboard.press("\\")
    expect(page.locator(".side")).to_have_count(0)
    expect_all_in_view(page)
    page.set_viewport_size({"width": 1100, "height": 700})
    expect_all_in_view(page)
    own_site.stop()
    expect(page.locator(".connection")).to_have_text("Offline")
    expect_all_in_view(page)


def test_still_view_keeps_hover(site: Site, session: PageSession) -> None:
    """Opening, a resize and a change without movement start no animation, so that hovered links stay; `0` does."""
    site.create_map(maps.create_large_map(60, 20))
    session.page.emulate_media(reduced_motion="no-preference")
    session.page.add_init_script(COUNT_ANIMATIONS)
    page = session.open("#/map/mm_test")
    badge = page.locator(".pane.plan .card:has(.cross-count)").first
    wait_until_stable(page, lambda: get_rectangle(badge))
    page.set_viewport_size({"width": 1300, "height": 860})
    wait_until_stable(page, lambda: get_rectangle(badge))
    badge.hover(position={"x": 60, "y": 20})
    arrows = page.locator(".cross-links .link")
    expect(arrows).not_to_have_count(0)
    site.change_map(lambda document: with_log_entry(document, create_timestamp(900), "Nothing moves"))
    expect(page.locator(".current-entry .entry-words")).to_contain_text("Nothing moves")
    expect(arrows).not_to_have_count(0)
    assert page.evaluate("window.animations") == 0
    page.keyboard.press("e")
    page.keyboard.press("0")
    page.wait_for_function("window.animations > 0")


def test_change_keeps_zoom_to_selected_card(site: Site, session: PageSession) -> None:
    """A node found in a map that is too small to read stays at a readable size when the map changes."""
    site.create_map(maps.create_large_map(300, 14))
    page = session.open("#/map/mm_test?view=map")
    expect(page.locator(".card").first).to_be_visible()
    page.keyboard.press("e")
    page.keyboard.press("0")
    expect(page.locator(".scene")).to_have_class(re.compile("far"))
    page.locator("#search").fill("Thumbnails repository layer")
    page.keyboard.press("Enter")
    expect(page.locator(".card.selected")).to_be_in_viewport(ratio=1)
    expect(page.locator(".scene")).not_to_have_class(re.compile("far|mid"))
    site.change_map(lambda document: add_branch(document, "Late", 1))
    expect(page.locator(".current-entry .entry-words")).to_contain_text("Added 2 nodes")
    assert wait_until_stable(page, lambda: measure_smallest_text(page)) >= 11
    expect(page.locator(".card.selected")).to_be_in_viewport(ratio=1)


def test_nothing_covers_the_panes(site: Site, session: PageSession) -> None:
    """Toolbar and minimap are outside the panes, and the minimap moves the view."""
    site.create_map(maps.create_large_map(300, 20))
    page = session.open("#/map/mm_test")
    expect(page.locator(".card").first).to_be_visible()
    page.keyboard.press("e")
    minimap = page.locator(".minimap").first
    expect(minimap).to_be_visible()
    for stage in page.locator(".stage").all():
        covering = stage.evaluate(
            """stage => {
              const { left, top, width, height } = stage.getBoundingClientRect();
              const points = [0.02, 0.25, 0.5, 0.75, 0.98].flatMap(x => [0.02, 0.5, 0.98].map(y => [x, y]));
              return points.map(([x, y]) => document.elementFromPoint(left + x * width, top + y * height))
                .filter(element => !stage.contains(element)).map(element => element.className);
            }"""
        )
        assert covering == []
    before = wait_until_stable(page, lambda: page.locator(".scene > g").first.get_attribute("transform"))
    minimap.click(position={"x": 84, "y": 100})
    assert (
        wait_until_stable(page, lambda: page.locator(".scene > g").first.get_attribute("transform")) != before
    )


MOTIONS: Final[tuple[Literal["reduce", "no-preference"], ...]] = ("reduce", "no-preference")
# JavaScript function that turns the wheel over the map and presses a key at once, during the wheel's gesture.
WHEEL_AND_PRESS_KEY = """key => {
  const stage = document.querySelector(".stage");
  const { left, top } = stage.getBoundingClientRect();
  const wheel = { deltaY: 200, clientX: left + 9, clientY: top + 9, bubbles: true, cancelable: true };
  stage.dispatchEvent(new WheelEvent("wheel", wheel));
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
}"""


def test_fit_right_after_wheel(site: Site, session: PageSession) -> None:
    """`0` right after the wheel fits the map, with and without animation, and the view follows again."""
    site.create_map(maps.create_small_map())
    page = session.open("#/map/mm_test?view=plan")
    expect(find_card(page, ACTIVE_TASK)).to_be_visible()
    before = wait_until_stable(page, lambda: get_rectangle(find_card(page, ACTIVE_TASK)))
    for motion in MOTIONS:
        page.emulate_media(reduced_motion=motion)
        page.evaluate(WHEEL_AND_PRESS_KEY, "0")
        after = wait_until_stable(page, lambda: get_rectangle(find_card(page, ACTIVE_TASK)))
        assert after == pytest.approx(before, abs=1)
    for number in range(4):
        site.change_map(lambda document, name=f"Branch {number}": add_branch(document, name))  # type: ignore[misc]
        expect(find_card(page, f"Branch {number} step 2")).to_be_in_viewport(ratio=1)
    expect_all_in_view(page)


def test_toggled_card_stays_in_view(site: Site, session: PageSession) -> None:
    """A card toggled in a map larger than the pane stays in view, and in its place if the user has moved the view."""
    document = create_mindmap("A long and a current branch", None, create_timestamp(0))
    done = [{"label": f"Done {number}", "status": COMPLETED} for number in range(200)]
    current = [{"label": f"Current {number}", "status": IN_PROGRESS} for number in range(6)]
    for label, children in (("Long", done), ("Current", current)):
        branch = {"label": label, "type": "plan", "children": children}
        document = add_nodes(document, ROOT, flatten_nodes([branch]), create_timestamp(1)).document
    site.create_map(document)
    page = session.open("#/map/mm_test?view=plan")
    card = find_card(page, "Long")

    def toggle(expanded: str) -> FloatRect:
        card.locator(".toggle").click()
        expect(card).to_have_attribute("aria-expanded", expanded)
        expect(card.locator(".shape")).to_be_in_viewport(ratio=1)
        return wait_until_stable(page, lambda: get_rectangle(card.locator(".shape")))  # type: ignore[no-any-return]

    expect(card).to_have_attribute("aria-expanded", "false")
    for expanded in ("true", "false"):
        toggle(expanded)
    drag(page, page.locator(".stage"), -20, -20)
    before = wait_until_stable(page, lambda: get_rectangle(card.locator(".shape")))
    for expanded in ("true", "false"):
        after = toggle(expanded)
        assert (after["x"], after["y"]) == pytest.approx((before["x"], before["y"]), abs=1)
