"""Benchmark of mindmaps under load: acknowledged writes that are missing, time of a write, time of git sync.

python -m tests.bench.mindmaps

Eight processes make two hundred writes each on one map while two others read it; every second one of the eight is
killed with -9 and replaced by another. A write is acknowledged by the line that its process prints after it.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from mindmap.document import ROOT, EditResult, Mindmap, encode, utc_now
from mindmap.file_touches import TouchInput, attach_files
from mindmap.git_sync import WorkspaceSync
from mindmap.map_store import MapStore
from mindmap.nodes import NewNode, NodeUpdate, add_nodes, new_map, update_nodes
from serve.workspace_git import open_git
from tests.bench.programs import PROJECT
from tests.bench.report import Row, print_rows, temporary_directory
from tests.repos import Repo

WRITERS: Final = 8
WRITES: Final = 200
READERS: Final = 2
KILL_EVERY_SECONDS: Final = 1.0
NODES: Final = 5_000
SAMPLES: Final = 200
MAX_WRITE_SECONDS: Final = 0.050
FILES: Final = 10_000
MAX_SYNC_SECONDS: Final = 3.0
ROUNDS: Final = 5
SEED: Final = 7

WRITER: Final = """
import sys
from pathlib import Path
from mindmap.nodes import add_nodes
from mindmap.map_store import MapStore
from mindmap.document import utc_now
from mindmap.nodes import NewNode
store, mindmap_id, name, first, last = MapStore(Path(sys.argv[1])), sys.argv[2], sys.argv[3], *map(int, sys.argv[4:])
for number in range(first, last):
    store.change(mindmap_id, lambda document: add_nodes(document, "root", [NewNode(f"{name}-{number}")], utc_now()))
    print(number, flush=True)
"""
READER: Final = """
import sys, time
from pathlib import Path
from mindmap.document import decode
from stores.mindmap_files import MindmapDirectory
directory, mindmap_id, reads, before = MindmapDirectory(Path(sys.argv[1])), sys.argv[2], 0, 0
while sys.stdin not in __import__("select").select([sys.stdin], [], [], 0)[0]:
    nodes = len(decode(directory.read(mindmap_id), mindmap_id).nodes)
    assert nodes >= before, (nodes, before)
    before, reads = nodes, reads + 1
print(reads)
"""


class Writer(threading.Thread):
    """One of eight writers: its consecutive processes and the writes they acknowledged."""

    def __init__(self, maps: MapStore, mindmap_id: str, name: str) -> None:
        super().__init__(name=name)
        self._command = (sys.executable, "-c", WRITER, str(maps.path), mindmap_id, name)
        self._process: subprocess.Popen[str] | None = None
        self.acknowledged: list[str] = []

    def run(self) -> None:
        reached = 0
        while reached < WRITES:
            command = (*self._command, str(reached), str(WRITES))
            self._process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True)
            assert self._process.stdout is not None
            for line in self._process.stdout:
                self.acknowledged.append(f"{self.name}-{line.strip()}")
                reached = int(line) + 1
            self._process.wait()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()


def measure(folder: Path) -> Sequence[Row]:
    """Return all rows."""
    return [*_concurrent_writer_rows(folder), _single_write_row(folder), _git_sync_row(folder)]


def _concurrent_writer_rows(folder: Path) -> Sequence[Row]:
    store, document = MapStore(folder / "company"), new_map("Company", None, utc_now())
    store.create(document)
    writers = [Writer(store, document.id, f"w{number}") for number in range(WRITERS)]
    readers = [_start_reader(store, document.id) for _ in range(READERS)]
    started = time.perf_counter()
    for writer in writers:
        writer.start()
    kills = _kill_repeatedly(writers)
    elapsed = time.perf_counter() - started
    reads = [reader.communicate("end\n", timeout=60)[0].strip() for reader in readers]
    labels = [node.label for node in store.read(document.id).nodes.values()]
    acknowledged = [label for writer in writers for label in writer.acknowledged]
    lost = set(acknowledged) - set(labels)
    rate = f"{elapsed:.0f} s, {len(acknowledged) / elapsed:.0f} writes/s"
    detail = f"{len(acknowledged):,} acknowledged, {kills} processes killed, {rate}"
    bad = sum(reader.returncode != 0 for reader in readers)
    return [
        Row(
            "made",
            f"{WRITERS} x {WRITES} writes with kill -9: acknowledged and missing",
            len(lost),
            0,
            detail,
        ),
        Row("made", "readers that saw a partial or an older map", bad, 0, f"{' and '.join(reads)} reads"),
    ]


def _start_reader(store: MapStore, mindmap_id: str) -> subprocess.Popen[str]:
    command = (sys.executable, "-c", READER, str(store.path), mindmap_id)
    return subprocess.Popen(command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _kill_repeatedly(writers: Sequence[Writer]) -> int:
    generator = random.Random(SEED)  # noqa: S311 - repeatable choice, nothing secret
    kills = 0
    while alive := [writer for writer in writers if writer.is_alive()]:
        chosen = generator.choice(alive)
        chosen.join(KILL_EVERY_SECONDS)
        if chosen.is_alive():
            chosen.kill()
            kills += 1
    return kills


def _edit_function(update: NodeUpdate) -> Callable[[Mindmap], EditResult]:
    return lambda found: update_nodes(found, [update], utc_now())


def _single_write_row(folder: Path) -> Row:
    store, document = MapStore(folder / "large"), new_map("Large", "/workspace", utc_now())
    for number in range(NODES // 100):
        batch = [
            NewNode(f"Part {number}", "plan"),
            *(NewNode(f"Step {n} of {number}", parent=0) for n in range(99)),
        ]
        document = add_nodes(document, ROOT, batch, utc_now()).document
    touched = list(document.nodes)[1::2]
    for number, node_id in enumerate(touched):
        document = attach_files(
            document, node_id, [TouchInput(f"src/part/{number}.py", summary="Done")], "Touched", utc_now()
        )
    store.create(document)
    generator = random.Random(SEED)  # noqa: S311 - repeatable choice, nothing secret
    times = []
    cpu_seconds = time.process_time()
    for _ in range(SAMPLES):
        update = NodeUpdate(generator.choice(touched), status=generator.choice(("in_progress", "completed")))
        started = time.perf_counter()
        store.change(document.id, _edit_function(update))
        times.append(time.perf_counter() - started)
    cpu_seconds = (time.process_time() - cpu_seconds) / SAMPLES
    size = len(encode(document)) / 1e6
    detail = f"median {statistics.median(times) * 1000:.0f} ms, {cpu_seconds * 1000:.0f} ms of it work, {size:.1f} MB"
    p95 = statistics.quantiles(times, n=20)[-1]
    return Row("made", f"one write on {NODES:,} nodes, p95, seconds", p95, MAX_WRITE_SECONDS, detail)


def _git_sync_row(folder: Path) -> Row:
    repo = Repo.create(folder / "repo")
    for number in range(FILES // 2):
        repo.write(f"src/{number % 97}/{number}.py", f"line {number}\n" * 20)
    repo.commit("Begin")
    for number in range(FILES // 2):
        repo.write(f"src/{number % 97}/{number}.py", f"line {number}\n" * 21)
        repo.write(f"new/{number % 97}/{number}.py", f"line {number}\n" * 20)
    store, document = MapStore(folder / "synced"), new_map("Synced", str(repo.path), utc_now())
    store.create(document)
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        synced = WorkspaceSync(store, document.id, open_git).attach_changes()
        times.append(time.perf_counter() - started)
    detail = f"{synced.file_count:,} files, half of them new; {min(times):.2f}-{max(times):.2f} s"
    return Row(
        "made",
        f"git sync on {FILES:,} changed files, seconds",
        statistics.median(times),
        MAX_SYNC_SECONDS,
        detail,
    )


if __name__ == "__main__":
    with temporary_directory() as place:
        print_rows(measure(place))
