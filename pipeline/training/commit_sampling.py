"""Random sample of the informative commits of a repository: parts of their messages, and texts of their changes.

Merges, reverts, version bumps and commits by bots are skipped: their messages do not describe a change. Merge commits
are sampled separately, if the message has the title of a pull request. A seed fixes the random order.

For the commands that sample commits, this module also has an argument parser (`RepositoryArgumentParser`) and the
parallel processing of repositories (`map_repositories`).
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Final, TypeVar

from pipeline.file_classification import detect_language
from pipeline.git.errors import UnreadableObject
from pipeline.git.objects import Commit, is_bot
from pipeline.git.repository import Repository, open_repository
from pipeline.hunks import Hunk, extract_hunks
from pipeline.ignore import IgnoreRules
from pipeline.text import BULLET, NON_PROSE, SENTENCE_END, build_semantic_text, count_terms
from pipeline.workers import map_groups

Task = TypeVar("Task")

# Default seed of the sample of commits.
SEED: Final = 1
# Number of repositories per worker in a group. No worker starts with the next group before the end of the previous one.
GROUP_SIZE: Final = 2
# Minimum number of words of a subject. Shorter subjects ("Fix tests") fit many commits.
MIN_SUBJECT_WORDS: Final = 3
# Numbers of words that a usable sentence may have. Shorter sentences ("As discussed.") fit any commit; longer ones are
# lists or code.
SENTENCE_WORDS: Final = range(6, 41)
# Maximum number of sentences of a message, so that long messages do not outweigh the others.
MAX_SENTENCES: Final = 3
# Maximum number of files of a commit. A commit with more is a mass edit, whose message describes no single file.
MAX_FILES: Final = 20
# Minimum number of distinct words of a change or changelog text. A search by words would not find a shorter text.
MIN_DISTINCT_WORDS: Final = 5
# Maximum number of commits of a merge. The title of a larger merge does not describe each of its commits.
MAX_MERGED_COMMITS: Final = 20
# Maximum number of hunks to read of a commit. Further hunks would add little.
MAX_HUNKS: Final = 3
# Maximum number of characters to read of the changed lines of a hunk.
MAX_CHANGE_CHARS: Final = 8_000
# Maximum number of characters to read of the lines that a hunk adds to a changelog.
MAX_CHANGELOG_CHARS: Final = 1_500
# Minimum number of words of a changelog line. Shorter lines are headings or names.
MIN_CHANGELOG_WORDS: Final = 6

# Subject of a merge, a revert, a release, an update of dependencies or another chore.
_ROUTINE_SUBJECT: Final = re.compile(
    r"(?:\w+(?:\([^)]*\))?: )?(?:merge|revert|back(?:ed)? out|undo|bump|release|prepare|upgrade|version|update depend"
    r"|chore\b|v?\d+\.\d+)\b|.*\bdeps\b|.*\b(?:chang(?:e|ing) ?log|typos?|release notes)\b",
    re.IGNORECASE,
)
# Number of an issue or pull request, or a URL.
_ISSUE_NUMBER_OR_URL: Final = re.compile(
    r"\(?(?:\b(?:GH-|PR |issue |bug ))?#\d+\)?|\(?https?://\S+|\bGH-\d+", re.IGNORECASE
)
# Type and scope of a conventional commit (`fix(parser): `).
_COMMIT_TYPE_PREFIX: Final = re.compile(
    r"^(?:feat|fix|refactor|perf|docs|test|style|build|ci)(?:\([^)]*\))?!?:\s*", re.IGNORECASE
)
# Start of the subject of a merge.
_MERGE_SUBJECT: Final = re.compile(r"(?:auto )?merge\b", re.IGNORECASE)
# Additions of merge bots to a title: a number before it, reviewers after it.
_TITLE_DECORATION: Final = re.compile(r"^\d+: |\s+(?:r|a)=\S.*$")
# Start of the list of conflicts that git adds to the message of a merge.
_CONFLICTS: Final = re.compile(r"#|conflicts:", re.IGNORECASE)
# Start of the name of a changelog or of its directory.
_CHANGELOG_NAME: Final = re.compile(r"chang|news|history|release", re.IGNORECASE)
# Name of a function or class in the text that git writes after `@@`.
_HEADER_NAME: Final = re.compile(r"\w+(?=\s*[(:<{]|\s*$)")
# Markup to remove: backticks, asterisks, roles of reStructuredText (`:meth:`), brackets and target of a Markdown link.
_MARKUP: Final = re.compile(r"[`*]{1,2}|:\w+:(?=`)|\[|\]\([^)]*\)")


@dataclass(frozen=True, slots=True)
class MessageParts:
    """Parts of a commit message: `subject` and `sentences` without issue numbers, `body` without code and trailers."""

    subject: str
    sentences: tuple[str, ...]
    body: str


def is_informative(commit: Commit) -> bool:
    """Return whether a commit has one parent, an author who is not a bot, and a descriptive subject."""
    subject = commit.message.partition("\n")[0]
    return (
        len(commit.parents) == 1
        and not is_bot(commit.author_name)
        and not _ROUTINE_SUBJECT.match(subject)
        and len(strip_issue_numbers(subject).split()) >= MIN_SUBJECT_WORDS
    )


def parse_merge_title(message: str) -> str:
    """Return the title of the pull request in a merge message; empty if there is no descriptive title."""
    subject, _, rest = message.partition("\n")
    title_line = next(filter(None, map(str.strip, rest.splitlines())), "")
    if (
        not _MERGE_SUBJECT.match(subject)
        or _CONFLICTS.match(title_line)
        or _ROUTINE_SUBJECT.match(title_line)
    ):
        return ""
    title = _COMMIT_TYPE_PREFIX.sub("", strip_issue_numbers(_TITLE_DECORATION.sub("", title_line)))
    return title if MIN_SUBJECT_WORDS <= len(title.split()) < SENTENCE_WORDS.stop else ""


def split_message(message: str) -> MessageParts:
    """Split a commit message into subject, sentences and body."""
    subject, _, rest = message.partition("\n")
    paragraphs = split_paragraphs(rest)
    sentences = [
        strip_issue_numbers(sentence)
        for paragraph in paragraphs
        for sentence in SENTENCE_END.split(paragraph)
    ]
    usable_sentences = [sentence for sentence in sentences if len(sentence.split()) in SENTENCE_WORDS]
    return MessageParts(
        _COMMIT_TYPE_PREFIX.sub("", strip_issue_numbers(subject)),
        tuple(usable_sentences[:MAX_SENTENCES]),
        "\n".join(paragraphs),
    )


def strip_issue_numbers(text: str) -> str:
    """Return the text in one line, without issue numbers and URLs."""
    return " ".join(_ISSUE_NUMBER_OR_URL.sub("", text).split())


def split_paragraphs(body: str) -> list[str]:
    """Return the paragraphs and list items of a body, each as one line, without code, quotes and trailers."""
    paragraphs: list[list[str]] = [[]]
    for line in body.splitlines():
        bullet = BULLET.match(line)
        if not line.strip() or bullet:
            paragraphs.append([])
        if not bullet and NON_PROSE.match(line):
            continue
        paragraphs[-1].append(BULLET.sub("", line, count=1))
    joined = (" ".join(" ".join(lines).split()) for lines in paragraphs)
    return [paragraph for paragraph in joined if paragraph]


def get_repository_name(path: Path) -> str:
    """Return the name of the repository's directory; if that is `.git` or `repo`, of the parent directory."""
    return path.parent.name if path.name in ("repo", ".git") else path.name


class RepositoryArgumentParser(argparse.ArgumentParser):
    """Argument parser of a command that reads repositories and writes a file for each.

    `directory_name`: name of the output directory in the help text. `max_commits`: default of `--commits`.
    """

    def __init__(self, module: str, description: str | None, directory_name: str, max_commits: int) -> None:
        super().__init__(
            prog=f"python -m {module}",
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.add_argument(
            "directory", type=Path, metavar=directory_name, help="directory of the files to write"
        )
        self.add_argument(
            "repositories",
            nargs="+",
            type=Path,
            metavar="REPOSITORY",
            help="clone to read; the file gets the name of the clone",
        )
        self.add_argument(
            "--commits",
            type=int,
            default=max_commits,
            metavar="N",
            help="maximum number of commits per repository",
        )
        self.add_argument("--seed", type=int, default=SEED, metavar="N", help="seed of the sample of commits")
        self.add_argument(
            "--jobs", type=int, default=2, metavar="N", help="number of repositories to read at a time"
        )

    def name_repositories(self, paths: Iterable[Path]) -> dict[str, Path]:
        """Return the absolute path of each repository by its name.

        Exit with a message if two have the same name, because they would write the same file.
        """
        paths_by_name: dict[str, Path] = {}
        for path in map(Path.resolve, paths):
            name = get_repository_name(path)
            if other_path := paths_by_name.get(name):
                self.error(f"{other_path} and {path} have the same name. Rename one of the directories.")
            paths_by_name[name] = path
        return paths_by_name


def map_repositories(function: Callable[[Task], str], tasks: Sequence[Task], jobs: int) -> Iterator[str]:
    """Call a function with each task; return an iterator of the results, in order.

    `tasks`: one per repository. `jobs`: number of worker processes.
    """
    size = GROUP_SIZE * jobs
    groups = (tasks[start : start + size] for start in range(0, len(tasks), size))
    return map_groups(function, groups, jobs=jobs, prefer="processes")


@dataclass(frozen=True, slots=True)
class CommitSample:
    """Sampled commit with its hunks that add or remove lines. A hunk is the diff of one file in one commit.

    `changelog_hunks`: hunks of changelogs. `hunks`: all other hunks.
    """

    commit: Commit
    changelog_hunks: list[Hunk]
    hunks: list[Hunk]

    def sample_hunks(self, max_count: int) -> list[Hunk]:
        """Return at most `max_count` random elements of `hunks`; the same ones at every call."""
        generator = random.Random(self.commit.sha)  # noqa: S311 - a repeatable draw, nothing secret
        return generator.sample(self.hunks, min(max_count, len(self.hunks)))


def sample_commits(path: Path, seed: int) -> Iterator[CommitSample]:
    """Yield the informative commits that HEAD reaches, in random order; skip unreadable commits and mass edits."""
    repository = open_repository(path)
    rules = IgnoreRules.from_repository(repository)
    head = repository.read_head()
    shas = repository.walk(head) if head else []
    random.Random(seed).shuffle(shas)  # noqa: S311 - a repeatable draw, nothing secret
    for sha in shas:
        try:
            commit = repository.read_commit(sha)
            if is_informative(commit):
                yield _create_sample(
                    commit, extract_hunks(repository, sha, _limit_files(rules.is_ignored)).hunks
                )
        except (UnreadableObject, _TooManyFiles):
            continue


@dataclass(frozen=True, slots=True)
class MergeSample:
    """Sampled merge: the title of its pull request and the SHAs of the commits it merged."""

    title: str
    commits: tuple[str, ...]


def sample_merges(path: Path, seed: int, max_count: int) -> Iterator[MergeSample]:
    """Yield at most `max_count` merges that HEAD reaches and that have a descriptive title, in random order."""
    repository = open_repository(path)
    head = repository.read_head()
    shas = repository.walk(head) if head else []
    random.Random(seed).shuffle(shas)  # noqa: S311 - a repeatable draw, nothing secret
    samples = (sample for sha in shas if (sample := _read_merge_sample(repository, sha)))
    return islice(samples, max_count)


def _read_merge_sample(repository: Repository, sha: str) -> MergeSample | None:
    """Return a merge of two parents; None if it has no descriptive title, too many commits, or cannot be read."""
    with suppress(UnreadableObject):
        commit = repository.read_commit(sha)
        title = parse_merge_title(commit.message) if len(commit.parents) == 2 else ""
        if title:
            first_parent, second_parent = commit.parents
            merged_commits = repository.walk(second_parent, hide=[first_parent])
            if len(merged_commits) <= MAX_MERGED_COMMITS:
                return MergeSample(title, tuple(merged_commits))
    return None


class _TooManyFiles(Exception):
    """Raised when a commit changes more than MAX_FILES files, before any of them is read."""


def _limit_files(is_ignored: Callable[[str], bool]) -> Callable[[str], bool]:
    """Return `is_ignored` with a limit: it raises _TooManyFiles when more than MAX_FILES paths are not ignored."""
    count = 0

    def is_ignored_or_raise(path: str) -> bool:
        nonlocal count
        is_path_ignored = is_ignored(path)
        count += not is_path_ignored
        if count > MAX_FILES:
            raise _TooManyFiles
        return is_path_ignored

    return is_ignored_or_raise


def _create_sample(commit: Commit, hunks: Sequence[Hunk]) -> CommitSample:
    text_hunks = [hunk for hunk in hunks if hunk.added_text or hunk.removed_text]
    changelog_hunks = [hunk for hunk in text_hunks if _is_changelog(hunk.file_path)]
    other_hunks = [hunk for hunk in text_hunks if not _is_changelog(hunk.file_path)]
    return CommitSample(commit, changelog_hunks, other_hunks)


def _is_changelog(path: str) -> bool:
    file = PurePosixPath(path)
    return file.suffix in (".md", ".rst", ".txt", "") and any(
        map(_CHANGELOG_NAME.match, (file.name, file.parent.name))
    )


def build_text_with_lines(hunk: Hunk, lines: str, message: str = "") -> str:
    """Return the semantic text of a hunk, the input of the encoder.

    `lines`: changed lines to include. `message`: commit message to include. The names of symbols come from the text
    that git writes after `@@`, without parsing the file.
    """
    header_names = (_HEADER_NAME.search(part.section_heading) for part in hunk.parts)
    return build_semantic_text(
        message=message,
        path=hunk.file_path,
        language=detect_language(hunk.file_path),
        symbols=list(dict.fromkeys(match.group() for match in header_names if match)),
        change_kind=hunk.change_kind,
        added=lines,
        removed="",
    )


@dataclass(frozen=True, slots=True)
class CommitText:
    """Texts of a commit: parts of the message, the whole message in one line, a changelog line, and its changes.

    `changelog_line`: empty for a commit that adds none. `changes`: semantic texts of sampled hunks, without the commit
    message. Texts with too few words are left out.
    """

    sha: str
    subject: str
    sentences: tuple[str, ...]
    message: str
    changelog_line: str
    changes: tuple[str, ...]


def read_commit_texts(path: Path, max_count: int, seed: int) -> list[CommitText]:
    """Return the texts of at most `max_count` commits, sampled with a seed."""
    texts = (text for sample in sample_commits(path, seed) if (text := _extract_commit_text(sample)))
    return list(islice(texts, max_count))


def _extract_commit_text(sample: CommitSample) -> CommitText | None:
    """Return the texts of a commit; None if no change has enough words."""
    texts = [build_hunk_text(hunk) for hunk in sample.sample_hunks(MAX_HUNKS)]
    changes = tuple(text for text in texts if len(count_terms(text)) >= MIN_DISTINCT_WORDS)
    if not changes:
        return None
    message = sample.commit.message
    message_parts = split_message(message)
    return CommitText(
        sample.commit.sha,
        message_parts.subject,
        message_parts.sentences,
        " ".join(message.split()),
        next(_iter_changelog_lines(sample.changelog_hunks), ""),
        changes,
    )


def build_hunk_text(hunk: Hunk, message: str = "") -> str:
    """Return the semantic text of a hunk with at most MAX_CHANGE_CHARS of its added lines, or else removed lines."""
    lines = hunk.added_text[:MAX_CHANGE_CHARS] or hunk.removed_text[:MAX_CHANGE_CHARS]
    return build_text_with_lines(hunk, lines, message)


def _iter_changelog_lines(hunks: list[Hunk]) -> Iterator[str]:
    """Yield, for each hunk of a changelog, the first added line with enough words."""
    for hunk in hunks:
        lines = (line.strip(" -*+#") for line in hunk.added_text[:MAX_CHANGELOG_CHARS].splitlines())
        line = next((line for line in lines if len(line.split()) >= MIN_CHANGELOG_WORDS), None)
        if line is not None:
            yield strip_issue_numbers(_MARKUP.sub("", line))
