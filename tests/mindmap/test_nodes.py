"""The tree of a map under edits: each is whole or not at all, and no sequence of them breaks it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule
from msgspec.structs import replace

from mindmap import tree, validation
from mindmap.document import NODE_TYPES, ROOT, STATUSES, TASK_TYPES, Mindmap
from mindmap.file_touches import Touch, attach, choose
from mindmap.links import Cut, NewLink, change_links
from mindmap.nodes import (
    BadNode,
    NewNode,
    NodeUpdate,
    add_nodes,
    flattened,
    move_nodes,
    new_map,
    note,
    remove_nodes,
    settle_in,
    update_nodes,
)
from stores.errors import LineageError
from tests.mindmap.sample_maps import NOON, a_map, check, id_of, moment

LABELS = st.text(min_size=1, max_size=8).filter(
    lambda text: (
        text.strip() and "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)
    )
)


class Edits(RuleBasedStateMachine):
    """Any edits in any order, at clocks that go backwards too; those that are refused change nothing."""

    nodes = Bundle("nodes")

    def __init__(self) -> None:
        super().__init__()
        self.document = new_map("A map", "/workspace", NOON)

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
                add_nodes(self.document, parent, batch, moment(clock))
            return multiple()
        done = add_nodes(self.document, parent, batch, moment(clock))
        assert done.nodes == len(done.document.nodes) - len(self.document.nodes)
        self.document = done.document
        return multiple(*done.ids)

    @rule(
        moved=st.lists(nodes, min_size=1, max_size=3),
        parent=nodes,
        clock=st.integers(0, 200),
        position=st.none() | st.integers(-1, 5),
    )
    def move(self, moved: list[str], parent: str, clock: int, position: int | None) -> None:
        try:
            done = move_nodes(self.document, moved, parent, moment(clock), position)
        except LineageError:
            return
        assert len(done.document.nodes) == len(self.document.nodes)
        assert all(done.document.nodes[node_id].parent == parent for node_id in moved)
        self.document = done.document

    @rule(removed=st.lists(consumes(nodes), min_size=1, max_size=2), clock=st.integers(0, 200))
    def remove(self, removed: list[str], clock: int) -> None:
        try:
            done = remove_nodes(self.document, removed, moment(clock))
        except LineageError:
            return
        assert len(done.document.nodes) == len(self.document.nodes) - done.nodes
        assert len(done.document.links) == len(self.document.links) - done.links
        assert not set(removed) & set(done.document.nodes)
        self.document = done.document

    @rule(
        node=nodes,
        node_type=st.none() | st.sampled_from(NODE_TYPES),
        status=st.none() | st.sampled_from(STATUSES),
        clock=st.integers(0, 200),
    )
    def update(self, node: str, node_type: str | None, status: str | None, clock: int) -> None:
        try:
            self.document = update_nodes(
                self.document, [NodeUpdate(node, None, node_type, status)], moment(clock)
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
                self.document, [NewLink(source, to, label, style)], [], moment(clock)
            ).document
        except LineageError:
            assert not {source, to} <= set(self.document.nodes)

    @rule(source=nodes, to=nodes, clock=st.integers(0, 200))
    def unlink(self, source: str, to: str, clock: int) -> None:
        try:
            self.document = change_links(
                self.document, [], [Cut(source=source, target=to)], moment(clock)
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
        target = choose(self.document, node)
        given = [Touch(path, "rename" if previous else None, previous)]
        self.document = attach(target.document, target.node_id, given, "Touched", moment(clock))

    @rule(clock=st.integers(0, 200))
    def say(self, clock: int) -> None:
        self.document = note(self.document, "Something happened", moment(clock)).document

    @invariant()
    def holds(self) -> None:
        check(self.document)


TestEdits = Edits.TestCase
TestEdits.settings = settings(max_examples=40, stateful_step_count=30)


def test_nested_batch() -> None:
    """Nodes come nested, parents before children, in one entry of the log."""
    document = a_map(
        {
            "label": "Plan",
            "type": "plan",
            "children": [{"label": "One"}, {"label": "Two", "children": [{"label": "Deep"}]}],
        },
        {"label": "Next"},
    )
    shown = [(node.label, depth) for node, depth in tree.walk(document.nodes)]
    assert shown == [("A map", 0), ("Plan", 1), ("One", 2), ("Two", 2), ("Deep", 3), ("Next", 1)]
    assert [entry.message for entry in document.activity_log] == [
        "Added 5 nodes under 'A map'",
        "Created 'A map'",
    ]
    assert {node.status for node in document.nodes.values() if node.id != ROOT} == {"planned"}


@pytest.mark.parametrize(
    ("node", "says"),
    [
        ({"label": " "}, "A label is empty"),
        ({"label": "x" * 50_000_000}, "at most 20,000 characters; this one has 50,000,000"),
        ({"label": "a\0b"}, "characters that are no text"),
        ({"label": "\ud800"}, "characters that are no text"),
        ({"label": "x", "type": "root"}, "'root' is no type of node"),
        ({"label": "x", "type": "epic"}, "Types are plan, task"),
        ({"label": "x", "status": "done"}, "Statuses are planned, in_progress, completed, blocked"),
        ({"label": "x", "type": "note", "status": "planned"}, "is a note, and has no status"),
        ({"label": "x", "colour": "red"}, "A node has no 'colour'"),
        ({"label": 3}, "A node's label is text"),
        ({"label": "x", "children": "y"}, "children are a list"),
        ({"label": "x", "children": ["y"]}, "A child is no node"),
    ],
)
def test_refused_nodes(node: dict[str, object], says: str) -> None:
    """A node that cannot be is refused with what would be accepted."""
    with pytest.raises(LineageError) as caught:
        flattened([node])
    assert says in str(caught.value)


def nested(levels: int) -> dict[str, object]:
    node: dict[str, object] = {"label": "bottom"}
    for _ in range(levels - 1):
        node = {"label": "level", "children": [node]}
    return node


def test_deep_nesting() -> None:
    """A tree has a deepest level, however it is reached; the error names it."""
    document = a_map(nested(64))
    for levels in (65, 10_000):
        with pytest.raises(validation.OverLimit, match="at most 64 levels"):
            flattened([nested(levels)])
    with pytest.raises(validation.OverLimit, match="at most 64 levels"):
        add_nodes(document, id_of(document, "bottom"), flattened([{"label": "x"}]), NOON)
    other = add_nodes(document, ROOT, flattened([nested(2) | {"label": "two"}]), NOON).document
    two = id_of(other, "two")
    deep = next(node.id for node, depth in tree.walk(other.nodes) if depth == 63 and node.children)
    with pytest.raises(validation.OverLimit, match="at most 64 levels"):
        move_nodes(other, [two], deep, NOON)


def test_too_many() -> None:
    """A call and a map have a most; nothing at all is refused too."""
    with pytest.raises(validation.OverLimit, match="At most 1,000 nodes go into one call"):
        flattened([{"label": "x"}] * 1_001)
    with pytest.raises(validation.BadText, match="No nodes are given"):
        add_nodes(a_map(), ROOT, [], NOON)
    document = a_map()
    for _ in range(19):
        document = add_nodes(document, ROOT, [NewNode("x")] * 1_000, NOON).document
    document = add_nodes(document, ROOT, [NewNode("x")] * 999, NOON).document
    with pytest.raises(validation.OverLimit, match="at most 20,000 nodes"):
        add_nodes(document, ROOT, [NewNode("x")], NOON)


def test_update() -> None:
    """Labels, types and statuses change; what becomes no task loses its status, and gets one when it is one again."""
    document = a_map({"label": "Parse"})
    parse = id_of(document, "Parse")
    done = update_nodes(document, [NodeUpdate(parse, status="in_progress")], moment(1))
    assert done.message == "Parse: planned -> in_progress"
    assert done.document.nodes[parse].updated_at == moment(1)
    done = update_nodes(done.document, [NodeUpdate(parse, type="decision", label="Use a parser")], moment(2))
    assert done.message == "Parse: renamed to 'Use a parser', task -> decision"
    assert done.document.nodes[parse].status is None
    done = update_nodes(done.document, [NodeUpdate(parse, type="code")], moment(3))
    assert done.document.nodes[parse].status == "planned"
    with pytest.raises(BadNode, match="Nothing is to change"):
        update_nodes(document, [NodeUpdate(parse)], NOON)


def test_root() -> None:
    """The root keeps its type and its place; its label is the map's title."""
    document = a_map({"label": "Plan"})
    renamed = update_nodes(document, [NodeUpdate(ROOT, label="Another")], NOON).document
    assert (renamed.title, renamed.nodes[ROOT].label, renamed.nodes[ROOT].type) == (
        "Another",
        "Another",
        "root",
    )
    refusals: tuple[Callable[[], object], ...] = (
        lambda: update_nodes(document, [NodeUpdate(ROOT, status="completed")], NOON),
        lambda: update_nodes(document, [NodeUpdate(ROOT, type="task")], NOON),
        lambda: remove_nodes(document, [ROOT], NOON),
        lambda: move_nodes(document, [ROOT], id_of(document, "Plan"), NOON),
    )
    for refused in refusals:
        with pytest.raises(BadNode, match=r"[Tt]he root"):
            refused()


def test_batch_is_whole_or_not_at_all() -> None:
    """One bad part, and nothing of a batch is done."""
    document = a_map({"label": "One"}, {"label": "Two"})
    one = id_of(document, "One")
    refusals: tuple[Callable[[], object], ...] = (
        lambda: update_nodes(
            document, [NodeUpdate(one, label="Changed"), NodeUpdate("n_none", label="x")], NOON
        ),
        lambda: remove_nodes(document, [one, "n_none"], NOON),
        lambda: move_nodes(document, [one, "n_none"], ROOT, NOON),
        lambda: change_links(document, [NewLink(one, ROOT), NewLink(one, "n_none")], [], NOON),
    )
    for refused in refusals:
        with pytest.raises(tree.UnknownNode, match="There is no node 'n_none'"):
            refused()
    check(document)
    assert document.nodes[one].label == "One"
    assert document.links == ()


def test_unknown_node() -> None:
    """The error names the id, and what is there: the node that has it as its label, or those on top."""
    document = a_map({"label": "Parser"})
    parser = id_of(document, "Parser")
    with pytest.raises(tree.UnknownNode) as caught:
        tree.find(document, "parser")
    assert f"A node labelled so is there: {parser} (Parser)" in str(caught.value)
    with pytest.raises(tree.UnknownNode) as caught:
        tree.find(document, "n_gone")
    assert f"There are root (A map), {parser} (Parser)" in str(caught.value)
    with pytest.raises(tree.UnknownNode, match=r"\(Parser and lexer\)"):
        tree.find(a_map({"label": "Parser\nand  lexer"}), "n_gone")


def test_remove_takes_the_subtree() -> None:
    """Removing a node removes what is under it and the links of all of it, and says how many."""
    document = a_map(
        {"label": "A", "children": [{"label": "B", "children": [{"label": "C"}]}]}, {"label": "D"}
    )
    a, b, c, d = (id_of(document, label) for label in "ABCD")
    document = change_links(document, [NewLink(c, d), NewLink(d, b), NewLink(d, ROOT)], [], NOON).document
    done = remove_nodes(document, [c, a], NOON)
    assert (done.nodes, done.links) == (3, 2)
    assert set(done.document.nodes) == {ROOT, d}
    assert done.message == "Removed 2 nodes: 3 nodes, 2 links"
    check(done.document)


def test_move() -> None:
    """Nodes move with what is under them, to a place among the others; never under themselves."""
    document = a_map(*({"label": label} for label in "ABCD"))
    a, b, c, d = (id_of(document, label) for label in "ABCD")
    document = move_nodes(document, [d, a], ROOT, NOON, 1).document
    assert document.nodes[ROOT].children == (b, d, a, c)
    document = move_nodes(document, [c], a, NOON).document
    assert document.nodes[ROOT].children == (b, d, a)
    with pytest.raises(BadNode, match="which is itself or under it"):
        move_nodes(document, [a], c, NOON)
    with pytest.raises(BadNode, match="which is itself or under it"):
        move_nodes(document, [a], a, NOON)
    check(document)


def test_log_keeps_a_hundred() -> None:
    """The log has its newest entry on top and keeps a hundred; a clock that went back dates nothing earlier."""
    document = a_map()
    for number in range(120):
        document = note(document, f"Entry {number}", moment(120 - number)).document
    assert [entry.message for entry in document.activity_log] == [f"Entry {n}" for n in range(119, 19, -1)]
    check(document)
    entry = note(document, "Here", moment(121), node_id=ROOT, file="a.py").document.activity_log[0]
    assert (entry.node_id, entry.file, entry.timestamp) == (ROOT, "a.py", moment(121))
    with pytest.raises(tree.UnknownNode):
        note(document, "Nowhere", NOON, node_id="n_gone")


def test_what_a_newer_version_calls_a_type() -> None:
    """A node of a type that this version does not know keeps its status when only its label is changed."""
    document = a_map({"label": "Ship"})
    node = document.nodes[id_of(document, "Ship")]
    for newer in (replace(node, type="epic", status="shipping"), replace(node, status="deferred")):
        known = replace(document, nodes={**document.nodes, node.id: newer})
        renamed = update_nodes(known, [NodeUpdate(node.id, "Ship it")], NOON).document.nodes[node.id]
        assert (renamed.label, renamed.type, renamed.status) == ("Ship it", newer.type, newer.status)
        as_note = update_nodes(known, [NodeUpdate(node.id, type="note")], NOON).document.nodes[node.id]
        assert (as_note.type, as_note.status) == ("note", None)


def test_workspace() -> None:
    """A workspace can be named later."""
    done = settle_in(a_map(), "/workspace", moment(1))
    assert done.document.workspace_path == "/workspace"
    assert done.document.activity_log[0].message == "Workspace: /workspace"


def test_ids() -> None:
    """Ids have their prefixes and letters that may stand in a path; maps made at once have different ones."""
    made: list[Mindmap] = [a_map({"label": "x"}) for _ in range(50)]
    assert len({document.id for document in made}) == 50
    for document in made:
        assert document.id.startswith("mm_") and document.id.isascii() and len(document.id) == 19
        assert all(node_id.startswith("n_") for node_id in document.nodes if node_id != ROOT)
