"""Node operations: each call applies completely or not at all, and keeps the map consistent."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule
from msgspec.structs import replace

from mindmap import tree, validation
from mindmap.document import NODE_TYPES, ROOT, STATUSES, TASK_TYPES, Mindmap
from mindmap.file_touches import TouchInput, attach_files, choose_target
from mindmap.links import LinkRemoval, NewLink, change_links
from mindmap.nodes import (
    BadNode,
    NewNode,
    NodeUpdate,
    add_nodes,
    add_note,
    create_mindmap,
    flatten_nodes,
    move_nodes,
    remove_nodes,
    set_workspace,
    update_nodes,
)
from stores.errors import LineageError
from tests.mindmap.sample_maps import NOON, assert_consistent, create_map, create_timestamp, find_id

LABELS = st.text(min_size=1, max_size=8).filter(
    lambda text: (
        text.strip() and "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)
    )
)


class Edits(RuleBasedStateMachine):
    """Random edits in random order, with clocks that may go backwards; the map stays consistent."""

    nodes = Bundle("nodes")

    def __init__(self) -> None:
        super().__init__()
        self.document = create_mindmap("A map", "/workspace", NOON)

    @initialize(target=nodes)
    def root(self) -> str:
        return ROOT

    @rule(
        target=nodes,
        parent=nodes,
        labels=st.lists(LABELS, min_size=1, max_size=4),
        clock=st.integers(0, 200),
        data=st.data(),
    )
    def add(self, parent: str, labels: list[str], clock: int, data: st.DataObject) -> object:
        batch = []
        for place, label in enumerate(labels):
            node_type = data.draw(st.sampled_from(NODE_TYPES))
            status = data.draw(st.sampled_from(STATUSES)) if node_type in TASK_TYPES else None
            above = data.draw(st.sampled_from([None, *range(place)]))
            batch.append(NewNode(label, node_type, status, above))
        if parent not in self.document.nodes:
            with pytest.raises(tree.UnknownNode):
                add_nodes(self.document, parent, batch, create_timestamp(clock))
            return multiple()
        result = add_nodes(self.document, parent, batch, create_timestamp(clock))
        assert result.node_count == len(result.document.nodes) - len(self.document.nodes)
        self.document = result.document
        return multiple(*result.ids)

    @rule(
        moved_ids=st.lists(nodes, min_size=1, max_size=3),
        parent=nodes,
        clock=st.integers(0, 200),
        position=st.none() | st.integers(-1, 5),
    )
    def move(self, moved_ids: list[str], parent: str, clock: int, position: int | None) -> None:
        try:
            result = move_nodes(self.document, moved_ids, parent, create_timestamp(clock), position)
        except LineageError:
            return
        assert len(result.document.nodes) == len(self.document.nodes)
        assert all(result.document.nodes[node_id].parent == parent for node_id in moved_ids)
        self.document = result.document

    @rule(removed_ids=st.lists(consumes(nodes), min_size=1, max_size=2), clock=st.integers(0, 200))
    def remove(self, removed_ids: list[str], clock: int) -> None:
        try:
            result = remove_nodes(self.document, removed_ids, create_timestamp(clock))
        except LineageError:
            return
        assert len(result.document.nodes) == len(self.document.nodes) - result.node_count
        assert len(result.document.links) == len(self.document.links) - result.link_count
        assert not set(removed_ids) & set(result.document.nodes)
        self.document = result.document

    @rule(
        node=nodes,
        node_type=st.none() | st.sampled_from(NODE_TYPES),
        status=st.none() | st.sampled_from(STATUSES),
        clock=st.integers(0, 200),
    )
    def update(self, node: str, node_type: str | None, status: str | None, clock: int) -> None:
        try:
            self.document = update_nodes(
                self.document, [NodeUpdate(node, None, node_type, status)], create_timestamp(clock)
            ).document
        except LineageError:
            return

    @rule(
        source=nodes,
        to=nodes,
        label=st.sampled_from(["", "calls", "feeds"]),
        style=st.sampled_from([None, "dashed"]),
        clock=st.integers(0, 200),
    )
    def link(self, source: str, to: str, label: str, style: str | None, clock: int) -> None:
        try:
            self.document = change_links(
                self.document, [NewLink(source, to, label, style)], [], create_timestamp(clock)
            ).document
        except LineageError:
            assert not {source, to} <= set(self.document.nodes)

    @rule(source=nodes, to=nodes, clock=st.integers(0, 200))
    def unlink(self, source: str, to: str, clock: int) -> None:
        try:
            self.document = change_links(
                self.document, [], [LinkRemoval(source=source, target=to)], create_timestamp(clock)
            ).document
        except LineageError:
            return

    @rule(
        node=st.none() | nodes,
        path=st.sampled_from(["a.py", "./a.py", "/workspace/a.py", "b.py", "/elsewhere/c.py"]),
        previous=st.sampled_from([None, None, "a.py", "b.py"]),
        clock=st.integers(0, 200),
    )
    def touch(self, node: str | None, path: str, previous: str | None, clock: int) -> None:
        target = choose_target(self.document, node)
        touches = [TouchInput(path, "rename" if previous else None, previous)]
        self.document = attach_files(
            target.document, target.node_id, touches, "Touched", create_timestamp(clock)
        )

    @rule(clock=st.integers(0, 200))
    def add_a_note(self, clock: int) -> None:
        self.document = add_note(self.document, "Something happened", create_timestamp(clock)).document

    @invariant()
    def is_consistent(self) -> None:
        assert_consistent(self.document)


TestEdits = Edits.TestCase
TestEdits.settings = settings(max_examples=40, stateful_step_count=30)


def test_nested_batch() -> None:
    """Nested nodes are added parents first, with one log entry."""
    document = create_map(
        {
            "label": "Plan",
            "type": "plan",
            "children": [{"label": "One"}, {"label": "Two", "children": [{"label": "Deep"}]}],
        },
        {"label": "Next"},
    )
    labels_and_depths = [(node.label, depth) for node, depth in tree.walk(document.nodes)]
    assert labels_and_depths == [("A map", 0), ("Plan", 1), ("One", 2), ("Two", 2), ("Deep", 3), ("Next", 1)]
    assert [entry.message for entry in document.activity_log] == [
        "Added 5 nodes under 'A map'",
        "Created 'A map'",
    ]
    assert {node.status for node in document.nodes.values() if node.id != ROOT} == {"planned"}


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"label": " "}, "The label is empty"),
        ({"label": "x" * 50_000_000}, "has 50,000,000 characters. At most 20,000 are possible"),
        ({"label": "a\0b"}, "invalid characters"),
        ({"label": "\ud800"}, "invalid characters"),
        ({"label": "x", "type": "root"}, "'root' is not a node type"),
        ({"label": "x", "type": "epic"}, "Types are plan, task"),
        ({"label": "x", "status": "done"}, "Statuses are planned, in_progress, completed, blocked"),
        ({"label": "x", "type": "note", "status": "planned"}, "is a note: it has no status"),
        ({"label": "x", "colour": "red"}, "A node has no field 'colour'"),
        ({"label": 3}, "A node's label must be a text"),
        ({"label": "x", "children": "y"}, "children must be a list"),
        ({"label": "x", "children": False}, "children must be a list"),
        ({"label": "x", "type": ""}, "'' is not a node type"),
        ({"label": "x", "children": ["y"]}, "A node must be an object"),
    ],
)
def test_invalid_nodes(node: dict[str, object], message: str) -> None:
    """An invalid node raises an error that names valid values."""
    with pytest.raises(LineageError) as caught:
        flatten_nodes([node])
    assert message in str(caught.value)


def create_nested_node(levels: int) -> dict[str, object]:
    """Return a node with this many levels."""
    node: dict[str, object] = {"label": "bottom"}
    for _ in range(levels - 1):
        node = {"label": "level", "children": [node]}
    return node


def test_deep_nesting() -> None:
    """The depth limit applies to new and moved nodes; the error names it."""
    document = create_map(create_nested_node(64))
    for levels in (65, 10_000):
        with pytest.raises(validation.OverLimit, match="at most 64 levels"):
            flatten_nodes([create_nested_node(levels)])
    with pytest.raises(validation.OverLimit, match="at most 64 levels"):
        add_nodes(document, find_id(document, "bottom"), flatten_nodes([{"label": "x"}]), NOON)
    other = add_nodes(
        document, ROOT, flatten_nodes([create_nested_node(2) | {"label": "two"}]), NOON
    ).document
    two = find_id(other, "two")
    deep = next(node.id for node, depth in tree.walk(other.nodes) if depth == 63 and node.children)
    with pytest.raises(validation.OverLimit, match="at most 64 levels"):
        move_nodes(other, [two], deep, NOON)


def test_node_limits() -> None:
    """A call and a map have a maximum of nodes; an empty call is an error too."""
    for nodes in ([{"label": "x"}] * 3_000, [{"label": "x", "children": [{"label": "y"}] * 2_999}]):
        with pytest.raises(validation.OverLimit, match=r"At most 1,000 nodes .* this one has 3,000\."):
            flatten_nodes(nodes)
    with pytest.raises(validation.BadText, match="The list of nodes is empty"):
        add_nodes(create_map(), ROOT, [], NOON)
    document = create_map()
    for _ in range(19):
        document = add_nodes(document, ROOT, [NewNode("x")] * 1_000, NOON).document
    document = add_nodes(document, ROOT, [NewNode("x")] * 999, NOON).document
    with pytest.raises(validation.OverLimit, match="at most 20,000 nodes"):
        add_nodes(document, ROOT, [NewNode("x")], NOON)


def test_update() -> None:
    """Labels, types and statuses change; a node that is no longer a task loses its status until it is one again."""
    document = create_map({"label": "Parse"})
    parse = find_id(document, "Parse")
    result = update_nodes(document, [NodeUpdate(parse, status="in_progress")], create_timestamp(1))
    assert result.message == "Parse: planned -> in_progress"
    assert result.document.nodes[parse].updated_at == create_timestamp(1)
    result = update_nodes(
        result.document, [NodeUpdate(parse, type="decision", label="Use a parser")], create_timestamp(2)
    )
    assert result.message == "Parse: renamed to 'Use a parser', task -> decision"
    assert result.document.nodes[parse].status is None
    result = update_nodes(result.document, [NodeUpdate(parse, type="code")], create_timestamp(3))
    assert result.document.nodes[parse].status == "planned"
    with pytest.raises(BadNode, match=f"The update of {parse} is empty"):
        update_nodes(document, [NodeUpdate(parse)], NOON)


def test_root() -> None:
    """The root keeps its type and place; its label is the map's title."""
    document = create_map({"label": "Plan"})
    renamed = update_nodes(document, [NodeUpdate(ROOT, label="Another")], NOON).document
    assert (renamed.title, renamed.nodes[ROOT].label, renamed.nodes[ROOT].type) == (
        "Another",
        "Another",
        "root",
    )
    failing_edits: tuple[Callable[[], object], ...] = (
        lambda: update_nodes(document, [NodeUpdate(ROOT, status="completed")], NOON),
        lambda: update_nodes(document, [NodeUpdate(ROOT, type="task")], NOON),
        lambda: remove_nodes(document, [ROOT], NOON),
        lambda: move_nodes(document, [ROOT], find_id(document, "Plan"), NOON),
    )
    for failing_edit in failing_edits:
        with pytest.raises(BadNode, match=r"[Tt]he root"):
            failing_edit()


def test_batch_is_atomic() -> None:
    """One invalid item rejects the complete batch."""
    document = create_map({"label": "One"}, {"label": "Two"})
    one = find_id(document, "One")
    failing_edits: tuple[Callable[[], object], ...] = (
        lambda: update_nodes(
            document, [NodeUpdate(one, label="Changed"), NodeUpdate("n_none", label="x")], NOON
        ),
        lambda: remove_nodes(document, [one, "n_none"], NOON),
        lambda: move_nodes(document, [one, "n_none"], ROOT, NOON),
        lambda: change_links(document, [NewLink(one, ROOT), NewLink(one, "n_none")], [], NOON),
    )
    for failing_edit in failing_edits:
        with pytest.raises(tree.UnknownNode, match="There is no node 'n_none'"):
            failing_edit()
    assert_consistent(document)
    assert document.nodes[one].label == "One"
    assert document.links == ()


def test_unknown_node() -> None:
    """The error for an unknown node names the node with that label, or else the top nodes."""
    document = create_map({"label": "Parser"})
    parser = find_id(document, "Parser")
    with pytest.raises(tree.UnknownNode) as caught:
        tree.get_node(document, "parser")
    assert f"A node has this label: {parser} (Parser)" in str(caught.value)
    with pytest.raises(tree.UnknownNode) as caught:
        tree.get_node(document, "n_gone")
    assert f"The top nodes are root (A map), {parser} (Parser)" in str(caught.value)
    with pytest.raises(tree.UnknownNode, match=r"\(Parser and lexer\)"):
        tree.get_node(create_map({"label": "Parser\nand  lexer"}), "n_gone")


def test_remove_with_subtree() -> None:
    """Removing a node removes its subtree and all links of it, and counts them."""
    document = create_map(
        {"label": "A", "children": [{"label": "B", "children": [{"label": "C"}]}]}, {"label": "D"}
    )
    a, b, c, d = (find_id(document, label) for label in "ABCD")
    document = change_links(document, [NewLink(c, d), NewLink(d, b), NewLink(d, ROOT)], [], NOON).document
    result = remove_nodes(document, [c, a], NOON)
    assert (result.node_count, result.link_count) == (3, 2)
    assert set(result.document.nodes) == {ROOT, d}
    assert result.message == "Removed 2 nodes (3 nodes including subtrees, 2 links)"
    assert_consistent(result.document)


def test_move() -> None:
    """Nodes move with their subtrees to a position among the siblings, never under themselves."""
    document = create_map(*({"label": label} for label in "ABCD"))
    a, b, c, d = (find_id(document, label) for label in "ABCD")
    document = move_nodes(document, [d, a], ROOT, NOON, 1).document
    assert document.nodes[ROOT].children == (b, d, a, c)
    document = move_nodes(document, [c], a, NOON).document
    assert document.nodes[ROOT].children == (b, d, a)
    with pytest.raises(BadNode, match="which is the same node or below it"):
        move_nodes(document, [a], c, NOON)
    with pytest.raises(BadNode, match="which is the same node or below it"):
        move_nodes(document, [a], a, NOON)
    assert_consistent(document)


def test_node_below_itself() -> None:
    """A walk up or down ends with an error, not never, if a node is below itself."""
    document = create_map({"label": "A", "children": [{"label": "B"}]})
    a, b = find_id(document, "A"), find_id(document, "B")
    nodes = {
        **document.nodes,
        a: replace(document.nodes[a], parent=b),
        b: replace(document.nodes[b], children=(a,)),
    }
    with pytest.raises(tree.CyclicNodes):
        tree.list_ancestors(nodes, a)
    with pytest.raises(tree.CyclicNodes):
        list(tree.walk(nodes))


def test_activity_log() -> None:
    """The log keeps the newest hundred entries, newest first; timestamps never go back with the clock."""
    document = create_map()
    for number in range(120):
        document = add_note(document, f"Entry {number}", create_timestamp(120 - number)).document
    assert [entry.message for entry in document.activity_log] == [f"Entry {n}" for n in range(119, 19, -1)]
    assert_consistent(document)
    entry = add_note(
        document, "Here", create_timestamp(121), node_id=ROOT, file="a.py"
    ).document.activity_log[0]
    assert (entry.node_id, entry.file, entry.timestamp) == (ROOT, "a.py", create_timestamp(121))
    with pytest.raises(tree.UnknownNode):
        add_note(document, "Nowhere", NOON, node_id="n_gone")


def test_unknown_types_and_statuses() -> None:
    """A type or status of a newer version is kept when only the label changes."""
    document = create_map({"label": "Ship"})
    node = document.nodes[find_id(document, "Ship")]
    for newer_node in (replace(node, type="epic", status="shipping"), replace(node, status="deferred")):
        newer_map = replace(document, nodes={**document.nodes, node.id: newer_node})
        renamed = update_nodes(newer_map, [NodeUpdate(node.id, "Ship it")], NOON).document.nodes[node.id]
        assert (renamed.label, renamed.type, renamed.status) == (
            "Ship it",
            newer_node.type,
            newer_node.status,
        )
        as_note = update_nodes(newer_map, [NodeUpdate(node.id, type="note")], NOON).document.nodes[node.id]
        assert (as_note.type, as_note.status) == ("note", None)


def test_workspace() -> None:
    """A map's workspace can be set later."""
    result = set_workspace(create_map(), "/workspace", create_timestamp(1))
    assert result.document.workspace_path == "/workspace"
    assert result.document.activity_log[0].message == "Workspace: /workspace"


def test_ids() -> None:
    """Ids have their prefix, contain only ASCII, and differ between maps."""
    maps: list[Mindmap] = [create_map({"label": "x"}) for _ in range(50)]
    assert len({document.id for document in maps}) == 50
    for document in maps:
        assert document.id.startswith("mm_") and document.id.isascii() and len(document.id) == 19
        assert all(node_id.startswith("n_") for node_id in document.nodes if node_id != ROOT)


def test_reason_of_a_blocked_task() -> None:
    """A blocked task has a reason until its status changes; other nodes have none."""
    document = create_map({"label": "Deploy"}, {"label": "Why", "type": "note"})
    deploy, note = find_id(document, "Deploy"), find_id(document, "Why")
    result = update_nodes(document, [NodeUpdate(deploy, status="blocked", reason=" No key ")], NOON)
    assert result.document.nodes[deploy].reason == "No key"
    assert result.message == "Deploy: planned -> blocked, reason: No key"
    renamed = update_nodes(result.document, [NodeUpdate(deploy, label="Ship")], NOON).document
    assert renamed.nodes[deploy].reason == "No key"
    other = update_nodes(renamed, [NodeUpdate(deploy, reason="No host")], NOON)
    assert (other.document.nodes[deploy].reason, other.message) == ("No host", "Ship: reason: No host")
    cleared = update_nodes(renamed, [NodeUpdate(deploy, reason="")], NOON)
    assert (cleared.document.nodes[deploy].reason, cleared.message) == (None, "Ship: reason removed")
    unchanged = update_nodes(renamed, [NodeUpdate(note, reason=" ")], NOON)
    assert (unchanged.document.nodes[note].reason, unchanged.message) == (None, "Why: unchanged")
    for change in ({"status": "in_progress"}, {"type": "note"}):
        assert (
            update_nodes(renamed, [NodeUpdate(deploy, **change)], NOON).document.nodes[deploy].reason is None
        )
    for update, hint in (
        (NodeUpdate(note, reason="No key"), "Only tasks can be blocked."),
        (NodeUpdate(deploy, status="completed", reason="No key"), "Set its status to blocked."),
        (NodeUpdate(ROOT, reason="No key"), "You can change its label."),
    ):
        with pytest.raises(BadNode) as error_info:
            update_nodes(renamed, [update], NOON)
        assert error_info.value.hint == hint
