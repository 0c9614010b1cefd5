"""Commands `lineage serve` and `lineage daemon status|list|stop`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from serve import config
from serve.cli.terminal import JsonOption, format_json, print_raw, print_text
from serve.text import format_count

if TYPE_CHECKING:
    from serve.daemon.client import DaemonClient
    from serve.daemon.protocol import StatusReport

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

NOT_RUNNING: Final = "No daemon is running. The next query starts one."


def serve_command(
    *,
    unload_after: Annotated[
        float | None,
        typer.Option(
            min=0, metavar="SECONDS", help="Unload the models after this idle time. 0: never. [default: 600]"
        ),
    ] = None,
    leave_after: Annotated[
        float | None,
        typer.Option(min=0, metavar="SECONDS", help="Exit after this idle time. 0: never. [default: 3600]"),
    ] = None,
) -> None:
    """Run the shared daemon in the foreground.

    `query`, `explain` and the MCP tools start it automatically.
    """
    from serve.daemon.server import EXIT_AFTER_SECONDS, UNLOAD_AFTER_SECONDS, DaemonState, serve

    state = DaemonState(
        unload_after=UNLOAD_AFTER_SECONDS if unload_after is None else unload_after,
        exit_after=EXIT_AFTER_SECONDS if leave_after is None else leave_after,
    )
    serve(state)


@app.command("status")
def status_command(*, as_json: JsonOption = False) -> None:
    """Show whether the daemon is running, for how long, and what it has loaded."""
    report = _create_client().fetch_status()
    if as_json:
        fields = {"running": False} if report is None else {"running": True, **asdict(report)}
        print_raw(format_json(fields, indent=2))
    else:
        typer.echo(NOT_RUNNING if report is None else "\n".join(_format_status(report)))


@app.command("list")
def list_command(*, as_json: JsonOption = False) -> None:
    """List the repositories whose indexes the daemon has loaded."""
    report = _create_client().fetch_status()
    indexes = report.holdings if report else ()
    if as_json:
        print_raw(format_json([asdict(index) for index in indexes], indent=2))
        return
    for index in indexes:
        size = f"{format_count(index.hunks, 'hunk')}, {_format_megabytes(index.bytes)}"
        print_text(f"{index.path}  ({size}, last used {_format_duration(index.idle_seconds)} ago)")
    if not indexes:
        typer.echo(NOT_RUNNING if report is None else "The daemon has no index loaded.")


@app.command("stop")
def stop_command() -> None:
    """Stop the daemon after it has answered the requests it is working on."""
    typer.echo("The daemon has stopped." if _create_client().stop() else "No daemon is running.")


def _create_client() -> DaemonClient:
    from serve.daemon.client import DaemonClient
    from serve.daemon.process import DaemonPaths

    return DaemonClient(DaemonPaths(config.load_settings().home))


def _format_status(report: StatusReport) -> Iterator[str]:
    yield f"running: process {report.pid}, for {_format_duration(report.uptime_seconds)}"
    yield f"version: {report.version} ({report.build})"
    yield f"socket: {report.socket}"
    yield f"answered: {format_count(report.answered, 'request')}, idle for {_format_duration(report.idle_seconds)}"
    yield f"MCP sessions: {report.sessions}"
    yield f"memory: {_format_megabytes(report.resident_bytes) if report.resident_bytes else 'unknown'}"
    yield f"models: {', '.join(report.models) or 'none loaded'}"
    yield f"loaded indexes: {len(report.holdings)}"


def _format_duration(seconds: float) -> str:
    """Format a duration in seconds below 100 s, in minutes below 100 min, or else in hours."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.0f} h"


def _format_megabytes(size: int) -> str:
    return f"{size / 1e6:.0f} MB"
