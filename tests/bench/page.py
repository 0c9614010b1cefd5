"""How fast the page of the viewer is: `python -m tests.bench.page`. Needs chromium, and a machine that is idle.

First paint is when the first card of a map of 5,000 nodes stands, from the address on. Frames are counted by
requestAnimationFrame while the mouse drags and the wheel turns, from the whole map down to single cards.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace
from playwright.sync_api import Page, sync_playwright

from mindmap.maps import Maps
from tests.browser import maps
from tests.serve.viewer.viewers import program

NODES: Final = 5_000
LINKS: Final = 500
FRAMES: Final = 90
MEASURED: Final = """async (frames) => {
  const stage = document.querySelector(".stage");
  const { left, top, width, height } = stage.getBoundingClientRect();
  const at = { clientX: left + width / 2, clientY: top + height / 2 };
  const mouse = (to, type, x = 0, y = 0) => to.dispatchEvent(new MouseEvent(type, { bubbles: true, cancelable: true,
    view: window, buttons: 1, clientX: at.clientX + x, clientY: at.clientY + y }));
  const counted = (act) => new Promise((done) => {
    const moments = [];
    const step = (now) => {
      moments.push(now);
      if (moments.length > frames) return done(1000 * frames / (now - moments[0]));
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
  const found = { "pan, far": await pan(), "zoom in": await zoom(-24), "pan, near": await pan() };
  return { ...found, "zoom out": await zoom(12), "pan, between": await pan() };
}"""


def main() -> int:
    """Measure and print JSON: milliseconds and frames a second."""
    with tempfile.TemporaryDirectory() as folder, program(Path(folder), "--port", "0") as (_, line):
        Maps(Path(folder)).create(replace(maps.large(NODES, LINKS), id="mm_bench"))
        address = f"{line.split()[0]}#/map/mm_bench?view=map"
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            found = measured(browser.new_page(viewport={"width": 1440, "height": 900}), address)
            browser.close()
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    return 0


def measured(page: Page, address: str) -> dict[str, Any]:
    """First paint of the map as it opens, then frames with everything unfolded."""
    page.goto(address)
    page.wait_for_selector(".card, .boxes path", state="attached")
    first = page.evaluate("performance.now()")
    for key in ("e", "0"):
        page.keyboard.press(key)
        page.wait_for_timeout(1_500)
    rates = page.evaluate(MEASURED, FRAMES)
    return {"first paint, ms": round(first)} | {name: round(rate, 1) for name, rate in rates.items()}


if __name__ == "__main__":
    sys.exit(main())
