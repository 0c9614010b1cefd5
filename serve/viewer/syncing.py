"""Git sync as a person asks for it: the same attaching as an agent's, without its watch."""

from __future__ import annotations

from dataclasses import dataclass

from mindmap import edits, paths
from mindmap.activity import Edited
from mindmap.document import Mindmap
from mindmap.gitsync import changed_files
from mindmap.maps import Maps
from mindmap.moments import now
from mindmap.target import attach_to
from serve.viewer.refusals import NoWorkspace


@dataclass(frozen=True, slots=True)
class Synced:
    """The map afterwards, and how many files were attached to it."""

    document: Mindmap
    files: int


def sync(maps: Maps, mindmap_id: str, given: str | None) -> Synced:
    """Attach every file that differs from HEAD; `given` is the workspace of a map that has none."""
    from serve.workspaces import git_of  # brings libgit2, which a viewer that only shows never needs

    own = maps.read(mindmap_id).workspace_path
    if own is None and given is None:
        raise NoWorkspace(
            "The map has no workspace.", hint="Give workspacePath, the absolute path of a git work tree."
        )
    workspace = paths.settled(own, given)
    touches = changed_files(workspace, git_of(workspace), maps.path)
    message = f"Git sync: {len(touches):,} file{'' if len(touches) == 1 else 's'}"

    def edit(document: Mindmap) -> Edited | None:
        chosen = paths.settled(document.workspace_path, given)
        settled = chosen != document.workspace_path
        tied = edits.settle_in(document, chosen, now()) if settled else None
        if not touches:
            return tied
        return attach_to(tied.document if tied else document, None, touches, message, now())

    return Synced(maps.change(mindmap_id, edit)[0], len(touches))
