"""The lineage of a file that a map holds: the same question, answered by the same, as `lineage explain`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from mindmap.document import Mindmap
from mindmap.paths import BadPath, NoWorkspace, Paths
from mindmap.span import bounds
from serve.answering import Answering
from serve.answers import ExplainAnswer
from serve.questions import ExplainRequest
from serve.viewer.refusals import NotTouched


@dataclass(frozen=True, slots=True)
class Why:
    """Why do these lines of this file look the way they do? `lines` may be empty: the whole file."""

    path: str
    lines: str = ""

    def asked_of(self, document: Mindmap, answering: Answering) -> ExplainAnswer:
        """The answer, for a file that the map holds inside its workspace."""
        workspace = document.workspace_path
        if not workspace:
            raise NoWorkspace(
                "The map has no workspace.", hint="Sync it with git once, and name its work tree."
            )
        file = _file(document, workspace, self.path)
        start, end = bounds(self.lines) if self.lines.strip() else (1, 0)
        request = ExplainRequest(file, start, end, include_related=True)
        return answering.explain(request, Path(workspace))


def _file(document: Mindmap, workspace: str, path: str) -> str:
    """The file, as an absolute path: nothing but what the map holds, and nothing outside its workspace."""
    held = {
        name
        for node in document.nodes.values()
        for touch in node.files
        for name in (touch.path, touch.previous_path)
    }
    if path not in held:
        raise NotTouched(f"{document.id} does not hold {path!r}.", hint="Give a path as the map has it.")
    paths = Paths.of(workspace)
    kept = paths.kept(path)
    file = Path(paths.root, kept)
    # Links on the way may lead out; one at its end is explained as the link that it is.
    parent = os.path.realpath(file.parent)
    if kept.startswith("/") or not Path(parent).is_relative_to(paths.root):
        raise BadPath(
            f"{path!r} lies outside the workspace.", hint="Only files of the workspace have a lineage."
        )
    return str(file)
