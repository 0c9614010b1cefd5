"""Event stream shared by the tabs of a browser."""

from __future__ import annotations

from playwright.sync_api import BrowserContext, Page, expect

from mindmap.document import COMPLETED, ROOT, Mindmap
from mindmap.nodes import NewNode, NodeUpdate, add_nodes, update_nodes
from tests.browser import maps
from tests.browser.conftest import Site
from tests.browser.maps import ACTIVE_TASK
from tests.browser.measurements import SET_HIDDEN
from tests.mindmap.sample_maps import create_timestamp, find_id

# More tabs than a browser opens connections to one server.
TABS = 8


def add_note(document: Mindmap, label: str) -> Mindmap:
    return add_nodes(document, ROOT, [NewNode(label, "note")], create_timestamp(30)).document


def open_tab(context: BrowserContext, site: Site, subscribed: list[Page]) -> Page:
    page = context.new_page()
    page.on("request", lambda request: subscribed.append(page) if request.url.endswith("/events") else None)
    page.goto(f"{site.address}#/map/mm_test?view=map")
    expect(page.locator(".connection")).to_have_text("Live")
    return page


def test_tabs_share_one_stream(own_site: Site, context: BrowserContext) -> None:
    """All tabs share one event stream. When its tab closes, another opens one; without a server, all are offline."""
    own_site.create_map(maps.create_small_map())
    subscribed: list[Page] = []
    tabs = [open_tab(context, own_site, subscribed) for _ in range(TABS)]
    assert subscribed == tabs[:1]
    own_site.change_map(lambda document: add_note(document, "Seen by all"))
    for tab in tabs:
        expect(tab.locator(".card[aria-label^='Seen by all,']")).to_be_visible()
    tabs.pop(0).close()
    expect(tabs[0].locator(".connection")).to_have_text("Live")
    own_site.change_map(lambda document: add_note(document, "Seen by those who are left"))
    for tab in tabs:
        expect(tab.locator(".card[aria-label^='Seen by those who are left,']")).to_be_visible()
    assert len(subscribed) == 2
    own_site.stop()
    for tab in tabs:
        expect(tab.locator(".connection")).to_have_text("Offline")


def test_hidden_tab_reloads_when_visible(site: Site, context: BrowserContext) -> None:
    """A hidden tab requests nothing while agents write, and reloads when it becomes visible."""
    site.create_map(maps.create_small_map())
    page = open_tab(context, site, [])
    card = f".card[aria-label^='{ACTIVE_TASK},']"
    expect(page.locator(card)).to_be_visible()
    page.evaluate(SET_HIDDEN, True)
    visible_page = open_tab(context, site, [])
    expect(visible_page.locator(card)).to_be_visible()
    requests: list[str] = []  # recorded only from here on, because requests for the new map can be late
    page.on("request", lambda request: requests.append(request.url))
    site.change_map(
        lambda document: (
            update_nodes(
                document, [NodeUpdate(find_id(document, ACTIVE_TASK), status=COMPLETED)], create_timestamp(40)
            ).document
        )
    )
    selector = f".card.s-completed[aria-label^='{ACTIVE_TASK},']"
    expect(visible_page.locator(selector)).to_be_visible()
    assert not requests
    page.evaluate(SET_HIDDEN, False)
    expect(page.locator(selector)).to_be_visible()


def test_frozen_leader_is_replaced(site: Site, context: BrowserContext) -> None:
    """A visible tab replaces a frozen leader, which then follows."""
    site.create_map(maps.create_small_map())
    subscribed: list[Page] = []
    tabs = [open_tab(context, site, subscribed) for _ in range(3)]
    debugger = context.new_cdp_session(tabs[0])
    debugger.send("Debugger.enable")
    debugger.send("Debugger.pause")
    site.change_map(lambda document: add_note(document, "Seen meanwhile"))
    for tab in tabs[1:]:
        expect(tab.locator(".card[aria-label^='Seen meanwhile,']")).to_be_visible()
    debugger.send("Debugger.resume")
    expect(tabs[0].locator(".card[aria-label^='Seen meanwhile,']")).to_be_visible()
    site.change_map(lambda document: add_note(document, "Seen by all"))
    for tab in tabs:
        expect(tab.locator(".card[aria-label^='Seen by all,']")).to_be_visible()
    assert len(subscribed) == 2


def test_without_locks_every_tab_subscribes(site: Site, context: BrowserContext) -> None:
    """If the browser forbids locks, every tab subscribes itself and is live."""
    reject = "() => Promise.reject(new DOMException('', 'SecurityError'))"
    context.add_init_script(f"LockManager.prototype.query = LockManager.prototype.request = {reject}")
    site.create_map(maps.create_small_map())
    subscribed: list[Page] = []
    tabs = [open_tab(context, site, subscribed) for _ in range(2)]
    assert subscribed == tabs
