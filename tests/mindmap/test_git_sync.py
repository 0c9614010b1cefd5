"""Git sync and ignore rules in real repositories."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindmap import git
from mindmap.document import Mindmap
from mindmap.file_touches import TOUCHED_FILES, TouchInput, attach_detected_files, attach_files
from mindmap.git import GitFailed, NoWorkTree, Workspace, find_ignored_paths, is_ignored
from mindmap.git_sync import WorkspaceSync, find_changed_files
from mindmap.map_store import MapStore
from mindmap.nodes import NodeUpdate, update_nodes
from mindmap.tree import find_active_task
from tests.mindmap.sample_maps import NOON, assert_consistent, create_map, create_timestamp, find_id
from tests.mindmap.workspaces import find_summaries_by_path, find_touches, open_git
from tests.repos import Repo

TEN = "".join(f"line {number}\n" for number in range(10))


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo.create(tmp_path / "repo")


def test_every_status(repo: Repo) -> None:
    """Each git status becomes the specified action, with its line counts."""
    for name in ("changed", "staged", "gone", "removed", "old", "left", "both", "moved"):
        repo.write(f"{name}.txt", TEN + name)
    repo.commit("All")
    repo.write("changed.txt", TEN + "other\nmore\n")
    repo.write("staged.txt", TEN)
    repo.git("add", "staged.txt")
    (repo.path / "gone.txt").unlink()
    repo.remove("removed.txt")
    repo.rename("old.txt", "new.txt")
    (repo.path / "left.txt").rename(repo.path / "arrived.txt")
    repo.rename("both.txt", "edited.txt")
    repo.write("edited.txt", TEN + "both\nthen edited\n")
    repo.rename("moved.txt", "lost.txt")
    (repo.path / "lost.txt").unlink()
    repo.write("added.txt", "one\ntwo")
    repo.git("add", "added.txt")
    repo.write("intended.txt", "one\n")
    repo.git("add", "--intent-to-add", "intended.txt")
    repo.write("deep/er/untracked.txt", "1\n2\n3")
    repo.write("deep/er/too.txt", "")
    repo.write("fleeting.txt", "x\n")
    repo.git("add", "fleeting.txt")
    (repo.path / "fleeting.txt").unlink()
    assert find_summaries_by_path(repo) == {
        "changed.txt": "Git modify (+2/-1 lines)",
        "staged.txt": "Git modify (+0/-1 lines)",
        "gone.txt": "Git delete (+0/-11 lines)",
        "removed.txt": "Git delete (+0/-11 lines)",
        "old.txt -> new.txt": "Git rename (+0/-0 lines)",
        "left.txt": "Git delete (+0/-11 lines)",
        "arrived.txt": "Git create (+11/-0 lines)",
        "both.txt -> edited.txt": "Git rename (+2/-1 lines)",
        "moved.txt": "Git delete (+0/-11 lines)",
        "lost.txt": "Git delete (+0/-0 lines)",
        "added.txt": "Git create (+2/-0 lines)",
        "intended.txt": "Git create (+1/-0 lines)",
        "deep/er/untracked.txt": "Git create (+3/-0 lines)",
        "deep/er/too.txt": "Git create (+0/-0 lines)",
        "fleeting.txt": "Git delete (+0/-0 lines)",
    }


def test_one_path_is_one_touch(repo: Repo) -> None:
    """A file removed from the index, or replaced by another of its name, is one touch of the file on disk."""
    for name in ("forgotten.txt", "old.txt", "swept.txt"):
        repo.write(name, TEN + name)
    repo.commit("All")
    repo.git("rm", "--quiet", "--cached", "forgotten.txt", "swept.txt")
    (repo.path / "swept.txt").unlink()
    repo.write("forgotten.txt", TEN)
    repo.rename("old.txt", "new.txt")
    (repo.path / "new.txt").unlink()
    repo.write("old.txt", "another\n")
    assert find_summaries_by_path(repo) == {
        "forgotten.txt": "Git create (+10/-0 lines)",
        "swept.txt": "Git delete (+0/-11 lines)",
        "new.txt": "Git delete (+0/-0 lines)",
        "old.txt": "Git create (+1/-0 lines)",
    }
    assert len(find_touches(repo.path)) == 4


def test_before_the_first_commit(repo: Repo) -> None:
    """Without a commit every file is new, staged or not."""
    repo.write("staged.txt", TEN)
    repo.git("add", "staged.txt")
    repo.write("new.txt", "one\n")
    assert find_summaries_by_path(repo) == {
        "staged.txt": "Git create (+10/-0 lines)",
        "new.txt": "Git create (+1/-0 lines)",
    }


def test_nothing_changed(repo: Repo) -> None:
    """A clean work tree has no touches."""
    assert find_summaries_by_path(repo) == {}
    repo.commit_file("a.txt", "a\n")
    assert find_summaries_by_path(repo) == {}


@pytest.mark.parametrize(
    "name",
    [
        b"sp ace.txt",
        b"tab\t.txt",
        b"new\nline.txt",
        b'"quoted".txt',
        "ü/é.txt".encode(),
        b"a -> b.txt",
        b":(glob)*.txt",
        b"-n",
        b"caf\xe9.txt",
    ],
)
def test_any_name(repo: Repo, name: bytes) -> None:
    """Any file name works, new, changed and renamed; invalid UTF-8 is escaped."""
    decoded_name = name.decode("utf-8", "backslashreplace")
    repo.write(name, "one\n")
    assert find_summaries_by_path(repo) == {decoded_name: "Git create (+1/-0 lines)"}
    repo.commit("Add it")
    repo.write(name, "one\ntwo\n")
    assert find_summaries_by_path(repo) == {decoded_name: "Git modify (+1/-0 lines)"}
    repo.git("mv", "--", name, b"plain.txt")
    assert find_summaries_by_path(repo) == {f"{decoded_name} -> plain.txt": "Git rename (+1/-0 lines)"}


def test_subdirectory_as_workspace(repo: Repo) -> None:
    """A workspace inside the work tree has paths relative to itself, and no files from outside."""
    repo.write("app/a.txt", TEN)
    repo.write("other/b.txt", TEN + "b")
    repo.commit("All")
    repo.write("app/a.txt", "")
    repo.write("app/src/new.txt", "x\n")
    repo.write("application.txt", "x\n")
    repo.write("other/c.txt", "x\n")
    repo.rename("other/b.txt", "app/b.txt")
    assert find_summaries_by_path(repo, "app") == {
        "a.txt": "Git modify (+0/-10 lines)",
        "src/new.txt": "Git create (+1/-0 lines)",
        "b.txt": "Git create (+11/-0 lines)",
    }


def test_conflicts(repo: Repo) -> None:
    """Conflicting files count as modified."""
    repo.write("both.txt", "base\n")
    repo.write("theirs-gone.txt", "base\n")
    repo.commit("Base")
    repo.branch("side")
    repo.write("both.txt", "side\n")
    repo.write("added.txt", "side\n")
    repo.remove("theirs-gone.txt")
    repo.commit("Side")
    repo.switch("main")
    repo.write("both.txt", "main\n")
    repo.write("added.txt", "main\n")
    repo.write("theirs-gone.txt", "main\n")
    repo.commit("Main")
    repo.git("merge", "side", check=False)
    assert {
        path: summary.split()[1] for path, summary in find_summaries_by_path(repo).items()
    } == dict.fromkeys(("both.txt", "added.txt", "theirs-gone.txt"), "modify")


def test_odd_files(repo: Repo) -> None:
    """A symbolic link has one line, a binary file none, and a nested repository is left out."""
    (repo.path / "link").symlink_to("/etc/passwd")
    repo.write("binary", b"\0\n\n\n")
    repo.write("late-binary", b"x\n" * 8_000 + b"\0")
    Repo.create(repo.path / "inner").commit_file("a.txt", "a\n")
    os.mkfifo(repo.path / "pipe")
    assert find_summaries_by_path(repo) == {
        "link": "Git create (+1/-0 lines)",
        "binary": "Git create (+0/-0 lines)",
        "late-binary": "Git create (+8001/-0 lines)",
    }
    repo.git("add", "binary")
    assert find_summaries_by_path(repo)["binary"] == "Git create (+0/-0 lines)"


def test_ignored_files(repo: Repo) -> None:
    """Files with ignored names are skipped, tracked or not, and so are files that git ignores."""
    names = (
        "node_modules/a.js",
        "dist/a.js",
        "build/x",
        ".next/x",
        "coverage/x",
        ".cache/x",
        "a/.DS_Store",
        "data/m.json",
        "a.txt~",
        "a.swp",
        "a.tmp",
    )
    for name in (*names, "data/m.txt", "src/data/m.json", "builder/x"):
        repo.write(name, "x\n")
    repo.write(".gitignore", "secret\n")
    repo.write("secret", "x\n")
    assert set(find_summaries_by_path(repo)) == {"data/m.txt", "src/data/m.json", "builder/x", ".gitignore"}
    assert all(is_ignored(name) for name in names)
    repo.commit("All")
    repo.write("dist/a.js", "y\n")
    assert find_summaries_by_path(repo) == {}


def test_maps_in_the_workspace(repo: Repo) -> None:
    """Map files inside the workspace are not attached, even if the workspace is the map directory."""
    for name in ("kept/maps/mm_1.json", "kept/maps/.locks/mm_1.lock", "kept/maps.txt", "kept/a.json"):
        repo.write(name, "{}\n")
    git = open_git(repo.path)
    (repo.path / "link").symlink_to(repo.path / "kept/maps")
    for map_directory in (repo.path / "kept/maps", repo.path / "link"):
        touches = find_changed_files(str(repo.path), git, map_directory)
        assert {touch.path for touch in touches} == {"kept/maps.txt", "kept/a.json", "link"}
    inside = find_changed_files(str(repo.path / "kept"), git, repo.path / "kept/maps")
    assert {touch.path for touch in inside} == {"maps.txt", "a.json"}
    itself = find_changed_files(str(repo.path / "kept"), git, repo.path / "kept")
    assert {touch.path for touch in itself} == {"maps/mm_1.json", "maps/.locks/mm_1.lock", "maps.txt"}


def test_configured_programs_do_not_run(repo: Repo, tmp_path: Path) -> None:
    """No monitor, external diff, text conversion, filter or hook of the repository or a submodule runs."""
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\nexit 1\n")
    trap.chmod(0o755)
    inner = Repo.create(tmp_path / "inner")
    inner.commit_file("a.txt", "a\n")
    repo.write("a.txt", "a\n")
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner.path), "sub")
    repo.write(".gitattributes", "*.txt diff=trap filter=trap\n")
    repo.commit("All")
    for directory in (repo.path, repo.path / "sub"):
        settings = {
            "core.fsmonitor": trap,
            "core.pager": trap,
            "core.hooksPath": tmp_path,
            "diff.external": trap,
            "diff.trap.command": trap,
            "diff.trap.textconv": trap,
            "filter.trap.clean": trap,
            "filter.trap.required": "true",
        }
        for name, value in settings.items():
            Repo(directory).git("config", name, str(value))
    repo.write("a.txt", "b\n")
    repo.write("sub/a.txt", "b\n")
    assert find_summaries_by_path(repo) == {"a.txt": "Git modify (+1/-1 lines)"}
    assert not (tmp_path / "sprung").exists()


def test_configuration_changes_nothing(repo: Repo) -> None:
    """The user's configuration of status and diff does not change the result."""
    repo.write("old.txt", TEN)
    repo.commit("All")
    repo.rename("old.txt", "new.txt")
    repo.write("sub/a.txt", "a\n")
    for name, value in (
        ("status.renames", "false"),
        ("diff.renames", "false"),
        ("status.showUntrackedFiles", "no"),
        ("status.short", "true"),
        ("diff.relative", "true"),
        ("color.ui", "always"),
        ("status.branch", "true"),
    ):
        repo.git("config", name, value)
    assert find_summaries_by_path(repo) == {
        "old.txt -> new.txt": "Git rename (+0/-0 lines)",
        "sub/a.txt": "Git create (+1/-0 lines)",
    }


def test_failures(repo: Repo, tmp_path: Path) -> None:
    """A bare repository, a directory outside and a failing git raise different errors."""
    bare = Repo.create(tmp_path / "bare", bare=True)
    with pytest.raises(NoWorkTree, match="one of its work trees"):
        find_touches(bare.path)
    with pytest.raises(NoWorkTree, match="is not in the work tree"):
        find_changed_files(str(tmp_path), open_git(repo.path), tmp_path)
    repo.write("a.txt", "a\n")
    repo.git("add", "a.txt")
    (repo.path / ".git" / "index").write_bytes(b"broken")
    with pytest.raises(GitFailed, match="git status failed"):
        find_touches(repo.path)


def test_touches_are_attached(repo: Repo) -> None:
    """Changed files attach to the task in progress in one log entry; a rename moves the entry of the old path."""
    repo.write("old.txt", TEN)
    repo.commit("All")
    document = create_map({"label": "Task"}, workspace=str(repo.path))
    task = find_id(document, "Task")
    document = attach_files(
        document, task, [TouchInput("old.txt", symbols=("f",), lines="1-2")], "Touched", NOON
    )
    repo.rename("old.txt", "new.txt")
    repo.write("more.txt", "x\n")
    touches = find_touches(repo.path)
    edited = sync_touches(document, touches)
    assert [touch.path for touch in edited.nodes[find_id(edited, TOUCHED_FILES)].files] == ["more.txt"]
    assert [touch.path for touch in edited.nodes[task].files] == ["new.txt"]
    active_map = update_nodes(document, [NodeUpdate(task, status="in_progress")], NOON).document
    result = attach_detected_files(active_map, None, touches, create_timestamp(1))
    assert result is not None and result.ids == (task,)
    renamed_touch, new_touch = result.document.nodes[task].files
    assert (renamed_touch.path, renamed_touch.previous_path, renamed_touch.symbols, renamed_touch.lines) == (
        "new.txt",
        "old.txt",
        ("f",),
        "1-2",
    )
    assert (new_touch.path, new_touch.action) == ("more.txt", "create")
    assert len(result.document.activity_log) == len(active_map.activity_log) + 1
    assert_consistent(result.document)


def sync_touches(document: Mindmap, touches: list[TouchInput], node_id: str | None = None) -> Mindmap:
    """Attach touches as git sync does, at NOON and a minute."""
    result = attach_detected_files(document, node_id, touches, create_timestamp(1))
    assert result is not None
    assert_consistent(result.document)
    return result.document


def modify(path: str, added: int = 3) -> TouchInput:
    """Return the touch of a modified file."""
    summary = f"Git modify (+{added}/-0 lines)"
    return TouchInput(path, "modify", summary=summary, lines_added=added, lines_removed=0)


@pytest.fixture
def work() -> Mindmap:
    """Map with a completed task that has `a.py`, an older task in progress with `b.py`, and a newer one."""
    document = create_map({"label": "Done"}, {"label": "Old"}, {"label": "Now"}, workspace="/workspace")
    updates = [
        NodeUpdate(find_id(document, label), status=status)
        for label, status in (("Done", "completed"), ("Old", "in_progress"), ("Now", "in_progress"))
    ]
    document = update_nodes(document, updates, NOON).document
    for label, path, summary in (("Done", "a.py", "Lazy token bucket"), ("Old", "b.py", "")):
        touch = TouchInput(path, "create", summary=summary)
        document = attach_files(document, find_id(document, label), [touch], "Touched", NOON)
    return update_nodes(document, updates[-1:], NOON).document


def list_paths(document: Mindmap) -> dict[str, list[str]]:
    """Return the paths of the touched files by the label of their node."""
    return {
        node.label: [touch.path for touch in node.files] for node in document.nodes.values() if node.files
    }


def test_file_that_a_node_has_is_updated_there(work: Mindmap) -> None:
    """Sync updates files on the nodes that have them; only a file without a node attaches to the task in progress."""
    result = attach_detected_files(
        work, None, [modify("a.py"), modify("b.py"), modify("c.py")], create_timestamp(1)
    )
    assert result is not None
    assert list_paths(result.document) == {"Done": ["a.py"], "Old": ["b.py"], "Now": ["c.py"]}
    assert result.ids[0] == find_id(work, "Now")
    assert result.message == "Git sync: 3 files (2 on nodes that had them)"
    assert [touch.action for node in result.document.nodes.values() for touch in node.files] == ["modify"] * 3


def test_sync_does_not_change_the_active_task(work: Mindmap) -> None:
    """A sync that updates a file of an older task in progress leaves the newer one the active task."""
    active_task = find_active_task(sync_touches(work, [modify("b.py")]))
    assert active_task is not None and active_task.label == "Now"


def test_sync_without_new_files_creates_no_node() -> None:
    """The node `Touched Files` is created only for files that no node has."""
    document = create_map({"label": "Done", "status": "completed"}, workspace="/workspace")
    document = attach_files(document, find_id(document, "Done"), [TouchInput("a.py")], "Touched", NOON)
    assert list_paths(sync_touches(document, [modify("a.py")])) == {"Done": ["a.py"]}
    assert list_paths(sync_touches(document, [modify("b.py")])) == {"Done": ["a.py"], TOUCHED_FILES: ["b.py"]}


def test_sync_counts_what_it_attached(repo: Repo, tmp_path: Path) -> None:
    """A sync of a recorded rename attaches one file; one of only its old path attaches none, but sets the workspace."""
    repo.commit_file("a.py", TEN)
    store = MapStore(tmp_path / "maps")
    document = create_map({"label": "Task"})
    rename = TouchInput("new.py", "rename", previous_path="a.py")
    store.create(attach_files(document, find_id(document, "Task"), [rename], "Renamed", NOON))
    (repo.path / "a.py").unlink()
    sync = WorkspaceSync(store, document.id, lambda path: open_git(Path(path)), str(repo.path))
    nothing = sync.attach_changes()
    assert (nothing.file_count, nothing.edit, nothing.document.workspace_path) == (0, None, str(repo.path))
    repo.write("new.py", TEN)
    synced = sync.attach_changes()
    assert synced.edit is not None
    assert (synced.file_count, synced.edit.message) == (1, "Git sync: 1 file (1 on nodes that had them)")


def test_named_node_gets_all_files(work: Mindmap) -> None:
    """A node that the sync names gets every file; one that does not exist is no named node."""
    touches = [modify("a.py"), modify("b.py")]
    old = find_id(work, "Old")
    assert list_paths(sync_touches(work, touches, old)) == {"Done": ["a.py"], "Old": ["b.py", "a.py"]}
    assert list_paths(sync_touches(work, touches, "n_none")) == {"Done": ["a.py"], "Old": ["b.py"]}


def test_file_of_several_nodes_is_updated_where_it_was_touched_last(work: Mindmap) -> None:
    """Of several nodes that have a file, the target gets it, else the node with the newest touch."""
    document = attach_files(work, find_id(work, "Old"), [TouchInput("a.py")], "Touched", create_timestamp(1))
    counts = {node.label: node.files[0].lines_added for node in document.nodes.values() if node.files}
    assert counts == {"Done": None, "Old": None}
    edited = sync_touches(document, [modify("a.py")])
    touches = {
        node.label: touch for node in edited.nodes.values() for touch in node.files if touch.path == "a.py"
    }
    assert (touches["Done"].lines_added, touches["Old"].lines_added) == (None, 3)
    document = attach_files(work, find_id(work, "Now"), [TouchInput("a.py")], "Touched", NOON)
    assert sync_touches(document, [modify("a.py")]).nodes[find_id(work, "Now")].files[0].lines_added == 3


def test_generated_summary_does_not_replace_a_written_one(work: Mindmap) -> None:
    """Sync keeps the agent's summary and records the line counts beside it; a generated summary is replaced."""
    (touch,) = sync_touches(work, [modify("a.py", added=4)]).nodes[find_id(work, "Done")].files
    assert (touch.summary, touch.lines_added, touch.lines_removed) == ("Lazy token bucket", 4, 0)
    twice = sync_touches(sync_touches(work, [modify("b.py")]), [modify("b.py", added=5)])
    (touch,) = twice.nodes[find_id(work, "Old")].files
    assert touch.summary == "Git modify (+5/-0 lines)"
    rename = TouchInput("new.py", "rename", previous_path="a.py", summary="Git rename (+0/-0 lines)")
    (touch,) = sync_touches(work, [rename]).nodes[find_id(work, "Done")].files
    assert (touch.path, touch.summary) == ("new.py", "Lazy token bucket")
    written = TouchInput("a.py", summary="Git hooks are run later")
    document = attach_files(work, find_id(work, "Done"), [written], "Touched", NOON)
    assert (
        sync_touches(document, [modify("a.py")]).nodes[find_id(work, "Done")].files[0].summary
        == written.summary
    )


def test_rename_of_an_agent_is_not_a_deletion(work: Mindmap) -> None:
    """git lists a rename that is not staged as a deletion and a new file; the agent's rename stays."""
    rename = TouchInput("new.py", "rename", previous_path="a.py")
    done = find_id(work, "Done")
    document = attach_files(work, done, [rename], "Renamed", NOON)
    touches = [TouchInput("a.py", "delete"), TouchInput("new.py", "create")]
    synced = sync_touches(document, touches)
    assert list_paths(synced) == {"Done": ["new.py"], "Old": ["b.py"]}
    (touch,) = synced.nodes[done].files
    assert (touch.action, touch.previous_path) == ("rename", "a.py")
    assert attach_detected_files(document, None, touches[:1], NOON) is None
    (touch,) = sync_touches(document, [TouchInput("new.py", "delete")]).nodes[done].files
    assert (touch.action, touch.previous_path) == ("delete", None)


def test_git_decides_what_is_ignored(repo: Repo, tmp_path: Path) -> None:
    """git's ignore rules of all levels apply to untracked files; a path that git rejects is not ignored."""
    inner = Repo.create(tmp_path / "inner")
    inner.commit_file("a.txt", "a\n")
    repo.write(".gitignore", "*.log\n!kept.log\n")
    repo.write("deep/.gitignore", "own\n")
    repo.write("tracked.log", "x\n")
    repo.git("add", "--force", "tracked.log")
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner.path), "deep/sub")
    (repo.path / ".git/info/exclude").write_text("private\n")
    paths = [
        b"a.log",
        b"kept.log",
        b"tracked.log",
        b"deep/sub/a.txt",
        b"deep/own",
        b"own",
        b"private",
        b"new\nline.log",
        b":(glob)*.log",
        b"gone/away.log",
    ]
    workspace = Workspace.from_path(str(repo.path), open_git(repo.path))
    assert find_ignored_paths(workspace, paths) == {
        b"a.log",
        b"deep/own",
        b"private",
        b"new\nline.log",
        b":(glob)*.log",
        b"gone/away.log",
    }
    deep = Workspace.from_path(str(repo.path / "deep"), open_git(repo.path))
    assert find_ignored_paths(deep, [b"own", b"x", b"a.log"]) == {b"own", b"a.log"}
    assert find_ignored_paths(workspace, [b"deep/sub/a.txt"] * 30 + [b"a.log"]) == set()


@given(
    st.lists(
        st.tuples(
            st.sampled_from([" M", "??", "A ", "AM", " D", "D ", "UU", "R ", "RD", " R", "C "]),
            st.binary(min_size=1).filter(lambda name: b"\0" not in name and not name.endswith(b"/")),
        ),
        unique_by=lambda entry: entry[1],
    )
)
def test_status_parser(entries: list[tuple[str, bytes]]) -> None:
    """The parser finds every entry, whatever the names, and consumes two paths for renames and copies."""
    output = b"".join(
        code.encode() + b" " + name + b"\0" + (b"old\0" if "R" in code or "C" in code else b"")
        for code, name in entries
    )
    paths = [change.path for change in git.parse_status(output) if change.path != b"old"]
    assert paths == [name for _, name in entries if name != b"old"]


def test_entry_without_a_name() -> None:
    """An entry without a name, which git lists for a damaged index, is an error that says so."""
    with pytest.raises(git.GitFailed, match="a file without a name"):
        git.parse_status(b" M a.py\0A  \0")
