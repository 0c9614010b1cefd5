"""The tools through which agents keep maps: each loads one map, changes it, writes it back.

Nothing is kept between calls but the watchers: every id comes with the call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from mcp.server.mcpserver.tools import Tool
from pydantic import Field

from mindmap import file_touches, links, paths, tree
from mindmap.document import ROOT, Edited, Mindmap, now
from mindmap.file_events import Watching
from mindmap.file_touches import Touch, attach_to
from mindmap.git_sync import Syncing
from mindmap.map_store import Maps
from mindmap.nodes import NewNode, add_nodes, flattened, move_nodes, new_map, note, remove_nodes, update_nodes
from mindmap.watcher import Watcher
from serve.errors import BadRequest
from serve.mcp import base, mindmap_types
from serve.viewer import discovery
from serve.workspace_git import git_for, git_of
from stores.errors import LineageError

# A list longer than this is searched, not read.
MOST_LISTED: Final = 50

NOT_A_REPOSITORY: Final = "The workspace is not in a git repository: sync_git_status will fail."


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools on one data directory."""

    maps: Maps
    watcher: Watcher

    def all(self) -> list[Tool]:
        """Every tool, in the order an agent meets them."""
        change, reading, writing = base.writing(), base.reading(), base.writing(repeatable=True)
        destroying = base.writing(destroys=True)
        return [
            base.tool(function, title=title, annotations=annotations, description=_on_one_line(function))
            for function, title, annotations in (
                (self.create_mindmap, "Create a map", change),
                (self.list_mindmaps, "List and search maps", reading),
                (self.get_mindmap, "Read a map", reading),
                (self.add_nodes, "Add nodes", change),
                (self.update_nodes, "Update nodes", writing),
                (self.move_nodes, "Move nodes", writing),
                (self.remove_nodes, "Remove nodes", destroying),
                (self.link_nodes, "Link and unlink nodes", destroying),
                (self.log_file_touch, "Attach a file", writing),
                (self.sync_git_status, "Attach what git says has changed", writing),
                (self.note_activity, "Note an activity", change),
                (self.delete_mindmap, "Delete a map", destroying),
            )
        ]

    def create_mindmap(
        self,
        title: str,
        workspacePath: Annotated[
            str | mindmap_types.Absent, Field(description="Absolute path of the git work tree")
        ] = None,
        nodes: Annotated[
            list[mindmap_types.NodeForm] | mindmap_types.Absent,
            Field(description="First nodes, under the root"),
        ] = None,
    ) -> mindmap_types.Created:
        """Start a map for a piece of work with several steps. Give workspacePath and changed files attach themselves
        to the task in progress. Tell the person where the viewer is.
        """
        workspace = paths.workspace(workspacePath) if workspacePath is not None else None
        moment = now()
        document = new_map(title, workspace, moment)
        done = Edited(document, document.activity_log[0].message)
        if nodes:
            done = add_nodes(document, ROOT, _flat(nodes), moment)
        self.maps.create(done.document)
        changed = mindmap_types.changed(done).model_dump()
        watching = (
            self.watcher.watch(document.id, workspace) if workspace is not None else Watching(is_on=False)
        )
        lacking = _lacking(workspace) if workspace is not None else ""
        return mindmap_types.Created(
            **changed,
            viewer=self._viewer(document.id),
            watching=watching.is_on,
            hint=" ".join(filter(None, (lacking, watching.remark))),
        )

    def list_mindmaps(
        self,
        query: Annotated[str, Field(description="Words that the map has: title, labels, files")] = "",
        workspacePath: Annotated[
            str | mindmap_types.Absent,
            Field(description="Absolute path of the workspace, or of a folder in it"),
        ] = None,
        limit: Annotated[int, Field(ge=1, le=MOST_LISTED)] = 10,
    ) -> mindmap_types.Maps:
        """List maps, newest first: look here for one to go on with before you create another."""
        folder = paths.named(workspacePath) if workspacePath is not None else None
        listed = self.maps.listed(
            lambda document: (
                tree.has_words(document, query)
                and (folder is None or _holds(document.workspace_path, folder))
            )
        )
        return mindmap_types.listed(listed, limit)

    def get_mindmap(
        self,
        mindmapId: str,
        nodeId: Annotated[str, Field(description="Only what is under this node")] = ROOT,
        query: Annotated[str, Field(description="Only nodes with all these words")] = "",
        full: Annotated[bool, Field(description="Nodes whole, with files; costs many tokens")] = False,
    ) -> mindmap_types.View:
        """Read a map, or a part of it: an outline with ids by default. Boxes: [ ] planned, [~] in progress,
        [x] completed, [!] blocked.
        """
        return mindmap_types.view(self.maps.read(mindmapId), nodeId, query, full=full)

    def add_nodes(
        self,
        mindmapId: str,
        nodes: list[mindmap_types.NodeForm],
        parentId: Annotated[str, Field(description="Node to put them under")] = ROOT,
    ) -> mindmap_types.Changed:
        """Add nodes, nested by children. Plan: plan and task for steps, code for a code region to write (these three
        have a status and count as progress), file, note. Mental model: component (modules, layers), data_flow
        (pipelines, protocols), decision (choices and trade-offs), hypothesis (what you suspect), risk (edge cases,
        invariants).
        """
        batch = _flat(nodes)
        return self._change(mindmapId, lambda document: add_nodes(document, parentId, batch, now()))

    def update_nodes(self, mindmapId: str, updates: list[mindmap_types.UpdateForm]) -> mindmap_types.Changed:
        """Change labels, types, statuses. Set a task in_progress when you begin it: files attach to the one set last.
        Set it completed as soon as it is done. The root's label is the map's title.
        """
        wanted = [form.update() for form in updates]
        return self._change(mindmapId, lambda document: update_nodes(document, wanted, now()))

    def move_nodes(
        self,
        mindmapId: str,
        nodeIds: list[str],
        parentId: str,
        position: Annotated[
            int | mindmap_types.Absent, Field(ge=0, description="Place among the children, from 0")
        ] = None,
    ) -> mindmap_types.Changed:
        """Move nodes with what is under them below another node."""
        return self._change(
            mindmapId, lambda document: move_nodes(document, nodeIds, parentId, now(), position)
        )

    def remove_nodes(self, mindmapId: str, nodeIds: list[str]) -> mindmap_types.Changed:
        """Remove nodes, everything under them and its links. Complete what was done instead of removing it."""
        return self._change(mindmapId, lambda document: remove_nodes(document, nodeIds, now()))

    def link_nodes(
        self,
        mindmapId: str,
        add: Annotated[
            list[mindmap_types.LinkForm] | mindmap_types.Absent, Field(description="Links to write")
        ] = None,
        remove: Annotated[
            list[mindmap_types.CutForm] | mindmap_types.Absent, Field(description="Links to remove, first")
        ] = None,
    ) -> mindmap_types.Changed:
        """Draw labelled arrows between nodes (calls, depends on, contradicts), and remove them. The same from, to and
        label again updates style and notes.
        """
        added = [form.link() for form in add or ()]
        removed = [form.cut() for form in remove or ()]
        return self._change(mindmapId, lambda document: links.change_links(document, added, removed, now()))

    def log_file_touch(  # noqa: PLR0913, PLR0917 - one argument for each field of a touch
        self,
        mindmapId: str,
        path: str,
        action: Annotated[
            mindmap_types.Action | mindmap_types.Absent, Field(description="modify unless said")
        ] = None,
        nodeId: Annotated[
            str | mindmap_types.Absent, Field(description="Instead of the task in progress")
        ] = None,
        previousPath: Annotated[str | mindmap_types.Absent, Field(description="Before a rename")] = None,
        lines: Annotated[str | mindmap_types.Absent, Field(description="10-20")] = None,
        symbols: list[str] | mindmap_types.Absent = None,
        changes: list[mindmap_types.ChangeForm] | mindmap_types.Absent = None,
        summary: str | mindmap_types.Absent = None,
    ) -> mindmap_types.Attached:
        """Say what you did to a file, by symbols, or that reading it mattered. A path that is there is updated,
        changes are merged.
        """
        touch = Touch(
            path,
            action,
            previous_path=previousPath,
            lines=lines,
            symbols=tuple(symbols or ()),
            changes=tuple(form.change() for form in changes or ()),
            summary=summary,
        )
        _, done = self.maps.change(
            mindmapId,
            lambda document: attach_to(
                document, nodeId, [touch], file_touches.told(touch, document.workspace_path), now()
            ),
        )
        return mindmap_types.attached(done, nodeId, 1, self.watcher.watching(mindmapId))

    def sync_git_status(
        self,
        mindmapId: str,
        workspacePath: Annotated[
            str | mindmap_types.Absent, Field(description="Needed where the map has none")
        ] = None,
        targetNodeId: Annotated[
            str | mindmap_types.Absent, Field(description="Instead of the task in progress")
        ] = None,
    ) -> mindmap_types.Attached:
        """Attach every file that differs from HEAD, with its lines, and watch the workspace from now on. Call it when
        you come back to a map, and before you finish.
        """
        syncing = Syncing(self.maps, mindmapId, git_of, workspacePath)
        # Tied first, since only a map's own workspace is watched; watched before git is asked, so that no change falls
        # between the two.
        watching = self.watcher.watch(mindmapId, syncing.tie())
        return mindmap_types.synced(syncing.attach(targetNodeId), targetNodeId, watching)

    def note_activity(
        self,
        mindmapId: str,
        message: str,
        nodeId: str | mindmap_types.Absent = None,
        file: str | mindmap_types.Absent = None,
    ) -> mindmap_types.Changed:
        """Note something worth remembering that is no change of the map: a finding, a test run, a decision's reason."""
        return self._change(
            mindmapId, lambda document: note(document, message, now(), node_id=nodeId, file=file)
        )

    def delete_mindmap(
        self,
        mindmapId: str,
        confirm: Annotated[bool, Field(strict=True, description="true, if the person asked for it")] = False,
    ) -> mindmap_types.Changed:
        """Delete a map for good."""
        if not confirm:
            raise BadRequest(
                f"{mindmapId} was not deleted.",
                hint="It cannot be undone: ask the person, then pass confirm: true.",
            )
        self.maps.delete(mindmapId)
        return mindmap_types.Changed(mindmap_id=mindmapId, message=f"Deleted {mindmapId}")

    def _change(self, mindmap_id: str, edit: Callable[[Mindmap], Edited]) -> mindmap_types.Changed:
        return mindmap_types.changed(self.maps.change(mindmap_id, edit)[1])

    def _viewer(self, mindmap_id: str) -> str:
        running = discovery.address(self.maps.path, mindmap_id)
        return running or f"none runs; a person starts it with `{discovery.HOW_TO_START}`"


def _on_one_line(function: Callable[..., object]) -> str:
    """What a tool tells an agent, without the line breaks of this file."""
    return " ".join((function.__doc__ or "").split())


def _flat(nodes: list[mindmap_types.NodeForm]) -> list[NewNode]:
    return flattened([form.plain() for form in nodes])


def _lacking(workspace: str) -> str:
    """What keeps git sync from a workspace, if anything does: no reason not to have a map of it."""
    try:
        return NOT_A_REPOSITORY if git_for(workspace) is None else ""
    except LineageError as error:
        return str(error)


def _holds(workspace: str | None, folder: str) -> bool:
    """Whether the folder is the workspace or lies in it: an agent may have been started anywhere in there."""
    return bool(workspace) and Path(paths.real(folder)).is_relative_to(paths.real(workspace or ""))
