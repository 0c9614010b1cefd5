"""Opening repositories of every kind, and reading their commits, files and attributes."""

from __future__ import annotations

import pickle
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pygit2
import pytest
from pygit2.enums import FileMode

from pipeline.git.errors import UnreadableObject
from pipeline.git.repository import Commit, Repository, open_repository
from pipeline.hunks import Changed, hunks
from stores.errors import LineageError
from tests.repos import ADA, Repo

MAPS: Final = Path("/proc/self/maps")


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = Repo.create(tmp_path / "work")
    made.commit_file("a.py", "a = 1\n", "First")
    made.commit_file("src/b.py", "b = 1\n", "Second")
    return made


def everything(path: str) -> bool:
    del path
    return False


def test_an_empty_repository_has_no_head(tmp_path: Path) -> None:
    """Before the first commit there is no HEAD, and nothing to read there."""
    opened = open_repository(Repo.create(tmp_path / "new").path)
    assert opened.head() is None
    assert opened.read_at_head("a.py") is None


def test_a_detached_head_is_a_head(repo: Repo) -> None:
    """HEAD on no branch is the commit it names."""
    first = repo.git("rev-parse", "HEAD~1")
    repo.switch(first, detach=True)
    assert open_repository(repo.path).head() == first


def test_a_bare_repository_is_read_from_head(repo: Repo, tmp_path: Path) -> None:
    """A bare clone has its own directory as root, the same history, and files at HEAD."""
    bare = repo.clone(tmp_path / "bare.git", "--bare")
    opened = open_repository(bare.path)
    assert opened.is_bare
    assert opened.root == opened.canonical == bare.path.resolve()
    assert opened.walk(repo.head) == open_repository(repo.path).walk(repo.head)
    assert opened.read_at_head("src/b.py") == b"b = 1\n"
    assert opened.read_at_head("src") is None


def test_a_shallow_clone_ends_at_its_boundary(repo: Repo, tmp_path: Path) -> None:
    """The boundary commit is a first commit whose change cannot be known, until the clone is deepened."""
    repo.commit_file("c.py", "c\n", "Third")
    clone = repo.clone(tmp_path / "shallow", "--depth=2")
    opened = open_repository(clone.path)
    boundary = repo.git("rev-parse", "HEAD~1")
    assert opened.is_shallow
    assert opened.walk(repo.head) == [boundary, repo.head]
    assert opened.first_commit(repo.head) == boundary
    assert opened.commit(boundary).message == "Second"
    assert opened.commit(boundary).parents == ()
    assert not opened.readable(boundary)
    with pytest.raises(UnreadableObject, match="beyond the shallow boundary"):
        hunks(opened, boundary, everything)
    clone.git("fetch", "--quiet", "--unshallow")
    whole = open_repository(clone.path)
    assert not whole.is_shallow
    assert whole.readable(boundary)
    assert len(hunks(whole, boundary, everything).hunks) == 1
    assert whole.first_commit(repo.head) == repo.git("rev-parse", "HEAD~2")


@pytest.mark.parametrize("marked", ["remote", "extension"])
def test_a_partial_clone_never_fetches(repo: Repo, tmp_path: Path, marked: str) -> None:
    """What a partial clone left out is unreadable, and stays absent after being asked for."""
    repo.git("config", "uploadpack.allowFilter", "true")
    first = repo.git("rev-parse", "HEAD~1")
    repo.commit_file("a.py", "a = 2\n", "Third")
    clone = repo.clone(tmp_path / "partial", "--filter=blob:none")
    if marked == "extension":
        clone.git("config", "core.repositoryformatversion", "1")
        clone.git("config", "extensions.partialClone", "origin")
    blob = repo.git("rev-parse", f"{first}:a.py")
    opened = open_repository(clone.path)
    assert opened.is_partial
    assert opened.commit(first).message == "First"
    with pytest.raises(UnreadableObject, match=f"{blob} is missing"):
        hunks(opened, first, everything)
    assert not opened.contains(blob)
    assert blob not in clone.git("rev-list", "--objects", "--all", "--missing=allow-any")


def test_the_mailmap_names_authors(repo: Repo) -> None:
    """Authors read as `.mailmap` has them now, not as they signed."""
    sha = repo.commit("Signed otherwise", author="ada <old@example.org>")
    repo.write(".mailmap", f"{ADA} <old@example.org>\n")
    commit = open_repository(repo.path).commit(sha)
    assert (commit.author_name, commit.author_email) == ("Ada Lovelace", "ada@example.org")


def test_dates_are_utc(repo: Repo) -> None:
    """A date written in another zone is the same instant in UTC, without a zone."""
    sha = repo.commit("Later", date=datetime.fromisoformat("2021-03-04T01:00:00+05:00"))
    assert open_repository(repo.path).commit(sha).commit_date == datetime.fromisoformat("2021-03-03T20:00:00")


@pytest.mark.parametrize(
    ("signature", "year"),
    [
        ("Ada <ada@example.org> 99999999999999999 +0000", 9999),
        (f"Ada <ada@example.org> {'9' * 5_000} +0000", 9999),
        ("Ada <ada@example.org> -5 +0000", 1970),
        ("Ada <ada@example.org>", 1970),
        ("Ada <ada@example.org 1600000000 +0000", 1970),
        ("Ada <ada@example.org>> 1600000000 +0000", 2020),
    ],
)
def test_a_malformed_signature_does_not_hide_its_commit(repo: Repo, signature: str, year: int) -> None:
    """Commits that git only complains about are read, their dates clamped to what a calendar has."""
    tree = repo.git("rev-parse", "HEAD^{tree}")
    text = f"tree {tree}\nparent {repo.head}\nauthor {signature}\ncommitter {signature}\n\nOdd\n"
    raw = ["hash-object", "-t", "commit", "-w", "--literally", "--stdin"]
    sha = repo.git(*raw, stdin=text.encode())
    opened = open_repository(repo.path)
    commit = opened.commit(sha)
    assert (commit.message, commit.author_name, commit.commit_date.year) == ("Odd", "Ada", year)
    assert opened.walk(sha)[-1] == sha
    assert hunks(opened, sha, everything).hunks == ()


def test_a_head_that_libgit2_refuses_is_a_head(repo: Repo) -> None:
    """The last commit may be one that git only complains about; a tag stands for its commit."""
    tree = repo.git("rev-parse", "HEAD^{tree}")
    text = f"tree {tree}\nparent {repo.head}\nauthor Ada\ncommitter Ada\n\nOdd\n"
    raw = ["hash-object", "-t", "commit", "-w", "--literally", "--stdin"]
    sha = repo.git(*raw, stdin=text.encode())
    repo.git("update-ref", "HEAD", sha)
    opened = open_repository(repo.path)
    assert (opened.head(), opened.read_at_head("src/b.py")) == (sha, b"b = 1\n")
    assert [opened.commit(each).message for each in opened.walk(sha)] == ["First", "Second", "Odd"]
    repo.git("tag", "--annotate", "--message=Tagged", "tag")
    (repo.path / ".git/HEAD").write_text(repo.git("rev-parse", "tag") + "\n")
    assert open_repository(repo.path).head() == sha


def test_a_head_that_is_not_there_is_unreadable(repo: Repo) -> None:
    """A commit that is missing, and what is no commit."""
    for sha in ("1" * 40, repo.git("rev-parse", "HEAD:a.py")):
        (repo.path / ".git/HEAD").write_text(f"{sha}\n")
        with pytest.raises(UnreadableObject, match="HEAD cannot be read"):
            open_repository(repo.path).head()


def test_a_thousand_nested_folders_are_listed_and_compared(repo: Repo) -> None:
    """However deep a tree is, its files are found, and what a merge wrote in it."""
    trees = []
    for content in (b"one", b"two", b"both"):
        entry = f"100644 blob {repo.git('hash-object', '-w', '--stdin', stdin=content)}\tf\n"
        trees.append(_nested(repo, entry.encode()))
    parents = [repo.git("commit-tree", tree, stdin=b"side") for tree in trees[:2]]
    merge = repo.git("commit-tree", trees[2], *(f"-p{parent}" for parent in parents), stdin=b"merge")
    opened = open_repository(repo.path)
    path = "d/" * 1_200 + "f"
    assert [found for found, _ in opened.tree_files(merge)] == [path]
    for sha in (*parents, merge):
        assert [hunk.file_path for hunk in hunks(opened, sha, everything).hunks] == [path]


def _nested(repo: Repo, entry: bytes) -> str:
    """A tree of folders in folders; git's own way of making one would take a process each."""
    git = pygit2.Repository(repo.path)
    tree = pygit2.Oid(hex=repo.git("mktree", stdin=entry))
    for _ in range(1_200):
        builder = git.TreeBuilder()
        builder.insert("d", tree, FileMode.TREE)
        tree = builder.write()
    return str(tree)


@pytest.mark.parametrize(
    "encoding", ["utf-7", "unicode_escape", "raw-unicode-escape", "utf-16-le", "punycode"]
)
def test_no_encoding_leaves_half_a_character(repo: Repo, encoding: str) -> None:
    """Whatever a commit declares and whatever its bytes are, names and message are text that can be written."""
    tree, text = repo.git("rev-parse", "HEAD^{tree}"), b"hi +2AA- \\ud800 there \x00\xd8 \\x"
    author = b"A+2AA- \\udfff <a+3/8-@b> 1 +0000"
    head = f"tree {tree}\nauthor ".encode() + author + b"\ncommitter " + author
    data = head + f"\nencoding {encoding}\n\n".encode() + text
    sha = repo.git("hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=data)
    commit = open_repository(repo.path).commit(sha)
    for text_of in (commit.message, commit.author_name, commit.author_email):
        assert text_of.encode().decode() == text_of
    if encoding in ("unicode_escape", "utf-7"):
        assert "hi " in commit.message and "there" in commit.message


def test_a_message_is_decoded_by_its_own_encoding(repo: Repo) -> None:
    """Latin-1 commits read as their author wrote them; bytes of no encoding are replaced."""
    repo.git("config", "i18n.commitEncoding", "ISO-8859-1")
    repo.git("commit", "--quiet", "--allow-empty", "--file=-", stdin="Größe".encode("latin-1"))
    latin = repo.head
    repo.git("config", "i18n.commitEncoding", "no-such-encoding")
    repo.git("commit", "--quiet", "--allow-empty", "--file=-", stdin=b"bad \xff byte")
    opened = open_repository(repo.path)
    assert opened.commit(latin).message == "Größe"
    assert opened.commit(repo.head).message == "bad \ufffd byte"


def test_only_regular_files_are_listed(repo: Repo) -> None:
    """The snapshot holds files, executables among them, and neither symlinks nor submodules."""
    repo.write("run.sh", "#!/bin/sh\n", executable=True)
    repo.symlink("link", "a.py")
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{repo.head},module")
    repo.git("add", "run.sh", "link")
    sha = repo.commit("More", add=False)
    opened = open_repository(repo.path)
    files = opened.tree_files(sha)
    assert [path for path, _ in files] == ["a.py", "run.sh", "src/b.py"]
    assert opened.blob(dict(files)["run.sh"]) == b"#!/bin/sh\n"


def test_attributes_come_from_the_work_tree_or_from_a_bare_head(repo: Repo, tmp_path: Path) -> None:
    """Attributes of folders are honoured; a bare repository reads them at HEAD."""
    repo.write(".gitattributes", "*.py linguist-generated=true\n")
    repo.write("src/.gitattributes", "b.py -linguist-generated\n")
    repo.commit("Attributes")
    for place in (repo.path, repo.clone(tmp_path / "bare.git", "--bare").path):
        opened = open_repository(place)
        found = [opened.attribute(path, "linguist-generated") for path in ("a.py", "src/b.py", "c.c")]
        assert found == ["true", False, None]


def test_a_missing_object_names_the_commit_that_needs_it(repo: Repo) -> None:
    """Missing and damaged objects are reported with the commit, and the rest can still be read."""
    first, second = repo.git("rev-parse", "HEAD~1"), repo.head
    third = repo.commit_file("a.py", "a = 3\n", "Third")
    blob = repo.git("rev-parse", f"{third}:a.py")
    loose = repo.path / ".git/objects" / blob[:2] / blob[2:]
    loose.chmod(0o644)
    loose.write_bytes(b"damaged")
    with pytest.raises(UnreadableObject) as damaged:
        hunks(open_repository(repo.path), third, everything)
    assert damaged.value.sha == third
    loose.unlink()
    with pytest.raises(UnreadableObject, match=f"{blob} is missing"):
        hunks(open_repository(repo.path), third, everything)
    opened = open_repository(repo.path)
    assert opened.commit(third).message == "Third"
    assert [len(hunks(opened, sha, everything).hunks) for sha in (first, second)] == [1, 1]


def test_a_missing_tree_is_unreadable(repo: Repo) -> None:
    """A commit without its tree cannot be compared; its child cannot either."""
    tree = repo.git("rev-parse", "HEAD~1^{tree}")
    (repo.path / ".git/objects" / tree[:2] / tree[2:]).unlink()
    opened = open_repository(repo.path)
    for sha in (repo.git("rev-parse", "HEAD~1"), repo.head):
        with pytest.raises(UnreadableObject, match=tree):
            hunks(opened, sha, everything)


def test_an_object_that_is_no_commit_is_unreadable_as_one(repo: Repo) -> None:
    """A tree's sha is not taken for a commit's."""
    tree = repo.git("rev-parse", "HEAD^{tree}")
    with pytest.raises(UnreadableObject, match="not a commit"):
        open_repository(repo.path).commit(tree)


def test_an_unreadable_object_survives_the_way_back_from_a_worker() -> None:
    """The error keeps its commit and reason when pickled."""
    back = pickle.loads(pickle.dumps(UnreadableObject("abc", "missing")))  # noqa: S301 - our own bytes
    assert (back.sha, back.reason, str(back)) == ("abc", "missing", str(UnreadableObject("abc", "missing")))


def test_no_program_of_the_repository_runs(repo: Repo, tmp_path: Path) -> None:
    """Filters, textconv and external diffs that a repository configures are never started."""
    trap = tmp_path / "ran"
    for key in ("filter.trap.clean", "filter.trap.smudge", "diff.trap.textconv", "diff.trap.command"):
        repo.git("config", key, f"touch {trap};")
    repo.git("config", "core.fsmonitor", f"touch {trap}; false")
    (repo.path / ".gitattributes").write_text("*.py filter=trap diff=trap\n")
    opened = open_repository(repo.path)
    for sha in opened.walk(repo.head):
        assert hunks(opened, sha, everything).hunks
    assert not trap.exists()


@pytest.mark.parametrize("kind", ["packed", "shallow", "bare", "worktree"])
def test_what_was_let_go_is_read_again(repo: Repo, tmp_path: Path, kind: str) -> None:
    """The same commits and changes, as far as they reach, from packs that are opened once more."""
    repo.commit_file("a.py", "a = 2\n", "Third")
    repo.git("gc", "--quiet")
    made = tmp_path / kind
    match kind:
        case "shallow":
            repo.git("clone", "--quiet", "--depth=2", repo.path.as_uri(), str(made))
        case "bare":
            repo.git("clone", "--quiet", "--bare", str(repo.path), str(made))
        case "worktree":
            repo.git("worktree", "add", "--quiet", "--detach", str(made))
    opened = open_repository(made if made.exists() else repo.path)
    shas, before = opened.walk(repo.head), _read(opened)
    assert len(shas) == 2 + (kind != "shallow") and before
    opened.let_go()
    assert (opened.walk(repo.head), _read(opened)) == (shas, before)
    assert opened.reaches_more(repo.head, len(shas) - 1)
    assert not opened.reaches_more(repo.head, len(shas))


def test_a_repository_that_is_gone_is_refused_in_words(repo: Repo) -> None:
    """Deleted while a run reads it, it is no fault of the program's."""
    opened = open_repository(repo.path)
    shutil.rmtree(repo.path)
    with pytest.raises(LineageError):
        opened.let_go()


@pytest.mark.skipif(not MAPS.exists(), reason="only Linux says which files a process has mapped")
def test_packs_let_go_are_not_mapped(repo: Repo) -> None:
    """Their pages count as the process's memory, as many as the history is long."""
    repo.git("gc", "--quiet")
    opened = open_repository(repo.path)
    _read(opened)
    assert str(repo.path) in MAPS.read_text()
    opened.let_go()
    assert str(repo.path) not in MAPS.read_text()


def _read(opened: Repository) -> list[tuple[Commit, Changed]]:
    shas = [sha for sha in opened.walk(opened.head() or "") if sha not in opened.boundary]
    return [(opened.commit(sha), hunks(opened, sha, everything)) for sha in shas]


def test_dates_have_no_zone(repo: Repo) -> None:
    """Times are naive and in UTC, as the store keeps them."""
    commit = open_repository(repo.path).commit(repo.head)
    assert commit.author_date.tzinfo is None
    assert commit.author_date.replace(tzinfo=UTC) == repo.clock
