"""Display of a commit, of the diff of one of its files, or of a file as it was: `show_commit`.

All this comes from git. With an index, copies of the commit and its revert are found too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pipeline.git import commit_graph
from pipeline.git.changes import TREE_MODE, FileChange, decode_path, is_binary, is_regular
from pipeline.git.errors import UnreadableObject
from pipeline.git.objects import TreeEntry
from pipeline.git.patches import remove_context, strip_file_header
from pipeline.git.ranges import check_damage, suggest_references
from pipeline.git.repository import Repository, TreeDiff, open_repository
from pipeline.git.tree_diff import read_content
from pipeline.hunks import OVERSIZE_BYTES
from pipeline.walk import compute_reachability_delta
from serve.api_types import format_author_date, format_rfc3339, is_valid_name, parse_line_range
from serve.commit_types import CommitDetails, CommitFile, FileContent, FileDiff, ShowAnswer, ShowRequest
from serve.errors import BadRequest
from serve.evidence import EvidenceLoader, describes_commit, select_changelog_entries
from serve.excerpts import CHARS_PER_TOKEN, get_subject
from serve.explain.file_history import LOCK_WAIT_SECONDS
from serve.explain.target import MAX_FILE_BYTES, find_similar_files, list_candidate_paths
from serve.repositories import find_index
from serve.text import SHA_DIGITS, escape_in_sentence, format_command, format_count
from stores import history, hunk_details, index_copy
from stores.errors import LineageError

# Maximum number of listed files of a commit. Counting the changed lines of a file reads both of its versions.
MAX_FILES: Final = 100
# Maximum number of names in an error. More do not help to choose.
MAX_NAMES: Final = 10
# Approximate number of characters of an answer besides its message, changelog entries, files and text.
ANSWER_OVERHEAD: Final = 200
# Approximate number of characters of a file's entry besides its paths and limitation.
FILE_OVERHEAD: Final = 20
# A cut message keeps its subject up to this many characters.
MAX_SUBJECT_CHARS: Final = 200
# Maximum number of characters of a requested name that an error repeats.
MAX_QUOTED: Final = 200
# Number of digits after an ambiguous prefix that an error shows of each commit, to distinguish the commits.
MORE_DIGITS: Final = 8
_SHA: Final = re.compile(r"[0-9a-f]{40}")
_HEAD_EXPRESSION: Final = re.compile(r"(HEAD|@)([~^@]|$)")
_SHA_PREFIX: Final = re.compile(r"[0-9a-f]{4,40}", re.IGNORECASE)
REVISION_HINT: Final = "Give the sha of a commit, a branch, a tag, or an expression such as `HEAD~2`."


class UnknownCommit(BadRequest):
    """Error for a revision that names no commit of the repository."""


class MissingFile(BadRequest):
    """Error for a file that the commit does not have."""


class FileNotChanged(BadRequest):
    """Error for a file that the commit does not change. The hint names the files that the commit changes.

    `remedy`: last sentence of the hint, which says how to see the file as it was; it may be empty.
    """

    def __init__(self, message: str, names: str, remedy: str) -> None:
        super().__init__(message, hint=f"It changes {names}. {remedy}".rstrip())
        self.remedy = remedy


def show_commit(
    request: ShowRequest, path: Path, cwd: Path | None = None, home: Path | None = None
) -> ShowAnswer:
    """Return a commit of the repository at `path` with its files, the diff of one file, or the content of one file.

    The file name is relative to the repository or to `cwd`, the user's working directory. Copies of the commit and its
    revert are found with the index under `home`, if there is one. Raises BadRequest.
    """
    repository = open_repository(path)
    revision, path_in_revision = _split_path(request.commit)
    if path_in_revision is not None and not path_in_revision.strip():
        raise BadRequest("There is no path after the colon.", hint="Give `COMMIT:PATH`, or the commit alone.")
    if path_in_revision and request.path:
        raise BadRequest("The file is named twice.", hint="Give `COMMIT:PATH`, or the commit and the path.")
    file = path_in_revision or request.path
    if file is None and request.lines is not None:
        raise BadRequest("Lines need a file.", hint="Name the file of the lines, too.")
    sha = _resolve_commit(repository, revision)
    answer = ShowAnswer(_add_evidence(_load_commit(repository, sha), repository, home))
    if file is None:
        answer = _add_files(answer, repository)
    elif path_in_revision or request.lines is not None:
        answer = replace(answer, content=_load_content(repository, sha, file, request.lines, cwd))
    else:
        answer = _add_diff(answer, repository, file, cwd)
    return answer if request.max_tokens is None else limit_length(answer, request.max_tokens)


def limit_length(answer: ShowAnswer, max_tokens: int) -> ShowAnswer:
    """Cut the message and the other part (list of files, diff or content) to about `max_tokens` together.

    The message may take half of the length, or more if the other part is shorter. Its subject stays, up to
    MAX_SUBJECT_CHARS characters.
    """
    max_chars = max_tokens * CHARS_PER_TOKEN - ANSWER_OVERHEAD - sum(map(len, answer.changelog))
    message = answer.commit.commit_message
    min_message_chars = min(len(get_subject(message)), MAX_SUBJECT_CHARS)
    texts = (part.text for part in (answer.diff, answer.content) if part)
    other_chars = sum(map(_count_chars, answer.files)) + sum(map(len, texts))
    max_message_chars = max(min_message_chars, max_chars // 2, max_chars - other_chars)
    if len(message) > max_message_chars:
        message = f"{message[:max_message_chars]}…"
    max_chars -= len(message)
    files: list[CommitFile] = []
    for file in answer.files:
        max_chars -= _count_chars(file)
        if files and max_chars < 0:
            break
        files.append(file)
    diff, content = answer.diff, answer.content
    if diff:
        text, omitted = _cut_diff(diff.text, max_chars)
        diff = replace(diff, text=text, omitted_lines=diff.omitted_lines + omitted)
    if content:
        text, omitted = _cut_lines(content.text, max_chars)
        content = replace(
            content,
            text=text,
            last_line=content.last_line - omitted,
            omitted_lines=content.omitted_lines + omitted,
        )
    commit = replace(answer.commit, commit_message=message)
    return replace(answer, commit=commit, files=tuple(files), diff=diff, content=content)


def _count_chars(file: CommitFile) -> int:
    """Return the approximate length of a file's entry in the list."""
    return len(file.path) + len(file.old_path or "") + len(file.limitation or "") + FILE_OVERHEAD


def _cut_diff(text: str, max_chars: int) -> tuple[str, int]:
    """Return a diff of at most `max_chars`, and the number of omitted lines.

    A diff that is too long first loses its context lines. If it is still too long, `_cut_lines` cuts it.
    """
    if len(text) <= max_chars:
        return text, 0
    text_without_context = remove_context(text)
    cut_text, omitted = _cut_lines(text_without_context, max_chars)
    return cut_text, omitted + text.count("\n") - text_without_context.count("\n")


def _cut_lines(text: str, max_chars: int) -> tuple[str, int]:
    """Return the first complete lines that fit, and the number of omitted lines. A too long first line is cut."""
    if len(text) <= max_chars:
        return text, 0
    end = text.rfind("\n", 0, max(0, max_chars)) + 1
    if not end and max_chars > 0:
        line, _, remaining_text = text.partition("\n")
        return f"{line[:max_chars]}…\n", _count_lines(remaining_text)
    return text[:end], _count_lines(text[end:])


def _count_lines(text: str) -> int:
    """Return the number of lines as git counts them: only `\\n` ends a line."""
    return text.count("\n") + bool(text.rpartition("\n")[2])


def _split_path(text: str) -> tuple[str, str | None]:
    """Split `COMMIT:PATH` as git does, at the first colon outside braces. `:/TEXT` and a commit have no path."""
    depth = 0
    for position, character in enumerate("" if text.startswith(":/") else text):
        if character == ":" and not depth:
            return text[:position], text[position + 1 :]
        depth = max(0, depth + (character == "{") - (character == "}"))
    return text, None


def _resolve_commit(repository: Repository, revision: str) -> str:
    """Return the sha of the commit that a revision names. Raises BadRequest."""
    searches_messages = revision.startswith(":/") or "^{/" in revision
    if not is_valid_name(revision.strip()):
        raise BadRequest("No commit is named.", hint=REVISION_HINT)
    try:
        # git's regular expressions for messages differ from those of libgit2.
        sha = None if searches_messages else repository.resolve_revision(revision)
    except UnreadableObject as error:
        raise UnknownCommit(f"{_quote(revision)} is not a commit.", hint=REVISION_HINT) from error
    sha = sha or _resolve_with_git(repository, revision)
    if sha is not None:
        return sha
    if _HEAD_EXPRESSION.match(revision) and repository.read_head() is None:
        raise repository.build_head_error()  # for a damaged HEAD, `read_head` raises the error
    if _SHA_PREFIX.fullmatch(revision):
        return _resolve_sha_prefix(repository, revision)
    if ".." in revision and not searches_messages:
        raise BadRequest(f"{_quote(revision)} is a range, not a commit.", hint=REVISION_HINT)
    check_damage(commit_graph.create_git_program(repository), revision)
    if revision in repository.list_references():
        raise UnreadableObject(revision, "it names no commit of this clone")
    hint = f"{suggest_references(repository, revision)} {REVISION_HINT}".lstrip()
    raise UnknownCommit(f"The repository has no commit {_quote(revision)}.", hint=hint)


def _resolve_with_git(repository: Repository, revision: str) -> str | None:
    """Return the sha of a revision, or None. git resolves it, because libgit2 cannot parse some commits."""
    if revision.startswith("-"):
        return None
    git = commit_graph.create_git_program(repository)
    suffix = "" if revision.startswith(":/") else "^{commit}"  # after `:/` it would be searched for
    sha = git.run("rev-parse", "--verify", "--quiet", revision + suffix).stdout.decode().strip()
    return sha if _SHA.fullmatch(sha) else None  # "^HEAD" is printed as "^" and a sha


def _resolve_sha_prefix(repository: Repository, prefix: str) -> str:
    """Return the only commit whose sha begins with the prefix. Raises BadRequest if there is none, or several."""
    git = commit_graph.create_git_program(repository)
    objects = git.run("rev-parse", f"--disambiguate={prefix.lower()}").stdout.decode().split()
    shas = [sha for sha in objects if repository.is_commit(sha)]
    if len(shas) == 1:
        return shas[0]
    if shas:
        names = ", ".join(sha[: len(prefix) + MORE_DIGITS] for sha in shas[:MAX_NAMES])
        raise BadRequest(f"Several commits begin with {prefix}: {names}.", hint="Give more digits.")
    for sha in objects:
        repository.read_blob_size(sha)  # raises the error for a damaged object, which may be the commit
    missing = " A shallow clone lacks old commits." if repository.is_shallow else ""
    raise UnknownCommit(f"No commit begins with {prefix}.{missing}", hint=REVISION_HINT)


def _load_commit(repository: Repository, sha: str) -> CommitDetails:
    commit = repository.read_commit(sha)
    return CommitDetails(
        commit_sha=sha,
        commit_message=commit.message,
        commit_author=commit.author_name,
        author_email=commit.author_email,
        commit_date=format_rfc3339(commit.commit_date),
        author_date=format_author_date(commit.author_date, commit.commit_date),
        parents=commit.parents,
    )


def _add_evidence(commit: CommitDetails, repository: Repository, home: Path | None) -> CommitDetails:
    """Add references, release, copies and revert of the commit. The last two need a readable index."""
    location = find_index(home, repository) if home else None
    loader = EvidenceLoader(repository, location.git_directory if location else None)
    candidates: Mapping[str, Sequence[str]] = {}
    reverts: Mapping[str, str] = {}
    if location:
        with (
            suppress(LineageError, OSError),
            index_copy.open_index_or_copy(location, wait=LOCK_WAIT_SECONDS) as index,
        ):
            if summary := history.load_index_summary(index.connection):
                reachability = compute_reachability_delta(
                    repository, repository.read_head(), summary.head_commit
                )
                shas = [commit.commit_sha]
                candidates = hunk_details.find_possible_copies(index.connection, reachability, shas)
                reverts = hunk_details.find_reverts(index.connection, reachability, shas)
    return replace(loader, find_possible_copies=lambda _: candidates, find_reverts=lambda _: reverts).add_to(
        [commit]
    )[0]


def _add_files(answer: ShowAnswer, repository: Repository) -> ShowAnswer:
    """Add the files of the commit and its changelog entries. A merge is compared with its first parent."""
    try:
        diff = repository.diff_with_first_parent(answer.commit.commit_sha)
        changes = sorted(diff.changes, key=lambda change: change.path)
        comparisons = [_compare_file(repository, diff, change) for change in changes[:MAX_FILES]]
    except UnreadableObject as error:
        return replace(answer, limitation=f"The files are unknown: {error.reason}.")
    return replace(
        answer,
        files=tuple(comparison.file for comparison in comparisons),
        file_count=len(changes),
        changelog=select_changelog_entries(
            (item.diff for item in comparisons if describes_commit(item.file.path, item.file.added or 0)),
            answer.commit.commit_message,
        ),
        limitation=_describe_merge(answer.commit),
    )


def _describe_merge(commit: CommitDetails) -> str | None:
    return "A merge, compared with its first parent." if len(commit.parents) > 1 else None


@dataclass(frozen=True, slots=True)
class _FileComparison:
    """Changed file with its diff. `limitation`: why there is no diff, or empty."""

    file: CommitFile
    diff: str
    limitation: str


def _compare_file(repository: Repository, diff: TreeDiff, change: FileChange) -> _FileComparison:
    """Compare both versions of a file. Its numbers of changed lines are 0 if it is binary, and None if too large."""
    path = decode_path(change.path)
    old_path = None if change.old_path is None else decode_path(change.old_path)
    if any(repository.read_blob_size(blob) > OVERSIZE_BYTES for blob in change.blobs):
        reason = f"larger than {OVERSIZE_BYTES >> 20} MiB, so its lines are not compared"
        file = CommitFile(path, change.kind, None, None, old_path, reason)
        return _FileComparison(file, "", f"The file is {reason}.")
    patch = diff.read_patch(change)
    text = strip_file_header(patch.data).decode("utf-8", "replace")
    limitation = ""
    if patch.is_binary:
        limitation = "The file is binary."
    elif not text:
        limitation = "The lines of the file did not change."
    file = CommitFile(path, change.kind, patch.added, patch.removed, old_path)
    return _FileComparison(file, text, limitation)


def _add_diff(answer: ShowAnswer, repository: Repository, file: str, cwd: Path | None) -> ShowAnswer:
    """Add the diff of one file, named by its old or new path. Raises BadRequest, also as FileNotChanged."""
    sha = answer.commit.commit_sha
    candidates = _list_paths(repository, file, cwd)
    try:
        diff = repository.diff_with_first_parent(sha)
    except UnreadableObject as error:
        return replace(answer, limitation=f"The change of the file is unknown: {error.reason}.")
    for candidate in candidates:
        for change in diff.changes:
            if candidate in (change.path, change.old_path):
                comparison = _compare_file(repository, diff, change)
                text = comparison.diff
                return replace(
                    answer,
                    files=(comparison.file,),
                    file_count=len(diff.changes),
                    diff=FileDiff(comparison.file.path, text, omitted_lines=0) if text else None,
                    limitation=comparison.limitation or _describe_merge(answer.commit),
                )
    prefixes = tuple(candidate + b"/" for candidate in candidates)
    paths_below = [change.path for change in diff.changes if change.path.startswith(prefixes)]
    if paths_below:  # the name is that of a directory
        names = _format_names([decode_path(path) for path in paths_below])
        message = f"Commit {sha[:SHA_DIGITS]} changes files in {_quote(file)}."
        raise BadRequest(message, hint=f"It changes {names}.")
    entry = _find_entry(repository, sha, candidates)
    if entry is None:
        raise _build_missing_error(repository, sha, file, candidates[0])
    names = _format_names([decode_path(path) for path in sorted(change.path for change in diff.changes)])
    message = f"Commit {sha[:SHA_DIGITS]} does not change {_quote(file)}."
    raise FileNotChanged(message, names, _build_remedy(repository, sha, entry))


def _build_remedy(repository: Repository, sha: str, entry: TreeEntry) -> str:
    """Return a hint that says how to see an unchanged file, or one of an unchanged directory; empty without command."""
    name = decode_path(entry.name)
    if entry.mode == TREE_MODE:
        name = next((file for file, _ in repository.list_files(sha) if file.startswith(f"{name}/")), name)
    command = format_command("lineage", "show", f"{sha[:SHA_DIGITS]}:{name}")
    return f"{command} shows the file as it was." if command else ""


def _find_entry(repository: Repository, sha: str, candidates: Sequence[bytes]) -> TreeEntry | None:
    """Return the entry of the first candidate that the commit has, or None. Paths in submodules do not count."""
    entries = (repository.find_entry(sha, path) for path in candidates)
    return next((entry for entry in entries if entry and entry.name in candidates), None)


def _load_content(
    repository: Repository, sha: str, file: str, lines: str | None, cwd: Path | None
) -> FileContent:
    """Return the requested lines of a file of the commit, or all lines if `lines` is None. Raises BadRequest."""
    first, last = parse_line_range(lines)
    candidates = _list_paths(repository, file, cwd)
    path = next((path for path in candidates if repository.find_entry(sha, path)), None)
    if path is None:
        raise _build_missing_error(repository, sha, file, candidates[0])
    name = decode_path(path)
    entry = repository.find_entry(sha, path)
    if entry and is_regular(entry.mode) and repository.read_blob_size(entry.sha) > MAX_FILE_BYTES:
        raise BadRequest(f"The file is larger than {MAX_FILE_BYTES >> 20} MiB.", hint="Show it with git.")
    content = read_content(repository, sha, path)
    if content is None:
        raise BadRequest(
            f"{_quote(file)} is a directory or in a submodule.",
            hint=_build_content_hint(repository, sha, path),
        )
    if is_binary(content):
        raise BadRequest(
            f"{_quote(file)} is binary: it has {len(content):,} bytes and no lines.",
            hint="Name another file.",
        )
    all_lines = content.decode("utf-8", "replace").split("\n")
    if not all_lines[-1]:
        all_lines.pop()
    if first > max(1, len(all_lines)):
        count = format_count(len(all_lines), "line")
        raise BadRequest(f"{_quote(file)} has {count} in {sha[:SHA_DIGITS]}.", hint="Give lines that it has.")
    last = min(last or len(all_lines), len(all_lines))
    text = "".join(f"{line}\n" for line in all_lines[first - 1 : last])
    return FileContent(name, first if all_lines else 0, last, len(all_lines), text, omitted_lines=0)


def _list_paths(repository: Repository, file: str, cwd: Path | None) -> list[bytes]:
    """Return the paths that a file name can mean, the most likely first. Raises BadRequest if it can mean none."""
    if not file.strip() or not is_valid_name(file):
        raise BadRequest("This is not a file name.", hint="Name a file, relative to the repository.")
    paths = [path for path in list_candidate_paths(repository, file, cwd) if path]
    if not file.startswith(("/", "./", "../")):
        # Directories may have become symbolic links since the commit, so the name itself comes first.
        paths.insert(0, os.fsencode(os.path.normpath(file)))
    if not paths:
        raise BadRequest(f"{_quote(file)} is not inside the repository.", hint="Give a path inside it.")
    return list(dict.fromkeys(paths))


def _build_missing_error(repository: Repository, sha: str, file: str, path: bytes) -> MissingFile:
    """Return the error for a commit without the file. `path`: most likely path of `file`, to suggest similar files."""
    similar_files = find_similar_files(path, sha, commit_graph.create_git_program(repository))
    names = " or ".join(map(escape_in_sentence, similar_files))
    question = f"Did you mean {names}? " if names else ""
    command = format_command("lineage", "show", sha[:SHA_DIGITS])
    return MissingFile(
        f"Commit {sha[:SHA_DIGITS]} has no file {_quote(file)}.",
        hint=f"{question}{command} lists what it changes.",
    )


def _build_content_hint(repository: Repository, sha: str, path: bytes) -> str:
    """Return a hint for a path that is no file: the files in the directory, or where to see the submodule."""
    entry = repository.find_entry(sha, path)
    prefix = f"{decode_path(path)}/"
    if entry is None or entry.mode != TREE_MODE:
        return "Show the commit in the submodule's own repository."
    names = [name for name, _ in repository.list_files(sha) if name.startswith(prefix)]
    return f"Name a file: {_format_names(names)}."


def _quote(name: str) -> str:
    return f"{name!r:.{MAX_QUOTED}}"


def _format_names(names: Sequence[str]) -> str:
    others = f" and {len(names) - MAX_NAMES:,} more" if len(names) > MAX_NAMES else ""
    return f"{', '.join(map(escape_in_sentence, names[:MAX_NAMES]))}{others}" or "no file"
