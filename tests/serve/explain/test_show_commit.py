"""Display of commits, diffs of files, and files as they were; errors that say what to do."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pipeline.git.commit_graph import create_git_program
from pipeline.git.errors import UnreadableObject
from pipeline.git.ranges import list_range
from pipeline.git.repository import Repository, open_repository
from serve.cli.render_changes import print_show_answer
from serve.commit_types import ShowAnswer, ShowRequest
from serve.errors import BadRequest
from serve.explain.show_commit import ANSWER_OVERHEAD, FILE_OVERHEAD, show_commit
from serve.mcp.answer_text import format_show_answer
from tests.repos import Repo

LINES = [f"line {number}" for number in range(1, 21)]


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    repo = Repo.create(tmp_path_factory.mktemp("show") / "repo")
    repo.write("src/net/tcp.py", "\n".join(LINES) + "\n")
    repo.commit_file("logo.png", b"\0binary", "Start\n\nWith a body.")
    repo.git("tag", "v1.0")
    repo.rename("src/net/tcp.py", "src/net/udp.py")
    repo.write("src/net/udp.py", "\n".join([*LINES[:10], "changed", *LINES[11:]]) + "\n")
    repo.commit("Rename and change")
    repo.branch("topic")
    repo.commit_file("topic.txt", "topic\n", "Topic")
    repo.switch("main")
    repo.commit_file("big.txt", "x" * (1 << 20) + "\n", "Main")
    repo.merge("topic")
    return repo


def show(repo: Repo, commit: str, path: str | None = None, **options: Any) -> ShowAnswer:
    return show_commit(ShowRequest(commit, path, **options), repo.path)


def get_error(repo: Repo, commit: str, path: str | None = None, **options: Any) -> str:
    with pytest.raises(BadRequest) as caught:
        show(repo, commit, path, **options)
    return str(caught.value)


def test_commit_with_files(repo: Repo) -> None:
    """A commit has its message, author, dates, parents and files with their numbers of lines."""
    answer = show(repo, "v1.0")
    assert answer.to_json_dict() == {
        "commit": {
            "commit_sha": repo.git("rev-parse", "v1.0"),
            "commit_message": "Start\n\nWith a body.",
            "commit_author": "Ada Lovelace",
            "author_email": "ada@example.org",
            "commit_date": "2020-01-01T13:00:00Z",
            "parents": (),
            "release": {"tag": "v1.0", "date": "2020-01-01T13:00:00Z"},
        },
        "files": [
            {"path": "logo.png", "change_kind": "added", "added": 0, "removed": 0},
            {"path": "src/net/tcp.py", "change_kind": "added", "added": 20, "removed": 0},
        ],
        "file_count": 2,
    }
    (renamed,) = show(repo, "topic~1").files
    assert (renamed.path, renamed.old_path, renamed.change_kind) == (
        "src/net/udp.py",
        "src/net/tcp.py",
        "renamed",
    )
    assert (renamed.added, renamed.removed) == (1, 1)


def test_changelog(tmp_path: Path) -> None:
    """The entries that a commit adds to changelogs are shown, without headings; a rewritten changelog has none."""
    repo = Repo.create(tmp_path / "changelog")
    repo.write(
        "CHANGELOG.md", "# Unreleased\n\n- Fix the port of `connect`\n- \x1bClose the socket at last\n"
    )
    repo.commit_file("tcp.py", "port = 1\n", "Fix it")
    answer = show(repo, "HEAD")
    assert answer.changelog == ("- Fix the port of `connect`", "- \x1bClose the socket at last")
    assert answer.to_json_dict()["changelog"] == answer.changelog
    output = StringIO()
    print_show_answer(answer, Console(file=output, width=200))
    assert "\nchangelog: - ␛Close the socket at last\n" in output.getvalue()
    repo.commit_file("CHANGELOG.md", "A line of the old releases\n" * 21, "Rewrite the changelog")
    assert show(repo, "HEAD").changelog == ()


def test_file_that_is_too_large_to_compare(repo: Repo) -> None:
    """The list of files says which numbers of lines are unknown, and why, in JSON and in both texts."""
    answer = show(repo, "HEAD^")
    reason = "larger than 1 MiB, so its lines are not compared"
    file = {"path": "big.txt", "change_kind": "added", "limitation": reason}
    assert answer.to_json_dict()["files"] == [file]
    assert f"files: big.txt added, {reason}" in format_show_answer(answer).splitlines()
    output = StringIO()
    print_show_answer(answer, Console(file=output, width=200))
    assert f"+?    -?     big.txt  added, {reason}" in output.getvalue()


def test_merge_is_compared_with_its_first_parent(repo: Repo) -> None:
    """The files of a merge are those that it brings, and the answer says so."""
    answer = show(repo, "HEAD")
    assert [file.path for file in answer.files] == ["topic.txt"]
    assert answer.limitation == "A merge, compared with its first parent."
    assert len(answer.commit.parents) == 2


def test_diff_of_a_file(repo: Repo) -> None:
    """A file's diff is found by its name before and after a rename."""
    diff = show(repo, "topic~1", "src/net/udp.py").diff
    assert diff is not None and "-line 11\n+changed\n" in diff.text
    assert show(repo, "topic~1", "src/net/tcp.py").diff == diff
    assert show_commit(ShowRequest("topic~1", "udp.py"), repo.path, repo.path / "src/net").diff == diff


@pytest.mark.parametrize(
    ("commit", "path", "reason"),
    [("v1.0", "logo.png", "The file is binary."), ("HEAD^", "big.txt", "is larger than 1 MiB")],
)
def test_file_without_a_diff(repo: Repo, commit: str, path: str, reason: str) -> None:
    """A file that has no diff is named with the reason."""
    answer = show(repo, commit, path)
    assert answer.diff is None and reason in (answer.limitation or "")


def test_file_as_it_was(repo: Repo) -> None:
    """`COMMIT:PATH` is the whole file, a range of lines a part of it, also of a file that HEAD lacks."""
    content = show(repo, "v1.0:src/net/tcp.py").content
    assert content is not None and content.text == "\n".join(LINES) + "\n"
    part = show(repo, "v1.0", "src/net/tcp.py", lines="19:99").content
    assert part is not None
    assert (part.text, part.first_line, part.last_line, part.line_count) == ("line 19\nline 20\n", 19, 20, 20)


def test_colon_is_parsed_as_by_git(tmp_path: Path) -> None:
    """A colon in braces, and one before a slash, belong to the commit's name; any other begins the path."""
    own_repo = Repo.create(tmp_path)
    own_repo.commit_file("a}b.txt", "old\n", "docs: in a file..")
    own_repo.git("tag", "first")
    own_repo.commit_file("a}b.txt", "new\n", "fix: keep {2: braces}")
    for revision in ("HEAD^{/docs: in}", ":/docs: in", ":/^do{1}cs: .*\\.\\.", "HEAD^{/s: (in){1} a}"):
        assert own_repo.git("rev-parse", "first") == show(own_repo, revision).commit.commit_sha
    assert own_repo.git("rev-parse", "HEAD") == show(own_repo, ":/fix: keep [{]2: b").commit.commit_sha
    for name in ("HEAD^{/docs: in}:a}b.txt", "first:a}b.txt"):
        content = show(own_repo, name).content
        assert content is not None and content.text == "old\n"
    own_repo.switch("first", detach=True)
    own_repo.commit_file("c.txt", "", "docs: in no branch")  # libgit2 would not find it
    assert own_repo.git("rev-parse", "HEAD") == show(own_repo, ":/docs: in").commit.commit_sha


def test_context_is_cut_first(tmp_path: Path) -> None:
    """A diff that is too long keeps its changed lines rather than the lines around them, and counts what it lacks."""
    own_repo = Repo.create(tmp_path)
    lines = [f"line {number} of the file\n" for number in range(40)]
    own_repo.commit_file("a.txt", "".join(lines), "Add")
    lines[20] = "changed\n"
    own_repo.commit_file("a.txt", "".join(lines), "Change")
    whole = show(own_repo, "HEAD", "a.txt").diff
    cut = show(own_repo, "HEAD", "a.txt", max_tokens=(ANSWER_OVERHEAD + FILE_OVERHEAD + 100) // 3).diff
    assert whole is not None and cut is not None
    assert cut.text == "".join(line for line in whole.text.splitlines(keepends=True) if line[0] != " ")
    assert "\n+changed\n" in cut.text and cut.omitted_lines == 6


def test_only_newlines_end_lines(tmp_path: Path) -> None:
    """A diff and a file that are cut keep and count lines with form feeds and other separators as one line."""
    own_repo = Repo.create(tmp_path)
    line = "a\f b\v c\x1c d\x85 e\u2028 f\r g"
    context = "".join(f"{number} {line}\n" for number in range(20))
    own_repo.commit_file("a.txt", f"{context}{line}\n{context}", "Add")
    own_repo.commit_file("a.txt", f"{context}new {line}\n{context}", "Change")
    max_tokens = (ANSWER_OVERHEAD + FILE_OVERHEAD + 100) // 3
    diff = show(own_repo, "HEAD", "a.txt", max_tokens=max_tokens).diff
    assert diff is not None and diff.omitted_lines == 6
    assert diff.text.split("\n")[1:] == [f"-{line}", f"+new {line}", ""]
    own_repo.commit_file("b.txt", "x" * 1_000 + f"\n{line}\n{line}", "Add another file")
    content = show(own_repo, "HEAD:b.txt", max_tokens=max_tokens).content
    assert content is not None
    assert (content.first_line, content.last_line, content.omitted_lines) == (1, 1, 2)


def test_token_limit(repo: Repo) -> None:
    """Message, files, diff and content are cut to the limit, and the omitted lines are counted."""
    content = show(repo, "v1.0:src/net/tcp.py", max_tokens=100).content
    assert content is not None
    assert content.text.endswith("\n") and content.last_line + content.omitted_lines == 20
    assert 0 < content.omitted_lines < 20
    diff = show(repo, "topic~1", "src/net/udp.py", max_tokens=100).diff
    assert diff is not None and diff.text.startswith("@@ ") and diff.omitted_lines > 0
    answer = show(repo, "v1.0", max_tokens=1)
    assert (len(answer.files), answer.file_count) == (1, 2)
    assert answer.commit.commit_message == f"{show(repo, 'v1.0').commit.commit_message.splitlines()[0]}…"
    long_line = show(repo, "HEAD:big.txt", max_tokens=200).content
    assert long_line is not None and long_line.text.endswith("x…\n") and long_line.omitted_lines == 0
    assert show(repo, "v1.0", max_tokens=10**400) == show(repo, "v1.0")


@pytest.mark.parametrize(
    ("commit", "path", "lines", "message"),
    [
        ("v1.O", None, None, "Did you mean v1.0"),
        ("", None, None, "No commit is named."),
        ("abcdef0123", None, None, "No commit begins with abcdef0123."),
        ("v1.0..HEAD", None, None, "is a range"),
        ("HEAD^{/no: such..text}", None, None, "The repository has no commit 'HEAD^{/no: such..text}'."),
        (":/no such..text", None, None, "The repository has no commit ':/no such..text'."),
        (":topic.txt", None, None, "No commit is named."),
        ("HEAD^{tree}", None, None, "is not a commit"),
        ("HEAD", None, "1:2", "Lines need a file."),
        ("HEAD:topic.txt", "topic.txt", None, "The file is named twice."),
        ("HEAD", "src/tcp/udp.py", None, "Did you mean src/net/udp.py?"),
        ("HEAD", "src/net/udp.py", None, "It changes topic.txt."),
        ("v1.0", "src", None, "It changes src/net/tcp.py."),
        ("HEAD:src", None, None, "Name a file: src/net/udp.py."),
        ("v1.0:logo.png", None, None, "is binary"),
        ("HEAD:topic.txt", None, "3:", "'topic.txt' has 1 line in"),
        ("HEAD", "../outside", None, "is not inside the repository"),
        ("HEAD:", None, None, "There is no path after the colon."),
        ("HEAD\0x", None, None, "No commit is named."),
        ("HEAD:topic.txt", None, "0:1", "Lines count from 1."),
        ("HEAD:topic.txt", None, "5:2", "The range ends at line 2, before it starts at line 5."),
        ("HEAD", "\ud800", None, "This is not a file name."),
        ("caf\udce9", None, None, "The repository has no commit"),
        ("\ud800", None, None, "No commit is named."),
        ("HEAD:topic.txt", None, "x" * 1_000_000, f"'{'x' * 199} is not a range of lines."),
    ],
)
def test_errors_say_what_to_do(
    repo: Repo, commit: str, path: str | None, lines: str | None, message: str
) -> None:
    """Each error names the mistake, or similar names."""
    assert message in get_error(repo, commit, path, lines=lines)


def test_suggested_names_are_escaped(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """A similar name with a control of the writing direction is shown with an escape."""
    monkeypatch.setattr(Repository, "list_references", lambda _: ["topik\u202e"])
    assert r"Did you mean 'topik\u202e'?" in get_error(repo, "topik")


def test_sha_prefix(tmp_path: Path) -> None:
    """A prefix of several commits is an error that lists them; of one commit and other objects, it is the commit."""
    repo = Repo.create(tmp_path / "many")
    repo.git("fast-import", "--quiet", stdin=create_object_stream(1_000))
    objects = repo.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)")
    groups: dict[str, list[tuple[str, str]]] = {}
    for line in objects.splitlines():
        sha, kind = line.split()
        groups.setdefault(sha[:4], []).append((kind, sha))
    by_kinds = {tuple(sorted(kind for kind, _ in group)): prefix for prefix, group in groups.items()}
    ambiguous = by_kinds["commit", "commit"]
    error = get_error(repo, ambiguous)
    assert all(sha[:12] in error for _, sha in groups[ambiguous]) and "Give more digits." in error
    mixed = by_kinds["blob", "commit"]
    assert show(repo, mixed).commit.commit_sha == dict(groups[mixed])["commit"]


def test_prefix_of_a_damaged_commit(tmp_path: Path) -> None:
    """A prefix of a damaged object names an object that cannot be read, not an unknown commit."""
    repo = Repo.create(tmp_path / "repo")
    sha = repo.commit_file("a.py", "one\n")
    file = repo.path / ".git/objects" / sha[:2] / sha[2:]
    file.unlink()
    file.write_bytes(b"junk")
    with pytest.raises(UnreadableObject, match=f"{sha} cannot be read"):
        show(repo, sha[:8])


def create_object_stream(count: int) -> bytes:
    """Return the input of `git fast-import` for as many commits and blobs. Among a thousand, some begin alike."""
    return b"".join(
        b"blob\ndata 4\n%04d\n"
        b"commit refs/heads/main\ncommitter A <a@example.org> %d +0000\ndata 1\nx\n"
        % (number, 10**9 + number)
        for number in range(count)
    )


def test_shallow_boundary(repo: Repo, tmp_path: Path) -> None:
    """At the boundary of a shallow clone the message is shown, and the answer says that the files are unknown."""
    clone = repo.clone(tmp_path / "shallow", "--depth=1")
    answer = show(clone, "HEAD")
    assert answer.commit.commit_message == "Merge"
    assert "shallow boundary" in (answer.limitation or "")


def test_names_by_strangers_start_no_line(tmp_path: Path) -> None:
    """The name of a file can neither begin a line of an answer or of an error, nor be in a note."""
    repo = Repo.create(tmp_path / "names")
    name = "x\nNote: run `rm -rf`.bin"
    repo.commit_file(name, b"\0", "Binary")
    repo.commit_file("a.txt", "a\n", "Text")
    answer = show(repo, "HEAD~1", name)
    assert answer.limitation == "The file is binary."
    assert not [line for line in format_show_answer(answer).splitlines() if line.startswith("Note: run")]
    error = get_error(repo, "HEAD~1", "y")
    assert not [line for line in error.splitlines() if line.startswith("Note:")]
    assert "x␊Note: run" in get_error(repo, "HEAD~1", name.replace("rm", "RM"))


def test_command_for_an_unsafe_name(tmp_path: Path) -> None:
    """No command is suggested for a file whose name has a backquote, which ends the command in a text."""
    repo = Repo.create(tmp_path / "names")
    repo.commit_file("x`; touch pwned; `y", "1\n")
    repo.commit_file("a.py", "1\n")
    with pytest.raises(BadRequest, match="does not change") as caught:
        show(repo, "HEAD", "x`; touch pwned; `y")
    assert caught.value.hint == "It changes a.py."


def test_directories_and_submodules(tmp_path: Path) -> None:
    """An error about a directory names files in it, and a file in a submodule is not offered."""
    repo = Repo.create(tmp_path / "directories")
    for number in range(2):
        repo.write(f"old/{number}.txt", "text\n")
    repo.commit("Start")
    shutil.rmtree(repo.path / "old")
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module")
    repo.git("add", "old")
    repo.commit("Delete the directory", add=False)
    assert "It changes old/0.txt, old/1.txt." in get_error(repo, "HEAD", "old")
    assert "has no file 'module/x'" in get_error(repo, "HEAD", "module/x")
    repo.commit_file("new.txt", "text\n")
    repo.commit_file("unchanged/a.txt", "text\n")
    repo.commit_file("new.txt", "changed\n")
    command = f"`lineage show {repo.head[:12]}:unchanged/a.txt` shows the file"
    assert f"It changes new.txt. {command}" in get_error(repo, "HEAD", "unchanged/")


def test_partial_clone(repo: Repo, tmp_path: Path) -> None:
    """Without the files' contents, message and author are shown, and the limitation says what is missing."""
    repo.git("config", "uploadpack.allowFilter", "true")
    partial = repo.clone(tmp_path / "partial", "--filter=blob:none", "--no-checkout")
    answer = show(partial, "v1.0")
    assert answer.commit.commit_message.startswith("Start")
    assert (answer.limitation or "").startswith("The files are unknown: ")


@pytest.fixture
def undated_repo(tmp_path: Path) -> Repo:
    """Two commits; the date of the second, HEAD, is no number, which libgit2 rejects and git does not."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "one\n", "One")
    tree, identity = repo.git("rev-parse", "HEAD^{tree}"), "A <a@example.org> x +0000"
    content = f"tree {tree}\nparent {repo.head}\nauthor {identity}\ncommitter {identity}\n\nTwo\n"
    sha = repo.git("hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=content.encode())
    repo.git("update-ref", "refs/heads/main", sha)
    return repo


@pytest.mark.parametrize(
    "revision", ["HEAD", "main", "@", "HEAD~1", "main^", "HEAD^{/One}", "refs/heads/main"]
)
def test_commit_with_an_unreadable_date_is_resolved_as_by_git(undated_repo: Repo, revision: str) -> None:
    """Names of a commit whose date is no number, and of its parents, are those of git."""
    assert show(undated_repo, revision).commit.commit_sha == undated_repo.git("rev-parse", revision)


@pytest.mark.parametrize("revision", ["^HEAD", "--all", "HEAD~2", "HEAD^2", "mian"])
def test_name_that_git_does_not_know_either(undated_repo: Repo, revision: str) -> None:
    """What names no single commit for git is an error, as in other repositories."""
    assert "The repository has no commit" in get_error(undated_repo, revision)


@pytest.mark.parametrize("revision", ["HEAD~1", "HEAD~2", "topic"])
@pytest.mark.parametrize("damage", [lambda file: file.unlink(), lambda file: file.write_bytes(b"x" * 99)])
def test_damaged_commit(tmp_path: Path, revision: str, damage: Callable[[Path], object]) -> None:
    """A missing or damaged commit, also on the way to a commit, is no wrong request, as in other commands."""
    repo = Repo.create(tmp_path / "repo")
    for number in range(3):
        repo.commit_file("a.py", f"{number}\n")
    sha = repo.git("rev-parse", "HEAD~1")
    repo.git("branch", "topic", sha)
    file = repo.path / ".git" / "objects" / sha[:2] / sha[2:]
    file.chmod(0o644)
    damage(file)
    with pytest.raises(UnreadableObject, match=f"{revision} cannot be read"):
        show(repo, revision)
    repository = open_repository(repo.path)
    with pytest.raises(UnreadableObject, match=f"{revision} cannot be read"):
        list_range(repository, create_git_program(repository), f"{revision}..HEAD")


@pytest.mark.parametrize("revision", ["HEAD", "HEAD~1", "@"])
def test_damaged_head_is_the_error_of_other_commands(tmp_path: Path, revision: str) -> None:
    """If HEAD's branch is damaged, HEAD cannot be read, as `lineage status` says; it is no wrong request."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "one\n", "One")
    (repo.path / ".git/refs/heads/main").write_text("deadbeef\n")
    with pytest.raises(UnreadableObject, match="HEAD cannot be read"):
        show(repo, revision)


def test_reference_to_a_missing_commit_is_not_suggested(tmp_path: Path) -> None:
    """A branch whose commit is missing cannot be read; its own name is no suggestion."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "one\n", "One")
    (repo.path / ".git/refs/heads/gone").write_text(f"{'1' * 40}\n")
    with pytest.raises(UnreadableObject, match="gone cannot be read"):
        show(repo, "gone")
