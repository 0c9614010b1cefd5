"""List of sessions, and what the page shows without a map, with an empty one, or without the viewer."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from mindmap.document import BLOCKED, COMPLETED
from mindmap.nodes import create_mindmap
from serve.setup.mcp_clients import CLIENTS
from stores.mindmap_files import make_quarantine_name
from tests.browser import maps
from tests.browser.conftest import PageSession, Site
from tests.browser.maps import ACTIVE_TASK
from tests.browser.measurements import find_card, find_violations
from tests.mindmap.sample_maps import create_timestamp


def test_session_list(site: Site, session: PageSession) -> None:
    """The list shows each map's state, newest first, follows changes, and a click opens a map."""
    site.create_map(maps.create_small_map())
    page = session.open()
    first_session = page.locator(".session").first
    expect(first_session).to_contain_text(maps.TITLE)
    for text in (ACTIVE_TASK, "1 of 5 tasks", "12 nodes", "3 files"):
        expect(first_session).to_contain_text(text)
    site.create_map(maps.create_large_map(30, 3), "mm_other")
    expect(page.locator(".session")).to_have_count(2)
    expect(first_session).to_contain_text("Platform migration")
    page.get_by_role("link", name=re.compile("Resumable")).click()
    expect(page).to_have_url(re.compile("#/map/mm_test$"))
    expect(page.get_by_role("heading", level=1)).to_have_text(maps.TITLE)


def test_empty_data_directory(site: Site, session: PageSession) -> None:
    """An empty data directory shows the command for each client, and the first map appears by itself."""
    page = session.open()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    expect(page.locator(".state")).to_contain_text(str(site.maps.path))
    for client in CLIENTS.values():
        page.get_by_role("button", name=client.title.removesuffix(" (macOS)"), exact=True).click()
        expect(page.locator(".copyable").first).to_contain_text(
            f"mindmap register --client {client.name} --write"
        )
    assert not find_violations(page)
    page.get_by_role("button", name="Copy the prompt").click()
    expect(page.get_by_role("button", name="Copy the prompt")).to_have_text("Copied")
    assert "mindmap tools" in page.evaluate("navigator.clipboard.readText()")
    site.create_map(maps.create_small_map())
    expect(page.locator(".session")).to_have_count(1)


def test_texts_without_content(site: Site, session: PageSession) -> None:
    """Lists say why they are empty, and how many entries they leave out."""
    document = create_mindmap("Done", None, create_timestamp(0))
    site.create_map(
        maps.add_under_root(document, [{"label": "Only task", "status": COMPLETED}], 1), "mm_done"
    )
    site.create_map(maps.create_large_map(300, 0), "mm_large")
    page = session.open()
    sessions = page.locator(".session")
    expect(sessions.filter(has_text="Done")).to_contain_text("All tasks done")
    expect(sessions.filter(has_text="Done")).to_contain_text(
        "1 of 1 tasks 2 nodes 0 files", use_inner_text=True
    )
    page.get_by_role("link", name=re.compile("^Done")).click()
    expect(page.locator(".title-progress")).to_have_text("1/1")
    expect(page.locator("#side-body")).to_contain_text("1 of 1 tasks done")
    page.keyboard.press("g")
    expect(page.locator(".notice")).to_have_text("No node is selected, and no task is in progress.")
    page.get_by_role("tab", name="Files").click()
    expect(page.locator("#side-body")).to_have_text(
        "No file is attached to this map yet.Agents attach the files they touch."
    )
    page.locator("#search").fill("nothing like this")
    expect(page.locator(".search-results")).to_have_text("No matches.")
    page.keyboard.press("s")  # is text here
    expect(page.locator(".notice")).to_have_count(0)
    session.open("#/map/mm_large")
    page.get_by_role("tab", name="Files").click()
    page.get_by_label("Filter files by path").fill("nowhere")
    expect(page.locator("#side-body")).to_contain_text("No path contains “nowhere”.")
    page.locator("#search").fill("status:planned")
    planned = sum(node.status == "planned" for node in site.maps.read("mm_large").nodes.values())
    expect(page.locator(".hits")).to_have_text(f"{planned} found")
    expect(page.locator(".search-results .more")).to_have_text(
        f"and {planned - 50} more. Press Enter to go through all."
    )
    page.get_by_role("tab", name="Node").click()
    blocked = sum(node.status == BLOCKED for node in site.maps.read("mm_large").nodes.values())
    page.get_by_role("button", name=f"Show all {blocked}").last.click()
    expect(page.get_by_role("button", name="Show fewer")).to_be_visible()


def test_damaged_file(site: Site, session: PageSession) -> None:
    """A damaged file is listed with the reason below the maps, and shown at its own URL."""
    session.ignore_console = True  # the browser logs failed requests
    site.create_map(maps.create_small_map())
    (site.maps.path / "mm_bad.json").write_text('{"title": "cut sho')
    page = session.open()
    expect(page.locator(".session")).to_have_count(1)
    expect(page.locator(".problems")).to_contain_text("mm_bad is damaged")
    session.open("#/map/mm_bad")
    expect(page.get_by_role("alert")).to_contain_text("mm_bad is damaged")
    session.open("#/map/mm_none")
    expect(page.get_by_role("alert")).to_contain_text("Map not found")
    expect(page.get_by_role("alert").get_by_role("link", name=maps.TITLE)).to_be_visible()
    (site.maps.path / "mm_bad.json").rename(site.maps.path / make_quarantine_name("mm_bad"))
    session.open("#/map/mm_bad")
    expect(page.get_by_role("alert")).to_contain_text("Repair that file and rename it to mm_bad.json")
    expect(page.get_by_role("alert").get_by_role("link", name=maps.TITLE)).to_have_count(0)


def test_offline(own_site: Site, session: PageSession) -> None:
    """When the viewer stops, the map stays and a banner says how to run it again for the same maps and address."""
    session.ignore_console = True  # the browser logs failed requests
    own_site.create_map(maps.create_small_map())
    session.address = own_site.address
    with session.page.expect_response("**/api/status"):
        page = session.open("#/map/mm_test")
    expect(page.locator(".connection")).to_have_text("Live")
    own_site.stop()
    expect(page.locator(".connection")).to_have_text("Offline")
    port = own_site.address.rsplit(":", 1)[1].strip("/")
    command = f"Run MINDMAP_DATA_DIR={own_site.maps.path} mindmap viewer --port {port}."
    expect(page.get_by_role("alert")).to_contain_text(command)
    expect(find_card(page, ACTIVE_TASK)).to_be_visible()


def test_deleted_map(site: Site, session: PageSession) -> None:
    """A banner says that the map was deleted, and a link with the title of another map opens that."""
    session.ignore_console = True  # the browser logs failed requests
    site.create_map(maps.create_large_map(30, 3), "mm_other")
    site.create_map(maps.create_small_map())
    page = session.open("#/map/mm_test")
    expect(find_card(page, ACTIVE_TASK)).to_be_visible()
    site.maps.delete("mm_test")
    expect(page.get_by_role("alert")).to_contain_text("This map was deleted")
    expect(page.get_by_role("alert")).not_to_contain_text("mm_")
    assert not find_violations(page)
    page.get_by_role("link", name="Platform migration, 30 nodes").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Platform migration, 30 nodes")
    expect(page.get_by_role("alert")).to_have_count(0)
