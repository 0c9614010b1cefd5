"""Search for all commits whose change adds or removes a text: `search_changes`.

A hunk is the diff of one file in one commit. A search scans the hunks in the index. For a hunk whose stored diff lacks
lines, such as a truncated one, it searches the file in git. It drops the commits outside the request's range; without a
range, it drops the commits that HEAD does not reach. Then it sorts the commits, and builds a hit with the matching
lines for each of the first `limit` commits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

from pipeline.git.errors import MISSING_OBJECT_HINT, UnreadableObject
from pipeline.git.patches import strip_file_header
from pipeline.git.repository import Repository, open_repository
from pipeline.git.tree_diff import create_content_patch, read_content
from serve.api_types import format_author_date, format_rfc3339
from serve.commit_ranges import resolve_range
from serve.commit_types import (
    ChangeHit,
    ChangeSearchAnswer,
    ChangeSearchDetails,
    ChangeSearchMeta,
    ChangeSearchRequest,
    MatchingFile,
    MatchingLine,
)
from serve.errors import BadRequest
from serve.evidence import EvidenceLoader
from serve.excerpts import EXCERPT_COLUMNS, get_subject, parse_section_lines, split_sections
from serve.find_types import FindRequest
from serve.index_status import (
    IndexStatus,
    add_range,
    build_compatibility,
    build_index_hints,
    build_index_state,
    load_index_status,
)
from serve.repositories import locate_index
from serve.search.query import parse_filters
from serve.search.query_hints import RepositoryContext
from serve.text import UNREADABLE_HINT, format_commit_count, format_count
from stores import exact_search, hunk_details, index_copy
from stores.exact_search import BadPattern, HunkMatch, IncompleteHunk, SearchPattern
from stores.filters import build_filter_condition
from stores.history import build_reachability_test
from stores.hunk_details import Connection, HunkDetails

# Number of characters that are shown before a match in a long line.
MATCH_MARGIN: Final = 60
# `{commits}` becomes "commits that HEAD does not reach, ", or empty with a range, which can include such commits.
LIMITATION: Final = (
    "Not searched: {commits}ignored paths, binary files, and what merges bring from their parents."
)


@dataclass(frozen=True, slots=True)
class GitMatches:
    """Matches among the hunks whose stored diffs lack lines, found in their complete diffs in git.

    `lines`: matching lines of each match, by hunk id. `unreadable`: number of hunks whose files this clone lacks.
    """

    matches: list[HunkMatch] = field(default_factory=list)
    lines: dict[int, tuple[MatchingLine, ...]] = field(default_factory=dict)
    unreadable: int = 0


def search_changes(request: ChangeSearchRequest, path: Path, home: Path) -> ChangeSearchAnswer:
    """Return the commits of the repository at `path` whose change adds or removes the pattern.

    A text matches as in `git log -S`: the numbers of occurrences in a file's added and removed lines differ. A regular
    expression matches as in `git log -G`: an added or removed line matches. Raises BadRequest, and NotIndexed without
    an index.
    """
    # FindRequest raises BadRequest for texts that are too long or cannot be encoded.
    filter_request = FindRequest(
        request.pattern,
        since=request.since,
        path=request.path,
        author=request.author,
        until=request.until,
        commit_range=request.commit_range,
    )
    with _reject_bad_pattern():
        pattern = SearchPattern(request.pattern, request.is_regex)
    repository = open_repository(path)
    location = locate_index(home, repository)
    loader = EvidenceLoader(repository, location.git_directory)
    commit_range = resolve_range(repository, loader.git, request.commit_range)
    with index_copy.open_index_or_copy(location) as index:
        connection = index.connection
        status = load_index_status(repository, connection, location=location, index_holder=index.holder)
        status = add_range(status, repository, loader.git, connection, commit_range)
        condition, parameters = _build_condition(filter_request, repository, connection)
        condition = f"{condition} AND {exact_search.build_range_condition(commit_range)}"
        is_searched = (
            commit_range.commits.__contains__
            if commit_range
            else build_reachability_test(connection, status.reachability)
        )
        with _reject_bad_pattern():
            matches = exact_search.find_matching_hunks(connection, pattern, condition, parameters)
        incomplete_hunks = exact_search.list_incomplete_hunks(connection, pattern, condition, parameters)
        git_matches = _search_in_git(
            repository, pattern, [hunk for hunk in incomplete_hunks if is_searched(hunk.commit_sha)]
        )
        truncated_merges = exact_search.list_truncated_merges(connection, condition, parameters)
        requested_matches = (
            match
            for match in (*matches, *git_matches.matches)
            if is_searched(match.commit_sha) and _has_requested_sign(request, match)
        )
        commit_matches = _group_by_commit(requested_matches, oldest_first=request.oldest_first)
        shown_count = min(request.limit, len(commit_matches))
        # If not all commits are shown, the answer also names the last one.
        last_matches = commit_matches[-1:] if shown_count < len(commit_matches) else []
        hits, messages = _build_hits(
            request, connection, pattern, [*commit_matches[:shown_count], *last_matches], git_matches
        )
        possible_copies = hunk_details.find_possible_copies(connection, status.reachability, list(messages))
        reverts = hunk_details.find_reverts(connection, status.reachability, list(messages))
        elsewhere = None
        if request.path and not commit_matches:
            condition, parameters = _build_condition(
                replace(filter_request, path=None), repository, connection
            )
            condition = f"{condition} AND {exact_search.build_range_condition(commit_range)}"
            matches = exact_search.find_matching_hunks(connection, pattern, condition, parameters)
            shas = {match.commit_sha for match in matches if _has_requested_sign(request, match)}
            elsewhere = sum(map(is_searched, shas))
    # An open index blocks index runs, so references and releases are read from git after the index is closed.
    evidence_loader = replace(
        loader, find_possible_copies=lambda _: possible_copies, find_reverts=lambda _: reverts
    )
    hits = evidence_loader.add_to(hits, messages)
    return ChangeSearchAnswer(
        hits[:shown_count],
        ChangeSearchMeta(
            index_status=build_index_state(status),
            hint=" ".join(_build_hints(status, git_matches, sum(map(is_searched, truncated_merges)))) or None,
            compatibility=build_compatibility(status.verdict),
            search=ChangeSearchDetails(
                commits=len(commit_matches),
                shown=shown_count,
                order="oldest" if request.oldest_first else "newest",
                last=replace(hits[-1], files=()) if last_matches else None,
                elsewhere=elsewhere,
                limitation=None if commit_matches else _describe_limitation(request),
            ),
        ),
    )


def _describe_limitation(request: ChangeSearchRequest) -> str:
    """Return what the search left out."""
    return LIMITATION.format(commits="" if request.commit_range else "commits that HEAD does not reach, ")


@contextmanager
def _reject_bad_pattern() -> Iterator[None]:
    """Raise BadRequest in place of BadPattern."""
    try:
        yield
    except BadPattern as error:
        raise BadRequest(error.message, hint=error.hint) from error


def _build_condition(
    request: FindRequest, repository: Repository, connection: Connection
) -> tuple[str, Mapping[str, Any]]:
    """Return the SQL condition of the filters, and its parameters."""
    context = RepositoryContext(
        has_language=lambda _: True,
        has_path=partial(hunk_details.has_path, connection),
        work_tree=None if repository.is_bare else repository.root,
    )
    return build_filter_condition(parse_filters(request, datetime.now(UTC), context))


def _search_in_git(
    repository: Repository, pattern: SearchPattern, hunks: Sequence[IncompleteHunk]
) -> GitMatches:
    """Search the files of these hunks in git, because their stored diffs lack lines."""
    git_matches, unreadable = GitMatches(), 0
    for hunk in hunks:
        try:
            lines = _find_lines_in_git(repository, pattern, hunk)
        except UnreadableObject:
            unreadable += 1
            continue
        added, removed = _count_occurrences(pattern, lines)
        if pattern.matches_counts(added, removed):
            git_matches.lines[hunk.hunk_id] = lines
            git_matches.matches.append(
                HunkMatch(hunk.hunk_id, hunk.commit_sha, hunk.commit_date, hunk.order, added, removed)
            )
    return replace(git_matches, unreadable=unreadable)


def _find_lines_in_git(
    repository: Repository, pattern: SearchPattern, hunk: IncompleteHunk
) -> tuple[MatchingLine, ...]:
    """Return the matching lines of a hunk's complete diff; none for a binary file."""
    old = read_content(repository, hunk.parent, hunk.old_path) if hunk.parent and hunk.old_path else None
    new = read_content(repository, hunk.commit_sha, hunk.path) if hunk.path else None
    if not pattern.may_match_change(old or b"", new or b""):
        return ()
    patch = strip_file_header(create_content_patch(old, new).data)
    return tuple(_find_matching_lines(pattern, patch.decode("utf-8", "replace")))


def _find_matching_lines(pattern: SearchPattern, diff: str) -> Iterator[MatchingLine]:
    """Yield the added and removed lines of a diff that match."""
    for section in split_sections(diff):
        for line in parse_section_lines(section):
            sign, text = line.text[:1], line.text[1:]
            if sign == "+" and pattern.matches(text):
                yield MatchingLine("+", line.new_number, text)
            elif sign == "-" and pattern.matches(text):
                yield MatchingLine("-", line.old_number, text)


def _count_occurrences(pattern: SearchPattern, lines: Sequence[MatchingLine]) -> tuple[int, int]:
    """Return the number of occurrences in the added and in the removed lines."""
    counts = {"+": 0, "-": 0}
    for line in lines:
        counts[line.sign] += pattern.count_occurrences(line.text)
    return counts["+"], counts["-"]


def _has_requested_sign(request: ChangeSearchRequest, match: HunkMatch) -> bool:
    """Check whether a hunk fits a request for only added or only removed matches.

    With `only_added`, a text must be added more often than removed, and a regular expression must match an added line.
    With `only_removed`, it is the other way round.
    """
    if request.only_added:
        return match.added > (0 if request.is_regex else match.removed)
    if request.only_removed:
        return match.removed > (0 if request.is_regex else match.added)
    return True


def _group_by_commit(matches: Iterator[HunkMatch], *, oldest_first: bool) -> list[list[HunkMatch]]:
    """Return a list of matches for each commit. The commits are sorted by date, the matches of a commit by hunk id."""
    matches_by_commit: dict[str, list[HunkMatch]] = defaultdict(list)
    for match in matches:
        matches_by_commit[match.commit_sha].append(match)
    groups = [sorted(group, key=lambda match: match.hunk_id) for group in matches_by_commit.values()]
    return sorted(groups, key=lambda group: (group[0].commit_date, group[0].order), reverse=not oldest_first)


def _build_hits(
    request: ChangeSearchRequest,
    connection: Connection,
    pattern: SearchPattern,
    commit_matches: Sequence[Sequence[HunkMatch]],
    git_matches: GitMatches,
) -> tuple[tuple[ChangeHit, ...], dict[str, str]]:
    """Return the hits without evidence, and the message of each commit by sha.

    `commit_matches`: matches of each commit. `git_matches`: has the lines of the matches that were found in git.
    """
    hunk_ids = [match.hunk_id for matches in commit_matches for match in matches[: request.max_files]]
    details = {hunk.hunk_id: hunk for hunk in hunk_details.load_hunk_details(connection, hunk_ids)}
    hits = []
    for matches in commit_matches:
        commit = details[matches[0].hunk_id]
        files = _build_files(request, pattern, matches[: request.max_files], details, git_matches)
        hits.append(
            ChangeHit(
                commit_sha=commit.commit_sha,
                commit_subject=get_subject(commit.commit_message),
                commit_author=commit.commit_author,
                commit_date=format_rfc3339(commit.commit_date),
                author_date=format_author_date(commit.author_date, commit.commit_date),
                files=tuple(files),
                file_count=len(matches),
            )
        )
    messages = {hunk.commit_sha: hunk.commit_message for hunk in details.values()}
    return tuple(hits), {hit.commit_sha: messages[hit.commit_sha] for hit in hits}


def _build_files(
    request: ChangeSearchRequest,
    pattern: SearchPattern,
    matches: Sequence[HunkMatch],
    details: Mapping[int, HunkDetails],
    git_matches: GitMatches,
) -> Iterator[MatchingFile]:
    """Yield the files of a commit, with at most `request.max_lines` matching lines in all."""
    excluded_sign = "-" if request.only_added else "+" if request.only_removed else ""
    remaining_lines = request.max_lines
    for match in matches:
        hunk = details[match.hunk_id]
        lines = git_matches.lines.get(match.hunk_id) or _find_matching_lines(pattern, hunk.diff)
        shown_lines = tuple(
            replace(line, text=_shorten_line(pattern, line.text))
            for line in islice((line for line in lines if line.sign != excluded_sign), remaining_lines)
        )
        remaining_lines -= len(shown_lines)
        yield MatchingFile(hunk.file_path, hunk.change_kind, match.added, match.removed, lines=shown_lines)


def _shorten_line(pattern: SearchPattern, text: str) -> str:
    """Shorten a long line to the surroundings of its first match."""
    if len(text) <= EXCERPT_COLUMNS:
        return text
    start = max(0, pattern.find(text) - MATCH_MARGIN)
    end = start + EXCERPT_COLUMNS
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"


def _build_hints(status: IndexStatus, git_matches: GitMatches, merge_count: int) -> Iterator[str]:
    """Yield the hints of an answer. `merge_count`: number of searched merges whose diff the index truncates."""
    yield from build_index_hints(status)
    if status.unreadable_commits:
        count = format_commit_count(status.unreadable_commits)
        yield f"{count} could not be read and may match. {UNREADABLE_HINT}"
    if git_matches.unreadable:
        changes = format_count(git_matches.unreadable, "large change")
        yield f"{changes} could not be searched, because this clone lacks the files. {MISSING_OBJECT_HINT}"
    if merge_count:
        merges = format_count(merge_count, "merge")
        yield f"Only the first lines of {merges} were searched, because so many lines differ from all parents."
