"""Text formats of a mindmap (short: map): outline for agents and terminals; Markdown, Mermaid and JSON exports."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from mindmap import tree
from mindmap.document import (
    BLOCKED,
    CHANGE_KINDS,
    COMPLETED,
    DEFAULT_TYPE,
    IN_PROGRESS,
    ROOT,
    FileTouch,
    Mindmap,
    Node,
    encode_indented,
)
from mindmap.file_touches import is_generated_summary
from mindmap.tree import compute_progress

STATUS_MARKS: Final = {COMPLETED: "x", IN_PROGRESS: "~", BLOCKED: "!"}
# Maximum length of a label or reason in an outline: two lines of a terminal. Exports do not shorten them.
MAX_LABEL_LENGTH: Final = 160


@dataclass(frozen=True, slots=True)
class OutlineLine:
    """One line of an outline.

    `depth` is the depth below the outline's first node. `hidden_count` is the number of descendants that the outline
    leaves out because they are too deep.
    """

    node: Node
    depth: int
    hidden_count: int

    @property
    def label(self) -> str:
        """The label on one line, shortened if needed."""
        return tree.shorten_label(self.node.label, MAX_LABEL_LENGTH)

    @property
    def mark(self) -> str:
        """The status of a task as a box such as `[x]`, or the type in parentheses; empty for the root."""
        if self.node.is_task:
            return f"[{STATUS_MARKS.get(self.node.status or '', ' ')}]"
        return "" if self.node.id == ROOT else f"({self.node.type})"

    @property
    def remarks(self) -> list[str]:
        """Short texts after the label: why a task is blocked, its type if not the default, and counts."""
        remarks = [tree.shorten_label(self.node.reason, MAX_LABEL_LENGTH)] if self.node.reason else []
        remarks += [self.node.type] if self.node.is_task and self.node.type != DEFAULT_TYPE else []
        if count := len(self.node.files):
            remarks.append(f"{count} file{'' if count == 1 else 's'}")
        if count := sum(question.answer is None for question in self.node.questions):
            remarks.append(f"{count} open question{'' if count == 1 else 's'}")
        if count := len(self.node.comments):
            remarks.append(f"{count} comment{'' if count == 1 else 's'}")
        if self.hidden_count:
            remarks.append(f"{self.hidden_count:,} below")
        return remarks


def build_outline(
    document: Mindmap, start_id: str = ROOT, *, max_depth: int | None = None, max_lines: int | None = None
) -> list[OutlineLine]:
    """Return a node and its subtree, down to `max_depth` levels below it, as outline lines in depth-first order.

    If there are more than `max_lines` lines, complete levels are left out, the deepest first, but never the first level
    below the node. If more lines remain even then, only the first `max_lines` are returned. None means no limit.
    """
    depths = {node.id: depth for node, depth in tree.walk(document.nodes, start_id)}
    max_depth = _fit_depth(depths, max_depth, max_lines)
    lines: list[OutlineLine] = []
    for node, depth in tree.walk(document.nodes, start_id):
        if depth <= max_depth:
            is_cut = depth == max_depth and node.children
            hidden_count = len(tree.collect_subtree_ids(document.nodes, node.children)) if is_cut else 0
            lines.append(OutlineLine(node, depth, hidden_count))
    return lines if max_lines is None else lines[:max_lines]


def format_outline(lines: list[OutlineLine]) -> str:
    """Return an outline as text for agents: marks, labels, ids in braces, remarks."""
    return "\n".join(_format_line(line) for line in lines)


def add_connectors(lines: list[OutlineLine]) -> Iterator[tuple[str, OutlineLine]]:
    """Yield for each line the characters that connect it to its parent (`│  └─ `), and the line."""
    last_siblings = _find_last_siblings(lines)
    indents: list[str] = []
    for index, line in enumerate(lines):
        is_last = index in last_siblings
        del indents[max(0, line.depth - 1) :]
        yield "".join(indents) + ("" if not line.depth else "└─ " if is_last else "├─ "), line
        if line.depth:
            indents.append("   " if is_last else "│  ")


def _format_line(line: OutlineLine) -> str:
    remarks = f" - {', '.join(line.remarks)}" if line.remarks else ""
    mark = f"{line.mark} " if line.mark else ""
    return f"{'  ' * line.depth}- {mark}{line.label} {{{line.node.id}}}{remarks}"


def _fit_depth(depths: dict[str, int], max_depth: int | None, max_lines: int | None) -> int:
    """Return `max_depth`, reduced as far as the outline needs to fit into `max_lines`, but not below 1.

    `depths` has the depth of each node by id. None means no limit.
    """
    subtree_depth = max(depths.values())
    max_depth = subtree_depth if max_depth is None else min(max_depth, subtree_depth)
    if max_lines is not None:
        while max_depth > 1 and sum(depth <= max_depth for depth in depths.values()) > max_lines:
            max_depth -= 1
    return max_depth


def _find_last_siblings(lines: list[OutlineLine]) -> set[int]:
    """Return the indexes of the lines whose nodes are the last child of their parent."""
    last_siblings: set[int] = set()
    # Depths at which the current line, or an ancestor of its node, has a later sibling.
    later_sibling_depths: set[int] = set()
    for index in range(len(lines) - 1, -1, -1):
        depth = lines[index].depth
        if depth not in later_sibling_depths:
            last_siblings.add(index)
        later_sibling_depths = {other for other in later_sibling_depths if other < depth} | {depth}
    return last_siblings


# Characters with a meaning in inline Markdown.
_MARKDOWN_SPECIAL: Final = re.compile(r"([\\`*_\[\]<>#|~&])")
# Start of a text that Markdown would read as the marker of a nested list.
_LIST_MARKER: Final = re.compile(r"^(\d*)([-+.)])(?=\s|$)")
# Link style -> Mermaid arrow.
_ARROWS: Final = {None: "-->", "solid": "-->", "dashed": "-.->", "animated": "==>"}
# Node type -> brackets of its Mermaid shape; any other type is a box.
_SHAPES: Final = {
    "root": ("([", "])"),
    "decision": ("{", "}"),
    "note": (">", "]"),
    "hypothesis": ("{{", "}}"),
}


def to_markdown(document: Mindmap) -> str:
    """Return a map as Markdown.

    The tree is a task list, with the files, questions and comments of each node. After it come the files, questions and
    comments of the root, the links and the activity log.
    """
    text_lines = [
        f"# {_escape_markdown(document.title)}",
        "",
        f"{compute_progress(document)}, updated {_escape_markdown(document.updated_at)}",
        "",
    ]
    for line in build_outline(document)[1:]:
        text_lines += _format_node(line.node, "  " * (line.depth - 1))
    root = document.nodes[ROOT]
    text_lines += _format_section("Files", (f"- {_format_file(touch)}" for touch in root.files))
    text_lines += _format_section("Questions and comments", (f"- {text}" for text in _format_messages(root)))
    text_lines += _format_section("Links", _format_links(document))
    entries = (
        f"- {_escape_markdown(entry.timestamp)}: {_escape_markdown(entry.message)}"
        for entry in document.activity_log
    )
    text_lines += _format_section("Activity", entries)
    return "\n".join(text_lines).rstrip() + "\n"


def to_mermaid(document: Mindmap) -> str:
    """Return a map as a Mermaid flowchart of its tree and links."""
    nodes = [node for node, _ in tree.walk(document.nodes)]
    names = {node.id: f"n{number}" for number, node in enumerate(nodes)}
    text_lines = ["flowchart LR"]
    text_lines += [f"  {names[node.id]}{_format_mermaid_shape(node)}" for node in nodes]
    text_lines += [f"  {names[node.parent]} --- {names[node.id]}" for node in nodes if node.parent]
    for link in document.links:
        label = f'|"{_escape_mermaid(link.label)}"|' if link.label else ""
        text_lines.append(
            f"  {names[link.source]} {_ARROWS.get(link.style, '-->')}{label} {names[link.target]}"
        )
    for status, style in (
        (COMPLETED, "fill:#d3f0d3"),
        (IN_PROGRESS, "fill:#fff2b3"),
        (BLOCKED, "fill:#f8d0d0"),
    ):
        task_names = [
            names[node.id] for node in document.nodes.values() if node.is_task and node.status == status
        ]
        if task_names:
            text_lines += [f"  classDef {status} {style}", f"  class {','.join(task_names)} {status}"]
    return "\n".join(text_lines) + "\n"


FORMATS: Final[dict[str, Callable[[Mindmap], str]]] = {
    "markdown": to_markdown,
    "mermaid": to_mermaid,
    "json": encode_indented,
}


def _format_node(node: Node, indent: str) -> Iterator[str]:
    mark = f"_{_escape_markdown(node.type)}:_"
    if node.is_task:
        mark = "[x]" if node.status == COMPLETED else "[ ]"
    status = ""
    if node.is_task and node.status in (IN_PROGRESS, BLOCKED):
        reason = f": {_escape_markdown(node.reason)}" if node.reason else ""
        status = f" _({node.status.replace('_', ' ')}{reason})_"
    yield f"{indent}- {mark} {_escape_markdown(node.label)}{status}"
    for touch in node.files:
        yield f"{indent}  - {_format_file(touch)}"
    for text in _format_messages(node):
        yield f"{indent}  - {text}"


def _format_messages(node: Node) -> Iterator[str]:
    """Yield the questions of a node with their options and answers, then its comments."""
    for question in node.questions:
        options = f" ({', '.join(map(_escape_markdown, question.options))})" if question.options else ""
        answer = _escape_markdown(question.answer) if question.answer else "not answered"
        yield f"_question:_ {_escape_markdown(question.text)}{options} → {answer}"
    for comment in node.comments:
        yield f"_comment:_ {_escape_markdown(comment.text)}"


def _format_file(touch: FileTouch) -> str:
    rename_source = f"{_format_code_span(touch.previous_path)} to " if touch.previous_path else ""
    lines = f":{touch.lines}" if touch.lines else ""
    summary = f": {_escape_markdown(touch.summary)}" if touch.summary else ""
    if (touch.lines_added or touch.lines_removed) and not is_generated_summary(touch.summary or ""):
        summary += f" (+{touch.lines_added or 0}/-{touch.lines_removed or 0})"
    changes = ", ".join(
        f"{CHANGE_KINDS.get(change.kind) or _escape_markdown(change.kind)} {_format_code_span(change.symbol)}"
        for change in touch.changes
    )
    return (
        f"{_escape_markdown(touch.action)} {rename_source}{_format_code_span(touch.path + lines)}{summary}"
        + (f" ({changes})" if changes else "")
    )


def _format_links(document: Mindmap) -> Iterator[str]:
    for link in document.links:
        ends = (_escape_markdown(document.nodes[end].label) for end in (link.source, link.target))
        label, notes = (f": {_escape_markdown(text)}" if text else "" for text in (link.label, link.notes))
        yield f"- {' → '.join(ends)}{label}{notes}"


def _format_section(title: str, entries: Iterator[str]) -> Iterator[str]:
    lines = list(entries)
    if lines:
        yield from ("", f"## {title}", "", *lines)


def _escape_markdown(text: str) -> str:
    escaped_text = _MARKDOWN_SPECIAL.sub(r"\\\1", " ".join(text.split()))
    return _LIST_MARKER.sub(r"\1\\\2", escaped_text)


def _format_code_span(text: str) -> str:
    """Return text as inline code, fenced by one backquote more than its longest run of backquotes."""
    fence = "`" * (1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{' '.join(text.splitlines())}{pad}{fence}"


def _format_mermaid_shape(node: Node) -> str:
    opening, closing = _SHAPES.get(node.type, ("[", "]"))
    return f'{opening}"{_escape_mermaid(node.label)}"{closing}'


def _escape_mermaid(text: str) -> str:
    """Escape text for a quoted Mermaid label, in which Markdown has a meaning and a backslash does not escape."""
    return "".join(
        f"#{ord(letter)};" if letter in '"#&<>`*_\\;[]{}' else letter for letter in " ".join(text.split())
    )
