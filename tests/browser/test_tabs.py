"""Many tabs of one browser share what one of them hears."""

from __future__ import annotations

from playwright.sync_api import BrowserContext, Page, expect

from mindmap.document import DONE, ROOT, Mindmap
from mindmap.nodes import NewNode, NodeUpdate, add_nodes, update_nodes
from tests.browser import maps
from tests.browser.conftest import Site
from tests.browser.maps import HEAD
from tests.mindmap.sample_maps import id_of, moment

TABS = 8


def with_note(document: Mindmap, label: str) -> Mindmap:
    return add_nodes(document, ROOT, [NewNode(label, "note")], moment(30)).document


def opened(context: BrowserContext, site: Site, listening: list[Page]) -> Page:
    page = context.new_page()
    page.on("request", lambda request: listening.append(page) if request.url.endswith("/events") else None)
    page.goto(f"{site.address}#/map/mm_test?view=map")
    expect(page.locator(".connection")).to_have_text("Live")
    return page


def test_eight_tabs_share_one_stream_and_outlive_the_tab_that_holds_it(
    site: Site, context: BrowserContext
) -> None:
    """All follow what is written though one alone listens; closed, another takes over; all say when nobody answers."""
    site.write(maps.small())
    listening: list[Page] = []
    tabs = [opened(context, site, listening) for _ in range(TABS)]
    assert listening == tabs[:1]
    site.change(lambda document: with_note(document, "Seen by all"))
    for tab in tabs:
        expect(tab.locator(".card[aria-label^='Seen by all,']")).to_be_visible()
    tabs.pop(0).close()
    expect(tabs[0].locator(".connection")).to_have_text("Live")
    site.change(lambda document: with_note(document, "Seen by those who are left"))
    for tab in tabs:
        expect(tab.locator(".card[aria-label^='Seen by those who are left,']")).to_be_visible()
    assert len(listening) == 2
    site.end()
    for tab in tabs:
        expect(tab.locator(".connection")).to_have_text("Offline")


def test_a_tab_that_nobody_sees_reads_when_it_is_seen(site: Site, context: BrowserContext) -> None:
    """A hidden tab fetches nothing while agents write, and shows all of it when somebody comes back."""
    site.write(maps.small())
    page = opened(context, site, [])
    fetched: list[str] = []
    page.on("request", lambda request: fetched.append(request.url))
    hide = """hidden => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
      document.dispatchEvent(new Event("visibilitychange"));
    }"""
    page.evaluate(hide, True)
    other = opened(context, site, [])
    site.change(
        lambda document: (
            update_nodes(document, [NodeUpdate(id_of(document, HEAD), status=DONE)], moment(40)).document
        )
    )
    done = f".card.s-completed[aria-label^='{HEAD},']"
    expect(other.locator(done)).to_be_visible()
    assert not fetched
    page.evaluate(hide, False)
    expect(page.locator(done)).to_be_visible()


def test_a_leading_tab_that_stands_still_silences_nobody(site: Site, context: BrowserContext) -> None:
    """Frozen, or busy without end, it loses the lead to a tab that somebody sees; awake again, it follows."""
    site.write(maps.small())
    listening: list[Page] = []
    tabs = [opened(context, site, listening) for _ in range(3)]
    debugger = context.new_cdp_session(tabs[0])
    debugger.send("Debugger.enable")
    debugger.send("Debugger.pause")
    site.change(lambda document: with_note(document, "Seen meanwhile"))
    for tab in tabs[1:]:
        expect(tab.locator(".card[aria-label^='Seen meanwhile,']")).to_be_visible()
    debugger.send("Debugger.resume")
    expect(tabs[0].locator(".card[aria-label^='Seen meanwhile,']")).to_be_visible()
    site.change(lambda document: with_note(document, "Seen by all"))
    for tab in tabs:
        expect(tab.locator(".card[aria-label^='Seen by all,']")).to_be_visible()
    assert len(listening) == 2


def test_where_locks_are_forbidden_each_tab_listens_for_itself(site: Site, context: BrowserContext) -> None:
    """A browser that is told to keep nothing for a site refuses them; the page is live all the same."""
    refuse = "() => Promise.reject(new DOMException('', 'SecurityError'))"
    context.add_init_script(f"LockManager.prototype.query = LockManager.prototype.request = {refuse}")
    site.write(maps.small())
    listening: list[Page] = []
    tabs = [opened(context, site, listening) for _ in range(2)]
    assert listening == tabs
