"""MCP server of mindmaps: tools, resources, a prompt and usage instructions.

As a program, this module serves one client on stdio. `serve.mcp.relay` runs it if no daemon serves the client. Its
arguments are the id of the client, and the ids of the maps whose workspaces the client's previous server watched.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from mcp.server import MCPServer
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError

from mindmap.document import encode, use_client
from mindmap.map_store import MapStore
from mindmap.watcher import Watcher
from serve import config, process
from serve.mcp import stdio
from serve.mcp.mindmap_tools import MindmapTools
from serve.mcp.user_messages import UserMessages
from serve.repositories import find_git
from stores.errors import LineageError
from stores.mindmap_files import BadMindmapId, NoSuchMindmap

MAPS_URI: Final = "mindmap://maps"
JSON_MIME_TYPE: Final = "application/json"
INSTRUCTIONS: Final = """\
A mindmap is a live map of your work that the user watches: your plan, your mental model, the files you touch.
For work with several steps, continue the map of this workspace (list_mindmaps), or create one with workspacePath and \
your plan. Set a task in_progress when you start it, so that files attach to it, and completed when it is done. Add \
components, decisions, hypotheses and risks as you find them, and link them. Before you finish, call sync_git_status.
Tool results can have a field fromUser with the user's comments and answers. Follow them."""
PROMPT: Final = """\
Plan this work on a mindmap, and keep the map up to date while you work:

{task}

1. Look for a map of this workspace with list_mindmaps. Continue it, or create one with workspacePath.
2. Read what you need, then write the plan: plan nodes for phases, task nodes under them, code nodes for code to write.
3. Add what you understand: component, data_flow, decision, hypothesis, risk. Link these nodes to what they concern.
4. Set each task in_progress when you start it and completed when it is done. Log file changes by symbols.
5. At the end call sync_git_status, set open tasks to completed or blocked, and tell the user where the map is."""


@dataclass(frozen=True, slots=True)
class MindmapServer:
    """MCP server for one client, and the watcher of its workspaces. Call `close` after the client has disconnected."""

    server: MCPServer[Any]
    store: MapStore
    watcher: Watcher

    def resume_watching(self, mindmap_ids: Iterable[str]) -> None:
        """Watch the workspaces that the client's previous server watched. Skip maps that cannot be read."""
        for mindmap_id in mindmap_ids:
            with suppress(LineageError):
                if workspace := self.store.read(mindmap_id).workspace_path:
                    self.watcher.watch(mindmap_id, workspace)

    def close(self) -> None:
        """Record the last changes of the workspaces and stop watching."""
        self.watcher.stop()


def create_mindmap_server(
    directory: Path, client_id: str = "", is_stopping: Callable[[], bool] = lambda: False
) -> MindmapServer:
    """Return a server for the mindmaps in a data directory.

    `client_id`: a random id if it is empty. `is_stopping`: returns True when the program ends, so that calls stop
    waiting.
    """
    store = MapStore(directory)
    watcher = Watcher(store, find_git)
    messages = UserMessages(store, client_id or secrets.token_hex(8), is_stopping)
    server = stdio.create_server(
        "mindmap",
        title="mindmap",
        version=config.read_version(),
        instructions=INSTRUCTIONS,
        tools=MindmapTools(store, watcher, messages).build_tools(),
    )
    server.middleware.append(_handle_with_client_name)
    _add_resources(server, store)
    _add_prompt(server)
    return MindmapServer(server, store, watcher)


def main(client_id: str = "", *mindmap_ids: str) -> None:
    """Serve one client on stdio until it disconnects.

    `client_id`: a random id if it is empty. `mindmap_ids`: maps whose workspaces to watch from the start.
    """
    process.configure_streams()
    config.configure_libraries()
    settings = config.load_settings()
    mindmap_server = create_mindmap_server(settings.maps_dir, client_id)
    mindmap_server.resume_watching(mindmap_ids)
    stdio.serve_stdio(mindmap_server.server, settings.log_level, on_exit=mindmap_server.close)


async def _handle_with_client_name(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Handle a message of the client. If it edits a map, the new log entries get the name of the client."""
    parameters = ctx.session.client_params
    with use_client(parameters.client_info.name if parameters else None):
        return await call_next(ctx)


def _add_resources(server: MCPServer[Any], store: MapStore) -> None:
    @server.resource(
        MAPS_URI, name="maps", description="Summaries of all maps, newest first", mime_type=JSON_MIME_TYPE
    )
    def list_maps() -> str:
        try:
            return msgspec.json.encode(store.list_maps().summaries).decode()
        except LineageError as error:
            raise ResourceError(str(error)) from error

    @server.resource(
        MAPS_URI + "/{mindmap_id}", name="map", description="A complete map", mime_type=JSON_MIME_TYPE
    )
    def read_map(mindmap_id: str) -> str:
        try:
            return encode(store.read(mindmap_id)).decode()
        except (NoSuchMindmap, BadMindmapId) as error:
            raise ResourceNotFoundError(str(error)) from error
        except LineageError as error:
            raise ResourceError(str(error)) from error


def _add_prompt(server: MCPServer[Any]) -> None:
    @server.prompt(title="Work with a mindmap", description="Plan work on a map and keep it up to date")
    def work_with_a_mindmap(task: str) -> str:
        return PROMPT.format(task=task)


if __name__ == "__main__":
    main(*sys.argv[1:])
