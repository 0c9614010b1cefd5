"""Commands `lineage grep`, `lineage log`, `lineage trace`, `lineage related` and `lineage show`.

Each command imports what it needs when it runs, so that help and other commands start quickly. No command here uses the
daemon, since none needs a model.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from serve import config
from serve.cli.query import (
    AuthorOption,
    FieldsOption,
    PathFilterOption,
    RangeOption,
    SinceOption,
    UntilOption,
)
from serve.cli.terminal import (
    FormatOption,
    RepositoryPath,
    format_json,
    parse_fields,
    print_answer,
    remember_path,
)
from serve.text import add_path_to_commands


def grep_command(  # noqa: PLR0913 - one parameter per option
    pattern: Annotated[
        str, typer.Argument(metavar="PATTERN", help="Text to look for, in one line. Case matters.")
    ],
    path: RepositoryPath = Path(),
    *,
    added: Annotated[bool, typer.Option("--added", help="Only changes that add the text.")] = False,
    removed: Annotated[bool, typer.Option("--removed", help="Only changes that remove the text.")] = False,
    regex: Annotated[
        bool,
        typer.Option(
            "--regex", help="PATTERN is an RE2 regular expression that changed lines match, like git log -G."
        ),
    ] = False,
    path_filter: PathFilterOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    author: AuthorOption = None,
    commit_range: RangeOption = None,
    oldest: Annotated[bool, typer.Option("--oldest", help="Oldest commits first.")] = False,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="Number of commits to show.")] = 20,
    compact: Annotated[
        bool, typer.Option("--compact", help="Omit the matching lines, and show three files of each commit.")
    ] = False,
    fields: FieldsOption = None,
    as_json: FormatOption = None,
) -> None:
    """List all commits whose change adds or removes a text.

    Binary files and files that the index ignores (lock files, vendored and generated files) are neither searched nor
    counted.
    """
    from serve.cli import render_changes
    from serve.commit_types import ChangeSearchRequest
    from serve.excerpts import reduce_search_answer
    from serve.search.exact_search import search_changes

    field_names, as_json = parse_fields(fields, as_json)
    request = ChangeSearchRequest(
        pattern,
        is_regex=regex,
        only_added=added,
        only_removed=removed,
        oldest_first=oldest,
        limit=limit,
        path=path_filter,
        since=since,
        until=until,
        author=author,
        commit_range=commit_range,
    )
    answer = search_changes(request, path, config.load_settings().home)
    answer = answer.rewrite_commands(add_path_to_commands)
    if compact:
        answer = reduce_search_answer(answer)
    print_answer(
        partial(format_json, answer.to_json_dict(field_names)),
        partial(render_changes.print_grep_answer, answer, compact=compact),
        as_json=as_json,
    )


def log_command(
    commit_range: Annotated[
        str,
        typer.Argument(
            metavar="RANGE", help="Commits as for git log: `v1.2..v1.3`, `main..topic`, `^main topic`."
        ),
    ],
    path: RepositoryPath = Path(),
    *,
    limit: Annotated[
        int,
        typer.Option(
            "--limit", metavar="N", help="Number of release notes, and of commits of each kind, to list."
        ),
    ] = 50,
    as_json: FormatOption = None,
) -> None:
    """Summarize a range of commits by directory and kind, with candidates for release notes. Needs no index.

    The kind of a commit is its type of Conventional Commits (`feat:`, `fix(scope)!:`). If it has none, the first of
    these rules that applies decides: (1) It is a revert. (2) It changes only tests, only documentation, or only build
    files and the like. (3) Its subject begins with words such as Add, Fix, Remove, Rename or Bump. (4) It closes an
    issue, so it is a fix.

    Release notes are features, fixes, performance improvements, removals, reverts and breaking changes of program
    files. A merged pull request is one note. A commit and its revert are left out.
    """
    from serve.analysis.range_summary import summarize_range
    from serve.cli import render_changes

    answer = summarize_range(commit_range, path, config.load_settings().home, limit=limit)
    answer = answer.rewrite_commands(add_path_to_commands)
    print_answer(
        partial(format_json, answer.to_json_dict()),
        partial(render_changes.print_log_answer, answer),
        as_json=as_json,
    )


def trace_command(
    symbol: Annotated[
        str,
        typer.Argument(
            metavar="SYMBOL",
            help="Name of a function, method or class: `run`, `Flask.run` or `src/flask/app.py:Flask.run`.",
        ),
    ],
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH",
            help="The repository, any directory inside it, or the file that has the symbol.",
            callback=remember_path,
        ),
    ] = Path(),
    *,
    oldest: Annotated[bool, typer.Option("--oldest", help="Oldest changes first.")] = False,
    limit: Annotated[
        int,
        typer.Option(
            "--limit",
            metavar="N",
            help="Number of changes to show. If there are more, those that only modify the code are left out first.",
        ),
    ] = 20,
    fields: FieldsOption = None,
    as_json: FormatOption = None,
) -> None:
    """Show when a symbol was introduced, changed, moved, renamed and removed. It need not exist any more."""
    from serve.cli import render_changes
    from serve.commit_types import TraceRequest
    from serve.trace.trace_symbol import trace_symbol

    field_names, as_json = parse_fields(fields, as_json)
    request = TraceRequest(symbol, limit=limit, oldest_first=oldest)
    answer = trace_symbol(request, path, config.load_settings().home)
    answer = answer.rewrite_commands(add_path_to_commands)
    print_answer(
        partial(format_json, answer.to_json_dict(field_names)),
        partial(render_changes.print_trace_answer, answer),
        as_json=as_json,
    )


def related_command(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="File or directory, looked up from the repository root, then from the working directory.",
        ),
    ],
    path: RepositoryPath = Path(),
    *,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", help="Number of files, owners and hot spots to show.")
    ] = 10,
    compact: Annotated[
        bool,
        typer.Option(
            "--compact",
            help="Show at most three files, owners and hot spots each. On a terminal, omit their commits.",
        ),
    ] = False,
    fields: FieldsOption = None,
    as_json: FormatOption = None,
) -> None:
    """Show the files that change together with a file, its owners and its hot spots."""
    from serve.analysis.related_files import find_related_files
    from serve.cli import render_changes
    from serve.related_types import RelatedRequest

    field_names, as_json = parse_fields(fields, as_json)
    request = RelatedRequest(file, limit)
    answer = find_related_files(request, path, config.load_settings().home, Path.cwd())
    answer = answer.rewrite_commands(add_path_to_commands)
    if compact:
        answer = answer.reduce()
    print_answer(
        partial(format_json, answer.to_json_dict(field_names)),
        partial(render_changes.print_related_answer, answer, compact=compact),
        as_json=as_json,
    )


def show_command(
    commit: Annotated[
        str,
        typer.Argument(
            metavar="COMMIT", help="SHA, branch, tag or `HEAD~2`; `COMMIT:FILE` shows the file as it was."
        ),
    ],
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="Show this file's diff.", show_default=False)
    ] = None,
    *,
    lines: Annotated[
        str | None,
        typer.Option(
            metavar="START:END",
            help="Show these lines of the file as it was. `:42` and `10:` leave an end open.",
        ),
    ] = None,
    repository: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="The repository: any path inside it, or the name of its index.  [default: .]"
        ),
    ] = None,
    as_json: FormatOption = None,
) -> None:
    """Show a commit with its files, a file's diff in it, or a file as it was."""
    from serve.cli import render_changes
    from serve.commit_types import ShowRequest
    from serve.explain.show_commit import show_commit
    from serve.repositories import resolve_repository_path

    cwd = Path.cwd()
    home = config.load_settings().home
    path = remember_path(resolve_repository_path(home, repository, cwd)) if repository else cwd
    answer = show_commit(ShowRequest(commit, file, lines), path, cwd, home)
    print_answer(
        partial(format_json, answer.to_json_dict()),
        partial(render_changes.print_show_answer, answer),
        as_json=as_json,
    )
