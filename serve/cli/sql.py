"""Command `lineage sql`: SQL on the index, as an argument, from stdin or at a prompt.

The index is opened for each input, so that index runs do not wait while the prompt is open.
"""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from numbers import Number
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, Annotated, Any, Final, Literal, TypeAlias

import typer

from serve import config
from serve.cli.terminal import RepositoryPath, create_console, is_interrupt, print_note, print_raw
from serve.errors import BadRequest
from serve.process import exit_if_signals_wait
from serve.text import escape_controls, escape_json_controls
from stores.errors import LineageError

# Width to which columns of a table in a pipe are padded at most. Longer values are printed in full, unaligned.
MAX_COLUMN_WIDTH: Final = 120
# Maximum rows of a table, which are kept in memory to compute the widths of columns. The other formats have all rows.
MAX_TABLE_ROWS: Final = 200
ROWS_PER_FETCH: Final = 1_000
# Rows of a row group in a Parquet file.
ROWS_PER_ROW_GROUP: Final = 100_000
# Larger outputs are buffered in a temporary file.
MAX_OUTPUT_BYTES_IN_MEMORY: Final = 32_000_000
HISTORY_FILE: Final = "sql_history"
MAX_HISTORY_LINES: Final = 1_000
PROMPT, CONTINUATION_PROMPT = "lineage> ", "    ...> "
EXIT_COMMANDS: Final = ("exit", "quit")
WELCOME: Final = (
    "Read-only SQL. `SHOW TABLES;` lists tables and views. End statements with `;`. Ctrl-D exits."
)

# Result of a statement. DuckDB returns its connection, but only `stores` may import that type.
Result: TypeAlias = Any


class Format(StrEnum):
    """Output format of a result."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


def sql_command(
    path: RepositoryPath = Path(),
    *,
    command: Annotated[
        str | None,
        typer.Option(
            "--command",
            "-c",
            metavar="SQL",
            help="Statements to run; the result of the last one is printed. [default: read stdin, or ask at a prompt]",
        ),
    ] = None,
    output_format: Annotated[
        Format | None,
        typer.Option("--format", help="Output format. [default: table on a terminal, else csv]"),
    ] = None,
) -> None:
    """Query the index in SQL, with DuckDB.

    The connection is read-only and has no access to files or the network. Besides the tables there are the views
    `changes`, `symbol_changes` and `tags`, and the macros `search_hunks('words', n)` and
    `similar_hunks(embed('a sentence'), n)`.
    """
    chosen_format = output_format or (Format.TABLE if sys.stdout.isatty() else Format.CSV)
    if chosen_format is Format.PARQUET and sys.stdout.isatty():
        raise BadRequest(
            "Parquet is binary, and stdout is a terminal.", hint="Redirect it: `> rows.parquet`."
        )
    if command is None and sys.stdin.isatty() and sys.stdout.isatty():
        _run_prompt(path, chosen_format)
    else:
        with exit_if_signals_wait() as directories:
            statements = sys.stdin.read() if command is None else command
            run_statements(path, statements, chosen_format, directories)


def run_statements(path: Path, statements: str, output_format: Format, directories: list[Path]) -> None:
    """Run statements on the index of the repository at `path`, and print the result of the last one.

    `directories`: gets the directory of the temporary files.
    """
    from serve.api_types import validate_encoding
    from stores.sql import retry_lost_message

    validate_encoding("SQL", statements)
    retry_lost_message(lambda: _run_statements(path, statements, output_format, directories))


def _run_statements(path: Path, statements: str, output_format: Format, directories: list[Path]) -> None:
    from serve.repositories import open_sql

    # The output is printed after the index is closed, so that an index run does not wait for a pager.
    with SpooledTemporaryFile(MAX_OUTPUT_BYTES_IN_MEMORY) as output:
        with open_sql(path, config.load_settings().home) as index:
            if index.holder:
                print_note(f"note: read from a copy, because {index.holder} holds the index")
            setting = index.connection.execute("SELECT current_setting('temp_directory')").fetchall()
            directories.append(Path(setting[0][0]))
            has_rows = _returns_rows(index.connection.extract_statements(statements))
            result = index.connection.execute(statements)
            if not has_rows:
                return
            names = [column[0] for column in result.description]
            table_rows = []
            if output_format is Format.TABLE:
                table_rows = result.fetchmany(MAX_TABLE_ROWS + 1)
            else:
                WRITERS[output_format](names, result, output)
        if output_format is Format.TABLE:
            _print_table(names, table_rows)
        output.seek(0)
        shutil.copyfileobj(output, sys.stdout.buffer)


def _returns_rows(statements: Sequence[Any]) -> bool:
    """Check whether the last parsed statement returns rows, unlike SET. Return False if there is no statement."""
    if not statements:
        return False
    return any(kind.name == "QUERY_RESULT" for kind in statements[-1].expected_result_type)


def _print_table(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    """Print at most MAX_TABLE_ROWS rows as a table, with a note if `rows` has more.

    On a terminal, long values are cut. Elsewhere they are complete.
    """
    are_numbers = [
        all(isinstance(row[position], Number | None) for row in rows) for position in range(len(names))
    ]
    lines = [
        [escape_controls(_format_cell(value)) for value in row] for row in (names, *rows[:MAX_TABLE_ROWS])
    ]
    if sys.stdout.isatty():
        _print_fitted_table(lines, are_numbers)
    else:
        widths = [min(MAX_COLUMN_WIDTH, max(map(len, column))) for column in zip(*lines, strict=True)]
        rule = ["─" * width for width in widths]
        for line in (lines[0], rule, *lines[1:]):
            cells = zip(line, widths, are_numbers, strict=True)
            padded = (
                text.rjust(width) if is_number else text.ljust(width) for text, width, is_number in cells
            )
            print_raw("  ".join(padded).rstrip())
    if len(rows) > MAX_TABLE_ROWS:
        print_note(f"These are the first {MAX_TABLE_ROWS} rows; `--format csv` prints all.")


def _print_fitted_table(lines: Sequence[Sequence[str]], are_numbers: Sequence[bool]) -> None:
    """Print a table, cut to the width of the terminal. `lines`: the header, then the rows."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    header, *rows = lines
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name, is_number in zip(header, are_numbers, strict=True):
        justify: Literal["left", "right"] = "right" if is_number else "left"
        table.add_column(Text(name), justify=justify, no_wrap=True, overflow="ellipsis")
    for row in rows:
        table.add_row(*map(Text, row))
    create_console().print(table)


def _format_cell(value: object) -> str:
    """Return a value for a table, on one line. Floats have four digits after the point."""
    match value:
        case None:
            return "NULL"
        case float():
            return f"{value:.4f}"
        case _:
            return _to_text(value).replace("\n", " ")


def _write_csv(names: Sequence[str], result: Result, output: IO[bytes]) -> None:
    escape = escape_controls if sys.stdout.isatty() else str
    stream = io.TextIOWrapper(output, "utf-8", errors="backslashreplace", newline="", write_through=True)
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(map(escape, names))
    for row in _iterate_rows(result):
        writer.writerow(["" if value is None else escape(_to_text(value)) for value in row])
    stream.detach()


def _write_json(names: Sequence[str], result: Result, output: IO[bytes]) -> None:
    duplicates = [name for name, count in Counter(names).items() if count > 1]
    if duplicates:
        raise BadRequest(f"Two columns are called {duplicates[0]!r}.", hint="Rename one with AS, or use CSV.")
    separator = "["
    for row in _iterate_rows(result):
        document = json.dumps(
            dict(zip(names, map(_to_json_value, row), strict=True)), ensure_ascii=False, default=_to_text
        )
        line = f"{separator}\n  {escape_json_controls(document)}"
        output.write(line.encode("utf-8", "backslashreplace"))
        separator = ","
    output.write(b"[]\n" if separator == "[" else b"\n]\n")


def _write_parquet(_: Sequence[str], result: Result, output: IO[bytes]) -> None:
    from pyarrow import parquet

    with result.to_arrow_reader(ROWS_PER_ROW_GROUP) as reader:
        try:
            file = parquet.ParquetWriter(output, reader.schema)
        except NotImplementedError as error:
            hint = "Cast the column, for example to VARCHAR, or choose another format."
            raise BadRequest(f"Parquet cannot hold a column: {error}.", hint=hint) from error
        with file:
            for batch in reader:
                file.write_batch(batch)


WRITERS: Final[dict[Format, Callable[[Sequence[str], Result, IO[bytes]], None]]] = {
    Format.CSV: _write_csv,
    Format.JSON: _write_json,
    Format.PARQUET: _write_parquet,
}


def _iterate_rows(result: Result) -> Iterator[tuple[Any, ...]]:
    while rows := result.fetchmany(ROWS_PER_FETCH):
        yield from rows


def _to_json_value(value: object) -> object:
    """Return a value for JSON: map keys become strings, NaN and infinity become null.

    A decimal becomes a number, or a string if it has more digits than a float.
    """
    match value:
        case Decimal() if Decimal(str(float(value))) == value:
            return float(value)
        case float() if not math.isfinite(value):
            return None
        case dict():
            return {_to_text(key): _to_json_value(item) for key, item in value.items()}
        case list() | tuple():
            return [_to_json_value(item) for item in value]
        case _:
            return value


def _to_text(value: object) -> str:
    """Return a value of any DuckDB type as text: binary data in hex, times in ISO 8601, lists and structs in JSON."""
    match value:
        case bytes():
            return value.hex()
        case datetime() | date():
            return value.isoformat()
        case list() | tuple() | dict():
            return json.dumps(_to_json_value(value), ensure_ascii=False, default=_to_text)
        case _:
            return str(value)


def _run_prompt(path: Path, output_format: Format) -> None:
    """Read statements from the terminal and run each, until the end of input."""
    import readline

    history = config.load_settings().home / HISTORY_FILE
    # A directory or pipe of this name is neither read nor written.
    has_history = history.is_file() or (history.parent.exists() and not history.exists())
    if has_history:
        history.touch(mode=0o600)
        readline.read_history_file(history)
    readline.set_history_length(MAX_HISTORY_LINES)
    print_raw(WELCOME)
    sys.stdout.flush()
    try:
        for statements in _read_statements():
            _run_at_prompt(path, statements, output_format)
    finally:
        if has_history:
            readline.write_history_file(history)


def _read_statements() -> Iterator[str]:
    """Yield each input: its lines up to a line that ends with a semicolon. Ctrl-C discards the lines so far."""
    lines: list[str] = []
    while True:
        try:
            line = input(CONTINUATION_PROMPT if lines else PROMPT)
        except EOFError:
            print_raw("")
            return
        except KeyboardInterrupt:
            print_raw("")
            lines.clear()
            continue
        if not lines and line.strip().rstrip(";") in EXIT_COMMANDS:
            return
        lines.append(line)
        if line.rstrip().endswith(";"):
            yield "\n".join(lines)
            lines.clear()
        elif not "".join(lines).strip():
            lines.clear()


def _run_at_prompt(path: Path, statements: str, output_format: Format) -> None:
    """Run statements that were entered at the prompt. After an error or Ctrl-C the prompt continues."""
    try:
        run_statements(path, statements, output_format, [])
    except LineageError as error:
        print_note(f"error: {error}")
    except (KeyboardInterrupt, RuntimeError) as error:
        if not is_interrupt(error):
            raise
        print_note("interrupted")
    sys.stdout.flush()
