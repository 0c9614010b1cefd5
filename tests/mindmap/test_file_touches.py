"""Files on nodes, links, the choice of a node, progress."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from mindmap.document import ROOT, CodeChange, FileTouch, Mindmap
from mindmap.file_touches import TOUCHED_FILES, BadTouch, Touch, attach, choose
from mindmap.links import BadLink, Cut, NewLink, UnknownLink, change_links
from mindmap.nodes import NodeUpdate, update_nodes
from mindmap.paths import BadPath, workspace
from mindmap.tree import active_task, progress, summary
from stores.errors import LineageError
from tests.mindmap.sample_maps import NOON, a_map, check, id_of, moment


def touched(document: Mindmap, node: str, *touches: Touch, minutes: int = 0) -> Mindmap:
    changed = attach(document, node, touches, "Touched", moment(minutes))
    check(changed)
    return changed


def test_same_path_is_one_touch(tmp_path: Path) -> None:
    """However a path inside the workspace is written, through a link to it too, it is one touch."""
    (tmp_path / "link").symlink_to(tmp_path)
    document = a_map(workspace=str(tmp_path / "link"))
    for path in (
        "src/a.py",
        "./src//a.py",
        f"{tmp_path}/src/a.py",
        f"{tmp_path}/link/src/b/../a.py",
        f"/{tmp_path}/src/a.py",
    ):
        document = touched(document, ROOT, Touch(path))
    assert [touch.path for touch in document.nodes[ROOT].files] == ["src/a.py"]
    document = touched(document, ROOT, Touch("../out.py"), Touch("/etc/hosts"), Touch(" a ", None))
    assert [touch.path for touch in document.nodes[ROOT].files][1:] == [
        f"{tmp_path.parent}/out.py",
        "/etc/hosts",
        " a ",
    ]
    document = touched(document, ROOT, Touch("//etc/hosts"))
    assert len(document.nodes[ROOT].files) == 4
    assert workspace(f"/{tmp_path}") == str(tmp_path)
    same = a_map(workspace=f"/{tmp_path}")
    assert touched(same, ROOT, Touch(f"{tmp_path}/a.py")).nodes[ROOT].files[0].path == "a.py"


def test_workspace_that_no_system_knows() -> None:
    """A workspace that another program wrote and that can be no path keeps nobody from attaching files."""
    document = touched(a_map(workspace="/a\0b"), ROOT, Touch("src/a.py"))
    assert [touch.path for touch in document.nodes[ROOT].files] == ["src/a.py"]


def test_foreign_spelling_is_the_same_file() -> None:
    """An entry that another program kept under an absolute path is updated under its own."""
    document = a_map(workspace="/workspace")
    root = replace(
        document.nodes[ROOT], files=(FileTouch(path="/workspace/a.py", summary="old"), FileTouch(path=""))
    )
    document = replace(document, nodes={ROOT: root})
    document = touched(document, ROOT, Touch("a.py", lines="1-2"))
    assert [(touch.path, touch.summary, touch.lines) for touch in document.nodes[ROOT].files] == [
        ("a.py", "old", "1-2"),
        ("", None, None),
    ]


def test_update_keeps_what_is_not_given() -> None:
    """New fields replace old ones; changes are merged by kind and symbol, the later detail wins."""
    first = Touch(
        "a.py",
        "create",
        lines="1-9",
        symbols=("f",),
        changes=(CodeChange(kind="add", symbol="f", detail="one"), CodeChange(kind="test", symbol="f")),
        summary="New",
    )
    second = Touch(
        "a.py",
        changes=(CodeChange(kind="add", symbol="f", detail="two"), CodeChange(kind="add", symbol="g")),
        symbols=("f", "g"),
    )
    document = touched(touched(a_map(), ROOT, first), ROOT, second, minutes=1)
    (touch,) = document.nodes[ROOT].files
    assert (touch.action, touch.lines, touch.summary, touch.symbols) == ("create", "1-9", "New", ("f", "g"))
    assert [(change.kind, change.symbol, change.detail) for change in touch.changes] == [
        ("add", "f", "two"),
        ("test", "f", None),
        ("add", "g", None),
    ]
    assert touch.timestamp == moment(1)
    assert touched(a_map(), ROOT, Touch("a.py")).nodes[ROOT].files[0].action == "modify"


def test_rename_takes_over() -> None:
    """A rename takes over what was logged under the old path, on every node that has it, and on its own node too."""
    document = a_map({"label": "A"}, {"label": "B"})
    a, b = id_of(document, "A"), id_of(document, "B")
    document = touched(
        document,
        a,
        Touch("old.py", "create", symbols=("f",), changes=(CodeChange(kind="add", symbol="f"),)),
        Touch("x.py"),
    )
    document = touched(document, b, Touch("old.py", summary="Read it"), Touch("new.py", lines="3-4"))
    document = touched(document, a, Touch("new.py", "rename", "old.py"), minutes=1)
    kept = {
        node: [
            (t.path, t.action, t.previous_path, t.symbols, t.summary, t.lines)
            for t in document.nodes[node].files
        ]
        for node in (a, b)
    }
    assert kept == {
        a: [("x.py", "modify", None, (), None, None), ("new.py", "rename", "old.py", ("f",), None, None)],
        b: [("new.py", "rename", "old.py", (), "Read it", "3-4")],
    }
    assert len(document.nodes[a].files[1].changes) == 1
    again = touched(document, a, Touch("new.py", "rename", "old.py"), minutes=2)
    assert [touch.path for touch in again.nodes[a].files] == ["x.py", "new.py"]
    assert touched(again, a, Touch("new.py", "modify")).nodes[a].files[1].previous_path is None


@pytest.mark.parametrize(
    ("touch", "says"),
    [
        (Touch(""), "A path is empty"),
        (Touch("a\0b"), "no text"),
        (Touch("x" * 5_000), "at most 4,096 characters"),
        (Touch("/workspace"), "is the workspace itself"),
        (Touch("a.py", "touch"), "Actions are read, create, modify, delete, rename"),
        (Touch("a.py", "rename"), "needs the old path"),
        (Touch("a.py", "delete", "b.py"), "has no previous path"),
        (Touch("a.py", changes=(CodeChange(kind="broke", symbol="f"),)), "Kinds are add, modify, fix"),
        (Touch("a.py", changes=(CodeChange(kind="add", symbol=""),)), "A symbol is empty"),
        (Touch("a.py", symbols=("f",) * 1_001), "At most 1,000 symbols"),
        (Touch("a.py", summary="x" * 20_001), "A summary has at most 20,000 characters"),
    ],
)
def test_refused_touches(touch: Touch, says: str) -> None:
    """A touch that cannot be is refused with what would be accepted."""
    with pytest.raises(LineageError) as caught:
        attach(a_map(workspace="/workspace"), ROOT, [touch], "Touched", NOON)
    assert says in str(caught.value)


def test_a_rename_told_again_takes_nothing() -> None:
    """Every sync tells a staged rename again; a new file under the old name keeps what was said of it."""
    sync = (Touch("b.py", "rename", "a.py"), Touch("a.py", "create"))
    document = touched(a_map(), ROOT, Touch("a.py", summary="The old one"))
    document = touched(document, ROOT, *sync, minutes=1)
    document = touched(document, ROOT, Touch("a.py", summary="The new one", symbols=("New",)), minutes=2)
    document = touched(document, ROOT, *sync, minutes=3)
    assert {touch.path: (touch.summary, touch.symbols) for touch in document.nodes[ROOT].files} == {
        "b.py": ("The old one", ()),
        "a.py": ("The new one", ("New",)),
    }


def test_previous_path_alone_is_a_rename() -> None:
    """A touch with an old path and no action is a rename."""
    assert touched(a_map(), ROOT, Touch("b.py", None, "a.py")).nodes[ROOT].files[0].action == "rename"
    with pytest.raises(BadTouch):
        attach(a_map(), ROOT, [Touch("b.py", "rename", "")], "Touched", NOON)
    with pytest.raises(BadPath, match="names no file"):
        attach(a_map(), ROOT, [Touch(".")], "Touched", NOON)


def test_target() -> None:
    """The node asked for, else the most recent task in progress, else a node for touched files, made once."""
    document = a_map({"label": "A"}, {"label": "B"}, {"label": "Why", "type": "decision"})
    a, b, why = id_of(document, "A"), id_of(document, "B"), id_of(document, "Why")
    made = choose(document)
    assert made.label == TOUCHED_FILES
    assert made.document.nodes[made.node_id].parent == ROOT
    assert choose(made.document).node_id == made.node_id
    assert progress(made.document).total == 2
    active = update_nodes(document, [NodeUpdate(a, status="in_progress")], moment(1)).document
    active = update_nodes(active, [NodeUpdate(b, status="in_progress")], moment(2)).document
    assert choose(active).node_id == b
    assert choose(touched(active, a, Touch("a.py"), minutes=3)).node_id == a
    assert choose(active, why).node_id == why
    assert choose(active, "n_gone").node_id == b
    both = update_nodes(
        document, [NodeUpdate(b, status="in_progress"), NodeUpdate(a, status="in_progress")], moment(1)
    )
    assert choose(both.document).node_id == a


def test_root_in_progress_is_no_task() -> None:
    """A stored root may have a status; it means nothing."""
    document = a_map({"label": "A"})
    root = replace(document.nodes[ROOT], status="in_progress", type="plan")
    document = replace(document, nodes={**document.nodes, ROOT: root})
    assert active_task(document) is None
    assert choose(document).node_id != ROOT
    assert progress(document).total == 1


def test_undated_nodes() -> None:
    """Where another program dates no nodes, its activity log says which task was updated last."""
    document = a_map({"label": "A", "status": "in_progress"}, {"label": "B", "status": "in_progress"})
    a, b = id_of(document, "A"), id_of(document, "B")
    document = update_nodes(document, [NodeUpdate(b, label="B2")], moment(1)).document
    document = update_nodes(document, [NodeUpdate(a, label="A2")], moment(2)).document
    undated = replace(
        document,
        nodes={
            key: replace(node, updated_at=None) for key, node in sorted(document.nodes.items(), reverse=a > b)
        },
    )
    assert choose(undated).node_id == a


def test_progress() -> None:
    """Only nodes with a status count; the summary has what a list shows."""
    document = a_map(
        {
            "label": "Plan",
            "type": "plan",
            "status": "in_progress",
            "children": [
                {"label": "Done", "status": "completed"},
                {"label": "Stuck", "type": "code", "status": "blocked"},
            ],
        },
        *(
            {"label": kind, "type": kind}
            for kind in ("file", "note", "component", "data_flow", "decision", "hypothesis", "risk")
        ),
        workspace="/workspace",
    )
    stands = progress(document)
    assert (stands.completed, stands.in_progress, stands.blocked, stands.total) == (1, 1, 1, 3)
    assert str(stands) == "1 of 3 done (33 %)"
    document = touched(document, ROOT, Touch("a.py"), Touch("b.py"))
    line = summary(touched(document, id_of(document, "Done"), Touch("a.py")))
    assert (line.node_count, line.completed_tasks, line.total_tasks, line.active_task, line.file_count) == (
        11,
        1,
        3,
        "Plan",
        2,
    )
    assert str(progress(a_map())) == "no tasks yet"


def test_links() -> None:
    """A link is known by its ends and label: writing it again updates its style and notes."""
    document = a_map({"label": "A"}, {"label": "B"})
    a, b = id_of(document, "A"), id_of(document, "B")
    document = change_links(
        document, [NewLink(a, b, "calls"), NewLink(a, b), NewLink(b, a, "calls")], [], NOON
    ).document
    first = document.links[0]
    done = change_links(document, [NewLink(a, b, "calls", "animated", "often")], [], NOON)
    assert (done.ids, len(done.document.links)) == ((first.id,), 3)
    assert (done.document.links[0].style, done.document.links[0].notes) == ("animated", "often")
    kept = change_links(done.document, [NewLink(a, b, "calls", notes="rarely")], [], NOON).document.links[0]
    assert (kept.style, kept.notes) == ("animated", "rarely")
    assert change_links(document, [], [Cut(id=first.id)], NOON).links == 1
    assert change_links(document, [], [Cut(source=a, target=b)], NOON).message == "Removed 2 links"
    swapped = change_links(document, [NewLink(a, b, "uses")], [Cut(source=a, target=b, label="calls")], NOON)
    assert swapped.message == "Linked 'A' -> 'B': uses, Removed 1 link"
    check(swapped.document)


def test_refused_links() -> None:
    """A link that cannot be, and one that is not there, are refused with what would be accepted."""
    document = a_map({"label": "A"})
    a = id_of(document, "A")
    with pytest.raises(BadLink, match="Styles are solid, dashed, animated"):
        change_links(document, [NewLink(a, ROOT, style="dotted")], [], NOON)
    with pytest.raises(UnknownLink, match="It has no links"):
        change_links(document, [], [Cut(id="l_gone")], NOON)
    with pytest.raises(BadLink, match="both its ends"):
        change_links(document, [], [Cut(source=a)], NOON)
    linked = change_links(document, [NewLink(a, ROOT, "in")], [], NOON).document
    with pytest.raises(UnknownLink, match=rf"{linked.links[0].id} \({a} -> root 'in'\)"):
        change_links(linked, [], [Cut(source=a, target=ROOT, label="on")], NOON)


def test_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A workspace is a folder that is there, by its whole path; a tilde is the person's home."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert workspace("~") == workspace(f"{tmp_path}/") == str(tmp_path)
    (tmp_path / "file").touch()
    for path, says in (
        ("relative", "no absolute path"),
        (f"{tmp_path}/none", "is no folder"),
        (f"{tmp_path}/file", "is no folder"),
        ("a\0", "no text"),
    ):
        with pytest.raises(LineageError, match=says):
            workspace(path)
    assert Path(workspace("~")).is_absolute()
