"""A map as an outline, a line for each node: what people and agents read first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mindmap import tree
from mindmap.document import ACTIVE, BLOCKED, DEFAULT_TYPE, DONE, ROOT, Mindmap, Node

MARKS: Final = {DONE: "x", ACTIVE: "~", BLOCKED: "!"}
# Two lines of a terminal; a note may be longer, and is whole in the document.
LONGEST_LABEL: Final = 160


@dataclass(frozen=True, slots=True)
class Line:
    """A node in its place; `hidden` counts the nodes below it that are not shown."""

    node: Node
    depth: int
    hidden: int

    @property
    def label(self) -> str:
        """The label on one line."""
        label = " ".join(self.node.label.split())
        return label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…"

    @property
    def mark(self) -> str:
        """A box for a task, the type of anything else; nothing for the root."""
        if self.node.is_task:
            return f"[{MARKS.get(self.node.status or '', ' ')}]"
        return "" if self.node.id == ROOT else f"({self.node.type})"

    @property
    def remarks(self) -> list[str]:
        """What else there is to say in a word: an unusual type of task, files, what is not shown."""
        said = [self.node.type] if self.node.is_task and self.node.type != DEFAULT_TYPE else []
        if files := len(self.node.files):
            said.append(f"{files} file{'' if files == 1 else 's'}")
        if self.hidden:
            said.append(f"{self.hidden:,} below")
        return said


def lines(
    document: Mindmap, start: str = ROOT, *, deepest: int | None = None, most: int | None = None
) -> list[Line]:
    """The nodes from one on, down to a depth, and at most so many: whole levels are dropped, the lowest first."""
    depths = {node.id: depth for node, depth in tree.walk(document.nodes, start)}
    deepest = _fitting(depths, deepest, most)
    shown: list[Line] = []
    for node, depth in tree.walk(document.nodes, start):
        if depth <= deepest:
            hidden = (
                len(tree.below(document.nodes, node.children)) if depth == deepest and node.children else 0
            )
            shown.append(Line(node, depth, hidden))
    return shown if most is None else shown[:most]


def text(shown: list[Line]) -> str:
    """The outline as agents read it: marks, labels, ids."""
    return "\n".join(_text(line) for line in shown)


def drawn(shown: list[Line]) -> Iterator[tuple[str, Line]]:
    """The lines with the branches that lead to each, as a terminal shows a tree."""
    last = _last_of_their_parents(shown)
    bars: list[str] = []
    for place, line in enumerate(shown):
        del bars[max(0, line.depth - 1) :]
        yield "".join(bars) + ("" if not line.depth else "└─ " if place in last else "├─ "), line
        if line.depth:
            bars.append("   " if place in last else "│  ")


def _text(line: Line) -> str:
    remarks = f" - {', '.join(line.remarks)}" if line.remarks else ""
    mark = f"{line.mark} " if line.mark else ""
    return f"{'  ' * line.depth}- {mark}{line.label} {{{line.node.id}}}{remarks}"


def _fitting(depths: dict[str, int], deepest: int | None, most: int | None) -> int:
    lowest = max(depths.values())
    deepest = lowest if deepest is None else min(deepest, lowest)
    while most is not None and deepest > 1 and sum(depth <= deepest for depth in depths.values()) > most:
        deepest -= 1
    return deepest


def _last_of_their_parents(shown: list[Line]) -> set[int]:
    """The places of lines that no line of the same parent follows."""
    last: set[int] = set()
    open_depths: set[int] = set()
    for place in range(len(shown) - 1, -1, -1):
        depth = shown[place].depth
        if depth not in open_depths:
            last.add(place)
        open_depths = {other for other in open_depths if other < depth} | {depth}
    return last
