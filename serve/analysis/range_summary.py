"""Summary of a range of commits: counts by directory and kind, and candidates for release notes.

Everything comes from git, so no index is needed. `commit_kinds` defines the kinds of commits.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from pipeline.git import commit_graph, ranges
from pipeline.git.errors import REFETCH_COMMAND, NothingReadable, UnreadableObject
from pipeline.git.ranges import RangeCommit
from pipeline.git.releases import find_merges
from pipeline.git.repository import Repository, open_repository
from serve.analysis.commit_kinds import KINDS, MERGE, OTHER, CommitKind, classify_commit, count_kinds
from serve.api_types import format_rfc3339, validate_limit
from serve.commit_ranges import list_commits
from serve.evidence import parse_remote_names
from serve.references import (
    CLOSES,
    PULL_REQUEST,
    SHOWN_KINDS,
    Reference,
    parse_references,
    remove_squash_suffix,
)
from serve.repositories import find_index
from serve.text import SHA_DIGITS, format_commit_count

# If a directory is changed by more than this share of the commits, its subdirectories are counted instead.
MAX_DIRECTORY_SHARE: Final = 0.5
# Maximum number of directories in an answer. The directories with the most commits are shown.
MAX_DIRECTORIES: Final = 20


@dataclass(frozen=True, slots=True)
class DirectoryCount:
    """Directory with the number of commits that change files in it. `kinds`: number of these commits of each kind.

    `path` ends with a slash; it is empty for the files at the root.
    """

    path: str
    commits: int
    kinds: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class LogCommit:
    """Commit of a range. `references`: issues, pull requests, tickets and advisories."""

    commit_sha: str
    commit_subject: str
    commit_author: str
    commit_date: str
    references: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KindGroup:
    """Commits of one kind. `count`: number in the whole range. `commits`: the newest of these commits, newest first."""

    kind: str
    count: int
    commits: tuple[LogCommit, ...]


@dataclass(frozen=True, slots=True)
class ReleaseNote:
    """Candidate for a release note: a pull request or a commit whose change users may notice.

    `title`: title of the pull request or subject of the commit, without a type of Conventional Commits. `commits`: the
    merge of the pull request, then the commits that it merged; for a commit, only the commit. `author`: author of most
    of these commits, not counting the merge.
    """

    kind: str
    title: str
    is_breaking: bool
    references: tuple[str, ...]
    author: str
    commits: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LogAnswer:
    """Summary of a range of commits. The numbers are those of the whole range, but the lists may be shortened.

    `commits` includes commits that git could not read; the other fields leave them out. `first_date`, `last_date`:
    dates of the oldest and the newest commit; None without commits. `limitation`: sentence about commits that git could
    not read; None if there are none.
    """

    commit_range: str
    commits: int
    authors: int
    first_date: str | None
    last_date: str | None
    directories: tuple[DirectoryCount, ...]
    kinds: tuple[KindGroup, ...]
    release_note_count: int
    release_notes: tuple[ReleaseNote, ...]
    limitation: str | None = None

    def rewrite_commands(self, rewrite: Callable[[str], str]) -> LogAnswer:
        """Return a copy with `rewrite` applied to `limitation`, which can suggest a command."""
        return replace(self, limitation=self.limitation and rewrite(self.limitation))

    def to_json_dict(self) -> dict[str, Any]:
        """Return the JSON document. It has `limitation` only if there is one."""
        fields = asdict(self)
        limitation = fields.pop("limitation")
        answer = {"range": fields.pop("commit_range"), **fields}
        return answer | ({"limitation": limitation} if limitation else {})


@dataclass(frozen=True)
class ClassifiedCommit:
    """Commit of a range with its references and its kind. `data`: the commit as read from git."""

    data: RangeCommit
    references: tuple[Reference, ...]

    @property
    def sha(self) -> str:
        """SHA of the commit."""
        return self.data.sha

    @property
    def subject(self) -> str:
        """First line of the message."""
        return self.data.message.strip().partition("\n")[0].rstrip()

    @property
    def body(self) -> str:
        """Message without its first line."""
        return self.data.message.strip().partition("\n")[2].strip()

    @property
    def is_merge(self) -> bool:
        """True for a commit with several parents."""
        return len(self.data.parents) > 1

    @cached_property
    def kind(self) -> CommitKind:
        """Kind by the message and the files."""
        if self.is_merge:
            return CommitKind(MERGE, self.subject)
        return self.classify(self.subject, self.data.paths)

    def classify(self, subject: str, paths: Sequence[str]) -> CommitKind:
        """Return the kind of this commit as if it had this subject and changed these files."""
        closes_issue = any(reference.kind == CLOSES for reference in self.references)
        return classify_commit(subject, self.body, paths, closes_issue=closes_issue)

    @property
    def shown_references(self) -> tuple[str, ...]:
        """Texts of the references to issues, pull requests, tickets and advisories."""
        return tuple(reference.text for reference in self.references if reference.kind in SHOWN_KINDS)

    @property
    def pull_request_title(self) -> str:
        """Title of the pull request that this commit merges: first line of the body. Empty if it merges none."""
        is_request = any(reference.kind == PULL_REQUEST for reference in self.references)
        return self.body.partition("\n")[0].strip() if self.is_merge and is_request else ""

    @property
    def reverted_commits(self) -> list[str]:
        """Shas of the commits that this one reverts, possibly abbreviated."""
        return [reference.text for reference in self.references if reference.kind == "reverts"]


def summarize_range(text: str, path: Path, home: Path, *, limit: int) -> LogAnswer:
    """Return the summary of the range `text`, such as `v1..v2`, of the repository at `path`.

    `limit`: maximum number of release notes, and of commits of each kind. Raises BadRequest for a bad range or limit,
    and NothingReadable if all commits of the range are unreadable.
    """
    validate_limit(limit, "commits")
    repository = open_repository(path)
    location = find_index(home, repository)
    # The commit-graph of an index makes git faster.
    git = commit_graph.create_git_program(repository, location.git_directory if location else None)
    shas = list_commits(repository, git, text)
    own_names = parse_remote_names(repository.config)
    range_commits, errors = ranges.read_commits(repository, git, shas)
    if errors and not range_commits:
        raise NothingReadable(len(shas), _describe_first(errors), _describe_remedy(repository, errors))
    commits = [
        ClassifiedCommit(commit, parse_references(commit.message, own_names)) for commit in range_commits
    ]
    notes = list(find_release_notes(commits))
    dates = [commit.data.date for commit in commits]
    return LogAnswer(
        commit_range=text,
        commits=len(shas),
        authors=len({commit.data.author_email.lower() for commit in commits}),
        first_date=format_rfc3339(min(dates)) if dates else None,
        last_date=format_rfc3339(max(dates)) if dates else None,
        directories=tuple(count_directories(commits)[:MAX_DIRECTORIES]),
        kinds=tuple(_group_by_kind(commits, limit)),
        release_note_count=len(notes),
        release_notes=tuple(notes[:limit]),
        limitation=_describe_unreadable(repository, errors),
    )


def _describe_unreadable(repository: Repository, errors: Sequence[UnreadableObject]) -> str | None:
    if not errors:
        return None
    verb = "is" if len(errors) == 1 else "are"
    count, first = format_commit_count(len(errors)), _describe_first(errors)
    remedy = _describe_remedy(repository, errors)
    return f"{count} could not be read and {verb} left out: {first}. {remedy}"


def _describe_first(errors: Sequence[UnreadableObject]) -> str:
    others = ", and others" if len(errors) > 1 else ""
    return f"{errors[0].sha[:SHA_DIGITS]} ({errors[0].reason}){others}"


def _describe_remedy(repository: Repository, errors: Sequence[UnreadableObject]) -> str:
    if repository.is_partial_clone and errors[0].reason.endswith(" is missing"):
        return f"This partial clone lacks objects: run {REFETCH_COMMAND}."
    # If a commit has a readable message, only its files are unreadable, and git still lists the commits before it.
    is_cut_off = not all(_has_readable_message(repository, error.sha) for error in errors)
    cut_off_note = "Commits that only an unreadable commit reaches are not counted. " if is_cut_off else ""
    return f"{cut_off_note}To see the damage, run `git fsck`."


def _has_readable_message(repository: Repository, sha: str) -> bool:
    try:
        repository.read_commit(sha)
    except UnreadableObject:
        return False
    return True


def _group_by_kind(commits: Sequence[ClassifiedCommit], limit: int) -> Iterator[KindGroup]:
    groups: defaultdict[str, list[ClassifiedCommit]] = defaultdict(list)
    for commit in commits:
        groups[commit.kind.name].append(commit)
    for kind in KINDS:
        if kind in groups:
            newest = groups[kind][:limit]
            yield KindGroup(kind, len(groups[kind]), tuple(map(_build_log_commit, newest)))


def _build_log_commit(commit: ClassifiedCommit) -> LogCommit:
    return LogCommit(
        commit.sha,
        commit.subject,
        commit.data.author_name,
        format_rfc3339(commit.data.date),
        commit.shown_references,
    )


def count_directories(commits: Sequence[ClassifiedCommit]) -> list[DirectoryCount]:
    """Return the directories with the number of commits that change files in each, the largest number first.

    Start with the top-level directories. Replace a directory by its subdirectories if more than MAX_DIRECTORY_SHARE of
    the commits change it, or if they change one subdirectory and no file directly in it; repeat. Files directly in a
    replaced directory count for that directory. A commit counts for each directory in which it changes files.
    """
    # For each directory: kind and changed files of each commit that changes it.
    groups = {"": [(commit.kind.name, set(commit.data.paths)) for commit in commits if commit.data.paths]}
    max_commits = len(groups[""]) * MAX_DIRECTORY_SHARE
    counts: list[DirectoryCount] = []
    while groups:
        path, members = groups.popitem()
        direct_kinds, subdirectories = _split_directory(path, members)
        has_one_subdirectory_only = not direct_kinds and len(subdirectories) == 1
        is_divided = not path or len(members) > max_commits or has_one_subdirectory_only
        if is_divided:
            groups.update(subdirectories)
        kinds = direct_kinds if is_divided else [kind for kind, _ in members]
        if kinds:
            counts.append(DirectoryCount(path, len(kinds), count_kinds(kinds)))
    return sorted(counts, key=lambda directory: (-directory.commits, directory.path))


def _split_directory(
    path: str, members: Iterable[tuple[str, set[str]]]
) -> tuple[list[str], dict[str, list[tuple[str, set[str]]]]]:
    """Return the kinds of the commits that change files directly in a directory, and the members of each subdirectory.

    `members`: kind of each commit, with the files below `path` that it changes. `path` ends with a slash or is empty.
    """
    direct_kinds: list[str] = []
    subdirectories: defaultdict[str, list[tuple[str, set[str]]]] = defaultdict(list)
    for kind, paths in members:
        direct_files: set[str] = set()
        files_by_subdirectory: defaultdict[str, set[str]] = defaultdict(set)
        for file in paths:
            name, slash, _ = file.removeprefix(path).partition("/")
            files = files_by_subdirectory[f"{path}{name}/"] if slash else direct_files
            files.add(file)
        if direct_files:
            direct_kinds.append(kind)
        for subdirectory, files in files_by_subdirectory.items():
            subdirectories[subdirectory].append((kind, files))
    return direct_kinds, subdirectories


def find_release_notes(commits: Sequence[ClassifiedCommit]) -> Iterator[ReleaseNote]:
    """Yield notes of the changes that users may notice: breaking changes first, then by kind, then newest first.

    A merged pull request is one change, with the commits that it merged. A commit and its revert are left out if the
    range has both. `commits`: newest first.
    """
    notes = _build_notes(commits, _find_merged_commits(commits))
    yield from sorted(notes, key=lambda note: (not note.is_breaking, KINDS.index(note.kind)))


def _find_merged_commits(commits: Sequence[ClassifiedCommit]) -> dict[str, list[ClassifiedCommit]]:
    """Return the commits that each pull request merged, by the sha of the merge.

    A merge without a pull request may merge a branch into which pull requests were merged before. These pull requests
    are found too.
    """
    by_sha = {commit.sha: commit for commit in commits}
    parents = {sha: commit.data.parents for sha, commit in by_sha.items()}
    merged_commits: dict[str, set[str]] = {
        sha: set() for sha, commit in by_sha.items() if commit.pull_request_title
    }
    all_parents = {parent for parents_of_commit in parents.values() for parent in parents_of_commit}
    # Graphs to search: parents of each commit, and a tip to start from. A merge that several tips reach is found once
    # from each tip, with the same commits.
    pending = [(parents, sha) for sha in by_sha if sha not in all_parents]
    while pending:
        graph, tip = pending.pop()
        branches: defaultdict[str, dict[str, tuple[str, ...]]] = defaultdict(dict)
        for sha, merge in find_merges(graph, tip).items():
            branches[merge][sha] = graph[sha]
        for merge, branch in branches.items():
            if merge in merged_commits:
                merged_commits[merge] |= branch.keys()
            else:
                pending += [(branch, parent) for parent in parents[merge][1:] if parent in branch]
    positions = {sha: position for position, sha in enumerate(by_sha)}
    return {
        merge: [by_sha[sha] for sha in sorted(shas, key=positions.__getitem__)]
        for merge, shas in merged_commits.items()
    }


def _build_notes(
    commits: Sequence[ClassifiedCommit], merged_commits: Mapping[str, Sequence[ClassifiedCommit]]
) -> Iterator[ReleaseNote]:
    """Yield the notes in the order of the commits. `merged_commits`: result of `_find_merged_commits`."""
    cancelled_shas = _find_cancelled_commits(commits, merged_commits)
    pull_request_shas = {commit.sha for group in merged_commits.values() for commit in group}
    for commit in commits:
        sha = commit.sha
        if sha in cancelled_shas or sha in pull_request_shas:
            continue
        kind = commit.kind
        remaining_commits = [
            other for other in merged_commits.get(sha, ()) if other.sha not in cancelled_shas
        ]
        if sha in merged_commits:
            kind = _classify_pull_request(commit, remaining_commits)
        if kind.is_user_facing:
            yield _build_note(commit, kind, remaining_commits)


def _classify_pull_request(merge: ClassifiedCommit, merged_commits: Sequence[ClassifiedCommit]) -> CommitKind:
    """Return the kind of a pull request by its title and changed files, or else by the kinds of its commits.

    A pull request with a breaking commit is a breaking change.
    """
    paths = [path for commit in merged_commits for path in commit.data.paths]
    kind = merge.classify(merge.pull_request_title, paths)
    is_breaking = kind.is_breaking or any(commit.kind.is_breaking for commit in merged_commits)
    if kind.name == OTHER:
        # The title names no kind: use the first user-facing kind of the commits, in the order of KINDS.
        user_facing_kinds = [commit.kind for commit in merged_commits if commit.kind.is_user_facing]
        if user_facing_kinds:
            first_kind = min(user_facing_kinds, key=lambda other: KINDS.index(other.name))
            kind = replace(first_kind, title=kind.title)
    return replace(kind, is_breaking=is_breaking, is_user_facing=kind.is_user_facing or is_breaking)


def _build_note(
    commit: ClassifiedCommit, kind: CommitKind, merged_commits: Sequence[ClassifiedCommit]
) -> ReleaseNote:
    """Return the note of a commit. `merged_commits`: commits of the pull request that it merges; empty if none."""
    authors = Counter(member.data.author_name for member in merged_commits or (commit,))
    all_commits = (commit, *merged_commits)
    references = [text for member in all_commits for text in member.shown_references]
    return ReleaseNote(
        kind.name,
        remove_squash_suffix(kind.title),
        kind.is_breaking,
        tuple(dict.fromkeys(references)),
        authors.most_common(1)[0][0],
        tuple(member.sha for member in all_commits),
    )


def _find_cancelled_commits(
    commits: Sequence[ClassifiedCommit], merged_commits: Mapping[str, Sequence[ClassifiedCommit]]
) -> set[str]:
    """Return the shas of commits that the range reverts, and of commits that revert only commits of the range.

    A revert that is reverted itself cancels nothing. The commits of a reverted pull request are cancelled too. A pull
    request whose commits are all cancelled is cancelled too. `commits`: newest first.
    """
    sorted_shas = sorted(commit.sha for commit in commits)
    cancelled: set[str] = set()
    for commit in commits:
        if commit.sha in cancelled:
            continue
        # An empty text stands for a commit outside of the range.
        reverted = [_find_sha(sorted_shas, sha) for sha in commit.reverted_commits]
        for sha in filter(None, reverted):
            cancelled |= {sha, *(other.sha for other in merged_commits.get(sha, ()))}
        if reverted and all(reverted):
            cancelled.add(commit.sha)
    for merge, group in merged_commits.items():
        shas = [commit.sha for commit in group if not commit.is_merge]
        if shas and cancelled.issuperset(shas):
            cancelled.add(merge)
    return cancelled


def _find_sha(sorted_shas: Sequence[str], abbreviated_sha: str) -> str:
    """Return the only sha that begins with `abbreviated_sha`; an empty text if there is none or more than one."""
    position = bisect_left(sorted_shas, abbreviated_sha)
    shas = [sha for sha in sorted_shas[position : position + 2] if sha.startswith(abbreviated_sha)]
    return shas[0] if len(shas) == 1 else ""
