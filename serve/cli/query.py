"""Commands `lineage query` and `lineage explain`.

Each command imports what it needs when it runs, so that help and other commands start quickly.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from serve import config
from serve.cli.terminal import FAILED, FormatOption, RepositoryPath, parse_fields, print_answer, remember_path
from serve.errors import BadRequest
from serve.text import add_path_to_commands, format_path_arguments

if TYPE_CHECKING:
    from rich.console import Console

    from serve.explain_types import ExplainAnswer
    from serve.find_types import FindAnswer

Answer = TypeVar("Answer", "FindAnswer", "ExplainAnswer")
# Example query in the command that an error suggests, if the user gave no query.
EXAMPLE_QUERY: Final = "how was it done before?"
# Starts of an argument that is probably meant as a path.
PATH_PREFIXES: Final = ("/", "./", "../", "~/")

NoDaemonOption = Annotated[
    bool, typer.Option("--no-daemon", help="Answer in this process, without the shared daemon.")
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        help="Only commits since this time: `30d` (h, d, w, m, y), `2024`, `2024-01`, `2024-01-31` or RFC 3339."
    ),
]
UntilOption = Annotated[
    str | None, typer.Option(help="Only commits before this time, in the form of --since.")
]
PathFilterOption = Annotated[
    str | None,
    typer.Option("--path", help="Only files that match this gitignore pattern: `src/`, `*.py`, `/docs`."),
]
AuthorOption = Annotated[
    str | None, typer.Option(help="Only commits by this author: part of the name or email address.")
]
RangeOption = Annotated[
    str | None,
    typer.Option(
        "--range",
        metavar="RANGE",
        help="Only commits of this range, as for git log: `v1.2..v1.3`, `main..topic`, `topic`. It may include indexed "
        "commits that HEAD does not reach.",
    ),
]
FieldsOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES", help="Print JSON with only these fields of each hit: `commit_sha,commit_date`."
    ),
]


def query_command(  # noqa: PLR0913 - one parameter per option
    context: typer.Context,
    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help="Description of the change, in plain words.", show_default=False),
    ] = None,
    path: Annotated[
        str | None,
        typer.Argument(
            metavar="PATH",
            help="The repository, or any path inside it. With --query, PATH is the only argument.  [default: .]",
            show_default=False,
        ),
    ] = None,
    *,
    query_option: Annotated[str | None, typer.Option("--query", "-q", help="TEXT as an option.")] = None,
    k: Annotated[int, typer.Option("--k", "-k", help="Number of commits, 1 to 20.")] = 5,
    language: Annotated[
        str | None, typer.Option(help="Only changes to files of this language, such as `python`.")
    ] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    path_filter: PathFilterOption = None,
    author: AuthorOption = None,
    commit_range: RangeOption = None,
    no_rerank: Annotated[
        bool, typer.Option("--no-rerank", help="Skip the reranker and keep the order of rank fusion.")
    ] = False,
    ask_all: Annotated[
        bool, typer.Option("--all", help="Ask all indexed repositories at once, instead of PATH.")
    ] = False,
    repository: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Ask this indexed repository, instead of PATH: name of its directory, or its path. Can be repeated.",
        ),
    ] = None,
    compact: Annotated[
        bool,
        typer.Option(
            "--compact", help="Omit diffs, shorten messages, and show at most one file for each hit."
        ),
    ] = False,
    fields: FieldsOption = None,
    no_daemon: NoDaemonOption = False,
    as_json: FormatOption = None,
) -> None:
    """Find commits whose changes match a description."""
    from serve.backend import select_backend
    from serve.excerpts import Detail, reduce_find_answer
    from serve.find_types import FindRequest

    field_names, as_json = parse_fields(fields, as_json)
    words = [word for word in (text, path, *context.args) if word is not None]
    query, repository_path = parse_query_arguments(words, query_option, accepts_path=not ask_all)
    remember_path(repository_path)
    request = FindRequest(
        query,
        k,
        language,
        since,
        path_filter,
        author,
        rerank=not no_rerank,
        until=until,
        commit_range=commit_range,
    )
    settings = config.load_settings()
    backend = select_backend(settings, use_daemon=not no_daemon)
    if ask_all and repository:
        raise BadRequest("--all conflicts with --repository.", hint="Use one of them.")
    repository_names = ["*"] if ask_all else repository  # `*` means all indexed repositories
    if repository_names and repository_path != Path():
        raise BadRequest("PATH conflicts with --all and --repository.", hint="Use one of them.")
    if repository_names:
        answer = backend.find_in_repositories(request, repository_names, Path.cwd())
    else:
        answer = backend.find(request, repository_path)
    if compact:
        answer = reduce_find_answer(answer, Detail.COMPACT, ())
    _print_find_or_explain_answer(
        answer, partial(print_hits, request.text), as_json=as_json, fields=field_names
    )


def parse_query_arguments(
    words: Sequence[str], query_option: str | None, *, accepts_path: bool
) -> tuple[str, Path]:
    """Return the query and PATH from the arguments `words` and the option `--query`.

    With `--query`, the only argument is PATH. Without it, all arguments are words of the query, with one exception: of
    two arguments, the second is PATH if it can only be a path (`_is_clearly_path`), or if the first is a quoted query
    of several words.

    Raises BadRequest for a missing query, for several arguments with `--query`, for a first or last word that exists as
    a path, because it may be meant as PATH, and for a first or last word beside others if it looks like a path that
    does not exist, unless `accepts_path` is False. Most hints give a corrected command.
    """
    if query_option is not None:
        return query_option, _parse_path_argument(words, query_option)
    if not words:
        raise BadRequest(
            "The query is missing.", hint=f"Describe the change: {_format_query_command(EXAMPLE_QUERY)}."
        )
    if len(words) == 2 and (len(words[0].split()) > 1 or _is_clearly_path(words[1])):
        return words[0], Path(words[1])
    starts_with_path = os.path.exists(words[0])  # noqa: PTH110 - `Path.exists` can raise
    if not starts_with_path and not os.path.exists(words[-1]):  # noqa: PTH110
        missing_path = next((word for word in (words[-1], words[0]) if _is_like_path(word)), None)
        if accepts_path and len(words) > 1 and missing_path:
            raise BadRequest(
                f"{missing_path!r:.200} does not exist.",
                hint=f"Correct the path. If it is a word of the query, use {_format_query_command(' '.join(words))}.",
            )
        return " ".join(words), Path()
    path, *others = words if starts_with_path else (words[-1], *words[:-1])
    command_with_path = _format_query_command(" ".join(others) or EXAMPLE_QUERY, path)
    if not others:
        raise BadRequest("The query is missing.", hint=f"Describe the change: {command_with_path}.")
    raise BadRequest(
        f"{path!r:.200} is a path, and may also be a word of the query.",
        hint=f"Use {command_with_path} or {_format_query_command(' '.join(words))}.",
    )


def _is_like_path(word: str) -> bool:
    return word.startswith(PATH_PREFIXES) and len(word.split()) == 1


def _parse_path_argument(words: Sequence[str], query: str) -> Path:
    """Return PATH from the arguments beside `--query`. Raises BadRequest for several arguments."""
    if len(words) <= 1:
        return Path(*words)
    if len(query.split()) > 1:
        raise BadRequest("There is more than one PATH.", hint="Use --repository for several.")
    quoted = _format_query_command(" ".join((query, *words)))
    raise BadRequest("The query is not quoted: it ends at the first space.", hint=f"Quote it: {quoted}.")


def _is_clearly_path(word: str) -> bool:
    """Check whether a word can only be a path: it is `.` or `..` or has a slash, and it exists."""
    return (word in (".", "..") or "/" in word) and os.path.exists(word)  # noqa: PTH110 - `Path.exists` can raise


def _format_query_command(query: str, path: str = ".") -> str:
    import shlex

    words = ["lineage", "query", *format_path_arguments(Path(path)), "--query", query]
    return f"`{shlex.join(words)}`"


def explain_command(  # noqa: PLR0913 - one parameter per option
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="File, looked up from the repository root, then from the working directory. With a leading `./`, in "
            "the reverse order.",
        ),
    ],
    path: RepositoryPath = Path(),
    *,
    lines: Annotated[
        str | None,
        typer.Option(
            metavar="START:END",
            help="Only these lines, counted from 1, both ends included. `:42` and `10:` leave an end open, `42` is "
            "one line. [default: all lines]",
        ),
    ] = None,
    k: Annotated[
        int, typer.Option("--k", "-k", help="Number of commits that last changed the lines, 1 to 20.")
    ] = 5,
    no_diff: Annotated[bool, typer.Option("--no-diff", help="Omit the diffs of the commits.")] = False,
    no_related: Annotated[
        bool,
        typer.Option(
            "--no-related",
            help="Omit related commits: those shortly before and after the hits in the file's history.",
        ),
    ] = False,
    no_evolution: Annotated[
        bool,
        typer.Option(
            "--no-evolution",
            help="Omit earlier commits that shaped the lines, and possible sources of the lines (`leads`).",
        ),
    ] = False,
    ignore_whitespace: Annotated[
        bool, typer.Option("--ignore-whitespace", help="Ignore whitespace changes, like git blame -w.")
    ] = False,
    follow_moves: Annotated[
        bool,
        typer.Option(
            "--follow-moves", help="Follow lines moved within and between files, like git blame -M -C."
        ),
    ] = False,
    compact: Annotated[
        bool, typer.Option("--compact", help="Omit diffs, and show only the subject of messages.")
    ] = False,
    fields: FieldsOption = None,
    no_daemon: NoDaemonOption = False,
    as_json: FormatOption = None,
) -> None:
    """Show which commits wrote the lines of a file, and earlier ones that shaped them, newest first."""
    from serve.api_types import parse_line_range
    from serve.backend import select_backend
    from serve.cli import render
    from serve.excerpts import Detail, reduce_explain_answer
    from serve.explain_types import ExplainRequest

    field_names, as_json = parse_fields(fields, as_json)
    start, end = parse_line_range(lines)
    request = ExplainRequest(
        file,
        start,
        end,
        k,
        include_diff=not no_diff,
        include_related=not no_related,
        ignore_whitespace=ignore_whitespace,
        follow_moves=follow_moves,
        include_evolution=not no_evolution,
    )
    settings = config.load_settings()
    answer = select_backend(settings, use_daemon=not no_daemon).explain(request, path, Path.cwd())
    if compact:
        answer = reduce_explain_answer(answer, Detail.COMPACT)
    _print_find_or_explain_answer(answer, render.print_explain_answer, as_json=as_json, fields=field_names)
    if answer.has_failed:
        raise typer.Exit(FAILED)


def print_hits(query: str, answer: FindAnswer, console: Console) -> None:
    """Print the hits on a terminal; of a long diff, only the lines that best match the query."""
    from serve.cli import render
    from serve.excerpts import parse_content_words

    render.print_find_answer(answer, console, parse_content_words(query))


def _print_find_or_explain_answer(
    answer: Answer,
    print_formatted: Callable[[Answer, Console], None],
    *,
    as_json: bool | None,
    fields: Sequence[str],
) -> None:
    """Print the answer of `query` or `explain`, with PATH added to the commands that it suggests.

    `fields`: names of the fields of hits to print; empty for all.
    """
    from serve.cli import render

    answer = answer.rewrite_commands(add_path_to_commands)
    print_answer(
        lambda indent: render.to_json(answer, indent=indent, fields=fields),
        partial(print_formatted, answer),
        as_json=as_json,
    )
