"""Client of the daemon's MCP sessions, with the standard library only.

An HTTP request with the client's working directory and settings turns its connection into a session: lines of JSON-RPC
in both directions.
"""

from __future__ import annotations

import json
import os
import select
import socket
import time
from collections.abc import Sequence
from typing import Final

from serve.config import Settings
from serve.daemon import process
from serve.daemon.process import DaemonPaths, DaemonUnavailable
from stores import errors, locks

# Longest wait for the daemon to accept a session. It imports the MCP library first: 1 s, or ten on a busy machine.
ACCEPT_TIMEOUT_SECONDS: Final = 30.0
# Interval of the check for a suspended daemon.
SUSPENDED_POLL_SECONDS: Final = 1.0
# One attempt, and one more after each of these: no daemon is running, it is of another build, it is stopping.
MAX_ATTEMPTS: Final = 4
STOPPING_RETRY_SECONDS: Final = 0.05
READ_BYTES: Final = 1 << 16


def open_session(
    settings: Settings, server: str = "lineage", client_id: str = "", watched_maps: Sequence[str] = ()
) -> socket.socket:
    """Return a connection to an MCP session of the daemon. Start the daemon if none is running.

    The arguments are those of `McpCall`. Raise DaemonUnavailable if there can be no daemon.
    """
    paths = DaemonPaths(settings.home)
    call = {
        "cwd": os.getcwd(),  # noqa: PTH109 - the path as text
        "precision": settings.reranker_precision,
        "server": server,
        "maps_dir": str(settings.maps_dir),
        "client_id": client_id,
        "watched_maps": list(watched_maps),
    }
    body = json.dumps(call).encode()
    for _ in range(MAX_ATTEMPTS):
        response = _request(paths, process.MCP_TARGET, process.build_identity_headers(), body)
        if response is None:
            process.start_daemon(paths)
            continue
        status, content, connection = response
        if status == process.STATUS_SWITCHING_PROTOCOLS:
            return connection
        connection.close()
        if status == process.STATUS_OTHER_BUILD:
            other_build = {process.BUILD_HEADER: content.decode()}
            if stopped := _request(paths, process.STOP_TARGET, other_build, b""):
                stopped[2].close()
        elif status == process.STATUS_STOPPING:
            time.sleep(STOPPING_RETRY_SECONDS)
        elif status:
            raise DaemonUnavailable(f"The daemon refused the session (status {status}).")
    raise DaemonUnavailable("The daemon keeps stopping.", hint=f"See its log: {paths.log}.")


def _request(
    paths: DaemonPaths, target: str, fields: dict[str, str], body: bytes
) -> tuple[int, bytes, socket.socket] | None:
    """Send a POST request; return status, content and connection, or None if no daemon is running.

    The status is 0 if the daemon ended before it responded.
    """
    try:
        connection = process.connect(paths)
    except (FileNotFoundError, NotADirectoryError, ConnectionError):
        return None
    except OSError as error:
        raise DaemonUnavailable(
            f"Cannot connect to the daemon: {errors.from_os_error(error) or error}"
        ) from error
    head = {"Host": "localhost", "Content-Length": str(len(body)), **fields}
    lines = [f"POST {target} HTTP/1.1", *(f"{name}: {value}" for name, value in head.items()), "", ""]
    try:
        connection.sendall("\r\n".join(lines).encode() + body)
        return *_read_response(connection), connection
    except ConnectionError:
        return 0, b"", connection
    except BaseException:
        connection.close()
        raise


def _read_response(connection: socket.socket) -> tuple[int, bytes]:
    pid = process.read_peer_pid(connection)
    deadline = time.monotonic() + ACCEPT_TIMEOUT_SECONDS
    data = b""
    while not _is_complete(data):
        while not select.select([connection], [], [], SUSPENDED_POLL_SECONDS)[0]:
            if time.monotonic() > deadline or (pid is not None and locks.is_process_suspended(pid)):
                raise DaemonUnavailable("The daemon does not respond.")
        received = connection.recv(READ_BYTES)
        if not received:
            return 0, b""
        data += received
    head, _, content = data.partition(b"\r\n\r\n")
    return int(head.split(b" ", 2)[1]), content


def _is_complete(data: bytes) -> bool:
    """Return True if the response is complete. That of a session has no content; its lines come after it."""
    head, end, content = data.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
    return bool(end) and len(content) >= int(fields.get(b"content-length", b"0"))
