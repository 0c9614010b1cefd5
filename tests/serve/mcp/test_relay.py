"""Relay of the MCP servers: repeated handshake and requests after the session with the daemon has ended."""

from __future__ import annotations

import errno
import io
import json
import os
import queue
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from serve import config, process
from serve.config import Settings
from serve.mcp import relay
from serve.mcp.relay import LINEAGE, MINDMAP, Relay, RelayedServer
from stores.errors import LineageError
from tests.repos import Repo
from tests.serve.commands import list_loaded_packages
from tests.serve.mcp.clients import INITIALIZE_REQUEST

TIMEOUT_SECONDS = 20
INITIALIZE = {"id": 1, "method": "initialize"}
INITIALIZED = {"method": "notifications/initialized"}


def join_readers() -> None:
    for thread in threading.enumerate():
        if thread.name == "session":
            thread.join(TIMEOUT_SECONDS)


class Server:
    """Server end of the relay's sessions, and the lines that the client gets from the relay."""

    def __init__(self, relayed_server: RelayedServer) -> None:
        self.connections: queue.Queue[socket.socket] = queue.Queue()
        self.sockets: list[socket.socket] = []
        reading, writing = os.pipe()
        self.client: BinaryIO = os.fdopen(reading, "rb")
        self.output: BinaryIO = os.fdopen(writing, "wb")
        self.relay = Relay(self.open_session, self.output, "", relayed_server, "client-1")
        self.is_available = True

    def open_session(self) -> socket.socket:
        if not self.is_available:
            raise LineageError("There is no daemon.")
        connection, server_end = socket.socketpair()
        server_end.settimeout(TIMEOUT_SECONDS)
        self.connections.put(server_end)
        self.sockets.append(server_end)
        return connection

    def accept(self) -> Session:
        return Session(self.connections.get(timeout=TIMEOUT_SECONDS))

    def send_from_client(self, *messages: dict[str, Any]) -> None:
        for message in messages:
            self.relay.send(json.dumps(message).encode() + b"\n")

    def read_as_client(self) -> Any:
        return json.loads(self.client.readline())

    def close(self) -> None:
        self.relay.close()
        for connection in self.sockets:
            connection.close()
        join_readers()
        self.client.close()
        self.output.close()

    def start_session(self) -> Session:
        """Connect and exchange the handshake."""
        self.relay.connect()
        session = self.accept()
        self.send_from_client(INITIALIZE, INITIALIZED)
        assert session.read(2) == [INITIALIZE, INITIALIZED]
        session.write({"id": 1, "result": {}})
        assert self.read_as_client()["id"] == 1
        return session


class Session:
    """One session of the server."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.received = b""

    def read(self, count: int) -> list[Any]:
        return [json.loads(self.read_line()) for _ in range(count)]

    def read_line(self) -> bytes:
        while b"\n" not in self.received:
            data = self.connection.recv(1 << 16)
            assert data, "the relay closed the session"
            self.received += data
        line, _, self.received = self.received.partition(b"\n")
        return line

    def write(self, message: dict[str, Any]) -> None:
        self.connection.sendall(json.dumps(message).encode() + b"\n")

    def end(self) -> None:
        self.connection.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Server]:
    """Server of lineage, or of mindmap for a test with that parameter."""
    monkeypatch.setattr(relay, "EXIT_SECONDS", 0)
    server = Server(getattr(request, "param", LINEAGE))
    yield server
    server.close()


def test_requests_without_an_answer_are_repeated(server: Server) -> None:
    """The next session gets the handshake, whose answer is dropped, and the requests without an answer."""
    session = server.start_session()
    answered, cancelled, waiting = ({"id": number, "method": "tools/call"} for number in (2, 3, "four"))
    server.send_from_client(answered, cancelled, waiting)
    session.read(3)
    session.write({"id": 2, "result": {}})
    assert server.read_as_client()["id"] == 2
    cancellation = {"method": "notifications/cancelled", "params": {"requestId": 3}}
    server.send_from_client(cancellation)
    session.read(1)
    session.connection.sendall(b'{"id": "four", "res')  # the daemon ends in the middle of a line
    session.end()
    next_session = server.accept()
    assert next_session.read(3) == [INITIALIZE, INITIALIZED, waiting]
    next_session.write({"id": 1, "result": {}})
    next_session.write({"id": "four", "result": {}})
    assert server.read_as_client() == {"id": "four", "result": {}}


def test_refused_handshake_is_not_repeated(server: Server) -> None:
    """A client of the later protocol that tried `initialize`, and got an error, gets no such session later."""
    server.relay.connect()
    session = server.accept()
    server.send_from_client(INITIALIZE)
    session.write({"id": 1, "error": {}})
    assert "error" in server.read_as_client()
    session.end()
    request = {"id": 2, "method": "tools/list"}
    server.send_from_client(request)
    assert server.accept().read(1) == [request]


def test_next_request_opens_the_next_session(server: Server) -> None:
    """If the client waits for nothing, no session is opened before its next request, so a daemon can be stopped."""
    session = server.start_session()
    session.end()
    join_readers()
    assert server.connections.empty()
    request = {"id": 2, "method": "tools/list"}
    server.send_from_client(request)
    assert server.accept().read(3) == [INITIALIZE, INITIALIZED, request]


def test_request_that_ends_two_daemons_is_an_error(server: Server) -> None:
    """A request that was lost in two sessions gets an error, and is not sent again."""
    session = server.start_session()
    server.send_from_client({"id": 2, "method": "tools/call"})
    session.end()
    server.accept().end()
    assert "lost 2 times" in server.read_as_client()["error"]["message"]
    server.send_from_client({"id": 3, "method": "tools/call"})
    assert server.accept().read(3)[2]["id"] == 3


def test_server_without_a_daemon_replaces_it(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """If no other session can be had, a server of the relay's own continues, for the same client."""
    connection, server_end = socket.socketpair()
    server.sockets.append(server_end)
    monkeypatch.setattr(
        relay, "start_server", lambda *arguments: connection if arguments[2] == "client-1" else None
    )
    session = server.start_session()
    server.is_available = False
    session.end()
    request = {"id": 2, "method": "tools/call"}
    server.send_from_client(request)
    assert Session(server_end).read(3) == [INITIALIZE, INITIALIZED, request]


def test_large_messages_in_both_directions(server: Server) -> None:
    """Messages larger than all buffers pass, also while both sides send."""
    session = server.start_session()
    request = {"id": 2, "method": "tools/call", "params": "x" * 4_000_000}
    answer = {"id": 1, "method": "sampling/createMessage", "params": "y" * 4_000_000}
    sending = threading.Thread(target=session.write, args=(answer,))
    asking = threading.Thread(target=server.send_from_client, args=(request,))
    sending.start()
    asking.start()
    assert server.read_as_client() == answer
    assert session.read(1) == [request]
    sending.join()
    asking.join()


def test_invalid_lines_are_passed_on(server: Server) -> None:
    """Lines that are no messages reach the server, which answers them."""
    session = server.start_session()
    for line in (b"nonsense\n", b"[" * 5_000 + b"\n", b'{"id": [], "method": "x"}\n'):
        server.relay.send(line)
        assert session.read_line() + b"\n" == line


def test_relay_imports_only_the_standard_library() -> None:
    """The relay imports this program's light modules and the standard library."""
    packages = list_loaded_packages("import serve.mcp.relay") - {"__main__", "__mp_main__"}
    own = {"serve", "pipeline", "stores"}
    assert own <= packages
    foreign = {name for name in packages - own - sys.stdlib_module_names if not name.startswith("_")}
    assert not foreign & list_distribution_packages()


def list_distribution_packages() -> set[str]:
    from importlib.metadata import packages_distributions

    return set(packages_distributions())


def test_handshake_that_was_not_answered_is_repeated_completely(server: Server) -> None:
    """If the daemon ends before it answers `initialize`, the next session also gets the notification after it."""
    server.relay.connect()
    session = server.accept()
    request = {"id": 2, "method": "tools/list"}
    server.send_from_client(INITIALIZE, INITIALIZED, request)
    assert session.read(3) == [INITIALIZE, INITIALIZED, request]
    session.end()
    assert server.accept().read(3) == [INITIALIZE, INITIALIZED, request]


def test_notification_opens_no_session(server: Server) -> None:
    """A notification after the end of a session means nothing to a later one, so the next request opens it."""
    server.start_session().end()
    join_readers()
    server.send_from_client({"method": "notifications/cancelled", "params": {"requestId": 9}})
    request = {"id": 2, "method": "tools/list"}
    server.send_from_client(request)
    assert server.accept().read(3) == [INITIALIZE, INITIALIZED, request]


def test_answers_on_their_way_are_read_after_the_client_has_ended(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that writes its requests and closes its input gets their answers."""
    monkeypatch.setattr(relay, "EXIT_SECONDS", TIMEOUT_SECONDS)
    session = server.start_session()
    server.send_from_client({"id": 2, "method": "tools/list"})
    answers: list[Any] = []
    reader = threading.Thread(target=lambda: answers.append(server.read_as_client()))
    reader.start()
    closing = threading.Thread(target=server.relay.close)
    closing.start()
    session.read(1)
    session.write({"id": 2, "result": {}})
    closing.join(TIMEOUT_SECONDS)
    reader.join(TIMEOUT_SECONDS)
    assert answers == [{"id": 2, "result": {}}]


@pytest.mark.parametrize("server", [MINDMAP], indirect=True)
def test_lost_call_of_mindmap_is_not_repeated(server: Server) -> None:
    """A mindmap call that a daemon has lost is an error that names the way out; other requests are repeated."""
    session = server.start_session()
    call, listing = {"id": 2, "method": "tools/call"}, {"id": 3, "method": "tools/list"}
    server.send_from_client(call, listing)
    session.read(2)
    session.end()
    error = server.read_as_client()
    assert error["id"] == 2
    assert "If the call changes a map, the change may or may not have been made." in error["error"]["message"]
    assert "get_mindmap" in error["error"]["message"]
    assert server.accept().read(3) == [INITIALIZE, INITIALIZED, listing]


@pytest.mark.parametrize("server", [MINDMAP], indirect=True)
def test_mindmap_call_after_the_end_of_a_session_is_sent_once(server: Server) -> None:
    """A call that was sent to no daemon before is made by the next one, and an answered call is not lost."""
    session = server.start_session()
    server.send_from_client({"id": 2, "method": "tools/call"})
    session.read(1)
    session.write({"id": 2, "result": {}})
    assert server.read_as_client() == {"id": 2, "result": {}}
    session.end()
    join_readers()
    call = {"id": 3, "method": "tools/call"}
    server.send_from_client(call)
    assert server.accept().read(3) == [INITIALIZE, INITIALIZED, call]


@pytest.mark.parametrize("server", [MINDMAP], indirect=True)
def test_relay_remembers_watched_maps(server: Server) -> None:
    """The relay remembers the maps whose workspaces are watched, from the answers of their calls."""
    session = server.start_session()
    for number, content in enumerate(
        (
            {"mindmapId": "mm_a", "watching": True},
            {"mindmapId": "mm_b", "watching": False},
            {"mindmapId": ["mm_c"], "watching": True},
            "text",
        ),
        start=2,
    ):
        server.send_from_client({"id": number, "method": "tools/call"})
        session.read(1)
        session.write({"id": number, "result": {"structuredContent": content}})
        server.read_as_client()
    session.write({"id": 9, "result": "text"})
    server.read_as_client()
    assert list(server.relay.watched_maps) == ["mm_a"]


def test_path_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A PATH that cannot be entered is one message."""

    def refuse(path: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(sys, "argv", ["lineage-mcp", str(tmp_path)])
    monkeypatch.setattr(os, "chdir", refuse)
    with pytest.raises(SystemExit) as caught:
        relay.main()
    assert str(caught.value).startswith(f"error: Permission denied: {tmp_path}\n")


def test_relative_home_and_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative LINEAGE_HOME is in the directory of the client, not in PATH, for all servers of the relay."""
    (tmp_path / "repository").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LINEAGE_HOME", "indexes")
    monkeypatch.setattr(sys, "argv", ["lineage-mcp", "repository"])
    homes: list[Path] = []

    def record_homes(_: RelayedServer, settings: Settings) -> None:
        homes.extend([settings.home, config.load_settings().home])

    monkeypatch.setattr(relay, "serve_client", record_homes)
    relay.main()
    assert homes == [tmp_path / "indexes"] * 2
    assert Path.cwd() == tmp_path / "repository"


def test_working_directory_is_deleted_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Later sessions are about the directory in which the client started, even if it was deleted meanwhile."""
    directory = tmp_path / "repository"
    directory.mkdir()
    monkeypatch.chdir(directory)
    directories: list[str] = []

    def open_session(_: Settings, cwd: str, *__: object) -> socket.socket:
        connection, server_end = socket.socketpair()
        if directories:
            server_end.sendall(b'{"id": 1, "result": {}}\n')
        else:
            directory.rmdir()
        directories.append(cwd)
        server_end.close()
        return connection

    def exit_process(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(relay, "open_session", open_session)
    monkeypatch.setattr(process, "exit_on_termination_signals", lambda _: None)
    monkeypatch.setattr(os, "_exit", exit_process)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"id": 1, "method": "ping"}\n')))
    with pytest.raises(SystemExit):
        relay.serve_client(MINDMAP, config.load_settings({"LINEAGE_HOME": str(tmp_path)}))
    join_readers()
    assert directories == [str(directory)] * 2


@pytest.mark.parametrize("is_missing", [False, True])
def test_server_process_in_a_deleted_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_missing: bool
) -> None:
    """A server process answers about the directory in which the client started, even if it was deleted meanwhile."""
    repo = Repo.create(tmp_path / "repository")
    monkeypatch.chdir(repo.path)
    processes: list[subprocess.Popen[bytes]] = []

    class RecordedPopen(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            processes.append(self)

    monkeypatch.setattr(subprocess, "Popen", RecordedPopen)
    shutil.rmtree(repo.path)
    if not is_missing:
        Repo.create(repo.path)
    parameters = {"name": "find_pattern", "arguments": {"query": "retry"}}
    request = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": parameters}
    messages = (INITIALIZE_REQUEST, {"jsonrpc": "2.0", "method": "notifications/initialized"}, request)
    with relay.start_server(LINEAGE, str(repo.path), "", ()) as connection:
        connection.settimeout(TIMEOUT_SECONDS)
        connection.sendall(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
        answers = Session(connection).read(2)
    assert processes[0].wait(TIMEOUT_SECONDS) == 0
    assert [answer["id"] for answer in answers] == [1, 2]
    assert str(repo.path) in json.dumps(answers[1]["result"])
