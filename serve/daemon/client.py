"""Client of the daemon. It starts the daemon if none is running, and replaces one of another build."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Final, TypeVar

from pipeline.interrupts import check_cancelled
from pipeline.options import Precision
from serve.api_types import NamedRepository
from serve.daemon import process, protocol
from serve.daemon.process import DaemonPaths, DaemonUnavailable
from serve.explain_types import ExplainAnswer, ExplainRequest
from serve.find_types import FindAnswer, FindRequest
from stores import errors, locks
from stores.errors import LineageError

# Longest wait for data. A request may wait 10 s for a process that writes the index, and 10 s for a slow disk.
TIMEOUT_SECONDS: Final = 120.0
# Longest wait for the status, which the daemon reports within a millisecond, even while it works on requests.
STATUS_TIMEOUT_SECONDS: Final = 10.0
# A request that crashes two daemons would crash a third one too, and so end the requests of other clients.
MAX_CRASHES: Final = 2

AnswerType = TypeVar("AnswerType")


class DaemonFailed(LineageError):
    """Error for a daemon that crashed or had an unexpected error."""


class _ConnectionLost(Exception):
    """Error for a connection that the daemon closed before it responded."""


@dataclass(frozen=True, slots=True)
class _Response:
    status: int
    body: bytes


class _Connection(HTTPConnection):
    """HTTP connection to the daemon's Unix socket."""

    def __init__(self, paths: DaemonPaths, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._paths = paths

    def connect(self) -> None:
        self.sock: socket.socket = process.connect(self._paths)
        self.sock.settimeout(self.timeout)


@dataclass(frozen=True, slots=True)
class DaemonClient:
    """Client of the daemon of an index directory. Its methods raise DaemonUnavailable if no daemon can be used.

    `precision`: numeric precision of the cross-encoder. `timeout_seconds`: longest wait for data from the daemon.
    """

    paths: DaemonPaths
    precision: Precision = Precision.FULL
    timeout_seconds: float = TIMEOUT_SECONDS

    def find(self, request: FindRequest, path: Path) -> FindAnswer:
        """Find commits whose changes match a description. `path`: absolute path of the repository."""
        return self._call("/find", protocol.FindCall(str(path), self.precision, request), FindAnswer)

    def find_in_repositories(
        self, request: FindRequest, repositories: Sequence[NamedRepository]
    ) -> FindAnswer:
        """Find commits of several repositories whose changes match a description."""
        call = protocol.FindInRepositoriesCall(tuple(repositories), self.precision, request)
        return self._call("/find-in-repositories", call, FindAnswer)

    def explain(self, request: ExplainRequest, path: Path, cwd: Path | None = None) -> ExplainAnswer:
        """Return the commits that wrote lines of a file.

        `path`: absolute path of the repository. `cwd`: directory that the file name may be relative to.
        """
        call = protocol.ExplainCall(str(path), str(cwd) if cwd else None, request)
        return self._call("/explain", call, ExplainAnswer)

    def fetch_status(self) -> protocol.StatusReport | None:
        """Return the status of the daemon, or None if none is running or it is stopping. No daemon is started."""
        try:
            response = self._send(
                "GET", "/status", b"", {}, min(self.timeout_seconds, STATUS_TIMEOUT_SECONDS)
            )
        except _ConnectionLost:
            return None
        if response is None or response.status == process.STATUS_STOPPING:
            return None
        return _parse_response(response, protocol.StatusReport, self.paths)

    def stop(self, build_id: str | None = None) -> bool:
        """Stop the daemon after its running requests, and wait for its end. Return False if no daemon is running.

        With `build_id`, stop only a daemon of that build, and do not wait.
        """
        headers = {} if build_id is None else {process.BUILD_HEADER: build_id}
        with suppress(_ConnectionLost):  # the daemon may exit before it responds
            if self._send("POST", process.STOP_TARGET, b"", headers) is None:
                return False
        if build_id is None:
            process.wait_until_stopped(self.paths)
        return True

    def _call(self, target: str, request: object, answer_type: type[AnswerType]) -> AnswerType:
        """Send a request and return the answer. Start or replace the daemon if needed."""
        body, crashes = protocol.encode(request), 0
        for _ in range(process.MAX_ATTEMPTS):
            try:
                response = self._send("POST", target, body, process.build_identity_headers())
            except _ConnectionLost as error:
                crashes += 1
                if crashes == MAX_CRASHES:
                    raise _create_failure("The daemon crashed twice on this request.", self.paths) from error
                continue
            if response is None:
                process.start_daemon(self.paths)
            elif response.status == process.STATUS_OTHER_BUILD:
                self.stop(response.body.decode())
            elif response.status == process.STATUS_STOPPING:
                time.sleep(process.STOPPING_RETRY_SECONDS)
            else:
                return _parse_response(response, answer_type, self.paths)
        raise DaemonUnavailable("The daemon keeps stopping.", hint=f"See its log: {self.paths.log}.")

    def _send(
        self,
        method: str,
        target: str,
        body: bytes,
        headers: dict[str, str],
        timeout_seconds: float | None = None,
    ) -> _Response | None:
        """Send a request and return the response, or None if no daemon is running."""
        timeout_seconds = timeout_seconds or self.timeout_seconds
        connection = _Connection(self.paths, timeout_seconds)
        try:
            try:
                connection.connect()
            except (FileNotFoundError, NotADirectoryError, ConnectionError):
                return None
            connection.request(method, target, body, headers)
            self._wait_for_response(connection.sock, timeout_seconds)
            response: HTTPResponse = connection.getresponse()
            return _Response(response.status, response.read())
        except TimeoutError as error:
            raise DaemonUnavailable(
                f"The daemon did not answer within {timeout_seconds:g} s.",
                hint=f"Run `lineage daemon stop`. If that fails too, delete {self.paths.socket}.",
            ) from error
        except (ConnectionError, HTTPException) as error:
            raise _ConnectionLost from error
        except OSError as error:
            reason = errors.from_os_error(error) or error
            raise DaemonUnavailable(f"Cannot connect to the daemon: {reason}") from error
        finally:
            connection.close()

    def _wait_for_response(self, connection: socket.socket, timeout_seconds: float) -> None:
        """Wait until the daemon responds or closes the connection.

        Raises TimeoutError after `timeout_seconds`, and DaemonUnavailable if the daemon is suspended or does not react.
        """
        pid = process.read_peer_pid(connection)
        deadline = time.monotonic() + timeout_seconds
        next_status = time.monotonic() + STATUS_TIMEOUT_SECONDS
        while (remaining_seconds := deadline - time.monotonic()) > 0:
            check_cancelled()
            connection.settimeout(min(process.SUSPENDED_POLL_SECONDS, remaining_seconds))
            with suppress(TimeoutError):
                connection.recv(1, socket.MSG_PEEK)
                connection.settimeout(timeout_seconds)
                return
            if pid is not None and locks.is_process_suspended(pid):
                raise DaemonUnavailable(
                    f"The daemon (process {pid}) is suspended.",
                    hint=f"Continue it with `kill -CONT {pid}`, or end it with `kill -KILL {pid}`.",
                )
            # A daemon that works on a long request reports its status, but one that hangs does not.
            if timeout_seconds > STATUS_TIMEOUT_SECONDS and time.monotonic() > next_status:
                try:
                    self.fetch_status()
                except DaemonUnavailable:
                    has_responded_meanwhile = bool(select.select([connection], [], [], 0)[0])
                    if not has_responded_meanwhile:
                        raise
                next_status = time.monotonic() + STATUS_TIMEOUT_SECONDS
        raise TimeoutError


def _parse_response(response: _Response, answer_type: type[AnswerType], paths: DaemonPaths) -> AnswerType:
    """Return the answer in a response. Raise the error that the daemon sent in its place."""
    if response.status == process.STATUS_ERROR:
        raise protocol.decode(response.body, protocol.ErrorResponse).error
    if response.status == process.STATUS_OTHER_GIT_CONFIG:
        raise DaemonUnavailable("The daemon uses the git configuration of another HOME.")
    if response.status != HTTPStatus.OK:
        raise _create_failure("The daemon had an unexpected error.", paths)
    try:
        return protocol.decode(response.body, answer_type)
    except ValueError as error:
        raise DaemonUnavailable(
            "The daemon has another version than this program.", hint="Restart this program."
        ) from error


def _create_failure(message: str, paths: DaemonPaths) -> DaemonFailed:
    return DaemonFailed(
        message,
        hint=f"See its log: {paths.log}. Use --no-daemon or LINEAGE_NO_DAEMON=1 to work without the daemon.",
    )
