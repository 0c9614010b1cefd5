"""Commits, files and attributes of repositories: bare, shallow, partial, damaged and others."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pygit2
import pytest
from pygit2.enums import FileMode

from pipeline.git.changes import is_regular
from pipeline.git.commit_graph import create_git_program
from pipeline.git.errors import DamagedRepository, UnreadableObject
from pipeline.git.repository import Commit, Repository, open_repository
from pipeline.hunks import CommitChanges, extract_hunks
from stores.errors import LineageError
from tests.repos import ADA, Repo

# Linux lists the files here that a process has mapped.
MAPS: Final = Path("/proc/self/maps")


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo.create(tmp_path / "work")
    repo.commit_file("a.py", "a = 1\n", "First")
    repo.commit_file("src/b.py", "b = 1\n", "Second")
    return repo


def test_tags(repo: Repo) -> None:
    """Lightweight and annotated tags, and tags of tags, are listed with their commits.

    Tags of files and of missing objects are left out.
    """
    first = repo.git("rev-parse", "HEAD~1")
    repo.git("tag", "v2")
    repo.git("tag", "--annotate", "--message", "Release", "v1", first)
    repo.git("tag", "--annotate", "--message", "Again", "again", "v1")
    repo.git("tag", "file", "HEAD:a.py")
    (repo.path / ".git/refs/tags/lost").write_text(f"{'1' * 40}\n")
    (repo.path / ".git/refs/tags/bad").write_text("nothing\n")
    assert open_repository(repo.path).list_tags() == [("again", first), ("v1", first), ("v2", repo.head)]


def ignore_nothing(path: str) -> bool:
    del path
    return False


def extract_all(repository: Repository, head: str) -> list[CommitChanges]:
    """Return the changes of every commit that `head` reaches."""
    return [extract_hunks(repository, sha, ignore_nothing) for sha in repository.walk(head)]


def test_revision_with_a_nul(repo: Repo) -> None:
    """A name with a NUL names no revision, even if the text before the NUL does."""
    opened = open_repository(repo.path)
    assert opened.resolve_revision("HEAD") == repo.head
    assert opened.resolve_revision("HEAD\0x") is None


def test_references_are_branches_and_tags(repo: Repo) -> None:
    """Only references that `--branch` accepts are listed, so not the stash or notes."""
    for name in ("heads/topic", "remotes/origin/main", "tags/v1", "stash", "notes/commits", "pull/1/head"):
        repo.git("update-ref", f"refs/{name}", "HEAD")
    assert {"topic", "origin/main", "v1"} == set(open_repository(repo.path).list_references()) - {"main"}


def test_an_empty_repository_has_no_head(tmp_path: Path) -> None:
    """Before the first commit there is no HEAD and no file at HEAD."""
    opened = open_repository(Repo.create(tmp_path / "new").path)
    assert opened.read_head() is None
    assert opened.read_file_at_head("a.py") is None


def test_a_detached_head_is_a_head(repo: Repo) -> None:
    """A detached HEAD is read as the commit that it names."""
    first = repo.git("rev-parse", "HEAD~1")
    repo.switch(first, detach=True)
    assert open_repository(repo.path).read_head() == first


@pytest.mark.parametrize("index_state", ["split", "sparse", "damaged"])
def test_git_index_is_not_needed(repo: Repo, index_state: str) -> None:
    """Changes and attributes are the same with a split, sparse or damaged index file of git."""
    repo.write("other/c.py", "c = 1\n")
    repo.commit_file(".gitattributes", "*.py linguist-generated\n", "Third")
    expected = [
        extract_hunks(open_repository(repo.path), sha, ignore_nothing)
        for sha in open_repository(repo.path).walk(repo.head)
    ]
    if index_state == "split":
        repo.git("update-index", "--split-index")
    elif index_state == "sparse":
        repo.git("sparse-checkout", "set", "--cone", "--sparse-index", "src")
    else:
        (repo.path / ".git" / "index").write_bytes(b"\0" * 100)
    opened = open_repository(repo.path)
    assert extract_all(opened, repo.head) == expected
    opened.release_memory()
    assert extract_all(opened, repo.head) == expected
    assert opened.get_attribute("src/b.py", "linguist-generated") is True


def test_replaced_commits_and_grafts_are_ignored(repo: Repo) -> None:
    """The history is read as the commits record it. `git replace` and grafts have no effect."""
    repo.commit_file("a.py", "a = 2\n", "Third")
    recorded_shas = open_repository(repo.path).walk(repo.head)
    first, second = repo.git("rev-parse", "HEAD~2", "HEAD~1").split()
    repo.git("replace", "--graft", "HEAD", first)
    (repo.path / ".git" / "info").mkdir(exist_ok=True)
    (repo.path / ".git" / "info" / "grafts").write_text(f"{second}\n")
    opened = open_repository(repo.path)
    assert opened.walk(repo.head) == recorded_shas
    assert opened.walk(repo.head, hide=[first]) == recorded_shas[1:]
    assert opened.read_commit(repo.head).parents == (recorded_shas[-2],)
    output = create_git_program(opened).run("rev-list", "--reverse", "HEAD")
    assert (output.stdout.decode().split(), output.stderr) == (recorded_shas, "")


def test_a_bare_repository_is_read_from_head(repo: Repo, tmp_path: Path) -> None:
    """A bare clone's root is its own directory; it has the same history, and files at HEAD."""
    bare = repo.clone(tmp_path / "bare.git", "--bare")
    opened = open_repository(bare.path)
    assert opened.is_bare
    assert opened.root == opened.canonical_path == bare.path.resolve()
    assert opened.walk(repo.head) == open_repository(repo.path).walk(repo.head)
    assert opened.read_file_at_head("src/b.py") == b"b = 1\n"
    assert opened.read_file_at_head("src") is None


def test_a_shallow_clone_ends_at_its_boundary(repo: Repo, tmp_path: Path) -> None:
    """The history ends at the boundary, whose hunks are unreadable until the clone is deepened."""
    repo.commit_file("c.py", "c\n", "Third")
    clone = repo.clone(tmp_path / "shallow", "--depth=2")
    opened = open_repository(clone.path)
    boundary = repo.git("rev-parse", "HEAD~1")
    assert opened.is_shallow
    assert opened.walk(repo.head) == [boundary, repo.head]
    assert opened.find_root_commit(repo.head) == boundary
    assert opened.read_commit(boundary).message == "Second"
    assert opened.read_commit(boundary).parents == ()
    assert not opened.can_diff(boundary)
    with pytest.raises(UnreadableObject, match="beyond the shallow boundary"):
        extract_hunks(opened, boundary, ignore_nothing)
    clone.git("fetch", "--quiet", "--unshallow")
    deepened = open_repository(clone.path)
    assert not deepened.is_shallow
    assert deepened.can_diff(boundary)
    assert len(extract_hunks(deepened, boundary, ignore_nothing).hunks) == 1
    assert deepened.find_root_commit(repo.head) == repo.git("rev-parse", "HEAD~2")


@pytest.mark.parametrize("setting_kind", ["remote", "extension"])
def test_a_partial_clone_never_fetches(repo: Repo, tmp_path: Path, setting_kind: str) -> None:
    """Objects that a partial clone lacks are unreadable, and reading does not fetch them."""
    repo.git("config", "uploadpack.allowFilter", "true")
    first = repo.git("rev-parse", "HEAD~1")
    repo.commit_file("a.py", "a = 2\n", "Third")
    clone = repo.clone(tmp_path / "partial", "--filter=blob:none")
    if setting_kind == "extension":
        clone.git("config", "core.repositoryformatversion", "1")
        clone.git("config", "extensions.partialClone", "origin")
    blob = repo.git("rev-parse", f"{first}:a.py")
    opened = open_repository(clone.path)
    assert opened.is_partial_clone
    assert opened.read_commit(first).message == "First"
    with pytest.raises(UnreadableObject, match=rf"{blob} is missing\n.*`git fetch --refetch --no-filter`"):
        extract_hunks(opened, first, ignore_nothing)
    assert not opened.contains(blob)
    assert blob not in clone.git("rev-list", "--objects", "--all", "--missing=allow-any")


def test_the_mailmap_names_authors(repo: Repo) -> None:
    """Authors have the names and addresses of the current `.mailmap`."""
    sha = repo.commit("Signed otherwise", author="ada <old@example.org>")
    repo.write(".mailmap", f"{ADA} <old@example.org>\n")
    commit = open_repository(repo.path).read_commit(sha)
    assert (commit.author_name, commit.author_email) == ("Ada Lovelace", "ada@example.org")


def test_dates_are_utc(repo: Repo) -> None:
    """A date in another time zone is read as the same time in UTC."""
    sha = repo.commit("Later", date=datetime.fromisoformat("2021-03-04T01:00:00+05:00"))
    assert open_repository(repo.path).read_commit(sha).commit_date == datetime.fromisoformat(
        "2021-03-03T20:00:00"
    )


@pytest.mark.parametrize(
    ("signature", "year"),
    [
        ("Ada <ada@example.org> 99999999999999999 +0000", 1970),
        ("Ada <ada@example.org> 67768036191676799 +0000", 9999),
        ("Ada <ada@example.org> 253402300800 +0000", 9999),
        ("Ada <ada@example.org> 253402300799 +0000", 9999),
        (f"Ada <ada@example.org> {'9' * 5_000} +0000", 1970),
        ("Ada <ada@example.org> -5 +0000", 1970),
        ("Ada <ada@example.org>", 1970),
        ("Ada <ada> 2nd <ada@example.org> 1600000000 +0000", 2020),
        ("Ada <ada-1@example.org>-x> 1600000000 +0000", 2020),
        ("Ada <ada@example.org> xyz 1600000000 +0000", 1970),
        ("Ada <ada@example.org> 1600000000", 1970),
        ("Ada <ada@example.org> 1600000000 +0000 <x>", 1970),
        ("Ada <ada@example.org 1600000000 +0000", 1970),
        ("Ada <ada@example.org>> 1600000000 +0000", 2020),
    ],
)
def test_a_malformed_signature_does_not_hide_its_commit(repo: Repo, signature: str, year: int) -> None:
    """Commits with malformed signatures, which git accepts, are read.

    An impossible date becomes a date in 1970, as in git's output. A date after the year 9999 becomes one in 9999.
    """
    tree = repo.git("rev-parse", "HEAD^{tree}")
    text = f"tree {tree}\nparent {repo.head}\nauthor {signature}\ncommitter {signature}\n\nOdd\n"
    arguments = ["hash-object", "-t", "commit", "-w", "--literally", "--stdin"]
    sha = repo.git(*arguments, stdin=text.encode())
    opened = open_repository(repo.path)
    commit = opened.read_commit(sha)
    assert (commit.message, commit.author_name, commit.commit_date.year) == ("Odd", "Ada", year)
    assert opened.walk(sha)[-1] == sha
    assert extract_hunks(opened, sha, ignore_nothing).hunks == ()


def test_head_may_be_a_commit_that_libgit2_rejects(repo: Repo) -> None:
    """HEAD is read even if it is a malformed commit or a tag of a malformed commit."""
    tree = repo.git("rev-parse", "HEAD^{tree}")
    text = f"tree {tree}\nparent {repo.head}\nauthor Ada\ncommitter Ada\n\nOdd\n"
    arguments = ["hash-object", "-t", "commit", "-w", "--literally", "--stdin"]
    sha = repo.git(*arguments, stdin=text.encode())
    repo.git("update-ref", "HEAD", sha)
    opened = open_repository(repo.path)
    assert (opened.read_head(), opened.read_file_at_head("src/b.py")) == (sha, b"b = 1\n")
    assert [opened.read_commit(commit).message for commit in opened.walk(sha)] == ["First", "Second", "Odd"]
    repo.git("tag", "--annotate", "--message=Tagged", "tag")
    (repo.path / ".git/HEAD").write_text(repo.git("rev-parse", "tag") + "\n")
    assert open_repository(repo.path).read_head() == sha


def test_a_missing_head_is_unreadable(repo: Repo) -> None:
    """HEAD is unreadable if its object is missing or is not a commit, or if a crash left only NUL bytes."""
    for sha in ("1" * 40, repo.git("rev-parse", "HEAD:a.py"), "\0" * 40):
        (repo.path / ".git/HEAD").write_text(f"{sha}\n")
        with pytest.raises(UnreadableObject, match="HEAD cannot be read"):
            open_repository(repo.path).read_head()


@pytest.mark.parametrize(
    "content", ["garbage", "", "\0" * 40, "ref: nonsense", "ref: refs/heads/../x", "1" * 40]
)
def test_damaged_head_is_repaired_as_the_hint_says(repo: Repo, content: str) -> None:
    """git refuses all commands with a damaged HEAD, so the hint says what to write into the file."""
    head, file = repo.head, repo.path / ".git/HEAD"
    file.write_text(f"{content}\n")
    with pytest.raises(UnreadableObject) as error:
        open_repository(repo.path).read_head()
    assert error.value.hint == f"Write `ref: refs/heads/BRANCH` into {file}, with the name of your branch."
    file.write_text("ref: refs/heads/main\n")
    assert open_repository(repo.path).read_head() == head == repo.head


@pytest.mark.parametrize("content", ["garbage", "", "1" * 40])
def test_damaged_branch_is_repaired_as_the_hint_says(repo: Repo, content: str) -> None:
    """git cannot set a branch whose file is damaged, so the hint says what to write into the file."""
    head, file, log = repo.head, repo.path / ".git/refs/heads/main", repo.path / ".git/logs/HEAD"
    file.write_text(f"{content}\n")
    with pytest.raises(UnreadableObject) as error:
        open_repository(repo.path).read_head()
    assert (
        f"Write the SHA of a commit into {file}: {log} lists earlier ones, the newest last."
        in error.value.hint
    )
    file.write_text(f"{log.read_text().splitlines()[-1].split()[1]}\n")
    assert open_repository(repo.path).read_head() == head == repo.head


def test_files_of_nul_bytes_are_errors(repo: Repo) -> None:
    """If a crash left NUL bytes in `packed-refs`, or in a file `.git`, the error says what cannot be read."""
    (repo.path / ".git/packed-refs").write_bytes(b"\0" * 40)
    for list_names in (Repository.list_references, Repository.list_tag_targets, Repository.list_tags):
        with pytest.raises(UnreadableObject, match="the references cannot be read"):
            list_names(open_repository(repo.path))
    (repo.path / ".git").rename(repo.path / "moved")
    (repo.path / ".git").write_bytes(b"\0" * 40)
    with pytest.raises(DamagedRepository, match=r"`\.git` file at .* is malformed"):
        open_repository(repo.path)


def test_deeply_nested_directories_are_listed_and_compared(repo: Repo) -> None:
    """A file below 1,200 directories is listed and compared, in a merge too."""
    trees = []
    for content in (b"one", b"two", b"both"):
        entry = f"100644 blob {repo.git('hash-object', '-w', '--stdin', stdin=content)}\tf\n"
        trees.append(create_nested_tree(repo, entry.encode()))
    parents = [repo.git("commit-tree", tree, stdin=b"side") for tree in trees[:2]]
    merge = repo.git("commit-tree", trees[2], *(f"-p{parent}" for parent in parents), stdin=b"merge")
    opened = open_repository(repo.path)
    path = "d/" * 1_200 + "f"
    assert [file_path for file_path, _ in opened.list_files(merge)] == [path]
    for sha in (*parents, merge):
        assert [hunk.file_path for hunk in extract_hunks(opened, sha, ignore_nothing).hunks] == [path]


def create_nested_tree(repo: Repo, entry: bytes) -> str:
    """Create a tree of nested directories in this process; `git mktree` would take a process for each."""
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
def test_no_encoding_leaves_lone_surrogates(repo: Repo, encoding: str) -> None:
    """With any declared encoding, names and message can be encoded as UTF-8."""
    tree, text = repo.git("rev-parse", "HEAD^{tree}"), b"hi +2AA- \\ud800 there \x00\xd8 \\x"
    author = b"A+2AA- \\udfff <a+3/8-@b> 1 +0000"
    head = f"tree {tree}\nauthor ".encode() + author + b"\ncommitter " + author
    data = head + f"\nencoding {encoding}\n\n".encode() + text
    sha = repo.git("hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=data)
    commit = open_repository(repo.path).read_commit(sha)
    for value in (commit.message, commit.author_name, commit.author_email):
        assert value.encode().decode() == value
    if encoding in ("unicode_escape", "utf-7"):
        assert "hi " in commit.message and "there" in commit.message


def test_a_message_is_decoded_by_its_own_encoding(repo: Repo) -> None:
    """Latin-1 commits are decoded as Latin-1; with an unknown encoding bad bytes are replaced."""
    repo.git("config", "i18n.commitEncoding", "ISO-8859-1")
    repo.git("commit", "--quiet", "--allow-empty", "--file=-", stdin="Größe".encode("latin-1"))
    latin = repo.head
    repo.git("config", "i18n.commitEncoding", "no-such-encoding")
    repo.git("commit", "--quiet", "--allow-empty", "--file=-", stdin=b"bad \xff byte")
    opened = open_repository(repo.path)
    assert opened.read_commit(latin).message == "Größe"
    assert opened.read_commit(repo.head).message == "bad \ufffd byte"


def test_only_regular_files_are_listed(repo: Repo) -> None:
    """Regular and executable files are listed, symlinks and submodules are not."""
    repo.write("run.sh", "#!/bin/sh\n", executable=True)
    repo.symlink("link", "a.py")
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{repo.head},module")
    repo.git("add", "run.sh", "link")
    sha = repo.commit("More", add=False)
    opened = open_repository(repo.path)
    files = opened.list_files(sha)
    assert [path for path, _ in files] == ["a.py", "run.sh", "src/b.py"]
    assert opened.read_blob(dict(files)["run.sh"]) == b"#!/bin/sh\n"


def test_directory_is_no_file_at_head(repo: Repo) -> None:
    """A directory has no content at HEAD, and its mode is not that of a regular file."""
    repo.commit_file("lib/a.py", "a\n")
    opened = open_repository(repo.path)
    entry = opened.find_entry(repo.head, b"lib")
    assert entry is not None
    assert not is_regular(entry.mode)
    assert (opened.read_file_at_head("lib"), opened.read_file_at_head("lib/a.py")) == (None, b"a\n")


def test_a_missing_object_names_the_commit_that_needs_it(repo: Repo) -> None:
    """The error for a missing or damaged object names the commit, and other commits are readable."""
    first, second = repo.git("rev-parse", "HEAD~1"), repo.head
    third = repo.commit_file("a.py", "a = 3\n", "Third")
    blob = repo.git("rev-parse", f"{third}:a.py")
    object_file = repo.path / ".git/objects" / blob[:2] / blob[2:]
    object_file.chmod(0o644)
    object_file.write_bytes(b"damaged")
    with pytest.raises(UnreadableObject) as error_info:
        extract_hunks(open_repository(repo.path), third, ignore_nothing)
    assert error_info.value.sha == third
    object_file.unlink()
    with pytest.raises(UnreadableObject, match=f"{blob} is missing"):
        extract_hunks(open_repository(repo.path), third, ignore_nothing)
    opened = open_repository(repo.path)
    assert opened.read_commit(third).message == "Third"
    assert [len(extract_hunks(opened, sha, ignore_nothing).hunks) for sha in (first, second)] == [1, 1]


def test_a_missing_tree_is_unreadable(repo: Repo) -> None:
    """A commit without its tree is unreadable, and so is its child."""
    tree = repo.git("rev-parse", "HEAD~1^{tree}")
    (repo.path / ".git/objects" / tree[:2] / tree[2:]).unlink()
    opened = open_repository(repo.path)
    for sha in (repo.git("rev-parse", "HEAD~1"), repo.head):
        with pytest.raises(UnreadableObject, match=tree):
            extract_hunks(opened, sha, ignore_nothing)


def test_empty_tree_that_is_not_stored(tmp_path: Path) -> None:
    """git knows the empty tree without a stored object, so commits and directories with it are readable."""
    repo = Repo.create(tmp_path / "work")
    empty_tree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
    first = repo.git("commit-tree", empty_tree, "-m", "First")
    repo.git("reset", "--quiet", "--hard", first)
    repo.symlink("link", "a.py")
    full = repo.commit_file("a.py", "a = 1\n")
    second = repo.commit_file("b.py", "b = 1\n")
    empty = repo.git("commit-tree", empty_tree, f"-p{full}", "-m", "Delete all")
    merge = repo.git("commit-tree", empty_tree, f"-p{full}", f"-p{first}", "-m", "Merge")
    deleting_merge = repo.git(
        "commit-tree", empty_tree, f"-p{full}", f"-p{second}", "-m", "Delete by a merge"
    )
    nested_tree = repo.git("mktree", "--missing", stdin=f"40000 tree {empty_tree}\tsub\n".encode())
    nested = repo.git("commit-tree", nested_tree, f"-p{full}", "-m", "Nest")
    assert not (repo.path / ".git/objects" / empty_tree[:2] / empty_tree[2:]).exists()
    repository = open_repository(repo.path)
    both_files = [(b"a.py", "deleted"), (b"link", "deleted")]
    for sha, expected in {
        first: [[]],
        full: [[(b"a.py", "added"), (b"link", "added")]],
        empty: [both_files],
        merge: [],
        deleting_merge: [both_files, both_files],
        nested: [both_files],
    }.items():
        diffs = repository.diff_with_parents(sha)
        assert [[(change.path, change.kind) for change in diff.changes] for diff in diffs] == expected
    assert repository.list_files(empty) == [] and repository.find_entry(empty, b"a.py") is None


def test_a_tree_is_not_read_as_a_commit(repo: Repo) -> None:
    """Reading a tree's sha as a commit is an error."""
    tree = repo.git("rev-parse", "HEAD^{tree}")
    with pytest.raises(UnreadableObject, match="not a commit"):
        open_repository(repo.path).read_commit(tree)


def test_no_configured_program_runs(repo: Repo, tmp_path: Path) -> None:
    """Configured filters, textconv, external diffs and fsmonitor programs never run."""
    trace_file = tmp_path / "ran"
    for key in ("filter.trap.clean", "filter.trap.smudge", "diff.trap.textconv", "diff.trap.command"):
        repo.git("config", key, f"touch {trace_file};")
    repo.git("config", "core.fsmonitor", f"touch {trace_file}; false")
    (repo.path / ".gitattributes").write_text("*.py filter=trap diff=trap\n")
    opened = open_repository(repo.path)
    for sha in opened.walk(repo.head):
        assert extract_hunks(opened, sha, ignore_nothing).hunks
    assert not trace_file.exists()


@pytest.mark.parametrize("repository_kind", ["packed", "shallow", "bare", "worktree"])
def test_released_memory_is_read_again(repo: Repo, tmp_path: Path, repository_kind: str) -> None:
    """After `release_memory` the same commits and changes are read."""
    repo.commit_file("a.py", "a = 2\n", "Third")
    repo.git("gc", "--quiet")
    copy_path = tmp_path / repository_kind
    match repository_kind:
        case "shallow":
            repo.git("clone", "--quiet", "--depth=2", repo.path.as_uri(), str(copy_path))
        case "bare":
            repo.git("clone", "--quiet", "--bare", str(repo.path), str(copy_path))
        case "worktree":
            repo.git("worktree", "add", "--quiet", "--detach", str(copy_path))
    opened = open_repository(copy_path if copy_path.exists() else repo.path)
    shas, old_history = opened.walk(repo.head), read_history(opened)
    assert len(shas) == 2 + (repository_kind != "shallow") and old_history
    opened.release_memory()
    assert (opened.walk(repo.head), read_history(opened)) == (shas, old_history)


def test_a_deleted_repository_is_an_error(repo: Repo) -> None:
    """A repository that is deleted while it is open gives an error with a message."""
    opened = open_repository(repo.path)
    shutil.rmtree(repo.path)
    with pytest.raises(LineageError):
        opened.release_memory()


@pytest.mark.skipif(not MAPS.exists(), reason="only Linux lists the files that a process has mapped")
def test_released_packs_are_not_mapped(repo: Repo) -> None:
    """After `release_memory` no pack file is mapped into the process."""
    repo.git("gc", "--quiet")
    opened = open_repository(repo.path)
    read_history(opened)
    assert str(repo.path) in MAPS.read_text()
    opened.release_memory()
    assert str(repo.path) not in MAPS.read_text()


def read_history(opened: Repository) -> list[tuple[Commit, CommitChanges]]:
    """Return every commit that HEAD reaches, with its changes, except those at the shallow boundary."""
    shas = [sha for sha in opened.walk(opened.read_head() or "") if sha not in opened.shallow_boundary]
    return [(opened.read_commit(sha), extract_hunks(opened, sha, ignore_nothing)) for sha in shas]


def test_dates_have_no_zone(repo: Repo) -> None:
    """Dates are naive, in UTC."""
    commit = open_repository(repo.path).read_commit(repo.head)
    assert commit.author_date.tzinfo is None
    assert commit.author_date.replace(tzinfo=UTC) == repo.clock


@pytest.mark.parametrize(
    "name",
    [
        "commondir",
        "config",
        "index",
        "info/exclude",
        "info/grafts",
        "local.config",
        "objects/info/commit-graph",
        "objects/pack/multi-pack-index",
        "packed-refs",
        "refs/heads/main",
        "shallow",
    ],
)
def test_pipe_in_the_git_directory(repo: Repo, name: str) -> None:
    """git would wait forever for a pipe in place of one of its files, so the repository is not opened."""
    if name == "local.config":
        repo.git("config", "include.path", "more.config")
        (repo.path / ".git" / "more.config").write_text(f'[include]\n\tpath = "{name}" # local\n')
    file = repo.path / ".git" / name
    file.unlink(missing_ok=True)
    os.mkfifo(file)
    with pytest.raises(DamagedRepository, match=f"{name} is no regular file"):
        open_repository(repo.path)
    file.unlink()
    file.symlink_to("/dev/zero")
    with pytest.raises(DamagedRepository, match=f"{name} is no regular file"):
        open_repository(repo.path)


def test_settings_that_are_not_utf8(repo: Repo) -> None:
    """Bytes of a setting that are not UTF-8 are kept, and a setting with such a name is left out."""
    repo.commit_file("a.py", "1\n")
    repo.git("config", "user.name", "Jos\udce9")
    repo.git("config", "branch.caf\udce9.remote", "origin")
    repo.git("config", "mailmap.file", "map\udce9")
    settings = dict(open_repository(repo.path).config)
    assert settings["user.name"] == "Jos\udce9"
    assert not any(name.startswith("branch.") for name in settings)


def test_mailmap_that_is_not_utf8(repo: Repo) -> None:
    """Bytes of a name of the mailmap that are not UTF-8 are replaced."""
    repo.write(".mailmap", b"Ren\xe9 <rene@example.org> <old@example.org>\nAda <ada@example.org>\n")
    emails = ("old@example.org", "ada@example.org")
    shas = [repo.commit(email, author=f"Someone <{email}>") for email in emails]
    commits = [open_repository(repo.path).read_commit(sha) for sha in shas]
    assert [(commit.author_name, commit.author_email) for commit in commits] == [
        ("Ren\ufffd", "rene@example.org"),
        ("Ada", "ada@example.org"),
    ]


def test_head_on_a_missing_branch_that_is_not_utf8(repo: Repo) -> None:
    """HEAD can name a branch without commits whose name is not UTF-8."""
    repo.commit_file("a.py", "1\n")
    repo.git("checkout", "--quiet", "--orphan", "caf\udce9")
    repository = open_repository(repo.path)
    assert repository.read_head() is None
    assert "names the branch" in str(repository.build_head_error())
