"""Summaries of ranges: the commits of git, directories, and candidates for release notes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pipeline.git import commit_graph
from pipeline.git.errors import DamagedRepository
from pipeline.git.ranges import RangeCommit, read_commits
from pipeline.git.repository import open_repository
from serve.analysis.range_summary import (
    ClassifiedCommit,
    LogAnswer,
    count_directories,
    find_release_notes,
    summarize_range,
)
from serve.errors import BadRequest
from serve.references import parse_references, remove_squash_suffix
from tests.repos import FIRST_DATE, Repo
from tests.serve.commands import run_captured

GRACE = "Grace Hopper <grace@navy.example>"


def build_commit(
    sha: str, message: str = "Add x", *paths: str, parents: str = "", author: str = "Ada"
) -> ClassifiedCommit:
    """Return a commit; `parents`: separated by spaces."""
    commit = RangeCommit(
        sha, tuple(parents.split()), author, f"{author}@example.org", FIRST_DATE, message, paths
    )
    return ClassifiedCommit(commit, parse_references(message))


def list_notes(*commits: ClassifiedCommit) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(note.kind, note.title, note.commits) for note in find_release_notes(commits)]


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    """A release with files that git could list in another way than expected, and a merge."""
    repo = Repo.create(tmp_path_factory.mktemp("log") / "repo")
    repo.commit_file("src/a.py", "a = 1\n" * 20, "Add a")
    repo.git("tag", "v1")
    repo.rename("src/a.py", "src/ü\n.py")
    repo.commit("Rename a\n\nwith a body\n")
    repo.write(b"src/\xff.py", "b = 1\n")
    repo.commit("Fix b (#12)\n\nFixes #11", author=GRACE)
    repo.commit("Nothing")
    repo.branch("topic")
    repo.write("docs/guide.md", "guide\n")
    repo.commit("")
    repo.switch("main")
    repo.merge("topic")
    return repo


def summarize(repo: Repo, text: str, limit: int = 50) -> LogAnswer:
    return summarize_range(text, repo.path, repo.path / "no-home", limit=limit)


def test_commits_and_files_are_those_of_git(repo: Repo) -> None:
    """Renames, line breaks and bytes in names, empty commits and merges are read as git has them."""
    repository = open_repository(repo.path)
    shas = repo.git("rev-list", "HEAD").split()
    commits, _ = read_commits(repository, commit_graph.create_git_program(repository), shas)
    assert [commit.sha for commit in commits] == shas
    assert [commit.message.partition("\n")[0] for commit in commits] == [
        *("Merge", "", "Nothing", "Fix b (#12)", "Rename a", "Add a")
    ]
    assert [commit.paths for commit in commits] == [
        *((), ("docs/guide.md",), (), ("src/\\xff.py",), ("src/a.py", "src/ü\n.py"), ("src/a.py",))
    ]
    assert commits[0].parents == tuple(repo.git("rev-parse", "HEAD^1", "HEAD^2").split())
    assert commits[3].author_email == "grace@navy.example"


def test_summary(repo: Repo) -> None:
    """All commits of the range are counted; lists are shortened to the limit."""
    answer = summarize(repo, "v1..")
    assert answer.commits == len(repo.git("rev-list", "v1..").split()) == sum(g.count for g in answer.kinds)
    assert (answer.authors, answer.first_date, answer.last_date) == (
        *(2, "2020-01-01T14:00:00Z", "2020-01-01T18:00:00Z"),
    )
    assert {group.kind: group.count for group in answer.kinds} == {
        "fix": 1,
        "refactoring": 1,
        "documentation": 1,
        "merge": 1,
        "other": 1,
    }
    assert [(directory.path, directory.commits) for directory in answer.directories] == [
        *(("src/", 2), ("docs/", 1))
    ]
    assert [(note.title, note.references, note.author) for note in answer.release_notes] == [
        ("Fix b", ("#12", "#11"), "Grace Hopper")
    ]
    assert answer.limitation is None


def test_limit(repo: Repo) -> None:
    """The limit shortens lists, not counts. It is at least one."""
    answer = summarize(repo, "HEAD", limit=1)
    assert answer.release_note_count == 2
    assert len(answer.release_notes) == 1
    with pytest.raises(BadRequest, match="less than 1"):
        summarize(repo, "HEAD", limit=0)


def test_empty_and_unknown_ranges(repo: Repo) -> None:
    """An empty range has no commits and no dates; an unknown revision is an error with a similar name."""
    answer = summarize(repo, "main..topic")
    assert (answer.commits, answer.first_date, answer.kinds, answer.directories) == (0, None, (), ())
    with pytest.raises(BadRequest) as error:
        summarize(repo, "v1..topik")
    assert error.value.hint.startswith("Did you mean topic?")


def test_shallow_boundary(repo: Repo, tmp_path: Path) -> None:
    """The oldest commit of a shallow clone has no files, as its parent is unknown."""
    clone = repo.clone(tmp_path / "clone", "--depth=3")
    assert [directory.path for directory in summarize(clone, "HEAD").directories] == ["docs/"]


def test_damaged_index_of_git(repo: Repo, tmp_path: Path) -> None:
    """The file `.git/index`, which has no part in the history, may be damaged."""
    copy = repo.clone(tmp_path / "copy")
    expected = summarize(copy, "HEAD")
    (copy.path / ".git" / "index").write_text("junk")
    assert summarize(copy, "HEAD") == expected


def test_missing_objects(repo: Repo, tmp_path: Path) -> None:
    """Commits that git cannot read are counted, and the answer says so; the JSON has a command for the repository."""
    copy = repo.clone(tmp_path / "copy", "--branch=main")
    copy.git("unpack-objects", "-q", stdin=_take_packs(copy))
    tree = copy.git("rev-parse", "v1^{tree}")
    (copy.path / ".git/objects" / tree[:2] / tree[2:]).unlink()
    answer = summarize(copy, "HEAD")
    child, first = copy.git("rev-parse", "HEAD~3", "v1").split()
    assert answer.commits == 6
    assert answer.limitation == (
        f"2 commits could not be read and are left out: {child[:12]} (object {tree} is missing), and others. "
        "To see the damage, run `git fsck`."
    )
    assert sum(group.count for group in answer.kinds) == 4
    code, output, _ = run_captured("log", "HEAD", copy.path, "--json")
    assert code == 0
    assert json.loads(output)["limitation"].endswith(f"run `git -C {copy.path} fsck`.")
    code, output, error = run_captured("log", "v1", copy.path)
    assert (code, output) == (1, "")
    assert f"None of 1 commits could be read: {first[:12]} (object {tree} is missing)." in error
    assert f"run `git -C {copy.path} fsck`." in error


@pytest.mark.parametrize("damage", ["missing", "damaged"])
@pytest.mark.parametrize(
    ("revision", "left_out"),
    [("HEAD~3^{tree}", 2), ("HEAD~3:lib", 2), ("HEAD~3", 2), ("HEAD~3:lib/3.py", 0)],
    ids=["tree", "directory", "commit", "file"],
)
def test_older_commits_than_an_unreadable_one(
    tmp_path: Path, revision: str, left_out: int, damage: str
) -> None:
    """Only the commits whose change needs the object are left out; of a lost commit, also those before it."""
    repo = Repo.create(tmp_path / "repo")
    for number in range(7):
        repo.commit_file(f"lib/{number}.py", f"a = {number}\n", f"Add {number}")
    sha = repo.git("rev-parse", revision)
    file = repo.path / ".git/objects" / sha[:2] / sha[2:]
    file.unlink()
    if damage == "damaged":
        file.write_bytes(b"junk")
    answer = summarize(repo, "HEAD")
    is_commit = revision == "HEAD~3"
    subjects = [f"Add {number}" for number in reversed(range(7)) if number not in (3, 4)]
    if not left_out:
        assert (answer.commits, answer.limitation) == (7, None)
        return
    shown = [commit.commit_subject for group in answer.kinds for commit in group.commits]
    assert shown == (subjects[:2] if is_commit else subjects)
    assert answer.limitation and answer.limitation.startswith(f"{left_out} commits could not be read")
    assert ("that only an unreadable commit reaches" in answer.limitation) == is_commit
    assert summarize(repo, "HEAD~2..").limitation is None


def test_partial_clone(tmp_path: Path) -> None:
    """In a clone without directories, the remedy is to fetch them."""
    origin = Repo.create(tmp_path / "origin")
    for number in range(3):
        origin.commit_file("a.py", f"a = {number}\n")
    origin.git("config", "uploadpack.allowFilter", "true")
    clone = origin.clone(tmp_path / "clone", "--filter=tree:0", "--no-checkout")
    code, _, error = run_captured("log", "HEAD", clone.path)
    assert code == 1
    assert "None of 3 commits could be read" in error and "fetch --refetch --no-filter`" in error


def _take_packs(repo: Repo) -> bytes:
    """Move the packs of a repository away and return the content of the only one."""
    [pack] = (repo.path / ".git/objects/pack").glob("*.pack")
    content = pack.read_bytes()
    pack.unlink()
    return content


def test_large_and_single_directories_are_divided() -> None:
    """A directory with most of the commits, or with one subdirectory only, is divided; files beside it count alone."""
    counts = count_directories(
        [
            build_commit("1", "Add x", "src/app/net/a.py", "src/app/main.py"),
            build_commit("2", "Fix x", "src/app/net/a.py"),
            build_commit("3", "Fix x", "src/app/gui/b.py", "setup.py"),
            build_commit("4", "Fix x", "docs/pages/en/a.md"),
            build_commit("5", "Merge"),
        ]
    )
    assert {count.path: (count.commits, count.kinds) for count in counts} == {
        "src/app/net/": (2, {"feature": 1, "fix": 1}),
        "src/app/": (1, {"feature": 1}),
        "src/app/gui/": (1, {"fix": 1}),
        "docs/pages/en/": (1, {"documentation": 1}),
        "": (1, {"fix": 1}),
    }
    assert counts[0].path == "src/app/net/"


def test_pull_request_is_one_note() -> None:
    """A merged pull request is one note, with its title, the commits that it brought and their references."""
    merge = "Merge pull request #7 from ada/x\n\nAdd an option"
    notes = list(
        find_release_notes(
            [
                build_commit("m", merge, parents="a c"),
                build_commit("c", "Fix a test", "tests/test_a.py", parents="b", author="Bob"),
                build_commit("b", "Add x\n\nFixes #3", "a.py", parents="a", author="Bob"),
                build_commit("a", "Add y", "a.py"),
            ]
        )
    )
    assert [(note.title, set(note.commits), note.references, note.author) for note in notes] == [
        ("Add an option", {"m", "b", "c"}, ("#7", "#3"), "Bob"),
        ("Add y", {"a"}, (), "Ada"),
    ]
    assert notes[0].commits[0] == "m"


def test_pull_request_into_another_branch() -> None:
    """A pull request that reached the range through another branch is one note, too."""
    assert list_notes(
        build_commit("m", "Merge branch '2.x'", parents="a p"),
        build_commit("p", "Merge pull request #7 from ada/x\n\nAdd an option", parents="b c"),
        build_commit("c", "Add x", "a.py", parents="b"),
        build_commit("b", "Fix y", "a.py", parents="a"),
        build_commit("a", "Whatever", "a.py"),
    ) == [("feature", "Add an option", ("p", "c")), ("fix", "Fix y", ("b",))]


def test_pull_request_with_a_vague_title() -> None:
    """If the title of a pull request tells no kind, its commits do; without a noticed one there is no note."""
    merge = "Merge pull request #7 from ada/x\n\nSessions"
    for subject, notes in (("fix: a leak", [("fix", "Sessions", ("m", "b"))]), ("docs: x", [])):
        commits = (build_commit("m", merge, parents="a b"), build_commit("b", subject, "a.py", parents="a"))
        assert list_notes(*commits) == notes


def test_commit_and_its_revert_cancel_out() -> None:
    """A commit that is reverted within the range is no note, nor is the revert; a revert of older commits is one."""
    full = "b" * 40
    added = build_commit(full, "Add x", "a.py")
    revert = build_commit("c" * 40, f'Revert "Add x"\n\nThis reverts commit {full[:12]}.', "a.py")
    again = build_commit("d" * 40, f'Revert "Revert"\n\nThis reverts commit {"c" * 40}.', "a.py")
    assert list_notes(revert, added) == []
    assert [kind for kind, *_ in list_notes(revert)] == ["revert"]
    assert list_notes(again, revert, added) == [("feature", "Add x", (full,))]


def test_ambiguous_revert_cancels_nothing() -> None:
    """A revert of an abbreviated sha that two commits of the range have cancels neither."""
    one, other = (build_commit("b" * 20 + end * 20, f"Add {end}", "a.py") for end in "13")
    revert = build_commit("c" * 40, f'Revert "Add 3"\n\nThis reverts commit {"b" * 12}.', "a.py")
    assert list_notes(revert, other, one) == [
        ("feature", "Add 3", (other.sha,)),
        ("feature", "Add 1", (one.sha,)),
        ("revert", 'Revert "Add 3"', ("c" * 40,)),
    ]


def test_revert_of_commits_within_and_before_the_range() -> None:
    """A commit that also reverts one before the range is a note; the one within the range is none."""
    inside, before = "b" * 40, "e" * 40
    added = build_commit(inside, "Add x", "a.py")
    message = f"Revert two\n\nThis reverts commit {inside}.\nThis reverts commit {before}."
    revert = build_commit("c" * 40, message, "a.py")
    assert list_notes(revert, added) == [("revert", "Revert two", ("c" * 40,))]


def test_reverted_commit_of_a_pull_request() -> None:
    """The note of a pull request has the commits that it keeps, with their authors and references."""
    reverted = build_commit("b" * 40, "Add y (#3)", "b.py", parents="a", author="Bob")
    revert = build_commit("c" * 40, f"Revert it\n\nThis reverts commit {'b' * 40}.", "b.py", parents="b" * 40)
    kept = build_commit("d" * 40, "Add x (#4)", "a.py", parents="c" * 40)
    merge = build_commit("e", "Merge pull request #7 from ada/x\n\nAdd x", parents=f"a {'d' * 40}")
    (note,) = find_release_notes([merge, kept, revert, reverted])
    assert (note.commits, note.author, note.references) == (("e", "d" * 40), "Ada", ("#7", "#4"))


def test_reverted_pull_request() -> None:
    """A pull request that reverts one cancels out with it, and one that reverts that revert brings it back."""
    title = "Merge pull request #{} from ada/x\n\n{}"
    option = build_commit("b" * 40, title.format(1, "Add an option"), parents="a c")
    added = build_commit("c", "Add x", "a.py", parents="a")
    message = "Revert it\n\nThis reverts commit {}."
    revert = build_commit("d" * 40, title.format(2, "Revert it"), parents=f"{'b' * 40} e")
    reverted = build_commit("e", message.format("b" * 40), "a.py", parents="b" * 40)
    assert list_notes(revert, reverted, option, added) == []
    again = build_commit("f" * 40, title.format(3, "Add it again"), parents=f"{'d' * 40} g")
    brought_again = build_commit("g", message.format("d" * 40), "a.py", parents="d" * 40)
    assert list_notes(again, brought_again, revert, reverted, option, added) == [
        ("feature", "Add an option", ("b" * 40, "c"))
    ]


def test_breaking_commit_of_a_pull_request() -> None:
    """A pull request with a breaking commit is a breaking change, whatever its title says."""
    for title in ("Add an option", "Refactor x", "Sessions"):
        [note] = find_release_notes(
            [
                build_commit("m", f"Merge pull request #7 from ada/x\n\n{title}", parents="a b"),
                build_commit("b", "fix!: x", "a.py", parents="a"),
            ]
        )
        assert (note.title, note.is_breaking) == (title, True)


def test_pull_request_that_several_tips_reach() -> None:
    """Commits of a pull request are counted once if several tips, or several parents of a merge, reach it."""
    branch = [str(number) for number in range(9)]
    commits = [
        build_commit("m", "Merge pull request #7 from ada/x\n\nAdd an option", parents=f"a {branch[0]}"),
        *(
            build_commit(sha, "Add x", "a.py", parents=parent, author=f"Author {sha}")
            for sha, parent in zip(branch, [*branch[1:], "a"], strict=True)
        ),
    ]
    tips = [build_commit("t", "Whatever", parents="m"), build_commit("s", "Whatever", parents="m")]
    octopus = build_commit("o", "Merge branches", parents="z t s")
    for others in (tips, [octopus, *tips]):
        [note] = find_release_notes([*others, *commits])
        assert (note.author, note.commits) == ("Author 0", ("m", *branch))


def test_breaking_changes_come_first() -> None:
    """Notes are ordered by breaking changes, kind, and then as the commits are."""
    notes = list_notes(
        build_commit("1", "fix: one", "a.py"),
        build_commit("2", "feat: two", "a.py"),
        build_commit("3", "refactor!: three", "a.py"),
        build_commit("4", "feat: four", "a.py"),
    )
    assert [title for _, title, _ in notes] == ["three", "two", "four", "one"]


def test_squash_suffix() -> None:
    """The numbers that GitHub adds are cut from a title, but not a number that is all of it."""
    assert remove_squash_suffix("Fix x (#12) (#13)") == "Fix x"
    assert remove_squash_suffix("Fix #12") == "Fix #12"
    assert remove_squash_suffix(" (#12)") == " (#12)"


def test_pipe_in_place_of_the_mailmap(tmp_path: Path) -> None:
    """A pipe, for which git would wait forever, is an error that names it."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "a = 1\n")
    os.mkfifo(repo.path / ".mailmap")
    with pytest.raises(DamagedRepository, match=r"\.mailmap is no regular file"):
        summarize_range("HEAD", repo.path, tmp_path, limit=5)
