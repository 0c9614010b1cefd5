"""Benchmark of MCP servers: start, memory, many calls at once, cancelled calls, and clients while commits arrive.

python -m tests.bench.agents CLONE...
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from serve.daemon.client import DaemonClient
from serve.daemon.process import DaemonPaths
from tests.bench.everyday import QUERY
from tests.bench.histories import History, clone_history
from tests.bench.programs import LINEAGE, PROJECT, build_program_environment, run_git, run_lineage
from tests.bench.report import BenchmarkOptions, Row, compute_median, format_seconds, main
from tests.repos import Repo

# Goals for the memory of a session, and for the time from the start of a server to the answer to `initialize`.
MAX_SESSION_BYTES: Final = 30_000_000
MAX_INITIALIZE_SECONDS: Final = 0.3
MAX_COLD_INITIALIZE_SECONDS: Final = 1.2
# Clients end a call after 30 to 60 s.
SIMULTANEOUS_CALLS: Final = 50
MAX_SIMULTANEOUS_SECONDS: Final = 30.0
CANCELLED_CALLS: Final = 20
# Time of a call after these; a call alone takes a third of a second.
MAX_SECONDS_AFTER_CANCELLED: Final = 1.0
SIMULTANEOUS_CLIENTS: Final = 10
CLIENTS: Final = 8
LOAD_SECONDS: Final = 60.0
COMMITS: Final = 20
# The index run of the last hook may have to wait for a whole forced run.
MAX_CATCH_UP_SECONDS: Final = 300.0
SEED: Final = 5


def measure(clone: Path, folder: Path, options: BenchmarkOptions) -> Sequence[Row]:
    history = clone_history(clone, folder / "clone", options.commits)
    home = folder / "home"
    run_lineage(home, "index", history.path, "--no-progress")
    try:
        return [
            *_measure_simultaneous_start(history, home),
            *_measure_start(history, home, options.runs),
            *anyio.run(_measure_many_calls, history, home),
            *_measure_load(history, home),
        ]
    finally:
        DaemonClient(DaemonPaths(home)).stop()


def _measure_simultaneous_start(history: History, home: Path) -> list[Row]:
    """Start ten queries at the same time, before there is a daemon."""
    command = (*LINEAGE, "query", str(history.path), "--query", QUERY)
    start_time = time.perf_counter()
    clients = [
        subprocess.Popen(command, cwd=PROJECT, env=_build_daemon_environment(home), stdout=subprocess.PIPE)
        for _ in range(SIMULTANEOUS_CLIENTS)
    ]
    answers = [client.communicate()[0] for client in clients]
    elapsed = time.perf_counter() - start_time
    failed_count = sum(client.returncode != 0 for client in clients) + len(set(answers)) - 1
    daemons = DaemonPaths(home).log.read_text(encoding="utf-8").count("event=listening")
    hits = len(json.loads(answers[0])["hits"])
    return [
        Row(
            history.name,
            f"{SIMULTANEOUS_CLIENTS} clients at once: daemons",
            daemons,
            1,
            f"{elapsed:.1f} s for all",
        ),
        Row(
            history.name,
            f"{SIMULTANEOUS_CLIENTS} clients at once: failed or different answers",
            failed_count,
            0,
            f"{hits} hits each",
        ),
    ]


def _measure_start(history: History, home: Path, runs: int) -> list[Row]:
    """Measure the start of `lineage-mcp` without and with a daemon, and the memory of its process after calls."""
    daemon = DaemonClient(DaemonPaths(home))
    cold_seconds = []
    for _ in range(runs):
        daemon.stop()
        cold_seconds.append(anyio.run(_connect_once, history, home)[0])
    sessions = [anyio.run(_connect_once, history, home) for _ in range(runs)]
    warm_seconds = [seconds for seconds, _ in sessions]
    mindmap_seconds = [anyio.run(_connect_to_mindmap, history, home) for _ in range(runs)]
    return [
        Row(
            history.name,
            "lineage-mcp: seconds to initialize, daemon running",
            compute_median(warm_seconds),
            MAX_INITIALIZE_SECONDS,
            format_seconds(warm_seconds),
        ),
        Row(
            history.name,
            "mindmap mcp: seconds to initialize, daemon running",
            compute_median(mindmap_seconds),
            MAX_INITIALIZE_SECONDS,
            format_seconds(mindmap_seconds),
        ),
        Row(
            history.name,
            "lineage-mcp: seconds to initialize, nothing running",
            compute_median(cold_seconds),
            MAX_COLD_INITIALIZE_SECONDS,
            format_seconds(cold_seconds),
        ),
        Row(
            history.name,
            "lineage-mcp: bytes of a session's process",
            max(size for _, size in sessions),
            MAX_SESSION_BYTES,
            f"largest of {runs}, proportional set size where the system has it",
        ),
    ]


async def _connect_once(history: History, home: Path) -> tuple[float, int]:
    """Return the seconds from the start of the server to the end of the handshake, and its memory after two calls."""
    start_time = time.perf_counter()
    async with _connect(history, home) as client:
        seconds = time.perf_counter() - start_time
        await client.call_tool("find_pattern", {"query": QUERY})
        await client.call_tool("explain_change", {"file": _find_source_file(history)})
        return seconds, _measure_server_memory()


async def _connect_to_mindmap(history: History, home: Path) -> float:
    """Return the seconds from the start of `mindmap mcp` to the end of the handshake."""
    command = StdioServerParameters(
        command=sys.executable,
        args=["-c", "from serve.mcp.relay import serve_mindmap; serve_mindmap()"],
        cwd=history.path,
        env=_build_daemon_environment(home),
    )
    start_time = time.perf_counter()
    async with Client(stdio_client(command)):
        return time.perf_counter() - start_time


async def _measure_many_calls(history: History, home: Path) -> list[Row]:
    """Measure one call, many at once, and a call after many that were cancelled."""
    seconds: list[float] = []
    async with _connect(history, home) as client:

        async def call(number: int) -> float:
            start_time = time.perf_counter()
            await client.call_tool("find_pattern", {"query": f"{QUERY} {number}"})
            seconds.append(time.perf_counter() - start_time)
            return seconds[-1]

        alone = [await call(number) for number in range(3, 8)]
        seconds.clear()
        async with anyio.create_task_group() as tasks:
            for number in range(SIMULTANEOUS_CALLS):
                tasks.start_soon(call, number)
        all_seconds = list(seconds)
        async with anyio.create_task_group() as tasks:
            for number in range(CANCELLED_CALLS):
                tasks.start_soon(call, number)
            await anyio.sleep(max(alone))
            tasks.cancel_scope.cancel()
        after_cancelled = await call(0)
    return [
        Row(
            history.name,
            f"{SIMULTANEOUS_CALLS} find calls at once: seconds to the last answer",
            max(all_seconds),
            MAX_SIMULTANEOUS_SECONDS,
            f"alone {format_seconds(alone)}; at once {format_seconds(all_seconds)}",
        ),
        Row(
            history.name,
            f"find call after {CANCELLED_CALLS} cancelled ones: seconds",
            after_cancelled,
            MAX_SECONDS_AFTER_CANCELLED,
            f"alone {format_seconds(alone)}",
        ),
    ]


@dataclass(slots=True)
class LoadResult:
    """Number of answers, errors, and seconds of each call under load."""

    answers: int = 0
    errors: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


def _measure_load(history: History, home: Path) -> list[Row]:
    """Query from eight clients while `index --force` runs and commits with hooks arrive."""
    run_lineage(home, "init", history.path)
    result = LoadResult()
    words_by_commit = anyio.run(_run_load, history, home, result)
    commits_behind = _wait_for_hooks(history, home)
    missing = {sha: word for sha, word in words_by_commit.items() if not _is_found(history, home, sha, word)}
    detail = f"{result.answers} answers, each {format_seconds(result.seconds)}; {result.errors[:1]}"
    return [
        Row(
            history.name, f"{CLIENTS} clients for {LOAD_SECONDS:.0f} s: errors", len(result.errors), 0, detail
        ),
        Row(history.name, "commits behind HEAD after the last hook", commits_behind, 0, f"{COMMITS} commits"),
        Row(history.name, "commits not found afterwards", len(missing), 0, ", ".join(missing)),
    ]


async def _run_load(history: History, home: Path, result: LoadResult) -> dict[str, str]:
    words_by_commit: dict[str, str] = {}
    deadline = time.monotonic() + LOAD_SECONDS
    async with anyio.create_task_group() as tasks:
        for number in range(CLIENTS):
            tasks.start_soon(_query_repeatedly, history, home, result, deadline, number)
        tasks.start_soon(_run_forced_index, history, home, result)
        for number in range(COMMITS):
            await anyio.sleep(LOAD_SECONDS / (COMMITS + 2))
            sha, word = await anyio.to_thread.run_sync(_commit, history, home, number)
            words_by_commit[sha] = word
    return words_by_commit


async def _query_repeatedly(
    history: History, home: Path, result: LoadResult, deadline: float, number: int
) -> None:
    generator = random.Random(SEED + number)  # noqa: S311 - repeatable questions
    file = _find_source_file(history)
    async with _connect(history, home) as client:
        while time.monotonic() < deadline:
            calls = [
                ("find_pattern", {"query": f"{QUERY} {generator.randrange(1000)}"}),
                ("explain_change", {"file": file}),
            ]
            tool, arguments = generator.choice(calls)
            start_time = time.perf_counter()
            await _record_call(result, partial(client.call_tool, tool, arguments))
            result.seconds.append(time.perf_counter() - start_time)


async def _record_call(load: LoadResult, call: Callable[[], Awaitable[Any]]) -> None:
    try:
        result = await call()
    except Exception as error:
        load.errors.append(repr(error))
        return
    if result.is_error:
        load.errors.append(result.content[0].text)
    elif not result.structured_content["hits"]:
        load.errors.append("no hits")
    load.answers += 1


async def _run_forced_index(history: History, home: Path, result: LoadResult) -> None:
    command = [*LINEAGE, "index", str(history.path), "--force", "--no-progress"]
    process = await anyio.run_process(command, cwd=PROJECT, env=_build_daemon_environment(home), check=False)
    if process.returncode:
        result.errors.append(process.stderr.decode())


def _commit(history: History, home: Path, number: int) -> tuple[str, str]:
    """Commit with hooks; return the commit and a word that only it contains."""
    word = f"zyx{number}qwv"
    repo = Repo(history.path)
    repo.write(f"stormy{number}.py", f"def {word}():\n    return {number}\n")
    run_git(history.path, "add", "-A")
    command = ["git", "-C", str(history.path), "commit", "--quiet", "-m", f"Add the function {word}"]
    subprocess.run(command, env=_build_daemon_environment(home), check=True, capture_output=True)
    return run_git(history.path, "rev-parse", "HEAD"), word


def _wait_for_hooks(history: History, home: Path) -> int:
    """Wait until HEAD is indexed or the time is up; return the commits behind HEAD."""
    deadline = time.monotonic() + MAX_CATCH_UP_SECONDS
    while True:
        status = run_lineage(home, "status", history.path, memory=False).out
        commits_behind = int(status.split("commits_behind_head: ")[1].split()[0])
        if not commits_behind or time.monotonic() > deadline:
            return commits_behind
        time.sleep(0.5)


def _is_found(history: History, home: Path, sha: str, word: str) -> bool:
    out = run_lineage(home, "query", history.path, "--query", f"the function {word}", memory=False).out
    return sha in {hit["commit_sha"] for hit in json.loads(out)["hits"]}


def _connect(history: History, home: Path) -> AbstractAsyncContextManager[Client]:
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "serve.mcp.relay"],
        cwd=history.path,
        env=_build_daemon_environment(home),
    )
    return Client(stdio_client(command))


def _build_daemon_environment(home: Path) -> dict[str, str]:
    """Return an environment with the daemon enabled and `lineage` on PATH."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return build_program_environment(home, daemon=True) | {"PATH": path}


def _find_source_file(history: History) -> str:
    return run_git(history.path, "ls-files", "*.py", "*.rs", "*.js", "*.java").split("\n")[0]


def _measure_server_memory() -> int:
    """Return the memory of this process's MCP server: proportional set size, or resident memory without /proc."""
    listed = subprocess.run(
        ["ps", "-axo", "ppid=,pid=,rss=,args="], capture_output=True, text=True, check=True
    )
    rows = [line.split(None, 3) for line in listed.stdout.splitlines()]
    sizes = {
        pid: int(size)
        for ppid, pid, size, args in rows
        if int(ppid) == os.getpid() and "serve.mcp.relay" in args
    }
    kilobytes = [_read_proportional_size(pid) or size for pid, size in sizes.items()]
    return max(kilobytes) * 1024


def _read_proportional_size(pid: str) -> int | None:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return None
    return int(text.partition("\nPss:")[2].split()[0])


if __name__ == "__main__":
    main(measure, __doc__ or "")
