"""Client of the daemon. It starts the daemon if none is running, and replaces one of another build."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final, TypeVar

from pipeline.interrupts import check_cancelled
from pipeline.options import Precision
from serve.api_types import NamedRepository
from serve.daemon import process, protocol
from serve.daemon.process import DaemonPaths, DaemonUnavailable, Response
from serve.explain_types import ExplainAnswer, ExplainRequest
from serve.find_types import FindAnswer, FindRequest
from stores.errors import LineageError

# Longest wait for data. A request may wait 10 s for a process that writes the index, and 10 s for a slow disk.
TIMEOUT_SECONDS: Final = 120.0
# Longest wait for the status, which the daemon reports within a millisecond, even while it works on requests.
STATUS_TIMEOUT_SECONDS: Final = 10.0
# A request that crashed this many daemons fails. It would crash the next one too, and so end other clients' requests.
MAX_CRASHES: Final = 2

AnswerType = TypeVar("AnswerType")


class DaemonFailed(LineageError):
    """Error for a request on which the daemon crashed or had an unexpected error."""


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
        response = self._send("/status", None, {}, min(self.timeout_seconds, STATUS_TIMEOUT_SECONDS))
        if response is None or response.status in (process.NO_STATUS, process.STATUS_STOPPING):
            return None
        return _parse_response(response, protocol.StatusReport, self.paths)

    def stop(self, build_id: str | None = None) -> bool:
        """Stop the daemon after its running requests, and wait for its end. Return False if no daemon is running.

        With `build_id`, stop only a daemon of that build, and do not wait.
        """
        headers = {} if build_id is None else {process.BUILD_HEADER: build_id}
        if self._send(process.STOP_TARGET, b"", headers, self.timeout_seconds) is None:
            return False
        if build_id is None:
            process.wait_until_stopped(self.paths)
        return True

    def _call(self, target: str, request: object, answer_type: type[AnswerType]) -> AnswerType:
        """Send a request and return the answer. Start or replace the daemon if needed."""
        body, crashes, is_daemon_gone = protocol.encode(request), 0, False
        for _ in range(process.MAX_ATTEMPTS):
            response = self._send(target, body, process.build_identity_headers(), self.timeout_seconds)
            if response is None:
                process.start_daemon(self.paths)
                is_daemon_gone = False
            elif response.status == process.NO_STATUS:
                if is_daemon_gone:
                    raise DaemonUnavailable(
                        f"Another program listens on {self.paths.socket}.",
                        hint="End it, and delete the socket.",
                    )
                crashes += 1
                if crashes == MAX_CRASHES:
                    raise DaemonFailed(
                        "The daemon crashed twice on this request.",
                        hint=f"Check the index with `lineage doctor`. See also the daemon's log: {self.paths.log}.",
                    )
                # While the system ends a process, its socket can accept another connection, which is then closed too.
                with suppress(OSError, DaemonUnavailable):
                    process.wait_until_stopped(self.paths, process.CRASH_WAIT_SECONDS)
                    is_daemon_gone = True
            elif response.status == process.STATUS_OTHER_BUILD:
                self.stop(response.content.decode())
            elif response.status == process.STATUS_STOPPING:
                time.sleep(process.STOPPING_RETRY_SECONDS)
            else:
                return _parse_response(response, answer_type, self.paths)
        raise DaemonUnavailable("The daemon keeps stopping.", hint=f"See its log: {self.paths.log}.")

    def _send(
        self, target: str, body: bytes | None, headers: dict[str, str], timeout_seconds: float
    ) -> Response | None:
        """Send a request and return the response, or None if no daemon is running.

        Raises DaemonUnavailable as `process.send_request` does, and if the daemon hangs and so reports no status.
        """
        next_status_check = time.monotonic() + STATUS_TIMEOUT_SECONDS

        def on_wait(connection: socket.socket) -> None:
            nonlocal next_status_check
            check_cancelled()
            # A daemon that works on a long request reports its status, but one that hangs does not.
            if timeout_seconds > STATUS_TIMEOUT_SECONDS and time.monotonic() > next_status_check:
                try:
                    self.fetch_status()
                except DaemonUnavailable:
                    if not process.wait_for_data(connection, 0):  # no response has come meanwhile
                        raise
                next_status_check = time.monotonic() + STATUS_TIMEOUT_SECONDS

        response = process.send_request(
            self.paths, target, headers, body, timeout_seconds=timeout_seconds, on_wait=on_wait
        )
        if response is not None:
            response.connection.close()
        return response


def _parse_response(response: Response, answer_type: type[AnswerType], paths: DaemonPaths) -> AnswerType:
    """Return the answer in a response. If the daemon sent an error instead, raise it."""
    if response.status == process.STATUS_REQUEST_FAILED:
        raise protocol.decode(response.content, protocol.ErrorResponse).error
    if response.status == process.STATUS_OTHER_GIT_CONFIG:
        raise DaemonUnavailable("The daemon uses the git configuration of another HOME.")
    if response.status != HTTPStatus.OK:
        raise _create_failure("The daemon had an unexpected error.", paths)
    try:
        return protocol.decode(response.content, answer_type)
    except ValueError as error:
        raise DaemonUnavailable(
            "The daemon has another version than this program.", hint="Restart this program."
        ) from error


def _create_failure(message: str, paths: DaemonPaths) -> DaemonFailed:
    return DaemonFailed(
        message,
        hint=f"See its log: {paths.log}. Use --no-daemon or LINEAGE_NO_DAEMON=1 to work without the daemon.",
    )
