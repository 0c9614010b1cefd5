"""Text of answers for models: Markdown with quoted messages and fenced diffs, which costs half the tokens of JSON.

Also the structured content of answers, and the answer to a call about a list of items.

Messages, names and diffs are by the authors of commits. Bodies of messages are quoted and diffs fenced; subjects,
authors and paths follow a fixed prefix on their line. Control characters are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from mcp_types import CallToolResult
from pydantic import BaseModel, Field

from pipeline.interrupts import check_cancelled
from serve.commit_types import (
    ChangeHit,
    ChangeSearchAnswer,
    CommitDetails,
    CommitFile,
    ShowAnswer,
    TraceAnswer,
    TraceHit,
)
from serve.errors import BadRequest
from serve.excerpts import get_subject
from serve.explain_types import EvolutionLead, EvolutionStep, ExplainAnswer, ExplainHit, RelatedCommit
from serve.find_types import DEFAULT_QUERY_PROFILE, FindAnswer, PatternHit
from serve.mcp.tools import build_call_result
from serve.references import describe_evidence
from serve.related_types import RelatedAnswer, RelatedFile
from serve.text import (
    LEADS_HEADING,
    SHORT_SHA_DIGITS,
    escape_controls,
    escape_line,
    format_commit_count,
    format_count,
    format_more_files,
    format_ranges,
)
from stores.errors import LineageError

# Longest part of an argument that an answer repeats, in characters.
MAX_SHOWN_ARGUMENT: Final = 200
# Items of a list that a call answers. Each scans the index or git anew.
MAX_ITEMS: Final = 10
# Most items that a note about omitted ones names.
MAX_NAMED: Final = 10
# Longest part of a line of code that is shown in the evolution of lines, in characters.
MAX_LINE_CHARS: Final = 80
_BACKTICKS: Final = re.compile(r"`{3,}")


class HitsResult(BaseModel):
    """Structured content of an answer with hits, in its JSON form."""

    hits: list[dict[str, Any]]
    meta: dict[str, Any] = Field(alias="_meta")


class SearchResult(BaseModel):
    """Structured content of a `ChangeSearchAnswer`, in its JSON form; of a list, `results` in place of its fields."""

    hits: list[dict[str, Any]] = []
    meta: dict[str, Any] = Field({}, alias="_meta")
    results: list[dict[str, Any]] = []
    left_out: list[dict[str, Any]] = []


class ShowResult(BaseModel):
    """Structured content of a `ShowAnswer`, in its JSON form; of a list, `results` in place of its fields."""

    commit: dict[str, Any] = {}
    files: list[dict[str, Any]] = []
    file_count: int | None = None
    diff: dict[str, Any] | None = None
    content: dict[str, Any] | None = None
    limitation: str | None = None
    results: list[dict[str, Any]] = []
    left_out: list[dict[str, Any]] = []


def answer_items(
    items: Sequence[Mapping[str, str]],
    budget: int,
    min_share: int,
    answer_item: Callable[[Mapping[str, str], int], tuple[str, dict[str, Any], int]],
) -> CallToolResult:
    """Answer each item of list arguments within one budget; a failed item has its error as its answer.

    `items`: the arguments of each. `answer_item` takes an item and its share, at least `min_share`, and returns text,
    structured content and the used part; the rest is for later items. A single item is answered like a call without a
    list. Raises BadRequest if all items fail.
    """
    if len(items) == 1:
        text, content, _ = answer_item(items[0], budget)
        return build_call_result(text, content)
    answered = items[:MAX_ITEMS]
    blocks: list[str] = []
    results: list[dict[str, Any]] = []
    problems: list[str] = []
    for number, item in enumerate(answered):
        check_cancelled()
        try:
            text, content, used = answer_item(item, max(min_share, budget // (len(answered) - number)))
        except LineageError as error:
            problems.append(str(error))
            text, content, used = _format_error(error), {"error": describe_error(error)}, 0
        budget -= used
        blocks.append(f"{_format_item(item)}\n{text}")
        results.append({"request": dict(item), **content})
    if len(problems) == len(answered):
        raise BadRequest("\n".join(dict.fromkeys(problems)) or "The list is empty.")
    structured: dict[str, Any] = {"results": results}
    if left_out := items[MAX_ITEMS:]:
        structured["left_out"] = left_out[:MAX_NAMED]
        blocks.append(_format_left_out([*map(_format_item, left_out)], MAX_ITEMS))
    return build_call_result("\n\n".join(blocks), structured)


def _format_item(item: Mapping[str, str]) -> str:
    return ", ".join(f"{name}: {_shorten_argument(value)}" for name, value in item.items())


def format_find_answer(answer: FindAnswer) -> str:
    """Return the text of an answer of `find_pattern`: the hits, then the query profile and the hint."""
    lines = [line for number, hit in enumerate(answer.hits, 1) for line in _format_pattern_hit(number, hit)]
    profile = answer.meta.query_profile
    if profile != DEFAULT_QUERY_PROFILE:
        lines.append(f"Query profile: {profile.name} ({escape_line(profile.explanation)})")
    return "\n".join([*(lines or ["No commits found."]), *_format_note(answer.meta.hint)])


def format_find_answers(queries: Sequence[str], answers: Sequence[FindAnswer | LineageError]) -> str:
    """Return the text of the answers to several questions; those beyond the last answer are named as left out.

    A commit of an earlier answer is one line.
    """
    blocks: list[str] = []
    shown: set[str] = set()
    for query, answer in zip(queries, answers, strict=False):
        if isinstance(answer, LineageError):
            text = _format_error(answer)
        else:
            hits = tuple(_reduce_to_line(hit) if hit.commit_sha in shown else hit for hit in answer.hits)
            shown.update(hit.commit_sha for hit in answer.hits)
            text = format_find_answer(replace(answer, hits=hits))
        blocks.append(f"Question: {_shorten_argument(query)}\n{text}" if len(queries) > 1 else text)
    if left_out := queries[len(answers) :]:
        blocks.append(_format_left_out(left_out, len(answers)))
    return "\n\n".join(blocks)


def _reduce_to_line(hit: PatternHit) -> PatternHit:
    subject = get_subject(hit.commit_message)
    return replace(hit, commit_message=subject, diff_excerpt=None, files=(), file_count=0)


def format_explain_answer(answer: ExplainAnswer) -> str:
    """Return the text of an answer of `explain_change`: the commits, related commits, limitations and the hint."""
    details = answer.meta.explain
    first, last = details.lines_queried
    shown, total = len(answer.hits), details.commits_unique
    shown_note = f", {shown} shown" if shown < total else ""
    asked = f"Line {first}" if first == last else f"Lines {first}-{last}"
    lines = [f"{asked}: {format_commit_count(total)}{shown_note}"] if total else []
    for number, hit in enumerate(answer.hits, 1):
        lines += _format_explain_hit(number, hit)
    if details.related_commits:
        lines.append("Before and after in the file's history:")
        lines += map(_format_related_commit, details.related_commits)
    if details.evolution:
        lines.append("Earlier commits that shaped the lines, newest first:")
        lines += map(_format_evolution_step, details.evolution)
    if details.leads:
        lines.append(LEADS_HEADING)
        lines += map(_format_lead, details.leads)
    notes = (
        details.limitation,
        details.evolution_limitation,
        details.enrichment_limitation,
        answer.meta.hint,
    )
    for note in dict.fromkeys(notes):  # the hint can repeat a limitation
        lines += _format_note(note)
    return "\n".join(lines)


def format_search_answer(answer: ChangeSearchAnswer) -> str:
    """Return the text of an answer of `search_changes`: the count, the commits, then what limits them."""
    details = answer.meta.search
    lines = [f"{details.count}, {details.order} first" if details.commits > 1 else details.count]
    for number, hit in enumerate(answer.hits, 1):
        lines += _format_change_hit(number, hit)
    return "\n".join([*lines, *_format_note(answer.meta.hint), *_format_note(details.limitation)])


def format_trace_answer(answer: TraceAnswer) -> str:
    """Return the text of the history of a symbol: its place and the counts, the changes, then what limits them."""
    details = answer.meta.trace
    lines = [f"symbol: {escape_line(details.symbol)}, {escape_line(details.place)}", details.count]
    place = ""
    for hit in answer.hits:
        hit_place = escape_line(f"{hit.path}:{hit.symbol}{hit.origin_suffix}")
        lines.append(f"{_format_trace_hit(hit)}{'' if hit_place == place else f' | {hit_place}'}")
        place = hit_place
    return "\n".join([*lines, *_format_note(details.limitation), *_format_note(answer.meta.hint)])


def format_related_answer(answer: RelatedAnswer) -> str:
    """Return the text about related files: those that change together, owners, recent work and hot spots."""
    details = answer.meta.related
    lines = [f"Files that change with {escape_line(details.path)} ({details.count}):"]
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
    return "\n".join([*lines, *_format_note(details.limitation), *_format_note(answer.meta.hint)])


def format_note(note: str) -> str:
    """Return the line of a note."""
    return "".join(_format_note(note))


def _format_error(error: LineageError) -> str:
    """Return the line of an error that takes the place of one of several answers."""
    return f"Error: {escape_line(describe_error(error))}"


def describe_error(error: LineageError) -> str:
    """Return the message and the hint of an error in one paragraph."""
    return f"{error.message} {error.hint}".strip()


def _format_left_out(names: Sequence[str], limit: int) -> str:
    """Return a note about the items of a list that a call leaves out, because it answers at most `limit`."""
    named = "; ".join(map(_shorten_argument, names[:MAX_NAMED]))
    others = f" and {len(names) - MAX_NAMED:,} more" if len(names) > MAX_NAMED else ""
    return f"Note: Left out, as a call answers at most {limit}: {named}{others}"


def _shorten_argument(value: str) -> str:
    """Return an argument on one line, cut to `MAX_SHOWN_ARGUMENT` characters."""
    return escape_line(value[:MAX_SHOWN_ARGUMENT])


def format_show_answer(answer: ShowAnswer) -> str:
    """Return the text of an answer of `show_commit`: the commit, its files, and the text of one of them."""
    commit, diff, content = answer.commit, answer.diff, answer.content
    subject, *body = _split_message(commit.commit_message)
    author = f"{escape_line(commit.commit_author)} <{escape_line(commit.author_email)}>"
    parents = ", ".join(sha[:SHORT_SHA_DIGITS] for sha in commit.parents) or "none"
    date = _format_date(commit.commit_date, commit.author_date)
    evidence = _describe_evidence(commit, commit.commit_message)
    lines = [f"{commit.commit_sha} {date} {author}; parents: {parents}{evidence}", *_quote([subject, *body])]
    lines += map(_describe_commit_file, answer.files)
    if omitted_count := (answer.file_count or 0) - len(answer.files):
        lines.append(format_count(omitted_count, "other file" if diff else "more file"))
    if diff:
        lines += [*_fence(diff.text, "diff"), *_format_omission(diff.omitted_lines)]
    if content:
        numbers = f"{content.first_line}-{content.last_line} of {content.line_count}"
        lines.append(f"file: {escape_line(content.path)}, lines {numbers}")
        lines += [*_fence(content.text, ""), *_format_omission(content.omitted_lines)]
    return "\n".join([*lines, *_format_note(answer.limitation)])


def _format_change_hit(number: int, hit: ChangeHit) -> Iterator[str]:
    subject = _split_message(hit.commit_subject)[0]
    date, evidence = _format_date(hit.commit_date, hit.author_date), _describe_evidence(hit, subject)
    author = escape_line(hit.commit_author)
    yield f"{number}. {hit.commit_sha[:SHORT_SHA_DIGITS]} {date} {author}: {subject}{evidence}"
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
    date, evidence = _format_date(hit.commit_date, hit.author_date), _describe_evidence(hit, subject)
    return f"- {hit.step}{guess} {hit.commit_sha[:SHORT_SHA_DIGITS]} {date} {subject}{evidence}"


def _format_related_file(file: RelatedFile) -> str:
    return (
        f"- {escape_line(file.file_path)} {format_commit_count(file.support)}, {file.confidence:.0%}, "
        f"lift {file.lift:.1f}, last {file.commit_date[:10]} {file.commit_sha[:SHORT_SHA_DIGITS]}"
    )


def _describe_commit_file(file: CommitFile) -> str:
    source = f" from {escape_line(file.old_path)}" if file.old_path else ""
    return f"file: {escape_line(file.path)} {file.change_kind}{source} +{file.added} -{file.removed}"


def _format_omission(line_count: int) -> list[str]:
    return _format_note(f"{format_count(line_count, 'more line')}: raise `max_tokens`.") if line_count else []


def _format_pattern_hit(number: int, hit: PatternHit) -> Iterator[str]:
    subject, *body = _split_message(hit.commit_message)
    repository = f"{escape_line(hit.repository)}: " if hit.repository else ""
    # Only a reranked hit, which has `matched`, has a probability as its score.
    probability = (
        f" ({'weak, ' if hit.weak else ''}{hit.combined_score:.2f})" if hit.matched is not None else ""
    )
    date = _format_date(hit.commit_date, hit.author_date)
    evidence = _describe_evidence(hit, hit.commit_message)
    yield f"{number}. {repository}{hit.commit_sha[:SHORT_SHA_DIGITS]} {date} {subject}{probability}{evidence}"
    if description := _describe_files(hit):
        yield description
    yield from _quote(body)
    yield from _fence(hit.diff_excerpt)


def _format_explain_hit(number: int, hit: ExplainHit) -> Iterator[str]:
    subject, *body = _split_message(hit.commit_message)
    date = _format_date(hit.commit_date, hit.author_date)
    author = escape_line(hit.commit_author)
    evidence = _describe_evidence(hit, hit.commit_message)
    yield f"{number}. {hit.commit_sha[:SHORT_SHA_DIGITS]} {date} {author}: {subject}{evidence}"
    noun = "line" if len(hit.blame_lines) == 1 else "lines"
    yield f"{noun} {', '.join(format_ranges(hit.blame_lines))}; in {escape_line(hit.file_path)}"
    yield from _quote(body)
    yield from _fence(hit.diff_excerpt)


def _describe_evidence(
    hit: PatternHit | ExplainHit | ChangeHit | TraceHit | CommitDetails, shown_message: str
) -> str:
    """Return the evidence about a commit for the end of its line; empty without any."""
    tag = hit.release.tag if hit.release else None
    copies = () if isinstance(hit, TraceHit) else hit.also
    description = describe_evidence(hit.references, tag, copies, shown_message)
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
    """Return a line of code without indentation, cut to `MAX_LINE_CHARS`."""
    text = escape_line(line).strip()
    return text if len(text) <= MAX_LINE_CHARS else f"{text[:MAX_LINE_CHARS]}…"


def _describe_files(hit: PatternHit) -> str:
    """Return the files in the hit's order with counts of changed lines, and the kind of change of the shown one."""
    names = []
    for file in hit.files:
        change_kind = f" {hit.change_kind}" if file.path == hit.file_path else ""
        names.append(f"{escape_line(file.path)}{change_kind}{_format_line_counts(file.added, file.removed)}")
    if count := hit.file_count - len(hit.files):
        names.append(format_more_files(count))
    # The prefix keeps a name such as `Note: ...` from looking like a note of this program.
    return f"files: {'; '.join(names)}" if names else ""


def _format_line_counts(added: int, removed: int) -> str:
    return (f" +{added}" if added else "") + (f" -{removed}" if removed else "")


def _format_date(commit_date: str, author_date: str | None) -> str:
    """Return the author's day, and the commit's in parentheses; only the commit's without an author date."""
    return f"{author_date[:10]} (committed {commit_date[:10]})" if author_date else commit_date[:10]


def _split_message(message: str) -> list[str]:
    """Return the subject and the other lines of a message, without empty ones."""
    lines = [escape_line(line).strip() for line in message.strip().split("\n")]
    return [lines[0] or "(no message)", *filter(None, lines[1:])]


def _quote(lines: list[str]) -> list[str]:
    return [f"> {line}" for line in lines]


def _fence(text: str | None, language: str = "diff") -> Iterator[str]:
    """Yield a Markdown code block, whose fence is longer than any in the text."""
    if text:
        fence = "`" * max([3, *(len(match) + 1 for match in _BACKTICKS.findall(text))])
        yield f"{fence}{language}"
        yield escape_controls(text.rstrip("\n"))
        yield fence


def _format_note(note: str | None) -> list[str]:
    return [f"Note: {escape_line(note)}"] if note else []
