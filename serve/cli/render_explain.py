"""An answer as a person sees it: the lines beside their commits, then each commit with its change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final

from serve.api_types import BlamedLine, ExplainAnswer, Explained, ExplainHit, RelatedCommit
from serve.cli.render import message, show_hit
from serve.text import named, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

# Up to two screens of lines are shown whole; of more, only the beginning of each commit's run.
WHOLE_LINES: Final = 60
RUN_LINES: Final = 3
# What is shown of a long range at all: whoever wants more has the JSON, or asks for fewer lines.
MOST_RUNS: Final = 40
NAMED_SPANS: Final = 5
SHA_DIGITS: Final = 12
# A commit has its colour beside the lines and in its own heading.
COLOURS: Final = ("cyan", "yellow", "green", "magenta", "blue", "bright_red")


def show(answer: ExplainAnswer, console: Console) -> None:
    """Print an answer for a person."""
    for row in _listing(answer):
        console.print(row, no_wrap=True, overflow="ellipsis")
    if answer.lines:
        console.print()
    for number, hit in enumerate(answer.hits, start=1):
        show_hit(_heading(number, hit), hit, console)
    for line in _related(answer.meta.explain.related_commits):
        console.print(line, no_wrap=True, overflow="ellipsis")
    for line in _closing(answer):
        console.print(line)


def _listing(answer: ExplainAnswer) -> Iterator[Text]:
    from rich.text import Text

    number_of = {hit.commit_sha: number for number, hit in enumerate(answer.hits, start=1)}
    runs = [list(run) for _, run in groupby(answer.lines, key=lambda line: line.commit_sha)]
    width = len(str(answer.lines[-1].number)) if answer.lines else 0
    brief = len(answer.lines) > WHOLE_LINES
    for run in runs[: MOST_RUNS if brief else None]:
        kept = run[:RUN_LINES] if brief and len(run) > RUN_LINES + 1 else run
        for line in kept:
            yield _row(line, number_of, width, first=line is run[0])
        if len(kept) < len(run):
            rest = f"{len(run) - len(kept)} more"
            yield Text(f"{'':{SHA_DIGITS + 4}}  {'⋮':>{width}}   {rest}", style="dim")
    if brief and len(runs) > MOST_RUNS:
        after = runs[MOST_RUNS][0].number
        yield Text(f"… lines {after}-{answer.lines[-1].number}: ask for fewer with --lines", style="dim")


def _row(line: BlamedLine, number_of: Mapping[str, int], width: int, *, first: bool) -> Text:
    from rich.text import Text

    number = number_of.get(line.commit_sha or "")
    said = line.commit_sha[:SHA_DIGITS] if line.commit_sha else "uncommitted"
    beside = f"{number or '·':>2}  {said}" if first else ""
    style = _colour(number) if number else "dim"
    row = Text().append(f"{beside:<{SHA_DIGITS + 4}}", style=style)
    row.append(f"  {line.number:>{width}} ", style="dim").append("│ ", style=style)
    return row.append(visible(line.text.removesuffix("\r")).expandtabs(4))


def _colour(number: int) -> str:
    return COLOURS[(number - 1) % len(COLOURS)]


def _heading(number: int, hit: ExplainHit) -> Text:
    from rich.text import Text

    subject, *more = message(hit.commit_message)
    heading = Text()
    heading.append(f"{number:>2}. ", style="dim").append(subject, style="bold")
    heading.append(f"\n    {hit.commit_sha[:SHA_DIGITS]}", style=_colour(number))
    heading.append(f"  {hit.commit_date[:10]}  {visible(hit.commit_author)}")
    heading.append("".join(f"\n    {line}" for line in more), style="dim")
    heading.append(f"\n    {visible(hit.file_path)}", style="cyan")
    return heading.append(f"  {_named(hit.blame_lines)}", style="dim")


def _named(numbers: Sequence[int]) -> str:
    found = named(numbers)
    more = ", …" if len(found) > NAMED_SPANS else ""
    return f"{'line' if len(numbers) == 1 else 'lines'} {', '.join(found[:NAMED_SPANS])}{more}"


def _related(commits: Sequence[RelatedCommit]) -> Iterator[Text]:
    from rich.text import Text

    if commits:
        yield Text("Around them in the file's history (context, not proof):", style="dim")
    for commit in commits:
        row = Text().append(f"    {commit.commit_sha[:SHA_DIGITS]}", style="dim")
        row.append(f"  {commit.commit_date[:10]}  {visible(commit.commit_author)}  ")
        yield row.append(message(commit.commit_message)[0])
    if commits:
        yield Text()


def _closing(answer: ExplainAnswer) -> Iterator[Text]:
    from rich.text import Text

    explained = answer.meta.explain
    if explained.limitation:
        yield Text(visible(explained.limitation), style="bold")
    if answer.meta.hint:
        yield Text(visible(answer.meta.hint), style="bold yellow")
    if answer.hits:
        yield Text(_summary(explained, len(answer.hits)), style="dim")


def _summary(explained: Explained, shown: int) -> str:
    first, last = explained.lines_queried
    unique = explained.commits_unique
    commits = "1 commit" if unique == 1 else f"{unique} commits"
    cut = f", the newest {shown} shown (-k shows more)" if shown < unique else ""
    return f"{'line' if first == last else 'lines'} {_named(range(first, last + 1)).split(' ', 1)[1]}: {commits}{cut}"
