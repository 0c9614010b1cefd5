"""Text of answers for models: Markdown with quoted messages and fenced diffs, which costs half the tokens of JSON.

Messages, paths and diffs are by the authors of commits. They are quoted or fenced, and control characters escaped, so
that they cannot pass for text of this program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from serve.api_types import (
    DEFAULT_QUERY_PROFILE,
    ExplainAnswer,
    ExplainHit,
    FindAnswer,
    PatternHit,
    RelatedCommit,
)
from serve.text import escape_controls, format_ranges

# Characters of a sha. Ten are unique in repositories of millions of objects.
SHA_LENGTH: Final = 10
_BACKTICKS: Final = re.compile(r"`{3,}")


def format_find_answer(answer: FindAnswer) -> str:
    """Return the text of an answer of `find_pattern`: the hits, then what limits them."""
    lines = [line for number, hit in enumerate(answer.hits, 1) for line in _format_pattern_hit(number, hit)]
    profile = answer.meta.query_profile
    if profile != DEFAULT_QUERY_PROFILE:
        lines.append(f"Query read as {profile.name}: {_escape_line(profile.explanation)}")
    return _join([*(lines or ["No commits found."]), *_format_note(answer.meta.hint)])


def format_explain_answer(answer: ExplainAnswer) -> str:
    """Return the text of an answer of `explain_change`: the commits, related commits, then what limits them."""
    details = answer.meta.explain
    first, last = details.lines_queried
    shown, total = len(answer.hits), details.commits_unique
    omitted = f", {shown} shown" if shown < total else ""
    lines = [f"Lines {first}-{last}: {total} commit{'' if total == 1 else 's'}{omitted}"] if total else []
    for number, hit in enumerate(answer.hits, 1):
        lines += _format_explain_hit(number, hit)
    if details.related_commits:
        lines.append("Before and after in the file's history:")
        lines += map(_format_related_commit, details.related_commits)
    for note in (details.limitation, details.enrichment_limitation, answer.meta.hint):
        lines += _format_note(note)
    return _join(lines)


def _format_pattern_hit(number: int, hit: PatternHit) -> Iterator[str]:
    subject, *body = _split_message(hit.commit_message)
    repository = f"{_escape_line(hit.repository)}: " if hit.repository else ""
    probability = (
        f" ({'weak, ' if hit.weak else ''}{hit.combined_score:.2f})" if hit.matched is not None else ""
    )
    date = _format_date(hit.commit_date, hit.author_date)
    yield f"{number}. {repository}{hit.commit_sha[:SHA_LENGTH]} {date} {subject}{probability}"
    if description := _describe_files(hit):
        yield description
    yield from _quote(body)
    yield from _fence(hit.diff_excerpt, "diff")


def _format_explain_hit(number: int, hit: ExplainHit) -> Iterator[str]:
    subject, *body = _split_message(hit.commit_message)
    date = _format_date(hit.commit_date, hit.author_date)
    author = _escape_line(hit.commit_author)
    yield f"{number}. {hit.commit_sha[:SHA_LENGTH]} {date} {author}: {subject}"
    yield f"lines {', '.join(format_ranges(hit.blame_lines))}; in {_escape_line(hit.file_path)}"
    yield from _quote(body)
    yield from _fence(hit.diff_excerpt, "diff")


def _format_related_commit(commit: RelatedCommit) -> str:
    subject, *_ = _split_message(commit.commit_message)
    return f"- {commit.commit_sha[:SHA_LENGTH]} {commit.commit_date[:10]} {subject}"


def _describe_files(hit: PatternHit) -> str:
    """Return the shown file with its kind of change, then the other files, with counts of changed lines."""
    names = [
        f"{_escape_line(file.path)}{f' {hit.change_kind}' if file.path == hit.file_path else ''}"
        f"{f' +{file.added}' if file.added else ''}{f' -{file.removed}' if file.removed else ''}"
        for file in hit.files
    ]
    if hit.file_count > len(hit.files):
        names.append(f"{hit.file_count - len(hit.files):,} more files")
    return "; ".join(names)


def _format_date(commit_date: str, author_date: str | None) -> str:
    """Return the day of the change, and that of the commit if it is another one."""
    return f"{author_date[:10]} (committed {commit_date[:10]})" if author_date else commit_date[:10]


def _split_message(message: str) -> list[str]:
    """Return the subject and the other lines of a message, without empty ones."""
    lines = [_escape_line(line).strip() for line in message.strip().split("\n")]
    return [lines[0] or "(no message)", *filter(None, lines[1:])]


def _quote(lines: list[str]) -> list[str]:
    return [f"> {line}" for line in lines]


def _fence(text: str | None, language: str) -> Iterator[str]:
    """Yield a Markdown code block, whose fence is longer than any in the text."""
    if text:
        fence = "`" * max([3, *(len(match) + 1 for match in _BACKTICKS.findall(text))])
        yield f"{fence}{language}"
        yield escape_controls(text.rstrip("\n"))
        yield fence


def _format_note(note: str | None) -> list[str]:
    return [f"Note: {escape_controls(note)}"] if note else []


def _escape_line(text: str) -> str:
    """Return a text as one line without control characters."""
    return escape_controls(text.replace("\r", "").replace("\n", "␊"))


def _join(lines: list[str]) -> str:
    return "\n".join(lines)
