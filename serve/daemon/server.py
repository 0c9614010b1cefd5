"""HTTP server of the daemon, on a Unix socket that only its user can access. Calls run in parallel threads."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_unix_socket
from tornado.web import Application, RequestHandler

from pipeline import interrupts
from pipeline.workers import count_usable_cpus
from serve import config, server_common
from serve.daemon import process, protocol
from serve.daemon.process import DaemonPaths, compute_build_id, compute_git_config_digest
from serve.process import (
    configure_log,
    configure_streams,
    handle_termination_signals,
    measure_resident_bytes,
    pause_garbage_collection,
)
from serve.server_common import CALLS_PER_CPU, CallQueue
from stores import errors, locks
from stores.errors import LineageError
from stores.locks import Deadline

# Idle time until the models are unloaded. Most clients return within minutes; loading takes 0.3 s.
UNLOAD_AFTER_SECONDS: Final = 600.0
# Idle time until the daemon exits. An idle daemon uses 60 MB; starting one takes half a second.
EXIT_AFTER_SECONDS: Final = 3_600.0
# Number of threads: CALLS_PER_CPU for each CPU, since no more calls run at a time, and two for imports.
MAX_THREADS: Final = CALLS_PER_CPU * count_usable_cpus() + 2
MAX_REQUEST_BYTES: Final = 1 << 20
# Maximum number of connections that wait to be accepted.
BACKLOG: Final = 512
# Interval of the checks for idle time and a deleted socket.
POLL_SECONDS: Final = 0.5
# Maximum wait for the daemon's lock. A client that waits for a daemon to stop holds it for a moment.
LOCK_TIMEOUT_SECONDS: Final = 1.0
# Idle time until the daemon imports the modules that calls and sessions need. This takes a second of processor time.
PRELOAD_AFTER_SECONDS: Final = 5.0
# Maximum wait for running calls before the daemon ends, and interval of the checks for them.
DRAIN_SECONDS: Final = 30.0
DRAIN_POLL_SECONDS: Final = 0.02
# Maximum wait for sessions to end. A session that ends records the last changes of its workspace.
SESSION_END_SECONDS: Final = 3.0

if TYPE_CHECKING:
    from serve.backend import Engine

logger = logging.getLogger(__name__)


class AlreadyRunning(LineageError):
    """Error for an index directory that has a running daemon already."""


@dataclass(slots=True)
class DaemonState:
    """Call counters and idle timer of the daemon. Thread-safe.

    `unload_after`, `exit_after`: idle seconds until the models are unloaded, and until the daemon exits; 0 means never.
    `started_at`: by the clock of `time.monotonic`. `answered_calls`, `running_calls`: number of calls that have ended,
    also by an error, and that wait for a slot or run. `open_sessions`: number of MCP sessions.
    """

    unload_after: float = UNLOAD_AFTER_SECONDS
    exit_after: float = EXIT_AFTER_SECONDS
    started_at: float = field(default_factory=time.monotonic)
    answered_calls: int = 0
    running_calls: int = 0
    open_sessions: int = 0
    _last_activity: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def track_call(self) -> Iterator[None]:
        """Count a call as running within the context, and as answered afterwards."""
        with self._lock:
            self.running_calls += 1
        try:
            yield
        finally:
            with self._lock:
                self.running_calls -= 1
                self.answered_calls += 1
                self._last_activity = time.monotonic()

    @contextmanager
    def track_session(self) -> Iterator[None]:
        """Count an MCP session as open within the context."""
        with self._lock:
            self.open_sessions += 1
        try:
            yield
        finally:
            with self._lock:
                self.open_sessions -= 1
                self._last_activity = time.monotonic()

    @property
    def uptime_seconds(self) -> float:
        """Seconds since the daemon started."""
        return time.monotonic() - self.started_at

    @property
    def idle_seconds(self) -> float:
        """Seconds since the last call or session ended, or since the start; 0 while a call is running."""
        return 0.0 if self.running_calls else time.monotonic() - self._last_activity

    @property
    def should_exit(self) -> bool:
        """True once the daemon has been idle for `exit_after` seconds, without an open session."""
        return bool(self.exit_after) and not self.open_sessions and self.idle_seconds >= self.exit_after

    @property
    def should_unload(self) -> bool:
        """True once the daemon has been idle for `unload_after` seconds."""
        return bool(self.unload_after) and self.idle_seconds >= self.unload_after


@dataclass(slots=True)
class Service:
    """A running daemon: its engine, state and thread pool.

    `engine`: None until `get_engine` is called, so that the daemon listens before it imports the search. `sessions`:
    tasks of the open MCP sessions. `stopping`: set when the daemon has to end.
    """

    paths: DaemonPaths
    state: DaemonState
    engine: Engine | None = None
    queue: CallQueue = field(default_factory=CallQueue)
    sessions: set[asyncio.Task[None]] = field(default_factory=set)
    build_id: str = field(default_factory=compute_build_id)
    git_config_digest: str = field(default_factory=compute_git_config_digest)
    threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(MAX_THREADS, "request"))
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _engine_lock: threading.Lock = field(default_factory=threading.Lock)

    def get_engine(self) -> Engine:
        """Return the engine; the first call creates it."""
        from serve.backend import Engine

        with self._engine_lock:
            self.engine = self.engine or Engine(self.paths.home)
            return self.engine

    def find(self, data: bytes) -> bytes:
        """Handle an encoded FindCall."""
        call = protocol.decode(data, protocol.FindCall)
        return protocol.encode(self.get_engine().find(call.request, Path(call.path), call.precision))

    def find_in_repositories(self, data: bytes) -> bytes:
        """Handle an encoded FindInRepositoriesCall."""
        call = protocol.decode(data, protocol.FindInRepositoriesCall)
        return protocol.encode(
            self.get_engine().find_in_repositories(call.request, call.repositories, call.precision)
        )

    def explain(self, data: bytes) -> bytes:
        """Handle an encoded ExplainCall."""
        call = protocol.decode(data, protocol.ExplainCall)
        cwd = Path(call.cwd) if call.cwd else None
        return protocol.encode(self.get_engine().explain(call.request, Path(call.path), cwd))

    def build_status_report(self) -> protocol.StatusReport:
        """Return the status of the daemon."""
        state, engine = self.state, self.engine
        return protocol.StatusReport(
            pid=os.getpid(),
            version=config.read_version(),
            build=self.build_id,
            socket=str(self.paths.socket),
            uptime_seconds=round(state.uptime_seconds, 1),
            idle_seconds=round(state.idle_seconds, 1),
            answered=state.answered_calls,
            running=state.running_calls,
            sessions=state.open_sessions,
            resident_bytes=measure_resident_bytes(),
            models=engine.models.names if engine else (),
            holdings=engine.list_loaded_indexes() if engine else (),
        )


CallFunction: TypeAlias = Callable[[Service, bytes], bytes]


class _BaseHandler(RequestHandler):
    """Handler that rejects requests to a stopping daemon.

    `needs_identity`: also reject clients of another build, or with another git configuration.
    """

    service: Service
    needs_identity = False

    def initialize(self, service: Service) -> None:
        self.service = service

    def prepare(self) -> None:
        headers, service = self.request.headers, self.service
        if service.stopping.is_set():
            self._respond(process.STATUS_STOPPING)
        elif self.needs_identity and headers.get(process.BUILD_HEADER) != service.build_id:
            self._respond(process.STATUS_OTHER_BUILD, service.build_id.encode())
        elif self.needs_identity and headers.get(process.GIT_CONFIG_HEADER) != service.git_config_digest:
            self._respond(process.STATUS_OTHER_GIT_CONFIG)

    def _respond(self, status: int, body: bytes = b"") -> None:
        self.set_status(status)
        self.finish(body)

    def log_exception(self, *failure: Any) -> None:
        logger.error("%s %s failed", self.request.method, self.request.path, exc_info=failure)


class _CallHandler(_BaseHandler):
    """Handler that runs a call in a thread. It responds with the answer, or with the error if it is a LineageError."""

    function: CallFunction
    needs_identity = True

    def initialize(self, service: Service, function: CallFunction) -> None:  # type: ignore[override]  # Tornado passes the arguments of the route
        self.service, self.function = service, function
        self.cancelled = threading.Event()
        self.task: asyncio.Task[None] | None = None

    async def post(self) -> None:
        task = self.task = asyncio.ensure_future(self._answer())
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()  # raises an unexpected error of the call

    def on_connection_close(self) -> None:
        """Cancel the call, because its client ended or stopped waiting. A call without a slot ends at once."""
        self.cancelled.set()
        if self.task:
            self.task.cancel()

    async def _answer(self) -> None:
        """Wait for a free slot, run the call in a thread, and respond."""
        queue, loop = self.service.queue, asyncio.get_running_loop()
        with self.service.state.track_call():
            try:
                async with queue.take_turn(queue.create_client()):
                    self.task = None  # a cancelled call occupies its slot until its thread has ended
                    response = await loop.run_in_executor(self.service.threads, self._run_call)
            except interrupts.RequestCancelled:
                return
            except Exception as error:
                lineage_error = errors.to_lineage_error(error)
                if lineage_error is None:
                    raise
                error_response = protocol.ErrorResponse.from_error(lineage_error)
                self._respond(process.STATUS_REQUEST_FAILED, protocol.encode(error_response))
            else:
                self._respond(200, response)

    def _run_call(self) -> bytes:
        with interrupts.use_cancellation_flag(self.cancelled):
            return self.function(self.service, self.request.body)


class _McpHandler(_BaseHandler):
    """Handler that turns the connection of its request into an MCP session."""

    needs_identity = True

    async def post(self) -> None:
        service = self.service
        call = protocol.decode(self.request.body, protocol.McpCall)
        mcp_sessions = await asyncio.get_running_loop().run_in_executor(service.threads, _import_mcp_sessions)
        stream = self.detach()
        task = asyncio.ensure_future(mcp_sessions.serve_session(stream, call, service))
        service.sessions.add(task)
        try:
            with service.state.track_session():
                await task
        except asyncio.CancelledError:
            if not service.stopping.is_set():
                raise
        finally:
            service.sessions.discard(task)
            stream.close()


@cache  # once, because `pause_garbage_collection` excludes all existing objects from later collections
def _import_mcp_sessions() -> ModuleType:
    with pause_garbage_collection():
        from serve.daemon import mcp_sessions

    return mcp_sessions


class _StatusHandler(_BaseHandler):
    """Handler that responds with the status of the daemon."""

    def get(self) -> None:
        self._respond(200, protocol.encode(self.service.build_status_report()))


class _StopHandler(_BaseHandler):
    """Handler that stops the daemon. A request without a build id stops a daemon of any build."""

    def post(self) -> None:
        # Ignore a request to stop a daemon of another build, which this daemon has already replaced.
        build_to_stop = self.request.headers.get(process.BUILD_HEADER, self.service.build_id)
        if build_to_stop == self.service.build_id:
            self.service.stopping.set()
        self._respond(200)


CALL_FUNCTIONS: Final[dict[str, CallFunction]] = {
    "/find": Service.find,
    "/find-in-repositories": Service.find_in_repositories,
    "/explain": Service.explain,
}


def main() -> None:
    """Run the daemon that a client starts. Unlike `lineage serve`, this does not import the command line (0.1 s)."""
    config.configure_libraries()
    configure_streams()
    try:
        with suppress(KeyboardInterrupt), handle_termination_signals():
            serve(DaemonState())
    except Exception as error:
        if (lineage_error := errors.to_lineage_error(error)) is None:
            raise
        sys.exit(f"error: {lineage_error}")


def serve(state: DaemonState) -> None:
    """Run the daemon until it is idle, a client stops it, or its socket is gone. Raise AlreadyRunning if one runs."""
    settings = config.load_settings()
    configure_log(settings.log_level)
    paths = DaemonPaths(settings.home)
    paths.create_directories()
    with _acquire_daemon_lock(paths):
        asyncio.run(_run_server(paths, state))


@contextmanager
def _acquire_daemon_lock(paths: DaemonPaths) -> Iterator[None]:
    """Hold the daemon's lock within the context. Raise AlreadyRunning if another daemon holds it."""
    deadline = Deadline.after(LOCK_TIMEOUT_SECONDS, lambda _: _create_already_running_error(paths))
    with locks.acquire_exclusive_lock(paths.lock, deadline) as descriptor:
        with suppress(OSError):  # on a full disk the lock file has no process id
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        yield


def _create_already_running_error(paths: DaemonPaths) -> AlreadyRunning:
    pid = paths.lock.read_text(encoding="ascii", errors="replace").strip()
    return AlreadyRunning(
        f"A daemon of {paths.home} is already running (process {pid}).",
        hint="Run `lineage daemon stop` to stop it.",
    )


async def _run_server(paths: DaemonPaths, state: DaemonState) -> None:
    """Serve requests until the daemon has to end. Then wait for running calls, and end the sessions."""
    service = Service(paths, state)
    application = Application(
        [
            *(
                (path, _CallHandler, {"service": service, "function": function})
                for path, function in CALL_FUNCTIONS.items()
            ),
            ("/status", _StatusHandler, {"service": service}),
            (process.STOP_TARGET, _StopHandler, {"service": service}),
            (process.MCP_TARGET, _McpHandler, {"service": service}),
        ],
        log_function=server_common.log_request,
    )
    server_common.set_event_on_signals(service.stopping)
    server = HTTPServer(application, max_body_size=MAX_REQUEST_BYTES)
    server.add_socket(bind_unix_socket(str(paths.socket), 0o600, BACKLOG))
    socket_identity = server_common.read_file_identity(paths.socket)
    logger.info("event=listening socket=%s process=%d build=%s", paths.socket, os.getpid(), service.build_id)
    try:
        await _wait_until_done(service, socket_identity)
    finally:
        service.stopping.set()  # sessions start no more calls
        server.stop()
        _remove_socket(paths, socket_identity)
        await _wait_for_calls(service)
        for session in tuple(service.sessions):
            session.cancel()
        if service.sessions:
            await asyncio.wait(service.sessions, timeout=SESSION_END_SECONDS)
        await server.close_all_connections()
        if service.engine:
            service.engine.close()
        logger.info("event=ended answered=%d", state.answered_calls)


async def _wait_until_done(service: Service, socket_identity: tuple[int, int] | None) -> None:
    """Wait until the daemon has to end. Meanwhile, unload models and import modules at their idle times."""
    is_preloaded = False
    while not service.stopping.is_set():
        await server_common.wait_for_event(service.stopping, POLL_SECONDS)
        # A daemon whose socket was deleted, with its index directory or by another daemon, gets no more requests.
        current_identity = server_common.read_file_identity(service.paths.socket)
        if service.state.should_exit or current_identity is None or current_identity != socket_identity:
            return
        if service.state.should_unload and service.engine:
            service.engine.unload()
        if not is_preloaded and service.state.idle_seconds >= PRELOAD_AFTER_SECONDS:
            is_preloaded = True
            service.threads.submit(_preload, service)


def _preload(service: Service) -> None:
    """Create the engine, and import the modules that calls and sessions need."""
    service.get_engine()
    _import_mcp_sessions()


async def _wait_for_calls(service: Service) -> None:
    """Wait until no call is running, for at most DRAIN_SECONDS."""
    deadline = time.monotonic() + DRAIN_SECONDS
    while service.state.running_calls and time.monotonic() < deadline:
        await asyncio.sleep(DRAIN_POLL_SECONDS)


def _remove_socket(paths: DaemonPaths, socket_identity: tuple[int, int] | None) -> None:
    """Delete the socket, unless another daemon has replaced it."""
    if server_common.read_file_identity(paths.socket) == socket_identity:
        paths.socket.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
