"""Read access to a git repository through libgit2 (pygit2): commits, trees, blobs, diffs, attributes, configuration.

Reading never runs a program (filter, textconv, external diff) and never uses the network. Objects that a partial
clone lacks are reported as unreadable, like damaged objects.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Final

import pygit2
from cachetools import LRUCache
from pygit2.enums import ObjectType, ReferenceFilter, SortMode

from pipeline.git.attributes import AttributeReader
from pipeline.git.changes import RawPatch, decode_path, is_regular
from pipeline.git.errors import (
    BEYOND_SHALLOW_BOUNDARY,
    NotACommit,
    NothingToIndex,
    UnreadableObject,
    build_not_found_error,
    build_open_error,
)
from pipeline.git.git_dir import is_partial_clone, read_shallow_boundary, resolve_common_dir
from pipeline.git.libgit2 import (
    ErrorTranslation,
    ObjectDatabase,
    build_head_error,
    check_alternates,
    check_git_dir,
    check_objects,
    describe_head_repair,
    find_user_attributes_file,
    is_discoverable_from,
    is_implicitly_bare,
    load_mailmap,
    open_without_index,
    read_settings,
    resolve_author,
)
from pipeline.git.objects import (
    Commit,
    CommitLinks,
    Parents,
    TreeEntries,
    TreeEntry,
    TreeReader,
    collect_reachable,
    parse_commit,
    parse_commit_links,
    parse_tag_target,
    sort_topologically,
)
from pipeline.git.patches import PatchPart, create_part_without_context
from pipeline.git.tree_diff import (
    BlobSource,
    Libgit2Diff,
    PlainDiff,
    TreeDiff,
    create_content_patch,
    diff_plain_files,
    has_merge_changes,
    iter_differing_paths,
    load_trees,
)

__all__ = ["Commit", "Repository", "TreeDiff", "TreeEntry", "UnreadableObject", "open_repository"]

# Size of the cache of blobs. The blobs of a diff are read again when symbols are parsed, and for the next diff of the
# file.
BLOB_CACHE_BYTES: Final = 2 << 20
# Number of commits whose tree and parents are cached. The parent of a commit is mostly among the last few read.
MAX_CACHED_COMMITS: Final = 1000


def open_repository(path: Path) -> Repository:
    """Open the repository that contains `path`, which may be in a work tree or in a git directory.

    Raises NotARepository, UnsafeRepository, UnsupportedRepository, DamagedRepository or StorageError.
    """
    exists = path.exists()
    start = str(path if path.is_dir() else path.parent)
    try:
        git_dir = pygit2.discover_repository(start) if exists else None
        if git_dir is None:
            raise build_not_found_error(path, exists=exists)
        check_git_dir(Path(git_dir))
        # Do not open `git_dir`, because libgit2 would take its parent directory for the work tree.
        return Repository(open_without_index(start))
    except pygit2.GitError as error:
        raise build_open_error(path, str(error)) from error


class Repository:
    """Opened repository. Not safe to share between threads or processes: each opens its own.

    `root`: root of the work tree; of a bare repository, the git directory.
    `path_to_reopen`: path for `open_repository` that finds the same repository and work tree.
    `common_dir`: git directory that all linked work trees share.
    `canonical_path`: path that identifies the repository, the same for all of its work trees.
    `shallow_boundary`: commits whose parents a shallow clone lacks.
    """

    def __init__(self, git: pygit2.Repository) -> None:
        self._git = git
        git_dir = Path(git.path).resolve()
        common_dir = resolve_common_dir(git_dir)
        self.common_dir: Path = common_dir
        self.git_dir: Path = git_dir
        self.objects_dir: Path = common_dir / "objects"
        self.is_bare: bool = git.is_bare or is_implicitly_bare(git, git_dir)
        self.root: Path = git_dir if self.is_bare else Path(git.workdir).resolve()
        # If only `core.worktree` names the work tree, a search that starts there does not find the repository.
        self.path_to_reopen: Path = self.root if is_discoverable_from(self.root, git_dir) else git_dir
        self.canonical_path: Path = common_dir.parent if common_dir.name == ".git" else common_dir
        self.shallow_boundary: frozenset[str] = read_shallow_boundary(common_dir)
        self._has_grafts = (common_dir / "info" / "grafts").exists()
        self.is_shallow: bool = bool(self.shallow_boundary)
        self.is_partial_clone: bool = is_partial_clone(self.config)
        self._mailmap = load_mailmap(git)
        self._links_cache: LRUCache[str, CommitLinks] = LRUCache(MAX_CACHED_COMMITS)
        self._blob_cache: LRUCache[str, pygit2.Blob] = LRUCache(
            BLOB_CACHE_BYTES, getsizeof=lambda blob: blob.size
        )
        self._create_readers()

    def _create_readers(self) -> None:
        self._odb = ObjectDatabase(self._git.odb)
        self._tree_reader = TreeReader(self._odb.read_tree)
        user_file = find_user_attributes_file(dict(self.config))
        local_files = (self.common_dir / "info" / "attributes", *([user_file] if user_file else []))
        self._attributes = AttributeReader(self._git, self.root, local_files, self.read_file_at_head)

    def release_memory(self) -> None:
        """Free all caches and mapped packs by opening the repository again."""
        self._links_cache.clear()
        self._blob_cache.clear()
        # libgit2 keeps packs until all repository objects that use them are freed. `self._git` is in reference cycles
        # (branches, remotes), so free it now rather than at the next garbage collection.
        del self._odb, self._tree_reader, self._attributes
        self._git.free()
        try:
            self._git = open_without_index(str(self.path_to_reopen))
            self._create_readers()
        except pygit2.GitError as error:
            raise build_open_error(self.root, str(error)) from error

    def read_head(self) -> str | None:
        """Return the SHA of HEAD's commit, on a branch or detached; None before the first commit."""
        try:
            return self._peel_to_commit(str(self._git.head.target), "HEAD")
        except (pygit2.GitError, UnicodeDecodeError, UnreadableObject) as error:
            if self._git.head_is_unborn:
                return None
            check_objects(self.objects_dir)
            check_alternates(self.objects_dir)
            reason = error.reason if isinstance(error, UnreadableObject) else str(error)
            hint = describe_head_repair(self.git_dir, self.common_dir)
            raise UnreadableObject("HEAD", reason, hint) from error

    def build_head_error(self) -> NothingToIndex:
        """Return the error for a HEAD without a commit. Call this only if `read_head` returns None."""
        return build_head_error(self._git, self.root, is_bare=self.is_bare)

    def list_tag_targets(self) -> list[tuple[str, str]]:
        """Return (name, SHA of the object that the tag points to) of each tag, sorted by name."""
        targets = []
        with ErrorTranslation("the references"):
            for reference in self._git.references.iterator(ReferenceFilter.TAGS):
                with suppress(pygit2.GitError, KeyError, ValueError):
                    targets.append((reference.shorthand, str(reference.resolve().target)))
        return sorted(targets)

    def list_tags(self) -> list[tuple[str, str]]:
        """Return (name, SHA of the commit) of each tag that points to a commit in this clone, sorted by name."""
        tags = []
        for name, target in self.list_tag_targets():
            with suppress(pygit2.GitError, KeyError, ValueError, UnreadableObject):
                tags.append((name, self._peel_to_commit(target, name)))
        return tags

    def resolve_revision(self, revision: str) -> str | None:
        """Return the SHA of the commit that a revision names; None if the revision names no object, or several.

        Raises NotACommit if the revision names another object, and UnreadableObject if a tag's object is unreadable.
        """
        with suppress(pygit2.GitError, KeyError, ValueError):
            if "\0" not in revision:  # libgit2 would read only the text before the NUL
                target = self._odb.read_with_retry(self._git.revparse_single, revision)
                return self._peel_to_commit(str(target.id), revision)
        return None

    def list_references(self) -> list[str]:
        """Return the short names of all branches, remote-tracking branches and tags, but not of the stash or notes."""
        prefixes = ("refs/heads/", "refs/remotes/", "refs/tags/")
        with ErrorTranslation("the references"):
            references = list(self._git.references.iterator())
        return [item.shorthand for item in references if item.name.startswith(prefixes)]

    def _peel_to_commit(self, sha: str, revision: str) -> str:
        """Follow tag objects to a commit; return the commit's SHA. Raises UnreadableObject.

        libgit2's commit parser is not used: it rejects commits for which git only warns. `revision`: name of the object
        in errors.
        """
        with ErrorTranslation(revision):
            while (object_type := self._odb.read_header(sha)[0]) == ObjectType.TAG:
                sha = parse_tag_target(self._odb.read(sha)[1])
        if object_type != ObjectType.COMMIT:
            raise NotACommit(revision, f"{sha} is not a commit")
        return sha

    def find_root_commit(self, sha: str) -> str:
        """Return the last commit on the path of first parents: a root, unless this clone lacks older commits."""
        while (parents := self.read_parents(sha)) and self.contains(parents[0]):
            sha = parents[0]
        return sha

    def contains(self, sha: str) -> bool:
        """Return whether the object exists in this clone."""
        return sha in self._odb

    def is_commit(self, sha: str) -> bool:
        """Return whether the object exists in this clone, is readable, and is a commit."""
        with suppress(pygit2.GitError, KeyError, ValueError):
            return self._odb.read_header(sha)[0] == ObjectType.COMMIT
        return False

    def can_diff(self, sha: str) -> bool:
        """Return whether a commit exists in this clone and is not at the boundary of a shallow clone."""
        return sha not in self.shallow_boundary and self.contains(sha)

    def walk(self, tip: str, *, hide: Iterable[str] = ()) -> list[str]:
        """Return `tip` and the commits that it reaches, parents before children, without those that `hide` reaches.

        A missing or damaged commit is listed as if it had no parents.
        """
        hidden_commits = [sha for sha in hide if self.contains(sha)]
        return sort_topologically(tip, self._read_history(tip, hidden_commits))

    def read_commit(self, sha: str) -> Commit:
        """Return a commit. `.mailmap` is applied to its author. Raises UnreadableObject if it cannot be read."""
        with ErrorTranslation(sha):
            object_type, data = self._odb.read(sha)
        if object_type != ObjectType.COMMIT:
            raise UnreadableObject(sha, "not a commit")
        commit = parse_commit(sha, data)
        name, email = resolve_author(self._mailmap, commit.author_name, commit.author_email)
        parents = () if sha in self.shallow_boundary else commit.parents
        self._links_cache[sha] = CommitLinks(commit.tree, parents)
        return replace(commit, parents=parents, author_name=name, author_email=email)

    def diff_with_parents(self, sha: str) -> list[TreeDiff]:
        """Return a commit's diffs with each of its parents, or with the empty tree for a root.

        Renames are followed. The diffs of a merge have only the paths that differ from every parent. If there is no
        such path, the list is empty.
        """
        if sha in self.shallow_boundary:
            raise UnreadableObject(sha, BEYOND_SHALLOW_BOUNDARY)
        links = self._read_links(sha)
        parent_trees = [self._read_links(parent).tree for parent in links.parents]
        with ErrorTranslation(sha):
            if len(parent_trees) < 2:
                return [self._diff_trees(sha, parent_trees[0] if parent_trees else None, links.tree)]
            entries, *parent_entries = map(self._read_tree_entries, (links.tree, *parent_trees))
            if not has_merge_changes(entries, parent_entries, self._tree_reader.read_entries):
                return []
            diffs = [self._diff_with_libgit2(sha, old, links.tree) for old in parent_trees]
            return list(self._select_merge_paths(diffs))

    def diff_with_first_parent(self, sha: str) -> TreeDiff:
        """Return a commit's diff with its first parent, or with the empty tree for a root. Renames are followed."""
        if sha in self.shallow_boundary:
            raise UnreadableObject(sha, BEYOND_SHALLOW_BOUNDARY)
        links = self._read_links(sha)
        old = self._read_links(links.parents[0]).tree if links.parents else None
        with ErrorTranslation(sha):
            return self._diff_trees(sha, old, links.tree)

    def list_changed_paths(self, sha: str) -> list[bytes]:
        """Return the paths that a commit changes against its first parent, sorted. A renamed file has two paths."""
        links = self._read_links(sha)
        old = self._read_links(links.parents[0]).tree if links.parents else None
        with ErrorTranslation(sha):
            differences = iter_differing_paths(
                self._read_tree_entries(old),
                self._read_tree_entries(links.tree),
                self._tree_reader.read_entries,
            )
            return sorted(path for path, *_ in differences)

    def _read_tree_entries(self, tree: str | None) -> TreeEntries:
        return self._tree_reader.read_entries(bytes.fromhex(tree)) if tree else {}

    def _diff_trees(self, sha: str, old: str | None, new: str) -> TreeDiff:
        changes = diff_plain_files(
            self._read_tree_entries(old), self._read_tree_entries(new), self._tree_reader.read_entries
        )
        if changes is not None:
            return PlainDiff(sha, changes, self._blob_source)
        diff = self._diff_with_libgit2(sha, old, new)
        diff.follow_renames()
        return diff

    def _diff_with_libgit2(self, sha: str, old: str | None, new: str) -> Libgit2Diff:
        return Libgit2Diff(sha, self._odb.read_with_retry(load_trees, self._git, old, new), self._blob_source)

    @property
    def _blob_source(self) -> BlobSource:
        return BlobSource(
            load_blob=self._load_blob,
            read_size=self.read_blob_size,
            find_diff_options=self._attributes.find_diff_options,
        )

    def _select_merge_paths(self, diffs: list[Libgit2Diff]) -> list[Libgit2Diff]:
        """Restrict the diffs of a merge to the paths that are in all of them. Without such paths, return no diffs."""
        statuses = [diff.get_status_by_path() for diff in diffs]
        shared_paths = set(statuses[0]).intersection(*statuses[1:])
        # A file that the diff with a parent shows as added may have another name in that parent.
        if any(status[path] == "A" for status in statuses for path in shared_paths):
            for diff in diffs:
                diff.follow_renames()
        for diff in diffs:
            diff.select_paths(shared_paths)
        return diffs if shared_paths else []

    def read_blob(self, sha: str) -> bytes:
        """Return a blob's content."""
        with ErrorTranslation(sha):
            return self._load_blob(sha).data

    def read_blob_size(self, sha: str) -> int:
        """Return a blob's length in bytes, without reading its content."""
        cached_blob = self._blob_cache.get(sha)
        if cached_blob is not None:
            return cached_blob.size
        with ErrorTranslation(sha):
            return self._odb.read_header(sha)[1]

    def diff_blobs(self, old: str, new: str) -> tuple[PatchPart, ...]:
        """Return the `@@` parts that turn one blob into another, without context lines; none for binary blobs."""
        with ErrorTranslation(new):
            # Pass blobs, not bytes: for bytes, libgit2 first computes two object ids, which takes as long as the diff.
            patch = pygit2.Patch.create_from(self._load_blob(old), self._load_blob(new), context_lines=0)
        return tuple(
            create_part_without_context(part.old_start, part.old_lines, part.new_start, part.new_lines)
            for part in patch.hunks
        )

    def list_files(self, sha: str) -> list[tuple[str, str]]:
        """Return (path, SHA of the blob) of each regular file in a commit's tree, without symlinks and submodules."""
        return [(decode_path(path), blob) for path, blob in self.list_files_with_raw_paths(sha)]

    def list_files_with_raw_paths(self, sha: str) -> list[tuple[bytes, str]]:
        """Return the result of `list_files`, with the paths as bytes."""
        with ErrorTranslation(sha):
            return list(self._tree_reader.iter_files(self._read_links(sha).tree))

    def find_entry(self, commit: str, path: bytes) -> TreeEntry | None:
        """Return a commit's entry at a path, or the submodule that contains the path; None if there is neither."""
        tree = self._read_links(commit).tree
        with ErrorTranslation(commit):
            return self._tree_reader.find_entry(tree, path)

    def is_in_index(self, path: bytes) -> bool:
        """Return whether git has the path in its index. True if libgit2 cannot read the index."""
        try:
            return os.fsdecode(path) in pygit2.Repository(str(self.path_to_reopen)).index
        except pygit2.GitError:
            return True

    def create_blob_patch(self, old: str | None, new: str | None) -> RawPatch:
        """Return the patch that turns one blob into another. None stands for no blob. Reads both blobs completely."""
        old_content, new_content = (self.read_blob(sha) if sha else None for sha in (old, new))
        with ErrorTranslation(new or old or ""):
            return create_content_patch(old_content, new_content)

    @cached_property
    def config(self) -> tuple[tuple[str, str], ...]:
        """(name, value) of all settings, including those of user and system. A later one overrides an earlier one."""
        return tuple(read_settings(self._git))

    def get_attribute(self, path: str | bytes, name: str) -> bool | str | None:
        """Return a git attribute of a path; see `AttributeReader.get`."""
        return self._attributes.get(path, name)

    def read_local_attributes(self) -> list[bytes]:
        """Return the content of the attributes files outside the history: of the git directory and of the user."""
        return self._attributes.read_local_files()

    def read_file_at_head(self, path: str) -> bytes | None:
        """Return a file's content at HEAD; None if HEAD has no such file or it cannot be read."""
        head = self.read_head()
        with suppress(UnreadableObject):
            entry = self.find_entry(head, os.fsencode(path)) if head else None
            if entry and is_regular(entry.mode):
                return self.read_blob(entry.sha)
        return None

    def _load_blob(self, sha: str) -> pygit2.Blob:
        """Return a libgit2 blob, from the cache if possible."""
        if (cached_blob := self._blob_cache.get(sha)) is not None:
            return cached_blob
        blob = self._odb.read_with_retry(self._git.__getitem__, sha)
        if not isinstance(blob, pygit2.Blob):
            raise KeyError(sha)
        if blob.size <= BLOB_CACHE_BYTES // 2:  # a larger blob would evict most of the others
            self._blob_cache[sha] = blob
        return blob

    def _read_links(self, sha: str) -> CommitLinks:
        """Return a commit's tree and parents. They are cached, because its children need them again."""
        links = self._links_cache.get(sha)
        if links is None:
            with ErrorTranslation(sha):
                links = parse_commit_links(self._odb.read(sha)[1])
            if sha in self.shallow_boundary:
                links = CommitLinks(links.tree, ())
            self._links_cache[sha] = links
        return links

    def _read_history(self, tip: str, hidden_commits: list[str]) -> dict[str, Parents]:
        """Return the parents of each commit that `tip` reaches, except commits that a hidden commit reaches."""
        # libgit2's walk follows grafts, which are ignored everywhere else, and fails at a missing object.
        with suppress(pygit2.GitError, KeyError, ValueError, OSError):
            if not self._has_grafts:
                walker = self._git.walk(tip, SortMode.NONE)
                for sha in hidden_commits:
                    walker.hide(sha)
                return {str(commit.id): tuple(map(str, commit.parent_ids)) for commit in walker}
        excluded_commits = collect_reachable(hidden_commits, self.read_parents)
        reached_commits = collect_reachable([tip], self.read_parents)
        return {sha: parents for sha, parents in reached_commits.items() if sha not in excluded_commits}

    def read_parents(self, sha: str) -> Parents:
        """Return a commit's parents; none if it cannot be read."""
        try:
            return self._read_links(sha).parents
        except UnreadableObject:
            return ()
