"""Benchmark of the web page in headless Chromium without a GPU; needs an idle machine.

python -m tests.bench.page [--runs 3]

First paint is the time until the first card of a map of 5,000 nodes is drawn. Frames are counted by
requestAnimationFrame while the mouse drags and the wheel turns, from the whole map down to single cards and back: the
best round counts, since other work on the machine only costs frames. A write is visible when the page
has a frame with the new label of a card; time counts from the end of the write, and without the debounce.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace
from playwright.sync_api import Page, sync_playwright

from mindmap.document import ROOT, EditResult, Mindmap, utc_now
from mindmap.map_store import MapStore
from mindmap.nodes import NodeUpdate, update_nodes
from serve.viewer.watcher import QUIET_SECONDS
from tests.bench.report import Row, create_temporary_directory, print_line, print_rows
from tests.browser import maps
from tests.serve.viewer.helpers import start_viewer_process

RUNS: Final = 3
NODES: Final = 5_000
LINKS: Final = 500
SMALL_MAP: Final = (300, 30)
FRAMES: Final = 90
WRITES: Final = 40
# Upper bounds: 50 frames a second, the first card, a write on the screen.
FRAME_MILLISECONDS: Final = 20.0
PAINT_SECONDS: Final = 1.5
MAX_WRITE_SECONDS: Final = 0.3
# Wait after unfolding a map and after a gesture.
SETTLE_MILLISECONDS: Final = 1_500
GESTURES: Final = """async (frames) => {
  const stage = document.querySelector(".stage");
  const { left, top, width, height } = stage.getBoundingClientRect();
  const at = { clientX: left + width / 2, clientY: top + height / 2 };
  const mouse = (to, type, x = 0, y = 0) => to.dispatchEvent(new MouseEvent(type, { bubbles: true, cancelable: true,
    view: window, buttons: 1, clientX: at.clientX + x, clientY: at.clientY + y }));
  const counted = (act) => new Promise((done) => {
    const moments = [];
    const step = (now) => {
      moments.push(now);
      if (moments.length > frames) return done((now - moments[0]) / frames);
      act(moments.length);
      requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  });
  const pan = async () => {
    mouse(stage, "mousedown");
    const rate = await counted((i) => mouse(window, "mousemove", 250 * Math.sin(i / 15), 200 * Math.sin(i / 11)));
    mouse(window, "mouseup");
    return rate;
  };
  const wheel = (deltaY) => new WheelEvent("wheel", { bubbles: true, cancelable: true, deltaY, ...at });
  const zoom = (by) => counted(() => stage.dispatchEvent(wheel(by)));
  const frameTimes = { "pan, far": await pan(), "zoom in": await zoom(-24), "pan, near": await pan() };
  return { ...frameTimes, "zoom out": await zoom(12), "pan, between": await pan(),
    "zoom out to the end": await zoom(16) };
}"""
WAIT_FOR_LABEL: Final = """([id, label]) => {
  window.seen = new Promise((done) => {
    const look = () => {
      const card = document.querySelector(`.card[data-id="${id}"]`);
      if (card?.getAttribute("aria-label").startsWith(`${label},`)) requestAnimationFrame(() => done(Date.now()));
      else requestAnimationFrame(look);
    };
    look();
  });
}"""


def measure(folder: Path, runs: int = RUNS) -> Sequence[Row]:
    """Return all rows; none without Chromium."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print_line("page: chromium is not installed")
        return []
    store = MapStore(folder / "maps")
    documents = [
        replace(maps.create_large_map(*size), id=f"mm_{size[0]}") for size in ((NODES, LINKS), SMALL_MAP)
    ]
    for document in documents:
        store.create(document)
    with start_viewer_process(store.path, "--port", "0") as (_, line), _open_browser(chromium) as page:
        site = line.split()[0]
        frames = _measure_frames(page, f"{site}#/map/{documents[0].id}?view=map", runs)
        return [*frames, *(_measure_write_latency(page, site, store, document) for document in documents)]


@contextmanager
def _open_browser(chromium: str) -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser.new_page(viewport={"width": 1440, "height": 900})
        browser.close()


def _open_page(page: Page, address: str) -> float:
    """Open the page; return the milliseconds until the first card."""
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector(".card, .boxes path", state="attached")
    return float(page.evaluate("performance.now()"))


def _measure_frames(page: Page, address: str, runs: int) -> Iterator[Row]:
    paints: list[float] = []
    rounds: list[dict[str, float]] = []
    for _ in range(runs):
        paints.append(_open_page(page, address) / 1000)
        for key in ("e", "0"):
            page.keyboard.press(key)
            page.wait_for_timeout(SETTLE_MILLISECONDS)
        rounds.append(page.evaluate(GESTURES, FRAMES))
    detail = f"best of {runs}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    yield Row("synthetic", f"first card of {NODES:,} nodes, seconds", min(paints), PAINT_SECONDS, detail)
    for name in rounds[0]:
        frame_times = sorted(gestures[name] for gestures in rounds)
        rates = ", ".join(f"{1000 / milliseconds:.0f}" for milliseconds in frame_times)
        yield Row(
            "synthetic", f"{name}, ms a frame", frame_times[0], FRAME_MILLISECONDS, f"{rates} frames a second"
        )


def _measure_write_latency(page: Page, site: str, store: MapStore, document: Mindmap) -> Row:
    """Measure consecutive writes to a visible card."""
    node_id = document.nodes[ROOT].children[0]
    _open_page(page, f"{site}#/map/{document.id}/node/{node_id}?view=map")
    page.wait_for_timeout(SETTLE_MILLISECONDS)
    waits = [
        _measure_write(page, store, document.id, NodeUpdate(node_id, f"Write {n}")) for n in range(WRITES)
    ]
    p50, p95 = statistics.median(waits), statistics.quantiles(waits, n=20)[-1]
    detail = f"median {p50:.3f} s beyond the debounce of {QUIET_SECONDS:g} s; {WRITES} writes"
    label = f"a write to the screen, {len(document.nodes):,} nodes, p95, seconds"
    return Row("synthetic", label, p95, MAX_WRITE_SECONDS, detail)


def _measure_write(page: Page, store: MapStore, mindmap_id: str, update: NodeUpdate) -> float:
    page.evaluate(WAIT_FOR_LABEL, [update.id, update.label])
    store.change(
        mindmap_id, lambda document: EditResult(update_nodes(document, [update], utc_now()).document, "")
    )
    write_end = time.time()
    frame_milliseconds: Any = page.evaluate("window.seen")
    return float(frame_milliseconds) / 1000 - write_end - QUIET_SECONDS


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help="rounds of gestures; the best one counts")
    arguments = parser.parse_args()
    with create_temporary_directory() as temporary_folder:
        print_rows(measure(temporary_folder, arguments.runs))
