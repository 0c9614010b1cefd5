"""Routes of the mindmap viewer and their handlers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from mindmap.document import EditResult, Mindmap, utc_now
from mindmap.export import FORMATS
from mindmap.git_sync import WorkspaceSync
from mindmap.questions import add_comment, answer_question
from serve import config
from serve.api_types import to_json_dict
from serve.errors import BadRequest
from serve.viewer.discovery import STATUS_PATH
from serve.viewer.handlers import EventStreamHandler, SameOriginHandler, ViewerHandler
from serve.viewer.responses import EVENTS_PATH, PAGE_FILES, TEXT, NotJson, read_page_file
from serve.viewer.state import CommitLookup, LineageLookup, ViewerState
from serve.workspace_git import open_git
from stores.mindmap_files import check_id

Route = tuple[str, type[ViewerHandler], dict[str, Any]]

RequestType = TypeVar("RequestType", bound=msgspec.Struct)

SYNC_HINT: Final = (
    'Send {"mindmapId": "...", "workspacePath": "..."}. Omit workspacePath if the map has a workspace.'
)
ANSWER_HINT: Final = 'Send {"mindmapId": "...", "questionId": "...", "answer": "..."}.'
COMMENT_HINT: Final = 'Send {"mindmapId": "...", "nodeId": "...", "text": "..."}.'
FILE_EXTENSIONS: Final = {"markdown": "md", "mermaid": "mmd", "json": "json"}


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

    # StaticFileHandler is not used: it caches ETags until the server exits, so browsers would not reload a new build.
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
        file_name = f"{mindmap_id}.{FILE_EXTENSIONS[format_name]}"
        self.set_header("Content-Disposition", f'attachment; filename="{file_name}"')
        await self.send(text.encode(), TEXT)

    head = get


class StatusHandler(SameOriginHandler):
    """Handler of the status of the viewer."""

    async def get(self) -> None:
        """Send version, data directory, watch mode, number of listeners, and files that cannot be shown."""
        self.raise_if_rejected()
        viewer = self.viewer
        _, problems = await viewer.threads.run_quick(viewer.documents.list_maps, time.monotonic())
        status = {
            "version": config.read_version(),
            "dataDir": str(viewer.directory),
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
        await self.send(msgspec.json.encode(to_json_dict(answer)))

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


class JsonPostHandler(SameOriginHandler):
    """Base class of handlers of requests that change a map."""

    def check_access(self) -> None:
        """Check host, origin and content type. HTML forms of other sites cannot send the content type of JSON."""
        super().check_access()
        media_type = self.request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if self.request.method == "POST" and media_type != "application/json":
            raise NotJson("The content type is not JSON.", hint="Send Content-Type: application/json.")

    async def change(self, mindmap_id: str, edit: Callable[[Mindmap], EditResult]) -> None:
        """Apply an edit to the map and send it."""
        documents = self.viewer.documents
        await self.viewer.threads.run_slow(documents.store.change, check_id(mindmap_id), edit)
        await self.send_map(mindmap_id)

    async def send_map(self, mindmap_id: str, **fields: int) -> None:
        """Send the map, with other fields."""
        content = await self.viewer.threads.run_quick(
            self.viewer.documents.load_json, mindmap_id, time.monotonic()
        )
        await self.send(msgspec.json.encode({**fields, "mindmap": msgspec.Raw(content)}))


class GitSyncHandler(JsonPostHandler):
    """Handler that attaches the files of a map's workspace that differ from HEAD to the map."""

    async def post(self) -> None:
        """Sync the map and send the number of attached files with the map."""
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
