"""One hunk per changed file, for every kind of change git knows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.git import changes, patches
from pipeline.git.repository import open_repository
from pipeline.hunks import OVERSIZE_BYTES, Hunk, hunks
from tests.pipeline.git.tree_helpers import begun, changed, only, scratch, summary
from tests.repos import Repo


def patched(old: str, hunk: Hunk) -> str:
    """The old text with a hunk's diff applied, line by line and strictly."""
    source = [line + "\n" for line in old.split("\n")]
    source[-1] = source[-1].removesuffix("\n")
    result: list[str] = []
    position = 0
    lines = hunk.diff.split("\n")[:-1]
    ended = [i + 1 < len(lines) and lines[i + 1].startswith("\\") for i in range(len(lines))]
    parts = iter(hunk.parts)
    for line, last in zip(lines, ended, strict=True):
        text = line[1:] + ("" if last else "\n")
        if line.startswith("@@"):
            part = next(parts)
            start = part.old_start - (part.old_count > 0)
            result += source[position:start]
            position = start
        elif line[0] in " -":
            assert source[position] == text
            result += [text] if line[0] == " " else []
            position += 1
        elif line[0] == "+":
            result.append(text)
    return "".join(result + source[position:])


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return begun(tmp_path / "work")


def test_a_root_commit_adds_its_files(repo: Repo) -> None:
    """The first commit's change is its whole tree."""
    hunk = only(repo)
    assert summary([hunk]) == [("a.py", "added", "text", 20, 0)]
    assert (hunk.old_blob, hunk.new_blob) == (None, repo.git("rev-parse", "HEAD:a.py"))
    assert hunk.added_text.splitlines()[0] == "line 1"


def test_a_modified_file_lists_its_lines(repo: Repo) -> None:
    """Line numbers, texts, heading and diff are git's own."""
    before = repo.git("rev-parse", "HEAD:a.py")
    text = (repo.path / "a.py").read_text().replace("line 3\n", "").replace("line 18\n", "other\nmore\n")
    repo.commit_file("a.py", text)
    hunk = only(repo)
    assert [(part.removed, part.added) for part in hunk.parts] == [((3,), ()), ((18,), (17, 18))]
    assert [part.header for part in hunk.parts] == ["", "line 14"]
    assert (hunk.added_text, hunk.removed_text) == ("other\nmore", "line 3\nline 18")
    assert hunk.old_blob == before
    printed = repo.git("show", "--format=", "HEAD") + "\n"
    assert hunk.diff == printed[printed.index("@@") :]


def test_attributes_choose_how_a_file_is_compared(repo: Repo) -> None:
    """`diff=` names the driver that finds headings, `-diff` says that there are no lines; others change nothing."""
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
    found = {hunk.file_path: hunk for hunk in changed(repo).hunks}
    headings = {name: [part.header for part in hunk.parts] for name, hunk in found.items()}
    assert headings == {"plain.txt": ["shift = 1"], "driven.txt": ["def named():"], "opaque.txt": []}
    assert found["opaque.txt"].content_kind == "binary"


def test_files_come_in_the_order_of_their_paths(repo: Repo) -> None:
    """Added, deleted and modified files of one commit are one hunk each."""
    repo.write("b.py", "b\n")
    repo.commit("Second")
    repo.remove("b.py")
    repo.write("c.py", "c\n" * 5)
    repo.write("a.py", "new\n")
    repo.commit("Third")
    assert summary(changed(repo).hunks) == [
        ("a.py", "modified", "text", 1, 20),
        ("b.py", "deleted", "text", 0, 1),
        ("c.py", "added", "text", 5, 0),
    ]
    deleted = changed(repo).hunks[1]
    assert (deleted.new_blob, deleted.removed_text) == (None, "b")


@pytest.mark.parametrize(("kept", "kind"), [(16, "renamed"), (4, "added")])
def test_a_rename_needs_half_the_content(repo: Repo, kept: int, kind: str) -> None:
    """Similarity 50 decides whether a moved file is the old one renamed."""
    lines = [f"line {n}\n" if n <= kept else f"quite another thing {n}\n" for n in range(1, 21)]
    repo.rename("a.py", "src/b.py")
    repo.write("src/b.py", "".join(lines))
    repo.commit("Move")
    found = {hunk.file_path: hunk for hunk in changed(repo).hunks}
    assert found["src/b.py"].change_kind == kind
    assert found["src/b.py"].old_path == ("a.py" if kind == "renamed" else None)
    assert ("a.py" in found) == (kind == "added")


def test_a_pure_rename_has_no_lines(repo: Repo) -> None:
    """A file that only moved is one hunk without a diff."""
    repo.rename("a.py", "b.py")
    repo.commit("Move")
    hunk = only(repo)
    assert summary([hunk]) == [("b.py", "renamed", "text", 0, 0)]
    assert (hunk.old_path, hunk.diff, hunk.parts) == ("a.py", "", ())


def test_many_renames_are_paired_by_content_alone(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above git's rename limit moved files are still found where their content is the same."""
    monkeypatch.setattr(changes, "RENAME_LIMIT", 2)
    for number in range(5):
        repo.write(f"old/{number}/file.py", f"content {number // 2}\n" * 4)
    repo.commit("Second")
    repo.git("mv", "old", "new")
    repo.write("new/4/file.py", "content 2\n" * 3 + "changed\n")
    repo.commit("Move")
    found = changed(repo).hunks
    assert [(hunk.old_path, hunk.file_path) for hunk in found if hunk.change_kind == "renamed"] == [
        (f"old/{n}/file.py", f"new/{n}/file.py") for n in range(4)
    ]
    assert summary([hunk for hunk in found if hunk.change_kind != "renamed"]) == [
        ("new/4/file.py", "added", "text", 4, 0),
        ("old/4/file.py", "deleted", "text", 0, 4),
    ]


def test_a_mode_change_has_no_lines(repo: Repo) -> None:
    """A file made executable is a hunk of its own kind."""
    (repo.path / "a.py").chmod(0o755)
    repo.commit("Executable")
    assert summary(changed(repo).hunks) == [("a.py", "mode_changed", "text", 0, 0)]


def test_binaries_are_named_not_shown(repo: Repo) -> None:
    """Content with a NUL byte is binary when added, changed, renamed or made executable."""
    repo.write("image", b"\x89PNG\0" + bytes(range(256)))
    repo.commit("Add")
    assert summary(changed(repo).hunks) == [("image", "added", "binary", 0, 0)]
    repo.write("image", b"\x89PNG\0\0" + bytes(range(256)))
    repo.commit("Change")
    assert (only(repo).content_kind, only(repo).diff, only(repo).added_text) == ("binary", "", "")
    repo.rename("image", "picture")
    repo.commit("Rename")
    assert summary(changed(repo).hunks) == [("picture", "renamed", "binary", 0, 0)]
    (repo.path / "picture").chmod(0o755)
    repo.commit("Mode")
    assert summary(changed(repo).hunks) == [("picture", "mode_changed", "binary", 0, 0)]


def test_attributes_say_what_is_text(repo: Repo) -> None:
    """Of a file that comes, changes or goes alike, as `git show` has it."""
    repo.commit_file(".gitattributes", "*.lock -diff\n*.dump diff\n", "Say what is text")
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
        assert summary(changed(repo).hunks) == [
            ("a.dump", kind, "text", *lines),
            ("b.lock", kind, "binary", 0, 0),
        ]


def test_a_symlink_is_its_target(repo: Repo) -> None:
    """A symlink's hunk holds what it points to, as text without a diff."""
    repo.symlink("link", "a.py")
    repo.commit("Link")
    hunk = only(repo)
    assert summary([hunk]) == [("link", "added", "symlink", 1, 0)]
    assert (hunk.added_text, hunk.diff, hunk.parts) == ("a.py", "", ())


def test_a_file_that_becomes_a_symlink_changes_its_type(repo: Repo) -> None:
    """One hunk, whose content kind is what the path is afterwards, and whose diff has both, in both directions."""
    repo.remove("a.py")
    repo.symlink("a.py", "elsewhere")
    repo.commit("To link")
    hunk = only(repo)
    assert summary([hunk]) == [("a.py", "type_changed", "symlink", 1, 20)]
    assert (hunk.added_text, hunk.removed_text.splitlines()[:2]) == ("elsewhere", ["line 1", "line 2"])
    assert hunk.diff.startswith("@@ -1,20 +1 @@\n-line 1\n")
    repo.remove("a.py")
    repo.write("a.py", "text\n")
    repo.commit("Back")
    hunk = only(repo)
    assert summary([hunk]) == [("a.py", "type_changed", "text", 1, 1)]
    assert hunk.diff == "@@ -1 +1 @@\n-elsewhere\n\\ No newline at end of file\n+text\n"


def test_a_submodule_is_its_commit(repo: Repo) -> None:
    """A submodule's hunk names commits, never opens them, and has no blobs."""
    for number, kind in (("1", "added"), ("2", "modified")):
        repo.git("update-index", "--add", "--cacheinfo", f"160000,{number * 40},module")
        repo.commit("Submodule", add=False)
        hunk = only(repo)
        assert (hunk.change_kind, hunk.content_kind) == (kind, "submodule")
        assert hunk.added_text == f"Subproject commit {number * 40}"
        assert (hunk.old_blob, hunk.new_blob, hunk.diff) == (None, None, "")


def test_paths_that_are_not_utf8_keep_their_bytes(repo: Repo) -> None:
    """A path in another encoding is shown with escapes, and its own bytes are kept beside it."""
    blob = repo.git("rev-parse", "HEAD:a.py")
    repo.git(
        "update-index", "--add", "-z", "--index-info", stdin=f"100644 {blob}\t".encode() + b"gr\xf6\xdfe\0"
    )
    repo.commit("Latin", add=False)
    hunk = only(repo)
    assert (hunk.file_path, hunk.file_path_bytes) == (r"gr\xf6\xdfe", b"gr\xf6\xdfe")
    repo.git("reset", "--quiet", "--hard", "HEAD~1")
    repo.commit_file("größe", "x\n")
    assert (only(repo).file_path, only(repo).file_path_bytes) == ("größe", None)


def test_text_that_is_not_utf8_is_decoded_with_replacements(repo: Repo) -> None:
    """Bytes of no encoding are replaced, in the texts and in the diff; line ends stay as they are."""
    repo.commit_file("latin.txt", b"gr\xf6\xdfe\r\nnext\r\n")
    hunk = only(repo)
    assert hunk.added_text == "gr\ufffd\ufffde\r\nnext\r"
    assert hunk.diff.splitlines(keepends=True)[1] == "+gr\ufffd\ufffde\r\n"


def test_a_megabyte_on_one_line_is_cut(repo: Repo) -> None:
    """A minified file is text; its diff and texts end at their limits."""
    repo.commit_file("all.js", b"x" * (1 << 20))
    hunk = only(repo)
    assert summary([hunk]) == [("all.js", "added", "text", 1, 0)]
    assert (len(hunk.diff), hunk.diff_truncated) == (patches.DIFF_BYTES, True)
    assert hunk.added_text == "x" * patches.TEXT_BYTES


def test_a_cut_falls_between_lines_and_characters(repo: Repo) -> None:
    """What is kept of a long diff is whole lines of whole characters; counts are of the whole."""
    repo.commit_file("long.txt", "größe\n" * 20_000)
    hunk = only(repo)
    assert (hunk.added_lines, hunk.diff_truncated) == (20_000, True)
    assert set(hunk.diff.split("\n")[1:]) == {"+größe", ""}
    repo.commit_file("wide.txt", "ö" * 100_000)
    assert set(only(repo).added_text) == {"ö"}


def test_more_lines_than_are_listed_still_count(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where line numbers stop, the parts do not lead from one blob to the other, and none is named."""
    monkeypatch.setattr(patches, "LISTED_LINES", 10)
    repo.commit_file("a.py", "".join(f"new {n}\n" for n in range(30)))
    hunk = only(repo)
    assert (hunk.added_lines, hunk.removed_lines) == (30, 20)
    assert len(hunk.parts[0].removed) + len(hunk.parts[0].added) == 9
    assert hunk.old_blob is None


def test_a_generated_file_of_100_megabytes_is_never_opened(tmp_path: Path) -> None:
    """Added, changed and renamed beside others, it costs neither its size in memory nor time."""
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
        "from pipeline.git.repository import open_repository; from pipeline.hunks import hunks\n"
        "def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "before, started = peak(), time.process_time()\n"
        "r = open_repository(pathlib.Path(sys.argv[1]))\n"
        "for sha in r.walk(r.head()):\n"
        "    found = hunks(r, sha, lambda path: False).hunks\n"
        "    print(sorted((h.file_path, h.change_kind, h.content_kind) for h in found))\n"
        "unit = 1 if sys.platform == 'darwin' else 1024\n"
        "print((peak() - before) * unit, time.process_time() - started)\n"
    )
    command = [sys.executable, "-c", program, str(repo.path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    *found, cost = done.stdout.splitlines()
    assert found == [
        "[('big.txt', 'added', 'oversize'), ('small.txt', 'added', 'text')]",
        "[('big.txt', 'modified', 'oversize')]",
        "[('big.txt', 'deleted', 'oversize'), ('huge.txt', 'added', 'oversize'), "
        "('little.txt', 'renamed', 'text')]",
    ]
    memory, seconds = cost.split()
    assert int(memory) < 30 << 20
    assert float(seconds) < 1


def test_the_limit_of_size_counts_either_side(repo: Repo) -> None:
    """A file that grows over the limit, or shrinks under it, is not opened."""
    repo.commit_file("data.txt", b"x\n" * (OVERSIZE_BYTES // 2))
    assert only(repo).content_kind == "text"
    repo.commit_file("data.txt", b"x\n" * (OVERSIZE_BYTES // 2 + 1))
    assert summary(changed(repo).hunks) == [("data.txt", "modified", "oversize", 0, 0)]
    repo.commit_file("data.txt", b"x\n")
    assert only(repo).content_kind == "oversize"


def test_ignored_files_are_left_out(repo: Repo) -> None:
    """Ignored paths give no hunk; a commit that has nothing else says so, an empty one does not."""
    repo.write("a.lock", "x\n")
    both = (repo.write("b.py", "b\n"), repo.commit("Both"))[1]
    locks = repo.commit_file("a.lock", "y\n")
    empty = repo.commit("Nothing")
    opened = open_repository(repo.path)

    def found(sha: str) -> tuple[list[str], bool]:
        result = hunks(opened, sha, lambda path: path.endswith(".lock"))
        return [hunk.file_path for hunk in result.hunks], result.all_ignored

    assert found(both) == (["b.py"], False)
    assert found(locks) == ([], True)
    assert found(empty) == ([], False)


lines = st.lists(st.sampled_from(["", "a", "b", "\tc", "@@ -1 +1 @@", "\\ No newline", "é", "\r", "-", "+x"]))
files = st.tuples(lines, st.booleans()).map(lambda pair: "\n".join(pair[0]) + "\n" * pair[1])


@settings(max_examples=40)
@given(files, files)
def test_the_old_file_and_its_hunk_make_the_new_file(old: str, new: str) -> None:
    """The diff applied to the old text gives the new text, and its numbers and texts say the same."""
    with scratch() as repo:
        repo.commit_file("file.txt", old)
        repo.commit_file("file.txt", new)
        found = changed(repo).hunks
        assert bool(found) == (old != new)
        for hunk in found:
            assert patched(old, hunk) == new
            added = [number for part in hunk.parts for number in part.added]
            removed = [number for part in hunk.parts for number in part.removed]
            assert (len(added), len(removed)) == (hunk.added_lines, hunk.removed_lines)
            assert "\n".join(new.split("\n")[n - 1] for n in added) == hunk.added_text
            assert "\n".join(old.split("\n")[n - 1] for n in removed) == hunk.removed_text


@settings(max_examples=30)
@given(st.binary(max_size=200), st.binary(max_size=200))
def test_any_bytes_at_all_give_a_hunk(old: bytes, new: bytes) -> None:
    """Whatever a file holds, its counts are those of `git show --numstat`."""
    with scratch() as repo:
        repo.commit_file("file", old)
        repo.commit_file("file", new)
        counted = repo.git("show", "--numstat", "--format=", "HEAD")
        for hunk in changed(repo).hunks:
            pair = "-\t-" if hunk.content_kind == "binary" else f"{hunk.added_lines}\t{hunk.removed_lines}"
            assert counted == f"{pair}\tfile"
        assert bool(changed(repo).hunks) == (old != new)
