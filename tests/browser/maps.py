"""Believable maps of any size: the plan of a coding task, the mental model beside it, the files that it touched.

Everything is written through the project's own edits, as agents write it; the same size gives the same map.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, cycle, islice
from typing import Any, Final

from mindmap.document import ACTIVE, BLOCKED, DONE, ROOT, CodeChange, Mindmap
from mindmap.file_touches import Touch, attach, told
from mindmap.links import NewLink, change_links
from mindmap.nodes import add_nodes, flattened, new_map
from tests.mindmap.sample_maps import id_of, moment

TITLE: Final = "Resumable uploads for the media service"
# The task in progress.
HEAD: Final = "Answer HEAD with the offset to resume at"

PLAN: Final[list[dict[str, Any]]] = [
    {
        "label": "Accept chunks in any order",
        "type": "plan",
        "children": [
            {"label": "Store a manifest of received byte ranges for each upload", "status": DONE},
            {"label": HEAD, "status": ACTIVE},
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
    (HEAD, "UploadSession", "reads", None),
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
STATES: Final = (DONE, DONE, DONE, "planned", "planned", ACTIVE, "planned", DONE, BLOCKED, "planned")
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


def small(workspace: str | None = None) -> Mindmap:
    """Twelve nodes, four links, three files: what an agent has after its first minutes."""
    document = planted(new_map(TITLE, workspace, moment(0)), PLAN, 1)
    document = linked(
        document, [(id_of(document, a), id_of(document, b), label, style) for a, b, label, style in LINKS]
    )
    head, session = (id_of(document, label) for label in (LINKS[0][0], "UploadSession"))
    manifest = id_of(document, "Store a manifest of received byte ranges for each upload")
    document = touched(
        document, manifest, 5, Touch("media/ranges.py", "create", changes=(CHANGES[2], CHANGES[6]))
    )
    document = touched(
        document,
        head,
        6,
        Touch(
            "media/uploads.py",
            lines="40-88",
            symbols=("UploadSession", "head"),
            changes=CHANGES,
            summary="HEAD answers the end of the first gap",
        ),
    )
    document = touched(document, session, 7, Touch("media/uploads.py", "read", lines="1-120"))
    renamed = Touch(
        "media/storage.py", "rename", previous_path="media/files.py", summary="Named for what it keeps"
    )
    return touched(document, head, 8, renamed)


def large(nodes: int, links: int, workspace: str | None = None) -> Mindmap:
    """A map of so many nodes and links, the root counted."""
    document = new_map(f"Platform migration, {nodes:,} nodes", workspace, moment(0))
    growing = _Growing(nodes - 1)
    for number, part in enumerate(growing.parts()):
        document = planted(document, [part], 1 + number // 10)
    ids = [node_id for node_id in document.nodes if node_id != ROOT]
    ends = zip(_strides(ids, 7), _strides(ids, 13), cycle(LABELS), cycle(STYLES), strict=False)
    document = linked(document, list(islice(((a, b, c, d) for a, b, c, d in ends if a != b), links)))
    for number, node_id in enumerate(ids[:: max(1, len(ids) // 60)]):
        change = CHANGES[number % len(CHANGES)]
        path = f"{AREAS[number % 9].lower().replace(' ', '_')}/{('routes', 'models', 'tasks')[number % 3]}.py"
        touch = Touch(
            path, lines=f"{number + 1}-{number + 30}", changes=(change,), summary="Git modify (+12/-3 lines)"
        )
        document = touched(document, node_id, 600 + number, touch)
    return document


def planted(document: Mindmap, nodes: Sequence[dict[str, Any]], minutes: int) -> Mindmap:
    """The map with nodes under its root."""
    return add_nodes(document, ROOT, flattened(nodes), moment(minutes)).document


def linked(document: Mindmap, ends: Sequence[tuple[str, str, str, str | None]]) -> Mindmap:
    """The map with links from id to id."""
    added = [NewLink(source, target, label, style) for source, target, label, style in ends]
    return change_links(document, added, [], moment(4)).document if added else document


def touched(document: Mindmap, node_id: str, minutes: int, touch: Touch) -> Mindmap:
    """The map with a file attached to a node."""
    return attach(document, node_id, [touch], told(touch, document.workspace_path), moment(minutes))


@dataclass(slots=True)
class _Growing:
    """Makes nested parts until so many nodes are made."""

    left: int
    states: Iterator[str] = field(default_factory=lambda: cycle(STATES))
    details: Iterator[str] = field(default_factory=lambda: cycle(DETAILS))
    number: Iterator[int] = field(default_factory=count)

    def parts(self) -> Iterator[dict[str, Any]]:
        for goal, area in zip(cycle(GOALS), cycle(AREAS), strict=False):
            if self.left <= 0:
                return
            if next(self.number) % 3 == 2:
                yield self._concepts(area)
            else:
                yield self._plan(goal.format(area.lower()))

    def _plan(self, goal: str) -> dict[str, Any]:
        plan = self._made(goal, "plan", next(self.states))
        plan["children"] = [self._step(step) for step in STEPS[: 5 + next(self.number) % 6] if self.left > 0]
        return plan

    def _step(self, label: str) -> dict[str, Any]:
        step = self._made(label, "task", next(self.states))
        size = (0, 2, 0, 3, 5, 0)[next(self.number) % 6]
        step["children"] = [
            self._made(next(self.details), "task", next(self.states)) for _ in range(size) if self.left > 0
        ]
        return step

    def _concepts(self, area: str) -> dict[str, Any]:
        head = self._made(f"How {area.lower()} fits together", "component")
        head["children"] = [self._made(name.format(area), kind) for kind, name in CONCEPTS if self.left > 0]
        return head

    def _made(self, label: str, kind: str, status: str | None = None) -> dict[str, Any]:
        self.left -= 1
        return {"label": label, "type": kind} | ({"status": status} if status else {})


def _strides(ids: Sequence[str], by: int) -> Iterator[str]:
    return (ids[(place * by * 31 + by) % len(ids)] for place in count())
