"""`lineage serve` and `lineage daemon`, as a person calls them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from serve import config
from serve.cli.terminal import say

if TYPE_CHECKING:
    from serve.daemon.client import Remote
    from serve.daemon.protocol import Report

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
NONE: str = "No daemon is running; the next question starts one."


def serve_command(
    *,
    unload_after: Annotated[
        float | None,
        typer.Option(min=0, metavar="SECONDS", help="Unload models when idle for so long; 0: never. [600]"),
    ] = None,
    leave_after: Annotated[
        float | None,
        typer.Option(min=0, metavar="SECONDS", help="End when idle for so long; 0: never. [3600]"),
    ] = None,
) -> None:
    """Run the shared daemon.

    `query`, `explain` and the MCP tools start it by themselves.
    """
    from serve import logs
    from serve.daemon.process import Address
    from serve.daemon.server import LEAVE_SECONDS, UNLOAD_SECONDS, Life, serve

    said = config.read()
    logs.configure(said.log)
    unload = UNLOAD_SECONDS if unload_after is None else unload_after
    leave = LEAVE_SECONDS if leave_after is None else leave_after
    serve(Address(said.home), Life(unload, leave))


@app.command("status")
def status_command(*, as_json: AsJson = False) -> None:
    """Say whether the daemon runs, since when, and what it has loaded."""
    report = _remote().report()
    if as_json:
        typer.echo(_json({"running": False} if report is None else {"running": True, **_fields(report)}))
    else:
        typer.echo(NONE if report is None else "\n".join(_status(report)))


@app.command("list")
def list_command(*, as_json: AsJson = False) -> None:
    """List the repositories whose indexes the daemon keeps at hand."""
    report = _remote().report()
    holdings = report.holdings if report else ()
    if as_json:
        typer.echo(_json([_fields(holding) for holding in holdings]))
        return
    for holding in holdings:
        size = f"{holding.hunks:,} hunks, {_megabytes(holding.bytes)}"
        say(f"{holding.path}  ({size}, asked {_ago(holding.idle_seconds)} ago)")
    if not holdings:
        typer.echo(NONE if report is None else "The daemon keeps no index at hand.")


@app.command("stop")
def stop_command() -> None:
    """Have the daemon answer what it was asked, and end."""
    typer.echo("The daemon has ended." if _remote().stop() else "No daemon is running.")


def _remote() -> Remote:
    from serve.daemon.client import Remote
    from serve.daemon.process import Address

    return Remote(Address(config.read().home))


def _status(report: Report) -> Iterator[str]:
    yield f"running: process {report.pid}, for {_ago(report.uptime_seconds)}"
    yield f"version: {report.version} ({report.build})"
    yield f"socket: {report.socket}"
    yield f"answered: {report.answered} questions, the last {_ago(report.idle_seconds)} ago"
    yield f"memory: {_megabytes(report.resident_bytes) if report.resident_bytes else 'not known'}"
    yield f"models: {', '.join(report.models) or 'none loaded'}"
    yield f"indexes at hand: {len(report.holdings)}"


def _ago(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6_000 else f"{seconds / 3600:.0f} h"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.0f} MB"


def _json(value: Any) -> str:
    return json.dumps(value, indent=2)


def _fields(value: Any) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(value)
