"""The `mindmap` command: parse, call, print.

Nothing heavy is imported here: each command brings in what it needs when it runs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from serve import config
from serve.cli import register
from serve.cli.terminal import application, run, version_option, warn, write
from serve.text import visible
from serve.viewer.cli import viewer_command

if TYPE_CHECKING:
    from mindmap.document import Mindmap


class Format(StrEnum):
    """What a map can be exported as."""

    MARKDOWN = "markdown"
    MERMAID = "mermaid"
    JSON = "json"


app = application("Live maps of what coding agents plan, think and touch.")

MindmapId = Annotated[
    str | None,
    typer.Argument(metavar="ID", help="The map's id. [the one changed last]", show_default=False),
]


@app.callback()
def mindmap(
    version: Annotated[bool, version_option("mindmap")] = False,
) -> None:
    """Live maps of what coding agents plan, think and touch."""


@app.command("mcp")
def mcp_command() -> None:
    """Serve maps to a coding agent over MCP.

    Speaks on standard input and output.
    """
    from serve.mcp.mindmap_server import serve

    serve(config.read())


app.command("viewer")(viewer_command)


@app.command("list")
def list_command(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORDS", help="Only maps that have these words.", show_default=False),
    ] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the maps, the one changed last on top."""
    import msgspec

    from mindmap.map_store import Maps
    from mindmap.tree import has_words
    from serve.cli import render_mindmap

    query = " ".join(words or ())
    listed = Maps(config.read().maps).listed(lambda document: has_words(document, query))
    for problem in listed.problems:
        warn(problem)
    summaries = listed.summaries
    write(msgspec.json.encode(summaries).decode() if as_json else render_mindmap.listed(summaries, query))


@app.command("show")
def show_command(
    mindmap_id: MindmapId = None,
    *,
    node: Annotated[str, typer.Option(help="Only what is under this node.")] = "root",
    depth: Annotated[
        int | None, typer.Option(min=0, help="Levels to show. [all]", show_default=False)
    ] = None,
) -> None:
    """Show a map as a tree, with its progress."""
    from rich.console import Console

    from mindmap.tree import find
    from serve.cli import render_mindmap

    document = _chosen(mindmap_id)
    find(document, node)
    render_mindmap.show(document, Console(highlight=False), node, depth)


@app.command("export")
def export_command(
    mindmap_id: MindmapId = None,
    *,
    form: Annotated[Format, typer.Option("--format", "-f", help="What to make of it.")] = Format.MARKDOWN,
) -> None:
    """Print a map for other programs."""
    from mindmap.export import FORMATS

    text = FORMATS[form](_chosen(mindmap_id)).rstrip("\n")
    write(visible(text) if sys.stdout.isatty() else text)


def _server() -> register.Program:
    environment = {"MINDMAP_DATA_DIR": config.said_maps()}
    return register.Program("mindmap", config.DISTRIBUTION, environment, ("mcp",))


app.command("register")(register.command("mindmap", _server))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    return run(app, "mindmap", arguments)


def _chosen(mindmap_id: str | None) -> Mindmap:
    from mindmap.map_store import Maps

    maps = Maps(config.read().maps)
    return maps.latest() if mindmap_id is None else maps.read(mindmap_id)


if __name__ == "__main__":
    sys.exit(main())
