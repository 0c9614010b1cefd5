"""Daemon process of an index directory: its files, its build id, its start and end, and requests to it.

There is one daemon for each index directory, however many programs start one at the same time. Its directory and its
socket are accessible only to their owner, so no other user can connect.

This module and the modules that it imports need only the standard library, so programs that relay MCP sessions start
quickly.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import select
import socket
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from serve import config
from stores import errors, locks
from stores.errors import LineageError
from stores.locks import Deadline

DIRECTORY_NAME: Final = "daemon"
SOCKET_NAME: Final = "socket"
# Longest path of a Unix socket on macOS, without its final zero byte. Linux allows 107 bytes.
MAX_SOCKET_PATH_BYTES: Final = 103
# Parent of the socket's directory if the default path is too long. Not TMPDIR: it may differ between programs.
SHORT_DIRECTORY: Final = Path("/tmp")  # noqa: S108 - the owner of the directory in it is checked
DIGEST_BYTES: Final = 8
# Process id, user id and group id of the process at the other end of a socket.
_CREDENTIALS: Final = struct.Struct("3i")

# Packages and suffixes of the files that determine how a request is answered.
PACKAGES: Final = ("serve", "pipeline", "stores", "mindmap")
SOURCE_SUFFIXES: Final = (".py", ".sql", ".scm")
_ROOT: Final = Path(__file__).resolve().parent.parent.parent

# Starting Python and Tornado takes 0.2 s, and ten times as long on a busy machine.
START_TIMEOUT_SECONDS: Final = 20.0
# A stopping daemon waits up to 30 s for its running requests.
STOP_TIMEOUT_SECONDS: Final = 35.0
START_POLL_SECONDS: Final = 0.01
MAX_LOG_BYTES: Final = 1_000_000
# Size of the end of the log that an error quotes if the daemon does not start.
LOG_TAIL_BYTES: Final = 2_000
MOVE_HINT: Final = "Move or delete it, or set LINEAGE_NO_DAEMON=1 to work without the daemon."

# Daemons that this process started. They continue to run after its end.
_children: Final[list[subprocess.Popen[bytes]]] = []

# Build id of the client. The daemon rejects calls of another build.
BUILD_HEADER: Final = "Lineage-Build"
# Digest of the paths of the directories in which git looks for the user's configuration. The daemon rejects calls with
# another digest.
GIT_CONFIG_HEADER: Final = "Lineage-Git-Config"
# Target of the request that turns its connection into an MCP session: lines of JSON-RPC in both directions.
MCP_TARGET: Final = "/mcp"
STOP_TARGET: Final = "/stop"
# Status of a response that the daemon did not send, because it ended.
NO_STATUS: Final = 0
STATUS_SWITCHING_PROTOCOLS: Final = 101
# Status of a response that contains a LineageError.
STATUS_REQUEST_FAILED: Final = 400
STATUS_OTHER_BUILD: Final = 409
STATUS_OTHER_GIT_CONFIG: Final = 412
STATUS_STOPPING: Final = 503

# Default timeout of a request. For its first MCP session, the daemon imports a library: 1 s, or 10 s if it is busy.
RESPONSE_TIMEOUT_SECONDS: Final = 30.0
# Interval of the check for a suspended daemon while a program waits for it.
SUSPENDED_POLL_SECONDS: Final = 1.0
# Maximum number of times a request is sent. It is sent again if no daemon runs, or if the daemon has another build, is
# stopping or crashes.
MAX_ATTEMPTS: Final = 4
STOPPING_RETRY_SECONDS: Final = 0.05  # pause before a request is sent again, if the daemon is stopping
# Maximum wait for the end of a daemon that closed a connection without a response.
CRASH_WAIT_SECONDS: Final = 1.0
READ_BYTES: Final = 1 << 16  # maximum number of bytes to read from a connection in one call


class DaemonUnavailable(LineageError):
    """Error for a daemon that cannot be started or does not respond."""


@dataclass(frozen=True, slots=True)
class DaemonPaths:
    """Files of the daemon of the index directory `home`."""

    home: Path

    @property
    def directory(self) -> Path:
        """Directory of the daemon's locks and log."""
        return self.home / DIRECTORY_NAME

    @property
    def socket(self) -> Path:
        """Unix socket: in the daemon's directory, or in a directory with a short path if that path is too long."""
        default = self.directory / SOCKET_NAME
        if len(os.fsencode(default)) <= MAX_SOCKET_PATH_BYTES:
            return default
        digest = hashlib.blake2b(os.fsencode(self.home), digest_size=DIGEST_BYTES).hexdigest()
        return SHORT_DIRECTORY / f"lineage-{os.getuid()}-{digest}" / SOCKET_NAME

    @property
    def lock(self) -> Path:
        """Lock file that the daemon holds while it runs. It contains the process id."""
        return self.directory / "daemon.lock"

    @property
    def start_lock(self) -> Path:
        """Lock file of a program that is starting the daemon."""
        return self.directory / "starting.lock"

    @property
    def log(self) -> Path:
        """Log file of the daemon."""
        return self.directory / "daemon.log"

    def create_directories(self) -> None:
        """Create the directories, accessible only to their owner."""
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        directories = {self.directory, self.socket.parent}
        for directory in directories:
            with suppress(FileExistsError):
                directory.mkdir(mode=0o700)
        self.check_files()
        for directory in directories:
            _make_private(directory)

    def check_files(self) -> None:
        """Raise DaemonUnavailable if a file belongs to another user or has a wrong type, such as directory."""
        for path, is_expected, name in (
            (self.directory, stat.S_ISDIR, "directory"),
            (self.socket.parent, stat.S_ISDIR, "directory"),
            (self.socket, stat.S_ISSOCK, "socket"),
            (self.lock, stat.S_ISREG, "file"),
            (self.start_lock, stat.S_ISREG, "file"),
            (self.log, stat.S_ISREG, "file"),
        ):
            with suppress(FileNotFoundError, NotADirectoryError):
                status = path.lstat()
                if status.st_uid != os.getuid():
                    raise DaemonUnavailable(f"{path} belongs to another user.", hint=MOVE_HINT)
                if not is_expected(status.st_mode):
                    raise DaemonUnavailable(f"{path} is not a {name}.", hint=MOVE_HINT)


def _make_private(directory: Path) -> None:
    """Remove the permissions of the group and of other users."""
    if stat.S_IMODE(directory.stat().st_mode) & 0o077:
        directory.chmod(0o700)


def compute_build_id() -> str:
    """Return a digest of the installed sources. Two installations with the same digest answer in the same way.

    The digest is computed from the files on disk, not from the loaded code. After an upgrade, a process that still runs
    the old code gets the new id too, so all clients use the same daemon.
    """
    return _compute_source_digest(
        tuple((path, status.st_mtime_ns, status.st_size) for path, status in _iter_source_files())
    )


def compute_git_config_digest() -> str:
    """Return a digest of the paths of the directories in which git looks for the user's configuration."""
    return hashlib.blake2b(os.fsencode(config.build_git_config_key()), digest_size=DIGEST_BYTES).hexdigest()


def _iter_source_files() -> Iterator[tuple[Path, os.stat_result]]:
    """Yield path and status of each file of PACKAGES with one of SOURCE_SUFFIXES, always in the same order."""
    web_sources = _ROOT / "mindmap" / "web"  # thousands of files in a checkout
    for package in PACKAGES:
        for directory, subdirectories, files in os.walk(_ROOT / package):
            subdirectories[:] = sorted(
                name for name in subdirectories if Path(directory, name) != web_sources
            )
            paths = (Path(directory, name) for name in sorted(files) if name.endswith(SOURCE_SUFFIXES))
            yield from ((path, path.stat()) for path in paths)


@lru_cache(maxsize=2)
def _compute_source_digest(sources: tuple[tuple[Path, int, int], ...]) -> str:
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for path, _, _ in sources:
        digest.update(os.fsencode(path.relative_to(_ROOT)) + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


@atexit.register
def _detach_children() -> None:
    """Let the daemons that this process started continue to run, without a warning at exit."""
    # With a return code, Popen does not warn about a process that is still running.
    for child in _children:
        if child.poll() is None:
            child.returncode = 0


def connect(paths: DaemonPaths) -> socket.socket:
    """Connect to the daemon.

    Raise FileNotFoundError or ConnectionRefusedError if none is running, and DaemonUnavailable as `check_files` does.
    """
    paths.check_files()
    _make_private(paths.socket.parent)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(os.fsencode(paths.socket))
    except BaseException:
        connection.close()
        raise
    return connection


def read_peer_pid(connection: socket.socket) -> int | None:
    """Return the process id of the daemon at the other end; None on other systems than Linux."""
    if sys.platform != "linux":
        return None
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, _, _ = _CREDENTIALS.unpack(credentials)
    return int(pid)


def is_running(paths: DaemonPaths) -> bool:
    """Return whether a daemon accepts connections."""
    with suppress(FileNotFoundError, ConnectionRefusedError):
        connect(paths).close()
        return True
    return False


def start_daemon(paths: DaemonPaths) -> None:
    """Start a daemon unless one is running or being started, and wait for it. Raise DaemonUnavailable on failure."""
    try:
        paths.create_directories()
        with locks.acquire_exclusive_lock(
            paths.start_lock,
            Deadline.after(START_TIMEOUT_SECONDS + STOP_TIMEOUT_SECONDS, _create_start_timeout_error),
        ):
            if not is_running(paths):
                wait_until_stopped(paths)  # an earlier daemon may hold the lock without its socket
                _spawn_daemon(paths)
    except OSError as error:
        reason = errors.from_os_error(error) or error
        raise DaemonUnavailable(f"The daemon cannot be started: {reason}") from error


def wait_until_stopped(paths: DaemonPaths, timeout_seconds: float = STOP_TIMEOUT_SECONDS) -> None:
    """Wait until a daemon that is stopping has released its lock. Raise DaemonUnavailable on timeout."""
    deadline = Deadline.after(timeout_seconds, _create_stop_timeout_error)
    with suppress(FileNotFoundError), locks.acquire_exclusive_lock(paths.lock, deadline):
        pass


def _create_start_timeout_error(seconds: float) -> DaemonUnavailable:
    return DaemonUnavailable(f"Another program has been starting the daemon for {seconds:g} s.")


def _create_stop_timeout_error(seconds: float) -> DaemonUnavailable:
    return DaemonUnavailable(
        f"The previous daemon has not ended within {seconds:g} s. It may be working on requests.",
        hint="Wait for it, or end its process with `kill`.",
    )


def _spawn_daemon(paths: DaemonPaths) -> None:
    """Start a daemon process and wait until it accepts connections. Raise DaemonUnavailable on failure."""
    # `poll` reaps daemons that have exited.
    _children[:] = [child for child in _children if child.poll() is None]
    _rotate_log(paths.log)
    paths.log.touch(mode=0o600)
    with paths.log.open("ab") as log:
        log_offset = log.tell()
        child = subprocess.Popen(
            # With -P, a package named `serve` in the working directory is not imported.
            [sys.executable, "-P", "-m", "serve.daemon.server"],
            cwd=paths.directory,
            env=config.build_daemon_environment(paths.home),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    _children.append(child)
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while not is_running(paths):
        has_exited = child.poll() is not None
        if has_exited or time.monotonic() > deadline:
            message = _read_last_message(paths.log, log_offset) or "it exited without a message."
            reason = message if has_exited else f"it accepts no call after {START_TIMEOUT_SECONDS:g} s."
            raise DaemonUnavailable(f"The daemon did not start: {reason}", hint=f"See its log: {paths.log}.")
        time.sleep(START_POLL_SECONDS)


def _rotate_log(log: Path) -> None:
    """Rename a log that has grown too large. One old log remains."""
    if log.exists() and log.stat().st_size > MAX_LOG_BYTES:
        log.replace(log.with_suffix(".old"))


def _read_last_message(log: Path, offset: int) -> str:
    """Return the last message after `offset` bytes of the log: of a traceback, only the line that names the error."""
    with log.open("rb") as file:
        file.seek(offset)
        tail = file.read()[-LOG_TAIL_BYTES:].decode("utf-8", "replace").rstrip()
    # The other lines of a traceback, and the hint of an error, are indented.
    return re.split(r"\n(?! )", tail)[-1].removeprefix("error: ")


def build_identity_headers() -> dict[str, str]:
    """Return the headers with the build id and the digest of `compute_git_config_digest`."""
    return {BUILD_HEADER: compute_build_id(), GIT_CONFIG_HEADER: compute_git_config_digest()}


@dataclass(frozen=True, slots=True)
class Response:
    """Response of the daemon. The caller closes `connection`. `status`: NO_STATUS if the daemon sent none."""

    connection: socket.socket
    status: int
    content: bytes


def send_request(
    paths: DaemonPaths,
    target: str,
    headers: dict[str, str],
    body: bytes | None,
    *,
    timeout_seconds: float = RESPONSE_TIMEOUT_SECONDS,
    on_wait: Callable[[socket.socket], None] = lambda _: None,
) -> Response | None:
    """Send a POST request, or GET without a body. Return the response, or None if no daemon is running.

    `on_wait`: called with the connection about every second of the wait. Raises DaemonUnavailable after
    `timeout_seconds`, if the daemon is suspended, if another program responds, if the system reports an error of the
    connection, or as `DaemonPaths.check_files` does.
    """
    try:
        connection = connect(paths)
    except (FileNotFoundError, NotADirectoryError, ConnectionError):
        return None
    except OSError as error:
        raise _create_connection_error(error) from error
    headers = {"Host": "localhost", "Content-Length": str(len(body or b"")), **headers}
    method = "GET" if body is None else "POST"
    lines = [
        f"{method} {target} HTTP/1.1",
        *(f"{name}: {value}" for name, value in headers.items()),
        "",
        "",
    ]
    try:
        connection.settimeout(timeout_seconds)
        connection.sendall("\r\n".join(lines).encode() + (body or b""))
        response = _read_response(connection, paths, timeout_seconds, on_wait)
        connection.settimeout(None)
        return response
    except TimeoutError as error:
        connection.close()
        raise DaemonUnavailable(
            f"The daemon did not answer within {timeout_seconds:g} s.",
            hint=f"Run `lineage daemon stop`. If that fails too, delete {paths.socket}.",
        ) from error
    except ConnectionError:
        return Response(connection, NO_STATUS, b"")
    except OSError as error:
        connection.close()
        raise _create_connection_error(error) from error
    except BaseException:
        connection.close()
        raise


def _create_connection_error(error: OSError) -> DaemonUnavailable:
    reason = errors.from_os_error(error) or error
    return DaemonUnavailable(f"The connection to the daemon failed: {reason}")


def wait_for_data(connection: socket.socket, timeout_seconds: float) -> bool:
    """Wait for data or the end of a connection. Return False if there is neither after `timeout_seconds`."""
    poll = select.poll()  # `select.select` fails for file descriptors from 1,024
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(timeout_seconds * 1_000))


def _read_response(
    connection: socket.socket,
    paths: DaemonPaths,
    timeout_seconds: float,
    on_wait: Callable[[socket.socket], None],
) -> Response:
    """Read a response. Raises TimeoutError after `timeout_seconds`, and DaemonUnavailable as `send_request` does."""
    pid = read_peer_pid(connection)
    deadline = time.monotonic() + timeout_seconds
    data = b""
    while (remaining_seconds := deadline - time.monotonic()) > 0:
        poll_seconds = min(SUSPENDED_POLL_SECONDS, remaining_seconds)
        if not wait_for_data(connection, poll_seconds):
            if pid is not None and locks.is_process_suspended(pid):
                raise DaemonUnavailable(
                    f"The daemon (process {pid}) is suspended.",
                    hint=f"Continue it with `kill -CONT {pid}`, or end it with `kill -KILL {pid}`.",
                )
            on_wait(connection)
            continue
        received = connection.recv(READ_BYTES)
        if not received:
            return Response(connection, NO_STATUS, b"")
        data += received
        try:
            response = _parse_response(data)
        except (ValueError, IndexError) as error:
            raise DaemonUnavailable(
                f"The process that listens on {paths.socket} is not a lineage daemon.",
                hint="End that process, and delete the file.",
            ) from error
        if response:
            return Response(connection, *response)
    raise TimeoutError


def _parse_response(data: bytes) -> tuple[int, bytes] | None:
    """Return the status and the content of a response; None if bytes are missing.

    A response that opens a session has no content. Raises ValueError or IndexError for data that is not HTTP.
    """
    head, end, content = data.partition(b"\r\n\r\n")
    headers = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
    if not end or len(content) < int(headers.get(b"content-length", b"0")):
        return None
    return int(head.split(b" ", 2)[1]), content  # the first line is such as `HTTP/1.1 200 OK`
