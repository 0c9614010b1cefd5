"""Text and structured content of answers for language models.

The text is Markdown with quoted messages and fenced diffs. It costs half the tokens of JSON.

Messages, names and diffs come from the authors of commits and must not look like text of this program. So bodies of
messages are quoted and diffs fenced; subjects, authors and paths follow a fixed prefix on their line. Control
characters are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from pydantic import BaseModel, Field

from pipeline.file_classification import classify_role
from pipeline.git.patches import remove_context
from serve.commit_types import (
    ChangeHit,
    ChangeSearchAnswer,
    CommitDetails,
    CommitFile,
    ShowAnswer,
    TraceAnswer,
    TraceHit,
)
from serve.excerpts import cut_message, get_subject, remove_sign_offs
from serve.explain_types import EvolutionLead, EvolutionStep, ExplainAnswer, ExplainHit, RelatedCommit
from serve.find_types import FindAnswer, PatternHit
from serve.references import describe_evidence
from serve.related_types import RelatedAnswer, RelatedFile
from serve.text import (
    LEADS_HEADING,
    SHORT_SHA_DIGITS,
    add_path_to_commands,
    escape_controls,
    escape_line,
    format_commit_count,
    format_count,
    format_more_files,
    format_ranges,
)
from stores.errors import LineageError

# Maximum characters of a line of code among earlier commits and leads (guesses about earlier commits), and of a subject
# in the history of a symbol.
MAX_LINE_CHARS: Final = 80
# Maximum number of files, and of characters of the message, of each commit in a call about several commits.
MAX_REDUCED_FILES: Final = 5
MAX_REDUCED_MESSAGE: Final = 600
# If the author date and the commit date differ by more than this, both are shown.
MAX_DELAY: Final = timedelta(days=30)
_BACKTICKS: Final = re.compile(r"`{3,}")


class HitsResult(BaseModel):
    """Structured content of an answer with hits, as JSON types. Answers to several queries have other fields."""

    hits: list[dict[str, Any]] = []
    meta: dict[str, Any] = Field({}, alias="_meta")


class ShowResult(BaseModel):
    """Structured content of a `ShowAnswer`, as JSON types. Answers about several commits have other fields."""

    commit: dict[str, Any] = {}
    files: list[dict[str, Any]] = []
    diff: dict[str, Any] | None = None
    content: dict[str, Any] | None = None


def format_find_answer(answer: FindAnswer, places: Mapping[str, str] | None = None) -> str:
    """Return the text of an answer of `find_pattern`: the hits, the hints in the query, and the note.

    `places`: for each hit whose patch is already shown, by sha, where it is shown, such as `query 1, hit 2`.
    """
    lines = [
        line
        for number, hit in enumerate(answer.hits, 1)
        for line in _format_pattern_hit(number, hit, (places or {}).get(hit.commit_sha))
    ]
    if hints := answer.meta.query_profile.hints:
        lines.append(f"Query profile: {escape_line(hints)}")
    return "\n".join([*(lines or ["No commits found."]), *_build_note_lines(answer.meta.hint)])


def format_explain_answer(answer: ExplainAnswer) -> str:
    """Return the text of an answer of `explain_change`: commits, related commits, earlier commits, leads and notes."""
    details = answer.meta.explain
    first, last = details.lines_queried
    shown, total = len(answer.hits), details.commits_unique
    shown_note = f", {shown} shown" if shown < total else ""
    range_label = f"Line {first}" if first == last else f"Lines {first}-{last}"
    lines = [f"{range_label}: {format_commit_count(total)}{shown_note}"] if total else []
    path = ""
    for number, hit in enumerate(answer.hits, 1):
        lines += _format_explain_hit(number, hit, path)
        path = hit.file_path
    if details.related_commits:
        lines.append("Before and after in the file's history:")
        lines += map(_format_related_commit, details.related_commits)
    if details.evolution:
        lines.append("Earlier commits that shaped the lines, newest first:")
        lines += map(_format_evolution_step, details.evolution)
    if details.leads:
        lines.append(LEADS_HEADING)
        lines += map(_format_lead, details.leads)
    lines += _format_omission(details.omitted_items or 0, "list item")
    # If the index is missing or behind HEAD, the hint says so already, so this limitation is omitted.
    is_behind = answer.meta.index_status.commits_behind_head > 0
    enrichment_limitation = None if is_behind else details.enrichment_limitation
    notes = (details.limitation, details.evolution_limitation, enrichment_limitation)
    hint = answer.meta.hint or ""
    for note in dict.fromkeys(note for note in notes if note and note not in hint):
        lines += _build_note_lines(note)
    lines += _build_note_lines(hint)
    return "\n".join(lines)


def format_search_answer(answer: ChangeSearchAnswer) -> str:
    """Return the text of an answer of `search_changes`: count, commits, last commit of a cut list, and notes."""
    details = answer.meta.search
    lines = [
        f"{details.count_phrase}, {details.order} first" if details.commits > 1 else details.count_phrase
    ]
    hit_numbers: dict[str, int] = {}
    for number, hit in enumerate(answer.hits, 1):
        lines.append(f"{number}. {_describe_change_hit(hit)}")
        lines += _format_change_files(hit, [hit_numbers[sha] for sha in hit.also if sha in hit_numbers])
        hit_numbers[hit.commit_sha] = number
    if details.last:
        lines.append(f"{details.last_label}: {_describe_change_hit(details.last)}")
    return "\n".join([*lines, *_build_note_lines(answer.meta.hint), *_build_note_lines(details.limitation)])


def format_trace_answer(answer: TraceAnswer) -> str:
    """Return the text of the history of a symbol: its place and the counts, the changes, then the notes."""
    details = answer.meta.trace
    lines = [f"symbol: {escape_line(details.symbol)}, {escape_line(details.place)}", details.count_phrase]
    place = ""
    for hit in answer.hits:
        hit_place = escape_line(f"{hit.path}:{hit.symbol}{hit.old_place_suffix}")
        lines.append(f"{_format_trace_hit(hit)}{'' if hit_place == place else f' | {hit_place}'}")
        place = hit_place
    return "\n".join([*lines, *_build_note_lines(details.limitation), *_build_note_lines(answer.meta.hint)])


def format_related_answer(answer: RelatedAnswer) -> str:
    """Return the text about related files: files that change together, owners, recent work and hot spots."""
    details = answer.meta.related
    lines = [f"Files that change with {escape_line(details.path)} ({details.count_phrase}):"]
    lines += map(_format_related_file, answer.hits)
    lists = (
        ("Owners by surviving lines", [(owner.name, f"{owner.share:.0%}") for owner in details.owners]),
        (
            f"Recent work since {(details.recent_since or '')[:10]}",
            [
                (author.name, f"{author.share:.0%} ({format_commit_count(author.commits)})")
                for author in details.recent_authors
            ],
        ),
        ("Bots", [(bot.name, format_count(bot.lines, "line")) for bot in details.bots]),
        (
            "Hot spots",
            [
                (spot.name, f"{format_commit_count(spot.commits)}, last {spot.commit_date[:10]}")
                for spot in details.hot_spots
            ],
        ),
    )
    for heading, items in lists:
        if items:
            lines.append(f"{heading}: {'; '.join(f'{escape_line(name)} {text}' for name, text in items)}")
    return "\n".join([*lines, *_build_note_lines(details.limitation), *_build_note_lines(answer.meta.hint)])


def build_content(answer_fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the structured content of an answer. `answer_fields`: the answer as JSON types."""
    return {"hits": answer_fields["hits"], "_meta": answer_fields["meta"]}


def format_note(note: str) -> str:
    """Return the line of a note."""
    return "".join(_build_note_lines(note))


def describe_error(error: LineageError) -> str:
    """Return the message and the hint of an error in one paragraph. The path of the call is added to commands."""
    return add_path_to_commands(f"{error.message} {error.hint}".strip())


def reduce_show_answer(answer: ShowAnswer) -> ShowAnswer:
    """Cut the files of one of several commits to MAX_REDUCED_FILES, and its message to MAX_REDUCED_MESSAGE characters.

    Source files come first. Sign-offs and co-authors are left out. With a diff, keep only the subject of the message
    and the changed lines.
    """
    message = cut_message(remove_sign_offs(answer.commit.commit_message), MAX_REDUCED_MESSAGE)
    diff = answer.diff
    if diff:
        message = get_subject(message)
        diff = replace(diff, text=remove_context(diff.text))
    commit = replace(answer.commit, commit_message=message)
    files = sorted(answer.files, key=lambda file: classify_role(file.path) != "source")[:MAX_REDUCED_FILES]
    return replace(answer, commit=commit, files=tuple(files), diff=diff)


def format_show_answer(answer: ShowAnswer, *, is_described: bool = False, is_short: bool = False) -> str:
    """Return the text of an answer of `show_commit`: the commit, its files, and the diff or content of one file.

    `is_described`: an earlier item describes the commit, so one line with sha and subject is enough. `is_short`: the
    commit is one of several, so the author's email and the parents are omitted.
    """
    commit, diff, content = answer.commit, answer.diff, answer.content
    subject = _split_message(commit.commit_message)[0]
    lines = (
        [f"{commit.commit_sha[:SHORT_SHA_DIGITS]} {subject}"]
        if is_described
        else _describe_commit(commit, is_short=is_short)
    )
    lines += _format_changelog(answer.changelog)
    files = [*map(_describe_commit_file, answer.files)]
    if omitted_count := (answer.file_count or 0) - len(files):
        files.append(format_count(omitted_count, "other file" if diff else "more file"))
    if files:
        lines.append(f"files: {'; '.join(files)}")
    if diff:
        lines += [*_fence(diff.text, "diff"), *_format_omission(diff.omitted_lines, "line")]
    if content:
        numbers = f"{content.first_line}-{content.last_line} of {content.line_count}"
        lines.append(f"file: {escape_line(content.path)}, lines {numbers}")
        lines += [*_fence(content.text, ""), *_format_omission(content.omitted_lines, "line")]
    return "\n".join([*lines, *_build_note_lines(answer.limitation)])


def _describe_change_hit(hit: ChangeHit) -> str:
    subject = _split_message(hit.commit_subject)[0]
    date, evidence = _format_date(hit.commit_date, hit.author_date), _format_evidence(hit, subject)
    return f"{hit.commit_sha[:SHORT_SHA_DIGITS]} {date} {subject}{evidence}"


def _format_change_files(hit: ChangeHit, copies: Sequence[int]) -> Iterator[str]:
    """Yield the files and lines of a hit, or the number of an earlier hit with the same patch (one of `copies`)."""
    if copies:
        yield f"same change as {copies[0]}"
        return
    for file in hit.files:
        yield f"file: {escape_line(file.path)}{_format_line_counts(file.added, file.removed)}"
        yield from _quote(
            [f"{line.sign}{line.number} {escape_line(line.text).strip()}" for line in file.lines]
        )
    if hit.file_count > len(hit.files):
        yield format_more_files(hit.file_count - len(hit.files))


def _format_trace_hit(hit: TraceHit) -> str:
    subject = _shorten(_split_message(hit.commit_subject)[0])
    guess = "" if hit.provenance == "EXACT" else "?"
    date, evidence = _format_date(hit.commit_date, hit.author_date), _format_evidence(hit, subject)
    return f"- {hit.step}{guess} {hit.commit_sha[:SHORT_SHA_DIGITS]} {date} {subject}{evidence}"


def _format_related_file(file: RelatedFile) -> str:
    return (
        f"- {escape_line(file.file_path)} {format_commit_count(file.support)}, {file.confidence:.0%}, "
        f"lift {file.lift:.1f}, last {file.commit_date[:10]} {file.commit_sha[:SHORT_SHA_DIGITS]}"
    )


def _describe_commit(commit: CommitDetails, *, is_short: bool) -> list[str]:
    subject, *body = _split_message(commit.commit_message)
    date, author = _format_date(commit.commit_date, commit.author_date), escape_line(commit.commit_author)
    if is_short:
        head = f"{commit.commit_sha[:SHORT_SHA_DIGITS]} {date} {author}"
    else:
        parents = ", ".join(sha[:SHORT_SHA_DIGITS] for sha in commit.parents) or "none"
        head = f"{commit.commit_sha} {date} {author} <{escape_line(commit.author_email)}>; parents: {parents}"
    evidence = _format_evidence(commit, commit.commit_message)
    return [f"{head}{evidence}", *_quote([subject, *body])]


def _describe_commit_file(file: CommitFile) -> str:
    kind = "" if file.change_kind == "modified" else f" {file.change_kind}"
    source = f" from {escape_line(file.old_path)}" if file.old_path else ""
    counts = f", {file.limitation}" if file.limitation else _format_line_counts(file.added, file.removed)
    return f"{escape_line(file.path)}{kind}{source}{counts}"


def _format_omission(count: int, noun: str) -> list[str]:
    return _build_note_lines(f"{format_count(count, f'more {noun}')}: raise `max_tokens`.") if count else []


def _format_pattern_hit(number: int, hit: PatternHit, place: str | None) -> Iterator[str]:
    """Yield the lines of a hit. `place`: where its patch is already shown; then patch and message are left out."""
    subject, *body = _split_message(hit.commit_message)
    repository = f"{escape_line(hit.repository)}: " if hit.repository else ""
    # The score is a probability only after reranking. Without reranking, `matched` is None.
    probability = (
        f" ({'weak, ' if hit.weak else ''}{hit.combined_score:.2f})" if hit.matched is not None else ""
    )
    date = _format_date(hit.commit_date, hit.author_date)
    evidence = _format_evidence(hit, subject if place else hit.commit_message)
    yield f"{number}. {repository}{hit.commit_sha[:SHORT_SHA_DIGITS]} {date} {subject}{probability}{evidence}"
    if place:
        yield f"shown above ({place})"
        return
    yield from _format_changelog(hit.changelog)
    if description := _describe_files(hit):
        yield description
    yield from _quote(body)
    yield from _fence(hit.diff_excerpt)


def _format_changelog(entries: Sequence[str]) -> list[str]:
    return [f"changelog: {escape_line(entry)}" for entry in entries]


def _format_explain_hit(number: int, hit: ExplainHit, previous_path: str) -> Iterator[str]:
    subject, *body = _split_message(hit.commit_message)
    date = _format_date(hit.commit_date, hit.author_date)
    author = escape_line(hit.commit_author)
    evidence = _format_evidence(hit, hit.commit_message)
    yield f"{number}. {hit.commit_sha[:SHORT_SHA_DIGITS]} {date} {author}: {subject}{evidence}"
    noun = "line" if len(hit.blame_lines) == 1 else "lines"
    path = "" if hit.file_path == previous_path else f"; in {escape_line(hit.file_path)}"
    yield f"{noun} {', '.join(format_ranges(hit.blame_lines))}{path}"
    yield from _quote(body)
    yield from _fence(hit.diff_excerpt)


def _format_evidence(
    hit: PatternHit | ExplainHit | ChangeHit | TraceHit | CommitDetails, shown_message: str
) -> str:
    """Return the evidence about a commit for the end of its line; empty without any."""
    tag = hit.release.tag if hit.release else None
    copies, reverted_by = ((), None) if isinstance(hit, TraceHit) else (hit.also, hit.reverted_by)
    description = describe_evidence(hit.references, tag, copies, reverted_by, shown_message)
    return f" · {description}" if description else ""


def _format_related_commit(commit: RelatedCommit) -> str:
    subject, *_ = _split_message(commit.commit_message)
    return f"- {commit.commit_sha[:SHORT_SHA_DIGITS]} {commit.commit_date[:10]} {subject}"


def _format_evolution_step(step: EvolutionStep) -> str:
    guess = "" if step.provenance == "EXACT" else "?"
    lines = ", ".join(format_ranges(step.lines))
    subject, *_ = _split_message(step.commit_message)
    return (
        f"- {lines} {step.step}{guess} {step.commit_sha[:SHORT_SHA_DIGITS]} {step.commit_date[:10]} {subject}"
        f" | {_shorten(step.text)}"
    )


def _format_lead(lead: EvolutionLead) -> str:
    subject, *_ = _split_message(lead.commit_message)
    lines = ", ".join(format_ranges(lead.lines))
    return f"- {lines} {lead.commit_sha[:SHORT_SHA_DIGITS]} {lead.commit_date[:10]} {subject} | {_shorten(lead.text)}"


def _shorten(line: str) -> str:
    """Return a line without indentation, cut to `MAX_LINE_CHARS` characters."""
    text = escape_line(line).strip()
    return text if len(text) <= MAX_LINE_CHARS else f"{text[:MAX_LINE_CHARS]}…"


def _describe_files(hit: PatternHit) -> str:
    """Return the hit's files with counts of changed lines; for the file of the hit, also the kind of change."""
    names = []
    for file in hit.files:
        change_kind = f" {hit.change_kind}" if file.path == hit.file_path else ""
        names.append(f"{escape_line(file.path)}{change_kind}{_format_line_counts(file.added, file.removed)}")
    if names and (count := hit.file_count - len(hit.files)):
        names.append(format_more_files(count))
    # The prefix keeps a name such as `Note: ...` from looking like a note of this program.
    return f"files: {'; '.join(names)}" if names else ""


def _format_line_counts(added: int | None, removed: int | None) -> str:
    return (f" +{added}" if added else "") + (f" -{removed}" if removed else "")


def _format_date(commit_date: str, author_date: str | None) -> str:
    """Return the day of the author date, and that of the commit date if they differ by more than `MAX_DELAY`.

    `author_date`: None if both are on the same day.
    """
    if author_date is None:
        return commit_date[:10]
    delay = datetime.fromisoformat(commit_date) - datetime.fromisoformat(author_date)
    return (
        f"{author_date[:10]} (committed {commit_date[:10]})" if abs(delay) > MAX_DELAY else author_date[:10]
    )


def _split_message(message: str) -> list[str]:
    """Return the subject and the other lines of a message, without empty lines.

    The subject has no ` · `, which separates it from the evidence of this program.
    """
    lines = [escape_line(line).strip() for line in message.strip().split("\n")]
    return [lines[0].replace(" · ", " - ") or "(no message)", *filter(None, lines[1:])]


def _quote(lines: list[str]) -> list[str]:
    return [f"> {line}" for line in lines]


def _fence(text: str | None, language: str = "diff") -> Iterator[str]:
    """Yield a Markdown code block. Its fence is longer than all fences in the text."""
    if text:
        fence = "`" * max([3, *(len(match) + 1 for match in _BACKTICKS.findall(text))])
        yield f"{fence}{language}"
        yield escape_controls(text.rstrip("\n"))
        yield fence


def _build_note_lines(note: str | None) -> list[str]:
    """Return the line of a note; no line without a note."""
    return [f"Note: {escape_line(note)}"] if note else []
