"""JSON of `lineage query` and `lineage explain`; terminal output of both and of `lineage status`.

In the output of `explain`, a run is a sequence of consecutive lines from one commit.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

from serve import excerpts, text
from serve.api_types import NamedRepository, format_rfc3339
from serve.cli.terminal import format_json
from serve.commit_types import ChangeHit, CommitDetails, TraceHit
from serve.excerpts import get_subject
from serve.explain_types import ExplainAnswer, ExplainDetails, ExplainedLine, ExplainHit, RelatedCommit
from serve.find_types import FindAnswer, FindMeta, PatternHit
from serve.references import describe_evidence
from serve.text import (
    LEADS_HEADING,
    SHA_DIGITS,
    add_path_to_command,
    escape_controls,
    escape_line,
    format_ranges,
)
from stores.errors import LineageError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from serve.excerpts import DiffWindow
    from serve.index_status import CacheStatus, IndexStatus
    from stores.index_location import IndexLocation


# Maximum lines of a diff, so that several hits fit a screen. A mark for lines omitted above counts as a line, a mark
# for lines omitted below does not. The JSON has the full excerpt.
MAX_EXCERPT_LINES: Final = 12
# Maximum lines of a commit message's body; usually enough for its first paragraph.
MAX_BODY_LINES: Final = 3
# Maximum number of symbols of a hit. More do not fit on the line of its path.
MAX_SYMBOLS: Final = 4
# Shown in place of the path for a commit that changes no file itself.
NO_FILE: Final = "(no file)"

# In an explanation with more lines than this (about two screens), each run shows only its first LINES_PER_RUN lines.
MAX_FULL_LINES: Final = 60
LINES_PER_RUN: Final = 3
# Width of the column before the lines: number of the hit, two spaces and SHA of its commit.
MARGIN_WIDTH: Final = 4 + SHA_DIGITS
# Maximum number of runs in an explanation with more than MAX_FULL_LINES lines. The JSON has all lines.
MAX_RUNS: Final = 40
# Maximum number of line ranges of a commit. More do not fit on the line of its path.
MAX_RANGES: Final = 5
# Width of the longest step of an evolution.
STEP_WIDTH: Final = len("reformatted")
# A commit has the same color next to its lines and in its heading.
COLORS: Final = ("cyan", "yellow", "green", "magenta", "blue", "bright_red")

# Columns of the table of `lineage status --all`.
HEADERS: Final = ("repository", "commits", "behind", "vectors", "indexed at", "state")
NO_INDEXES: Final = "No repository is indexed. Run `lineage index`."
# Columns of numbers, which are aligned to the right.
NUMBER_COLUMNS: Final = (1, 2, 3)
UNKNOWN: Final = "-"


def to_json(
    answer: FindAnswer | ExplainAnswer, *, indent: int | None = None, fields: Sequence[str] = ()
) -> str:
    """Return the JSON document of an answer, with `compatibility` only if there is something to report.

    `fields`: the fields of hits to keep; all if empty. Raises BadRequest for an unknown field.
    """
    result = answer.to_json_dict(fields)
    meta = answer.meta
    if meta.compatibility.status == "compatible" or meta.index_status.last_indexed_commit is None:
        del result["meta"]["compatibility"]
    return format_json(result, indent)


def print_find_answer(answer: FindAnswer, console: Console, terms: Collection[str] = ()) -> None:
    """Print an answer on a terminal. Long diffs are cut to the lines with the most `terms` (words of the query)."""
    for number, hit in enumerate(answer.hits, start=1):
        print_hit(_format_find_heading(number, hit), hit, console, terms)
    for line in _format_find_footer(answer.meta):
        console.print(line)


def print_hit(
    heading: Text, hit: PatternHit | ExplainHit, console: Console, terms: Collection[str] = ()
) -> None:
    """Print the heading of a hit, then its diff. A long diff is cut to the lines with the most `terms`."""
    # Wrapping options are passed here, because `Console.print` ignores those of a Text.
    console.print(heading, no_wrap=True, overflow="ellipsis")
    if hit.diff_excerpt:
        window = excerpts.select_window(hit.diff_excerpt, terms, MAX_EXCERPT_LINES)
        excerpt = _format_excerpt(window, is_truncated=hit.diff_truncated)
        console.print(excerpt, no_wrap=True, overflow="ellipsis")
    console.print()


def format_message_lines(message: str) -> list[str]:
    """Return a message's subject and the first lines of its body, without control characters."""
    # GitHub's web editor writes CRLF. A message cut within its last CRLF ends in CR, which strip() removes.
    message = message.strip().replace("\r\n", "\n")
    lines = [line.strip() for line in escape_controls(message).splitlines()] or ["(no message)"]
    body = [line for line in lines[1:] if line]
    ellipsis = ["…"] if len(body) > MAX_BODY_LINES else []
    return [lines[0], *body[:MAX_BODY_LINES], *ellipsis]


def format_evidence(hit: PatternHit | ExplainHit | ChangeHit | TraceHit | CommitDetails) -> str:
    """Return two spaces and the references, first tag, copies and revert of a commit; empty if it has none."""
    # References in the subject are left out, because the subject is always shown.
    subject = hit.commit_subject if isinstance(hit, ChangeHit | TraceHit) else get_subject(hit.commit_message)
    tag = hit.release.tag if hit.release else None
    copies, reverted_by = ((), None) if isinstance(hit, TraceHit) else (hit.also, hit.reverted_by)
    description = describe_evidence(hit.references, tag, copies, reverted_by, subject)
    return f"  {description}" if description else ""


def get_line_style(line: str) -> str:
    """Return the style of a line of a diff, by its first character."""
    styles = {"+": "green", "-": "red", "@": "blue"}
    return styles.get(line[:1], "")


def _format_excerpt(window: DiffWindow, *, is_truncated: bool) -> Text:
    """Return the lines of a diff in color, with marks for omitted lines. `is_truncated`: its end is missing."""
    from rich.text import Text

    excerpt = Text()
    omitted_line = f"\n    │ {excerpts.OMITTED_MARK}"
    if window.has_more_above:
        excerpt.append(omitted_line, style="dim")
    for line in window.lines:
        escaped_line = escape_controls(line.removesuffix("\r"))
        excerpt.append(f"\n    │ {escaped_line.expandtabs(4)}", style=get_line_style(escaped_line))
    if window.has_more_below or is_truncated:
        excerpt.append(omitted_line, style="dim")
    return excerpt[1:]  # without the first line break


def _format_find_heading(hit_number: int, hit: PatternHit) -> Text:
    from rich.text import Text

    subject, *body = format_message_lines(hit.commit_message)
    heading = Text()
    heading.append(f"{hit_number:>2}. ", style="dim").append(subject, style="bold")
    heading.append(f"\n    {hit.commit_sha[:SHA_DIGITS]}", style="yellow")
    heading.append(
        f"  {hit.commit_date[:10]}  {escape_line(hit.commit_author)}  score {hit.combined_score:.2f}"
    )
    heading.append(format_evidence(hit), style="green")
    changelog = (f"changelog: {escape_line(line)}" for line in hit.changelog)
    heading.append("".join(f"\n    {line}" for line in (*body, *changelog)), style="dim")
    repository = f"{escape_line(hit.repository)}: " if hit.repository else ""
    heading.append(f"\n    {repository}{escape_line(hit.file_path) or NO_FILE}", style="cyan")
    heading.append(f"  {hit.change_kind}", style="dim")
    if symbols := hit.related_head_symbols:
        names = ", ".join(map(escape_line, symbols[:MAX_SYMBOLS]))
        ellipsis = ", …" if len(symbols) > MAX_SYMBOLS else ""
        heading.append(f"  in {names}{ellipsis}", style="magenta")
    if hit.matched is not None:
        weakness = "weak match; " if hit.weak else ""
        heading.append(f"\n    {weakness}{escape_line(hit.matched)}", style="dim")
    return heading


def _format_find_footer(meta: FindMeta) -> Iterator[Text]:
    from rich.text import Text

    if meta.hint:
        yield Text(escape_line(meta.hint), style="bold yellow")
    profile = meta.query_profile
    if profile.changes_search:
        yield Text(f"query profile {profile.name}: {escape_line(profile.explanation)}", style="dim")


def print_explain_answer(answer: ExplainAnswer, console: Console) -> None:
    """Print an answer on a terminal."""
    for row in _format_blame(answer):
        console.print(row, no_wrap=True, overflow="ellipsis")
    if answer.lines:
        console.print()
    for number, hit in enumerate(answer.hits, start=1):
        print_hit(_format_explain_heading(number, hit), hit, console)
    for line in _format_evolution(answer.meta.explain):
        console.print(line, no_wrap=True, overflow="ellipsis")
    for line in _format_related_commits(answer.meta.explain.related_commits):
        console.print(line, no_wrap=True, overflow="ellipsis")
    for line in _format_explain_footer(answer):
        console.print(line)


def _format_blame(answer: ExplainAnswer) -> Iterator[Text]:
    from rich.text import Text

    hit_numbers = {hit.commit_sha: number for number, hit in enumerate(answer.hits, start=1)}
    runs = [list(run) for _, run in groupby(answer.lines, key=lambda line: line.commit_sha)]
    width = len(str(answer.lines[-1].number)) if answer.lines else 0
    is_shortened = len(answer.lines) > MAX_FULL_LINES
    for run in runs[: MAX_RUNS if is_shortened else None]:
        # A single line is not omitted, since the row for omitted lines would take the same space.
        is_cut = is_shortened and len(run) > LINES_PER_RUN + 1
        shown_lines = run[:LINES_PER_RUN] if is_cut else run
        for line in shown_lines:
            yield _format_blame_line(line, hit_numbers, width, is_first=line is run[0])
        if is_cut:
            omitted = f"{len(run) - len(shown_lines)} more"
            yield Text(f"{'':{MARGIN_WIDTH}}  {'⋮':>{width}}   {omitted}", style="dim")
    if is_shortened and len(runs) > MAX_RUNS:
        first_omitted = runs[MAX_RUNS][0].number
        yield Text(
            f"… lines {first_omitted}-{answer.lines[-1].number}. Use --lines to see them.", style="dim"
        )


def _format_blame_line(
    line: ExplainedLine, hit_numbers: Mapping[str, int], width: int, *, is_first: bool
) -> Text:
    from rich.text import Text

    number = hit_numbers.get(line.commit_sha or "")
    label = line.commit_sha[:SHA_DIGITS] if line.commit_sha else "uncommitted"
    margin = f"{number or '·':>2}  {label}" if is_first else ""
    style = _get_color(number) if number else "dim"
    row = Text().append(f"{margin:<{MARGIN_WIDTH}}", style=style)
    row.append(f"  {line.number:>{width}} ", style="dim").append("│ ", style=style)
    return row.append(escape_controls(line.text.removesuffix("\r")).expandtabs(4))


def _get_color(number: int) -> str:
    return COLORS[(number - 1) % len(COLORS)]


def _format_explain_heading(hit_number: int, hit: ExplainHit) -> Text:
    from rich.text import Text

    subject, *body = format_message_lines(hit.commit_message)
    heading = Text()
    heading.append(f"{hit_number:>2}. ", style="dim").append(subject, style="bold")
    heading.append(f"\n    {hit.commit_sha[:SHA_DIGITS]}", style=_get_color(hit_number))
    heading.append(f"  {hit.commit_date[:10]}  {escape_line(hit.commit_author)}")
    heading.append(format_evidence(hit), style="green")
    heading.append("".join(f"\n    {line}" for line in body), style="dim")
    heading.append(f"\n    {escape_line(hit.file_path)}", style="cyan")
    return heading.append(f"  {_format_line_ranges(hit.blame_lines)}", style="dim")


def _format_line_ranges(numbers: Sequence[int]) -> str:
    ranges = format_ranges(numbers)
    ellipsis = ", …" if len(ranges) > MAX_RANGES else ""
    return f"{'line' if len(numbers) == 1 else 'lines'} {', '.join(ranges[:MAX_RANGES])}{ellipsis}"


def _format_evolution(details: ExplainDetails) -> Iterator[Text]:
    from rich.text import Text

    is_range = details.lines_queried[0] != details.lines_queried[1]
    if details.evolution:
        yield Text("Earlier commits that shaped the lines (= equal text, ≈ inferred):", style="dim")
    for step in details.evolution:
        row = _format_sha_and_date(step.commit_sha, step.commit_date).append(f"  {step.step:<{STEP_WIDTH}}  ")
        row.append(format_message_lines(step.commit_message)[0], style="bold")
        yield row.append(f"  {_format_line_ranges(step.lines)}" if is_range else "", style="dim")
        row = Text(f"    {escape_line(step.file_path)}", style="cyan")
        row.append(" ≈ " if step.provenance == "INFERRED" else " = ", style="dim")
        yield row.append(escape_controls(step.text).expandtabs(4))
    if details.leads:
        yield Text(LEADS_HEADING, style="dim")
    for lead in details.leads:
        row = _format_sha_and_date(lead.commit_sha, lead.commit_date)
        row.append(f"  {format_message_lines(lead.commit_message)[0]}")
        yield row.append(f"  {escape_controls(lead.text).expandtabs(4)}", style="dim")
    if details.evolution_limitation:
        yield Text(escape_line(details.evolution_limitation), style="dim")
    if details.evolution or details.leads or details.evolution_limitation:
        yield Text()


def _format_sha_and_date(sha: str, date: str) -> Text:
    from rich.text import Text

    return Text().append(f"    {sha[:SHA_DIGITS]}", style="dim").append(f"  {date[:10]}")


def _format_related_commits(commits: Sequence[RelatedCommit]) -> Iterator[Text]:
    from rich.text import Text

    if commits:
        yield Text("Related commits in the file's history (context, not proof):", style="dim")
    for commit in commits:
        row = _format_sha_and_date(commit.commit_sha, commit.commit_date)
        row.append(f"  {escape_line(commit.commit_author)}  ")
        yield row.append(format_message_lines(commit.commit_message)[0])
    if commits:
        yield Text()


def _format_explain_footer(answer: ExplainAnswer) -> Iterator[Text]:
    from rich.text import Text

    details, hint = answer.meta.explain, answer.meta.hint or ""
    if details.limitation:
        yield Text(escape_line(details.limitation), style="bold")
        # The hint begins with the limitation, for programs that show only the hint.
        hint = hint.removeprefix(details.limitation).strip()
    if hint:
        yield Text(escape_line(hint), style="bold yellow")
    if answer.hits:
        yield Text(_format_explain_summary(details, len(answer.hits)), style="dim")


def _format_explain_summary(details: ExplainDetails, shown_count: int) -> str:
    first, last = details.lines_queried
    commit_count = details.commits_unique
    limit_note = f", the newest {shown_count} shown (-k shows more)" if shown_count < commit_count else ""
    lines = _format_line_ranges(range(first, last + 1))
    return f"{lines}: {text.format_commit_count(commit_count)}{limit_note}"


def format_status(location: IndexLocation, status: IndexStatus) -> str:
    """Return the output of `lineage status`."""
    indexed_at = format_rfc3339(status.indexed_at) if status.indexed_at else "<none>"
    fields = {
        "repo": str(location.path),
        "id": location.repo_id,
        "last_indexed_commit": status.last_indexed_commit or "<none>",
        "indexed_at": indexed_at,
        "commits_behind_head": str(status.commits_behind),
        "compatibility": str(status.verdict) if status.verdict else "<none>",
    }
    fields |= {"head": status.head_error} if status.head_error else {}
    if status.index_holder:
        # Imported here, because it imports the database, which other commands do not need.
        from serve.index_status import describe_copy

        fields["source"] = describe_copy(status.index_holder, status.indexed_at)
    remedy = status.verdict.remedy if status.verdict else None
    if status.is_being_updated and status.verdict and status.verdict.has_no_finished_run:
        remedy = None  # the current run does what the remedy says
    if remedy and remedy not in fields["compatibility"]:
        fields["remedy"] = add_path_to_command(remedy)
    if status.vector_share < 1:
        run = "an index run" if status.is_being_updated else "`lineage index`"
        fields["vectors"] = f"{text.describe_vector_share(status.vector_share)}; {run} adds the others"
    if status.branch_patterns:
        fields["branches"] = f"HEAD, {', '.join(status.branch_patterns)}"
    if status.cache:
        fields["embed_cache"] = _format_cache(status.cache)
    if status.unreadable_commits:
        fields["unreadable"] = (
            f"{text.format_commit_count(status.unreadable_commits)}; {text.UNREADABLE_HINT}"
        )
    return "\n".join(f"{name}: {escape_line(value)}" for name, value in fields.items())


def _format_cache(cache: CacheStatus) -> str:
    usage = cache.usage
    size = f"{cache.size_bytes / 1_000_000:,.1f} MB"
    description = f"{cache.mode}, {usage.entries:,} entries, {size}"
    if not usage.requested_texts:
        return description
    share = usage.cached_texts / usage.requested_texts
    return f"{description}, the last run found {share:.0%} of {usage.requested_texts:,} texts"


def format_status_table(home: Path) -> str:
    """Return a table of all indexes, including unreadable ones and those whose repository is missing."""
    from serve.repositories import list_repositories, list_unidentified_indexes

    rows = [_build_row(repository, home) for repository in list_repositories(home)]
    rows += [
        _build_row_without_counts(
            directory.name,
            f"{directory} is damaged, and its repository is unknown. "
            "Run `lineage index --rebuild --yes` in the repository."
            if os.access(directory, os.R_OK | os.X_OK)
            else f"{directory} cannot be read. Check the owner and the permissions (`ls -ld`).",
        )
        for directory in list_unidentified_indexes(home)
    ]
    return "\n".join(_format_rows([HEADERS, *rows])) if rows else NO_INDEXES


def _build_row(repository: NamedRepository, home: Path) -> tuple[str, ...]:
    from serve.index_status import load_status_at_path

    try:
        location, status = load_status_at_path(Path(repository.path), home)
    except (LineageError, OSError) as error:
        reason = error.message if isinstance(error, LineageError) else str(error)
        return _build_row_without_counts(repository.name, reason)
    if str(location.path) != repository.path or status.verdict is None:
        return _build_row_without_counts(repository.name, "another repository has its path now")
    return (
        escape_line(repository.name),
        f"{status.commits:,}",
        f"{status.commits_behind:,}",
        f"{int(status.vector_share * 100)} %",
        format_rfc3339(status.indexed_at) if status.indexed_at else UNKNOWN,
        escape_line(str(status.verdict)),
    )


def _build_row_without_counts(name: str, state: str) -> tuple[str, ...]:
    return escape_line(name), UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, escape_line(state)


def _format_rows(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.rjust(width) if column in NUMBER_COLUMNS else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()
