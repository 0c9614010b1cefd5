"""Commands `lineage-mcp` and `mindmap mcp`: relay between an MCP client on stdio and a session of the daemon.

It imports only the standard library and light modules of this program, so it starts in a tenth of the time of an MCP
server and takes a fifth of its memory. With LINEAGE_NO_DAEMON=1, or if the daemon cannot be started, the session runs
in this process; see `lineage_server` and `mindmap_server`.

If the daemon ends, the relay opens a session with the next daemon: at once if the client waits for an answer, else at
the client's next message. It repeats the handshake without showing its answer to the client, and sends unanswered
requests again. Lineage tools only read, so their calls can be repeated. A lost call of a mindmap tool may have changed
a map, so it is answered with an error. Batches (arrays of messages) are passed on; a lost batch is neither repeated
nor answered.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, BinaryIO, Final

from serve import config, process
from serve.config import Settings
from serve.daemon import process as daemon
from stores import locks
from stores.errors import LineageError, from_os_error

# Maximum number of times that a request is sent. A request that crashed two daemons would probably crash a third, and
# make the requests of other clients fail.
MAX_SENDS: Final = 2
# Longest wait for outstanding answers after the client has disconnected.
EXIT_SECONDS: Final = 1.0
EXIT_POLL_SECONDS: Final = 0.01
# JSON-RPC error code for an internal error.
INTERNAL_ERROR: Final = -32603
CALL_METHOD: Final = "tools/call"
LOST_CALL: Final = (
    "The daemon ended or was suspended before it answered. If the call changes a map, the change may or may not "
    "have been made. Read the map with get_mindmap (or list_mindmaps) before you repeat the call."
)


@dataclass(frozen=True, slots=True)
class RelayedServer:
    """MCP server of a relay.

    `module` runs it without a daemon. `repeats_calls`: tool calls that a daemon lost are sent to the next daemon.
    `takes_client_id`: the module's arguments are the client id and the ids of the maps to watch; else, a directory.
    """

    name: str
    module: str
    repeats_calls: bool
    takes_client_id: bool


LINEAGE: Final = RelayedServer(
    "lineage", "serve.mcp.lineage_server", repeats_calls=True, takes_client_id=False
)
MINDMAP: Final = RelayedServer(
    "mindmap", "serve.mcp.mindmap_server", repeats_calls=False, takes_client_id=True
)


@dataclass(slots=True)
class Request:
    """Unanswered request of the client. `sends`: number of sessions to which the request was sent."""

    line: bytes
    is_call: bool
    sends: int = 0


class Relay:
    """Relay of one client's session.

    `open_session` returns a connection to a session of the daemon. If reconnecting fails, the relay starts a server
    process without a daemon. `output` gets the session's lines. `crash_hint` is appended to the error for a lost
    request. `client_id` is the id of the client in all of its sessions, and `cwd` its working directory at the start.
    `watched_maps`: ids of the maps that each later session must watch again.
    """

    def __init__(
        self,
        open_session: Callable[[], socket.socket],
        output: BinaryIO,
        crash_hint: str = "",
        server: RelayedServer = LINEAGE,
        client_id: str = "",
        cwd: str = ".",
    ) -> None:
        self._open_session = open_session
        self._output = output
        self._crash_hint = crash_hint
        self._server = server
        self._client_id = client_id
        self._cwd = cwd
        self.watched_maps: dict[str, None] = {}
        self._lock = threading.Lock()  # for the connection, and for writing to it
        self._connection: socket.socket | None = None
        self._is_closing = False
        self._initialize_request: tuple[int | str, bytes] | None = None  # id and line
        self._initialized_notification = b""  # line
        # A failed handshake, as of a client of a later protocol, is not repeated.
        self._has_handshake_succeeded = False
        # The reader removes requests without the lock, because it must read on while a large message is being sent.
        self._unanswered: dict[int | str, Request] = {}

    def connect(self) -> None:
        """Open the first session. Raise what `open_session` raises."""
        with self._lock:
            self._attach(self._open_session())

    def send(self, line: bytes) -> None:
        """Send a line of the client."""
        with self._lock:
            request = self._remember(line)
            if self._connection is None:
                # Notifications and answers mean nothing to a later session. Invalid lines and batches, for which
                # `_parse` returns {}, are sent.
                if request is None and _parse(line):
                    return
                self._reconnect()
                if request:  # `_reconnect` has sent it with the other unanswered requests
                    return
            elif request:
                request.sends = 1
            if self._connection is not None:
                _write(self._connection, line)

    def close(self) -> None:
        """Wait up to EXIT_SECONDS for outstanding answers, then stop reconnecting.

        Call after the client has disconnected.
        """
        deadline = time.monotonic() + EXIT_SECONDS
        while self._unanswered and time.monotonic() < deadline:
            time.sleep(EXIT_POLL_SECONDS)
        self._is_closing = True

    def _remember(self, line: bytes) -> Request | None:
        """Store what a later session needs to know of a line. Return the request in the line; None if it has none."""
        message = _parse(line)
        method, request_id, parameters = message.get("method"), _get_id(message), message.get("params")
        if method == "notifications/initialized":
            self._initialized_notification = line
        elif method == "notifications/cancelled":  # a cancelled request gets no answer
            cancelled = _get_id(parameters, "requestId") if isinstance(parameters, dict) else None
            if cancelled is not None:
                self._unanswered.pop(cancelled, None)
        elif method is not None and request_id is not None:
            if method == "initialize":
                self._initialize_request = request_id, line
            request = self._unanswered[request_id] = Request(line, is_call=method == CALL_METHOD)
            return request
        return None

    def _reconnect(self) -> None:
        """Open another session; if that fails, start a server process; if that fails, too, reject the requests."""
        try:
            connection = self._open_session()
        except (LineageError, OSError):
            try:
                connection = start_server(self._server, self._cwd, self._client_id, self.watched_maps)
            except OSError as error:
                self._reject_requests(list(self._unanswered), f"No server could be started: {error}.")
                return
        self._attach(connection)

    def _attach(self, connection: socket.socket) -> None:
        """Use this session: start its reader, and send it the handshake and the unanswered requests."""
        repeated_id, lines = None, []
        if self._initialize_request and self._has_handshake_succeeded:
            repeated_id = self._initialize_request[0]
            lines = [self._initialize_request[1], self._initialized_notification]
        for request in list(self._unanswered.values()):
            request.sends += 1
            lines.append(request.line)
            if self._initialize_request and request.line is self._initialize_request[1]:
                lines.append(self._initialized_notification)  # empty if the client has not sent it yet
        self._connection = connection
        threading.Thread(
            target=self._read_session, args=(connection, repeated_id), name="session", daemon=True
        ).start()
        _write(connection, b"".join(lines))

    def _read_session(self, connection: socket.socket, repeated_id: int | str | None) -> None:
        """Write the session's lines to the client until it ends. Open another session if requests are unanswered then.

        `repeated_id`: id of a repeated `initialize`, whose answer the client does not get.
        """
        pid = daemon.read_peer_pid(connection)
        data = b""
        while received := self._receive(connection, pid):
            *lines, data = (data + received).split(b"\n")
            for line in lines:
                message = _parse(line)
                request_id = None if "method" in message else _get_id(message)
                if request_id is not None and request_id == repeated_id:
                    repeated_id = None
                    continue
                self._print(line + b"\n")
                if request_id is not None:
                    self._unanswered.pop(request_id, None)
                    self._remember_watch(message)
                    if self._initialize_request and request_id == self._initialize_request[0]:
                        self._has_handshake_succeeded = "result" in message
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)  # ends a write of the other thread
        if not self._is_closing:
            with self._lock:
                self._connection = None
                self._reject_lost_calls()
                self._reject_repeated_requests()
                if self._unanswered:
                    self._reconnect()
        connection.close()

    def _receive(self, connection: socket.socket, pid: int | None) -> bytes:
        """Return the next data; empty if the session has ended, or if its daemon is suspended."""
        try:
            while not daemon.wait_for_data(connection, daemon.SUSPENDED_POLL_SECONDS):
                if self._unanswered and pid is not None and locks.is_process_suspended(pid):
                    return b""
            return connection.recv(daemon.READ_BYTES)
        except OSError:
            return b""

    def _remember_watch(self, message: dict[str, Any]) -> None:
        """Add the map to `watched_maps` if the answer says that its workspace is watched."""
        result = message.get("result")
        content = result.get("structuredContent") if isinstance(result, dict) else None
        if (
            isinstance(content, dict)
            and content.get("watching")
            and isinstance(content.get("mindmapId"), str)
        ):
            self.watched_maps[content["mindmapId"]] = None

    def _reject_lost_calls(self) -> None:
        """Answer lost tool calls with an error, unless the server allows repeating them."""
        if not self._server.repeats_calls:
            lost = [request_id for request_id, request in self._unanswered.items() if request.is_call]
            self._reject_requests(lost, LOST_CALL)

    def _reject_repeated_requests(self) -> None:
        """Answer with an error each request that was sent MAX_SENDS times."""
        repeated = [
            request_id for request_id, request in self._unanswered.items() if request.sends >= MAX_SENDS
        ]
        reason = f"This request was lost {MAX_SENDS} times, because the daemon ended or was suspended."
        self._reject_requests(repeated, f"{reason} {self._crash_hint}")

    def _reject_requests(self, request_ids: Sequence[int | str], message: str) -> None:
        for request_id in request_ids:
            del self._unanswered[request_id]
            error = {"code": INTERNAL_ERROR, "message": message.strip()}
            self._print(json.dumps({"jsonrpc": "2.0", "id": request_id, "error": error}).encode() + b"\n")

    def _print(self, line: bytes) -> None:
        try:
            self._output.write(line)
            self._output.flush()
        except BrokenPipeError:  # the client has ended
            os._exit(0)
        except process.OutputWriteError as error:
            with suppress(OSError):
                print(f"error: {error}", file=sys.stderr, flush=True)  # noqa: T201 - clients show stderr
            os._exit(1)


def open_session(
    settings: Settings,
    cwd: str,
    server: str = "lineage",
    client_id: str = "",
    watched_maps: Sequence[str] = (),
) -> socket.socket:
    """Return a connection to an MCP session of the daemon. Start the daemon if none is running.

    `cwd`, `server`, `client_id`, `watched_maps`: as in `serve.daemon.protocol.McpCall`. Raise DaemonUnavailable if no
    daemon can be started, or if it refuses the session.
    """
    paths = daemon.DaemonPaths(settings.home)
    call = {
        "cwd": cwd,
        "precision": settings.reranker_precision,
        "server": server,
        "maps_dir": str(settings.maps_dir),
        "client_id": client_id,
        "watched_maps": list(watched_maps),
    }
    body = json.dumps(call).encode()
    for _ in range(daemon.MAX_ATTEMPTS):
        response = daemon.send_request(paths, daemon.MCP_TARGET, daemon.build_identity_headers(), body)
        if response is None:
            daemon.start_daemon(paths)
            continue
        if response.status == daemon.STATUS_SWITCHING_PROTOCOLS:
            return response.connection
        response.connection.close()
        if response.status == daemon.STATUS_OTHER_BUILD:  # stop that daemon; the response has its build id
            stop_headers = {daemon.BUILD_HEADER: response.content.decode("ascii", "replace")}
            if stop_response := daemon.send_request(paths, daemon.STOP_TARGET, stop_headers, b""):
                stop_response.connection.close()
        elif response.status == daemon.STATUS_STOPPING:
            time.sleep(daemon.STOPPING_RETRY_SECONDS)
        elif response.status == daemon.NO_STATUS:
            with suppress(OSError, daemon.DaemonUnavailable):  # the process may go on
                daemon.wait_until_stopped(paths, daemon.CRASH_WAIT_SECONDS)
        else:
            raise daemon.DaemonUnavailable(f"The daemon refused the session (status {response.status}).")
    raise daemon.DaemonUnavailable("The daemon keeps stopping.", hint=f"See its log: {paths.log}.")


def start_server(
    server: RelayedServer, cwd: str, client_id: str, watched_maps: Iterable[str]
) -> socket.socket:
    """Start an MCP server in a process of its own, and return a connection to its stdin and stdout."""
    connection, server_end = socket.socketpair()
    arguments = (client_id, *watched_maps) if server.takes_client_id else (cwd,)
    command = [sys.executable, "-P", "-m", server.module, *arguments]
    with server_end:
        # The process ends when the connection is closed.
        subprocess.Popen(command, stdin=server_end.fileno(), stdout=server_end.fileno())
    return connection


def _write(connection: socket.socket, data: bytes) -> None:
    with suppress(OSError):  # the reader notices a lost connection too
        connection.sendall(data)


def _parse(line: bytes) -> dict[str, Any]:
    """Return the message in a line; empty if the line is a batch or invalid. The server answers such lines."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _get_id(fields: dict[str, Any], name: str = "id") -> int | str | None:
    value = fields.get(name)
    return value if isinstance(value, (int, str)) and not isinstance(value, bool) else None


def serve_in_process(server: RelayedServer) -> None:
    """Run the MCP server in this process. The server of lineage also has the options `--help` and `--version`."""
    with process.pause_garbage_collection():
        module = import_module(server.module)
    module.main()


def serve_client(server: RelayedServer, settings: Settings) -> None:
    """Serve one MCP client on stdin and stdout, through the daemon if it is enabled and starts, else without it."""
    if not settings.use_daemon:
        serve_in_process(server)
        return
    process.configure_streams()
    process.exit_on_termination_signals(os._exit)
    try:
        cwd = os.getcwd()  # noqa: PTH109 - the path as text. Later sessions use it, too, even if it is deleted meanwhile.
    except OSError:
        serve_in_process(server)
        return
    client_id = os.urandom(8).hex()
    relay = Relay(
        lambda: open_session(settings, cwd, server.name, client_id, tuple(relay.watched_maps)),
        sys.stdout.buffer,
        f"See its log: {daemon.DaemonPaths(settings.home).log}.",
        server,
        client_id,
        cwd,
    )
    try:
        relay.connect()
    except (LineageError, OSError):
        serve_in_process(server)
        return
    for line in sys.stdin.buffer:
        relay.send(line if line.endswith(b"\n") else line + b"\n")
    relay.close()
    os._exit(0)  # without waiting for the reader


def serve_mindmap() -> None:
    """Run `mindmap mcp`."""
    serve_client(MINDMAP, config.load_settings())


def main() -> None:
    """Run `lineage-mcp`. A call with other arguments than a directory is left to `lineage_server`."""
    if sys.argv[1:] and os.path.isdir(sys.argv[1]):  # noqa: PTH112 - unlike `Path.is_dir`, it raises no errors
        try:
            config.make_home_absolute()
            os.chdir(sys.argv.pop(1))  # the session answers about its working directory
        except OSError as error:
            sys.exit(f"error: {from_os_error(error) or error}")
    settings = config.load_settings()
    if len(sys.argv) > 1:
        serve_in_process(LINEAGE)
    else:
        serve_client(LINEAGE, settings)


if __name__ == "__main__":
    main()
