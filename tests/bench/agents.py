"""Agents at work: what their server takes, ten of them at once, eight asking while the history grows.

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

from serve.daemon.client import Remote
from serve.daemon.process import Address
from tests.bench.everyday import QUESTION
from tests.bench.histories import History, cut
from tests.bench.programs import LINEAGE, PROJECT, git, lineage, surroundings
from tests.bench.report import Asked, Row, main, median, seconds
from tests.repos import Repo

SERVER_BYTES: Final = 90_000_000
LIST_SECONDS: Final = 2.0
AT_ONCE: Final = 10
CLIENTS: Final = 8
STORM_SECONDS: Final = 60.0
COMMITS: Final = 20
# The last hook's run may have been waiting for the whole of a forced one.
SETTLED_SECONDS: Final = 300.0
SEED: Final = 5


def measure(clone: Path, folder: Path, asked: Asked) -> Sequence[Row]:
    history = cut(clone, folder / "clone", asked.commits)
    home = folder / "home"
    lineage(home, "index", history.path, "--no-progress")
    try:
        return [
            *_at_once(history, home),
            *anyio.run(_server, history, home, asked.runs),
            *_storm(history, home),
        ]
    finally:
        Remote(Address(home)).stop()


def _at_once(history: History, home: Path) -> list[Row]:
    """Ten questions at the same instant, before there is a daemon."""
    command = (*LINEAGE, "query", str(history.path), "--query", QUESTION)
    began = time.perf_counter()
    asking = [
        subprocess.Popen(command, cwd=PROJECT, env=_shared(home), stdout=subprocess.PIPE)
        for _ in range(AT_ONCE)
    ]
    answers = [client.communicate()[0] for client in asking]
    took = time.perf_counter() - began
    wrong = sum(client.returncode != 0 for client in asking) + len(set(answers)) - 1
    daemons = Address(home).log.read_text(encoding="utf-8").count("event=listening")
    hits = len(json.loads(answers[0])["hits"])
    return [
        Row(history.name, f"{AT_ONCE} clients at once: daemons", daemons, 1, f"{took:.1f} s for all"),
        Row(history.name, f"{AT_ONCE} clients at once: other answers", wrong, 0, f"{hits} hits each"),
    ]


async def _server(history: History, home: Path, runs: int) -> list[Row]:
    """The MCP server beside a running daemon: its memory, and how soon it lists its tools."""
    took, sizes = [], []
    for _ in range(runs):
        began = time.perf_counter()
        async with _client(history, home) as client:
            await client.list_tools()
            took.append(time.perf_counter() - began)
            await client.call_tool("find_pattern", {"query": QUESTION})
            await client.call_tool("explain_change", {"file": _file(history)})
            sizes.append(_resident_bytes())
    return [
        Row(history.name, "MCP server: resident bytes", max(sizes), SERVER_BYTES, f"largest of {runs}"),
        Row(
            history.name,
            "MCP server: seconds to the first tools/list",
            median(took),
            LIST_SECONDS,
            seconds(took),
        ),
    ]


@dataclass(slots=True)
class Storm:
    """What happened while it lasted: `answers` by tool, and every error."""

    answers: int = 0
    empty: int = 0
    errors: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


def _storm(history: History, home: Path) -> list[Row]:
    """Eight clients ask while `index --force` runs and commits come in, each followed by its hook."""
    lineage(home, "init", history.path)
    storm = Storm()
    made = anyio.run(_stormed, history, home, storm)
    behind = _settled(history, home)
    words = {sha: word for sha, word in made.items() if not _found(history, home, sha, word)}
    detail = f"{storm.answers} answers, each {seconds(storm.seconds)}; {storm.errors[:1]}"
    return [
        Row(
            history.name, f"{CLIENTS} clients for {STORM_SECONDS:.0f} s: errors", len(storm.errors), 0, detail
        ),
        Row(history.name, "commits behind HEAD after the last hook", behind, 0, f"{COMMITS} commits"),
        Row(history.name, "commits not found afterwards", len(words), 0, ", ".join(words)),
    ]


async def _stormed(history: History, home: Path, storm: Storm) -> dict[str, str]:
    made: dict[str, str] = {}
    ends = time.monotonic() + STORM_SECONDS
    async with anyio.create_task_group() as tasks:
        for number in range(CLIENTS):
            tasks.start_soon(_asking, history, home, storm, ends, number)
        tasks.start_soon(_forced, history, home, storm)
        for number in range(COMMITS):
            await anyio.sleep(STORM_SECONDS / (COMMITS + 2))
            sha, word = await anyio.to_thread.run_sync(_commit, history, home, number)
            made[sha] = word
    return made


async def _asking(history: History, home: Path, storm: Storm, ends: float, number: int) -> None:
    chance = random.Random(SEED + number)  # noqa: S311 - repeatable questions
    file = _file(history)
    async with _client(history, home) as client:
        while time.monotonic() < ends:
            asked = [
                ("find_pattern", {"query": f"{QUESTION} {chance.randrange(1000)}"}),
                ("explain_change", {"file": file}),
            ]
            tool, arguments = chance.choice(asked)
            began = time.perf_counter()
            await _counted(storm, partial(client.call_tool, tool, arguments))
            storm.seconds.append(time.perf_counter() - began)


async def _counted(storm: Storm, call: Callable[[], Awaitable[Any]]) -> None:
    try:
        result = await call()
    except Exception as error:
        storm.errors.append(repr(error))
        return
    if result.is_error:
        storm.errors.append(result.content[0].text)
    elif not result.structured_content["hits"]:
        storm.errors.append("no hits")
    storm.answers += 1


async def _forced(history: History, home: Path, storm: Storm) -> None:
    command = [*LINEAGE, "index", str(history.path), "--force", "--no-progress"]
    done = await anyio.run_process(command, cwd=PROJECT, env=_shared(home), check=False)
    if done.returncode:
        storm.errors.append(done.stderr.decode())


def _commit(history: History, home: Path, number: int) -> tuple[str, str]:
    """One more commit, made by git with its hooks; a word in it is in no other."""
    word = f"zyx{number}qwv"
    repo = Repo(history.path)
    repo.write(f"stormy{number}.py", f"def {word}():\n    return {number}\n")
    git(history.path, "add", "-A")
    command = ["git", "-C", str(history.path), "commit", "--quiet", "-m", f"Add the function {word}"]
    subprocess.run(command, env=_shared(home), check=True, capture_output=True)
    return git(history.path, "rev-parse", "HEAD"), word


def _settled(history: History, home: Path) -> int:
    """Commits behind HEAD once nothing runs any more, or time is up."""
    deadline = time.monotonic() + SETTLED_SECONDS
    while True:
        status = lineage(home, "status", history.path, memory=False).out
        behind = int(status.split("commits_behind_head: ")[1].split()[0])
        if not behind or time.monotonic() > deadline:
            return behind
        time.sleep(0.5)


def _found(history: History, home: Path, sha: str, word: str) -> bool:
    out = lineage(home, "query", history.path, "--query", f"the function {word}", memory=False).out
    return sha in {hit["commit_sha"] for hit in json.loads(out)["hits"]}


def _client(history: History, home: Path) -> AbstractAsyncContextManager[Client]:
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "serve.mcp.lineage_server"], cwd=history.path, env=_shared(home)
    )
    return Client(stdio_client(command))


def _shared(home: Path) -> dict[str, str]:
    """Surroundings in which the daemon answers, and a hook finds `lineage`."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return surroundings(home, daemon=True) | {"PATH": path}


def _file(history: History) -> str:
    return git(history.path, "ls-files", "*.py", "*.rs", "*.js", "*.java").split("\n")[0]


def _resident_bytes() -> int:
    """Memory of the newest MCP server among this process's children."""
    listed = subprocess.run(["ps", "-axo", "ppid=,rss=,args="], capture_output=True, text=True, check=True)
    rows = [line.split(None, 2) for line in listed.stdout.splitlines()]
    own = [row for row in rows if int(row[0]) == os.getpid() and "serve.mcp.lineage_server" in row[2]]
    return max(int(row[1]) for row in own) * 1024


if __name__ == "__main__":
    main(measure, __doc__ or "")
