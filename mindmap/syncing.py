"""Git sync of one map, for whoever asks for it: an agent, who has the workspace watched too, or a person on the page.

A map without a workspace is tied to the one that is given, and only to one that git can sync.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mindmap import edits, paths
from mindmap.activity import Edited
from mindmap.document import Mindmap
from mindmap.gitsync import changed_files
from mindmap.maps import Maps
from mindmap.moments import now
from mindmap.program import Git, Workspace
from mindmap.target import attach_to
from mindmap.touching import Touch


@dataclass(frozen=True, slots=True)
class Synced:
    """The map afterwards, how many files were attached to it, and what that did; None where nothing differs."""

    document: Mindmap
    files: int
    done: Edited | None


@dataclass(frozen=True, slots=True)
class Syncing:
    """Git sync of this map; `git_of` lends the git program of a folder, `given` is the workspace that is asked for."""

    maps: Maps
    mindmap_id: str
    git_of: Callable[[str], Git]
    given: str | None = None

    def tie(self) -> str:
        """Have the map belong to its workspace, for whoever watches it before anything is attached; which one it is."""
        workspace, _ = self._found()
        self.maps.change(self.mindmap_id, self._tied)
        return workspace

    def attach(self, asked: str | None = None) -> Synced:
        """Attach every file that differs from HEAD to the node that is chosen, in one change of the map."""
        workspace, git = self._found()
        touches = changed_files(workspace, git, self.maps.path)

        def edit(document: Mindmap) -> Edited | None:
            tied = self._tied(document)
            if not touches:
                return tied
            return attach_to(tied.document if tied else document, asked, touches, _said(touches), now())

        document, done = self.maps.change(self.mindmap_id, edit)
        return Synced(document, len(touches), done if touches else None)

    def _found(self) -> tuple[str, Git]:
        """The workspace and its git program: an error where git cannot sync it, and the map is as it was."""
        workspace = paths.settled(self.maps.read(self.mindmap_id).workspace_path, self.given)
        git = self.git_of(workspace)
        Workspace.of(workspace, git)
        return workspace, git

    def _tied(self, document: Mindmap) -> Edited | None:
        chosen = paths.settled(document.workspace_path, self.given)
        return None if chosen == document.workspace_path else edits.settle_in(document, chosen, now())


def _said(touches: list[Touch]) -> str:
    return f"Git sync: {len(touches):,} file{'' if len(touches) == 1 else 's'}"
