"""Fixtures: a browser, a viewer, and a page whose console messages fail the test."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec.structs import replace
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from mindmap.document import EditResult, Mindmap
from mindmap.map_store import MapStore
from serve.backend import InProcessBackend
from serve.viewer.responses import PAGE_DIRECTORY
from tests.serve.viewer.helpers import start_viewer, start_viewer_process

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
# Rendering is slow on two shared cores.
TIMEOUT_MS = 12_000
expect.set_options(timeout=TIMEOUT_MS)


@dataclass
class Site:
    """Running viewer. `create_map` and `change_map` act like an agent that writes to its data directory."""

    maps: MapStore
    address: str
    stop: Callable[[], None]

    def create_map(self, document: Mindmap, mindmap_id: str = "mm_test") -> Mindmap:
        document_with_id = replace(document, id=mindmap_id)
        self.maps.create(document_with_id)
        return document_with_id

    def change_map(self, edit: Callable[[Mindmap], Mindmap], mindmap_id: str = "mm_test") -> Mindmap:
        return self.maps.change(mindmap_id, lambda document: EditResult(edit(document), ""))[0]


@dataclass
class PageSession:
    """Browser page of a viewer. `ignore_console` allows console messages, such as those of failed requests."""

    page: Page
    address: str
    console_messages: list[str] = field(default_factory=list)
    ignore_console: bool = False

    def open(self, fragment: str = "") -> Page:
        self.page.goto(f"{self.address}{fragment}")
        return self.page


@pytest.fixture(scope="package")  # playwright runs an event loop in this thread until it is closed
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("chromium is not installed (apt-get install chromium)")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="package")
def shared_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Run a viewer in a thread for all tests that do not stop it."""
    folder = tmp_path_factory.mktemp("viewer")
    (folder / "maps").mkdir()
    with start_viewer(folder / "maps", PAGE_DIRECTORY, InProcessBackend(folder / "home")) as client:
        yield Site(MapStore(folder / "maps"), f"http://127.0.0.1:{client.port}/", lambda: None)


@pytest.fixture
def site(shared_site: Site) -> Iterator[Site]:
    """Return the shared viewer; its data directory is emptied after the test."""
    yield shared_site
    for path in shared_site.maps.path.glob("*.json"):
        path.unlink()


@pytest.fixture
def own_site(tmp_path: Path) -> Iterator[Site]:
    """Run a viewer for a single test, which can stop it."""
    folder = tmp_path / "data"
    with start_viewer_process(folder, "--port", "0", LINEAGE_HOME=str(tmp_path / "home")) as (process, line):
        yield Site(MapStore(folder), line.split()[0], process.kill)


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    new_context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    new_context.set_default_timeout(TIMEOUT_MS)
    yield new_context
    new_context.close()


@pytest.fixture
def session(site: Site, context: BrowserContext) -> Iterator[PageSession]:
    """Open a page of the site. Console messages, violations of the content security policy included, fail the test."""
    session = PageSession(context.new_page(), site.address)
    session.page.on(
        "console", lambda message: session.console_messages.append(f"{message.type}: {message.text}")
    )
    session.page.on("pageerror", lambda error: session.console_messages.append(str(error)))
    yield session
    assert session.ignore_console or not session.console_messages
