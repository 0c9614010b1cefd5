"""Deleted files: the commit that removed a path, its last version, and where its lines went."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from pipeline.git.changes import SUBMODULE_MODE, TREE_MODE, FileChange, decode_path
from pipeline.git.errors import UnreadableObject
from pipeline.git.git_cli import GitProgram
from pipeline.git.repository import Repository
from serve.answer_detail import get_subject
from serve.explain.line_similarity import build_key, extract_features
from serve.explain.line_sources import MIN_WEIGHT, find_blob, read_lines
from serve.explain.notes import find_similar_files
from serve.explain.target import Target, read_committed_target
from serve.text import SHA_DIGITS, escape_in_sentence

# Commits that changed a path which are checked for its removal: a limit for paths that come and go again and again.
MAX_COMMITS: Final = 1_000
# Files that are searched for the lines of a deleted file, and files that the answer names.
MAX_SEARCHED_FILES: Final = 200
MAX_DESTINATIONS: Final = 2
# A file is named if it received at least this share of the lines of the deleted file, and this number of them.
MIN_SHARE: Final = 0.25
MIN_LINES: Final = 3
# Renames that are followed: few files have more names.
MAX_RENAMES: Final = 10
# Characters of a commit subject in a sentence.
MAX_SUBJECT: Final = 80


@dataclass(frozen=True, slots=True)
class Removal:
    """Commit that removed a path. `parent`: the parent with the last version, the `position`-th of the commit."""

    commit_sha: str
    parent: str
    position: int
    path: bytes


def resolve_missing_file(repository: Repository, git: GitProgram, head: str, target: Target) -> Target:
    """Return the last version of a file that HEAD lacks. If there is none, the note of the target says so."""
    try:
        removal, sentence = describe_missing_file(repository, git, head, target)
        if removal is None:
            return replace(target, note=sentence)
        entry = repository.find_entry(removal.parent, removal.path)
        if entry is None or entry.mode in (TREE_MODE, SUBMODULE_MODE):
            kind = "submodule" if entry and entry.mode == SUBMODULE_MODE else "directory"
            return replace(target, note=f"{sentence} It was a {kind}.")
        last_version = read_committed_target(repository, removal.parent, removal.path, entry.sha)
    except UnreadableObject as error:
        return replace(
            target,
            note=f"{target.display_path} does not exist in HEAD. Its history is unreadable: {error.reason}.",
        )
    untracked = "git does not track the file in the work tree. " if target.is_untracked else ""
    version = f"{untracked}This explains its last version, in commit {removal.parent[:SHA_DIGITS]}."
    return replace(
        last_version, note=f"{sentence} {version if last_version.content is not None else last_version.note}"
    )


def describe_missing_file(
    repository: Repository, git: GitProgram, head: str, target: Target
) -> tuple[Removal | None, str]:
    """Return the commit that removed a file that HEAD lacks, and a sentence that says so and where its lines went.

    None if HEAD's history never had it; the sentence then suggests similar files. Raises UnreadableObject.
    """
    removals = (
        find_removal(repository, git, head, path) for path in (target.path, *target.other_paths) if path
    )
    removal = next(filter(None, removals), None)
    if removal is None:
        return None, _describe_unknown_file(repository, target, head, git)
    return removal, _try_describe_removal(repository, git, head, removal)


def find_removal(repository: Repository, git: GitProgram, head: str, path: bytes) -> Removal | None:
    """Return the newest commit of HEAD that removed a path; None if HEAD's history never had it."""
    # git leaves out the other side of a merge that equals one of its parents, which can be the side with the file.
    for options in (["-1"], ["--full-history", f"-{MAX_COMMITS}"]):
        output = git.run("rev-list", *options, head, "--", path)
        if output.exit_code:
            raise UnreadableObject(head, "git cannot list its history")
        for sha in output.stdout.decode().split():
            if repository.find_entry(sha, path) is not None:
                continue
            for position, parent in enumerate(repository.read_commit(sha).parents):
                if repository.find_entry(parent, path) is not None:
                    return Removal(sha, parent, position, path)
    return None


def _describe_unknown_file(repository: Repository, target: Target, head: str, git: GitProgram) -> str:
    """Say that a file never existed, as far as the clone knows, and suggest similar ones."""
    if target.is_untracked:
        return f"{target.display_path} does not exist in HEAD: git does not track it, so it has no history."
    similar_files = find_similar_files(target.path, head, git)
    question = f" Did you mean {' or '.join(similar_files)}?" if similar_files else ""
    extent = "nor in the history of this shallow clone" if repository.is_shallow else "and never did"
    return f"{target.display_path} does not exist in HEAD {extent}.{question}"


def _format_path(path: bytes) -> str:
    return escape_in_sentence(decode_path(path))


def _try_describe_removal(repository: Repository, git: GitProgram, head: str, removal: Removal) -> str:
    """Describe the removal; only name the commit if an object for the rest is unreadable."""
    try:
        return _describe_removal(repository, git, head, removal)
    except UnreadableObject:
        commit = _format_commit(repository, removal)
        return f"{_format_path(removal.path)} does not exist in HEAD: {commit} removed or renamed it."


def _describe_removal(repository: Repository, git: GitProgram, head: str, removal: Removal) -> str:
    """Say which commit removed or renamed a file, and where its lines went."""
    commit = _format_commit(repository, removal)
    missing = f"{_format_path(removal.path)} does not exist in HEAD: {commit}"
    changes = _list_changes(repository, removal)
    new_path = _find_new_path(removal.path, changes)
    if new_path is not None:
        return f"{missing} renamed it to {_follow_renames(repository, git, head, new_path)}"
    destinations = ", ".join(_find_destinations(repository, removal, changes))
    return f"{missing} removed it.{f' The same commit added {destinations}.' if destinations else ''}"


def _follow_renames(repository: Repository, git: GitProgram, head: str, path: bytes) -> str:
    """Return the new name of a file and the sentences about what became of it since."""
    names = _format_path(path)
    for _ in range(MAX_RENAMES):
        if repository.find_entry(head, path) is not None:
            return f"{names}. Explain that file for later changes."
        removal = find_removal(repository, git, head, path)
        if removal is None:
            break
        new_path = _find_new_path(path, _list_changes(repository, removal))
        commit = _format_commit(repository, removal)
        if new_path is None:
            return f"{names}, which {commit} removed."
        path = new_path
        names = f"{names}, which {commit} renamed to {_format_path(path)}"
    return f"{names}."


def _format_commit(repository: Repository, removal: Removal) -> str:
    subject = get_subject(repository.read_commit(removal.commit_sha).message)
    if len(subject) > MAX_SUBJECT:
        subject = f"{subject[:MAX_SUBJECT]}…"
    return f'commit {removal.commit_sha[:SHA_DIGITS]} ("{escape_in_sentence(subject)}")'


def _list_changes(repository: Repository, removal: Removal) -> list[FileChange]:
    """Return the changes against the parent with the file; none of a merge that equals another parent there."""
    diffs = repository.diff_with_parents(removal.commit_sha)
    return diffs[removal.position].changes if diffs else []


def _find_new_path(path: bytes, changes: list[FileChange]) -> bytes | None:
    return next((change.path for change in changes if change.old_path == path), None)


def _find_destinations(repository: Repository, removal: Removal, changes: list[FileChange]) -> Iterator[str]:
    """Yield the files that received many lines of the deleted one, with the numbers of lines."""
    lines = read_lines(repository, find_blob(repository, removal.parent, removal.path))
    keys = {build_key(line) for line in lines if extract_features(line).weight >= MIN_WEIGHT}
    searched = [change for change in changes if change.kind != "deleted"][:MAX_SEARCHED_FILES]
    counts = [
        (len(keys & _list_added_keys(repository, change)), _format_path(change.path)) for change in searched
    ]
    for count, path in sorted(counts, key=lambda entry: -entry[0])[:MAX_DESTINATIONS]:
        if count >= max(MIN_LINES, MIN_SHARE * len(keys)):
            yield f"{count} of its {len(keys)} distinct lines to {path}"


def _list_added_keys(repository: Repository, change: FileChange) -> set[str]:
    """Return the texts of the lines that a change added, without white space."""
    lines = read_lines(repository, change.new_blob)
    if not lines or change.new_blob is None:
        return set()
    if change.old_blob is None or not read_lines(repository, change.old_blob):
        return set(map(build_key, lines))
    parts = repository.diff_blobs(change.old_blob, change.new_blob)
    return {build_key(lines[number - 1]) for part in parts for number in part.added}
