"""Readability of a map: what is shown on opening, and how nodes are zoomed to."""

from __future__ import annotations

import re
from itertools import product

from playwright.sync_api import Page, expect

from mindmap.document import COMPLETED, IN_PROGRESS, ROOT, Mindmap
from mindmap.nodes import add_nodes, create_mindmap, flatten_nodes
from tests.browser import maps
from tests.browser.conftest import PageSession, Site
from tests.browser.maps import ACTIVE_TASK
from tests.browser.measurements import find_card, get_rectangle, measure_smallest_text, wait_until_stable
from tests.mindmap.sample_maps import create_timestamp

MIN_TEXT_PIXELS = 11
# Space that the page leaves beside a card in view, on both sides together.
MARGIN_PIXELS = 28
WINDOWS = [(1400, 900), (1920, 1080), (420, 800)]


def set_size(page: Page, width: int, height: int) -> None:
    page.set_viewport_size({"width": width, "height": height})


def find_active_path(document: Mindmap) -> list[str]:
    """Return the ids of the task in progress that was updated last, and of its ancestors below the root."""
    active = [node for node in document.nodes.values() if node.status == IN_PROGRESS and node.type != "root"]
    node = max(active, key=lambda node: node.updated_at or "")
    path = []
    while node.id != ROOT:
        path.append(node.id)
        node = document.nodes[node.parent or ROOT]
    return path


def has_room_for_both(page: Page, task_id: str, ancestor_id: str) -> bool:
    """Return True if the pane can show a task and its ancestor, which is above it on the left, at once."""
    pane = get_rectangle(page.locator(".stage"))
    task, ancestor = (
        get_rectangle(page.locator(f".card[data-id='{node_id}'] .shape"))
        for node_id in (task_id, ancestor_id)
    )
    width = task["x"] + task["width"] - ancestor["x"]
    height = task["y"] + task["height"] - ancestor["y"]
    return width <= pane["width"] - MARGIN_PIXELS and height <= pane["height"] - MARGIN_PIXELS


def test_text_is_readable_on_opening(site: Site, session: PageSession) -> None:
    """At every window size no text is smaller than 11 pixels, and the active task and the path to it are in view.

    On a phone, which can show few cards, only the part of the path for which there is room.
    """
    documents = [
        site.create_map(maps.create_large_map(nodes, 14), f"mm_{nodes}") for nodes in (60, 112, 1_000)
    ]
    documents.append(site.create_map(maps.create_small_map()))
    for (width, height), document in product(WINDOWS, documents):
        session.page.goto("about:blank")  # else only the fragment changes, and the page is not loaded again
        set_size(session.page, width, height)
        page = session.open(f"#/map/{document.id}")
        path = find_active_path(document)
        if width < 600:
            page.get_by_role("button", name="Outline", exact=True).click()
            expect(page.locator(".outline [aria-current='step']")).to_be_in_viewport(ratio=1)
            assert measure_smallest_text(page) >= MIN_TEXT_PIXELS
            page.get_by_role("button", name="Map", exact=True).click()
            expect(page.locator(f".card[data-id='{path[0]}']")).to_be_in_viewport(ratio=1)
            path = [node_id for node_id in path if has_room_for_both(page, path[0], node_id)]
        for node_id in path:
            expect(page.locator(f".card[data-id='{node_id}']")).to_be_in_viewport(ratio=1)
        assert wait_until_stable(page, lambda: measure_smallest_text(session.page)) >= MIN_TEXT_PIXELS


def test_completed_branches_collapse_first(site: Site, session: PageSession) -> None:
    """If a map does not fit, its completed branches are collapsed and the others expanded."""
    document = create_mindmap("Eight branches", None, create_timestamp(0))
    for number in range(8):
        status = COMPLETED if number % 2 else "planned"
        steps = [{"label": f"Step {number} {letter}", "status": status} for letter in "abcdef"]
        branch = {"label": f"Branch {number}", "type": "plan", "status": status, "children": steps}
        document = add_nodes(document, ROOT, flatten_nodes([branch]), create_timestamp(1)).document
    site.create_map(document)
    set_size(session.page, 1500, 800)
    page = session.open("#/map/mm_test?view=plan")
    for number in range(8):
        expect(find_card(page, f"Branch {number}")).to_have_attribute(
            "aria-expanded", "false" if number % 2 else "true"
        )
    set_size(page, 1920, 1200)
    expect(page.locator(".card[aria-label^='Step']")).to_have_count(48)


def test_groups_of_model_use_the_width(site: Site, session: PageSession) -> None:
    """The children of a single component stand in columns if one column does not fit."""
    document = create_mindmap("One component", None, create_timestamp(0))
    parts = [{"label": f"Decision {number}", "type": "decision"} for number in range(14)]
    component = {"label": "Storage", "type": "component", "children": parts}
    plan = {"label": "Plan", "type": "plan"}
    site.create_map(add_nodes(document, ROOT, flatten_nodes([component, plan]), create_timestamp(1)).document)
    set_size(session.page, 1400, 900)
    page = session.open("#/map/mm_test")
    cards = page.locator(".pane.model .card[aria-label^='Decision']")
    expect(cards).to_have_count(14)
    boxes = [get_rectangle(card) for card in cards.all()]
    used = max(box["x"] + box["width"] for box in boxes) - min(box["x"] for box in boxes)
    assert used > 0.8 * get_rectangle(page.locator(".pane.model"))["width"]


def test_zoom_to_node(site: Site, session: PageSession) -> None:
    """From the whole expanded map, `g` and a double click zoom to a readable size.

    `g` zooms to the selected node, or without one to the task in progress.
    """
    document = site.create_map(maps.create_large_map(300, 14))
    page = session.open("#/map/mm_test?view=map")
    active = page.locator(f".card[data-id='{find_active_path(document)[0]}']")
    expect(active).to_be_visible()

    def show_all() -> None:
        page.keyboard.press("e")
        page.keyboard.press("0")
        expect(page.locator(".scene")).to_have_class(re.compile("far|mid"))

    def expect_readable() -> None:
        expect(page.locator(".scene")).not_to_have_class(re.compile("far|mid"))
        assert wait_until_stable(page, lambda: measure_smallest_text(page)) >= MIN_TEXT_PIXELS
        expect(page.locator(".card.selected")).to_be_in_viewport(ratio=1)

    show_all()
    page.keyboard.press("g")
    expect_readable()
    expect(active).to_have_class(re.compile("selected"))
    show_all()
    active.dblclick()
    expect_readable()
    other = list(document.nodes)[150]
    session.open(f"#/map/mm_test/node/{other}?view=map")
    expect(page.locator(".card.selected")).to_have_attribute("data-id", other)
    show_all()
    page.keyboard.press("g")
    expect_readable()
    expect(page.locator(".card.selected")).to_have_attribute("data-id", other)


def test_double_click_on_toggle_does_not_zoom(site: Site, session: PageSession) -> None:
    """A double click on the toggle of a card does not zoom to the card, but one beside it does."""
    site.create_map(maps.create_small_map())
    page = session.open("#/map/mm_test?view=map")
    expect(find_card(page, ACTIVE_TASK)).to_be_visible()
    page.keyboard.press("-")
    scale = "() => document.querySelector('.card.t-root .shape').getScreenCTM().a"
    before = wait_until_stable(page, lambda: page.evaluate(scale))
    page.locator(".card.t-root .toggle").dispatch_event("dblclick")
    assert wait_until_stable(page, lambda: page.evaluate(scale)) == before
    page.locator(".card.t-root .shape").dispatch_event("dblclick")
    page.wait_for_function(f"before => ({scale})() > before", arg=before)
