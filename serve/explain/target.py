"""File to explain and its content to blame: in the work tree, in HEAD, or the last version before its removal."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from pipeline.git.changes import (
    SUBMODULE_MODE,
    SYMLINK_MODE,
    TREE_MODE,
    FileChange,
    decode_escapes,
    decode_path,
    is_binary,
)
from pipeline.git.errors import UnreadableObject
from pipeline.git.git_cli import GitProgram
from pipeline.git.repository import Repository
from serve.excerpts import get_subject
from serve.explain.changed_lines import find_blob, read_lines
from serve.explain.line_similarity import MIN_WEIGHT, build_key, extract_features
from serve.text import SHA_DIGITS, escape_in_sentence, format_command, quote_command

# git blame needs several times the size of a file in memory, and nobody reads a larger file line by line.
MAX_FILE_BYTES: Final = 100 << 20
# Maximum number of similar file names to suggest. Nobody reads a longer list.
MAX_SUGGESTIONS: Final = 3
# Minimum similarity of a suggested path to the requested path, as `difflib` computes it.
MIN_NAME_SIMILARITY: Final = 0.8
# Maximum number of files that are searched for the lines of a deleted file.
MAX_SEARCHED_FILES: Final = 200
# Maximum number of destinations in an answer: files to which the lines of a deleted file were moved.
MAX_DESTINATIONS: Final = 2
# A destination received at least this share of the deleted file's lines, and at least this many lines.
MIN_DESTINATION_SHARE: Final = 0.25
MIN_DESTINATION_LINES: Final = 3
# Maximum number of renames that are followed. Few files were renamed more often.
MAX_RENAMES: Final = 10
# Maximum number of characters of a commit subject in a sentence.
MAX_SUBJECT: Final = 80


@dataclass(frozen=True, slots=True)
class Target:
    """A file to explain.

    - `path`: path relative to the repository, as git's bytes.
    - `content`: content to blame; None if there is nothing to blame.
    - `note`: sentence for the user: why there is nothing to blame, or which version is explained; may be empty.
    - `revision`: commit that has the content; empty if the content is from the work tree.
    - `is_missing`: the path is neither in HEAD nor a tracked file of the work tree. `is_untracked`: it is missing, but
      an untracked file of the work tree has the path. `is_directory`: the path leads to a directory.
    - `is_unreadable`: the system does not let this process read the file.
    - `other_paths`: other paths that the name of a missing file can mean.
    - `working_tree_encoding`: encoding of the content, by the git attribute `working-tree-encoding`; empty if it is not
      set. git stores such a file as UTF-8.
    """

    path: bytes
    content: bytes | None = None
    note: str = ""
    revision: str = ""
    is_missing: bool = False
    is_untracked: bool = False
    is_directory: bool = False
    is_unreadable: bool = False
    other_paths: tuple[bytes, ...] = ()
    working_tree_encoding: str = ""

    @property
    def display_path(self) -> str:
        """The path as text, with undecodable bytes escaped."""
        return decode_path(self.path)

    @property
    def lines(self) -> list[bytes]:
        """The lines as git counts them, without line breaks."""
        lines = _convert_to_utf8(self.content or b"", self.working_tree_encoding).split(b"\n")
        return lines if lines[-1] else lines[:-1]


@dataclass(frozen=True, slots=True)
class _PathEntry:
    """Path with its entry in HEAD's tree. Without an entry, `mode` is 0, and `entry_path` and `blob` are empty.

    `entry_path`: the path itself, or the path of the submodule that contains it. `blob`: sha of the entry's object.
    `is_in_work_tree`: the path exists in the work tree.
    """

    path: bytes
    mode: int
    entry_path: bytes
    blob: str
    is_in_work_tree: bool


def format_path(path: bytes) -> str:
    """Return a path for a sentence: see `escape_in_sentence`."""
    return escape_in_sentence(decode_path(path))


def resolve_target(repository: Repository, head: str | None, file: str, cwd: Path | None) -> Target:
    """Return the target for a file name, which is relative to the repository or else to `cwd`.

    `head`: sha of HEAD; None without commits. If there is nothing to blame, the note of the target says why.
    """
    candidates = list_candidate_paths(repository, file, cwd)
    inner_paths = [path for path in dict.fromkeys(candidates) if path is not None]
    if not inner_paths:
        path = os.fsencode(file)
        return Target(path, note=f"{format_path(path)} lies outside the repository.")
    entries = [_find_path_entry(repository, head, path) for path in inner_paths]
    entry = next((entry for entry in entries if entry.is_in_work_tree or entry.mode), entries[0])
    target = _build_target(repository, head, entry)
    return replace(target, other_paths=tuple(inner_paths[1:])) if target.is_missing else target


def list_candidate_paths(repository: Repository, file: str, cwd: Path | None) -> Iterator[bytes | None]:
    """Yield the paths that a name can mean, the most likely first; None for a path outside the repository.

    The paths with `\\xNN` decoded come last. A name from an answer may have this form, for bytes that are not UTF-8.
    """
    base_directories = [repository.root, *([cwd] if cwd else [])]
    # A leading `./` or `../` means the working directory first.
    if file.startswith(("./", "../")):
        base_directories.reverse()
    for base_directory in base_directories:
        yield _make_relative(repository.root, base_directory, file)
    decoded_name = decode_escapes(file)
    if decoded_name != file:
        yield from list_candidate_paths(repository, decoded_name, cwd)


def _make_relative(root: Path, base_directory: Path, name: str) -> bytes | None:
    """Return the path of a name relative to the root; None if it is outside.

    `base_directory`: directory that the name is relative to. Symbolic links are resolved, except the last component.
    """
    joined_path = base_directory / name
    # `os.path.realpath` stops at a loop of links, where `Path.resolve` raises.
    if joined_path.name in ("", ".."):
        full_path = Path(os.path.realpath(joined_path))
    else:
        full_path = Path(os.path.realpath(joined_path.parent), joined_path.name)
    if not full_path.is_relative_to(root):
        return None
    return b"" if full_path == root else os.fsencode(full_path.relative_to(root))


def _find_path_entry(repository: Repository, head: str | None, path: bytes) -> _PathEntry:
    entry = repository.find_entry(head, path) if head and path else None
    is_in_work_tree = not repository.is_bare and os.path.lexists(_make_absolute(repository, path))
    if entry is None:
        return _PathEntry(path, 0, b"", "", is_in_work_tree)
    return _PathEntry(path, entry.mode, entry.name, entry.sha, is_in_work_tree)


def _build_target(repository: Repository, head: str | None, entry: _PathEntry) -> Target:
    """Return the target for a path: a file, directory, submodule or missing path."""
    path = _make_absolute(repository, entry.path)
    if entry.mode == SUBMODULE_MODE:
        return _build_submodule_target(repository, entry)
    is_directory = entry.mode == TREE_MODE
    if entry.is_in_work_tree:
        is_directory = path.is_dir() and not path.is_symlink()
    if is_directory or not entry.path:
        return _build_directory_target(entry.path)
    if entry.is_in_work_tree:
        return _build_work_tree_target(repository, head, entry)
    if entry.mode:
        note = f"{format_path(entry.path)} is not in the work tree: this explains its version in HEAD."
        target = read_committed_target(repository, "HEAD", entry.path, entry.blob, entry.mode)
        if repository.is_bare or target.content is None:
            return target
        return replace(target, note=f"{note} {target.note}".rstrip())
    return Target(entry.path, note=f"{format_path(entry.path)} does not exist in HEAD.", is_missing=True)


def _build_work_tree_target(repository: Repository, head: str | None, entry: _PathEntry) -> Target:
    if head is None:
        return Target(entry.path, note="HEAD has no commit.")
    if not entry.mode and not repository.is_in_index(entry.path):
        note = f"{format_path(entry.path)} does not exist in HEAD."
        return Target(entry.path, note=note, is_missing=True, is_untracked=True)
    return _read_work_tree_file(repository, entry.path)


def _build_submodule_target(repository: Repository, entry: _PathEntry) -> Target:
    module = decode_path(entry.entry_path)
    inner_path = decode_path(entry.path[len(entry.entry_path) + 1 :]) or "FILE"
    command = format_command("lineage", "explain", inner_path, str(repository.root / module))
    update = quote_command("git", "-C", str(repository.root), "submodule", "update", "--init", "--", module)
    checkout = "" if os.path.lexists(repository.root / module / ".git") else f"{update} and then "
    note = f"{escape_in_sentence(module)} is a submodule, which is a separate repository"
    return Target(entry.path, note=f"{note}: run {checkout}{command}." if command else f"{note}.")


def _build_directory_target(path: bytes) -> Target:
    note = f"{format_path(path) or 'The repository'} is a directory: name a file in it."
    return Target(path, note=note, is_directory=True)


def read_committed_target(
    repository: Repository, revision: str, path: bytes, blob: str, mode: int = 0
) -> Target:
    """Return the target for a file of a commit.

    `blob`: sha of its content. `mode`: mode of the file, so that a symbolic link gets a note; 0 if unknown.
    """
    name = format_path(path)
    if repository.read_blob_size(blob) > MAX_FILE_BYTES:
        return Target(path, note=f"{name} is too large to explain.")
    content = repository.read_blob(blob)
    if is_binary(content):
        return Target(path, note=f"{name} is binary: it has no lines to explain.")
    return Target(path, content, _describe_link(path, content) if mode == SYMLINK_MODE else "", revision)


def _describe_link(path: bytes, destination: bytes) -> str:
    return f"{format_path(path)} is a symbolic link to {format_path(destination)}: this explains the link itself."


def _read_work_tree_file(repository: Repository, path: bytes) -> Target:
    """Return the target for a path in the work tree: a regular file, or a symbolic link and its destination."""
    name, file = format_path(path), _make_absolute(repository, path)
    try:
        if file.is_symlink():
            destination = os.fsencode(file.readlink())
            return Target(path, destination, _describe_link(path, destination))
        content = _read_regular_file(file)
    except OSError as error:
        return Target(path, note=f"{name} cannot be read: {error.strerror}.", is_unreadable=True)
    if content is None:
        return Target(path, note=f"{name} is too large to explain, or not a regular file.")
    attribute = repository.get_attribute(path, "working-tree-encoding")
    encoding = attribute if isinstance(attribute, str) else ""
    if is_binary(_convert_to_utf8(content, encoding)):
        return Target(path, note=f"{name} is binary: it has no lines to explain.")
    return Target(path, content, working_tree_encoding=encoding)


def _read_regular_file(file: Path) -> bytes | None:
    """Return the content of a file; None if it is too large or not a regular file."""
    # Another process can replace the file by a link out of the repository or by a pipe, which would block.
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as opened:  # noqa: PTH123 - a descriptor, not a path
        status = os.fstat(opened.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
            return None
        return opened.read()


def _make_absolute(repository: Repository, path: bytes) -> Path:
    return repository.root / os.fsdecode(path)


def _convert_to_utf8(content: bytes, encoding: str) -> bytes:
    """Convert content to UTF-8, as git stores it. Return it unchanged if the encoding is empty, unknown or wrong."""
    # git reads its own encoding UTF-16LE-BOM as UTF-16: the byte order mark is not part of the text.
    codec = "UTF-16" if encoding.upper().endswith(("16LE-BOM", "16BE-BOM")) else encoding
    try:
        return content.decode(codec).encode() if codec else content
    except (LookupError, UnicodeError):
        return content


@dataclass(frozen=True, slots=True)
class Removal:
    """Commit that removed a path. `parent`: parent commit with the last version. `position`: index of this parent."""

    commit_sha: str
    parent: str
    position: int
    path: bytes


def resolve_missing_file(repository: Repository, git: GitProgram, head: str, target: Target) -> Target:
    """Return the last version of a file that HEAD lacks. If there is none, the note of the target says why."""
    try:
        removal, sentence = describe_missing_file(repository, git, head, target)
        if removal is None:
            return replace(target, note=sentence)
        entry = repository.find_entry(removal.parent, removal.path)
        if entry is None or entry.mode in (TREE_MODE, SUBMODULE_MODE):
            kind = "submodule" if entry and entry.mode == SUBMODULE_MODE else "directory"
            return replace(target, note=f"{sentence} It was a {kind}.")
        last_version = read_committed_target(repository, removal.parent, removal.path, entry.sha, entry.mode)
    except UnreadableObject as error:
        return replace(
            target,
            note=f"{format_path(target.path)} does not exist in HEAD. Its history is unreadable: {error.reason}.",
        )
    untracked = "git does not track the file in the work tree. " if target.is_untracked else ""
    version = f"{untracked}This explains its last version, in commit {removal.parent[:SHA_DIGITS]}."
    parts = (sentence, version if last_version.content is not None else "", last_version.note)
    return replace(last_version, note=" ".join(filter(None, parts)))


def describe_missing_file(
    repository: Repository, git: GitProgram, head: str, target: Target
) -> tuple[Removal | None, str]:
    """Return the removal of a file that HEAD lacks, and a sentence about its commit and the destinations of its lines.

    If no removal is found, return None and a sentence with similar files. Raises UnreadableObject.
    """
    paths = filter(None, (target.path, *target.other_paths))
    removals = (find_removal(repository, git, head, path) for path in paths)
    removal = next(filter(None, removals), None)
    if removal is None:
        return None, _describe_unknown_file(repository, git, head, target)
    return removal, _try_describe_removal(repository, git, head, removal)


def find_removal(repository: Repository, git: GitProgram, head: str, path: bytes) -> Removal | None:
    """Return the newest commit of HEAD's history that removed a path; None if the history never had it.

    HEAD does not have the path, so the newest commit that changed it is the one that removed it.
    """
    # If a merge equals one of its parents, git skips the other parents, although they may have the file. The second run
    # includes those parents.
    for options in ([], ["--full-history"]):
        output = git.run("rev-list", "-1", *options, head, "--", path)
        if output.exit_code:
            raise UnreadableObject(head, "git cannot list its history")
        for sha in output.stdout.decode().split():
            for position, parent in enumerate(repository.read_commit(sha).parents):
                if _has_path(repository, parent, path):
                    return Removal(sha, parent, position, path)
    return None


def _has_path(repository: Repository, sha: str, path: bytes) -> bool:
    """Check whether a commit has a path itself. A path inside a submodule belongs to another repository."""
    return (entry := repository.find_entry(sha, path)) is not None and entry.name == path


def _describe_unknown_file(repository: Repository, git: GitProgram, head: str, target: Target) -> str:
    """Return a sentence: the file never existed, as far as this clone shows; and suggestions of similar files."""
    missing = f"{format_path(target.path)} does not exist in HEAD"
    if target.is_untracked:
        return f"{missing}: git does not track it, so it has no history."
    similar_files = map(escape_in_sentence, find_similar_files(target.path, head, git))
    suggestion = " or ".join(similar_files)
    question = f" Did you mean {suggestion}?" if suggestion else ""
    extent = "nor in the history of this shallow clone" if repository.is_shallow else "and never did"
    return f"{missing} {extent}.{question}"


def _try_describe_removal(repository: Repository, git: GitProgram, head: str, removal: Removal) -> str:
    """Return the sentence of `_describe_removal`. If an object is unreadable, name only the commit."""
    try:
        return _describe_removal(repository, git, head, removal)
    except UnreadableObject:
        commit = _format_commit(repository, removal)
        return f"{format_path(removal.path)} does not exist in HEAD: {commit} removed or renamed it."


def _describe_removal(repository: Repository, git: GitProgram, head: str, removal: Removal) -> str:
    """Return a sentence about the commit that removed or renamed a file, and about the destinations of its lines."""
    commit = _format_commit(repository, removal)
    missing = f"{format_path(removal.path)} does not exist in HEAD: {commit}"
    changes = _list_changes(repository, removal)
    new_path = _find_new_path(removal.path, changes)
    if new_path is not None:
        return f"{missing} renamed it to {_follow_renames(repository, git, head, new_path)}"
    destinations = ", ".join(_find_destinations(repository, removal, changes))
    return f"{missing} removed it.{f' The same commit added {destinations}.' if destinations else ''}"


def _follow_renames(repository: Repository, git: GitProgram, head: str, path: bytes) -> str:
    """Return the end of a sentence: the new path of a renamed file, and its later renames and removal.

    `path`: the new path.
    """
    clause = format_path(path)
    for _ in range(MAX_RENAMES):
        if _has_path(repository, head, path):
            return f"{clause}. Run `lineage explain` on that file for its later changes."
        removal = find_removal(repository, git, head, path)
        if removal is None:
            break
        new_path = _find_new_path(path, _list_changes(repository, removal))
        commit = _format_commit(repository, removal)
        if new_path is None:
            return f"{clause}, which {commit} removed."
        path = new_path
        clause = f"{clause}, which {commit} renamed to {format_path(path)}"
    return f"{clause}."


def _format_commit(repository: Repository, removal: Removal) -> str:
    subject = get_subject(repository.read_commit(removal.commit_sha).message)
    if len(subject) > MAX_SUBJECT:
        subject = f"{subject[:MAX_SUBJECT]}…"
    return f'commit {removal.commit_sha[:SHA_DIGITS]} ("{escape_in_sentence(subject)}")'


def _list_changes(repository: Repository, removal: Removal) -> list[FileChange]:
    """Return the changes between the parent that has the removed file and the commit.

    The list is empty for a merge in which every file equals its version in a parent.
    """
    diffs = repository.diff_with_parents(removal.commit_sha)
    return diffs[removal.position].changes if diffs else []


def _find_new_path(path: bytes, changes: list[FileChange]) -> bytes | None:
    """Return the path to which the changes rename a file; None if they do not."""
    return next((change.path for change in changes if change.old_path == path), None)


def _find_destinations(repository: Repository, removal: Removal, changes: list[FileChange]) -> Iterator[str]:
    """Yield for each destination a phrase with its path and the number of lines that the commit added to it."""
    lines = read_lines(repository, find_blob(repository, removal.parent, removal.path))
    keys = {build_key(line) for line in lines if extract_features(line).weight >= MIN_WEIGHT}
    searched = [change for change in changes if change.kind != "deleted"][:MAX_SEARCHED_FILES]
    counts = {change.path: len(keys & _list_added_keys(repository, change)) for change in searched}
    for path, count in Counter(counts).most_common(MAX_DESTINATIONS):
        if count >= max(MIN_DESTINATION_LINES, MIN_DESTINATION_SHARE * len(keys)):
            yield f"{count} of its {len(keys)} distinct lines to {format_path(path)}"


def _list_added_keys(repository: Repository, change: FileChange) -> set[str]:
    """Return the keys (`build_key`) of the lines that a change added."""
    lines = read_lines(repository, change.new_blob)
    if not lines or change.new_blob is None:
        return set()
    if change.old_blob is None or not read_lines(repository, change.old_blob):
        return set(map(build_key, lines))
    parts = repository.diff_blobs(change.old_blob, change.new_blob)
    return {build_key(lines[number - 1]) for part in parts for number in part.added}


def find_similar_files(path: bytes, sha: str, git: GitProgram) -> list[str]:
    """Return files of a commit with the same name elsewhere, or else with a similar name in the same directory."""
    # In a partial clone, git may fail at a missing directory. The files that git listed before are still useful.
    files = git.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", sha).stdout.split(b"\0")
    directory, _, name = path.rpartition(b"/")
    same_name_files = [file for file in files if file.rpartition(b"/")[2].lower() == name.lower()]
    if same_name_files:
        return [decode_path(file) for file in same_name_files[:MAX_SUGGESTIONS]]
    siblings = [decode_path(file) for file in files if file and file.rpartition(b"/")[0] == directory]
    return get_close_matches(decode_path(path), siblings, n=MAX_SUGGESTIONS, cutoff=MIN_NAME_SIMILARITY)
