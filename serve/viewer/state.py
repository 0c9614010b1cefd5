"""What changed, for everybody to hear at their own pace.

Nobody has a queue: each map that changed is kept once, with the number of its last change, and whoever listens
remembers one number. So a browser that is slow, or slept, is told of each changed map once, however often it changed.

Work that would keep everybody else waiting: files in one set of threads, git in another, each bounded.

What the routes of one viewer share.

The lineage of a file that a map holds: the same question, answered by the same, as `lineage explain`.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Final, TypeVar

from mindmap.document import Mindmap, now
from mindmap.paths import BadPath, NoWorkspace, Paths
from mindmap.validation import bounds
from serve.api_types import ExplainAnswer, ExplainRequest
from serve.backend import Answering
from serve.viewer.documents import Documents
from serve.viewer.responses import Doors, NotTouched, Page, TooBusy, TookTooLong
from serve.viewer.watcher import Watching

# Maps that changed since the viewer began; whoever missed more than these has to look at everything.
MOST_KEPT: Final = 10_000


@dataclass(frozen=True, slots=True)
class Change:
    """The last change of a map."""

    number: int
    mindmap_id: str
    timestamp: str


class News:
    """Changes in their order; for one event loop. `epoch` tells this run's numbers from another's."""

    def __init__(self) -> None:
        self.epoch = secrets.token_hex(4)
        self.number = 0
        self.is_over = False
        self._forgotten = 0
        self._changes: dict[str, Change] = {}
        self._next: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def tell(self, mindmap_id: str) -> None:
        """A map changed."""
        self.number += 1
        self._changes.pop(mindmap_id, None)
        self._changes[mindmap_id] = Change(self.number, mindmap_id, now())
        if len(self._changes) > MOST_KEPT:
            self._forgotten = self._changes.pop(next(iter(self._changes))).number
        self._wake()

    def end(self) -> None:
        """There will be no more."""
        self.is_over = True
        self._wake()

    def since(self, number: int) -> list[Change] | None:
        """What changed after this number, oldest first; None where that is not known any more."""
        if number < self._forgotten:
            return None
        newer = takewhile(lambda change: change.number > number, reversed(self._changes.values()))
        return list(newer)[::-1]

    def heard(self, last_event_id: str) -> int:
        """Up to which number somebody who comes back has heard; now, for anybody else."""
        epoch, _, number = last_event_id.partition("-")
        if epoch != self.epoch or not number.isdecimal() or len(number) > len(str(self.number)):
            return self.number
        return min(int(number), self.number)

    def event_id(self, number: int) -> str:
        """What a browser says when it comes back."""
        return f"{self.epoch}-{number}"

    async def more(self, seconds: float, gone: asyncio.Future[None]) -> None:
        """Wait for the next change, for this long, or until the listener has gone."""
        await asyncio.wait({self._next, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)

    def _wake(self) -> None:
        waited, self._next = self._next, asyncio.get_running_loop().create_future()
        waited.set_result(None)


READERS: Final = 4
# Each has a git program at work, or waits for the daemon.
WORKERS: Final = 4
# More than a page can ask for at once; they wait in line.
MOST_WAITING: Final = 32
# git status of the largest work trees on a cold disk; a browser gives up after minutes.
WORK_SECONDS: Final = 60.0

Result = TypeVar("Result")


class Threads:
    """The viewer's threads. What runs long is asked for with `work`, everything else with `read`."""

    def __init__(self) -> None:
        self._readers = ThreadPoolExecutor(READERS, "read")
        self._workers = ThreadPoolExecutor(WORKERS, "work")
        self.working = 0

    async def read(self, function: Callable[..., Result], *arguments: object) -> Result:
        """Something that takes milliseconds."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, function, *arguments)

    async def work(self, function: Callable[..., Result], *arguments: object) -> Result:
        """Something that may take seconds; who asked waits for so long, and it goes on without them."""
        if self.working >= MOST_WAITING:
            raise TooBusy("The viewer has too much to do.", hint="Try again in a moment.")
        self.working += 1
        running = asyncio.get_running_loop().run_in_executor(self._workers, function, *arguments)
        running.add_done_callback(self._done)
        try:
            return await asyncio.wait_for(asyncio.shield(running), WORK_SECONDS)
        except TimeoutError as error:
            raise TookTooLong(
                f"There was no answer within {WORK_SECONDS:g} s.",
                hint="It may be finished by itself: look again in a while.",
            ) from error

    def end(self) -> None:
        """Begin nothing more."""
        for pool in (self._readers, self._workers):
            pool.shutdown(wait=False, cancel_futures=True)

    def _done(self, running: asyncio.Future[Result]) -> None:
        self.working -= 1
        if not running.cancelled():
            running.exception()  # seen, also where nobody waits for it any more


@dataclass(slots=True)
class Viewer:
    """What the routes share; made on the event loop."""

    folder: Path
    port: int
    answering: Answering
    page: Page = field(default_factory=Page)
    listeners: int = 0
    threads: Threads = field(default_factory=Threads)
    news: News = field(default_factory=News)
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    doors: Doors = field(init=False)
    documents: Documents = field(init=False)
    watching: Watching = field(init=False)

    def __post_init__(self) -> None:
        """Put the parts together."""
        self.doors = Doors(self.port)
        self.documents = Documents(self.folder)
        self.watching = Watching(self.folder, self.news.tell)


@dataclass(frozen=True, slots=True)
class Why:
    """Why do these lines of this file look the way they do? `lines` may be empty: the whole file."""

    path: str
    lines: str = ""

    def asked_of(self, document: Mindmap, answering: Answering) -> ExplainAnswer:
        """The answer, for a file that the map holds inside its workspace."""
        workspace = document.workspace_path
        if not workspace:
            raise NoWorkspace(
                "The map has no workspace.", hint="Sync it with git once, and name its work tree."
            )
        file = _file(document, workspace, self.path)
        start, end = bounds(self.lines) if self.lines.strip() else (1, 0)
        request = ExplainRequest(file, start, end, include_related=True)
        return answering.explain(request, Path(workspace))


def _file(document: Mindmap, workspace: str, path: str) -> str:
    """The file, as an absolute path: nothing but what the map holds, and nothing outside its workspace."""
    held = {
        name
        for node in document.nodes.values()
        for touch in node.files
        for name in (touch.path, touch.previous_path)
    }
    if path not in held:
        raise NotTouched(f"{document.id} does not hold {path!r}.", hint="Give a path as the map has it.")
    paths = Paths.of(workspace)
    kept = paths.kept(path)
    file = Path(paths.root, kept)
    # Links on the way may lead out; one at its end is explained as the link that it is.
    parent = os.path.realpath(file.parent)
    if kept.startswith("/") or not Path(parent).is_relative_to(paths.root):
        raise BadPath(
            f"{path!r} lies outside the workspace.", hint="Only files of the workspace have a lineage."
        )
    return str(file)
