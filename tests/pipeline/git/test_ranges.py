"""Ranges of commits: the same commits as in git, and clear errors for texts that are no range."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.directory_stats import read_history_changes
from pipeline.git import commit_graph
from pipeline.git.attributes import MAX_PATTERN_CHARACTERS
from pipeline.git.errors import UnreadableObject
from pipeline.git.git_cli import GitProgram
from pipeline.git.ranges import (
    BadRange,
    check_damage,
    list_positive_revisions,
    list_range,
    list_range_outside,
    list_ref_commits,
    list_unreadable_refs,
    read_commits,
)
from pipeline.git.repository import open_repository
from tests.repos import Repo


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    """Two branches with a merge between them, a tag, and a file that is named like a branch."""
    repo = Repo.create(tmp_path_factory.mktemp("ranges") / "repo")
    repo.commit_file("topic", "a file named like a branch\n")
    repo.commit_file("a.py", "a = 1\n")
    repo.git("tag", "--annotate", "v1.2", "--message=1.2")
    repo.branch("topic")
    repo.commit_file("b.py", "b = 1\n")
    repo.branch("feature/x")
    repo.commit_file("c.py", "c = 1\n")
    repo.switch("main")
    repo.commit_file("a.py", "a = 2\n")
    repo.merge("topic")
    repo.commit_file("a.py", "a = 3\n")
    return repo


def write_tree_with_empty_name(repo: Repo) -> str:
    blob = repo.git("hash-object", "-w", "--stdin")
    entry = b"100644 \0" + bytes.fromhex(blob)
    return repo.git("hash-object", "-t", "tree", "-w", "--stdin", "--literally", stdin=entry)


def resolve(repo: Repo, text: str) -> tuple[str, ...]:
    repository = open_repository(repo.path)
    return list_range(repository, commit_graph.create_git_program(repository), text)


@pytest.mark.parametrize(
    "text",
    [
        *("main..feature/x", "topic..main", "main...feature/x", "v1.2..", "..feature/x", "^topic main"),
        *("topic", "v1.2", "HEAD~2", "HEAD^@", "feature/x^!", "main feature/x ^v1.2", "main..main", ":/a.py"),
    ],
)
def test_same_commits_as_git(repo: Repo, text: str) -> None:
    """Every form of range gives git's commits in git's order, even if a file is named like the branch."""
    expected = repo.git("rev-list", *text.split(), "--").split()
    assert list(resolve(repo, text)) == expected
    assert expected or text == "main..main"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("main..topik", "The repository has no commit 'topik'.", "Did you mean topic?"),
        ("featur/x", "The repository has no commit 'featur/x'.", "Did you mean feature/x?"),
        ("^nothing main", "The repository has no commit 'nothing'.", "Give a range as for `git log`"),
        ("", "The range is empty.", "Give a range"),
        ("main..\0", "The range contains a NUL character.", "Give a range"),
        ("--all", "'--all' is not a revision.", "Give a range"),
        ("main --output=x", "'--output=x' is not a revision.", "Give a range"),
        ("\ud800", "'\\ud800' is not valid Unicode.", "Give a range"),
        ("main..\x1b\u202e", r"The repository has no commit '\x1b\u202e'.", "Give a range"),
        ("main -- a.py", "'--' is not a revision.", "Give a range"),
        ("topic .. main", "'topic .. main' names no commit before or after '..'.", "Give a range"),
        ("topic ...  main", "'topic ...  main' names no commit before or after '...'.", "Give a range"),
        ("..", "'..' names no commit before or after '..'.", "Give a range"),
        ("topic.. main", "'topic.. main' has a space before or after the dots.", "Give a range"),
        ("topic ...main", "'topic ...main' has a space before or after the dots.", "Give a range"),
    ],
)
def test_bad_range(repo: Repo, text: str, message: str, hint: str) -> None:
    """The error for an unknown revision suggests similar names. Options and paths are refused before git runs."""
    with pytest.raises(BadRange) as error:
        resolve(repo, text)
    assert error.value.message == message
    assert error.value.hint.startswith(hint)


def test_errors_are_escaped(tmp_path: Path) -> None:
    """Errors escape bidirectional controls in names that git or a suggestion repeats."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "a = 1\n")
    repo.git("tag", "tree\u202e", "HEAD^{tree}")
    for text, is_similar in (("tree\u202e...HEAD", False), ("tree..HEAD", True)):
        with pytest.raises(BadRange) as error:
            resolve(repo, text)
        assert ("\\u202e" in error.value.hint) == is_similar
        assert error.value.message.isprintable() and error.value.hint.isprintable()


def test_spaces_between_braces(tmp_path: Path) -> None:
    """A revision may have spaces between braces."""
    repo = Repo.create(tmp_path / "repo")
    change = repo.commit("A change  of a")
    repo.commit("Later")
    text = "HEAD^{/change  of} ^main@{1 week ago}^{/none at all}"
    assert resolve(repo, "HEAD^{/change  of}") == (change,)
    assert resolve(repo, "main@{1 second ago}..HEAD^{/change  of}") == ()
    assert list_positive_revisions(text) == ["HEAD^{/change  of}"]


def test_dots_between_braces(repo: Repo) -> None:
    """Dots in the pattern of a message separate no revisions, neither in the names nor in an error."""
    assert list_positive_revisions("HEAD^{/fix a..b} v1..HEAD^{/a...b} v2...HEAD^{/a..b}") == [
        *("HEAD^{/fix a..b}", "HEAD^{/a...b}", "v2", "HEAD^{/a..b}")
    ]
    with pytest.raises(BadRange, match=re.escape("The repository has no commit 'HEAD^{/fix a..b}'.")):
        resolve(repo, "HEAD^{/fix a..b}")


def test_more_tips_than_a_command_line_has(repo: Repo) -> None:
    """Thousands of indexed tips do not exceed the length of a command line."""
    git = commit_graph.create_git_program(open_repository(repo.path))
    tips = [repo.git("rev-parse", "HEAD")] * 60_000
    assert list_range(open_repository(repo.path), git, "HEAD", tips) == ()


def test_message_that_looks_like_the_next_commit(tmp_path: Path) -> None:
    """A message or file name that looks like the start of the next commit in git's output belongs to its own commit."""
    repo = Repo.create(tmp_path / "repo")
    parent = repo.commit_file("a.py", "a = 1\n", "Add a")
    text = f"\x01{parent}"
    repo.write(text, "b = 1\n")
    head = repo.commit("Temporary")
    tree = repo.git("rev-parse", "HEAD^{tree}")
    head = repo.git("commit-tree", tree, "-p", parent, stdin=text.encode())
    repository = open_repository(repo.path)
    commits, _ = read_commits(repository, commit_graph.create_git_program(repository), [head, parent])
    assert [(commit.sha, commit.message, commit.paths) for commit in commits] == [
        (head, text, (text,)),
        (parent, "Add a", ("a.py",)),
    ]


def test_commits_after_trees_that_only_git_refuses(tmp_path: Path) -> None:
    """Of commits with an empty file name, only they and their children are left out, merges included."""
    repo = Repo.create(tmp_path / "repo")
    for number in range(3):
        repo.commit_file(f"{number}.py", "a = 1\n")
        bad_tree = write_tree_with_empty_name(repo)
        bad = repo.git("commit-tree", "-p", "HEAD", bad_tree, stdin=b"Bad")
        repo.git("reset", "--quiet", repo.git("commit-tree", "-p", bad, "HEAD^{tree}", stdin=b"Repair"))
    last = repo.commit_file("last.py", "a = 1\n")
    repository = open_repository(repo.path)
    shas = repo.git("rev-list", "HEAD").split()
    commits, errors = read_commits(repository, commit_graph.create_git_program(repository), shas)
    assert [error.reason for error in errors] == ["git cannot read it"] * 6
    assert [commit.paths for commit in commits] == [("last.py",), ("2.py",), ("1.py",), ("0.py",)]
    assert commits[0].sha == last
    assert read_history_changes(repository, last).readable_commits == 4


@pytest.mark.parametrize(
    ("seconds", "year"), [("9" * 5_000, 1970), ("253402300800", 9999), ("1600000000", 2020)]
)
def test_date_of_any_length(tmp_path: Path, seconds: str, year: int) -> None:
    """A date with thousands of digits, which git prints unchanged and Python cannot convert, is no error."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "a = 1\n", "Add a")
    tree = repo.git("rev-parse", "HEAD^{tree}")
    text = f"tree {tree}\nauthor A <a> 0 +0000\ncommitter A <a> {seconds} +0000\n\nOdd\n"
    sha = repo.git("hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=text.encode())
    repository = open_repository(repo.path)
    ((commit,), _) = read_commits(repository, commit_graph.create_git_program(repository), [sha])
    assert (commit.message, commit.date.year) == ("Odd", year)


def test_commits_outside_of_tips(repo: Repo) -> None:
    """Commits that a tip reaches are left out; tips that the repository lacks do not count."""
    repository = open_repository(repo.path)
    git = commit_graph.create_git_program(repository)
    outside = list_range_outside(
        repository, git, "v1.2..feature/x", [repo.git("rev-parse", "topic"), None, "0" * 40]
    )
    assert outside == {repo.git("rev-parse", "feature/x")}


@pytest.mark.parametrize(
    "pattern", ["topic", "feature", "feature/*", "f*/x", "v1.*", "refs/heads", "refs/tags/v1.2", "x", "*"]
)
def test_tips_of_branches(repo: Repo, pattern: str) -> None:
    """A pattern selects the commits of the branches and tags that `git for-each-ref` lists, even of annotated tags."""
    repository = open_repository(repo.path)
    folders = [""] if pattern.startswith("refs/") else ["refs/heads/", "refs/remotes/", "refs/tags/"]
    names = repo.git("for-each-ref", "--format=%(refname)", *(folder + pattern for folder in folders)).split()
    tips = list_ref_commits(repository, commit_graph.create_git_program(repository), [pattern])
    assert tips == list(dict.fromkeys(repo.git("rev-parse", f"{name}^{{commit}}") for name in names))
    assert bool(tips) == (pattern != "x")


def test_exponential_branch_pattern(repo: Repo) -> None:
    """A pattern for which git takes exponential time is matched at once."""
    branch = "a" * 200
    repo.branch(branch)
    repository = open_repository(repo.path)
    git = replace(commit_graph.create_git_program(repository), timeout_seconds=10)
    assert list_ref_commits(repository, git, ["refs/heads/" + "*a" * 12 + "b/z", "*a" * 12 + "b"]) == []
    assert list_ref_commits(repository, git, ["*a" * 12]) == [repo.git("rev-parse", branch)]


@pytest.mark.parametrize("character", ["?", "[", "*", "[!a]", "**/", "\udcff"])
def test_length_of_branch_pattern(repo: Repo, character: str) -> None:
    """A pattern of the greatest length is matched, and a longer one is an error."""
    repository = open_repository(repo.path)
    git = commit_graph.create_git_program(repository)
    pattern = character * (MAX_PATTERN_CHARACTERS // len(character))
    list_ref_commits(repository, git, [pattern])
    with pytest.raises(BadRange, match="at most 4,096"):
        list_ref_commits(repository, git, [f"{pattern}aa"])


def test_refs_without_a_commit(tmp_path: Path) -> None:
    """A tag of a tree, and a branch whose commit is missing, have no tip. Without patterns there are no tips."""
    repo = Repo.create(tmp_path / "repo")
    head = repo.commit_file("a.py", "a = 1\n")
    repo.git("tag", "tree", "HEAD^{tree}")
    (repo.path / ".git/refs/heads/broken").write_text(f"{'1' * 40}\n", encoding="ascii")
    repository = open_repository(repo.path)
    git = commit_graph.create_git_program(repository)
    assert list_ref_commits(repository, git, ["refs/heads", "refs/tags"]) == [head]
    assert list_ref_commits(repository, git, []) == []


def test_names_of_unreadable_refs(tmp_path: Path) -> None:
    """Branches and annotated tags without their commit are named, but not a tag of a tree."""
    repo = Repo.create(tmp_path / "repo")
    lost = repo.commit_file("a.py", "a = 1\n")
    repo.git("tag", "-a", "-m", "Lost", "lost")
    repo.git("checkout", "-q", "--orphan", "other")
    repo.commit_file("b.py", "b = 1\n")
    repo.git("tag", "tree", "HEAD^{tree}")
    (repo.path / ".git/objects" / lost[:2] / lost[2:]).unlink()
    repository = open_repository(repo.path)
    git = commit_graph.create_git_program(repository)
    names = list_unreadable_refs(repository, git, ["refs/heads", "refs/tags"])
    assert names == ["refs/heads/main", "refs/tags/lost"]


def test_unreadable_refs(tmp_path: Path) -> None:
    """If git cannot list the refs, that is an error, and not a repository without branches."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit("First")
    (repo.path / ".git/packed-refs").write_text("no reference\n", encoding="ascii")
    repository = open_repository(repo.path)
    with pytest.raises(UnreadableObject, match=r"the references cannot be read: fatal: .*packed-refs"):
        list_ref_commits(repository, commit_graph.create_git_program(repository), ["refs/heads"])


def test_positive_revisions() -> None:
    """The revisions whose commits a range includes are listed, and HEAD for an omitted one."""
    assert list_positive_revisions("main..topic") == ["topic"]
    assert list_positive_revisions("v1...v2 ^v3 ..v4 v5..") == ["v1", "v2", "v4", "HEAD"]


@pytest.mark.parametrize("revision", ["main", "main:a.py", "main^{tree}", "missing", "main~99"])
def test_intact_revision_is_no_damage(tmp_path: Path, revision: str) -> None:
    """A revision that names an intact object of any kind, or nothing, is not reported as damaged."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "x = 1\n")
    check_damage(commit_graph.create_git_program(open_repository(repo.path)), revision)


@pytest.mark.parametrize("text", ["topic..main", "main ^topic", "topic...main"])
def test_range_from_a_missing_commit(tmp_path: Path, text: str) -> None:
    """A range is refused if a commit that it names is missing, because its other commits are then unknown."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "x = 1\n")
    repo.branch("topic")
    topic = repo.commit_file("topic.py", "x = 1\n")
    repo.switch("main")
    repo.commit_file("main.py", "x = 1\n")
    (repo.path / ".git/objects" / topic[:2] / topic[2:]).unlink()
    repository = open_repository(repo.path)
    with pytest.raises(UnreadableObject, match="topic cannot be read"):
        list_range(repository, commit_graph.create_git_program(repository), text)


def test_branches_are_listed_by_directory(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """git lists only the refs below the directory that a pattern names, not thousands of others."""
    arguments: list[str] = []
    run = GitProgram.run

    def record(program: GitProgram, *words: str, stdin: bytes | None = None) -> object:
        arguments.extend(words)
        return run(program, *words, stdin=stdin)

    monkeypatch.setattr(GitProgram, "run", record)
    repository = open_repository(repo.path)
    git = commit_graph.create_git_program(repository)
    patterns = ["refs/heads/feature/v*.x", "refs/changes/0[12]/3", "refs/heads/main", r"refs/x/a\*b"]
    list_ref_commits(repository, git, patterns)
    assert arguments[-4:] == ["refs/heads/feature", "refs/changes", "refs/heads/main", "refs/x"]
