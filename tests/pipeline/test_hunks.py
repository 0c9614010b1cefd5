"""Hunks of commits with one parent or none, for every kind of change."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.git import changes, patches
from pipeline.git.repository import open_repository
from pipeline.hunks import OVERSIZE_BYTES, Hunk, build_message_hunk, extract_hunks
from tests.pipeline.git.tree_helpers import (
    create_repo,
    create_temporary_repo,
    extract_changes,
    extract_only_hunk,
    summarize_hunks,
)
from tests.repos import Repo


def apply_diff(old: str, hunk: Hunk) -> str:
    """Return the old text with the diff of a hunk applied. Fail if a context or removed line differs."""
    old_lines = [line + "\n" for line in old.split("\n")]
    old_lines[-1] = old_lines[-1].removesuffix("\n")
    result: list[str] = []
    position = 0
    lines = hunk.diff.split("\n")[:-1]
    lacks_line_feed = [i + 1 < len(lines) and lines[i + 1].startswith("\\") for i in range(len(lines))]
    parts = iter(hunk.parts)
    for line, is_last in zip(lines, lacks_line_feed, strict=True):
        text = line[1:] + ("" if is_last else "\n")
        if line.startswith("@@"):
            part = next(parts)
            start = part.old_start - (part.old_count > 0)
            result += old_lines[position:start]
            position = start
        elif line[0] in " -":
            assert old_lines[position] == text
            result += [text] if line[0] == " " else []
            position += 1
        elif line[0] == "+":
            result.append(text)
    return "".join(result + old_lines[position:])


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return create_repo(tmp_path / "work")


def test_root_commit(repo: Repo) -> None:
    """A root commit adds all of its files."""
    hunk = extract_only_hunk(repo)
    assert summarize_hunks([hunk]) == [("a.py", "added", "text", 20, 0)]
    assert (hunk.old_blob, hunk.new_blob) == (None, repo.git("rev-parse", "HEAD:a.py"))
    assert hunk.added_text.splitlines()[0] == "line 1"


def test_modified_file(repo: Repo) -> None:
    """Line numbers, texts, hunk headers and diff are those of git."""
    old_blob = repo.git("rev-parse", "HEAD:a.py")
    text = (repo.path / "a.py").read_text().replace("line 3\n", "").replace("line 18\n", "other\nmore\n")
    repo.commit_file("a.py", text)
    hunk = extract_only_hunk(repo)
    assert [(part.removed, part.added) for part in hunk.parts] == [((3,), ()), ((18,), (17, 18))]
    assert [part.section_heading for part in hunk.parts] == ["", "line 14"]
    assert (hunk.added_text, hunk.removed_text) == ("other\nmore", "line 3\nline 18")
    assert hunk.old_blob == old_blob
    git_diff = repo.git("show", "--format=", "HEAD") + "\n"
    assert hunk.diff == git_diff[git_diff.index("@@") :]


def test_diff_attributes(repo: Repo) -> None:
    """The attribute `diff=` selects the rules for hunk headers, and `-diff` makes a file binary. Others do neither."""
    lines = "".join(f"    line {n}\n" for n in range(20))
    for name in ("plain.txt", "driven.txt", "opaque.txt"):
        repo.write(name, f"def named():\n{lines}shift = 1\n{lines}")
    repo.write(
        ".gitattributes", "driven.txt diff=python\nopaque.txt -diff\nplain.txt linguist-documentation\n"
    )
    repo.commit("Attributes")
    for name in ("plain.txt", "driven.txt", "opaque.txt"):
        repo.write(name, (repo.path / name).read_text() + "more\n")
    repo.commit("More")
    hunks_by_path = {hunk.file_path: hunk for hunk in extract_changes(repo).hunks}
    headers = {name: [part.section_heading for part in hunk.parts] for name, hunk in hunks_by_path.items()}
    assert headers == {"plain.txt": ["shift = 1"], "driven.txt": ["def named():"], "opaque.txt": []}
    assert hunks_by_path["opaque.txt"].content_kind == "binary"


def test_hunks_are_in_order_of_paths(repo: Repo) -> None:
    """Added, deleted and modified files of one commit are one hunk each, ordered by path."""
    repo.write("b.py", "b\n")
    repo.commit("Second")
    repo.remove("b.py")
    repo.write("c.py", "c\n" * 5)
    repo.write("a.py", "new\n")
    repo.commit("Third")
    assert summarize_hunks(extract_changes(repo).hunks) == [
        ("a.py", "modified", "text", 1, 20),
        ("b.py", "deleted", "text", 0, 1),
        ("c.py", "added", "text", 5, 0),
    ]
    deleted = extract_changes(repo).hunks[1]
    assert (deleted.new_blob, deleted.removed_text) == (None, "b")


@pytest.mark.parametrize(("unchanged_lines", "change_kind"), [(16, "renamed"), (4, "added")])
def test_rename_threshold(repo: Repo, unchanged_lines: int, change_kind: str) -> None:
    """A moved file is a rename if at least half of its content is unchanged."""
    lines = [f"line {n}\n" if n <= unchanged_lines else f"other content {n}\n" for n in range(1, 21)]
    repo.rename("a.py", "src/b.py")
    repo.write("src/b.py", "".join(lines))
    repo.commit("Move")
    hunks_by_path = {hunk.file_path: hunk for hunk in extract_changes(repo).hunks}
    assert hunks_by_path["src/b.py"].change_kind == change_kind
    assert hunks_by_path["src/b.py"].old_path == ("a.py" if change_kind == "renamed" else None)
    assert ("a.py" in hunks_by_path) == (change_kind == "added")


@pytest.mark.parametrize("unchanged_lines", range(7, 14))
def test_rename_threshold_is_that_of_git(repo: Repo, unchanged_lines: int) -> None:
    """git counts a moved file of 20 equally long lines as renamed if 10 are unchanged, as its threshold is 50 %."""
    repo.commit_file("a.py", "".join(f"line {n:02}\n" for n in range(20)), "Write")
    repo.rename("a.py", "b.py")
    repo.write("b.py", "".join(f"{'line' if n < unchanged_lines else 'diff'} {n:02}\n" for n in range(20)))
    repo.commit("Move")
    kinds = {hunk.change_kind for hunk in extract_changes(repo).hunks}
    git_statuses = repo.git("show", "--find-renames", "--name-status", "--format=", "HEAD").splitlines()
    assert kinds == ({"renamed"} if git_statuses[0].startswith("R") else {"added", "deleted"})
    assert (kinds == {"renamed"}) == (unchanged_lines >= 10)


def test_rename_without_changes(repo: Repo) -> None:
    """A renamed file with the same content is one hunk without a diff."""
    repo.rename("a.py", "b.py")
    repo.commit("Move")
    hunk = extract_only_hunk(repo)
    assert summarize_hunks([hunk]) == [("b.py", "renamed", "text", 0, 0)]
    assert (hunk.old_path, hunk.diff, hunk.parts) == ("a.py", "", ())


def test_renames_above_the_limit(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above git's rename limit only files with equal content are paired."""
    monkeypatch.setattr(changes, "RENAME_LIMIT", 2)
    for number in range(5):
        repo.write(f"old/{number}/file.py", f"content {number // 2}\n" * 4)
    repo.commit("Second")
    repo.git("mv", "old", "new")
    repo.write("new/4/file.py", "content 2\n" * 3 + "changed\n")
    repo.commit("Move")
    hunks = extract_changes(repo).hunks
    assert [(hunk.old_path, hunk.file_path) for hunk in hunks if hunk.change_kind == "renamed"] == [
        (f"old/{n}/file.py", f"new/{n}/file.py") for n in range(4)
    ]
    assert summarize_hunks([hunk for hunk in hunks if hunk.change_kind != "renamed"]) == [
        ("new/4/file.py", "added", "text", 4, 0),
        ("old/4/file.py", "deleted", "text", 0, 4),
    ]


def test_mode_change(repo: Repo) -> None:
    """A file that becomes executable is a hunk without lines."""
    (repo.path / "a.py").chmod(0o755)
    repo.commit("Executable")
    assert summarize_hunks(extract_changes(repo).hunks) == [("a.py", "mode_changed", "text", 0, 0)]


def test_binary_files(repo: Repo) -> None:
    """Content with a NUL byte is binary if added, changed, renamed or made executable."""
    repo.write("image", b"\x89PNG\0" + bytes(range(256)))
    repo.commit("Add")
    assert summarize_hunks(extract_changes(repo).hunks) == [("image", "added", "binary", 0, 0)]
    repo.write("image", b"\x89PNG\0\0" + bytes(range(256)))
    repo.commit("Change")
    assert (
        extract_only_hunk(repo).content_kind,
        extract_only_hunk(repo).diff,
        extract_only_hunk(repo).added_text,
    ) == (
        "binary",
        "",
        "",
    )
    repo.rename("image", "picture")
    repo.commit("Rename")
    assert summarize_hunks(extract_changes(repo).hunks) == [("picture", "renamed", "binary", 0, 0)]
    (repo.path / "picture").chmod(0o755)
    repo.commit("Mode")
    assert summarize_hunks(extract_changes(repo).hunks) == [("picture", "mode_changed", "binary", 0, 0)]


def test_attributes_override_binary_detection(repo: Repo) -> None:
    """`diff` and `-diff` apply to added, modified and deleted files, as in `git show`."""
    repo.commit_file(".gitattributes", "*.lock -diff\n*.dump diff\n", "Attributes")
    for content, kind, lines in (
        ("a\0\n", "added", (1, 0)),
        ("b\0\n", "modified", (1, 1)),
        (None, "deleted", (0, 1)),
    ):
        for name in ("a.dump", "b.lock"):
            if content is None:
                (repo.path / name).unlink()
            else:
                repo.write(name, content)
        repo.commit("Next")
        assert summarize_hunks(extract_changes(repo).hunks) == [
            ("a.dump", kind, "text", *lines),
            ("b.lock", kind, "binary", 0, 0),
        ]


def test_symlink(repo: Repo) -> None:
    """The hunk of a symlink has its target as added text, without a diff."""
    repo.symlink("link", "a.py")
    repo.commit("Link")
    hunk = extract_only_hunk(repo)
    assert summarize_hunks([hunk]) == [("link", "added", "symlink", 1, 0)]
    assert (hunk.added_text, hunk.diff, hunk.parts) == ("a.py", "", ())


def test_file_becomes_a_symlink(repo: Repo) -> None:
    """A change of type is one hunk with the new content kind and a diff of both contents, in both directions."""
    repo.remove("a.py")
    repo.symlink("a.py", "elsewhere")
    repo.commit("To link")
    hunk = extract_only_hunk(repo)
    assert summarize_hunks([hunk]) == [("a.py", "type_changed", "symlink", 1, 20)]
    assert (hunk.added_text, hunk.removed_text.splitlines()[:2]) == ("elsewhere", ["line 1", "line 2"])
    assert hunk.diff.startswith("@@ -1,20 +1 @@\n-line 1\n")
    repo.remove("a.py")
    repo.write("a.py", "text\n")
    repo.commit("Back")
    hunk = extract_only_hunk(repo)
    assert summarize_hunks([hunk]) == [("a.py", "type_changed", "text", 1, 1)]
    assert hunk.diff == "@@ -1 +1 @@\n-elsewhere\n\\ No newline at end of file\n+text\n"


def test_submodule(repo: Repo) -> None:
    """The hunk of a submodule names its old and its new commit, which are not read. The hunk has no blobs."""
    for number, kind in (("1", "added"), ("2", "modified")):
        repo.git("update-index", "--add", "--cacheinfo", f"160000,{number * 40},module")
        repo.commit("Submodule", add=False)
        hunk = extract_only_hunk(repo)
        assert (hunk.change_kind, hunk.content_kind) == (kind, "submodule")
        assert hunk.added_text == f"Subproject commit {number * 40}"
        assert (hunk.old_blob, hunk.new_blob, hunk.diff) == (None, None, "")


def test_paths_that_are_not_utf8(repo: Repo) -> None:
    """A path in another encoding is escaped, and its bytes are in a separate field."""
    blob = repo.git("rev-parse", "HEAD:a.py")
    repo.git(
        "update-index", "--add", "-z", "--index-info", stdin=f"100644 {blob}\t".encode() + b"gr\xf6\xdfe\0"
    )
    repo.commit("Latin", add=False)
    hunk = extract_only_hunk(repo)
    assert (hunk.file_path, hunk.file_path_bytes) == (r"gr\xf6\xdfe", b"gr\xf6\xdfe")
    repo.git("reset", "--quiet", "--hard", "HEAD~1")
    repo.commit_file("größe", "x\n")
    assert (extract_only_hunk(repo).file_path, extract_only_hunk(repo).file_path_bytes) == ("größe", None)


def test_text_that_is_not_utf8(repo: Repo) -> None:
    """Invalid bytes are replaced in texts and diff; line ends are unchanged."""
    repo.commit_file("latin.txt", b"gr\xf6\xdfe\r\nnext\r\n")
    hunk = extract_only_hunk(repo)
    assert hunk.added_text == "gr\ufffd\ufffde\r\nnext\r"
    assert hunk.diff.splitlines(keepends=True)[1] == "+gr\ufffd\ufffde\r\n"


def test_long_line_is_truncated(repo: Repo) -> None:
    """The diff and texts of a minified file are truncated at their limits."""
    repo.commit_file("all.js", b"x" * (1 << 20))
    hunk = extract_only_hunk(repo)
    assert summarize_hunks([hunk]) == [("all.js", "added", "text", 1, 0)]
    assert (len(hunk.diff), hunk.diff_truncated) == (patches.MAX_DIFF_BYTES, True)
    assert hunk.added_text == "x" * patches.MAX_TEXT_BYTES


def test_truncation_at_line_and_character_ends(repo: Repo) -> None:
    """A truncated diff has whole lines and characters; counts are of the full diff."""
    repo.commit_file("long.txt", "größe\n" * 20_000)
    hunk = extract_only_hunk(repo)
    assert (hunk.added_lines, hunk.diff_truncated) == (20_000, True)
    assert set(hunk.diff.split("\n")[1:]) == {"+größe", ""}
    repo.commit_file("wide.txt", "ö" * 100_000)
    assert set(extract_only_hunk(repo).added_text) == {"ö"}


@pytest.mark.parametrize("character", ["x", "ö", "中", "😀"])
def test_no_character_is_cut(repo: Repo, character: str) -> None:
    """A text whose limit is inside of a character of several bytes is cut directly before this character."""
    texts = [" " * offset + character * 70_000 for offset in range(4)]
    for offset, text in enumerate(texts):
        repo.write(f"{offset}.txt", text)
    repo.commit("Write")
    hunks = extract_changes(repo).hunks
    assert [hunk.added_text for hunk in hunks] == [cut_at_character(text) for text in texts]
    assert [hunk.diff for hunk in hunks] == [cut_at_character(f"@@ -0,0 +1 @@\n+{text}") for text in texts]
    for offset in range(4):
        repo.write(f"{offset}.txt", "")
    repo.commit("Empty them")
    assert [hunk.removed_text for hunk in extract_changes(repo).hunks] == list(map(cut_at_character, texts))


def cut_at_character(text: str) -> str:
    """Return the longest beginning of a text that fits into the limit on diffs and texts."""
    assert patches.MAX_DIFF_BYTES == patches.MAX_TEXT_BYTES
    return text.encode()[: patches.MAX_TEXT_BYTES].decode(errors="ignore")


def test_more_lines_than_are_listed(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the limit of listed lines the counts are exact. But the parts are incomplete, so `old_blob` is None."""
    monkeypatch.setattr(patches, "MAX_LISTED_LINES", 10)
    repo.commit_file("a.py", "".join(f"new {n}\n" for n in range(30)))
    hunk = extract_only_hunk(repo)
    assert (hunk.added_lines, hunk.removed_lines) == (30, 20)
    assert len(hunk.parts[0].removed) + len(hunk.parts[0].added) == 9
    assert hunk.old_blob is None


def test_oversize_file_is_not_read(tmp_path: Path) -> None:
    """Hunks of a file of 100 MB that is added, changed and renamed take less than 30 MB of memory and one second."""
    repo = Repo.create(tmp_path / "big")
    repo.git("config", "core.compression", "0")
    line = b"0123456789abcdef" * 64 + b"\n"
    repo.write("big.txt", line * (100 << 10))
    repo.write("small.txt", "one\ntwo\nthree\n")
    repo.commit("Add")
    with (repo.path / "big.txt").open("ab") as big:
        big.write(b"end\n")
    repo.commit("Change")
    repo.rename("big.txt", "huge.txt")
    repo.rename("small.txt", "little.txt")
    with (repo.path / "huge.txt").open("ab") as big:
        big.write(b"really\n")
    repo.commit("Rename")
    program = (
        "import sys, time, resource, pathlib\n"
        "from pipeline.git.repository import open_repository; from pipeline.hunks import extract_hunks\n"
        "def read_peak_memory():\n"
        "    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "memory_before, start_time = read_peak_memory(), time.process_time()\n"
        "repository = open_repository(pathlib.Path(sys.argv[1]))\n"
        "for sha in repository.walk(repository.read_head()):\n"
        "    hunks = extract_hunks(repository, sha, lambda path: False).hunks\n"
        "    print(sorted((h.file_path, h.change_kind, h.content_kind) for h in hunks))\n"
        "unit = 1 if sys.platform == 'darwin' else 1024\n"
        "print((read_peak_memory() - memory_before) * unit, time.process_time() - start_time)\n"
    )
    command = [sys.executable, "-c", program, str(repo.path)]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    *summaries, cost = process.stdout.splitlines()
    assert summaries == [
        "[('big.txt', 'added', 'oversize'), ('small.txt', 'added', 'text')]",
        "[('big.txt', 'modified', 'oversize')]",
        "[('big.txt', 'deleted', 'oversize'), ('huge.txt', 'added', 'oversize'), "
        "('little.txt', 'renamed', 'text')]",
    ]
    memory, seconds = cost.split()
    assert int(memory) < 30 << 20
    assert float(seconds) < 1


def test_size_limit_applies_to_old_and_new_file(repo: Repo) -> None:
    """A file that grows above the limit, or shrinks below it, is not read."""
    repo.commit_file("data.txt", b"x\n" * (OVERSIZE_BYTES // 2))
    assert extract_only_hunk(repo).content_kind == "text"
    repo.commit_file("data.txt", b"x\n" * (OVERSIZE_BYTES // 2 + 1))
    assert summarize_hunks(extract_changes(repo).hunks) == [("data.txt", "modified", "oversize", 0, 0)]
    repo.commit_file("data.txt", b"x\n")
    assert extract_only_hunk(repo).content_kind == "oversize"


def test_ignored_files(repo: Repo) -> None:
    """Ignored paths have no hunk. `all_ignored` is set if a commit changed only ignored files, not if it is empty."""
    repo.write("a.lock", "x\n")
    mixed_commit = (repo.write("b.py", "b\n"), repo.commit("Both"))[1]
    ignored_commit = repo.commit_file("a.lock", "y\n")
    empty_commit = repo.commit("Nothing")
    opened = open_repository(repo.path)

    def extract(sha: str) -> tuple[list[str], bool]:
        result = extract_hunks(opened, sha, lambda path: path.endswith(".lock"))
        return [hunk.file_path for hunk in result.hunks], result.all_ignored

    assert extract(mixed_commit) == (["b.py"], False)
    assert extract(ignored_commit) == ([], True)
    assert extract(empty_commit) == ([], False)


def test_message_hunk() -> None:
    """A message hunk has no file. For a merge, it lists 50 paths on indented lines and the number of other paths."""
    empty = build_message_hunk((), is_merge=False)
    assert summarize_hunks([empty]) == [("", "empty", "message", 0, 0)]
    assert (empty.diff, empty.added_text, empty.diff_truncated) == ("", "", False)
    merge = build_message_hunk(["@@ -1 +1 @@", "a\nb"], is_merge=True)
    assert summarize_hunks([merge]) == [("", "merged", "message", 0, 0)]
    assert (merge.diff, merge.diff_truncated) == (" @@ -1 +1 @@\n a\\nb\n", False)
    assert merge.added_text == "@@ -1 +1 @@\na\nb"
    large = build_message_hunk([f"{number}.py" for number in range(1_099)], is_merge=True)
    assert large.diff.splitlines() == [*(f" {number}.py" for number in range(50)), " … and 1,049 more"]
    assert (large.added_text.count("\n"), large.diff_truncated) == (49, True)


lines = st.lists(st.sampled_from(["", "a", "b", "\tc", "@@ -1 +1 @@", "\\ No newline", "é", "\r", "-", "+x"]))
files = st.tuples(lines, st.booleans()).map(lambda pair: "\n".join(pair[0]) + "\n" * pair[1])


@settings(max_examples=40)
@given(files, files)
def test_diff_applies_to_the_old_file(old: str, new: str) -> None:
    """The diff applied to the old text gives the new text; line numbers and texts agree with it."""
    with create_temporary_repo() as repo:
        repo.commit_file("file.txt", old)
        repo.commit_file("file.txt", new)
        hunks = extract_changes(repo).hunks
        assert bool(hunks) == (old != new)
        for hunk in hunks:
            assert apply_diff(old, hunk) == new
            added = [number for part in hunk.parts for number in part.added]
            removed = [number for part in hunk.parts for number in part.removed]
            assert (len(added), len(removed)) == (hunk.added_lines, hunk.removed_lines)
            assert "\n".join(new.split("\n")[n - 1] for n in added) == hunk.added_text
            assert "\n".join(old.split("\n")[n - 1] for n in removed) == hunk.removed_text


@settings(max_examples=30)
@given(st.binary(max_size=200), st.binary(max_size=200))
def test_counts_are_those_of_git(old: bytes, new: bytes) -> None:
    """For any content the counts are those of `git show --numstat`, and no hunk exists without a change."""
    with create_temporary_repo() as repo:
        repo.commit_file("file", old)
        repo.commit_file("file", new)
        git_counts = repo.git("show", "--numstat", "--format=", "HEAD")
        for hunk in extract_changes(repo).hunks:
            counts = "-\t-" if hunk.content_kind == "binary" else f"{hunk.added_lines}\t{hunk.removed_lines}"
            assert git_counts == f"{counts}\tfile"
        assert bool(extract_changes(repo).hunks) == (old != new)
