"""The one door to git: opens a repository and reads its objects through libgit2.

Nothing here runs a program, a filter, a textconv or an external diff, and nothing goes to the network:
a partial clone's absent objects are reported as unreadable, like damaged ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from itertools import accumulate, islice
from pathlib import Path
from typing import Final

import pygit2
from pygit2.enums import AttrCheck, ObjectType, SortMode

from pipeline.git import git_dir, patches
from pipeline.git.changes import TREE_MODE, RawPatch, regular, shown_path
from pipeline.git.errors import BEYOND_BOUNDARY, UnreadableObject, not_found, refusal
from pipeline.git.git_dir import boundary, common_dir, is_partial
from pipeline.git.libgit2 import Reading, is_bare_unsaid, leads, mailmap, persons_attributes
from pipeline.git.merges import wrote_files
from pipeline.git.objects import (
    Commit,
    Links,
    Parents,
    TreeEntry,
    links_of,
    parents_first,
    parse_commit,
    reachable,
    tagged,
)
from pipeline.git.patches import Part
from pipeline.git.tree_cache import Folders, Recent
from pipeline.git.tree_diff import Compared, Difference, Edited, Sources, edits, patch_between, trees

__all__ = ["Commit", "Difference", "Repository", "TreeEntry", "UnreadableObject", "open_repository"]

# Contents kept for what follows: the next version's diff, and the parser, ask for the one just read.
KEPT_BLOB_BYTES: Final = 2 << 20
# Commits whose tree and parents are remembered: a commit's parent is mostly among the last few read.
REMEMBERED_COMMITS: Final = 1000
# Paths of which is remembered whether an attribute says how they are compared; each costs about 150 bytes.
REMEMBERED_PATHS: Final = 4_000


def open_repository(path: Path) -> Repository:
    """The repository that holds `path`: a work tree, a linked one, a bare repository, or anything inside."""
    there = path.exists()
    start = str(path if path.is_dir() else path.parent)
    if not there or pygit2.discover_repository(start) is None:
        raise not_found(path, there=there)
    try:
        # From where somebody stands: from its git directory alone libgit2 takes what is around that for the work tree.
        return Repository(pygit2.Repository(start))
    except pygit2.GitError as error:
        raise refusal(path, str(error)) from error


class Repository:
    """Reads one repository. Not for sharing between threads or processes: each opens its own."""

    def __init__(self, git: pygit2.Repository) -> None:
        self._git = git
        self._odb = git.odb
        git_dir = Path(git.path).resolve()
        common = common_dir(git_dir)
        self.common_dir: Path = common
        self.git_dir: Path = git_dir
        self.objects: Path = common / "objects"
        self.is_bare: bool = git.is_bare or is_bare_unsaid(git, git_dir)
        self.root: Path = git_dir if self.is_bare else Path(git.workdir).resolve()
        # What opens it again: of a work tree that `core.worktree` names, which need not know, the git directory.
        self.door: Path = self.root if leads(self.root, git_dir) else git_dir
        self.canonical: Path = common.parent if common.name == ".git" else common
        self.boundary: frozenset[str] = boundary(common)
        self.is_shallow: bool = bool(self.boundary)
        self.is_partial: bool = is_partial(self.configuration)
        self._mailmap = mailmap(git)
        self._lately: dict[str, Links] = {}
        self._diff_paths: dict[bytes, str] = {}
        self._barred: dict[str, bool] = {}
        self._blobs = Recent[str, pygit2.Blob](KEPT_BLOB_BYTES)
        self._folders = Folders(partial(_tree, self._odb))

    def let_go(self) -> None:
        """Give back the memory of what was read, mapped packs included, by opening the repository anew."""
        self._lately.clear()
        self._diff_paths.clear()
        self._blobs = Recent(KEPT_BLOB_BYTES)
        # Packs stay as long as one repository of the process has them. This one knows itself by its branches and
        # remotes, and would until such circles are looked for.
        del self._odb, self._folders
        self._git.free()
        try:
            self._git = pygit2.Repository(str(self.door))
            self._odb = self._git.odb
            self._folders = Folders(partial(_tree, self._odb))
        except pygit2.GitError as error:
            raise refusal(self.root, str(error)) from error

    def head(self) -> str | None:
        """The commit HEAD names, on a branch or detached; None before the first commit."""
        try:
            named = self._git.head.target
        except pygit2.GitError as error:
            if self._git.head_is_unborn:
                return None
            raise UnreadableObject("HEAD", str(error)) from error
        return self._peeled(str(named))

    def _peeled(self, sha: str) -> str:
        """The commit that a tag stands for; libgit2 would load it, and refuse what git only complains about."""
        with Reading("HEAD"):
            while (kind := self._odb.read_header(sha)[0]) == ObjectType.TAG:
                sha = tagged(self._odb.read(sha)[1])
        if kind != ObjectType.COMMIT:
            raise UnreadableObject("HEAD", f"{sha} is not a commit")
        return sha

    def first_commit(self, sha: str) -> str:
        """The first-parent line's oldest commit: a root, a shallow boundary, or the last readable."""
        while True:
            try:
                parents = self._links(sha).parents
            except UnreadableObject:
                return sha
            if not parents or not self.contains(parents[0]):
                return sha
            sha = parents[0]

    def contains(self, sha: str) -> bool:
        """Whether the object is here."""
        return sha in self._odb

    def is_commit(self, sha: str) -> bool:
        """Whether the object is here and a commit."""
        return self.contains(sha) and self._odb.read_header(sha)[0] == ObjectType.COMMIT

    def readable(self, sha: str) -> bool:
        """Whether a commit is here together with its parents' names."""
        return sha not in self.boundary and self.contains(sha)

    def walk(self, tip: str, *, hide: Iterable[str] = ()) -> list[str]:
        """Every commit that `tip` reaches and the hidden ones do not, parents before children.

        A missing or damaged commit is in the list, as one without parents; what lies behind it is not.
        """
        hidden = [sha for sha in hide if self.contains(sha)]
        return parents_first(tip, self._history(tip, hidden))

    def reaches_more(self, tip: str, commits: int) -> bool:
        """Whether a tip reaches more commits than these; of a damaged history, whether that is sure."""
        with suppress(KeyError, pygit2.GitError):
            return any(True for _ in islice(self._git.walk(tip, SortMode.NONE), commits, None))
        return False

    def commit(self, sha: str) -> Commit:
        """A commit's fields, its author as `.mailmap` names them."""
        with Reading(sha):
            kind, data = self._odb.read(sha)
        if kind != ObjectType.COMMIT:
            raise UnreadableObject(sha, "not a commit")
        commit = parse_commit(sha, data)
        name, email = commit.author_name, commit.author_email
        if "\0" not in name + email:
            name, email = self._mailmap.resolve(name, email)
        parents = () if sha in self.boundary else commit.parents
        self._remember(sha, Links(commit.tree, parents))
        return replace(commit, parents=parents, author_name=name, author_email=email)

    def differences(self, sha: str) -> list[Difference]:
        """What a commit changed, against each of its parents, or against nothing for a root.

        None for a merge where no path differs from every parent. Renames are followed.
        """
        if sha in self.boundary:
            raise UnreadableObject(sha, BEYOND_BOUNDARY)
        links = self._links(sha)
        parents = [self._links(parent).tree for parent in links.parents]
        with Reading(sha):
            if len(parents) > 1 and not self._wrote_files(links.tree, parents):
                return []
            if len(parents) > 1:
                found = [self._compared(sha, old, links.tree) for old in parents]
                return [*self._differing_from_all(found)]
            return [self._difference(sha, parents[0] if parents else None, links.tree)]

    def _difference(self, sha: str, old: str | None, new: str) -> Difference:
        entries = self._folders.entries(bytes.fromhex(old)) if old else {}
        plain = edits(entries, self._folders.entries(bytes.fromhex(new)), self._folders.entries)
        if plain is not None:
            return Edited(sha, plain, self._sources)
        found = self._compared(sha, old, new)
        found.follow_renames()
        return found

    def _compared(self, sha: str, old: str | None, new: str) -> Compared:
        return Compared(sha, trees(self._git, old, new), self._sources)

    @property
    def _sources(self) -> Sources:
        return Sources(blob=self._blob, size=self.size, named=self._diff_path)

    def _diff_path(self, path: bytes) -> str:
        """The path a difference is made under; empty where no attribute of it says how.

        libgit2 would look for one at every difference, by system calls for each directory on the way.
        """
        if path not in self._diff_paths:
            if len(self._diff_paths) >= REMEMBERED_PATHS:
                self._diff_paths.clear()
            name = shown_path(path)
            said = None if self._bars_attributes(name) else self._git.get_attr(name, "diff")
            self._diff_paths[path] = "" if said is None else name
        return self._diff_paths[path]

    def _bars_attributes(self, path: str) -> bool:
        """Whether asking for a path's attributes would wait for ever, as git would: some file of them is a pipe."""
        if self._own_attributes_wait:
            return True
        folder = path.rpartition("/")[0]
        if folder not in self._barred:
            if len(self._barred) >= REMEMBERED_PATHS:
                self._barred.clear()
            folders = ("", *accumulate(folder.split("/"), "{}/{}".format))
            # By its bytes: in a locale of ASCII a name that Python is to encode itself must not have other letters.
            places = (self.root / os.fsdecode(above.encode()) for above in folders)
            files = (place / git_dir.ATTRIBUTE_FILE for place in places)
            self._barred[folder] = any(map(git_dir.waits, files))
        return self._barred[folder]

    @cached_property
    def _own_attributes_wait(self) -> bool:
        return any(file is not None and git_dir.waits(file) for file in self._own_attribute_files)

    def _differing_from_all(self, found: list[Compared]) -> list[Compared]:
        """A merge's differences, cut to the paths that differ from every parent."""
        kinds = [difference.paths() for difference in found]
        shared = set(kinds[0]).intersection(*kinds[1:])
        if any(kind[path] == "A" for kind in kinds for path in shared):  # or it has another name in a parent
            for difference in found:
                difference.follow_renames()
        for difference in found:
            difference.keep(shared)
        return found if shared else []

    def _wrote_files(self, result: str, parents: Iterable[str]) -> bool:
        own, *others = (self._folders.entries(bytes.fromhex(tree)) for tree in (result, *parents))
        return wrote_files(own, others, self._folders.entries)

    def blob(self, sha: str) -> bytes:
        """A file's content."""
        with Reading(sha):
            return self._blob(sha).data

    def size(self, sha: str) -> int:
        """A file's length in bytes, without reading it."""
        kept = self._blobs.get(sha)
        if kept is not None:
            return kept.size
        with Reading(sha):
            return self._odb.read_header(sha)[1]

    def parts(self, old: str, new: str) -> tuple[Part, ...]:
        """The `@@` parts that lead from one file's content to another's, without context; none for binary ones."""
        with Reading(new):
            # From bytes libgit2 would compute two names first, which took as long as the difference.
            patch = pygit2.Patch.create_from(self._blob(old), self._blob(new), context_lines=0)
        return patches.bare(patches.body(patch.data))

    def tree_files(self, sha: str) -> list[tuple[str, str]]:
        """(path, blob) of each regular file in a commit's tree; symlinks and submodules left out."""
        tree = self._links(sha).tree
        with Reading(sha):
            return [(shown_path(path), blob) for path, blob in self._folders.files(tree)]

    def entry(self, commit: str, path: bytes) -> TreeEntry | None:
        """What a commit has at a path, or the submodule on the way there; None where it has neither."""
        tree = self._links(commit).tree
        with Reading(commit):
            return self._folders.at(tree, path)

    def is_staged(self, path: bytes) -> bool:
        """Whether git's index has the path: added or moved there since HEAD."""
        self._git.index.read(False)
        return os.fsdecode(path) in self._git.index

    def between(self, old: str | None, new: str | None) -> RawPatch:
        """What turns one file's content into another's; None for no content. Reads both whole."""
        before, after = (self.blob(sha) if sha else None for sha in (old, new))
        with Reading(new or old or ""):
            return patch_between(before, after)

    @cached_property
    def configuration(self) -> tuple[tuple[str, str], ...]:
        """Every setting that acts here, the person's own and the system's included, the last word last."""
        entries = ((entry.name, entry.value) for entry in self._git.config)
        return tuple((name, "true" if value is None else value) for name, value in entries)

    @property
    def filters(self) -> tuple[str, ...]:
        """Settings that name programs a file's content passes through on its way into git and out of it."""
        return git_dir.filters(self.configuration)

    def attribute(self, path: str, name: str) -> bool | str | None:
        """A git attribute of a path: from the work tree, or from HEAD in a bare repository."""
        flags = AttrCheck.INCLUDE_HEAD if self.is_bare else AttrCheck.FILE_THEN_INDEX
        if self._bars_attributes(path):
            return None
        try:
            return self._git.get_attr(path, name, flags=flags | AttrCheck.NO_SYSTEM)
        except (pygit2.GitError, KeyError, ValueError):  # attribute files that cannot be read say nothing
            return None

    def own_attributes(self) -> list[bytes]:
        """The attributes that are not part of the history: this clone's alone, and the person's own."""
        return [_content(file) for file in self._own_attribute_files if file]

    @property
    def _own_attribute_files(self) -> tuple[Path | None, ...]:
        return self.common_dir / "info" / "attributes", persons_attributes(dict(self.configuration))

    def read_at_head(self, path: str) -> bytes | None:
        """A file's content at HEAD; None when HEAD has no such file, or it cannot be read."""
        head = self.head()
        try:
            entry = self.entry(head, os.fsencode(path)) if head else None
            return self.blob(entry.sha) if entry and entry.mode != TREE_MODE and regular(entry.mode) else None
        except UnreadableObject:
            return None

    def _blob(self, sha: str) -> pygit2.Blob:
        """A file's content as libgit2 holds it; those read last are kept."""
        kept = self._blobs.get(sha)
        if kept is not None:
            return kept
        found = self._git[sha]
        if not isinstance(found, pygit2.Blob):
            raise KeyError(sha)
        self._blobs.keep(sha, found, found.size)
        return found

    def _links(self, sha: str) -> Links:
        """A commit's tree and parents; its children ask for them soon after."""
        links = self._lately.get(sha)
        if links is None:
            with Reading(sha):
                links = links_of(self._odb.read(sha)[1])
            if sha in self.boundary:
                links = Links(links.tree, ())
            self._remember(sha, links)
        return links

    def _remember(self, sha: str, links: Links) -> None:
        if len(self._lately) >= REMEMBERED_COMMITS:
            self._lately.clear()
        self._lately[sha] = links

    def _history(self, tip: str, hidden: list[str]) -> dict[str, Parents]:
        """Parents of each commit between `tip` and the hidden ones."""
        try:
            walker = self._git.walk(tip, SortMode.NONE)
            for sha in hidden:
                walker.hide(sha)
            return {str(commit.id): tuple(map(str, commit.parent_ids)) for commit in walker}
        except (pygit2.GitError, KeyError, ValueError):  # something is missing, and libgit2 gives up
            behind = reachable(hidden, self._known_parents)
            ahead = reachable([tip], self._known_parents)
            return {sha: parents for sha, parents in ahead.items() if sha not in behind}

    def _known_parents(self, sha: str) -> Parents:
        try:
            return self._links(sha).parents
        except UnreadableObject:
            return ()


def _tree(odb: pygit2.Odb, tree: bytes) -> bytes:
    kind, data = odb.read(pygit2.Oid(raw=tree))
    if kind != ObjectType.TREE:
        raise KeyError(tree.hex())
    return data


def _content(file: Path) -> bytes:
    try:
        return git_dir.content(file)
    except OSError:  # git warns of one that it cannot read, and goes on
        return b""
