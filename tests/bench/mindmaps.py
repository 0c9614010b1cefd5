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
from mindmap.nodes import NewNode, NodeUpdate, add_nodes, create_mindmap, update_nodes
from serve.repositories import open_git
from tests.bench.programs import PROJECT
from tests.bench.report import Row, create_temporary_directory, print_rows
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
        next_number = 0
        while next_number < WRITES:
            command = (*self._command, str(next_number), str(WRITES))
            self._process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True)
            assert self._process.stdout is not None
            for line in self._process.stdout:
                self.acknowledged.append(f"{self.name}-{line.strip()}")
                next_number = int(line) + 1
            self._process.wait()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()


def measure(folder: Path) -> Sequence[Row]:
    """Return all rows."""
    return [*_measure_concurrent_writers(folder), _measure_single_writes(folder), _measure_git_sync(folder)]


def _measure_concurrent_writers(folder: Path) -> Sequence[Row]:
    store, document = MapStore(folder / "company"), create_mindmap("Company", None, utc_now())
    store.create(document)
    writers = [Writer(store, document.id, f"w{number}") for number in range(WRITERS)]
    readers = [_start_reader(store, document.id) for _ in range(READERS)]
    start_time = time.perf_counter()
    for writer in writers:
        writer.start()
    kills = _kill_repeatedly(writers)
    elapsed = time.perf_counter() - start_time
    reads = [reader.communicate("end\n", timeout=60)[0].strip() for reader in readers]
    labels = [node.label for node in store.read(document.id).nodes.values()]
    acknowledged = [label for writer in writers for label in writer.acknowledged]
    lost = set(acknowledged) - set(labels)
    rate = f"{elapsed:.0f} s, {len(acknowledged) / elapsed:.0f} writes/s"
    detail = f"{len(acknowledged):,} acknowledged, {kills} processes killed, {rate}"
    failed_readers = sum(reader.returncode != 0 for reader in readers)
    return [
        Row(
            "synthetic",
            f"{WRITERS} x {WRITES} writes with kill -9: acknowledged and missing",
            len(lost),
            0,
            detail,
        ),
        Row(
            "synthetic",
            "readers that saw a partial or an older map",
            failed_readers,
            0,
            f"{' and '.join(reads)} reads",
        ),
    ]


def _start_reader(store: MapStore, mindmap_id: str) -> subprocess.Popen[str]:
    command = (sys.executable, "-c", READER, str(store.path), mindmap_id)
    return subprocess.Popen(command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _kill_repeatedly(writers: Sequence[Writer]) -> int:
    generator = random.Random(SEED)  # noqa: S311 - repeatable choice, nothing secret
    kills = 0
    while alive := [writer for writer in writers if writer.is_alive()]:
        writer = generator.choice(alive)
        writer.join(KILL_EVERY_SECONDS)
        if writer.is_alive():
            writer.kill()
            kills += 1
    return kills


def _create_edit(update: NodeUpdate) -> Callable[[Mindmap], EditResult]:
    return lambda document: update_nodes(document, [update], utc_now())


def _measure_single_writes(folder: Path) -> Row:
    store, document = MapStore(folder / "large"), create_mindmap("Large", "/workspace", utc_now())
    for number in range(NODES // 100):
        batch = [
            NewNode(f"Part {number}", "plan"),
            *(NewNode(f"Step {n} of {number}", parent=0) for n in range(99)),
        ]
        document = add_nodes(document, ROOT, batch, utc_now()).document
    touched_ids = list(document.nodes)[1::2]
    for number, node_id in enumerate(touched_ids):
        document = attach_files(
            document, node_id, [TouchInput(f"src/part/{number}.py", summary="Done")], "Touched", utc_now()
        )
    store.create(document)
    generator = random.Random(SEED)  # noqa: S311 - repeatable choice, nothing secret
    times = []
    cpu_start = time.process_time()
    for _ in range(SAMPLES):
        update = NodeUpdate(
            generator.choice(touched_ids), status=generator.choice(("in_progress", "completed"))
        )
        start_time = time.perf_counter()
        store.change(document.id, _create_edit(update))
        times.append(time.perf_counter() - start_time)
    cpu_seconds = (time.process_time() - cpu_start) / SAMPLES
    size = len(encode(document)) / 1e6
    median_ms = statistics.median(times) * 1000
    detail = f"median {median_ms:.0f} ms, {cpu_seconds * 1000:.0f} ms of it processor time, {size:.1f} MB"
    p95 = statistics.quantiles(times, n=20)[-1]
    return Row("synthetic", f"one write on {NODES:,} nodes, p95, seconds", p95, MAX_WRITE_SECONDS, detail)


def _measure_git_sync(folder: Path) -> Row:
    repo = Repo.create(folder / "repo")
    for number in range(FILES // 2):
        repo.write(f"src/{number % 97}/{number}.py", f"line {number}\n" * 20)
    repo.commit("Begin")
    for number in range(FILES // 2):
        repo.write(f"src/{number % 97}/{number}.py", f"line {number}\n" * 21)
        repo.write(f"new/{number % 97}/{number}.py", f"line {number}\n" * 20)
    store, document = MapStore(folder / "synced"), create_mindmap("Synced", str(repo.path), utc_now())
    store.create(document)
    times = []
    for _ in range(ROUNDS):
        start_time = time.perf_counter()
        synced = WorkspaceSync(store, document.id, open_git).attach_changes()
        times.append(time.perf_counter() - start_time)
    detail = f"{synced.file_count:,} files, half of them new; {min(times):.2f}-{max(times):.2f} s"
    return Row(
        "synthetic",
        f"git sync on {FILES:,} changed files, seconds",
        statistics.median(times),
        MAX_SYNC_SECONDS,
        detail,
    )


if __name__ == "__main__":
    with create_temporary_directory() as temporary_folder:
        print_rows(measure(temporary_folder))
