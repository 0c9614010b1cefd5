"""The `lineage` command: parse, call, print.

Nothing heavy is imported here: each command brings in what it needs when it runs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from pipeline.options import EmbedCache, Encoding
from serve import config
from serve.cli import query, register
from serve.cli.exit_codes import FAILED
from serve.cli.options import EmbedProvider, Resources
from serve.cli.terminal import RepositoryPath, application, note, run, say, version_option
from serve.cli.terminal import write as _write
from serve.daemon import cli as daemon
from serve.errors import BadRequest

DESCRIPTION: Final = (
    "Ask a git repository's history how something was done before, and why code looks as it does, offline."
)

app = application(DESCRIPTION)


@app.callback()
def lineage(
    version: Annotated[bool, version_option("lineage")] = False,
) -> None:
    """Ask a git repository's history how something was done before, and why code looks as it does, offline."""


@app.command("index")
def index_command(  # noqa: PLR0913 - one parameter for each option a person may give
    path: RepositoryPath = Path(),
    *,
    interactive: Annotated[
        bool,
        typer.Option("--interactive", "-i", help="Ask for everything, show the command, then run it."),
    ] = False,
    incremental: Annotated[
        bool, typer.Option("--incremental", help="Do nothing when the index is at HEAD.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Extract HEAD symbols anew; wins over --incremental.")
    ] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Delete the whole index and make it anew; needs --yes.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Confirm --rebuild.")] = False,
    commit_batch: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Commits per transaction, and at most lost by a kill. [from --resources]"
        ),
    ] = None,
    embed_batch: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Texts embedded at a time. [all of a transaction's]"),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Encoder threads; 0: the runtime decides. [from --resources]"),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Processes that read commits; 1: none but this. [all CPUs]"),
    ] = None,
    embed_cache: Annotated[
        EmbedCache | None,
        typer.Option(
            help="Keep vectors for a rebuild: found by message and diff, or by the diff, which alone is embedded then. "
            "[as the index has it, off at first]"
        ),
    ] = None,
    encoder: Annotated[
        Encoding | None,
        typer.Option(
            help="What makes vectors: a sentence encoder, or a table of words, which takes a fraction of the time and "
            "finds less; another than the index has takes a rebuild. [as the index has it, minilm at first]"
        ),
    ] = None,
    resources: Annotated[Resources, typer.Option(help="How much of the machine to take.")] = Resources.AUTO,
    embed_provider: Annotated[
        EmbedProvider,
        typer.Option(help="What runs the encoder; auto: cuda where CUDA_VISIBLE_DEVICES is set."),
    ] = EmbedProvider.AUTO,
    no_progress: Annotated[
        bool, typer.Option("--no-progress", help="No progress bar, on a terminal neither.")
    ] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="Print the timings as a line of JSON at the end.")
    ] = False,
) -> None:
    """Index the history, from where the last run ended up to HEAD."""
    from serve.cli.index import index
    from serve.cli.options import Flags

    flags = Flags(
        incremental=incremental,
        force=force,
        rebuild=rebuild,
        yes=yes,
        commit_batch=commit_batch,
        embed_batch=embed_batch,
        threads=threads,
        workers=workers,
        resources=resources,
        provider=embed_provider,
        embed_cache=embed_cache,
        encoder=encoder,
        progress=not no_progress,
        profile=profile,
    )
    if not interactive:
        index(path, flags)
        return
    from serve.cli.wizard import guided

    guided(path, flags)


# Words of a question that nobody quoted are taken, to say how it is asked.
app.command("query", context_settings={"allow_extra_args": True})(query.query_command)
app.command("explain")(query.explain_command)


@app.command("status")
def status_command(path: RepositoryPath = Path()) -> None:
    """Say what is indexed, and how far behind HEAD the index is."""
    from serve import index_status
    from serve.cli import render

    place, stands = index_status.of_path(path, config.read().home)
    say(render.status_lines(place, stands))


@app.command("plan")
def plan_command(
    path: RepositoryPath = Path(),
    *,
    write: Annotated[
        bool,
        typer.Option(
            "--write", help="Put the patterns into a part of .lineageignore; your own lines stay, below it."
        ),
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="With --write: overwrite the whole .lineageignore.")
    ] = False,
) -> None:
    """Suggest what to leave out of the index, after a survey.

    Shows each directory's share of the history.
    """
    from serve.setup.plan import Wishes, planned

    say("\n".join(planned(path, Wishes(write, replace))))


@app.command("init")
def init_command(
    path: RepositoryPath = Path(),
    *,
    write_agent_md: Annotated[
        bool,
        typer.Option(
            "--write-agent-md",
            help="Tell agents about it too: in AGENTS.md, or in CLAUDE.md, GEMINI.md or AGENT.md where one is there.",
        ),
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Put our own in the place of a post-commit hook that lacks our part."),
    ] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Take everything out again.")] = False,
) -> None:
    """Let git's hooks keep the index up to date, in the background."""
    from serve.setup.init import Wishes, initialize

    wishes = Wishes(write_agent_md=write_agent_md, force=force, remove=remove)
    say("\n".join(initialize(path, wishes)))


@app.command("doctor")
def doctor_command(path: RepositoryPath = Path(), *, as_json: daemon.AsJson = False) -> None:
    """Check everything lineage stands on.

    Says what to do where something is wrong, and changes nothing.
    """
    from serve.maintenance import doctor
    from serve.maintenance.doctor import examine

    found = examine(path, config.read())
    if as_json:
        findings = list(found)
        _write(doctor.as_json(findings))
    else:
        findings = doctor.told(found)
    if doctor.is_ill(findings):
        raise typer.Exit(FAILED)


@app.command("gc")
def gc_command(
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Delete what is listed, without a question.")] = False,
    absent: Annotated[
        bool,
        typer.Option(
            "--absent", help="With --yes: indexes of repositories, too, whose disk may be unmounted."
        ),
    ] = False,
) -> None:
    """Show, and delete when told to, what nobody needs any more.

    Looks through all indexes.
    """
    from serve.maintenance.gc import collect, on_terminal

    if absent and not yes:
        raise BadRequest(
            "--absent adds to --yes, which was not given.", hint="Run `lineage gc --yes --absent`."
        )
    ask = typer.confirm if on_terminal() else None
    collect(config.read().home, yes=yes, absent=absent, ask=ask)


def _server() -> register.Program:
    return register.Program("lineage-mcp", config.DISTRIBUTION, {"LINEAGE_HOME": config.said_home()})


app.command("register")(register.command("lineage", _server))


@app.command("update")
def update_command(
    *,
    check: Annotated[
        bool,
        typer.Option("--check", help="Only say; exit code 2 when an update is available, 0 when none is."),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Go back to an older version, or install the same again.")
    ] = False,
    prerelease: Annotated[bool, typer.Option("--prerelease", help="Take pre-releases too.")] = False,
) -> None:
    """Update what install.sh installed, from the same source."""
    from serve.update.installers import Wishes, update

    outcome = update(Wishes(check, force, prerelease), note)
    say(outcome.text)
    raise typer.Exit(outcome.code)


# Last in the help: the daemon starts and ends by itself.
app.command("serve")(daemon.serve_command)
app.add_typer(daemon.app, name="daemon", help="The shared daemon: is it running, what does it hold, end it.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; errors become text and an exit code here and nowhere else."""
    config.calm_libraries()
    return run(app, "lineage", arguments)


if __name__ == "__main__":
    sys.exit(main())
