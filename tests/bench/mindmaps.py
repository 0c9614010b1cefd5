"""Maps under load: is every write there that was told of, how long does one take, how long does git sync?

python -m tests.bench.mindmaps

Eight processes make two hundred writes each on one map while two others read it; every second one of the eight is
killed with -9, and another goes on where it was. A write is told of by the line its process prints after it.
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

from mindmap.document import ROOT, Edited, Mindmap, encode, now
from mindmap.file_touches import Touch, attach
from mindmap.git_sync import Syncing
from mindmap.map_store import Maps
from mindmap.nodes import NewNode, NodeUpdate, add_nodes, new_map, update_nodes
from serve.workspace_git import git_of
from tests.bench.programs import PROJECT
from tests.bench.report import Row, show_rows, workspace
from tests.repos import Repo

WRITERS: Final = 8
WRITES: Final = 200
READERS: Final = 2
KILL_EVERY_SECONDS: Final = 1.0
NODES: Final = 5_000
SAMPLES: Final = 200
WRITE_SECONDS: Final = 0.050
FILES: Final = 10_000
SYNC_SECONDS: Final = 3.0
ROUNDS: Final = 5
SEED: Final = 7

WRITER: Final = """
import sys
from pathlib import Path
from mindmap.nodes import add_nodes
from mindmap.map_store import Maps
from mindmap.document import now
from mindmap.nodes import NewNode
maps, mindmap_id, name, first, last = Maps(Path(sys.argv[1])), sys.argv[2], sys.argv[3], *map(int, sys.argv[4:])
for number in range(first, last):
    maps.change(mindmap_id, lambda document: add_nodes(document, "root", [NewNode(f"{name}-{number}")], now()))
    print(number, flush=True)
"""
READER: Final = """
import sys, time
from pathlib import Path
from mindmap.document import decode
from stores.mindmap_files import Folder
folder, mindmap_id, reads, before = Folder(Path(sys.argv[1])), sys.argv[2], 0, 0
while sys.stdin not in __import__("select").select([sys.stdin], [], [], 0)[0]:
    nodes = len(decode(folder.read(mindmap_id), mindmap_id).nodes)
    assert nodes >= before, (nodes, before)
    before, reads = nodes, reads + 1
print(reads)
"""


class Writer(threading.Thread):
    """One of the eight: its processes, one after the other, and the writes they told of."""

    def __init__(self, maps: Maps, mindmap_id: str, name: str) -> None:
        super().__init__(name=name)
        self._command = (sys.executable, "-c", WRITER, str(maps.path), mindmap_id, name)
        self._process: subprocess.Popen[str] | None = None
        self.told: list[str] = []

    def run(self) -> None:
        reached = 0
        while reached < WRITES:
            command = (*self._command, str(reached), str(WRITES))
            self._process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True)
            assert self._process.stdout is not None
            for line in self._process.stdout:
                self.told.append(f"{self.name}-{line.strip()}")
                reached = int(line) + 1
            self._process.wait()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()


def measure(folder: Path) -> Sequence[Row]:
    """All rows."""
    return [*_company(folder), _one_write(folder), _git_sync(folder)]


def _company(folder: Path) -> Sequence[Row]:
    maps, document = Maps(folder / "company"), new_map("Company", None, now())
    maps.create(document)
    writers = [Writer(maps, document.id, f"w{number}") for number in range(WRITERS)]
    readers = [_reader(maps, document.id) for _ in range(READERS)]
    began = time.perf_counter()
    for writer in writers:
        writer.start()
    kills = _kill_now_and_then(writers)
    took = time.perf_counter() - began
    reads = [reader.communicate("end\n", timeout=60)[0].strip() for reader in readers]
    labels = [node.label for node in maps.read(document.id).nodes.values()]
    told = [label for writer in writers for label in writer.told]
    lost = set(told) - set(labels)
    detail = f"{len(told):,} told of, {kills} processes killed, {took:.0f} s, {len(told) / took:.0f} writes/s"
    bad = sum(reader.returncode != 0 for reader in readers)
    return [
        Row(
            "made",
            f"{WRITERS} x {WRITES} writes with kill -9: acknowledged and missing",
            len(lost),
            0,
            detail,
        ),
        Row("made", "readers that met half a map, or an older one", bad, 0, f"{' and '.join(reads)} reads"),
    ]


def _reader(maps: Maps, mindmap_id: str) -> subprocess.Popen[str]:
    command = (sys.executable, "-c", READER, str(maps.path), mindmap_id)
    return subprocess.Popen(command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _kill_now_and_then(writers: Sequence[Writer]) -> int:
    chance = random.Random(SEED)  # noqa: S311 - repeatable choice, nothing secret
    kills = 0
    while alive := [writer for writer in writers if writer.is_alive()]:
        chosen = chance.choice(alive)
        chosen.join(KILL_EVERY_SECONDS)
        if chosen.is_alive():
            chosen.kill()
            kills += 1
    return kills


def _doing(update: NodeUpdate) -> Callable[[Mindmap], Edited]:
    return lambda found: update_nodes(found, [update], now())


def _one_write(folder: Path) -> Row:
    maps, document = Maps(folder / "large"), new_map("Large", "/workspace", now())
    for number in range(NODES // 100):
        batch = [
            NewNode(f"Part {number}", "plan"),
            *(NewNode(f"Step {n} of {number}", parent=0) for n in range(99)),
        ]
        document = add_nodes(document, ROOT, batch, now()).document
    touched = list(document.nodes)[1::2]
    for number, node_id in enumerate(touched):
        document = attach(
            document, node_id, [Touch(f"src/part/{number}.py", summary="Done")], "Touched", now()
        )
    maps.create(document)
    chance = random.Random(SEED)  # noqa: S311 - repeatable choice, nothing secret
    times = []
    worked = time.process_time()
    for _ in range(SAMPLES):
        update = NodeUpdate(chance.choice(touched), status=chance.choice(("in_progress", "completed")))
        began = time.perf_counter()
        maps.change(document.id, _doing(update))
        times.append(time.perf_counter() - began)
    worked = (time.process_time() - worked) / SAMPLES
    size = len(encode(document)) / 1e6
    detail = (
        f"median {statistics.median(times) * 1000:.0f} ms, {worked * 1000:.0f} ms of it work, {size:.1f} MB"
    )
    p95 = statistics.quantiles(times, n=20)[-1]
    return Row("made", f"one write on {NODES:,} nodes, p95, seconds", p95, WRITE_SECONDS, detail)


def _git_sync(folder: Path) -> Row:
    repo = Repo.create(folder / "repo")
    for number in range(FILES // 2):
        repo.write(f"src/{number % 97}/{number}.py", f"line {number}\n" * 20)
    repo.commit("Begin")
    for number in range(FILES // 2):
        repo.write(f"src/{number % 97}/{number}.py", f"line {number}\n" * 21)
        repo.write(f"new/{number % 97}/{number}.py", f"line {number}\n" * 20)
    maps, document = Maps(folder / "synced"), new_map("Synced", str(repo.path), now())
    maps.create(document)
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        synced = Syncing(maps, document.id, git_of).attach()
        times.append(time.perf_counter() - began)
    detail = f"{synced.files:,} files, half of them new; {min(times):.2f}-{max(times):.2f} s"
    return Row(
        "made",
        f"git sync on {FILES:,} changed files, seconds",
        statistics.median(times),
        SYNC_SECONDS,
        detail,
    )


if __name__ == "__main__":
    with workspace() as place:
        show_rows(measure(place))
