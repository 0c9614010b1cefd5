"""Benchmark of the viewer under load: missed states, latency of events, and memory.

python -m tests.bench.viewer [--seconds 60]

Two hundred browsers listen while twenty writes a second go to eight maps, one of them large. A few of them
fetch each map that an event names, as the page does. A browser misses a final state when there is no event after
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

from mindmap.document import ROOT, Mindmap, encode, utc_now
from mindmap.map_store import MapStore
from mindmap.nodes import NewNode, add_nodes, add_note, create_mindmap
from serve.viewer.watcher import MAX_DELAY_SECONDS, QUIET_SECONDS
from tests.bench.memory import PeakMemory
from tests.bench.programs import PROJECT, build_program_environment
from tests.bench.report import Row, create_temporary_directory, print_rows

BROWSERS: Final = 200
FETCHING_BROWSERS: Final = 5
MAPS: Final = 8
NODES: Final = 5_000
WRITES_PER_SECOND: Final = 20
SECONDS: Final = 60.0
SINGLE_WRITES: Final = 15
# Upper bound of the time from a write to its event, beyond the debounce.
MAX_EVENT_SECONDS: Final = 0.3
MEMORY_MEGABYTES: Final = 150
# Wait for the last events.
SETTLE_SECONDS: Final = 3.0


@dataclass(slots=True)
class Browser:
    """Client of the event stream; `event_times` holds the times of the events of each map."""

    port: int
    fetches: bool
    event_times: dict[str, list[float]] = field(default_factory=dict)
    fetched: dict[str, bytes] = field(default_factory=dict)
    connected: asyncio.Event = field(default_factory=asyncio.Event)
    _queue: asyncio.Queue[str] = field(default_factory=asyncio.Queue)

    async def listen(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(f"GET /events HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n\r\n".encode())
        fetching = asyncio.create_task(self._fetch_repeatedly()) if self.fetches else None
        try:
            while line := await reader.readline():
                if line.startswith(b"data: "):
                    self._handle_event(json.loads(line.removeprefix(b"data: ")))
        finally:
            writer.close()
            if fetching:
                fetching.cancel()

    def _handle_event(self, event: dict[str, str]) -> None:
        self.connected.set()
        if "id" in event:
            self.event_times.setdefault(event["id"], []).append(time.monotonic())
            if self.fetches:
                self._queue.put_nowait(event["id"])

    async def _fetch_repeatedly(self) -> None:
        while True:
            mindmap_ids = {await self._queue.get()}
            while not self._queue.empty():
                mindmap_ids.add(self._queue.get_nowait())
            for mindmap_id in mindmap_ids:
                self.fetched[mindmap_id] = await fetch_map(self.port, mindmap_id)


@dataclass(frozen=True, slots=True)
class CompletedWrite:
    """Finished write and its time on the monotonic clock."""

    mindmap_id: str
    time: float


def measure(folder: Path, seconds: float = SECONDS) -> Sequence[Row]:
    """Return all rows."""
    store = MapStore(folder / "maps")
    documents = [create_map(0 if number else NODES) for number in range(MAPS)]
    for document in documents:
        store.create(document)
    process = subprocess.Popen(
        (sys.executable, "-m", "serve.cli.mindmap", "viewer", "--port", "0"),
        cwd=PROJECT,
        env={**build_program_environment(folder), "MINDMAP_DATA_DIR": str(store.path)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    peak = PeakMemory(process.pid)
    try:
        assert process.stdout is not None
        port = int(re.findall(r":(\d+)/", process.stdout.readline())[0])
        peak.start()
        return asyncio.run(_measure_events(store, documents, port, seconds, peak))
    finally:
        process.terminate()
        process.communicate(timeout=20)


async def _measure_events(
    store: MapStore, documents: list[Mindmap], port: int, seconds: float, peak: PeakMemory
) -> Sequence[Row]:
    browsers = [Browser(port, number < FETCHING_BROWSERS) for number in range(BROWSERS)]
    tasks = [asyncio.create_task(browser.listen()) for browser in browsers]
    await asyncio.gather(*(browser.connected.wait() for browser in browsers))
    single_writes = await _write_notes(store, documents[1:2], SINGLE_WRITES, 1.2)
    concurrent_writes = await _write_notes(
        store, documents, int(seconds * WRITES_PER_SECOND), 1 / WRITES_PER_SECOND
    )
    await asyncio.sleep(SETTLE_SECONDS)
    peak.stop()
    missed = _count_missed(store, browsers, concurrent_writes)
    for task in tasks:
        task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks)
    elapsed = concurrent_writes[-1].time - concurrent_writes[0].time
    events = sum(len(times) for browser in browsers for times in browser.event_times.values())
    detail = f"{len(concurrent_writes):,} writes in {elapsed:.0f} s, {events:,} events"
    return [
        Row("synthetic", f"{BROWSERS} browsers: final states missed", missed, 0, detail),
        Row(
            "synthetic",
            "memory of the viewer at its peak, MB",
            peak.bytes / 1e6,
            MEMORY_MEGABYTES,
            f"one of {MAPS} maps has {NODES:,} nodes",
        ),
        _create_latency_row(
            "a write to its event, alone, p95, seconds", single_writes, browsers, QUIET_SECONDS
        ),
        _create_latency_row(
            "a write to its event, with the others, p95, seconds",
            concurrent_writes,
            browsers,
            MAX_DELAY_SECONDS,
        ),
    ]


async def _write_notes(
    store: MapStore, documents: list[Mindmap], count: int, pause: float
) -> list[CompletedWrite]:
    """Write `count` notes to the maps in turn, at fixed times."""
    completed, start_time = [], time.monotonic()
    for number in range(count):
        await asyncio.sleep(max(0.0, start_time + number * pause - time.monotonic()))
        mindmap_id = documents[number % len(documents)].id
        await asyncio.to_thread(
            store.change,
            mindmap_id,
            lambda document, number=number: add_note(document, f"Write {number}", utc_now()),
        )
        completed.append(CompletedWrite(mindmap_id, time.monotonic()))
    await asyncio.sleep(1)
    return completed


def _count_missed(store: MapStore, browsers: list[Browser], writes: list[CompletedWrite]) -> int:
    last_writes = {write.mindmap_id: write.time for write in writes}
    missed = sum(
        browser.event_times.get(mindmap_id, [0.0])[-1] < write_time
        for browser in browsers
        for mindmap_id, write_time in last_writes.items()
    )
    return missed + sum(
        browser.fetched.get(mindmap_id) != encode(store.read(mindmap_id))
        for browser in browsers[:FETCHING_BROWSERS]
        for mindmap_id in last_writes
    )


def _create_latency_row(
    measure: str, writes: list[CompletedWrite], browsers: list[Browser], debounce: float
) -> Row:
    """Return the row of the time from a write to the next event, over all browsers."""
    waits = []
    for browser in browsers:
        event_times = {mindmap_id: iter(times) for mindmap_id, times in browser.event_times.items()}
        last_event = dict.fromkeys(event_times, 0.0)
        for write in writes:
            while last_event[write.mindmap_id] < write.time:
                last_event[write.mindmap_id] = next(event_times[write.mindmap_id], float("inf"))
            waits.append(last_event[write.mindmap_id] - write.time)
    p95 = statistics.quantiles(waits, n=20)[-1]
    detail = (
        f"median {statistics.median(waits):.3f} s, of which the debounce {QUIET_SECONDS:g}-{debounce:g} s"
    )
    return Row("synthetic", measure, p95, debounce + MAX_EVENT_SECONDS, detail)


async def fetch_map(port: int, mindmap_id: str) -> bytes:
    """Return a map as the viewer sends it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"GET /api/mindmaps/{mindmap_id} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode())
    response = await reader.read()
    writer.close()
    return response.partition(b"\r\n\r\n")[2]


def create_map(nodes: int) -> Mindmap:
    document = create_mindmap("Measured", None, utc_now())
    for number in range(nodes // 100):
        batch = [
            NewNode(f"Part {number}", "plan"),
            *(NewNode(f"Step {n} of {number}", parent=0) for n in range(99)),
        ]
        document = add_nodes(document, ROOT, batch, utc_now()).document
    return document


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long to write for")
    arguments = parser.parse_args()
    with create_temporary_directory() as temporary_folder:
        print_rows(measure(temporary_folder, arguments.seconds))
