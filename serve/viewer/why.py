"""The lineage of a file that a map holds: the same question, answered by the same, as `lineage explain`."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mindmap.document import Mindmap
from mindmap.paths import BadPath, NoWorkspace, Paths
from serve.answering import Answering
from serve.answers import ExplainAnswer
from serve.errors import BadRequest
from serve.questions import ExplainRequest
from serve.viewer.refusals import NotTouched

# As an agent writes them, and as `lineage explain` takes them.
LINES: Final = re.compile(r"([0-9]{1,9})(?:[-:]([0-9]{1,9}))?")


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
        start, end = bounds(self.lines)
        request = ExplainRequest(file, start, end, include_related=True)
        return answering.explain(request, Path(workspace))


def bounds(lines: str) -> tuple[int, int]:
    """First and last line; the end of the file is 0."""
    if not lines.strip():
        return 1, 0
    said = LINES.fullmatch(lines.strip())
    first, last = (int(said[1]), int(said[2] or said[1])) if said else (0, 0)
    if not 1 <= first <= last:
        raise BadRequest(f"{lines!r} is no range of lines.", hint="Give lines as `10-20`, or `10` for one.")
    return first, last


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
