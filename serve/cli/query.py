"""`lineage query` and `lineage explain`, as a person calls them: parse, ask, print.

Nothing heavy is imported here: each command brings in what it needs when it runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from serve import config
from serve.cli.terminal import RepositoryPath, write
from serve.text import pasted

if TYPE_CHECKING:
    from rich.console import Console

    from serve.api_types import ExplainAnswer, FindAnswer

Said = TypeVar("Said", "FindAnswer", "ExplainAnswer")

NoDaemon = Annotated[
    bool, typer.Option("--no-daemon", help="Answer in this process, not in the shared daemon.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on a terminal too.")]


def query_command(  # noqa: PLR0913 - one parameter for each option a person may give
    context: typer.Context,
    path: RepositoryPath = Path(),
    *,
    query: Annotated[
        str | None,
        typer.Option(
            "--query", "-q", help="What you are looking for, in plain words.  [required]", show_default=False
        ),
    ] = None,
    k: Annotated[int, typer.Option("--k", "-k", help="Number of commits, 1 to 20.")] = 5,
    language: Annotated[
        str | None, typer.Option(help="Only changes to files of this language, such as `python`.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            help="Only commits since: `30d` (h, d, w, m, y), `2024`, `2024-01`, `2024-01-31`, or RFC 3339."
        ),
    ] = None,
    path_filter: Annotated[
        str | None,
        typer.Option("--path", help="Only files this gitignore pattern names: `src/`, `*.py`, `/docs`."),
    ] = None,
    author: Annotated[
        str | None, typer.Option(help="Only commits by this author: part of the name or address.")
    ] = None,
    no_rerank: Annotated[bool, typer.Option("--no-rerank", help="Keep the order of rank fusion.")] = False,
    no_daemon: NoDaemon = False,
    as_json: AsJson = False,
) -> None:
    """Find commits whose changes resemble a description."""
    from serve.api_types import FindRequest, worded
    from serve.backend import answering

    request = FindRequest(
        worded(query, path, context.args), k, language, since, path_filter, author, rerank=not no_rerank
    )
    said = config.read()
    answer = answering(said, daemon=not no_daemon).find(request, path)
    _answer(answer, partial(_page, request.text), as_json=as_json)


def explain_command(  # noqa: PLR0913 - one parameter for each option a person may give
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="The file: relative to the repository, or else to where you are; with `./`, from where you are.",
        ),
    ],
    path: RepositoryPath = Path(),
    *,
    lines: Annotated[
        str | None,
        typer.Option(
            metavar="START:END",
            help="Only these lines, from 1, both included; `:42` and `10:` leave an end open. [whole file]",
        ),
    ] = None,
    k: Annotated[int, typer.Option("--k", "-k", help="Number of commits, 1 to 20.")] = 5,
    no_diff: Annotated[bool, typer.Option("--no-diff", help="Without what the commits changed.")] = False,
    no_related: Annotated[
        bool, typer.Option("--no-related", help="Without the neighbours in the file's history.")
    ] = False,
    ignore_whitespace: Annotated[
        bool, typer.Option("--ignore-whitespace", help="Look through changes of white space: blame's -w.")
    ] = False,
    follow_moves: Annotated[
        bool, typer.Option("--follow-moves", help="Follow lines moved in and between files: blame's -M -C.")
    ] = False,
    no_daemon: NoDaemon = False,
    as_json: AsJson = False,
) -> None:
    """Say which commits made lines of a file, newest first."""
    from serve.api_types import ExplainRequest, bounds
    from serve.backend import answering
    from serve.cli import render_explain

    start, end = bounds(lines)
    request = ExplainRequest(
        file,
        start,
        end,
        k,
        include_diff=not no_diff,
        include_related=not no_related,
        ignore_whitespace=ignore_whitespace,
        follow_moves=follow_moves,
    )
    said = config.read()
    answer = answering(said, daemon=not no_daemon).explain(request, path, Path.cwd())
    _answer(answer, render_explain.show, as_json=as_json)


def _page(question: str, answer: FindAnswer, console: Console) -> None:
    """Print a page of hits."""
    from pipeline.text import words
    from serve.cli import render
    from serve.search.query_hints import telling

    render.show(answer, console, telling(words(question)))


def _answer(answer: Said, show: Callable[[Said, Console], None], *, as_json: bool) -> None:
    """Print an answer: as a page on a terminal, as JSON to a program or where it is asked for."""
    answer = answer.told(pasted)
    if as_json or not sys.stdout.isatty():
        from serve.cli import render

        write(render.as_json(answer))
        return
    from rich.console import Console

    show(answer, Console(highlight=False))
