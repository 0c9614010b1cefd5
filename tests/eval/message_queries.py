"""Queries from commit messages: the commits to ask for, and the sentence of a body that serves as a query.

Excluded are merges, reverts, version bumps and releases, subjects that occur several times, subjects that contain a
changed file's name (the path would match, not the change), and commits without an indexed file.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final, TypeVar

from pipeline.text import count_terms
from serve.search.query_hints import extract_content_words
from tests.eval.changelog import MIN_WORDS, clean_text, strip_issue_numbers
from tests.eval.commits import Commit, DuplicateGroups

Item = TypeVar("Item")

# A sentence that shares more of its words with the subject repeats it.
MAX_SHARED_WORDS: Final = 0.5
# Numbers of words of a query of keywords.
KEYWORD_COUNTS: Final = (2, 3)
# Shorter sentences ("See the comment.", "As discussed.") fit any subject.
MIN_SENTENCE_WORDS: Final = 6

# Squashed merges have one parent and the subject of a merge.
_MERGE: Final = re.compile(r"merge (?:branch|pull|remote|tag|commit|.* into )", re.IGNORECASE)
_REVERT: Final = re.compile(r"(?:\w+(?:\([^)]*\))?: )?(?:revert|back(?:ed)? out|undo)\b", re.IGNORECASE)
_REVERT_BODY: Final = re.compile(r"^This (?:reverts|backs out) commit [0-9a-f]{7,}", re.MULTILINE)
# "deps: send@0.17", "build(deps): bump x", "Update dependency x to v2", "Prepare for release 4.0", "ignore-0.4.33".
_BUMP: Final = re.compile(
    r"(?:\w+[(:/ -]+)*(?:deps|dependencies|deps-dev)\b[):]"
    r"|(?:\w+(?:\([^)]*\))?: )?(?:bump|release|prepar\w+|upgrad\w+|updat\w+|set|switch|version)\b.*(?<![\w.])v?\d+\.\d+"
    r"|(?:\w+(?:\([^)]*\))?: )?(?:bump|prepare (?:for|next|version)|cut (?:a )?release)\b"
    r"|release(?: notes.*| candidate.*| v?\d.*)?$"
    r"|update dependenc"
    r"|\S*\d+\.\d+\S*$",
    re.IGNORECASE,
)
_TRAILER: Final = re.compile(r"[A-Z][A-Za-z]+(?:-[A-Za-z]+)*:\s\S|\(cherry picked from|This reverts commit")
_ISSUE_REFERENCE: Final = re.compile(
    r"(?:fix(?:e[sd])?|close[sd]?|resolve[sd]?|refs?|see|pr|ref)\b:?\s+(?:\S*#\d+|https?:)", re.IGNORECASE
)
_WORD: Final = re.compile(r"[A-Za-z]\w{2,}")
_BULLET: Final = re.compile(r"\s{0,3}[-*+]\s+")
_CODE_OR_QUOTE: Final = re.compile(r"\s{4,}\S|\t|>|```|~~~|\|")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"'(])")


def select_commits(
    commits: Sequence[Commit], duplicates: DuplicateGroups, is_indexed: Callable[[str], bool]
) -> list[Commit]:
    """Return the commits that can serve as an answer, in their order. `is_indexed` takes a path."""
    canonical = [commit for commit in commits if duplicates.get_canonical_sha(commit.sha) == commit.sha]
    counts = Counter(_normalize_subject(commit.subject) for commit in canonical)
    return [
        commit
        for commit in canonical
        if counts[_normalize_subject(commit.subject)] == 1
        and describes_change(commit)
        and any(map(is_indexed, commit.paths))
    ]


def describes_change(commit: Commit) -> bool:
    """Return whether a commit is no merge, revert or version bump, and its subject has enough words."""
    return (
        len(commit.parents) < 2
        and not any(pattern.match(commit.subject) for pattern in (_MERGE, _REVERT, _BUMP))
        and not _REVERT_BODY.search(commit.body)
        and len(strip_issue_numbers(commit.subject).split()) >= MIN_WORDS
    )


def mentions_file(subject: str, paths: Iterable[str]) -> bool:
    """Return whether a subject contains the name of one of these files, with or without extension."""
    names = {part.lower() for path in map(PurePosixPath, paths) for part in (path.name, path.stem)}
    # One pattern for all names: a commit can change thousands of files.
    any_name = "|".join(map(re.escape, sorted(names)))
    return bool(names) and re.search(rf"(?<!\w)(?:{any_name})(?!\w)", subject.lower()) is not None


def draw_sample(items: Sequence[Item], size: int, seed: int) -> list[Item]:
    """Return a random sample of at most `size` items in their order; the same for the same seed."""
    generator = random.Random(seed)  # noqa: S311 - a repeatable sample, nothing secret
    positions = sorted(generator.sample(range(len(items)), min(size, len(items))))
    return [items[position] for position in positions]


def select_keywords(commits: Sequence[Commit], seed: int) -> Iterator[tuple[str, Commit]]:
    """Yield two or three random words of a commit's subject, in their order, if no other subject has all of them."""
    positions_by_term: dict[str, set[int]] = defaultdict(set)
    for position, commit in enumerate(commits):
        for term in count_terms(commit.subject):
            positions_by_term[term].add(position)
    for position, commit in enumerate(commits):
        words = [word for word in _WORD.findall(commit.subject) if extract_content_words(count_terms(word))]
        generator = random.Random(f"{seed} {commit.sha}")  # noqa: S311 - a repeatable choice, nothing secret
        count = generator.choice(KEYWORD_COUNTS)
        if len(words) > count:
            chosen = sorted(generator.sample(range(len(words)), count))
            text = " ".join(words[index] for index in chosen)
            if set.intersection(*(positions_by_term[term] for term in count_terms(text))) == {position}:
                yield text, commit


def find_body_sentence(subject: str, body: str) -> str | None:
    """Return the first sentence of the body that does not repeat the subject, or None."""
    subject_words = set(count_terms(subject))
    for sentence in split_sentences(body):
        words = set(count_terms(sentence))
        # A sentence that ends in a colon introduces code or a list, which are left out.
        is_complete = len(sentence.split()) >= MIN_SENTENCE_WORDS and not sentence.endswith(":")
        if is_complete and len(words & subject_words) < MAX_SHARED_WORDS * len(words):
            return sentence
    return None


def split_sentences(body: str) -> Iterator[str]:
    """Yield the sentences of a body without markup, issue numbers, code, quotes and trailers."""
    for paragraph in _split_paragraphs(body):
        yield from filter(None, _SENTENCE_END.split(clean_text(paragraph)))


def _split_paragraphs(body: str) -> Iterator[str]:
    lines: list[str] = []
    for line in [*body.splitlines(), ""]:
        is_break = not line.strip() or _is_excluded(line)
        if lines and (is_break or _BULLET.match(line)):
            yield "\n".join(lines)
            lines = []
        if not is_break:
            lines.append(_BULLET.sub("", line, count=1) if _BULLET.match(line) else line)


def _is_excluded(line: str) -> bool:
    return any(pattern.match(line) for pattern in (_TRAILER, _ISSUE_REFERENCE, _CODE_OR_QUOTE))


def _normalize_subject(subject: str) -> str:
    return strip_issue_numbers(subject).casefold().rstrip(".")
