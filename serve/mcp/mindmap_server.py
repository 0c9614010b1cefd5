"""The MCP server of mindmaps: tools, resources, a prompt, and how to use them together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError

from mindmap.document import encode
from mindmap.map_store import Maps
from mindmap.watcher import Watcher
from serve import config
from serve.config import Settings
from serve.mcp import base
from serve.mcp.mindmap_tools import Tools
from serve.workspace_git import git_for
from stores.errors import LineageError
from stores.mindmap_files import BadMindmapId, NoSuchMindmap

MAPS: Final = "mindmap://maps"
JSON: Final = "application/json"
INSTRUCTIONS: Final = """\
A mindmap is a live map of your work that a person watches: your plan, your mental model, the files you touch.
For work of several steps: look for a map of this workspace (list_mindmaps), or create one with workspacePath and \
your plan. Set a task in_progress when you begin it, so that files attach to it, and completed when it is done. Write \
down components, decisions, hypotheses and risks as you find them, and link them. Before you finish, sync_git_status."""
PROMPT: Final = """\
Plan this work on a mindmap, and keep the map true while you work:

{task}

1. Look for a map of this workspace with list_mindmaps; go on with it, or create one with workspacePath.
2. Read what you need, then write the plan: plan nodes for phases, task nodes under them, code nodes for code to write.
3. Put what you understand beside it: component, data_flow, decision, hypothesis, risk; link them to what they concern.
4. Set each task in_progress when you begin it and completed when it is done; say what you did to files by symbols.
5. At the end call sync_git_status, complete or block what is left, and tell the person where the map is."""


@dataclass(frozen=True, slots=True)
class Serving:
    """A server, and what is to be done when its client has left."""

    server: MCPServer[Any]
    end: Callable[[], None]


def mindmap_server(folder: Path) -> Serving:
    """A server for the maps in a data directory."""
    maps = Maps(folder)
    watcher = Watcher(maps, git_for)
    server = base.server(
        "mindmap",
        title="mindmap",
        version=config.version(),
        instructions=INSTRUCTIONS,
        tools=Tools(maps, watcher).all(),
    )
    _add_resources(server, maps)
    _add_prompt(server)
    return Serving(server, watcher.stop)


def serve(settings: Settings) -> None:
    """Serve the client that started this program; does not return."""
    serving = mindmap_server(settings.maps)
    base.serve(serving.server, settings.log, at_end=serving.end)


def _add_resources(server: MCPServer[Any], maps: Maps) -> None:
    @server.resource(
        MAPS, name="maps", description="Every map in one line each, newest first", mime_type=JSON
    )
    def listed() -> str:
        return msgspec.json.encode(maps.listed().summaries).decode()

    @server.resource(MAPS + "/{mindmap_id}", name="map", description="A whole map", mime_type=JSON)
    def document(mindmap_id: str) -> str:
        try:
            return encode(maps.read(mindmap_id)).decode()
        except (NoSuchMindmap, BadMindmapId) as error:
            raise ResourceNotFoundError(str(error)) from error
        except LineageError as error:
            raise ResourceError(str(error)) from error


def _add_prompt(server: MCPServer[Any]) -> None:
    @server.prompt(title="Work with a mindmap", description="Plan a piece of work on a map and keep it true")
    def work_with_a_mindmap(task: str) -> str:
        return PROMPT.format(task=task)
