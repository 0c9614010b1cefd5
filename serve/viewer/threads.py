"""Work that would keep everybody else waiting: files in one set of threads, git in another, each bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from serve.viewer.refusals import TooBusy, TookTooLong

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
