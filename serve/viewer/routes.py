"""What is asked for by which path."""

from __future__ import annotations

import time
from typing import Any, Final

import msgspec

from mindmap.export import FORMATS
from mindmap.git_sync import Syncing
from serve import config
from serve.api_types import document as published
from serve.errors import BadRequest
from serve.viewer.handlers import Events, FromHere, Handler
from serve.viewer.responses import FILES, TEXT, Body, NotJson
from serve.viewer.state import Viewer, Why
from serve.workspace_git import git_of
from stores.mindmap_files import checked

Route = tuple[str, type[Handler], dict[str, Any]]

ENDINGS: Final = {"markdown": "md", "mermaid": "mmd", "json": "json"}


class SyncRequest(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What a git sync is asked for with."""

    mindmap_id: str
    workspace_path: str | None = None


class File(Handler):
    """A file of the page."""

    async def get(self) -> None:
        """Send it."""
        self.admitted()
        await self.send(await self.viewer.threads.read(self.viewer.page.body, self.request.path))

    head = get


class Summaries(FromHere):
    """Every map in one line, newest first."""

    async def get(self) -> None:
        """Send them."""
        self.admitted()
        summaries, _ = await self.viewer.threads.read(self.viewer.documents.listed, time.monotonic())
        await self.send_json(msgspec.json.encode(summaries))

    head = get


class Document(FromHere):
    """One whole map."""

    async def get(self, mindmap_id: str) -> None:
        """Send it."""
        self.admitted()
        body = await self.viewer.threads.read(
            self.viewer.documents.body, checked(mindmap_id), time.monotonic()
        )
        await self.send(body)

    head = get


class Export(FromHere):
    """A map for other programs, as a file to keep."""

    async def get(self, mindmap_id: str) -> None:
        """Send it."""
        self.admitted()
        form = self.get_query_argument("format", "markdown")
        if form not in FORMATS:
            raise BadRequest(f"{form!r} is no format.", hint=f"Formats are {', '.join(FORMATS)}.")
        document = await self.viewer.threads.read(self.viewer.documents.maps.read, checked(mindmap_id))
        text = await self.viewer.threads.read(FORMATS[form], document)
        name = f"{mindmap_id}.{ENDINGS[form]}"
        self.set_header("Content-Disposition", f'attachment; filename="{name}"')
        await self.send(Body.of(text.encode(), TEXT))

    head = get


class Status(FromHere):
    """How the viewer stands: its version, its folder, how it learns of changes, what it cannot show."""

    async def get(self) -> None:
        """Say it."""
        self.admitted()
        viewer = self.viewer
        _, problems = await viewer.threads.read(viewer.documents.listed, time.monotonic())
        said = {
            "version": config.version(),
            "dataDir": str(viewer.folder),
            "watching": viewer.watching.mode,
            "listeners": viewer.listeners,
            "problems": problems,
        }
        await self.send_json(msgspec.json.encode(said))

    head = get


class Lineage(FromHere):
    """Why a file that a map holds looks the way it does."""

    async def get(self) -> None:
        """Answer as `lineage explain` does."""
        self.admitted()
        mindmap_id = checked(self.get_query_argument("mindmap", strip=False))
        why = Why(self.get_query_argument("path", strip=False), self.get_query_argument("lines", ""))
        document = await self.viewer.threads.read(self.viewer.documents.maps.read, mindmap_id)
        answer = await self.viewer.threads.work(why.asked_of, document, self.viewer.answering)
        await self.send_json(msgspec.json.encode(published(answer)))

    head = get


class Sync(FromHere):
    """Attaches what git says has changed in a map's workspace."""

    def check(self) -> None:
        """As its base does, and by what the content is said to be: a form of another site can say no JSON."""
        super().check()
        kind = self.request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if self.request.method == "POST" and kind != "application/json":
            raise NotJson("The content is not said to be JSON.", hint="Send Content-Type: application/json.")

    async def post(self) -> None:
        """Do it."""
        self.admitted()
        asked = _asked(bytes(self.received))
        maps, mindmap_id = self.viewer.documents.maps, checked(asked.mindmap_id)
        syncing = Syncing(maps, mindmap_id, git_of, asked.workspace_path)
        synced = await self.viewer.threads.work(syncing.attach)
        body = await self.viewer.threads.read(self.viewer.documents.body, mindmap_id, time.monotonic())
        said = {"synced": synced.files, "mindmap": msgspec.Raw(body.content)}
        await self.send_json(msgspec.json.encode(said))


def routes(viewer: Viewer) -> list[Route]:
    """Every path that is one."""
    common = {"viewer": viewer}
    files: list[Route] = [(path, File, common) for path in FILES]
    return [
        *files,
        ("/events", Events, common),
        ("/api/mindmaps", Summaries, common),
        ("/api/mindmaps/([^/]*)", Document, common),
        ("/api/mindmaps/([^/]*)/export", Export, common),
        ("/api/sync-git", Sync, common),
        ("/api/why", Lineage, common),
        ("/api/status", Status, common),
    ]


def _asked(content: bytes) -> SyncRequest:
    try:
        return msgspec.json.decode(content, type=SyncRequest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(
            f"The request cannot be read: {error}.",
            hint='Send {"mindmapId": "...", "workspacePath": "..."}; the second only where the map has none.',
        ) from error
