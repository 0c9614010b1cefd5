"""Terminal output of `lineage grep`, `lineage log`, `lineage trace`, `lineage related` and `lineage show`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from serve.analysis.commit_kinds import DISPLAY_NAMES
from serve.cli.render import format_evidence, format_message_lines, get_line_style
from serve.commit_types import (
    ChangeHit,
    ChangeSearchAnswer,
    CommitDetails,
    CommitFile,
    FileContent,
    FileDiff,
    ShowAnswer,
    TraceAnswer,
    TraceHit,
)
from serve.related_types import RelatedAnswer, RelatedDetails
from serve.text import (
    SHA_DIGITS,
    escape_controls,
    escape_line,
    format_commit_count,
    format_count,
    format_more_files,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from serve.analysis.range_summary import LogAnswer, ReleaseNote

# Maximum number of matching lines shown of a commit, so that several commits fit a screen. The JSON has more.
MAX_LINES: Final = 12
# Maximum number of references shown of a release note. A pull request may close many issues.
MAX_REFERENCES: Final = 4

# A step is what a commit did to the traced symbol. "introduced" is the longest name of a step.
STEP_WIDTH: Final = len("introduced")
# Steps that are not listed, such as "renamed", are magenta.
STEP_STYLES: Final = {"introduced": "green", "restored": "green", "removed": "red", "modified": ""}

# Rows of a table. The first cell of a row is a name; the others are right-aligned.
Rows = Sequence[Sequence[str]]
# Maximum width of the names in a table, for a terminal of 80 columns; names may take half the width of a wider
# terminal. A longer path is cut at its start, because the file name is at its end.
NAME_COLUMNS: Final = 44
INDENT: Final = "  "


def print_grep_answer(answer: ChangeSearchAnswer, console: Console, *, compact: bool = False) -> None:
    """Print the commits with their matching lines, then their number and what the search leaves out.

    `compact`: print no `…` for omitted lines, because the user asked for an answer without lines.
    """
    from rich.text import Text

    for number, hit in enumerate(answer.hits, start=1):
        for row in (*_format_hit_title(f"{number:>2}. ", hit), *_format_hit_files(hit, compact=compact)):
            console.print(row, no_wrap=True, overflow="ellipsis")
        console.print()
    if answer.meta.hint:
        console.print(Text(escape_line(answer.meta.hint), style="bold yellow"))
    details = answer.meta.search
    if details.last:  # the oldest or newest matching commit, which `hits` lacks
        for row in _format_hit_title(f"{details.last_label}: ", details.last):
            console.print(row, no_wrap=True, overflow="ellipsis")
        console.print()
    console.print(Text(details.count_phrase, style="bold"))
    if details.limitation:
        console.print(Text(details.limitation, style="dim"))


def _format_hit_title(label: str, hit: ChangeHit) -> Iterator[Text]:
    from rich.text import Text

    subject = format_message_lines(hit.commit_subject)[0]
    yield Text().append(label, style="dim").append(subject, style="bold")
    row = Text().append(f"    {hit.commit_sha[:SHA_DIGITS]}", style="yellow")
    row.append(f"  {hit.commit_date[:10]}  {escape_line(hit.commit_author)}")
    yield row.append(format_evidence(hit), style="green")


def _format_hit_files(hit: ChangeHit, *, compact: bool) -> Iterator[Text]:
    from rich.text import Text

    remaining_lines = MAX_LINES
    for file in hit.files:
        row = Text().append(f"    {escape_line(file.path)}", style="cyan")
        yield row.append(f"  {file.change_kind}, +{file.added} -{file.removed}", style="dim")
        shown_lines = file.lines[:remaining_lines]
        for line in shown_lines:
            text = escape_controls(line.text.removesuffix("\r")).expandtabs(4)
            row = Text().append(f"    │ {line.number:>5} ", style="dim")
            yield row.append(f"{line.sign}{text}", style=get_line_style(line.sign))
        # The search returns a limited number of lines per commit, so a file may have none.
        if not compact and (not file.lines or len(shown_lines) < len(file.lines)):
            yield Text("    │ …", style="dim")
        remaining_lines -= len(shown_lines)
    if hit.file_count > len(hit.files):
        yield Text(f"    {format_more_files(hit.file_count - len(hit.files))}", style="dim")


def print_log_answer(answer: LogAnswer, console: Console) -> None:
    """Print the number of commits, in total, by directory and by kind, then the candidates for release notes."""
    from rich.text import Text

    console.print(Text(_format_log_title(answer), style="bold"))
    if answer.limitation:
        console.print(Text(escape_line(answer.limitation), style="bold yellow"))
    directories = {directory.path or "(top level)": directory.commits for directory in answer.directories}
    kinds = {DISPLAY_NAMES[group.kind]: group.count for group in answer.kinds}
    for heading, commit_counts in (("By directory", directories), ("By kind", kinds)):
        if commit_counts:
            console.print(Text(f"\n{heading}", style="bold"))
        for name, count in commit_counts.items():
            row = Text().append(f"{count:>7,}  ").append(escape_line(name), style="cyan")
            console.print(row, no_wrap=True, overflow="ellipsis")
    for row in _format_release_notes(answer):
        console.print(row, no_wrap=True, overflow="ellipsis")


def _format_log_title(answer: LogAnswer) -> str:
    count = format_commit_count(answer.commits) if answer.commits else "no commits"
    title = f"{escape_line(answer.commit_range)}: {count}"
    if not answer.first_date or not answer.last_date:
        return title
    authors = format_count(answer.authors, "author")
    first_day, last_day = answer.first_date[:10], answer.last_date[:10]
    days = first_day if first_day == last_day else f"{first_day} to {last_day}"
    return f"{title} by {authors}, {days}"


def _format_release_notes(answer: LogAnswer) -> Iterator[Text]:
    from rich.text import Text

    count, shown_count = answer.release_note_count, len(answer.release_notes)
    if count:
        limit_note = f", first {shown_count:,} shown" if shown_count < count else ""
        yield Text(f"\nCandidates for release notes: {count:,}{limit_note}", style="bold")
    heading = ""
    for note in answer.release_notes:
        note_heading = "breaking changes" if note.is_breaking else DISPLAY_NAMES[note.kind]
        if note_heading != heading:
            yield Text(note_heading.capitalize(), style="green")
        heading = note_heading
        yield _format_release_note(note)


def _format_release_note(note: ReleaseNote) -> Text:
    from rich.text import Text

    row = Text().append(f"    {note.commits[0][:SHA_DIGITS]}", style="yellow")
    row.append(f"  {format_message_lines(note.title)[0]}", style="bold")
    references = escape_line(", ".join(note.references[:MAX_REFERENCES]))
    return row.append(f"  {references}" if references else "", style="green").append(
        f"  {escape_line(note.author)}", style="dim"
    )


def print_show_answer(answer: ShowAnswer, console: Console) -> None:
    """Print the commit and its files, then the diff or the content of the requested file."""
    from rich.text import Text

    # One call for all lines, because there can be many, and a call for each takes 70 µs.
    console.print(Text("\n").join(_format_commit(answer.commit)), soft_wrap=True)
    for line in answer.changelog:
        console.print(Text(f"changelog: {escape_line(line)}", style="dim"), no_wrap=True, overflow="ellipsis")
    if answer.changelog:
        console.print()
    for row in _format_files(answer):
        console.print(row, no_wrap=True, overflow="ellipsis")
    if rows := list(_format_diff_or_content(answer.diff, answer.content)):
        console.print(Text("\n").join(rows), soft_wrap=True)
    if answer.limitation:
        console.print(Text(escape_line(answer.limitation), style="bold yellow"))


def _format_commit(commit: CommitDetails) -> Iterator[Text]:
    from rich.text import Text

    yield Text(f"commit {commit.commit_sha}", style="yellow")
    if commit.parents:
        yield Text(f"parents {' '.join(sha[:SHA_DIGITS] for sha in commit.parents)}", style="dim")
    date = (
        f"{commit.author_date} (committed {commit.commit_date})" if commit.author_date else commit.commit_date
    )
    yield Text(f"{escape_line(commit.commit_author)} <{escape_line(commit.author_email)}>  {date}")
    if evidence := format_evidence(commit).strip():
        yield Text(evidence, style="green")
    yield Text()
    subject, *body = escape_controls(commit.commit_message.replace("\r\n", "\n")).strip().split("\n")
    yield Text(f"    {subject or '(no message)'}", style="bold")
    for line in body:
        yield Text(f"    {line}")
    yield Text()


def _format_files(answer: ShowAnswer) -> Iterator[Text]:
    from rich.text import Text

    for file in answer.files:
        yield _format_file(file)
    omitted = (answer.file_count or 0) - len(answer.files)
    if omitted > 0:
        yield Text(format_more_files(omitted), style="dim")


def _format_file(file: CommitFile) -> Text:
    from rich.text import Text

    added, removed = ("?" if count is None else count for count in (file.added, file.removed))
    row = Text().append(f"+{added:<5}", style="green").append(f"-{removed:<5}", style="red")
    row.append(f" {escape_line(file.path)}", style="cyan").append(f"  {file.change_kind}", style="dim")
    if file.old_path:
        row.append(f" from {escape_line(file.old_path)}", style="dim")
    return row.append(f", {file.limitation}", style="dim") if file.limitation else row


def _format_diff_or_content(diff: FileDiff | None, content: FileContent | None) -> Iterator[Text]:
    from rich.text import Text

    if diff:
        yield Text()
        for line in escape_controls(diff.text.replace("\r\n", "\n")).removesuffix("\n").split("\n"):
            yield Text(line, style=get_line_style(line))
    if content:
        name = escape_line(content.path)
        yield Text(
            f"{name}  lines {content.first_line}-{content.last_line} of {content.line_count}", style="cyan"
        )
        text = escape_controls(content.text.replace("\r\n", "\n")).removesuffix("\n")
        lines = text.split("\n") if content.text else []
        width = len(str(content.last_line))
        for number, line in enumerate(lines, start=content.first_line):
            yield Text().append(f"{number:>{width}} │ ", style="dim").append(line)


def print_trace_answer(answer: TraceAnswer, console: Console) -> None:
    """Print the changes, then the counts.

    Below a change, a line shows its place (file and symbol) and evidence (references, release). The line is omitted if
    the change has no evidence, and its place is that of the change above.
    """
    from rich.text import Text

    details = answer.meta.trace
    previous_place = ""
    for hit in answer.hits:
        console.print(_format_trace_hit(hit), no_wrap=True, overflow="ellipsis")
        place, evidence = _format_place(hit), format_evidence(hit)
        if place != previous_place or evidence:
            row = Text(f"    {place}", style="cyan").append(evidence, style="green")
            console.print(row, no_wrap=True, overflow="ellipsis")
        previous_place = place
    if answer.hits:
        console.print()
    if answer.meta.hint:
        console.print(Text(escape_line(answer.meta.hint), style="bold yellow"))
    console.print(Text(escape_line(f"{details.symbol}, {details.place}"), style="bold"), soft_wrap=True)
    console.print(Text(details.count_phrase))
    if details.limitation:
        console.print(Text(escape_line(details.limitation), style="dim"))


def _format_trace_hit(hit: TraceHit) -> Text:
    from rich.text import Text

    step = f"{hit.step}{'' if hit.provenance == 'EXACT' else ' ≈'}"
    row = Text().append(hit.commit_sha[:SHA_DIGITS], style="yellow").append(f"  {hit.commit_date[:10]}  ")
    row.append(f"{step:<{STEP_WIDTH}}  ", style=STEP_STYLES.get(hit.step, "magenta"))
    row.append(format_message_lines(hit.commit_subject)[0], style="bold")
    return row.append(f"  {escape_line(hit.commit_author)}", style="dim")


def _format_place(hit: TraceHit) -> str:
    return escape_line(f"{hit.path}:{hit.symbol}{hit.old_place_suffix}")


def print_related_answer(answer: RelatedAnswer, console: Console, *, compact: bool = False) -> None:
    """Print the tables that have rows, then the limitation and the hint. `compact`: omit the commit of each row."""
    from rich.text import Text

    details = answer.meta.related
    for line in _format_related_heading(details):
        console.print(line, soft_wrap=True)
    for heading, rows in _build_related_tables(answer, compact=compact):
        if not rows:
            continue
        console.print(Text(f"\n{heading}", style="bold"))
        for row in _align_rows(rows, max(NAME_COLUMNS, console.width // 2)):
            console.print(row, no_wrap=True, overflow="ellipsis")
    for note, style in ((details.limitation, "dim"), (answer.meta.hint, "bold yellow")):
        if note:
            console.print(Text(f"\n{escape_line(note)}", style=style))


def _format_related_heading(details: RelatedDetails) -> Iterator[Text]:
    from rich.text import Text

    row = Text(escape_line(details.path), style="bold cyan")
    yield row.append(f"  {details.count_phrase}", style="dim")
    if details.old_paths:
        yield Text(f"{INDENT}formerly {', '.join(map(escape_line, details.old_paths))}", style="dim")


def _build_related_tables(answer: RelatedAnswer, *, compact: bool) -> Iterator[tuple[str, Rows]]:
    """Yield the heading and the rows of each table. `compact`: omit the commit of each row."""
    details = answer.meta.related

    def format_commit_cells(sha: str, date: str) -> list[str]:
        return [] if compact else [f"last {date[:10]}  {sha[:SHA_DIGITS]}"]

    yield (
        "Files that change with it",
        [
            (
                file.file_path,
                format_commit_count(file.support),
                _format_share(file.confidence),
                f"lift {file.lift:.1f}",
                *format_commit_cells(file.commit_sha, file.commit_date),
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
                format_count(author.lines, "line"),
            )
            for author in details.recent_authors
        ],
    )
    yield (
        "Bots",
        [
            (
                bot.name,
                format_count(bot.lines, "line"),
                f"{format_commit_count(bot.recent_commits)} recently",
            )
            for bot in details.bots
        ],
    )
    yield (
        "Hot spots",
        [
            (
                f"{spot.name}{f':{spot.line}' if spot.line else ''}",
                format_commit_count(spot.commits),
                f"{spot.fixes} fix{'' if spot.fixes == 1 else 'es'}",
                *format_commit_cells(spot.commit_sha, spot.commit_date),
            )
            for spot in details.hot_spots
        ],
    )


def _format_share(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else "<1%"


def _align_rows(rows: Rows, max_name_width: int) -> Iterator[Text]:
    """Yield the rows with aligned columns, the names in color."""
    from rich.cells import cell_len
    from rich.text import Text

    rows = [[_shorten_name(escape_line(name), max_name_width), *cells] for name, *cells in rows]
    name_width, *cell_widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    for name, *cells in rows:
        row = Text(INDENT).append(name, style="cyan").append(" " * (name_width - cell_len(name)))
        for cell, width in zip(cells, cell_widths, strict=True):
            row.append(f"  {cell:>{width}}")
        yield row


def _shorten_name(name: str, max_width: int) -> str:
    """Cut the start of a name that is wider than `max_width` terminal cells. Some characters take two cells."""
    from rich.cells import cell_len

    if cell_len(name) <= max_width:
        return name
    end = name[1 - max_width :]
    while cell_len(end) >= max_width:
        end = end[1:]
    return f"…{end}"
