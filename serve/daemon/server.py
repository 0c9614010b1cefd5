"""What the daemon has done, what runs, and when it is time to go.

The daemon itself: HTTP on a socket of the person's own, questions answered side by side in threads.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_unix_socket
from tornado.web import Application, RequestHandler

from serve import config, http_common
from serve.daemon import protocol
from serve.daemon.process import Address, build, person
from serve.engine import Engine
from stores import errors, locks
from stores.errors import LineageError
from stores.locks import Deadline

# A session that pauses to think or to test comes back within minutes; what it costs to load again is 0.3 s.
UNLOAD_SECONDS: Final = 600.0
# Starting costs half a second, staying 60 MB.
LEAVE_SECONDS: Final = 3_600.0


@dataclass(slots=True)
class Life:
    """The daemon's clock and its counts; for use by several threads.

    `unload_after` and `leave_after` are seconds without a question; 0 means never.
    """

    unload_after: float = UNLOAD_SECONDS
    leave_after: float = LEAVE_SECONDS
    began: float = field(default_factory=time.monotonic)
    answered: int = 0
    running: int = 0
    _asked: float = field(default_factory=time.monotonic)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def question(self) -> Iterator[None]:
        """While a question is answered."""
        with self._turn:
            self.running += 1
        try:
            yield
        finally:
            with self._turn:
                self.running -= 1
                self.answered += 1
                self._asked = time.monotonic()

    @property
    def uptime_seconds(self) -> float:
        """Since the daemon began."""
        return time.monotonic() - self.began

    @property
    def idle_seconds(self) -> float:
        """Since the last question was answered; 0 while one is."""
        return 0.0 if self.running else time.monotonic() - self._asked

    @property
    def is_over(self) -> bool:
        """Whether nobody has needed the daemon for long enough."""
        return bool(self.leave_after) and self.idle_seconds >= self.leave_after

    @property
    def may_unload(self) -> bool:
        """Whether the models have been idle for long enough."""
        return bool(self.unload_after) and self.idle_seconds >= self.unload_after


def resident_bytes() -> int | None:
    """Memory of this process; None where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * 4096


# More questions at once only wait for each other's processors; those that wait for an index need none.
THREADS: Final = 16
LARGEST_QUESTION: Final = 1 << 20
BACKLOG: Final = 512
TICK_SECONDS: Final = 0.5
# Who waits for a daemon to end holds its lock for a moment.
GLANCE_SECONDS: Final = 1.0
# What runs when the daemon is told to stop may end.
FAREWELL_SECONDS: Final = 30.0

logger = logging.getLogger(__name__)


class AlreadyRunning(LineageError):
    """This home has its daemon."""


@dataclass(slots=True)
class Service:
    """One running daemon."""

    address: Address
    life: Life
    engine: Engine
    build: str = field(default_factory=build)
    person: str = field(default_factory=person)
    threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(THREADS, "question"))
    ending: asyncio.Event = field(default_factory=asyncio.Event)

    def find(self, data: bytes) -> bytes:
        """An answer to `find_pattern`."""
        asked = protocol.unpacked(data, protocol.Find)
        return protocol.packed(self.engine.find(asked.request, Path(asked.path), asked.precision))

    def explain(self, data: bytes) -> bytes:
        """An answer to `explain_change`."""
        asked = protocol.unpacked(data, protocol.Explain)
        here = Path(asked.here) if asked.here else None
        return protocol.packed(self.engine.explain(asked.request, Path(asked.path), here))

    def report(self) -> protocol.Report:
        """How it is."""
        life = self.life
        return protocol.Report(
            pid=os.getpid(),
            version=config.version(),
            build=self.build,
            socket=str(self.address.socket),
            uptime_seconds=round(life.uptime_seconds, 1),
            idle_seconds=round(life.idle_seconds, 1),
            answered=life.answered,
            running=life.running,
            resident_bytes=resident_bytes(),
            models=self.engine.models.loaded,
            holdings=tuple(map(protocol.Holding.of, self.engine.holdings())),
        )


Answer: TypeAlias = Callable[[Service, bytes], bytes]


class _Handler(RequestHandler):
    service: Service

    def initialize(self, service: Service) -> None:
        self.service = service

    def prepare(self) -> None:
        said, service = self.request.headers, self.service
        if service.ending.is_set():
            self._say(protocol.STOPPING)
        elif self.request.path in QUESTIONS and said.get(protocol.BUILD_HEADER) != service.build:
            self._say(protocol.OTHER_BUILD, service.build.encode())
        elif self.request.path in QUESTIONS and said.get(protocol.PERSON_HEADER) != service.person:
            self._say(protocol.OTHER_PERSON)

    def _say(self, status: int, body: bytes = b"") -> None:
        self.set_status(status)
        self.finish(body)

    def log_exception(self, *failure: Any) -> None:
        logger.error("%s %s failed", self.request.method, self.request.path, exc_info=failure)


class _Question(_Handler):
    answer: Answer

    def initialize(self, service: Service, answer: Answer) -> None:  # type: ignore[override]  # as its route says
        self.service, self.answer = service, answer

    async def post(self) -> None:
        loop = asyncio.get_running_loop()
        with self.service.life.question():
            try:
                said = await loop.run_in_executor(
                    self.service.threads, self.answer, self.service, self.request.body
                )
            except (LineageError, OSError) as error:
                known = errors.of(error) if isinstance(error, OSError) else error
                if known is None:
                    raise
                self._say(protocol.REFUSED, protocol.packed(protocol.Refusal.of(known)))
            else:
                self._say(200, said)


class _Status(_Handler):
    def get(self) -> None:
        self._say(200, protocol.packed(self.service.report()))


class _Stop(_Handler):
    def post(self) -> None:
        # Whoever means another program than this came late: its successor is meant to stay.
        meant = self.request.headers.get(protocol.BUILD_HEADER, self.service.build)
        if meant == self.service.build:
            self.service.ending.set()
        self._say(200)


QUESTIONS: Final[dict[str, Answer]] = {
    "/find": Service.find,
    "/explain": Service.explain,
}


def serve(address: Address, life: Life) -> None:
    """Answer until nobody needs it, or until told to stop; AlreadyRunning when this home has a daemon."""
    address.prepare()
    with _sole(address):
        asyncio.run(_serve(address, life))


@contextmanager
def _sole(address: Address) -> Iterator[None]:
    deadline = Deadline.after(GLANCE_SECONDS, lambda _: _already_running(address))
    with locks.held(address.lock, deadline) as descriptor:
        with suppress(OSError):  # a full disk: then nobody reads whose it is
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        yield


def _already_running(address: Address) -> AlreadyRunning:
    pid = address.lock.read_text(encoding="ascii", errors="replace").strip()
    return AlreadyRunning(
        f"A daemon of {address.home} is running already (process {pid}).",
        hint="`lineage daemon stop` ends it.",
    )


async def _serve(address: Address, life: Life) -> None:
    service = Service(address, life, Engine(address.home))
    questions = [
        (target, _Question, {"service": service, "answer": answer}) for target, answer in QUESTIONS.items()
    ]
    common = {"service": service}
    application = Application(
        [*questions, ("/status", _Status, common), ("/stop", _Stop, common)],
        log_function=http_common.log_answer,
    )
    http_common.end_on_signals(service.ending)
    server = HTTPServer(application, max_body_size=LARGEST_QUESTION)
    server.add_socket(bind_unix_socket(str(address.socket), 0o600, BACKLOG))
    ours = http_common.identity(address.socket)
    logger.info("event=listening socket=%s process=%d build=%s", address.socket, os.getpid(), service.build)
    try:
        await _until_over(service, ours)
    finally:
        server.stop()
        _withdraw(address, ours)
        await _farewell(service)
        await server.close_all_connections()
        service.engine.close()
        logger.info("event=ended answered=%d", life.answered)


async def _until_over(service: Service, ours: tuple[int, int] | None) -> None:
    while not service.ending.is_set():
        await http_common.pause(service.ending, TICK_SECONDS)
        # A daemon whose socket was deleted, with its home or by a successor, is met by nobody any more.
        met = http_common.identity(service.address.socket)
        if service.life.is_over or met is None or met != ours:
            return
        if service.life.may_unload:
            service.engine.let_go()


async def _farewell(service: Service) -> None:
    """Let what runs end."""
    for _ in range(int(FAREWELL_SECONDS / 0.02)):
        if not service.life.running:
            return
        await asyncio.sleep(0.02)


def _withdraw(address: Address, ours: tuple[int, int] | None) -> None:
    if http_common.identity(address.socket) == ours:
        address.socket.unlink(missing_ok=True)
