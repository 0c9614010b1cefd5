"""A map as an outline, a line for each node: what people and agents read first.

A map for other programs: Markdown to read, Mermaid to draw, JSON as it is kept, laid out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from mindmap import tree
from mindmap.document import (
    ACTIVE,
    BLOCKED,
    CHANGE_KINDS,
    DEFAULT_TYPE,
    DONE,
    ROOT,
    FileTouch,
    Mindmap,
    Node,
    readable,
)
from mindmap.tree import progress

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


# What Markdown would take for more than text, where it stands in a line.
_MARKED: Final = re.compile(r"([\\`*_\[\]<>#|~&])")
_ARROWS: Final = {None: "-->", "solid": "-->", "dashed": "-.->", "animated": "==>"}
# The shapes that Mermaid draws a concept and a decision in; everything else is a box.
_SHAPES: Final = {
    "root": ("([", "])"),
    "decision": ("{", "}"),
    "note": (">", "]"),
    "hypothesis": ("{{", "}}"),
}


def markdown(document: Mindmap) -> str:
    """The tree as a list with boxes to tick, then links and the log."""
    said = [f"# {_escaped(document.title)}", "", f"{progress(document)}, updated {document.updated_at}", ""]
    for line in lines(document)[1:]:
        said += _item(line.node, "  " * (line.depth - 1))
    root = document.nodes[ROOT]
    said += [*_section("Files", (f"- {_file(touch)}" for touch in root.files))]
    said += [*_section("Links", _links(document))]
    entries = (f"- {entry.timestamp}: {_escaped(entry.message)}" for entry in document.activity_log)
    said += [*_section("Activity", entries)]
    return "\n".join(said).rstrip() + "\n"


def mermaid(document: Mindmap) -> str:
    """The tree and its links as a flowchart."""
    names = {node.id: f"n{number}" for number, (node, _) in enumerate(tree.walk(document.nodes))}
    said = ["flowchart LR"]
    said += [f"  {names[node.id]}{_shape(node)}" for node, _ in tree.walk(document.nodes)]
    said += [
        f"  {names[node.parent]} --- {names[node.id]}" for node, _ in tree.walk(document.nodes) if node.parent
    ]
    for link in document.links:
        label = f'|"{_entities(link.label)}"|' if link.label else ""
        said.append(f"  {names[link.source]} {_ARROWS.get(link.style, '-->')}{label} {names[link.target]}")
    for status, style in ((DONE, "fill:#d3f0d3"), (ACTIVE, "fill:#fff2b3"), (BLOCKED, "fill:#f8d0d0")):
        marked = [
            names[node.id] for node in document.nodes.values() if node.is_task and node.status == status
        ]
        if marked:
            said += [f"  classDef {status} {style}", f"  class {','.join(marked)} {status}"]
    return "\n".join(said) + "\n"


def as_json(document: Mindmap) -> str:
    """The document of its file, laid out."""
    return readable(document)


FORMATS: Final[dict[str, Callable[[Mindmap], str]]] = {
    "markdown": markdown,
    "mermaid": mermaid,
    "json": as_json,
}


def _item(node: Node, indent: str) -> Iterator[str]:
    box = ("[x] " if node.status == DONE else "[ ] ") if node.is_task else f"_{_escaped(node.type)}:_ "
    state = (
        f" _({node.status.replace('_', ' ')})_" if node.is_task and node.status in (ACTIVE, BLOCKED) else ""
    )
    yield f"{indent}- {box}{_escaped(node.label)}{state}"
    for touch in node.files:
        yield f"{indent}  - {_file(touch)}"


def _file(touch: FileTouch) -> str:
    renamed = f"{_code(touch.previous_path)} to " if touch.previous_path else ""
    lines = f":{touch.lines}" if touch.lines else ""
    said = f": {_escaped(touch.summary)}" if touch.summary else ""
    changes = ", ".join(
        f"{CHANGE_KINDS.get(change.kind, change.kind)} {_code(change.symbol)}" for change in touch.changes
    )
    return f"{touch.action} {renamed}{_code(touch.path + lines)}{said}" + (f" ({changes})" if changes else "")


def _links(document: Mindmap) -> Iterator[str]:
    for link in document.links:
        ends = (_escaped(document.nodes[end].label) for end in (link.source, link.target))
        label, notes = (f": {_escaped(said)}" if said else "" for said in (link.label, link.notes))
        yield f"- {' → '.join(ends)}{label}{notes}"


def _section(title: str, entries: Iterator[str]) -> Iterator[str]:
    listed = list(entries)
    if listed:
        yield from ("", f"## {title}", "", *listed)


def _escaped(text: str) -> str:
    return _MARKED.sub(r"\\\1", " ".join(text.split()))


def _code(text: str) -> str:
    """Text between backquotes: as many as it has itself in a row, and one more."""
    fence = "`" * (1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{' '.join(text.splitlines())}{pad}{fence}"


def _shape(node: Node) -> str:
    opening, closing = _SHAPES.get(node.type, ("[", "]"))
    return f'{opening}"{_entities(node.label)}"{closing}'


def _entities(text: str) -> str:
    """Text in Mermaid's quotation marks, which take no backslash and read some Markdown."""
    return "".join(
        f"#{ord(letter)};" if letter in '"#&<>`*_\\;[]{}' else letter for letter in " ".join(text.split())
    )
