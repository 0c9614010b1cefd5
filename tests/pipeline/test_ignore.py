"""Three layers of ignore rules, the last that speaks decides."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from errno import EACCES
from pathlib import Path

import pygit2
import pytest
from pygit2.enums import ConfigLevel

from pipeline import ignore
from pipeline.git import git_dir
from pipeline.git.repository import open_repository
from pipeline.hunks import hunks
from pipeline.ignore import IgnoreRules, UnreadableRules
from tests.repos import Repo


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = Repo.create(tmp_path / "work")
    made.commit_file("a.py", "a\n")
    return made


def rules(repo: Repo) -> IgnoreRules:
    return IgnoreRules.of(open_repository(repo.path))


def ignored(repo: Repo, *paths: str) -> list[bool]:
    found = rules(repo)
    return [found.ignored(path) for path in paths]


def test_defaults_leave_out_what_programs_write(repo: Repo) -> None:
    """Lock files, copied dependencies and built files are out; look-alikes written by people are in."""
    out = ["package-lock.json", "web/yarn.lock", "node_modules/x/a.js", "lib/a.min.js", "api/x_pb2.py"]
    out += [
        "dist/a.js",
        "sub/target/debug/a.d",
        "bun.lockb",
        "deno.lock",
        "flake.lock",
        "mix.lock",
        "pixi.lock",
    ]
    out += ["ios/Podfile.lock", "app/pubspec.lock", "src/packages.lock.json", "Package.resolved"]
    kept = [
        "a.py",
        "src/lock.py",
        "vendors.py",
        "docs/node_modules.md",
        "build/rules.py",
        "src/dist.py",
        "target.go",
    ]
    assert ignored(repo, *out) == [True] * len(out)
    assert ignored(repo, *kept) == [False] * len(kept)


def test_every_default_can_be_brought_back(repo: Repo) -> None:
    """One line in `.lineageignore` overrules one default; the others stand."""
    repo.write(".lineageignore", "!dist/\n!/target/\n")
    assert ignored(repo, "dist/a.js", "web/dist/b.js", "target/x", "sub/target/x") == [
        False,
        False,
        False,
        True,
    ]


def test_attributes_overrule_defaults(repo: Repo) -> None:
    """`linguist-generated` and `linguist-vendored` leave paths out, and unset bring them back."""
    repo.write(
        ".gitattributes",
        "gen/* linguist-generated\nthird/** linguist-vendored=true\nyarn.lock -linguist-generated\n",
    )
    repo.write("sub/.gitattributes", "made.py linguist-generated\ngo.sum linguist-generated=false\n")
    repo.commit("Attributes")
    paths = ("gen/a.py", "third/x/b.c", "yarn.lock", "sub/made.py", "sub/go.sum", "a.py", "Cargo.lock")
    assert ignored(repo, *paths) == [True, True, False, True, False, False, True]


def test_attributes_of_the_clone_alone_count(repo: Repo) -> None:
    """`info/attributes` speaks like a committed attribute file."""
    (repo.path / ".git/info").mkdir(exist_ok=True)
    (repo.path / ".git/info/attributes").write_text("a.py linguist-generated\n")
    assert ignored(repo, "a.py", "b.py") == [True, False]


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Path]:
    """Where git looks for the attributes that a person has for all repositories."""
    before = pygit2.settings.search_path[ConfigLevel.XDG]
    pygit2.settings.search_path[ConfigLevel.XDG] = str(tmp_path)
    yield tmp_path / "attributes"
    pygit2.settings.search_path[ConfigLevel.XDG] = before


@pytest.mark.parametrize("configured", [False, True])
def test_the_persons_own_attributes_count(repo: Repo, own: Path, configured: bool) -> None:
    """Those for all repositories speak whatever the repository itself mentions: from the usual file, or another."""
    if configured:
        own = own.with_name("others")
        repo.git("config", "core.attributesFile", str(own))
    own.write_text("a.py linguist-generated\n")
    assert ignored(repo, "a.py", "b.py") == [True, False]


def test_the_ignore_file_overrules_everything(repo: Repo) -> None:
    """`.lineageignore` has the last word both ways, whatever layer spoke before."""
    repo.write(".gitattributes", "gen/* linguist-generated\n")
    repo.write(
        ".lineageignore", "# ours\n*.md\n!README.md\n!yarn.lock\n!gen/kept.py\n!vendor/ours/\n/top.py\n"
    )
    repo.commit("Rules")
    paths = {
        "docs/a.md": True,
        "README.md": False,
        "yarn.lock": False,
        "gen/kept.py": False,
        "gen/other.py": True,
        "vendor/ours/a.go": False,
        "vendor/theirs/a.go": True,
        "top.py": True,
        "sub/top.py": False,
    }
    assert ignored(repo, *paths) == list(paths.values())


def test_a_file_below_an_excluded_folder_can_be_brought_back(repo: Repo) -> None:
    """Naming it is enough, unlike in `.gitignore`, where its folder would have to be walked."""
    repo.write(".lineageignore", "data/\n!data/kept.csv\nlogs/*\n!logs/kept.log\n")
    assert ignored(repo, "data/kept.csv", "logs/kept.log", "logs/other.log") == [False, False, True]


def test_an_uncommitted_ignore_file_counts(repo: Repo) -> None:
    """The rules are those of the work tree, so they can be tried before they are committed."""
    assert ignored(repo, "a.py") == [False]
    repo.write(".lineageignore", "a.py\n")
    assert ignored(repo, "a.py") == [True]


def test_the_lines_of_the_ignore_file_are_gits(repo: Repo) -> None:
    """A byte order mark is no part of a pattern, a form feed is one; what is no pattern says nothing."""
    repo.write(".lineageignore", b"\xef\xbb\xbffirst.py\r\nform\x0cfeed.py\n!\nback\\\n[9-0]\nlast.py\r")
    paths = {"first.py": True, "form\x0cfeed.py": True, "form": False, "feed.py": False, "last.py": True}
    assert ignored(repo, *paths) == list(paths.values())


def test_a_pipe_is_no_file_of_rules(repo: Repo) -> None:
    """Whatever waits to be read says nothing: nobody would ever write into it."""
    repo.write("sub/b.py", "b\n")
    repo.write("sub/.gitattributes", "b.py linguist-generated\n")
    sha = repo.commit("Attributes")
    (repo.path / "sub/.gitattributes").unlink()
    for name in (".gitattributes", "sub/.gitattributes", ".mailmap"):
        os.mkfifo(repo.path / name)
    assert ignored(repo, "sub/b.py", "a.py", "yarn.lock") == [False, False, True]
    assert len(hunks(open_repository(repo.path), sha, lambda _: False).hunks) == 2


@pytest.mark.parametrize("of_the_clone", [True, False])
def test_a_pipe_is_nobodys_attributes(repo: Repo, own: Path, of_the_clone: bool) -> None:
    """Nor is one in the place of the clone's own, or of the person's, waited for."""
    repo.write("b.py", "b\n")
    repo.write(".gitattributes", "b.py linguist-generated\n")
    sha = repo.commit("Attributes")
    place = repo.path / ".git/info/attributes" if of_the_clone else own
    place.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(place)
    assert ignored(repo, "a.py", "yarn.lock") == [False, True]
    assert len(hunks(open_repository(repo.path), sha, lambda _: False).hunks) == 2


@pytest.mark.parametrize("kind", ["dangling", "loop", "folder", "pipe"])
def test_an_ignore_file_that_is_none_is_refused(repo: Repo, kind: str) -> None:
    """What it was to leave out, as the target of a link that is not mounted says, is not known."""
    file = repo.path / ".lineageignore"
    match kind:
        case "folder":
            file.mkdir()
        case "pipe":
            os.mkfifo(file)
        case _:
            file.symlink_to("nowhere" if kind == "dangling" else file.name)
    with pytest.raises(UnreadableRules, match=r"\.lineageignore cannot be read"):
        rules(repo)


def test_rules_that_cannot_be_read_are_refused(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they leave out must not be indexed for that; the error names the file."""

    def refused(file: Path) -> bytes:
        raise PermissionError(EACCES, os.strerror(EACCES), file)  # root, who runs tests, reads everything

    monkeypatch.setattr(git_dir, "content", refused)
    with pytest.raises(UnreadableRules, match=r"\.lineageignore cannot be read: Permission denied"):
        rules(repo)


def test_a_bare_repository_has_the_rules_of_its_head(repo: Repo, tmp_path: Path) -> None:
    """Without a work tree, ignore and attribute files are read at HEAD."""
    repo.write(".lineageignore", "*.md\n")
    repo.write("sub/.gitattributes", "x.py linguist-generated\n")
    repo.commit("Rules")
    bare = repo.clone(tmp_path / "bare.git", "--bare")
    assert ignored(bare, "a.md", "sub/x.py", "a.py", "yarn.lock") == [True, True, False, True]


def test_an_empty_repository_has_the_defaults(tmp_path: Path) -> None:
    """Before the first commit there is nothing to read rules from but the work tree."""
    assert ignored(Repo.create(tmp_path / "new"), "yarn.lock", "a.py") == [True, False]


def test_rules_travel_to_workers(repo: Repo) -> None:
    """Pickled rules, used or not, decide the same on the other side."""
    repo.write(".gitattributes", "gen/* linguist-generated\n")
    repo.write(".lineageignore", "!gen/kept.py\n")
    paths = ("gen/a.py", "gen/kept.py", "yarn.lock", "a.py")
    here = rules(repo)
    before = pickle.dumps(here)
    decided = [here.ignored(path) for path in paths]
    for sent in (before, pickle.dumps(here)):
        there = pickle.loads(sent)  # noqa: S301 - our own bytes
        assert [there.ignored(path) for path in paths] == decided == [True, False, True, False]


def test_verdicts_are_remembered_within_a_bound(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many paths a history has, memory for verdicts ends, and verdicts stay right."""
    monkeypatch.setattr(ignore, "REMEMBERED_PATHS", 2)
    found = rules(repo)
    for _ in range(2):
        assert [found.ignored(path) for path in ("a.py", "yarn.lock", "b.py", "go.sum")] == [False, True] * 2
    assert len(found._verdicts) <= 2
