"""Terminal output of `lineage explain`: lines next to their commits, each commit with its diff, earlier commits.

A run is a sequence of consecutive lines from the same commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final

from serve.cli.render import format_evidence, format_message_lines, print_hit
from serve.explain_types import ExplainAnswer, ExplainDetails, ExplainedLine, ExplainHit, RelatedCommit
from serve.text import SHA_DIGITS, escape_controls, format_ranges

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

# Number of lines (two screens) above which a run shows only its first lines.
MAX_FULL_LINES: Final = 60
LINES_PER_RUN: Final = 3
# Maximum number of runs of a long range. The JSON has all lines.
MAX_RUNS: Final = 40
# Maximum number of line ranges of a commit. More do not fit on the line of the path.
MAX_RANGES: Final = 5
STEP_WIDTH: Final = len("reformatted")
# A commit has the same color next to its lines and in its heading.
COLORS: Final = ("cyan", "yellow", "green", "magenta", "blue", "bright_red")


def print_explain_answer(answer: ExplainAnswer, console: Console) -> None:
    """Print an answer on a terminal."""
    for row in _format_blame(answer):
        console.print(row, no_wrap=True, overflow="ellipsis")
    if answer.lines:
        console.print()
    for number, hit in enumerate(answer.hits, start=1):
        print_hit(_format_heading(number, hit), hit, console)
    for line in _format_evolution(answer.meta.explain):
        console.print(line, no_wrap=True, overflow="ellipsis")
    for line in _format_related_commits(answer.meta.explain.related_commits):
        console.print(line, no_wrap=True, overflow="ellipsis")
    for line in _format_footer(answer):
        console.print(line)


def _format_blame(answer: ExplainAnswer) -> Iterator[Text]:
    from rich.text import Text

    hit_numbers = {hit.commit_sha: number for number, hit in enumerate(answer.hits, start=1)}
    runs = [list(run) for _, run in groupby(answer.lines, key=lambda line: line.commit_sha)]
    width = len(str(answer.lines[-1].number)) if answer.lines else 0
    is_shortened = len(answer.lines) > MAX_FULL_LINES
    for run in runs[: MAX_RUNS if is_shortened else None]:
        visible = run[:LINES_PER_RUN] if is_shortened and len(run) > LINES_PER_RUN + 1 else run
        for line in visible:
            yield _format_blame_line(line, hit_numbers, width, is_first=line is run[0])
        if len(visible) < len(run):
            omitted = f"{len(run) - len(visible)} more"
            yield Text(f"{'':{SHA_DIGITS + 4}}  {'⋮':>{width}}   {omitted}", style="dim")
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
    row = Text().append(f"{margin:<{SHA_DIGITS + 4}}", style=style)
    row.append(f"  {line.number:>{width}} ", style="dim").append("│ ", style=style)
    return row.append(escape_controls(line.text.removesuffix("\r")).expandtabs(4))


def _get_color(number: int) -> str:
    return COLORS[(number - 1) % len(COLORS)]


def _format_heading(hit_number: int, hit: ExplainHit) -> Text:
    from rich.text import Text

    subject, *body = format_message_lines(hit.commit_message)
    heading = Text()
    heading.append(f"{hit_number:>2}. ", style="dim").append(subject, style="bold")
    heading.append(f"\n    {hit.commit_sha[:SHA_DIGITS]}", style=_get_color(hit_number))
    heading.append(f"  {hit.commit_date[:10]}  {escape_controls(hit.commit_author)}")
    heading.append(format_evidence(hit), style="green")
    heading.append("".join(f"\n    {line}" for line in body), style="dim")
    heading.append(f"\n    {escape_controls(hit.file_path)}", style="cyan")
    return heading.append(f"  {_format_lines(hit.blame_lines)}", style="dim")


def _format_lines(numbers: Sequence[int]) -> str:
    ranges = format_ranges(numbers)
    ellipsis = ", …" if len(ranges) > MAX_RANGES else ""
    return f"{'line' if len(numbers) == 1 else 'lines'} {', '.join(ranges[:MAX_RANGES])}{ellipsis}"


def _format_evolution(details: ExplainDetails) -> Iterator[Text]:
    from rich.text import Text

    is_range = details.lines_queried[0] != details.lines_queried[1]
    if details.evolution:
        yield Text("Earlier commits that shaped the lines (= equal text, ≈ inferred):", style="dim")
    for step in details.evolution:
        row = _format_commit(step.commit_sha, step.commit_date).append(f"  {step.step:<{STEP_WIDTH}}  ")
        row.append(format_message_lines(step.commit_message)[0], style="bold")
        yield row.append(f"  {_format_lines(step.lines)}" if is_range else "", style="dim")
        row = Text(f"    {escape_controls(step.file_path)}", style="cyan")
        row.append(" ≈ " if step.provenance == "INFERRED" else " = ", style="dim")
        yield row.append(escape_controls(step.text).expandtabs(4))
    if details.leads:
        yield Text("Leads, which are guesses about the idea of the lines:", style="dim")
    for lead in details.leads:
        row = _format_commit(lead.commit_sha, lead.commit_date)
        row.append(f"  {format_message_lines(lead.commit_message)[0]}")
        yield row.append(f"  {escape_controls(lead.text).expandtabs(4)}", style="dim")
    if details.evolution_limitation:
        yield Text(escape_controls(details.evolution_limitation), style="dim")
    if details.evolution or details.leads or details.evolution_limitation:
        yield Text()


def _format_commit(sha: str, date: str) -> Text:
    from rich.text import Text

    return Text().append(f"    {sha[:SHA_DIGITS]}", style="dim").append(f"  {date[:10]}")


def _format_related_commits(commits: Sequence[RelatedCommit]) -> Iterator[Text]:
    from rich.text import Text

    if commits:
        yield Text("Related commits in the file's history (context, not proof):", style="dim")
    for commit in commits:
        row = Text().append(f"    {commit.commit_sha[:SHA_DIGITS]}", style="dim")
        row.append(f"  {commit.commit_date[:10]}  {escape_controls(commit.commit_author)}  ")
        yield row.append(format_message_lines(commit.commit_message)[0])
    if commits:
        yield Text()


def _format_footer(answer: ExplainAnswer) -> Iterator[Text]:
    from rich.text import Text

    details, hint = answer.meta.explain, answer.meta.hint or ""
    if details.limitation:
        yield Text(escape_controls(details.limitation), style="bold")
        hint = hint.removeprefix(
            details.limitation
        ).strip()  # the hint repeats it for readers of the hint alone
    if hint:
        yield Text(escape_controls(hint), style="bold yellow")
    if answer.hits:
        yield Text(_format_summary(details, len(answer.hits)), style="dim")


def _format_summary(details: ExplainDetails, shown_count: int) -> str:
    first, last = details.lines_queried
    commit_count = details.commits_unique
    commits = "1 commit" if commit_count == 1 else f"{commit_count} commits"
    limit_note = f", the newest {shown_count} shown (-k shows more)" if shown_count < commit_count else ""
    lines = _format_lines(range(first, last + 1))
    return f"{lines}: {commits}{limit_note}"
