"""Terminal output of `lineage explain`: the lines next to their commits, then each commit with its diff."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final

from serve.api_types import BlamedLine, ExplainAnswer, ExplainDetails, ExplainHit, RelatedCommit
from serve.cli.render import message_lines, print_hit
from serve.text import escape_controls, format_ranges

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

# Above this number of lines (two screens), only the first lines of each commit's run are shown.
MAX_FULL_LINES: Final = 60
LINES_PER_RUN: Final = 3
# Runs shown of a long range. The JSON has all lines.
MAX_RUNS: Final = 40
MAX_RANGES: Final = 5
SHA_DIGITS: Final = 12
# A commit has the same color next to its lines and in its heading.
COLORS: Final = ("cyan", "yellow", "green", "magenta", "blue", "bright_red")


def print_explain_answer(answer: ExplainAnswer, console: Console) -> None:
    """Print an answer on a terminal."""
    for row in _blame_rows(answer):
        console.print(row, no_wrap=True, overflow="ellipsis")
    if answer.lines:
        console.print()
    for number, hit in enumerate(answer.hits, start=1):
        print_hit(_format_heading(number, hit), hit, console)
    for line in _related_rows(answer.meta.explain.related_commits):
        console.print(line, no_wrap=True, overflow="ellipsis")
    for line in _footer_lines(answer):
        console.print(line)


def _blame_rows(answer: ExplainAnswer) -> Iterator[Text]:
    from rich.text import Text

    hit_numbers = {hit.commit_sha: number for number, hit in enumerate(answer.hits, start=1)}
    runs = [list(run) for _, run in groupby(answer.lines, key=lambda line: line.commit_sha)]
    width = len(str(answer.lines[-1].number)) if answer.lines else 0
    is_shortened = len(answer.lines) > MAX_FULL_LINES
    for run in runs[: MAX_RUNS if is_shortened else None]:
        visible = run[:LINES_PER_RUN] if is_shortened and len(run) > LINES_PER_RUN + 1 else run
        for line in visible:
            yield _blame_row(line, hit_numbers, width, is_first=line is run[0])
        if len(visible) < len(run):
            omitted = f"{len(run) - len(visible)} more"
            yield Text(f"{'':{SHA_DIGITS + 4}}  {'⋮':>{width}}   {omitted}", style="dim")
    if is_shortened and len(runs) > MAX_RUNS:
        first_omitted = runs[MAX_RUNS][0].number
        yield Text(f"… lines {first_omitted}-{answer.lines[-1].number}: use --lines to see them", style="dim")


def _blame_row(line: BlamedLine, hit_numbers: Mapping[str, int], width: int, *, is_first: bool) -> Text:
    from rich.text import Text

    number = hit_numbers.get(line.commit_sha or "")
    label = line.commit_sha[:SHA_DIGITS] if line.commit_sha else "uncommitted"
    margin = f"{number or '·':>2}  {label}" if is_first else ""
    style = _color(number) if number else "dim"
    row = Text().append(f"{margin:<{SHA_DIGITS + 4}}", style=style)
    row.append(f"  {line.number:>{width}} ", style="dim").append("│ ", style=style)
    return row.append(escape_controls(line.text.removesuffix("\r")).expandtabs(4))


def _color(number: int) -> str:
    return COLORS[(number - 1) % len(COLORS)]


def _format_heading(number: int, hit: ExplainHit) -> Text:
    from rich.text import Text

    subject, *body = message_lines(hit.commit_message)
    heading = Text()
    heading.append(f"{number:>2}. ", style="dim").append(subject, style="bold")
    heading.append(f"\n    {hit.commit_sha[:SHA_DIGITS]}", style=_color(number))
    heading.append(f"  {hit.commit_date[:10]}  {escape_controls(hit.commit_author)}")
    heading.append("".join(f"\n    {line}" for line in body), style="dim")
    heading.append(f"\n    {escape_controls(hit.file_path)}", style="cyan")
    return heading.append(f"  {_format_lines(hit.blame_lines)}", style="dim")


def _format_lines(numbers: Sequence[int]) -> str:
    ranges = format_ranges(numbers)
    ellipsis = ", …" if len(ranges) > MAX_RANGES else ""
    return f"{'line' if len(numbers) == 1 else 'lines'} {', '.join(ranges[:MAX_RANGES])}{ellipsis}"


def _related_rows(commits: Sequence[RelatedCommit]) -> Iterator[Text]:
    from rich.text import Text

    if commits:
        yield Text("Neighbours in the file's history (context, not proof):", style="dim")
    for commit in commits:
        row = Text().append(f"    {commit.commit_sha[:SHA_DIGITS]}", style="dim")
        row.append(f"  {commit.commit_date[:10]}  {escape_controls(commit.commit_author)}  ")
        yield row.append(message_lines(commit.commit_message)[0])
    if commits:
        yield Text()


def _footer_lines(answer: ExplainAnswer) -> Iterator[Text]:
    from rich.text import Text

    explained = answer.meta.explain
    if explained.limitation:
        yield Text(escape_controls(explained.limitation), style="bold")
    if answer.meta.hint:
        yield Text(escape_controls(answer.meta.hint), style="bold yellow")
    if answer.hits:
        yield Text(_format_summary(explained, len(answer.hits)), style="dim")


def _format_summary(explained: ExplainDetails, shown_count: int) -> str:
    first, last = explained.lines_queried
    unique = explained.commits_unique
    commits = "1 commit" if unique == 1 else f"{unique} commits"
    limit_note = f", the newest {shown_count} shown (-k shows more)" if shown_count < unique else ""
    lines = _format_lines(range(first, last + 1))
    return f"{lines}: {commits}{limit_note}"
