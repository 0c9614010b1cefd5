"""Commands of the `lineage` program.

Each command imports what it needs when it runs, so that help and other commands start quickly.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from pipeline.options import ALL_BRANCHES, EmbedCacheMode, EmbedProvider, EncoderName, Resources, VectorIndex
from serve import config
from serve.cli import changes, query, register, sql
from serve.cli.terminal import (
    FAILED,
    JsonOption,
    RepositoryPath,
    RepositoryPaths,
    create_app,
    create_version_option,
    print_note,
    print_raw,
    print_text,
    run_app,
)
from serve.daemon import cli as daemon
from serve.errors import BadRequest

DESCRIPTION: Final = (
    "Search a git repository's history for similar changes, and explain code by its commits. Works offline."
)

app = create_app(DESCRIPTION)


@app.callback()
def lineage(
    version: Annotated[bool, create_version_option("lineage")] = False,
) -> None:
    """Declare the options of the program itself."""


@app.command("index")
def index_command(  # noqa: PLR0913 - one parameter per option
    paths: RepositoryPaths = None,
    *,
    recursive: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Index every repository below this directory, too. Hidden directories, symbolic links, submodules "
            "and linked work trees are left out.",
        ),
    ] = None,
    interactive: Annotated[
        bool,
        typer.Option("--interactive", "-i", help="Ask for the options, show the command, then run it."),
    ] = False,
    incremental: Annotated[
        bool,
        typer.Option(
            "--incremental",
            help="Do nothing if the index is at HEAD. Wait for a running index run instead of failing.",
        ),
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Extract again all symbols at HEAD, and the symbols and words that an older version extracted from "
            "the history. Overrides --incremental.",
        ),
    ] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Delete the index and build a new one. Requires --yes.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Confirm --rebuild.")] = False,
    commit_batch: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Commits per transaction. After a kill, the next run continues after the last transaction. "
            "[default: from --resources]",
        ),
    ] = None,
    embed_batch: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Texts per encoder call. [default: 16; with a GPU 512, enough for all texts of a transaction]",
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="Encoder threads. 0: one for each CPU. [default: from --resources]"
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Processes that read commits. 1: only this process. [default: number of CPUs]",
        ),
    ] = None,
    embed_cache: Annotated[
        EmbedCacheMode | None,
        typer.Option(
            help="Keep vectors and reuse them in a rebuild. `semantic`: reuse if message and diff are equal. `diff`: "
            "embed only the diff, without the message; reuse if it is equal. [default: the index's setting, or off]"
        ),
    ] = None,
    encoder: Annotated[
        EncoderName | None,
        typer.Option(
            help="Embedding model. `minilm`: sentence encoder. `static`: word table, several times faster, lower "
            "recall. Changing it requires --rebuild. [default: the index's encoder, or minilm]"
        ),
    ] = None,
    skip_vectors: Annotated[
        bool,
        typer.Option(
            "--skip-vectors",
            help="Stop before embedding. Queries search by words until a later run adds the vectors.",
        ),
    ] = False,
    vector_index: Annotated[
        VectorIndex | None,
        typer.Option(
            help="`hnsw`: also build an HNSW index, which queries without filters use. `none`: delete it. "
            "Without an HNSW index, queries scan all vectors, which is faster in all but huge indexes. [default: the "
            "index's setting, or none]"
        ),
    ] = None,
    branch: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Also index branches and tags besides HEAD, in this run and later ones: `topic`, `topic/*`, `origin`, "
            "`v1.*`, `refs/pull`. A glob as in git for-each-ref, or the leading part of a name up to a slash. Can be "
            "repeated.",
        ),
    ] = None,
    all_branches: Annotated[
        bool,
        typer.Option(
            "--all-branches", help="Also index all local and remote-tracking branches, from now on."
        ),
    ] = False,
    head_only: Annotated[
        bool, typer.Option("--head-only", help="Index only HEAD, from now on. Indexed branches stay.")
    ] = False,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Dask scheduler whose workers embed, such as tcp://host:8786. Texts leave this machine.",
        ),
    ] = None,
    resources: Annotated[Resources, typer.Option(help="Share of the machine to use.")] = Resources.AUTO,
    embed_provider: Annotated[
        EmbedProvider,
        typer.Option(
            help="Hardware that runs the encoder. `auto`: cuda if CUDA_VISIBLE_DEVICES names a device, else coreml if "
            "the installation has it, else cpu."
        ),
    ] = EmbedProvider.AUTO,
    no_progress: Annotated[bool, typer.Option("--no-progress", help="Do not show a progress bar.")] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="Print the timings as a JSON line at the end.")
    ] = False,
) -> None:
    """Index the history of repositories up to HEAD, from where the last run ended."""
    from serve.cli.index import IndexOptions, run_index_command

    patterns = [*ALL_BRANCHES, *(branch or ())] if all_branches else branch or ()
    options = IndexOptions(
        incremental=incremental,
        force=force,
        rebuild=rebuild,
        yes=yes,
        commit_batch=commit_batch,
        embed_batch=embed_batch,
        threads=threads,
        workers=workers,
        resources=resources,
        embed_provider=embed_provider,
        embed_cache=embed_cache,
        encoder=encoder,
        skip_vectors=skip_vectors,
        vector_index=vector_index,
        scheduler=scheduler,
        branch_patterns=tuple(patterns),
        head_only=head_only,
        show_progress=not no_progress,
        profile=profile,
    )
    repository_paths = paths or ([] if recursive else [Path()])
    is_single_repository = recursive is None and len(repository_paths) == 1
    if interactive and not is_single_repository:
        raise BadRequest("-i asks about one repository.", hint="Give one PATH, without --recursive.")
    if interactive:
        from serve.cli.wizard import run_wizard

        run_wizard(repository_paths[0], options)
    elif is_single_repository:
        run_index_command(repository_paths[0], options)
    else:
        from serve.cli.index_many import run_index_many_command

        run_index_many_command(repository_paths, recursive, options)


# `query` accepts extra arguments, because its text need not be quoted.
app.command("query", context_settings={"allow_extra_args": True})(query.query_command)
app.command("explain")(query.explain_command)
app.command("grep")(changes.grep_command)
app.command("log")(changes.log_command)
app.command("trace")(changes.trace_command)
app.command("related")(changes.related_command)
app.command("show")(changes.show_command)
app.command("sql")(sql.sql_command)


@app.command("status")
def status_command(
    path: RepositoryPath = Path(),
    *,
    show_all: Annotated[
        bool, typer.Option("--all", help="Show a table of all indexes, instead of PATH.")
    ] = False,
) -> None:
    """Show what is indexed, and how far the index is behind HEAD."""
    if show_all:
        from serve.cli.render import format_status_table

        if path != Path():
            raise BadRequest("PATH conflicts with --all.", hint="Use one of them.")
        print_text(format_status_table(config.load_settings().home))
        return
    from serve import index_status
    from serve.cli import render

    location, status = index_status.load_status_at_path(path, config.load_settings().home)
    print_text(render.format_status(location, status))


@app.command("plan")
def plan_command(
    path: RepositoryPath = Path(),
    *,
    write: Annotated[
        bool,
        typer.Option(
            "--write",
            help="Write the patterns into a section of .lineageignore. Your own lines stay, below this section.",
        ),
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="With --write: overwrite the whole .lineageignore.")
    ] = False,
) -> None:
    """Suggest paths to exclude from the index.

    Also shows each directory's share of the history.
    """
    from serve.setup.plan import PlanOptions, run_plan

    print_text("\n".join(run_plan(path, PlanOptions(write, replace))))


@app.command("init")
def init_command(
    path: RepositoryPath = Path(),
    *,
    write_agent_md: Annotated[
        bool,
        typer.Option(
            "--write-agent-md",
            help="Also add instructions for coding agents to AGENTS.md, or to an existing CLAUDE.md, GEMINI.md or "
            "AGENT.md.",
        ),
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Replace a post-commit hook that cannot be extended, and keep a copy of it."
        ),
    ] = False,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove everything that this command added.")
    ] = False,
) -> None:
    """Install git hooks that keep the index up to date in the background."""
    from serve.setup.init import InitOptions, initialize

    options = InitOptions(write_agent_md=write_agent_md, force=force, remove=remove)
    print_text("\n".join(initialize(path, options)))


@app.command("doctor")
def doctor_command(path: RepositoryPath = Path(), *, as_json: JsonOption = False) -> None:
    """Check the installation and the index of this repository.

    Says what to do about each problem, and changes nothing.
    """
    from serve.maintenance import doctor

    checks = doctor.run_checks(path, config.load_settings())
    if as_json:
        results = list(checks)
        print_raw(doctor.format_json(results))
    else:
        results = doctor.print_results(checks)
    if doctor.has_problem(results):
        raise typer.Exit(FAILED)


@app.command("gc")
def gc_command(
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Delete what is listed, without asking.")] = False,
    absent: Annotated[
        bool,
        typer.Option(
            "--absent", help="With --yes: also delete indexes of repositories whose disk may be unmounted."
        ),
    ] = False,
) -> None:
    """List data that is no longer needed, in all indexes, and delete it if confirmed."""
    from serve.maintenance.gc import collect_garbage, is_interactive

    if absent and not yes:
        raise BadRequest("--absent requires --yes.", hint="Run `lineage gc --yes --absent`.")
    confirm = typer.confirm if is_interactive() else None
    collect_garbage(config.load_settings().home, yes=yes, include_uncertain=absent, confirm=confirm)


def _build_server_program() -> register.ServerProgram:
    return register.ServerProgram(
        "lineage-mcp",
        config.DISTRIBUTION,
        {"LINEAGE_HOME": config.get_home_variable()},
        takes_directory=True,
    )


app.command("register")(register.create_register_command("lineage", _build_server_program))


@app.command("update")
def update_command(
    *,
    check: Annotated[
        bool,
        typer.Option("--check", help="Only report: exit code 2 if an update is available, else 0."),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Install even if the version is older, or the same.")
    ] = False,
    prerelease: Annotated[bool, typer.Option("--prerelease", help="Also accept pre-releases.")] = False,
) -> None:
    """Update an installation made by install.sh, from the same source."""
    from serve.update.installers import UpdateOptions, update

    result = update(UpdateOptions(check, force, prerelease), print_note)
    print_text(result.message)
    raise typer.Exit(result.exit_code)


# These commands are last in the help, because users need them rarely: the daemon starts and exits by itself.
app.command("serve")(daemon.serve_command)
app.add_typer(daemon.app, name="daemon", help="Show or stop the shared daemon.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the `lineage` program and return its exit code."""
    config.configure_libraries()
    return run_app(app, "lineage", arguments)


if __name__ == "__main__":
    sys.exit(main())
