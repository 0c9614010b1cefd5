"""HTTP server of the mindmap viewer: routes and their handlers, port selection, start and shutdown."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream
from tornado.web import Application

from mindmap.document import utc_now
from mindmap.export import FORMATS
from mindmap.git_sync import WorkspaceSync
from mindmap.questions import add_comment, answer_question
from pipeline.git import git_cli
from serve import config, server_common
from serve.backend import Backend
from serve.errors import BadRequest
from serve.repositories import open_git
from serve.text import escape_controls, escape_json_controls
from serve.viewer import discovery
from serve.viewer.discovery import HOST, STATUS_PATH
from serve.viewer.handlers import (
    EventStreamHandler,
    JsonPostHandler,
    NotFoundHandler,
    SameOriginHandler,
    ViewerHandler,
)
from serve.viewer.responses import EVENTS_PATH, PAGE_FILES, TEXT, Compression, read_page_file
from serve.viewer.state import CommitLookup, LineageLookup, ViewerState
from stores.errors import LineageError
from stores.mindmap_files import FolderUnusable, check_id

# This port is not registered with IANA, and not used by common developer tools.
DEFAULT_PORT: Final = 4870
# Number of ports to try, starting with the requested one.
PORT_ATTEMPTS: Final = 50
LAST_PORT: Final = 65_535
# Number of connections that may wait until the server accepts them.
BACKLOG: Final = 512
# Longest times for a client to send its request. A slower client would occupy a connection that others need.
HEADER_TIMEOUT_SECONDS: Final = 20.0
BODY_TIMEOUT_SECONDS: Final = 15.0
MAX_HEADER_BYTES: Final = 16 << 10
# Enough for all event streams (`MAX_LISTENERS`) and the other requests of a few pages. Each connection is an open file.
MAX_CONNECTIONS: Final = 800
OPEN_FILE_LIMIT: Final = 2_048
# Longest time that the viewer waits for slow tasks and event streams after a signal.
SHUTDOWN_SECONDS: Final = 5.0
# Longest time that the viewer waits for connections to close after that.
CLOSE_SECONDS: Final = 1.0
# Interval of checks for the end of slow tasks and event streams.
SHUTDOWN_CHECK_SECONDS: Final = 0.02
# Interval of attempts to publish this viewer's address, if no other viewer of the directory has done so.
PUBLISH_CHECK_SECONDS: Final = 0.5
SYNC_HINT: Final = (
    'Send {"mindmapId": "...", "workspacePath": "..."}. Omit workspacePath if the map has a workspace.'
)
ANSWER_HINT: Final = 'Send {"mindmapId": "...", "questionId": "...", "answer": "..."}.'
COMMENT_HINT: Final = 'Send {"mindmapId": "...", "nodeId": "...", "text": "..."}.'
FILE_EXTENSIONS: Final = {"markdown": "md", "mermaid": "mmd", "json": "json"}

Route = tuple[str, type[ViewerHandler], dict[str, Any]]
RequestType = TypeVar("RequestType", bound=msgspec.Struct)

logger = logging.getLogger(__name__)


class PortUnavailable(LineageError):
    """Error if the viewer can listen on none of the tried ports."""


@dataclass(frozen=True, slots=True)
class BoundSocket:
    """A listening socket and its port."""

    socket: socket.socket
    port: int


def bind_port(port: int) -> BoundSocket:
    """Listen on this port, or on the next free one if it is in use; 0 means any free port. Raises PortUnavailable."""
    last_port = min(port + PORT_ATTEMPTS - 1, LAST_PORT) if port else 0
    for tried_port in range(port, last_port + 1):
        try:
            server_socket = socket.create_server((HOST, tried_port), backlog=BACKLOG)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise PortUnavailable(
                    f"Cannot listen on port {tried_port}: {error.strerror}.",
                    hint="Choose another port with --port.",
                ) from error
        else:
            server_socket.setblocking(False)
            return BoundSocket(server_socket, server_socket.getsockname()[1])
    raise PortUnavailable(
        f"Ports {port} to {last_port} are all in use.", hint="Choose another port with --port."
    )


class _LimitedServer(HTTPServer):
    """HTTP server that closes connections above MAX_CONNECTIONS."""

    def handle_stream(self, stream: IOStream, address: tuple[Any, ...]) -> None:
        if len(self._connections) >= MAX_CONNECTIONS:
            stream.close()
        else:
            super().handle_stream(stream, address)


def run_viewer(
    directory: Path, bound_socket: BoundSocket, backend: Backend, on_ready: Callable[[], None]
) -> None:
    """Serve the maps of a directory until SIGINT or SIGTERM. `on_ready` is called when the page can be opened."""
    create_directory(directory)
    raise_file_limit()
    # Tornado logs malformed requests at level INFO, which is hidden here.
    logging.getLogger("tornado.general").setLevel(logging.WARNING)
    has_finished = asyncio.run(_run_until_shutdown(directory, bound_socket, backend, on_ready))
    if not has_finished:
        # A normal exit would wait until the threads end, however long git takes.
        git_cli.kill_running()
        logger.warning("event=ended Some tasks were still running and were abandoned.")
        sys.stderr.flush()
        sys.stdout.flush()
        os._exit(0)


def create_directory(directory: Path) -> None:
    """Create the data directory. Raise FolderUnusable if that fails."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise FolderUnusable(
            f"Cannot use {directory} as data directory: {error.strerror or error}.",
            hint="Set MINDMAP_DATA_DIR to another directory.",
        ) from error


def raise_file_limit() -> None:
    """Raise the limit of open files to OPEN_FILE_LIMIT, enough for all connections. On macOS the default is 256."""
    soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    new_limit = OPEN_FILE_LIMIT if hard_limit == resource.RLIM_INFINITY else min(OPEN_FILE_LIMIT, hard_limit)
    if soft_limit != resource.RLIM_INFINITY and soft_limit < new_limit:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (new_limit, hard_limit))


async def _run_until_shutdown(
    directory: Path, bound_socket: BoundSocket, backend: Backend, on_ready: Callable[[], None]
) -> bool:
    """Run the server. Return True if all slow tasks had finished at shutdown."""
    with discovery.publish_address(directory, bound_socket.port) as address_file:
        viewer = ViewerState(directory, bound_socket.port, backend)
        server_common.set_event_on_signals(viewer.shutdown)
        await viewer.watcher.start()
        server = start_server(viewer, bound_socket)
        try:
            on_ready()
            while not viewer.shutdown.is_set():
                address_file.publish_if_free()
                await server_common.wait_for_event(viewer.shutdown, PUBLISH_CHECK_SECONDS)
        finally:
            has_finished = await stop_server(viewer, server)
    return has_finished


def start_server(viewer: ViewerState, bound_socket: BoundSocket) -> HTTPServer:
    """Start the HTTP server on a listening socket."""
    application = Application(
        build_routes(viewer),
        default_handler_class=NotFoundHandler,
        default_handler_args={"viewer": viewer},
        transforms=[Compression],
        log_function=server_common.log_request,
    )
    server = _LimitedServer(
        application,
        max_header_size=MAX_HEADER_BYTES,
        idle_connection_timeout=HEADER_TIMEOUT_SECONDS,
        body_timeout=BODY_TIMEOUT_SECONDS,
    )
    server.add_socket(bound_socket.socket)
    return server


async def stop_server(viewer: ViewerState, server: HTTPServer) -> bool:
    """Wait at most SHUTDOWN_SECONDS for slow tasks and event streams, then close all connections.

    Return True if all slow tasks have finished.
    """
    server.stop()
    viewer.changes.close()  # ends the event streams
    await viewer.watcher.stop()
    deadline = time.monotonic() + SHUTDOWN_SECONDS
    while (viewer.threads.slow_task_count or viewer.listener_count) and time.monotonic() < deadline:
        await asyncio.sleep(SHUTDOWN_CHECK_SECONDS)
    viewer.threads.shutdown()
    with suppress(TimeoutError):
        await asyncio.wait_for(server.close_all_connections(), CLOSE_SECONDS)
    return not viewer.threads.slow_task_count


def build_routes(viewer: ViewerState) -> list[Route]:
    """Return the path patterns with their handlers, in the order in which they are tried."""
    arguments = {"viewer": viewer}
    page_files: list[Route] = [(path, PageFileHandler, arguments) for path in PAGE_FILES]
    return [
        *page_files,
        (EVENTS_PATH, EventStreamHandler, arguments),
        ("/api/mindmaps", MapListHandler, arguments),
        ("/api/mindmaps/([^/]*)", MapHandler, arguments),
        ("/api/mindmaps/([^/]*)/export", MapExportHandler, arguments),
        ("/api/sync-git", GitSyncHandler, arguments),
        ("/api/why", LineageHandler, arguments),
        ("/api/commit", CommitHandler, arguments),
        ("/api/answer", AnswerHandler, arguments),
        ("/api/comment", CommentHandler, arguments),
        (STATUS_PATH, StatusHandler, arguments),
    ]


class PageFileHandler(ViewerHandler):
    """Handler of the files of the page."""

    # StaticFileHandler is not used, because it caches ETags until the server exits: browsers would not reload a new
    # build.
    async def get(self) -> None:
        """Send the file at the request's path."""
        self.raise_if_rejected()
        content, media_type = await self.viewer.threads.run_quick(
            read_page_file, self.viewer.page_directory, self.request.path
        )
        await self.send(content, media_type)

    head = get


class MapListHandler(SameOriginHandler):
    """Handler of the list of all maps: their summaries, last updated first."""

    async def get(self) -> None:
        """Send the summaries as a JSON list."""
        self.raise_if_rejected()
        summaries, _ = await self.viewer.threads.run_quick(self.viewer.documents.list_maps, time.monotonic())
        await self.send(msgspec.json.encode(summaries))

    head = get


class MapHandler(SameOriginHandler):
    """Handler of one map."""

    async def get(self, mindmap_id: str) -> None:
        """Send the map as JSON."""
        self.raise_if_rejected()
        content = await self.viewer.threads.run_quick(
            self.viewer.documents.load_json, check_id(mindmap_id), time.monotonic()
        )
        await self.send(content)

    head = get


class MapExportHandler(SameOriginHandler):
    """Handler of the download of one map in an export format."""

    async def get(self, mindmap_id: str) -> None:
        """Send the map in the format named by the query argument `format`, markdown by default."""
        self.raise_if_rejected()
        format_name = self.get_query_argument("format", "markdown")
        if format_name not in FORMATS:
            raise BadRequest(f"Unknown format {format_name!r}.", hint=f"Formats are {', '.join(FORMATS)}.")
        document = await self.viewer.threads.run_quick(self.viewer.documents.store.read, check_id(mindmap_id))
        text = await self.viewer.threads.run_quick(FORMATS[format_name], document)
        escape = escape_json_controls if format_name == "json" else escape_controls
        file_name = f"{mindmap_id}.{FILE_EXTENSIONS[format_name]}"
        self.set_header("Content-Disposition", f'attachment; filename="{file_name}"')
        await self.send(escape(text).encode(), TEXT)

    head = get


class StatusHandler(SameOriginHandler):
    """Handler of the status of the viewer."""

    async def get(self) -> None:
        """Send version, data directory and its default, watch mode, number of event streams, unreadable files."""
        self.raise_if_rejected()
        viewer = self.viewer
        _, problems = await viewer.threads.run_quick(viewer.documents.list_maps, time.monotonic())
        status = {
            "version": config.read_version(),
            "dataDir": str(viewer.directory),
            "defaultDataDir": str(config.load_settings({}).maps_dir),
            "watching": viewer.watcher.mode,
            "listeners": viewer.listener_count,
            "problems": problems,
        }
        await self.send(msgspec.json.encode(status))

    head = get


class LineageHandler(SameOriginHandler):
    """Handler of the lineage of a file in a map: the commits that wrote its lines."""

    async def get(self) -> None:
        """Send the answer of `lineage explain` for the file and lines in the query arguments."""
        self.raise_if_rejected()
        mindmap_id = check_id(self.get_query_argument("mindmap", strip=False))
        lookup = LineageLookup(
            self.get_query_argument("path", strip=False), self.get_query_argument("lines", "")
        )
        document = await self.viewer.threads.run_quick(self.viewer.documents.store.read, mindmap_id)
        answer = await self.viewer.threads.run_slow(lookup.explain, document, self.viewer.backend)
        await self.send(msgspec.json.encode(answer.to_json_dict()))

    head = get


class CommitHandler(SameOriginHandler):
    """Handler of one commit of a map's repository: its message, files, and the diff of one of them."""

    async def get(self) -> None:
        """Send the answer of `lineage show` for the commit and path in the query arguments."""
        self.raise_if_rejected()
        mindmap_id = check_id(self.get_query_argument("mindmap", strip=False))
        lookup = CommitLookup(
            self.get_query_argument("commit", strip=False), self.get_query_argument("path", "", strip=False)
        )
        document = await self.viewer.threads.run_quick(self.viewer.documents.store.read, mindmap_id)
        answer = await self.viewer.threads.run_slow(lookup.show, document)
        await self.send(msgspec.json.encode(answer.to_json_dict()))

    head = get


class SyncRequest(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Body of a git sync request. `workspace_path` is needed if the map has no workspace yet."""

    mindmap_id: str
    workspace_path: str | None = None


class AnswerRequest(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Body of an answer to a question."""

    mindmap_id: str
    question_id: str
    answer: str


class CommentRequest(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Body of a comment on a node."""

    mindmap_id: str
    node_id: str
    text: str


class GitSyncHandler(JsonPostHandler):
    """Handler of a git sync: files of the workspace that differ from HEAD are attached to a map."""

    async def post(self) -> None:
        """Sync the map. Send the map and the number of attached files."""
        self.raise_if_rejected()
        request = _parse_body(bytes(self.body), SyncRequest, SYNC_HINT)
        mindmap_id = check_id(request.mindmap_id)
        sync = WorkspaceSync(self.viewer.documents.store, mindmap_id, open_git, request.workspace_path)
        result = await self.viewer.threads.run_slow(sync.attach_changes)
        await self.send_map(mindmap_id, synced=result.file_count)


class AnswerHandler(JsonPostHandler):
    """Handler of the user's answer to a question of an agent."""

    async def post(self) -> None:
        """Record the answer and send the map."""
        self.raise_if_rejected()
        request = _parse_body(bytes(self.body), AnswerRequest, ANSWER_HINT)
        await self.change(
            request.mindmap_id,
            lambda document: answer_question(document, request.question_id, request.answer, utc_now()),
        )


class CommentHandler(JsonPostHandler):
    """Handler of the user's comment on a node."""

    async def post(self) -> None:
        """Record the comment and send the map."""
        self.raise_if_rejected()
        request = _parse_body(bytes(self.body), CommentRequest, COMMENT_HINT)
        await self.change(
            request.mindmap_id,
            lambda document: add_comment(document, request.node_id, request.text, utc_now()),
        )


def _parse_body(content: bytes, request_type: type[RequestType], hint: str) -> RequestType:
    try:
        return msgspec.json.decode(content, type=request_type)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"Cannot parse the request: {error}.", hint=hint) from error
