"""Realistic maps of any size: plan, mental model and touched files of a coding task.

The project's own edit functions build them. The same size gives the same map.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, cycle, islice
from typing import Any, Final

from mindmap.document import BLOCKED, COMPLETED, IN_PROGRESS, ROOT, CodeChange, Mindmap
from mindmap.file_touches import TouchInput, attach_files, describe_touch
from mindmap.links import NewLink, change_links
from mindmap.nodes import NewNode, NodeUpdate, add_nodes, create_mindmap, flatten_nodes, update_nodes
from tests.mindmap.sample_maps import create_timestamp, find_id

TITLE: Final = "Resumable uploads for the media service"
# Label of the task in progress.
ACTIVE_TASK: Final = "Answer HEAD with the offset to resume at"
RISK: Final = "Scratch files of abandoned uploads fill the disk"

PLAN: Final[list[dict[str, Any]]] = [
    {
        "label": "Accept chunks in any order",
        "type": "plan",
        "children": [
            {"label": "Store a manifest of received byte ranges for each upload", "status": COMPLETED},
            {"label": ACTIVE_TASK, "status": IN_PROGRESS},
            {"label": "Reject a chunk whose checksum does not match", "status": "planned"},
            {"label": "Load test with 2,000 parallel uploads: no staging bucket yet", "status": BLOCKED},
        ],
    },
    {
        "label": "How uploads work today",
        "type": "component",
        "children": [
            {"label": "UploadSession", "type": "component"},
            {"label": "Chunk -> scratch file -> object store", "type": "data_flow"},
            {"label": "Keep the manifest in Postgres, not in Redis", "type": "decision"},
            {
                "label": "The proxy buffers whole bodies, so offsets look complete too early",
                "type": "hypothesis",
            },
            {"label": "Scratch files of abandoned uploads fill the disk", "type": "risk"},
        ],
    },
]
LINKS: Final = (
    (ACTIVE_TASK, "UploadSession", "reads", None),
    ("UploadSession", "Chunk -> scratch file -> object store", "drives", "animated"),
    (
        "The proxy buffers whole bodies, so offsets look complete too early",
        "Chunk -> scratch file -> object store",
        "would explain the stalls",
        "dashed",
    ),
    (
        "Keep the manifest in Postgres, not in Redis",
        "Scratch files of abandoned uploads fill the disk",
        "makes a nightly sweep possible",
        None,
    ),
)

AREAS: Final = (
    "Uploads", "Billing", "Search", "Notifications", "Accounts", "Reports", "Permissions", "Imports", "Webhooks",
    "Audit log", "Rate limits", "Sessions", "Exports", "Thumbnails", "Scheduler", "Public API",
)  # fmt: skip
GOALS: Final = (
    "Move {} behind the new gateway", "Split {} out of the monolith", "Make {} survive a restart",
    "Cut the tail latency of {}", "Give {} an audit trail", "Bring {} to the new schema",
)  # fmt: skip
STEPS: Final = (
    "Read how requests reach it today and write down the entry points", "Add a contract test for every public route",
    "Extract the queries into one module", "Replace the global lock by one for each tenant",
    "Write the migration and its way back", "Retry with a budget instead of for ever",
    "Measure before and after with the recorded traffic", "Delete the flag and the old path",
    "Name the errors and say what to do next", "Cover the empty and the very large input",
)  # fmt: skip
DETAILS: Final = (
    "Pin the clock in its tests", "Close the cursor when the client hangs up", "Log the request id on every line",
    "Keep the old column until all readers have moved", "Check the index is used at ten million rows",
    "Make the second call a no-op", "Say in the changelog what changes for callers", "Bound the queue and count drops",
)  # fmt: skip
CONCEPTS: Final = (
    ("component", "{} service"), ("component", "{} repository layer"), ("data_flow", "{} events through the outbox"),
    ("decision", "{}: one writer for each tenant"), ("hypothesis", "{} slows down when the cache is cold"),
    ("risk", "{}: a retry may be counted twice"), ("data_flow", "Request to {} and back"),
    ("note", "{}: owners and on-call"),
)  # fmt: skip
STATUS_CYCLE: Final = (
    COMPLETED,
    COMPLETED,
    COMPLETED,
    "planned",
    "planned",
    IN_PROGRESS,
    "planned",
    COMPLETED,
    BLOCKED,
    "planned",
)
LABELS: Final = ("calls", "publishes to", "guards", "depends on", "would explain", "replaces")
STYLES: Final = ("solid", "solid", "dashed", "animated")
CHANGES: Final = (
    CodeChange(kind="add", symbol="resume_offset", detail="answers where to go on"),
    CodeChange(kind="modify", symbol="UploadSession.append"),
    CodeChange(kind="fix", symbol="ranges.merge", detail="adjoining ranges were kept apart"),
    CodeChange(kind="refactor", symbol="storage.open_scratch"),
    CodeChange(kind="rename", symbol="ByteRange", previous_symbol="Range"),
    CodeChange(kind="remove", symbol="legacy_put"),
    CodeChange(kind="test", symbol="test_resume_after_kill"),
)


def create_small_map(workspace: str | None = None) -> Mindmap:
    """Create a map of twelve nodes, four links and three files."""
    document = add_under_root(create_mindmap(TITLE, workspace, create_timestamp(0)), PLAN, 1)
    document = add_links(
        document,
        [(find_id(document, a), find_id(document, b), label, style) for a, b, label, style in LINKS],
    )
    head, session = (find_id(document, label) for label in (LINKS[0][0], "UploadSession"))
    manifest = find_id(document, "Store a manifest of received byte ranges for each upload")
    document = attach_file(
        document, manifest, 5, TouchInput("media/ranges.py", "create", changes=(CHANGES[2], CHANGES[6]))
    )
    document = attach_file(
        document,
        head,
        6,
        TouchInput(
            "media/uploads.py",
            lines="40-88",
            symbols=("UploadSession", "head"),
            changes=CHANGES,
            summary="HEAD answers the end of the first gap",
        ),
    )
    document = attach_file(document, session, 7, TouchInput("media/uploads.py", "read", lines="1-120"))
    rename_touch = TouchInput(
        "media/storage.py", "rename", previous_path="media/files.py", summary="Named for what it keeps"
    )
    return attach_file(document, head, 8, rename_touch)


def create_large_map(nodes: int, links: int, workspace: str | None = None) -> Mindmap:
    """Create a map with this many nodes, the root included, and links."""
    document = create_mindmap(f"Platform migration, {nodes:,} nodes", workspace, create_timestamp(0))
    generator = _MapGenerator(nodes - 1)
    for number, branch in enumerate(generator.generate_branches()):
        document = add_under_root(document, [branch], 1 + number // 10)
    ids = [node_id for node_id in document.nodes if node_id != ROOT]
    ends = zip(_iter_strides(ids, 7), _iter_strides(ids, 13), cycle(LABELS), cycle(STYLES), strict=False)
    document = add_links(document, list(islice(((a, b, c, d) for a, b, c, d in ends if a != b), links)))
    for number, node_id in enumerate(ids[:: max(1, len(ids) // 60)]):
        change = CHANGES[number % len(CHANGES)]
        path = f"{AREAS[number % 9].lower().replace(' ', '_')}/{('routes', 'models', 'tasks')[number % 3]}.py"
        touch = TouchInput(
            path, lines=f"{number + 1}-{number + 30}", changes=(change,), summary="Git modify (+12/-3 lines)"
        )
        document = attach_file(document, node_id, 600 + number, touch)
    return document


def add_node(document: Mindmap, label: str, node_type: str = "task", status: str | None = None) -> Mindmap:
    """Return the map with a node added under its root."""
    return add_nodes(document, ROOT, [NewNode(label, node_type, status)], create_timestamp(30)).document


def set_status(document: Mindmap, label: str, status: str) -> Mindmap:
    """Return the map with another status of the task with a label."""
    return update_nodes(
        document, [NodeUpdate(find_id(document, label), status=status)], create_timestamp(40)
    ).document


def add_under_root(document: Mindmap, nodes: Sequence[dict[str, Any]], minutes: int) -> Mindmap:
    """Return the map with nodes added under its root."""
    return add_nodes(document, ROOT, flatten_nodes(nodes), create_timestamp(minutes)).document


def add_links(document: Mindmap, ends: Sequence[tuple[str, str, str, str | None]]) -> Mindmap:
    """Return the map with links, given as (source id, target id, label, style)."""
    new_links = [NewLink(source, target, label, style) for source, target, label, style in ends]
    return change_links(document, new_links, [], create_timestamp(4)).document if new_links else document


def attach_file(document: Mindmap, node_id: str, minutes: int, touch: TouchInput) -> Mindmap:
    """Return the map with a file attached to a node."""
    return attach_files(
        document, node_id, [touch], describe_touch(touch, document.workspace_path), create_timestamp(minutes)
    )


@dataclass(slots=True)
class _MapGenerator:
    """Generator of nested branches with `remaining` nodes in total."""

    remaining: int
    statuses: Iterator[str] = field(default_factory=lambda: cycle(STATUS_CYCLE))
    details: Iterator[str] = field(default_factory=lambda: cycle(DETAILS))
    number: Iterator[int] = field(default_factory=count)

    def generate_branches(self) -> Iterator[dict[str, Any]]:
        for goal, area in zip(cycle(GOALS), cycle(AREAS), strict=False):
            if self.remaining <= 0:
                return
            if next(self.number) % 3 == 2:
                yield self._create_concepts(area)
            else:
                yield self._create_plan(goal.format(area.lower()))

    def _create_plan(self, goal: str) -> dict[str, Any]:
        plan = self._create_node(goal, "plan", next(self.statuses))
        plan["children"] = [
            self._create_step(step) for step in STEPS[: 5 + next(self.number) % 6] if self.remaining > 0
        ]
        return plan

    def _create_step(self, label: str) -> dict[str, Any]:
        step = self._create_node(label, "task", next(self.statuses))
        size = (0, 2, 0, 3, 5, 0)[next(self.number) % 6]
        step["children"] = [
            self._create_node(next(self.details), "task", next(self.statuses))
            for _ in range(size)
            if self.remaining > 0
        ]
        return step

    def _create_concepts(self, area: str) -> dict[str, Any]:
        head = self._create_node(f"How {area.lower()} fits together", "component")
        head["children"] = [
            self._create_node(name.format(area), kind) for kind, name in CONCEPTS if self.remaining > 0
        ]
        return head

    def _create_node(self, label: str, node_type: str, status: str | None = None) -> dict[str, Any]:
        self.remaining -= 1
        return {"label": label, "type": node_type} | ({"status": status} if status else {})


def _iter_strides(ids: Sequence[str], step: int) -> Iterator[str]:
    """Yield ids from all over the list without end; the same step gives the same order."""
    return (ids[(index * step * 31 + step) % len(ids)] for index in count())
