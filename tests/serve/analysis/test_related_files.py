"""Files that change together, owners and hot spots, compared with git's own log and blame."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import timedelta
from pathlib import Path

import pytest

from pipeline.git.git_cli import GitTimeout
from pipeline.git.repository import Repository
from serve.analysis import metrics, owners
from serve.analysis.owners import Author, RecentCommit
from serve.analysis.related_files import UnknownFile, find_related_files
from serve.errors import BadRequest
from serve.explain.blame import BlameFailure, RunningBlame
from serve.explain.target import Target
from serve.related_types import Bot, Owner, RecentAuthor, RelatedAnswer, RelatedRequest
from stores.database import NotIndexed
from tests.repos import Repo
from tests.serve.commands import run_index
from tests.serve.sample_index import build_index

EVE = "Eve Adams <eve@example.org>"
BOT = "dependabot[bot] <49699333+dependabot[bot]@users.noreply.github.com>"
APP = """\
class App:
    def run(self):
        return {run}

    def stop(self):
        return {stop}


def create():
    return App()
"""
Find = Callable[..., RelatedAnswer]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    """Repository of a year and a half: an application, its test, a changelog that all commits change, a bulk change."""
    repo = Repo.create(tmp_path_factory.mktemp("history") / "repo")
    (repo.path / ".mailmap").write_text(f"{EVE} <EVE@Old.example>\n")
    for number in range(6):  # a year before the others
        repo.write("old.py", APP.format(run=number, stop=0))
        repo.write("tests/test_app.py", f"assert run() == {number}\n")
        write_changes(repo, number)
        repo.commit(f"Fix run {number}" if number % 3 == 2 else f"Run {number}")
    for number in range(6, 12):
        repo.write("docs/guide.md", f"# Guide {number}\n")
        if number % 2:
            write_changes(repo, number)
        repo.commit(f"Describe {number}")
    (repo.path / "src").mkdir()
    repo.rename("old.py", "src/app.py")
    repo.commit("Move", date=repo.clock + timedelta(days=400))
    for number in range(12, 15):
        repo.write("src/app.py", APP.format(run=number, stop=number))
        repo.write("tests/test_app.py", f"assert run() == {number}\n")
        write_changes(repo, number)
        repo.commit(f"Stop {number}", author="eve <eve@old.EXAMPLE>")
    repo.write("src/app.py", APP.format(run=20, stop=14))
    repo.write("src/lines.txt", "one\ntwo\n")
    repo.commit("Bump", author=BOT)
    for number in range(metrics.MAX_FILES_PER_COMMIT):
        repo.write(f"data/{number}.txt", "x\n")
    repo.write("src/app.py", APP.format(run=20, stop=14) + "\n\nX = 1\n")
    repo.commit("Import")
    return repo


def write_changes(repo: Repo, number: int) -> None:
    """Add a line to the changelog."""
    repo.write("CHANGES.md", "".join(f"- change {line}\n" for line in range(number + 1)))


@pytest.fixture(scope="module")
def index_home(tmp_path_factory: pytest.TempPathFactory, history: Repo) -> Path:
    """Indexes of a real run, which also has the symbols of HEAD."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LINEAGE_HOME", str(home))
        assert run_index(history, "--skip-vectors") == 0
    return home


@pytest.fixture
def find(history: Repo, index_home: Path) -> Find:
    """Find the related files of a file of the shared history."""
    return lambda file, limit=10: find_related_files(RelatedRequest(file, limit), history.path, index_home)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo.create(tmp_path / "repo")


def list_commit_files(repo: Repo) -> list[set[str]]:
    """Return the files of each commit by git's log, with the newest names."""
    entries = repo.git("log", "-c", "--no-renames", "--name-only", "--format=%x00").split("\0")[1:]
    renamed = {"old.py": "src/app.py"}
    return [{renamed.get(name, name) for name in entry.split("\n") if name} for entry in entries]


@pytest.mark.parametrize("file", ["src/app.py", "tests/test_app.py", "CHANGES.md", "docs/guide.md"])
def test_counts_are_those_of_git_log(history: Repo, find: Find, file: str) -> None:
    """Common commits, shares and lift follow from the files of each commit in git's log, without large commits."""
    commits = list_commit_files(history)
    small = [files for files in commits if files and len(files) <= metrics.MAX_FILES_PER_COMMIT]
    counts = Counter(name for files in small for name in files)
    together = Counter(name for files in small if file in files for name in files - {file})
    answer = find(file)
    expected = {
        name: support
        for name, support in together.items()
        if support > 1 and support * len(small) > counts[file] * counts[name]
    }
    assert {hit.file_path: hit.support for hit in answer.hits} == expected
    for hit in answer.hits:
        assert hit.confidence == round(hit.support / counts[file], 3)
        assert hit.lift == round(hit.support * len(small) / counts[file] / counts[hit.file_path], 2)
    details = answer.meta.related
    assert details.commits == sum(file in files for files in commits)
    assert details.large_commits == sum(file in files for files in commits) - counts[file]


def test_changelog_does_not_lead(history: Repo, find: Find) -> None:
    """The test comes before the changelog, which more commits have in common with the file than by chance only."""
    first, *others = find("src/app.py").hits
    assert (first.file_path, first.support) == ("tests/test_app.py", 9)
    assert [hit.file_path for hit in others] == ["CHANGES.md"]
    assert others[0].support == 9 and others[0].lift < first.lift
    assert first.commit_subject == "Stop 14"
    assert first.commit_sha == history.git("rev-parse", "HEAD~2")
    assert first.commit_date == history.git(
        "log", "-1", "--format=%cd", "--date=format:%Y-%m-%dT%H:%M:%SZ", "HEAD~2"
    )


def test_answer_agrees_with_the_notebook(
    history: Repo, index_home: Path, find: Find, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pairs, files and symbols have the numbers of the notebook's charts."""
    monkeypatch.setenv("LINEAGE_HOME", str(index_home))
    index = metrics.open_index(history.path)
    pairs = {
        frozenset(pair): together
        for *pair, together in metrics.find_co_changes(index)
        .select("file_path", "file_path_other", "together")
        .iter_rows()
    }
    assert len(pairs) == 4
    names = {name for pair in pairs for name in pair}
    hits = {
        frozenset((file, hit.file_path)): hit.support
        for file in names
        for hit in find(file).hits
        if hit.file_path in names
    }
    assert len(hits) == 3
    assert hits.items() <= pairs.items()
    symbols = metrics.find_symbol_hotspots(index).select("name", "changes", "fixes").rows()
    spots = find("src/app.py").meta.related.hot_spots
    assert spots and {(spot.name, spot.commits, spot.fixes) for spot in spots} <= set(symbols)
    files = metrics.find_file_hotspots(index).select("file_path", "changes", "fixes").rows()
    spots = find(".", 50).meta.related.hot_spots
    assert [(spot.name, spot.commits, spot.fixes) for spot in spots] == [
        row for row in files if (history.path / row[0]).exists()
    ]


def test_owners_are_those_of_git_blame(history: Repo, find: Find) -> None:
    """Lines count for their authors by git's blame with `.mailmap`, addresses in any case; bots are set apart."""
    blame = history.git("blame", "--line-porcelain", "src/app.py")
    counts = Counter(line.removeprefix("author ") for line in blame.split("\n") if line.startswith("author "))
    details = find("src/app.py").meta.related
    assert counts == {"Ada Lovelace": 11, "Eve Adams": 1, "dependabot[bot]": 1}
    assert details.owners == (
        Owner("Ada Lovelace", "ada@example.org", 11, round(11 / 12, 3)),
        Owner("Eve Adams", "eve@example.org", 1, round(1 / 12, 3)),
    )
    assert details.lines == 13
    assert details.bots == (Bot("dependabot[bot]", 1, 1),)


def test_recent_work(find: Find) -> None:
    """The last year of the history counts, a rename included, with commits and lines of each person."""
    details = find("src/app.py").meta.related
    assert (details.recent_since, details.recent_until) == ("2020-02-06T05:00:00Z", "2021-02-05T05:00:00Z")
    assert details.recent_authors == (
        RecentAuthor("Eve Adams", "eve@example.org", 3, 12, 0.7),
        RecentAuthor("Ada Lovelace", "ada@example.org", 2, 3, 0.3),
    )


def test_older_work_weighs_less() -> None:
    """Work counts half after half a year; the share is the mean of those of commits and lines."""
    ada, eve = Author("Ada", "a@x"), Author("Eve", "e@x")
    work = [RecentCommit("1", 10, 1.0), RecentCommit("2", 90, 0.5)]
    ranked = owners.rank_recent_authors(work, {"1": ada, "2": eve})
    assert [(author.name, author.share) for author in ranked] == [
        ("Eve", round((1 / 3 + 45 / 55) / 2, 3)),
        ("Ada", round((2 / 3 + 10 / 55) / 2, 3)),
    ]
    mode_changes = [replace(item, lines=0) for item in work]
    assert [author.share for author in owners.rank_recent_authors(mode_changes, {"1": ada, "2": eve})] == [
        0.667,
        0.333,
    ]


def test_same_person() -> None:
    """Authors of the same name or address are one person, with the most frequent name; shared addresses join nobody."""
    authors = {
        "1": Author("Ada Lovelace", "ada@example.org"),
        "2": Author("Ada Lovelace", "ada@example.org"),
        "3": Author("ada", "ADA@example.org"),
        "4": Author("ada lovelace", "ada@work.example"),
        "5": Author("Eve", "noreply@github.com"),
        "6": Author("Bob", "noreply@github.com"),
        "7": Author("Ann", ""),
        "8": Author("Cid", "none@none"),
        "9": Author("Dan", "none@none"),
        "10": Author("", "one@example.org"),
        "11": Author("", "two@example.org"),
        "12": Author("", "none@none"),
    }
    unified = owners.unify_authors(authors)
    assert [unified[sha].name for sha in authors][:9] == [
        *["Ada Lovelace"] * 4,
        *("Eve", "Bob", "Ann", "Cid", "Dan"),
    ]
    assert [unified[sha] for sha in ("10", "11", "12")] == [authors[sha] for sha in ("10", "11", "12")]


def test_json_omits_empty_lists(find: Find) -> None:
    """The JSON has the lists that have an item, and no key for an empty list."""
    answer = find("src/app.py")
    assert "hot_spots" in answer.to_json_dict()["meta"]["related"]
    without_hot_spots = replace(answer.meta.related, hot_spots=())
    document = replace(answer, meta=replace(answer.meta, related=without_hot_spots)).to_json_dict()
    assert "hot_spots" not in document["meta"]["related"]


def test_hot_spots_of_a_file(history: Repo, find: Find) -> None:
    """Symbols of HEAD have their commits, before a rename too, their fixes, first line and newest commit."""
    spots = find("src/app.py").meta.related.hot_spots
    assert [(spot.name, spot.commits, spot.fixes, spot.line) for spot in spots] == [
        ("App.run", 10, 2, 2),
        ("App.stop", 4, 0, 5),
        ("App", 1, 0, 1),
        ("create", 1, 0, 9),
    ]
    assert spots[0].commit_sha == history.git("rev-parse", "HEAD~1")
    assert spots[1].commit_sha == history.git("rev-parse", "HEAD~2")


def test_directory(find: Find) -> None:
    """Of a directory, files outside change with it, its files are the hot spots, and all their lines have owners."""
    answer = find("src")
    details = answer.meta.related
    assert (details.path, details.kind, details.commits) == ("src", "directory", 12)
    assert [hit.file_path for hit in answer.hits] == ["tests/test_app.py", "CHANGES.md"]
    assert [(spot.name, spot.commits) for spot in details.hot_spots] == [
        ("src/app.py", 12),
        ("src/lines.txt", 1),
    ]
    assert details.lines == 15
    assert details.bots == (Bot("dependabot[bot]", 3, 1),)
    assert find("src/").meta.related == details
    root = find(".")
    assert (root.meta.related.path, root.hits) == (".", ())


def test_old_name(find: Find) -> None:
    """The old name of a file gives the answer about its new name, which lists the old one."""
    old, new = find("old.py"), find("src/app.py")
    assert old.hits == new.hits
    assert old.meta.related.limitation == "old.py is now src/app.py."
    assert replace(old.meta.related, limitation=None) == new.meta.related
    assert new.meta.related.old_paths == ("old.py",)


@pytest.fixture(scope="module")
def special(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    """Repository with deleted, renamed, ignored, binary and oddly named files."""
    repo = Repo.create(tmp_path_factory.mktemp("special") / "repo")
    content = "".join(f"line {number}\n" for number in range(20))
    repo.write("moved.txt", content)
    repo.write("replaced.txt", content.replace("line", "row"))
    repo.commit_file("start.txt", "0\n")
    repo.branch("side")
    repo.write("beside.txt", "1\n")
    repo.commit_file("moved.txt", f"{content}more\n", date=repo.clock + timedelta(days=3))
    repo.switch("main")
    repo.rename("moved.txt", "new.txt")
    repo.rename("replaced.txt", "renamed.txt")
    repo.commit("Rename", date=repo.clock - timedelta(days=2))
    repo.merge("side")
    for number in range(2):
        repo.write("beside.txt", f"{number + 2}\n")
        repo.commit_file("new.txt", f"{content}more {number}\n")
        repo.commit_file("replaced.txt", f"another file {number}\n")
    for number in range(3):
        repo.write("gone.py", APP.format(run=number, stop=0))
        repo.write("also_gone.py", f"x = {number}\n")
        repo.write("lib/gone.py", f"x = {number}\n")
        repo.write("logo.bin", b"\0" + bytes([number]))
        repo.write(b"caf\xe9.txt", f"{number}\n")
        repo.commit_file("kept.py", f"x = {number}\n")
    repo.commit_file("yarn.lock", "a\nb\n")
    repo.remove("gone.py")
    repo.remove("also_gone.py")
    repo.commit("Drop it", add=False)
    repo.remove("lib")
    repo.commit("Drop all", add=False)
    repo.commit_file("src/a.py", "def run():\n  return 1\n")
    repo.write("src/a.py", "def run():\n    return 1\n")
    sha = repo.commit("Indent", author=EVE)
    repo.commit_file(".git-blame-ignore-revs", f"{sha}\n")
    return repo


@pytest.fixture(scope="module")
def special_home(tmp_path_factory: pytest.TempPathFactory, special: Repo) -> Path:
    home = tmp_path_factory.mktemp("home")
    build_index(special, home)
    return home


@pytest.fixture
def find_special(special: Repo, special_home: Path) -> Find:
    """Find the related files of a file of the repository with special files."""
    return lambda file: find_related_files(RelatedRequest(file), special.path, special_home)


def test_change_of_the_old_path_on_another_branch(find_special: Find) -> None:
    """A change of the old path that a branch made after the rename counts for the new path."""
    answer = find_special("new.txt")
    assert answer.meta.related.commits == 5
    assert (answer.hits[0].file_path, answer.hits[0].support) == ("beside.txt", 3)


def test_same_rename_on_two_branches(repo: Repo, home: Path) -> None:
    """A file that two branches renamed alike is one file, with a branch's change between the dates of the renames."""
    content = "".join(f"line {number}\n" for number in range(20))
    repo.commit_file("a.txt", content)
    repo.branch("side")
    repo.rename("a.txt", "b.txt")
    repo.commit("Rename on the branch")
    repo.commit_file("b.txt", f"{content}more\n")
    repo.switch("main")
    repo.rename("a.txt", "b.txt")
    repo.commit("Rename on main")
    repo.merge("side")
    repo.rename("b.txt", "c.txt")
    repo.commit("Rename again")
    build_index(repo, home)
    details = find_related_files(RelatedRequest("c.txt"), repo.path, home).meta.related
    assert (details.commits, details.old_paths) == (5, ("b.txt", "a.txt"))


def test_another_file_at_the_old_path(find_special: Find) -> None:
    """A new file at the path of a renamed one is another file."""
    assert find_special("replaced.txt").meta.related.commits == 2
    assert find_special("renamed.txt").meta.related.commits == 2


def test_deleted_file(special: Repo, find_special: Find) -> None:
    """A deleted file has its history, and the commit that removed it; deleted files are no hits."""
    answer = find_special("gone.py")
    details = answer.meta.related
    assert {hit.file_path for hit in answer.hits} == {"kept.py", "logo.bin", "caf\\xe9.txt"}
    sha = special.git("log", "-1", "--format=%H", "--", "gone.py")
    assert details.limitation == f'gone.py does not exist in HEAD: commit {sha[:12]} ("Drop it") removed it.'
    assert (details.commits, details.lines, details.owners) == (4, 0, ())
    assert [(spot.name, spot.commits, spot.line) for spot in details.hot_spots[:1]] == [("App.run", 4, None)]


def test_deleted_directory(find_special: Find) -> None:
    """A deleted directory has its history, and its deleted files are the hot spots."""
    answer = find_special("lib")
    assert "kept.py" in {hit.file_path for hit in answer.hits}
    assert (answer.meta.related.kind, answer.meta.related.commits) == ("directory", 4)
    assert [spot.name for spot in answer.meta.related.hot_spots] == ["lib/gone.py"]


def test_ignored_file(find_special: Find) -> None:
    """A file that the index ignores has owners, and a sentence about the rest."""
    details = find_special("yarn.lock").meta.related
    assert (details.commits, [owner.lines for owner in details.owners]) == (0, [2])
    assert details.limitation == (
        "The index has no commits that change yarn.lock. The path may be ignored, or not committed yet."
    )


def test_binary_file(find_special: Find) -> None:
    """A binary file has related files but no owners, and a directory's owners are those of its text files."""
    answer = find_special("logo.bin")
    assert "kept.py" in {hit.file_path for hit in answer.hits}
    assert answer.meta.related.limitation == "logo.bin is binary: it has no lines to explain."
    assert not answer.meta.related.owners


def test_ignored_revisions(find_special: Find) -> None:
    """Commits of `.git-blame-ignore-revs` own no lines, of a file and of a directory."""
    for file in ("src/a.py", "src"):
        owner = find_special(file).meta.related.owners
        assert [(each.name, each.lines) for each in owner] == [("Ada Lovelace", 2)]


def test_unknown_file(history: Repo, find: Find) -> None:
    """A file that never existed is an error with similar names, and so is one that git does not track."""
    with pytest.raises(UnknownFile, match=r"Did you mean src/app\.py\?"):
        find("lib/app.py")
    untracked = history.path / "untracked.py"
    untracked.write_text("x = 1\n")
    with pytest.raises(UnknownFile, match="git does not track it"):
        find("untracked.py")
    untracked.unlink()


@pytest.mark.parametrize("file", ["../x.py", "/etc/hosts"])
def test_file_outside_the_repository(find: Find, file: str) -> None:
    """A path outside the repository is a usage error."""
    with pytest.raises(BadRequest, match="is not inside the repository"):
        find(file)


def test_no_index(repo: Repo, home: Path) -> None:
    """Without an index, the error names the command."""
    repo.commit_file("a.py", "a = 1\n")
    with pytest.raises(NotIndexed, match="lineage index"):
        find_related_files(RelatedRequest("a.py"), repo.path, home)


def test_partial_index(repo: Repo, home: Path) -> None:
    """An index behind HEAD says so; its commits count, and lines are those of the file on disk."""
    repo.commit_file("a.py", "a = 1\n")
    repo.commit_file("a.py", "a = 1\nb = 2\n")
    build_index(repo, home, revision="HEAD~1")
    (repo.path / "a.py").write_text("a = 1\nb = 2\nc = 3\n")
    answer = find_related_files(RelatedRequest("a.py"), repo.path, home)
    assert answer.meta.hint and "1 commit behind HEAD" in answer.meta.hint
    assert (answer.meta.related.commits, answer.meta.related.lines) == (1, 2)
    assert answer.meta.related.limitation == "Line 3 is not committed yet."


def test_commits_of_another_branch(repo: Repo, home: Path) -> None:
    """Commits that HEAD does not reach do not count, although the index has them."""
    repo.commit_file("a.py", "a = 1\n")
    repo.branch("side")
    repo.commit_file("a.py", "a = 2\n")
    build_index(repo, home)
    repo.switch("main")
    assert find_related_files(RelatedRequest("a.py"), repo.path, home).meta.related.commits == 1


def test_owners_with_a_damaged_git_index(repo: Repo, home: Path) -> None:
    """git's index is not needed to find the owners of a file."""
    repo.commit_file("a.py", "a = 1\n")
    build_index(repo, home)
    (repo.path / ".git" / "index").write_bytes(b"damaged" * 40)
    details = find_related_files(RelatedRequest("a.py"), repo.path, home).meta.related
    assert [owner.lines for owner in details.owners] == [1]
    assert details.limitation is None


def test_blame_is_bounded_in_time(find: Find, monkeypatch: pytest.MonkeyPatch) -> None:
    """If git does not end in time, the rest of the answer is given, and the limitation says what is missing."""
    monkeypatch.setattr(owners, "MAX_BLAME_SECONDS", 0.0)
    monkeypatch.setattr(RunningBlame, "read", raise_timeout)
    answer = find("src/app.py")
    assert answer.hits and not answer.meta.related.owners
    assert answer.meta.related.limitation == (
        "git blame did not finish within 0 seconds, so the owners of the file are unknown."
    )
    details = find("src").meta.related
    assert details.limitation == (
        "Owners cover only 0 of 2 files, those with the most commits: git blame took too long for the rest."
    )
    monkeypatch.setattr(owners, "read_committed_target", lambda *_: Target(b"", note="binary"))
    assert find("src").meta.related.limitation is None


def test_owners_of_files_with_any_name(
    special: Repo, find_special: Find, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names that are not UTF-8 are blamed as well. HEAD's files are listed once, for them and all related files."""
    listings: list[str] = []
    list_files_with_raw_paths = Repository.list_files_with_raw_paths

    def list_and_record(repository: Repository, sha: str) -> list[tuple[bytes, str]]:
        listings.append(sha)
        return list_files_with_raw_paths(repository, sha)

    monkeypatch.setattr(Repository, "list_files_with_raw_paths", list_and_record)
    details = find_special(".").meta.related
    names = [
        name for name in special.git_bytes("ls-files", "-z").split(b"\0") if name and name != b"logo.bin"
    ]
    lines = sum(special.git_bytes("show", b"HEAD:" + name).count(b"\n") for name in names)
    assert (details.limitation, details.lines) == (None, lines)
    assert len(listings) == 1
    assert "caf\\xe9.txt" in {hit.file_path for hit in find_special("kept.py").hits}


def test_blame_that_fails(find_special: Find, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of a directory that git cannot blame is told from one for which the time was over."""
    monkeypatch.setattr(owners, "blame_revision", lambda *_: BlameFailure("damaged"))
    assert find_special("src").meta.related.limitation == (
        "git blame failed for 1 of 1 files. git blame failed: damaged."
    )


def test_directory_with_a_malformed_ignore_file(repo: Repo, home: Path) -> None:
    """The answer about a directory names the malformed file of blame.ignoreRevsFile once, as that about a file does."""
    for name in ("src/a.py", "src/b.py"):
        repo.commit_file(name, "a = 1\n")
    repo.write("skipped", "def foo():\n")
    repo.git("config", "blame.ignoreRevsFile", "skipped")
    build_index(repo, home)
    of_file, of_directory = (
        find_related_files(RelatedRequest(name), repo.path, home).meta.related.limitation
        for name in ("src/a.py", "src")
    )
    assert f"the file of `blame.ignoreRevsFile`: {repo.path / 'skipped'}." in str(of_file)
    assert of_directory == f"git blame failed for 2 of 2 files. {of_file}"


def test_unknown_authors(find: Find, monkeypatch: pytest.MonkeyPatch) -> None:
    """If git cannot read a commit, the answer has no owners, says so, and has everything else."""
    monkeypatch.setattr(owners, "list_recent_commits", lambda *_: [RecentCommit("1" * 40, 1, 1.0)])
    answer = find("src/app.py")
    details = answer.meta.related
    assert answer.hits and details.hot_spots and details.lines == 13
    assert not (details.owners or details.recent_authors or details.bots)
    assert details.limitation == f"The owners are unknown: bad object {'1' * 40}."


def test_commit_dated_in_the_future(repo: Repo, home: Path) -> None:
    """A commit of 2099 does not move the period of recent work, and is no recent work."""
    repo.commit_file("a.py", "a = 1\n")
    repo.write("a.py", "a = 2\n")
    repo.commit("Later", author=EVE, date=repo.clock.replace(year=2099))
    build_index(repo, home)
    details = find_related_files(RelatedRequest("a.py"), repo.path, home).meta.related
    assert (details.recent_until or "")[:4] == "2020"
    assert [author.name for author in details.recent_authors] == ["Ada Lovelace"]


def raise_timeout(*_: object) -> None:
    raise GitTimeout(0)


def test_name_relative_to_the_working_directory(history: Repo, index_home: Path) -> None:
    """A name counts from the repository's root, else from the working directory."""
    answer = find_related_files(RelatedRequest("app.py"), history.path, index_home, history.path / "src")
    assert answer.meta.related.path == "src/app.py"


@pytest.mark.parametrize(("file", "limit"), [("", 1), ("a\0b", 1), ("a.py", 0), ("x" * 20_000, 1)])
def test_bad_requests(file: str, limit: int) -> None:
    """Texts that are no file names, and limits below 1, are usage errors."""
    with pytest.raises(BadRequest):
        RelatedRequest(file, limit)


def test_limit_and_compact(find: Find) -> None:
    """The limit is that of each list, and the compact form has three of each."""
    answer = find(".", 2)
    lists = [field.name for field in fields(answer.meta.related) if field.name in ("hot_spots", "owners")]
    assert [len(getattr(answer.meta.related, name)) for name in lists] == [2, 2]
    answer = find(".", 50)
    assert find(".", 10**20) == answer
    details = replace(
        answer.meta.related,
        owners=(Owner("Ada", "a@x", 1, 0.25),) * 4,
        recent_authors=(RecentAuthor("Ada", "a@x", 1, 1, 0.25),) * 4,
    )
    hits = find("src/app.py").hits[:1] * 4
    reduced = replace(answer, hits=hits, meta=replace(answer.meta, related=details)).reduce()
    details = reduced.meta.related
    reduced_lists = (reduced.hits, details.owners, details.recent_authors, details.hot_spots)
    assert list(map(len, reduced_lists)) == [3, 3, 3, 3]
