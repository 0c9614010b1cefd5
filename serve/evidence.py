"""Evidence about the commits of an answer: references, first release, copies, reverts and entries of changelogs.

`EvidenceLoader` reads commit messages (`serve.references`), tags and merges (`pipeline.git.releases`) and the index.
The index finds reverts, and possible copies, which are commits with the same author and author date.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from pipeline.file_classification import is_changelog
from pipeline.git import commit_graph, releases
from pipeline.git.errors import UnreadableObject
from pipeline.git.git_cli import GitNotFound, GitProgram
from pipeline.git.patches import HEADER_LINE, strip_file_header
from pipeline.git.releases import Tag
from pipeline.git.repository import Repository
from pipeline.interrupts import check_cancelled
from serve.api_types import Release, format_rfc3339
from serve.references import ISSUE, PULL_REQUEST, Reference, find_numbers, find_pull_request, parse_references
from stores.filters import ReleaseFilter

if TYPE_CHECKING:
    from serve.commit_types import ChangeHit, CommitDetails
    from serve.explain_types import ExplainHit
    from serve.find_types import PatternHit

# Maximum number of possible copies to compare with a commit. Only commits of bots have more possible copies.
MAX_COMPARED_COPIES: Final = 8
# Commits with more or larger files are not compared, because that would delay an answer. Copied commits are small.
MAX_COMPARED_FILES: Final = 100
MAX_COMPARED_FILE_BYTES: Final = 1 << 20
# Maximum number of entries of changelogs that are shown for a commit, and maximum length of an entry.
MAX_CHANGELOG_ENTRIES: Final = 3
MAX_CHANGELOG_CHARS: Final = 160
# Minimum number of words of an entry. Headings have fewer.
MIN_CHANGELOG_WORDS: Final = 3
# If a commit adds more lines to a changelog, they describe other commits too, as in a release.
MAX_CHANGELOG_ADDITIONS: Final = 20
_REMOTE_URL: Final = re.compile(r"remote\.(?P<remote>.+)\.url")
# `owner/repo.git` in `https://host/owner/repo.git` and `git@host:owner/repo.git`. The name may have more parts.
_REMOTE_NAME: Final = re.compile(r"(?:://[^/]+/|^[^/:]+:)/?(?P<name>[^/]+(?:/[^/]+)+)/?$")
_WORD: Final = re.compile(r"[^\W\d_]{2,}")
_BULLET: Final = re.compile(r"\s*(?:[-*+•]|\d+[.)])\s")
# Headings and link definitions of Markdown, and directives and link definitions of reStructuredText.
_NO_ENTRY: Final = re.compile(r"\s*(?:#{1,6}\s|\.\. |\[[^\]]*\]:)")
# Line below a heading.
_UNDERLINE: Final = re.compile(r"\s*([=~^*-])\1{2,}\s*$")

Hit = TypeVar("Hit", "PatternHit", "ExplainHit", "ChangeHit", "CommitDetails")


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence about a commit. `also`: shas of its copies. `reverted_by`: sha of its newest revert, or None."""

    references: tuple[Reference, ...] = ()
    release: Release | None = None
    also: tuple[str, ...] = ()
    reverted_by: str | None = None


@dataclass(frozen=True)
class EvidenceLoader:
    """Loader of evidence for one answer.

    `graph_dir`: directory of the index's commit-graph, which makes git faster. `find_possible_copies`: returns the
    possible copies of the given commits, by the sha of the commit. `find_reverts`: returns the newest revert of each
    given commit, by the sha of the reverted commit. Both functions are None without an index.
    """

    repository: Repository
    graph_dir: Path | None = None
    find_possible_copies: Callable[[Sequence[str]], Mapping[str, Sequence[str]]] | None = None
    find_reverts: Callable[[Sequence[str]], Mapping[str, str]] | None = None
    _possible_copies: dict[str, Sequence[str]] = field(default_factory=dict, init=False)
    _patch_ids: dict[str, bytes | None] = field(default_factory=dict, init=False)

    @cached_property
    def git(self) -> GitProgram:
        """Git program for commands that read only commits and tags, and thus need no work tree and no filters."""
        repository, graph_dir = self.repository, commit_graph.exclude_damaged(self.graph_dir)
        return GitProgram(repository.git_dir, None, repository.objects_dir, commit_graph_dir=graph_dir)

    @cached_property
    def own_names(self) -> frozenset[str]:
        """Names of the repository at its main remote, such as `owner/repo`, in lower case."""
        return parse_remote_names(self.repository.config)

    @cached_property
    def releases(self) -> Mapping[str, Tag]:
        """First tag that contains a commit, by the sha of the commit; empty if they could not be loaded."""
        return self._loaded_releases or {}

    @property
    def is_complete(self) -> bool:
        """True if the releases and the merges were loaded. Otherwise, a later answer may have more evidence."""
        return self._loaded_releases is not None and self._loaded_merges is not None

    @cached_property
    def _loaded_releases(self) -> Mapping[str, Tag] | None:
        try:
            return releases.load_releases(self.repository, self.git)
        except GitNotFound:
            return None

    @cached_property
    def merges(self) -> Mapping[str, str]:
        """Merge that brought a commit into HEAD's first-parent history, by the sha of the commit.

        The commits of the first-parent history itself are left out. Empty if the merges could not be loaded.
        """
        return self._loaded_merges or {}

    @cached_property
    def _loaded_merges(self) -> Mapping[str, str] | None:
        try:
            head = self.repository.read_head()
            return releases.load_merges(self.repository, self.git, head) if head else {}
        except (GitNotFound, UnreadableObject):
            return None

    def load(self, messages: Mapping[str, str]) -> dict[str, Evidence]:
        """Return the evidence about commits. `messages`: complete messages by commit sha."""
        copies = self.find_copies(list(messages))
        reverts = self.find_reverts(list(messages)) if self.find_reverts else {}
        return {
            sha: Evidence(
                self._list_references(sha, message),
                self._build_release(sha),
                copies.get(sha, ()),
                reverts.get(sha),
            )
            for sha, message in messages.items()
        }

    def add_to(self, hits: Sequence[Hit], messages: Mapping[str, str] | None = None) -> tuple[Hit, ...]:
        """Return the hits with their evidence.

        `messages`: complete messages by commit sha; None if the hits themselves have them.
        """
        if messages is None:
            messages = {hit.commit_sha: getattr(hit, "commit_message", "") for hit in hits}
        evidence = self.load(messages)
        return tuple(_add_evidence(hit, evidence[hit.commit_sha]) for hit in hits)

    def find_release(self, name: str) -> ReleaseFilter | None:
        """Return the commits whose first tag is `name`, with or without `v` before it; None if there are none.

        Of two tags on one commit, such as a release and its candidate, only the older one is a first tag.
        """
        tags = {tag for tag, _ in self.repository.list_tag_targets()}
        spellings = (name, f"v{name}", name.removeprefix("v"))
        tag = next((spelling for spelling in spellings if spelling in tags), None)
        if tag is None:
            return None
        commits = frozenset(sha for sha, first in self.releases.items() if first.name == tag)
        return ReleaseFilter(tag, commits) if commits else None

    def find_referring_commits(
        self, load_messages: Callable[[Collection[str]], Mapping[str, str]], numbers: Collection[str]
    ) -> frozenset[str]:
        """Return the commits whose message names one of the numbers, or whose pull request has one of the numbers.

        A number that no message closes or calls a pull request is ignored, because `#333` may be a color.

        `numbers`: issues and pull requests, such as `#12`. `load_messages`: gets the digits of these numbers, and
        returns the messages that may refer to one of them, by commit sha.
        """
        naming_commits: defaultdict[str, set[str]] = defaultdict(set)
        confirmed_numbers, merges = set(), set()
        digits = {re.split("[#!]", number)[-1] for number in numbers}
        for sha, message in load_messages(digits).items():
            check_cancelled()
            for reference in find_numbers(message, self.own_names):
                if reference.text in numbers:
                    naming_commits[reference.text].add(sha)
                    if reference.kind != ISSUE:
                        confirmed_numbers.add(reference.text)
            pull_request = find_pull_request(message, self.own_names)
            if pull_request and pull_request.text in numbers:
                merges.add(sha)
        # `self.merges` is loaded only if there is a merge to look for, because loading runs git.
        merged_commits = {sha for sha, merge in self.merges.items() if merge in merges} if merges else set()
        return frozenset(merged_commits.union(*(naming_commits[number] for number in confirmed_numbers)))

    def find_copies(self, shas: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return for each commit its copies, which are other commits with the same patch.

        Commits without possible copies are left out. The tuple is empty if no possible copy has the same patch.
        """
        new_shas = [sha for sha in shas if sha not in self._possible_copies]
        if self.find_possible_copies and new_shas:
            found = self.find_possible_copies(new_shas)
            self._possible_copies.update({sha: found.get(sha, ()) for sha in new_shas})
        return {
            sha: tuple(other for other in others[:MAX_COMPARED_COPIES] if self._have_same_patch(other, sha))
            for sha in shas
            if (others := self._possible_copies.get(sha))
        }

    def _have_same_patch(self, sha: str, other: str) -> bool:
        patch_id = self._get_patch_id(sha)
        return patch_id is not None and patch_id == self._get_patch_id(other)

    def _get_patch_id(self, sha: str) -> bytes | None:
        """Return the patch id of a commit (see `compute_patch_id`), computed at the first call."""
        if sha not in self._patch_ids:
            check_cancelled()
            self._patch_ids[sha] = compute_patch_id(self.repository, sha)
        return self._patch_ids[sha]

    def _list_references(self, sha: str, message: str) -> tuple[Reference, ...]:
        """Return the references of a message, after the merge's pull request if the message names no pull request."""
        references = parse_references(message, self.own_names)
        if any(reference.kind == PULL_REQUEST for reference in references) or sha not in self.merges:
            return references
        try:
            merge = self.repository.read_commit(self.merges[sha])
        except UnreadableObject:
            return references
        pull_request = find_pull_request(merge.message, self.own_names)
        if pull_request is None:
            return references
        return pull_request, *(other for other in references if other.text != pull_request.text)

    def _build_release(self, sha: str) -> Release | None:
        tag = self.releases.get(sha)
        return Release(tag.name, format_rfc3339(tag.date)) if tag else None


def describes_commit(path: str, added_lines: int) -> bool:
    """Return whether a file is a changelog to which a commit adds so few lines that they describe this commit."""
    return added_lines <= MAX_CHANGELOG_ADDITIONS and is_changelog(path)


def select_changelog_entries(diffs: Iterable[str], message: str) -> tuple[str, ...]:
    """Return the first entries that diffs of changelogs add, each cut to `MAX_CHANGELOG_CHARS` characters.

    Headings, and entries that only repeat words of the commit message, are left out.
    """
    known_words = frozenset(_WORD.findall(message.casefold()))
    entries = (
        entry if len(entry) <= MAX_CHANGELOG_CHARS else f"{entry[:MAX_CHANGELOG_CHARS]}…"
        for entry in chain.from_iterable(map(_iter_added_entries, diffs))
        if len(words := _WORD.findall(entry.casefold())) >= MIN_CHANGELOG_WORDS
        and not known_words.issuperset(words)
    )
    return tuple(islice(entries, MAX_CHANGELOG_ENTRIES))


def _iter_added_entries(diff: str) -> Iterator[str]:
    """Yield the entries that begin in added lines, each with its continuation lines.

    An entry begins with a bullet or a capital letter.
    """
    entry: list[str] = []
    for line in diff.split("\n"):
        text = line[1:] if line.startswith("+") else ""
        is_bullet, is_underline = _BULLET.match(text) is not None, _UNDERLINE.match(text) is not None
        if entry and (is_bullet or is_underline or not text.strip() or _NO_ENTRY.match(text)):
            is_heading = is_underline and not _BULLET.match(entry[0])
            if not is_heading:
                yield " ".join(entry)
            entry = []
        if entry or is_bullet or (text.strip()[:1].isupper() and not _NO_ENTRY.match(text)):
            entry.append(text.strip())
    if entry:
        yield " ".join(entry)


def parse_remote_names(configuration: Sequence[tuple[str, str]]) -> frozenset[str]:
    """Return the names of a repository at its main remote, such as `owner/repo`, in lower case.

    The main remote is `upstream`, else `origin`, else the only remote. `upstream` comes first, because messages in a
    fork mean the issues and pull requests of the original. `configuration`: names and values of git settings.
    """
    names: defaultdict[str, set[str]] = defaultdict(set)
    for setting, value in configuration:
        remote, url = _REMOTE_URL.fullmatch(setting), _REMOTE_NAME.search(value)
        if remote and url:
            names[remote["remote"]].add(url["name"].removesuffix(".git").lower())
    only_remote = next(iter(names)) if len(names) == 1 else ""
    main_remote = next((remote for remote in ("upstream", "origin") if remote in names), only_remote)
    return frozenset(names.get(main_remote, ()))


def _add_evidence(hit: Hit, evidence: Evidence) -> Hit:
    return replace(
        hit,
        references=evidence.references,
        release=evidence.release,
        also=evidence.also,
        reverted_by=evidence.reverted_by,
    )


def compute_patch_id(repository: Repository, sha: str) -> bytes | None:
    """Return a digest of a commit's paths, modes and changed lines with their context.

    Unlike `git patch-id`, it distinguishes commits by white space and binary files. Return None if the commit cannot be
    read, changes no file or more than `MAX_COMPARED_FILES`, or has a file larger than `MAX_COMPARED_FILE_BYTES`.
    """
    digest = hashlib.blake2b(digest_size=16)
    try:
        diff = repository.diff_with_first_parent(sha)
        if not 0 < len(diff.changes) <= MAX_COMPARED_FILES:
            return None
        for change in sorted(diff.changes, key=lambda change: change.path):
            if any(repository.read_blob_size(blob) > MAX_COMPARED_FILE_BYTES for blob in change.blobs):
                return None
            patch = diff.read_patch(change)
            lines = HEADER_LINE.sub(b"@@", strip_file_header(patch.data))
            content = change.blobs if patch.is_binary else lines
            modes = change.old_mode, change.new_mode
            digest.update(repr((change.path, change.old_path, change.kind, modes, content)).encode())
    except UnreadableObject:
        return None
    return digest.digest()
