"""A browser, a viewer, and a page whose every complaint is a failure."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec.structs import replace
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from mindmap.document import Edited, Mindmap
from mindmap.map_store import Maps
from tests.serve.viewer.helpers import program

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
# Two shared cores draw slowly.
PATIENCE_MS = 12_000
expect.set_options(timeout=PATIENCE_MS)


@dataclass
class Site:
    """A viewer of a data directory, and an agent's hand in it."""

    maps: Maps
    address: str
    end: Callable[[], None]

    def write(self, document: Mindmap, mindmap_id: str = "mm_test") -> Mindmap:
        named = replace(document, id=mindmap_id)
        self.maps.create(named)
        return named

    def change(self, edit: Callable[[Mindmap], Mindmap], mindmap_id: str = "mm_test") -> Mindmap:
        return self.maps.change(mindmap_id, lambda document: Edited(edit(document), ""))[0]


@dataclass
class Looking:
    """A page at a site; `complaints` is what its console said, `quiet` lets it say that the network is away."""

    page: Page
    address: str
    complaints: list[str] = field(default_factory=list)
    quiet: bool = False

    def open(self, place: str = "") -> Page:
        self.page.goto(f"{self.address}{place}")
        return self.page


@pytest.fixture(scope="module")  # while it is open, this thread has a loop, and no other test may run one
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("chromium is not installed (apt-get install chromium)")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    folder = tmp_path / "data"
    with program(folder, "--port", "0", LINEAGE_HOME=str(tmp_path / "home")) as (process, line):
        yield Site(Maps(folder), line.split()[0], process.kill)


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    made.set_default_timeout(PATIENCE_MS)
    yield made
    made.close()


@pytest.fixture
def looking(site: Site, context: BrowserContext) -> Iterator[Looking]:
    """A page at the site; that the console says nothing and the policy is kept is part of every test."""
    look = Looking(context.new_page(), site.address)
    look.page.on("console", lambda said: look.complaints.append(f"{said.type}: {said.text}"))
    look.page.on("pageerror", lambda error: look.complaints.append(str(error)))
    yield look
    assert look.quiet or not look.complaints
