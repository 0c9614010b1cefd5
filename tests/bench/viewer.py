"""The viewer under load: who misses what, how long after a write is it told, how much memory does it take?

python -m tests.bench.viewer [--seconds 60]

Two hundred browsers listen while twenty writes a second go to eight maps, one of them large. A few of the browsers do
as the page does and fetch each map they are told of. A browser misses a final state when it is told of nothing after
a map's last write, or when what it fetched last is not what is in the file.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mindmap.document import ROOT, Mindmap, encode, now
from mindmap.map_store import Maps
from mindmap.nodes import NewNode, add_nodes, new_map, note
from serve.viewer.watcher import MOST_SECONDS, QUIET_SECONDS
from tests.bench.memory import Peak
from tests.bench.programs import PROJECT, surroundings
from tests.bench.report import Row, show_rows, workspace

BROWSERS: Final = 200
FETCHING: Final = 5
MAPS: Final = 8
NODES: Final = 5_000
WRITES_A_SECOND: Final = 20
SECONDS: Final = 60.0
ALONE: Final = 15
# What the specification gives a change to be seen, beyond the debounce.
SEEN_SECONDS: Final = 0.3
MEMORY_MEGABYTES: Final = 150
# For the last events to arrive.
SETTLING_SECONDS: Final = 3.0


@dataclass(slots=True)
class Browser:
    """One that listens; `told` has the moments at which it was told of each map."""

    port: int
    fetches: bool
    told: dict[str, list[float]] = field(default_factory=dict)
    fetched: dict[str, bytes] = field(default_factory=dict)
    connected: asyncio.Event = field(default_factory=asyncio.Event)
    _wanted: asyncio.Queue[str] = field(default_factory=asyncio.Queue)

    async def listen(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(f"GET /events HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n\r\n".encode())
        fetching = asyncio.create_task(self._keep_fetching()) if self.fetches else None
        try:
            while line := await reader.readline():
                if line.startswith(b"data: "):
                    self._hear(json.loads(line.removeprefix(b"data: ")))
        finally:
            writer.close()
            if fetching:
                fetching.cancel()

    def _hear(self, event: dict[str, str]) -> None:
        self.connected.set()
        if "id" in event:
            self.told.setdefault(event["id"], []).append(time.monotonic())
            if self.fetches:
                self._wanted.put_nowait(event["id"])

    async def _keep_fetching(self) -> None:
        while True:
            wanted = {await self._wanted.get()}
            while not self._wanted.empty():
                wanted.add(self._wanted.get_nowait())
            for mindmap_id in wanted:
                self.fetched[mindmap_id] = await fetched(self.port, mindmap_id)


@dataclass(frozen=True, slots=True)
class Written:
    """A write that has come to its end."""

    mindmap_id: str
    at: float


def measure(folder: Path, seconds: float = SECONDS) -> Sequence[Row]:
    """All rows."""
    maps = Maps(folder / "maps")
    documents = [_map(0 if number else NODES) for number in range(MAPS)]
    for document in documents:
        maps.create(document)
    process = subprocess.Popen(
        (sys.executable, "-m", "serve.cli.mindmap", "viewer", "--port", "0"),
        cwd=PROJECT,
        env={**surroundings(folder), "MINDMAP_DATA_DIR": str(maps.path)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    peak = Peak(process.pid)
    try:
        assert process.stdout is not None
        port = int(re.findall(r":(\d+)/", process.stdout.readline())[0])
        peak.start()
        return asyncio.run(_measured(maps, documents, port, seconds, peak))
    finally:
        process.terminate()
        process.communicate(timeout=20)


async def _measured(
    maps: Maps, documents: list[Mindmap], port: int, seconds: float, peak: Peak
) -> Sequence[Row]:
    browsers = [Browser(port, number < FETCHING) for number in range(BROWSERS)]
    tasks = [asyncio.create_task(browser.listen()) for browser in browsers]
    await asyncio.gather(*(browser.connected.wait() for browser in browsers))
    alone = await _written(maps, documents[1:2], ALONE, 1.2)
    many = await _written(maps, documents, int(seconds * WRITES_A_SECOND), 1 / WRITES_A_SECOND)
    await asyncio.sleep(SETTLING_SECONDS)
    peak.stop()
    missed = _missed(maps, browsers, many)
    for task in tasks:
        task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks)
    took = many[-1].at - many[0].at
    events = sum(len(moments) for browser in browsers for moments in browser.told.values())
    detail = f"{len(many):,} writes in {took:.0f} s, {events:,} events told"
    return [
        Row("made", f"{BROWSERS} browsers: final states missed", missed, 0, detail),
        Row(
            "made",
            "memory of the viewer at its peak, MB",
            peak.bytes / 1e6,
            MEMORY_MEGABYTES,
            f"one of {MAPS} maps has {NODES:,} nodes",
        ),
        _latency("a write to its event, alone, p95, seconds", alone, browsers, QUIET_SECONDS),
        _latency("a write to its event, amid the others, p95, seconds", many, browsers, MOST_SECONDS),
    ]


async def _written(maps: Maps, documents: list[Mindmap], count: int, pause: float) -> list[Written]:
    """So many writes, one map after the other, each at its time whatever the one before took."""
    done, began = [], time.monotonic()
    for number in range(count):
        await asyncio.sleep(max(0.0, began + number * pause - time.monotonic()))
        mindmap_id = documents[number % len(documents)].id
        await asyncio.to_thread(
            maps.change, mindmap_id, lambda found, number=number: note(found, f"Write {number}", now())
        )
        done.append(Written(mindmap_id, time.monotonic()))
    await asyncio.sleep(1)
    return done


def _missed(maps: Maps, browsers: list[Browser], writes: list[Written]) -> int:
    last = {write.mindmap_id: write.at for write in writes}
    missed = sum(
        browser.told.get(mindmap_id, [0.0])[-1] < at
        for browser in browsers
        for mindmap_id, at in last.items()
    )
    return missed + sum(
        browser.fetched.get(mindmap_id) != encode(maps.read(mindmap_id))
        for browser in browsers[:FETCHING]
        for mindmap_id in last
    )


def _latency(what: str, writes: list[Written], browsers: list[Browser], debounce: float) -> Row:
    """From the end of a write to the first event after it, over all browsers."""
    waits = []
    for browser in browsers:
        moments = {mindmap_id: iter(told) for mindmap_id, told in browser.told.items()}
        heard = dict.fromkeys(moments, 0.0)
        for write in writes:
            while heard[write.mindmap_id] < write.at:
                heard[write.mindmap_id] = next(moments[write.mindmap_id], float("inf"))
            waits.append(heard[write.mindmap_id] - write.at)
    p95 = statistics.quantiles(waits, n=20)[-1]
    detail = (
        f"median {statistics.median(waits):.3f} s, of which the debounce {QUIET_SECONDS:g}-{debounce:g} s"
    )
    return Row("made", what, p95, debounce + SEEN_SECONDS, detail)


async def fetched(port: int, mindmap_id: str) -> bytes:
    """A map as the viewer sends it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"GET /api/mindmaps/{mindmap_id} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode())
    said = await reader.read()
    writer.close()
    return said.partition(b"\r\n\r\n")[2]


def _map(nodes: int) -> Mindmap:
    document = new_map("Measured", None, now())
    for number in range(nodes // 100):
        batch = [
            NewNode(f"Part {number}", "plan"),
            *(NewNode(f"Step {n} of {number}", parent=0) for n in range(99)),
        ]
        document = add_nodes(document, ROOT, batch, now()).document
    return document


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long to write for")
    given = parser.parse_args()
    with workspace() as place:
        show_rows(measure(place, given.seconds))
