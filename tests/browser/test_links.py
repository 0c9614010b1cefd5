"""Links between cards: across the panes, around cards, and their labels."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from mindmap.document import IN_PROGRESS, ROOT, Mindmap
from mindmap.nodes import add_nodes, create_mindmap, flatten_nodes
from tests.browser import maps
from tests.browser.conftest import PageSession, Site
from tests.browser.measurements import find_card, get_rectangle, wait_until_stable
from tests.mindmap.sample_maps import create_timestamp, find_id

LABELS = ("calls", "depends on", "would explain")
# JavaScript function that returns the cards crossed by links of other cards, and the overlaps of shown labels with
# cards and other labels.
FIND_OVERLAPS = """() => {
  const shrink = ({ left, right, top, bottom }) =>
    ({ left: left + 2, right: right - 2, top: top + 2, bottom: bottom - 2 });
  const isInside = ({ x, y }, box) => x > box.left && x < box.right && y > box.top && y < box.bottom;
  const isOverlap = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  const cards = [...document.querySelectorAll(".card")].map(card => ({
    id: card.dataset.id, name: card.getAttribute("aria-label"),
    box: shrink(card.querySelector(".shape").getBoundingClientRect()) }));
  const overlaps = [];
  for (const stroke of document.querySelectorAll(".link .stroke")) {
    const ends = stroke.parentElement.dataset.key.split(" ");
    for (let at = 0; at < stroke.getTotalLength(); at += 3) {
      const point = stroke.getPointAtLength(at).matrixTransform(stroke.getScreenCTM());
      const crossed = cards.filter(({ id, box }) => !ends.includes(id) && isInside(point, box));
      overlaps.push(...crossed.map(({ name }) => `line ${name}`));
    }
  }
  const labels = [...document.querySelectorAll(".link-label")].filter(label => label.checkVisibility());
  const boxes = labels.map(label => shrink(label.getBoundingClientRect()));
  boxes.forEach((box, index) => {
    for (const card of cards) if (isOverlap(box, card.box)) overlaps.push(`${labels[index].textContent} ${card.name}`);
    for (const other of boxes.slice(index + 1)) if (isOverlap(box, other)) overlaps.push(labels[index].textContent);
  });
  const links = document.querySelectorAll(".link .stroke").length;
  return { overlaps: [...new Set(overlaps)], links, labels: labels.length };
}"""


def create_linked_map() -> Mindmap:
    """Create a map of 40 nodes with eight links within the plan and the model, and six between them."""
    document = create_mindmap("Linked", None, create_timestamp(0))
    for part in range(4):
        steps = [{"label": f"Step {part}{letter} of the plan"} for letter in "abcd"]
        steps[0]["status"] = IN_PROGRESS if part == 1 else "planned"
        plan = {"label": f"Plan {part}", "type": "plan", "children": steps}
        parts = [{"label": f"Component {part}{letter}", "type": "component"} for letter in "abcd"]
        model = {"label": f"Model {part}", "type": "component", "children": parts}
        document = add_nodes(document, ROOT, flatten_nodes([plan, model]), create_timestamp(1)).document
    step = [find_id(document, f"Step {part}{letter} of the plan") for part in range(4) for letter in "abcd"]
    component = [find_id(document, f"Component {part}{letter}") for part in range(4) for letter in "abcd"]
    across = [(step[0], component[number], LABELS[number % 3]) for number in (0, 5, 11)]
    across += [
        (component[2], step[9], "guards"),
        (component[7], step[14], "guards"),
        (step[4], component[13], "reads"),
    ]
    pairs = ((0, 6), (3, 14), (9, 1), (5, 12))
    within = [(ids[a], ids[b], LABELS[a % 3]) for ids in (step, component) for a, b in pairs]
    return maps.add_links(document, [(a, b, label, None) for a, b, label in across + within])


def create_crowded_map() -> Mindmap:
    """Create a map with links whose labels are longer than any free place."""
    document = create_linked_map()
    label = "a label that is far too long for the gaps"
    return maps.add_links(document, [(link.source, link.target, label, None) for link in document.links])


def test_links_to_the_other_pane(site: Site, session: PageSession) -> None:
    """Side by side, badges count links to the other pane, and a hovered card draws them; the whole map draws all."""
    document = site.create_map(create_linked_map())
    session.page.set_viewport_size({"width": 1920, "height": 1080})
    page = session.open("#/map/mm_test")
    step = find_card(page, "Step 0a of the plan", "plan")
    expect(step.locator(".cross-count text")).to_have_text("3")
    expect(find_card(page, "Component 1d", "model").locator(".cross-count text")).to_have_text("1")
    without_links = find_card(page, "Component 1a", "model")
    expect(without_links).to_be_visible()
    expect(without_links.locator(".cross-count")).to_have_count(0)
    arrows = page.locator(".cross-links .link")
    step.hover()
    expect(arrows).to_have_count(3)
    expect(page.locator(".cross-links .link-label")).to_have_text(["calls", "would explain", "would explain"])
    find_card(page, "Component 0c", "model").click()
    expect(arrows).to_have_count(1)
    expect(page.locator(".cross-links .link-label")).to_have_text("guards")
    find_card(page, "Step 3d of the plan").hover()
    expect(arrows).to_have_count(0)
    page.keyboard.press("3")
    expect(page.locator(".pane")).to_have_count(1)
    expect(page.locator(".cross-count")).to_have_count(0)
    page.keyboard.press("2")
    expect(page.locator(".link")).to_have_count(len(document.links))
    assert len(document.links) == 14


def test_collapsed_card_shows_links_to_the_other_pane(site: Site, session: PageSession) -> None:
    """The badge and the arrows of a collapsed card are those of the nodes under it."""
    site.create_map(create_linked_map())
    session.page.set_viewport_size({"width": 1920, "height": 1080})
    page = session.open("#/map/mm_test")
    plan = find_card(page, "Plan 0", "plan")
    plan.click()
    page.keyboard.press("Space")
    expect(plan.locator(".cross-count text")).to_have_text("3")
    expect(page.locator(".cross-links .link")).to_have_count(3)


# JavaScript function that returns a point of the screen on the first link across the panes.
FIND_LINK_POINT = """() => {
  const path = document.querySelector(".cross-links .hit");
  const { x, y } = path.getPointAtLength(path.getTotalLength() / 3).matrixTransform(path.getScreenCTM());
  return [x, y];
}"""


def test_wheel_over_a_link_zooms_the_pane(site: Site, session: PageSession) -> None:
    """A link across the panes lies over a pane, and does not keep the wheel from it."""
    site.create_map(create_linked_map())
    session.page.set_viewport_size({"width": 1920, "height": 1080})
    page = session.open("#/map/mm_test")
    find_card(page, "Step 0a of the plan", "plan").click()
    expect(page.locator(".cross-links .link")).not_to_have_count(0)
    x, y = wait_until_stable(page, lambda: page.evaluate(FIND_LINK_POINT))
    page.mouse.move(x, y)
    assert page.evaluate(f"document.elementFromPoint({x}, {y}).closest('.cross-links') !== null")
    scene = page.locator(".pane.plan .scene > g").first
    before = scene.get_attribute("transform")
    page.mouse.wheel(0, 240)
    assert wait_until_stable(page, lambda: scene.get_attribute("transform")) != before


def sum_badges(page: Page, map_part: str) -> int:
    return sum(map(int, page.locator(f".pane.{map_part} .cross-count text").all_text_contents()))


def test_badges_count_each_link_once(site: Site, session: PageSession) -> None:
    """The badges of each pane add up to the number of links between the panes, expanded and collapsed."""
    site.create_map(create_linked_map())
    session.page.set_viewport_size({"width": 1920, "height": 1080})
    page = session.open("#/map/mm_test")
    for key, cards in (("e", 42), ("c", 10)):
        page.keyboard.press(key)
        expect(page.locator(".card")).to_have_count(cards)
        assert (sum_badges(page, "plan"), sum_badges(page, "model")) == (6, 6)


def measure_overlaps(page: Page) -> Any:
    return wait_until_stable(page, lambda: page.evaluate(FIND_OVERLAPS))


def test_links_run_around_cards(site: Site, session: PageSession) -> None:
    """No link crosses a card, and no label covers a card or another label, within the panes and across them."""
    site.create_map(create_linked_map())
    session.page.set_viewport_size({"width": 1920, "height": 1080})
    page = session.open("#/map/mm_test?view=map")
    expect(page.locator(".link")).to_have_count(14)
    found = measure_overlaps(page)
    assert not found["overlaps"] and found["links"] == 14 and found["labels"]
    page.keyboard.press("1")
    find_card(page, "Step 0a of the plan", "plan").hover()
    expect(page.locator(".cross-links .link")).to_have_count(3)
    found = measure_overlaps(page)
    assert not found["overlaps"] and found["links"] == 11


# JavaScript function that returns the element ids of the cards in view with links to the other pane.
FIND_LINKED_CARDS = """() => [...document.querySelectorAll(".card:has(.cross-count)")].filter(card => {
  const { left, top, height } = card.querySelector(".label").getBoundingClientRect();
  return card.contains(document.elementFromPoint(left + 2, top + height / 2));
}).map(card => card.id)"""


def find_linked_cards(page: Page) -> Any:
    return wait_until_stable(page, lambda: page.evaluate(FIND_LINKED_CARDS))


def test_links_of_all_cards_to_the_other_pane(site: Site, session: PageSession) -> None:
    """Whichever card is hovered, its links to the other pane cross no card, and their labels cover none."""
    site.create_map(create_linked_map())
    site.create_map(maps.create_large_map(112, 30), "mm_dense")
    for width, height, name in ((1400, 900, "mm_dense"), (1400, 900, "mm_test"), (850, 1600, "mm_test")):
        session.page.set_viewport_size({"width": width, "height": height})
        page = session.open(f"#/map/{name}?view=both")
        expect(page.locator(".pane")).to_have_count(2)
        for card_id in find_linked_cards(page)[::2]:
            page.locator(f"[id='{card_id}'] .label").first.hover()
            expect(page.locator(".cross-links .link")).not_to_have_count(0)
            assert not measure_overlaps(page)["overlaps"], (name, width, card_id)


def test_links_between_stacked_panes(site: Site, session: PageSession) -> None:
    """In a narrow window with one pane below the other, links to the other pane cross no card."""
    site.create_map(create_linked_map())
    session.page.set_viewport_size({"width": 850, "height": 1600})
    page = session.open("#/map/mm_test?view=both")
    step = find_card(page, "Step 0a of the plan", "plan")
    assert get_rectangle(page.locator(".pane.model"))["y"] > get_rectangle(page.locator(".pane.plan"))["y"]
    step.hover()
    expect(page.locator(".cross-links .link")).to_have_count(3)
    assert not measure_overlaps(page)["overlaps"]


# JavaScript function that returns the number of links that are animated now.
COUNT_ANIMATED = (
    """() => document.getAnimations().filter(({ animationName }) => animationName === "stream").length"""
)


def test_few_links_are_animated(site: Site, session: PageSession) -> None:
    """A few animated links in view move; of many, which would keep the processor busy, only those of a hovered card."""
    document = site.create_map(maps.create_large_map(300, 30))
    site.create_map(maps.create_small_map(), "mm_small")
    session.page.emulate_media(reduced_motion="no-preference")
    page = session.open("#/map/mm_small?view=map")
    page.wait_for_function(f"() => ({COUNT_ANIMATED})() === 1")
    session.open("#/map/mm_test?view=map")
    page.wait_for_function("() => document.querySelectorAll('.link.animated').length > 5")
    assert wait_until_stable(page, lambda: page.evaluate(COUNT_ANIMATED)) == 0
    ends = page.locator(".link.animated").first.get_attribute("data-key")
    assert ends and ends.split()[0] in document.nodes
    session.open(f"#/map/mm_test/node/{ends.split()[0]}?view=map")
    page.wait_for_function(f"() => ({COUNT_ANIMATED})() > 0")


# JavaScript function that returns the middle of a line, in pixels of the window.
FIND_MIDDLE = """line => {
  const { x, y } = line.getPointAtLength(line.getTotalLength() / 2).matrixTransform(line.getScreenCTM());
  return [x, y];
}"""


def test_label_without_room_shows_on_hover(site: Site, session: PageSession) -> None:
    """A label that no free place can hold appears while its line is hovered, within a pane and across the panes."""
    site.create_map(create_crowded_map())
    for view in ("map", "both"):
        page = session.open(f"#/map/mm_test?view={view}")
        find_card(page, "Step 0a of the plan").hover()
        links = page.locator(".cross-links" if view == "both" else ".scene")
        crowded = links.locator(".link-label.crowded.hot")
        expect(crowded).not_to_have_count(0)
        assert not any(label.is_visible() for label in crowded.all())
        for line in links.locator(".link.hot .hit").all():
            page.mouse.move(*line.evaluate(FIND_MIDDLE))
            expect(links.locator(".link-label.pointed")).to_be_visible()
            find_card(page, "Step 0a of the plan").hover()
            expect(links.locator(".link-label.pointed")).to_have_count(0)


def test_picture_shows_all_labels(site: Site, session: PageSession, tmp_path: Path) -> None:
    """The exported picture, which has no hovering, shows the labels without room too."""
    site.create_map(create_crowded_map())
    page = session.open("#/map/mm_test?view=map")
    expect(page.locator(".link-label.crowded").first).to_be_attached()
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as download:
        page.get_by_role("button", name=re.compile("^Picture")).click()
    download.value.save_as(tmp_path / "picture.svg")
    page.goto((tmp_path / "picture.svg").as_uri())
    labels = page.locator(".link-label.crowded")
    expect(labels.first).to_be_visible()
    assert all(label.is_visible() for label in labels.all())
