"""File touches, links, the choice of the target node, progress, workspaces."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from mindmap.document import ROOT, CodeChange, FileTouch, Mindmap
from mindmap.file_touches import TOUCHED_FILES, BadTouch, TouchInput, attach_files, choose_target, log_touch
from mindmap.links import BadLink, LinkRemoval, NewLink, UnknownLink, change_links
from mindmap.nodes import NodeUpdate, add_note, update_nodes
from mindmap.tree import compute_progress, find_active_task, summarize
from mindmap.validation import BadPath, validate_workspace
from stores.errors import LineageError
from tests.mindmap.sample_maps import NOON, assert_consistent, create_map, create_timestamp, find_id


def touch_files(document: Mindmap, node: str, *touches: TouchInput, minutes: int = 0) -> Mindmap:
    """Attach files to a node, and check the map."""
    changed = attach_files(document, node, touches, "Touched", create_timestamp(minutes))
    assert_consistent(changed)
    return changed


def test_same_path_is_one_touch(tmp_path: Path) -> None:
    """All spellings of a path inside the workspace, also through a symbolic link, are one touch."""
    (tmp_path / "link").symlink_to(tmp_path)
    document = create_map(workspace=str(tmp_path / "link"))
    for path in (
        "src/a.py",
        "./src//a.py",
        f"{tmp_path}/src/a.py",
        f"{tmp_path}/link/src/b/../a.py",
        f"/{tmp_path}/src/a.py",
    ):
        document = touch_files(document, ROOT, TouchInput(path))
    assert [touch.path for touch in document.nodes[ROOT].files] == ["src/a.py"]
    document = touch_files(
        document, ROOT, TouchInput("../out.py"), TouchInput("/etc/hosts"), TouchInput(" a ", None)
    )
    assert [touch.path for touch in document.nodes[ROOT].files][1:] == [
        f"{tmp_path.parent}/out.py",
        "/etc/hosts",
        " a ",
    ]
    document = touch_files(document, ROOT, TouchInput("//etc/hosts"))
    assert len(document.nodes[ROOT].files) == 4
    assert validate_workspace(f"/{tmp_path}") == str(tmp_path)
    document = create_map(workspace=f"/{tmp_path}")
    assert touch_files(document, ROOT, TouchInput(f"{tmp_path}/a.py")).nodes[ROOT].files[0].path == "a.py"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Workspace with links to a directory in it, to one outside, and to a file outside."""
    workspace = tmp_path / "workspace"
    (workspace / "src/deep").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    for name, target in {"in": "src/deep", "out": "../outside", "hosts": "/etc/hosts"}.items():
        (workspace / name).symlink_to(target)
    return workspace


@pytest.mark.parametrize(
    ("path", "stored"),
    [
        ("../x.py", "{parent}/x.py"),
        ("src/../../x.py", "{parent}/x.py"),
        ("/etc/hosts", "/etc/hosts"),
        ("out/x.py", "{parent}/outside/x.py"),
        ("{parent}/workspace/out/x.py", "{parent}/outside/x.py"),
        ("out/gone/x.py", "{parent}/outside/gone/x.py"),
        ("out/../x.py", "{parent}/x.py"),
    ],
)
def test_logged_path_that_leaves_the_workspace(workspace: Path, path: str, stored: str) -> None:
    """A path that leaves the workspace is stored as the absolute path of the file that it names, with a warning."""
    document = create_map(workspace=str(workspace))
    touch = TouchInput(path.format(parent=workspace.parent), "read")
    result = log_touch(document, ROOT, touch, NOON)
    expected = stored.format(parent=workspace.parent)
    assert [touch.path for touch in result.document.nodes[ROOT].files] == [expected]
    assert result.warning == f"Outside the workspace, stored with absolute paths: {expected}."
    assert result.document.activity_log[0].message == f"Read {expected}"
    note = add_note(document, "Checked", NOON, file=touch.path)
    assert (note.document.activity_log[0].file, note.warning) == (expected, result.warning)


@pytest.mark.parametrize(
    ("path", "stored"),
    [
        ("src/deep/a.py", "src/deep/a.py"),
        ("in/a.py", "src/deep/a.py"),
        ("in/../a.py", "src/a.py"),
        ("out/../workspace/src/deep/a.py", "src/deep/a.py"),
        ("../workspace/a.py", "a.py"),
        ("hosts", "hosts"),
        ("in/", "in"),
    ],
)
def test_logged_path_in_the_workspace(workspace: Path, path: str, stored: str) -> None:
    """A file in the workspace has one path, however a link leads to it. A link is a file of its own."""
    document = create_map(workspace=str(workspace))
    result = log_touch(document, ROOT, TouchInput(path), NOON)
    assert ([touch.path for touch in result.document.nodes[ROOT].files], result.warning) == ([stored], "")
    note = add_note(document, "Checked", NOON, file=path)
    assert (note.document.activity_log[0].file, note.warning) == (stored, "")


def test_logged_rename_out_of_the_workspace(workspace: Path) -> None:
    """Both paths of a rename are treated alike: each one outside is absolute and named in the warning."""
    document = create_map(workspace=str(workspace))
    outside = workspace.parent / "outside"
    document = log_touch(document, ROOT, TouchInput("out/a.py", summary="Moved"), NOON).document
    result = log_touch(document, ROOT, TouchInput("../b.py", "rename", "out/a.py"), NOON)
    (touch,) = result.document.nodes[ROOT].files
    assert (touch.path, touch.previous_path, touch.summary) == (
        f"{workspace.parent}/b.py",
        f"{outside}/a.py",
        "Moved",
    )
    assert result.warning.endswith(f": {workspace.parent}/b.py, {outside}/a.py.")
    result = log_touch(document, ROOT, TouchInput("a.py", "rename", "out/a.py"), NOON)
    assert result.warning.endswith(f": {outside}/a.py.")


def test_logged_file_whose_directory_became_a_link(workspace: Path) -> None:
    """Moves and deletions of logged files are found by the old path, although a link has replaced its directory."""
    document = create_map(workspace=str(workspace))
    for name in ("moved.py", "gone.py"):
        document = log_touch(document, ROOT, TouchInput(f"src/deep/{name}"), NOON).document
    (workspace / "src/deep").rename(workspace / "src/new")
    (workspace / "src/deep").symlink_to("new")
    for touch in (
        TouchInput("src/new/moved.py", "rename", "src/deep/moved.py"),
        TouchInput("src/deep/gone.py", "delete"),
    ):
        document = log_touch(document, ROOT, touch, NOON).document
    assert {touch.path: touch.action for touch in document.nodes[ROOT].files} == {
        "src/new/moved.py": "rename",
        "src/deep/gone.py": "delete",
    }


def test_logged_path_without_a_workspace() -> None:
    """Without a workspace, paths stay as written and cause no warning."""
    for path in ("../x.py", "/etc/hosts", "a.py"):
        result = log_touch(create_map(), ROOT, TouchInput(path), NOON)
        assert ([touch.path for touch in result.document.nodes[ROOT].files], result.warning) == ([path], "")


def test_invalid_workspace_of_another_program() -> None:
    """A stored workspace that cannot be a path does not prevent touches."""
    document = touch_files(create_map(workspace="/a\0b"), ROOT, TouchInput("src/a.py"))
    assert [touch.path for touch in document.nodes[ROOT].files] == ["src/a.py"]


def test_absolute_path_of_another_program() -> None:
    """A touch that another program stored with an absolute path is updated and gets the relative path."""
    document = create_map(workspace="/workspace")
    root = replace(
        document.nodes[ROOT], files=(FileTouch(path="/workspace/a.py", summary="old"), FileTouch(path=""))
    )
    document = replace(document, nodes={ROOT: root})
    document = touch_files(document, ROOT, TouchInput("a.py", lines="1-2"))
    assert [(touch.path, touch.summary, touch.lines) for touch in document.nodes[ROOT].files] == [
        ("a.py", "old", "1-2"),
        ("", None, None),
    ]


def test_repeated_touch_updates_values() -> None:
    """A repeated touch replaces only the values that it has; changes are merged by kind and symbol."""
    first = TouchInput(
        "a.py",
        "create",
        lines="1-9",
        symbols=("f",),
        changes=(CodeChange(kind="add", symbol="f", detail="one"), CodeChange(kind="test", symbol="f")),
        summary="New",
    )
    second = TouchInput(
        "a.py",
        changes=(CodeChange(kind="add", symbol="f", detail="two"), CodeChange(kind="add", symbol="g")),
        symbols=("f", "g"),
    )
    document = touch_files(touch_files(create_map(), ROOT, first), ROOT, second, minutes=1)
    (touch,) = document.nodes[ROOT].files
    assert (touch.action, touch.lines, touch.summary, touch.symbols) == ("create", "1-9", "New", ("f", "g"))
    assert [(change.kind, change.symbol, change.detail) for change in touch.changes] == [
        ("add", "f", "two"),
        ("test", "f", None),
        ("add", "g", None),
    ]
    assert touch.timestamp == create_timestamp(1)
    assert touch_files(create_map(), ROOT, TouchInput("a.py")).nodes[ROOT].files[0].action == "modify"


def test_rename_moves_touches() -> None:
    """A rename moves the touches of the old path to the new path, on every node."""
    document = create_map({"label": "A"}, {"label": "B"})
    a, b = find_id(document, "A"), find_id(document, "B")
    document = touch_files(
        document,
        a,
        TouchInput("old.py", "create", symbols=("f",), changes=(CodeChange(kind="add", symbol="f"),)),
        TouchInput("x.py"),
    )
    document = touch_files(
        document, b, TouchInput("old.py", summary="Read it"), TouchInput("new.py", lines="3-4")
    )
    document = touch_files(document, a, TouchInput("new.py", "rename", "old.py"), minutes=1)
    touches_by_node = {
        node: [
            (t.path, t.action, t.previous_path, t.symbols, t.summary, t.lines)
            for t in document.nodes[node].files
        ]
        for node in (a, b)
    }
    assert touches_by_node == {
        a: [("x.py", "modify", None, (), None, None), ("new.py", "rename", "old.py", ("f",), None, None)],
        b: [("new.py", "rename", "old.py", (), "Read it", "3-4")],
    }
    assert len(document.nodes[a].files[1].changes) == 1
    repeated = touch_files(document, a, TouchInput("new.py", "rename", "old.py"), minutes=2)
    assert [touch.path for touch in repeated.nodes[a].files] == ["x.py", "new.py"]
    assert touch_files(repeated, a, TouchInput("new.py", "modify")).nodes[a].files[1].previous_path is None


@pytest.mark.parametrize(
    ("touch", "message"),
    [
        (TouchInput(""), "The path is empty"),
        (TouchInput("a\0b"), "invalid characters"),
        (TouchInput("x" * 5_000), "At most 4,096 are possible"),
        (TouchInput("/workspace"), "is the workspace itself"),
        (TouchInput("a.py", "touch"), "Actions are read, create, modify, delete, rename"),
        (TouchInput("a.py", "rename"), "needs the old path"),
        (TouchInput("a.py", "delete", "b.py"), "cannot have a previous path"),
        (TouchInput("a.py", changes=(CodeChange(kind="broke", symbol="f"),)), "Kinds are add, modify, fix"),
        (TouchInput("a.py", changes=(CodeChange(kind="add", symbol=""),)), "The symbol is empty"),
        (TouchInput("a.py", symbols=("f",) * 1_001), "At most 1,000 symbols"),
        (
            TouchInput("a.py", summary="x" * 20_001),
            "The summary has 20,001 characters. At most 20,000 are possible.",
        ),
    ],
)
def test_invalid_touches(touch: TouchInput, message: str) -> None:
    """An invalid touch raises an error that names valid values."""
    with pytest.raises(LineageError) as caught:
        attach_files(create_map(workspace="/workspace"), ROOT, [touch], "Touched", NOON)
    assert message in str(caught.value)


def test_repeated_rename_moves_nothing() -> None:
    """A repeated rename, as in every git sync, does not move the entry of a new file with the old name."""
    sync = (TouchInput("b.py", "rename", "a.py"), TouchInput("a.py", "create"))
    document = touch_files(create_map(), ROOT, TouchInput("a.py", summary="The old one"))
    document = touch_files(document, ROOT, *sync, minutes=1)
    document = touch_files(
        document, ROOT, TouchInput("a.py", summary="The new one", symbols=("New",)), minutes=2
    )
    document = touch_files(document, ROOT, *sync, minutes=3)
    assert {touch.path: (touch.summary, touch.symbols) for touch in document.nodes[ROOT].files} == {
        "b.py": ("The old one", ()),
        "a.py": ("The new one", ("New",)),
    }


def test_blank_summary_is_not_logged() -> None:
    """The log message of a touch whose summary is only white space names the path alone."""
    assert log_touch(create_map(), ROOT, TouchInput("a.py", summary="  "), NOON).message == "Modify a.py"


def test_long_summary_is_shortened_in_the_log() -> None:
    """The log has the start of a long summary on one line; the touch has all of it."""
    result = log_touch(create_map(), ROOT, TouchInput("a.py", summary="one\n" * 1_000), NOON)
    assert result.message.startswith("Modify a.py: one one ") and len(result.message) < 250
    assert result.document.nodes[ROOT].files[0].summary == ("one\n" * 1_000).strip()


def test_previous_path_implies_a_rename() -> None:
    """A touch with a previous path and no action is a rename."""
    assert (
        touch_files(create_map(), ROOT, TouchInput("b.py", None, "a.py")).nodes[ROOT].files[0].action
        == "rename"
    )
    with pytest.raises(BadTouch):
        attach_files(create_map(), ROOT, [TouchInput("b.py", "rename", "")], "Touched", NOON)
    with pytest.raises(BadPath, match="does not name a file"):
        attach_files(create_map(), ROOT, [TouchInput(".")], "Touched", NOON)


def test_target() -> None:
    """The target is the requested node, else the most recent task in progress, else one `Touched Files` node."""
    document = create_map({"label": "A"}, {"label": "B"}, {"label": "Why", "type": "decision"})
    a, b, why = find_id(document, "A"), find_id(document, "B"), find_id(document, "Why")
    target = choose_target(document)
    assert target.label == TOUCHED_FILES
    assert target.document.nodes[target.node_id].parent == ROOT
    assert choose_target(target.document).node_id == target.node_id
    assert compute_progress(target.document).total == 2
    active_map = update_nodes(document, [NodeUpdate(a, status="in_progress")], create_timestamp(1)).document
    active_map = update_nodes(active_map, [NodeUpdate(b, status="in_progress")], create_timestamp(2)).document
    assert choose_target(active_map).node_id == b
    assert choose_target(touch_files(active_map, a, TouchInput("a.py"), minutes=3)).node_id == a
    assert choose_target(active_map, why).node_id == why
    assert choose_target(active_map, "n_gone").node_id == b
    both = update_nodes(
        document,
        [NodeUpdate(b, status="in_progress"), NodeUpdate(a, status="in_progress")],
        create_timestamp(1),
    )
    assert choose_target(both.document).node_id == a


def test_root_in_progress_is_no_task() -> None:
    """A status of a stored root is ignored."""
    document = create_map({"label": "A"})
    root = replace(document.nodes[ROOT], status="in_progress", type="plan")
    document = replace(document, nodes={**document.nodes, ROOT: root})
    assert find_active_task(document) is None
    assert choose_target(document).node_id != ROOT
    assert compute_progress(document).total == 1


def test_undated_nodes() -> None:
    """If another program wrote no node dates, the activity log decides which task was updated last."""
    document = create_map({"label": "A", "status": "in_progress"}, {"label": "B", "status": "in_progress"})
    a, b = find_id(document, "A"), find_id(document, "B")
    document = update_nodes(document, [NodeUpdate(b, label="B2")], create_timestamp(1)).document
    document = update_nodes(document, [NodeUpdate(a, label="A2")], create_timestamp(2)).document
    undated = replace(
        document,
        nodes={
            key: replace(node, updated_at=None) for key, node in sorted(document.nodes.items(), reverse=a > b)
        },
    )
    assert choose_target(undated).node_id == a


def test_progress() -> None:
    """Only nodes with a status count as progress; the summary has the values of a list."""
    document = create_map(
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
    task_progress = compute_progress(document)
    assert (
        task_progress.completed,
        task_progress.in_progress,
        task_progress.blocked,
        task_progress.total,
    ) == (1, 1, 1, 3)
    assert str(task_progress) == "1 of 3 done (33 %)"
    document = touch_files(document, ROOT, TouchInput("a.py"), TouchInput("b.py"))
    summary = summarize(touch_files(document, find_id(document, "Done"), TouchInput("a.py")))
    assert (
        summary.node_count,
        summary.completed_tasks,
        summary.total_tasks,
        summary.active_task,
        summary.file_count,
    ) == (
        11,
        1,
        3,
        "Plan",
        2,
    )
    assert str(compute_progress(create_map())) == "no tasks yet"


def test_links() -> None:
    """A link is identified by its ends and label: writing it again updates its style and notes."""
    document = create_map({"label": "A"}, {"label": "B"})
    a, b = find_id(document, "A"), find_id(document, "B")
    document = change_links(
        document, [NewLink(a, b, "calls"), NewLink(a, b), NewLink(b, a, "calls")], [], NOON
    ).document
    first = document.links[0]
    result = change_links(document, [NewLink(a, b, "calls", "animated", "often")], [], NOON)
    assert (result.ids, len(result.document.links)) == ((first.id,), 3)
    assert (result.document.links[0].style, result.document.links[0].notes) == ("animated", "often")
    updated_link = change_links(
        result.document, [NewLink(a, b, "calls", notes="rarely")], [], NOON
    ).document.links[0]
    assert (updated_link.style, updated_link.notes) == ("animated", "rarely")
    assert change_links(document, [], [LinkRemoval(id=first.id)], NOON).link_count == 1
    assert change_links(document, [], [LinkRemoval(source=a, target=b)], NOON).message == "Removed 2 links"
    swapped = change_links(
        document, [NewLink(a, b, "uses")], [LinkRemoval(source=a, target=b, label="calls")], NOON
    )
    assert swapped.message == "Linked 'A' -> 'B': uses, Removed 1 link"
    assert_consistent(swapped.document)


def test_invalid_links() -> None:
    """An invalid link and a missing link raise errors that name valid values."""
    document = create_map({"label": "A"})
    a = find_id(document, "A")
    with pytest.raises(BadLink, match="Styles are solid, dashed, animated"):
        change_links(document, [NewLink(a, ROOT, style="dotted")], [], NOON)
    with pytest.raises(UnknownLink, match="The map has no links"):
        change_links(document, [], [LinkRemoval(id="l_gone")], NOON)
    with pytest.raises(BadLink, match="both its ends"):
        change_links(document, [], [LinkRemoval(source=a)], NOON)
    linked = change_links(document, [NewLink(a, ROOT, "in")], [], NOON).document
    with pytest.raises(UnknownLink, match=rf"{linked.links[0].id} \({a} -> root 'in'\)"):
        change_links(linked, [], [LinkRemoval(source=a, target=ROOT, label="on")], NOON)


def test_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A workspace is an existing directory with an absolute path; a tilde is the user's home."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert validate_workspace("~") == validate_workspace(f"{tmp_path}/") == str(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("/dev")
    for path, message in (
        ("relative", "not an absolute path"),
        (f"{tmp_path}/none", "is not a directory"),
        (f"{tmp_path}/file", "is not a directory"),
        ("/dev", "is a directory of the system"),
        (f"{tmp_path}/link", "is a directory of the system"),
        ("a\0", "invalid characters"),
    ):
        with pytest.raises(LineageError, match=message):
            validate_workspace(path)
    assert Path(validate_workspace("~")).is_absolute()
