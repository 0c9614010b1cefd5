"""MCP tools for mindmaps (short: maps). Each call gives the id of its map, reads the map from disk and writes it back.

Between calls the server holds no maps, only the watches of workspaces.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from anyio import to_thread
from mcp.server.mcpserver.tools import Tool
from pydantic import Field

from mindmap import links, tree, validation
from mindmap.document import ROOT, EditResult, Mindmap, utc_now
from mindmap.file_events import WatchStatus
from mindmap.file_touches import TouchInput, log_touch
from mindmap.git_sync import WorkspaceSync
from mindmap.map_store import MapStore
from mindmap.nodes import (
    NewNode,
    add_nodes,
    add_note,
    create_mindmap,
    flatten_nodes,
    move_nodes,
    remove_nodes,
    update_nodes,
)
from mindmap.questions import ask_question, withdraw_question
from mindmap.watcher import Watcher
from serve.errors import BadRequest
from serve.mcp import mindmap_types, tools
from serve.mcp.user_messages import UserMessages
from serve.repositories import find_git, open_git
from serve.viewer import discovery
from stores import mindmap_files
from stores.errors import LineageError

# Longest wait for an answer. The default wait is 45 s, because some clients end a call after 60 s.
MAX_WAIT_SECONDS: Final = 300
# Maximum number of maps that list_mindmaps returns. If there are more, an agent should search with a query.
MAX_LISTED: Final = 50

NOT_A_REPOSITORY: Final = "The workspace is not in a git repository: sync_git_status will fail."


@dataclass(frozen=True, slots=True)
class MindmapTools:
    """Tools for the maps in one data directory. Agents read the docstrings of the methods as descriptions."""

    store: MapStore
    watcher: Watcher
    messages: UserMessages

    def build_tools(self) -> list[Tool]:
        """Return all tools in the order in which agents see them."""
        read_only = tools.create_read_only_annotations()
        write = tools.create_write_annotations()
        idempotent = tools.create_write_annotations(is_idempotent=True)
        destructive = tools.create_write_annotations(is_destructive=True)
        return [
            tools.create_tool(
                # The coroutine function waits for messages, and adds them itself.
                function
                if inspect.iscoroutinefunction(function)
                else self.messages.add_pending_messages(function),
                annotations=annotations,
                description=_format_description(function),
            )
            for function, annotations in (
                (self.create_mindmap, write),
                (self.list_mindmaps, read_only),
                (self.get_mindmap, read_only),
                (self.add_nodes, write),
                (self.update_nodes, idempotent),
                (self.move_nodes, idempotent),
                (self.remove_nodes, destructive),
                (self.link_nodes, destructive),
                (self.log_file_touch, idempotent),
                (self.sync_git_status, idempotent),
                (self.note_activity, write),
                (self.ask, write),
                (self.wait_for_answer, idempotent),
                (self.delete_mindmap, destructive),
            )
        ]

    def create_mindmap(
        self,
        title: str,
        workspacePath: Annotated[str | tools.HiddenNull, Field(description="absolute")] = None,
        nodes: Annotated[
            list[mindmap_types.NodeInput] | tools.HiddenNull,
            tools.describe_list("as in add_nodes", "object"),
        ] = None,
    ) -> mindmap_types.CreateResult:
        """Start a map. With workspacePath, changed files attach to the task in progress. Tell the user where the viewer
        is.
        """
        workspace = validation.validate_workspace(workspacePath) if workspacePath is not None else None
        now = utc_now()
        document = create_mindmap(title, workspace, now)
        result = EditResult(document, document.activity_log[0].message)
        if nodes:
            result = add_nodes(document, ROOT, _flatten_inputs(nodes), now)
        self.store.create(result.document)
        status, problem = WatchStatus(is_watched=False), ""
        if workspace is not None:
            status = self.watcher.watch(document.id, workspace)
            problem = _find_git_sync_problem(workspace)
        return mindmap_types.CreateResult(
            **mindmap_types.build_change_result(result).model_dump(),
            viewer=self._describe_viewer_location(document.id),
            watching=status.is_watched,
            hint=" ".join(filter(None, (problem, status.message))),
        )

    def list_mindmaps(
        self,
        query: str = "",
        workspacePath: str | tools.HiddenNull = None,
        limit: Annotated[int, Field(ge=1)] = 10,
    ) -> mindmap_types.MapListing:
        """List maps. Continue one rather than create another."""
        directory = validation.normalize_workspace(workspacePath) if workspacePath is not None else None
        map_list = self.store.list_maps(
            lambda document: (
                tree.matches_words(document, query)
                and (directory is None or _is_in_workspace(directory, document.workspace_path))
            )
        )
        return mindmap_types.build_map_listing(map_list, min(limit, MAX_LISTED))

    def get_mindmap(
        self,
        mindmapId: str,
        nodeId: Annotated[str, Field(description="subtree")] = ROOT,
        query: str = "",
        full: bool = False,
    ) -> mindmap_types.MapView:
        """Read a map as an outline with ids ([~] in progress, [!] blocked)."""
        return mindmap_types.build_view(self.store.read(mindmapId), nodeId, query, full=full)

    def add_nodes(
        self,
        mindmapId: str,
        nodes: Annotated[
            list[mindmap_types.NodeInput],
            tools.describe_list(
                "label, type (default task; plan, file, code, note, component, data_flow, decision, hypothesis, risk), "
                "status, children (nodes)",
                "object",
            ),
        ],
        parentId: str = ROOT,
    ) -> mindmap_types.ChangeResult:
        """Add nodes. Only plan, task and code (a region to write) have a status and count as progress."""
        new_nodes = _flatten_inputs(nodes)
        return self._change(mindmapId, lambda document: add_nodes(document, parentId, new_nodes, utc_now()))

    def update_nodes(
        self,
        mindmapId: str,
        updates: Annotated[
            list[mindmap_types.NodeUpdateInput],
            tools.describe_list(
                "id, label, type, status (planned, in_progress, completed, blocked), reason (if blocked)",
                "object",
            ),
        ],
    ) -> mindmap_types.ChangeResult:
        """Change nodes, such as a task to in_progress or completed. The root's label is the title."""
        changes = [update.to_update() for update in updates]
        return self._change(mindmapId, lambda document: update_nodes(document, changes, utc_now()))

    def move_nodes(
        self,
        mindmapId: str,
        nodeIds: list[str],
        parentId: str,
        position: Annotated[int, Field(ge=0)] | tools.HiddenNull = None,
    ) -> mindmap_types.ChangeResult:
        """Move nodes with their subtrees."""
        return self._change(
            mindmapId, lambda document: move_nodes(document, nodeIds, parentId, utc_now(), position)
        )

    def remove_nodes(self, mindmapId: str, nodeIds: list[str]) -> mindmap_types.ChangeResult:
        """Remove nodes with subtrees and links. Set finished tasks to completed instead."""
        return self._change(mindmapId, lambda document: remove_nodes(document, nodeIds, utc_now()))

    def link_nodes(
        self,
        mindmapId: str,
        add: Annotated[
            list[mindmap_types.LinkInput] | tools.HiddenNull,
            tools.describe_list(
                "from, to, label, style (solid, dashed: hypothesis, animated: stream), notes; "
                "same ends and label: update",
                "object",
            ),
        ] = None,
        remove: Annotated[
            list[mindmap_types.LinkRemovalInput] | tools.HiddenNull,
            tools.describe_list("id, or from, to, label", "object"),
        ] = None,
    ) -> mindmap_types.ChangeResult:
        """Add or remove labelled arrows between nodes (calls, depends on, contradicts)."""
        additions = [link.to_link() for link in add or ()]
        removals = [removal.to_removal() for removal in remove or ()]
        return self._change(
            mindmapId, lambda document: links.change_links(document, additions, removals, utc_now())
        )

    def log_file_touch(  # noqa: PLR0913, PLR0917 - one argument for each field of a touch
        self,
        mindmapId: str,
        path: str,
        action: mindmap_types.TouchAction | tools.HiddenNull = None,
        nodeId: Annotated[str | tools.HiddenNull, Field(description="default: task in progress")] = None,
        previousPath: str | tools.HiddenNull = None,
        lines: Annotated[str | tools.HiddenNull, Field(description="10-20")] = None,
        symbols: list[str] | tools.HiddenNull = None,
        changes: Annotated[
            list[mindmap_types.CodeChangeInput] | tools.HiddenNull,
            tools.describe_list(
                "kind (add, modify, fix, refactor, rename, remove, test), symbol, previousSymbol, detail",
                "object",
            ),
        ] = None,
        summary: str | tools.HiddenNull = None,
    ) -> mindmap_types.AttachResult:
        """Log a change or an important read of a file."""
        touch = TouchInput(
            path,
            action,
            previous_path=previousPath,
            lines=lines,
            symbols=tuple(symbols or ()),
            changes=tuple(change.to_change() for change in changes or ()),
            summary=summary,
        )

        _, result = self.store.change(
            mindmapId, lambda document: log_touch(document, nodeId, touch, utc_now())
        )
        return mindmap_types.build_attach_result(result, nodeId, 1, self.watcher.watch_status(mindmapId))

    def sync_git_status(
        self,
        mindmapId: str,
        workspacePath: Annotated[str | tools.HiddenNull, Field(description="if the map has none")] = None,
        targetNodeId: str | tools.HiddenNull = None,
    ) -> mindmap_types.AttachResult:
        """Attach all files that differ from HEAD, and watch the workspace. Call it when you continue a map and before
        you finish.
        """
        sync = WorkspaceSync(self.store, mindmapId, open_git, workspacePath)
        # The map gets its workspace first, because the watcher watches only a map's workspace. The watch starts before
        # git runs, so that no change is missed.
        status = self.watcher.watch(mindmapId, sync.assign_workspace())
        return mindmap_types.build_sync_result(sync.attach_changes(targetNodeId), targetNodeId, status)

    def note_activity(
        self,
        mindmapId: str,
        message: str,
        nodeId: str | tools.HiddenNull = None,
        file: str | tools.HiddenNull = None,
    ) -> mindmap_types.ChangeResult:
        """Log a finding, a test run or a reason."""
        return self._change(
            mindmapId, lambda document: add_note(document, message, utc_now(), node_id=nodeId, file=file)
        )

    def ask(
        self,
        mindmapId: str,
        nodeId: str,
        question: str,
        options: list[str] | tools.HiddenNull = None,
    ) -> mindmap_types.AnswerResult:
        """Ask the user on the map's page. The answer comes with wait_for_answer or a later call."""
        _, result = self.store.change(
            mindmapId,
            lambda document: ask_question(
                document, nodeId, question, options or (), utc_now(), self.messages.session
            ),
        )
        return mindmap_types.AnswerResult(
            question_id=result.ids[0], hint=self.messages.find_page_problem(mindmapId)
        )

    async def wait_for_answer(
        self,
        mindmapId: str,
        questionId: str,
        seconds: Annotated[int, Field(ge=0, le=MAX_WAIT_SECONDS)] = 45,
        withdraw: bool = False,
    ) -> mindmap_types.AnswerResult:
        """Wait until the user answers or comments, or withdraw the question."""
        if withdraw:
            _, result = await to_thread.run_sync(
                self.store.change,
                mindmapId,
                lambda document: withdraw_question(document, questionId, utc_now()),
            )
            if result:  # None if the user has answered already
                return mindmap_types.AnswerResult(question_id=questionId, hint="The question was withdrawn.")
        return await self.messages.wait_for_answer(mindmapId, questionId, seconds)

    def delete_mindmap(
        self,
        mindmapId: str,
        confirm: Annotated[bool, Field(strict=True, description="if the user asked")] = False,
    ) -> mindmap_types.ChangeResult:
        """Delete a map permanently."""
        if not confirm:
            raise BadRequest(
                f"{mindmap_files.check_id(mindmapId)} was not deleted.",
                hint="Deleting cannot be undone. Ask the user, then pass confirm: true.",
            )
        self.store.delete(mindmapId)
        return mindmap_types.ChangeResult(mindmap_id=mindmapId, message=f"Deleted {mindmapId}")

    def _change(self, mindmap_id: str, edit: Callable[[Mindmap], EditResult]) -> mindmap_types.ChangeResult:
        """Edit a map and return the answer for the edit."""
        return mindmap_types.build_change_result(self.store.change(mindmap_id, edit)[1])

    def _describe_viewer_location(self, mindmap_id: str) -> str:
        """Return the address of a map in the viewer, or how the user starts the viewer."""
        address = discovery.read_address(self.store.path, mindmap_id)
        return address or f"not running; the user starts it with `{discovery.START_COMMAND}`"


def _format_description(function: Callable[..., object]) -> str:
    """Return the docstring of a tool method on one line."""
    return " ".join((function.__doc__ or "").split())


def _flatten_inputs(nodes: list[mindmap_types.NodeInput]) -> list[NewNode]:
    return flatten_nodes([node.to_dict() for node in nodes])


def _find_git_sync_problem(workspace: str) -> str:
    """Return the reason why sync_git_status will fail in a workspace; an empty text if there is none."""
    try:
        return NOT_A_REPOSITORY if find_git(workspace) is None else ""
    except LineageError as error:
        return str(error)


def _is_in_workspace(directory: str, workspace: str | None) -> bool:
    """Check whether a directory is the workspace or below it. `workspace`: None if a map has none."""
    if not workspace:
        return False
    return Path(validation.resolve_symlinks(directory)).is_relative_to(validation.resolve_symlinks(workspace))
