"""Terminal output of `lineage related`: tables of files, owners, recent work and hot spots, each with a heading."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from serve.related_types import Bot, RelatedAnswer, RelatedDetails
from serve.text import SHA_DIGITS, escape_line, format_commit_count

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

# Rows of a table. The first cell of a row is a name; the others are right-aligned.
Rows = Sequence[Sequence[str]]
# Largest width of a name on the terminal. A longer path is cut at its start, because the file name is at its end.
MAX_NAME_WIDTH: Final = 44
INDENT: Final = "  "


def print_related_answer(answer: RelatedAnswer, console: Console, *, compact: bool = False) -> None:
    """Print the tables that have rows, then limitations and hints. `compact`: without the newest commit of each row."""
    from rich.text import Text

    details = answer.meta.related
    for line in _format_heading(details):
        console.print(line, soft_wrap=True)
    for heading, rows in _build_tables(answer, compact=compact):
        if rows:
            console.print(Text(f"\n{heading}", style="bold"))
        for row in _align(rows):
            console.print(row, no_wrap=True, overflow="ellipsis")
    for note, style in ((details.limitation, "dim"), (answer.meta.hint, "bold yellow")):
        if note:
            console.print(Text(f"\n{escape_line(note)}", style=style))


def _format_heading(details: RelatedDetails) -> Iterator[Text]:
    from rich.text import Text

    row = Text(escape_line(details.path), style="bold cyan")
    yield row.append(f"  {details.count}", style="dim")
    if details.old_paths:
        yield Text(f"{INDENT}formerly {', '.join(map(escape_line, details.old_paths))}", style="dim")


def _build_tables(answer: RelatedAnswer, *, compact: bool) -> Iterator[tuple[str, Rows]]:
    """Yield the heading and the rows of each table."""
    details = answer.meta.related

    def describe_commit(sha: str, date: str) -> list[str]:
        return [] if compact else [f"last {date[:10]}  {sha[:SHA_DIGITS]}"]

    yield (
        "Files that change with it",
        [
            (
                file.file_path,
                format_commit_count(file.support),
                _format_share(file.confidence),
                f"lift {file.lift:.1f}",
                *describe_commit(file.commit_sha, file.commit_date),
            )
            for file in answer.hits
        ],
    )
    yield (
        f"Owners by surviving lines ({details.lines:,})",
        [(owner.name, _format_share(owner.share), f"{owner.lines:,}") for owner in details.owners],
    )
    since, until = (details.recent_since or "")[:10], (details.recent_until or "")[:10]
    yield (
        f"Recent work, {since} to {until}",
        [
            (
                author.name,
                _format_share(author.share),
                format_commit_count(author.commits),
                _format_lines(author.lines),
            )
            for author in details.recent_authors
        ],
    )
    yield "Bots", [_format_bot(bot) for bot in details.bots]
    yield (
        "Hot spots",
        [
            (
                f"{spot.name}{f':{spot.line}' if spot.line else ''}",
                format_commit_count(spot.commits),
                f"{spot.fixes} fix{'' if spot.fixes == 1 else 'es'}",
                *describe_commit(spot.commit_sha, spot.commit_date),
            )
            for spot in details.hot_spots
        ],
    )


def _format_share(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else "<1%"


def _format_bot(bot: Bot) -> Sequence[str]:
    return bot.name, _format_lines(bot.lines), f"{format_commit_count(bot.recent_commits)} recently"


def _format_lines(count: int) -> str:
    return f"{count:,} line{'' if count == 1 else 's'}"


def _align(rows: Rows) -> Iterator[Text]:
    """Yield the rows with aligned columns, the names in color."""
    from rich.cells import cell_len
    from rich.text import Text

    escaped = [[_shorten(escape_line(name)), *cells] for name, *cells in rows]
    widths = [max(map(cell_len, column)) for column in zip(*escaped, strict=True)]
    for name, *cells in escaped:
        row = Text(INDENT).append(name, style="cyan").append(" " * (widths[0] - cell_len(name)))
        for cell, width in zip(cells, widths[1:], strict=True):
            row.append(f"  {cell:>{width}}")
        yield row


def _shorten(name: str) -> str:
    from rich.cells import cell_len

    if cell_len(name) <= MAX_NAME_WIDTH:
        return name
    end = name[1 - MAX_NAME_WIDTH :]
    while cell_len(end) >= MAX_NAME_WIDTH:
        end = end[1:]
    return f"…{end}"
