"""Commands of the `mindmap` program, and their terminal output. A mindmap is called a map for short.

Each command imports what it needs when it runs, so that help and other commands start quickly.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from serve import config
from serve.cli import register
from serve.cli.terminal import (
    JsonOption,
    create_app,
    create_console,
    create_version_option,
    print_raw,
    print_warning,
    run_app,
)
from serve.text import escape_controls, escape_json_controls, escape_line, format_count
from serve.viewer import discovery

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from mindmap.document import Mindmap
    from mindmap.export import OutlineLine
    from mindmap.tree import Progress, Summary


class ExportFormat(StrEnum):
    """Export format of a map."""

    MARKDOWN = "markdown"
    MERMAID = "mermaid"
    JSON = "json"


DESCRIPTION: Final = "Show live maps of what coding agents plan, think and change."

# Format of local times, for `datetime.strftime`.
TIME_FORMAT: Final = "%Y-%m-%d %H:%M"

app = create_app(DESCRIPTION)

MindmapId = Annotated[
    str | None,
    typer.Argument(metavar="ID", help="Id of the map. [default: the latest map]", show_default=False),
]


@app.callback()
def mindmap(
    version: Annotated[bool, create_version_option("mindmap")] = False,
) -> None:
    """Declare the options of the program itself."""


@app.command("mcp")
def mcp_command() -> None:
    """Run the MCP server for a coding agent.

    Communicates over standard input and output.
    """
    from serve.mcp.relay import serve_mindmap

    serve_mindmap()


@app.command("viewer")
def viewer_command(
    *,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65_535,
            help="Port on 127.0.0.1. If it is in use, the next free port is taken; 0 takes any free port. "
            "[default: 4870]",
            show_default=False,
        ),
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Serve a web page that shows the maps and follows their changes, until Ctrl-C. Only this machine can open it."""
    from serve import process
    from serve.backend import select_backend
    from serve.viewer.server import DEFAULT_PORT, bind_port, run_viewer

    settings = config.load_settings()
    process.configure_log(settings.log_level)
    requested_port = DEFAULT_PORT if port is None else port
    listener = bind_port(requested_port)
    address = f"http://{discovery.HOST}:{listener.port}/"
    other_address = discovery.read_address(settings.maps_dir)

    def print_address() -> None:
        if requested_port not in (0, listener.port):
            print_raw(
                f"Port {requested_port} is in use. The viewer uses the next free port, {listener.port}."
            )
        print_raw(f"{address} shows the maps in {settings.maps_dir}. Press Ctrl-C to stop.")
        if other_address:
            print_raw(f"Another viewer already shows them: {other_address}")
        sys.stdout.flush()
        if open_browser:
            # A text browser blocks until the user closes it.
            threading.Thread(target=_open_browser, args=(address,), daemon=True).start()

    run_viewer(settings.maps_dir, listener, select_backend(settings), print_address)


@app.command("list")
def list_command(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="WORDS", help="Only maps that contain all of these words.", show_default=False
        ),
    ] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """List the maps, latest change first."""
    import msgspec

    from mindmap.map_store import MapStore
    from mindmap.tree import matches_words

    query = " ".join(words or ())
    maps = MapStore(config.load_settings().maps_dir).list_maps(
        lambda document: matches_words(document, query)
    )
    for problem in maps.problems:
        print_warning(problem)
    if as_json:
        print_raw(escape_json_controls(msgspec.json.encode(maps.summaries).decode()))
    elif maps.summaries:
        print_raw("\n".join(escape_line(_format_summary(summary)) for summary in maps.summaries))
    elif query:
        print_raw(f"No map contains all of these words: {escape_line(query)}")
    else:
        print_raw("No maps yet. An agent creates one with `create_mindmap`.")


@app.command("show")
def show_command(
    mindmap_id: MindmapId = None,
    *,
    node: Annotated[str, typer.Option(help="Only this node and those below it.")] = "root",
    depth: Annotated[
        int | None, typer.Option(min=0, help="Number of levels to show. [default: all]", show_default=False)
    ] = None,
) -> None:
    """Show a map as a tree, with its progress."""
    from mindmap.tree import get_node

    document = _load_mindmap(mindmap_id)
    get_node(document, node)  # raises an error if there is no such node
    _print_mindmap(document, create_console(), node, depth)


@app.command("export")
def export_command(
    mindmap_id: MindmapId = None,
    *,
    export_format: Annotated[
        ExportFormat, typer.Option("--format", "-f", help="Export format.")
    ] = ExportFormat.MARKDOWN,
) -> None:
    """Export a map for other programs."""
    from mindmap.export import FORMATS

    text = FORMATS[export_format](_load_mindmap(mindmap_id)).rstrip("\n")
    escape = escape_json_controls if export_format is ExportFormat.JSON else escape_controls
    print_raw(escape(text))


def _build_server_program() -> register.ServerProgram:
    environment = {"MINDMAP_DATA_DIR": config.get_maps_dir_variable()}
    return register.ServerProgram("mindmap", config.DISTRIBUTION, environment, ("mcp",))


app.command("register")(register.create_register_command("mindmap", _build_server_program))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the `mindmap` program and return its exit code."""
    return run_app(app, "mindmap", arguments)


def _load_mindmap(mindmap_id: str | None) -> Mindmap:
    from mindmap.map_store import MapStore

    maps = MapStore(config.load_settings().maps_dir)
    return maps.read_latest() if mindmap_id is None else maps.read(mindmap_id)


def _open_browser(address: str) -> None:
    import webbrowser

    if not webbrowser.open(address):
        typer.echo(f"Cannot open a browser. Open {address} yourself.", err=True)


def _format_summary(summary: Summary) -> str:
    """Return the line of a map in the list: id, time of the last change, progress, title, active task, workspace."""
    progress = f"{summary.completed_tasks}/{summary.total_tasks}"
    active_task = f"  now: {_collapse_whitespace(summary.active_task)}" if summary.active_task else ""
    workspace = f"  {summary.workspace_path}" if summary.workspace_path else ""
    return (
        f"{summary.id}  {_format_local_time(summary.updated_at)}  {progress:>7}  "
        f"{_collapse_whitespace(summary.title)}{active_task}{workspace}"
    )


def _format_local_time(timestamp: str) -> str:
    """Convert a timestamp to local time; return it unchanged if its format is unknown."""
    try:
        return datetime.fromisoformat(timestamp).astimezone().strftime(TIME_FORMAT)
    except (ValueError, OverflowError):
        return timestamp


def _print_mindmap(document: Mindmap, console: Console, node_id: str, depth: int | None) -> None:
    """Print a node of a map and `depth` levels below it (None: all), then the progress of the whole map."""
    from rich.text import Text

    from mindmap.export import add_connectors, build_outline
    from mindmap.tree import compute_progress

    for connectors, line in add_connectors(build_outline(document, node_id, max_depth=depth)):
        console.print(Text.assemble(connectors, *_style_line(line)), soft_wrap=True)
    progress = compute_progress(document)
    is_finished = 0 < progress.total == progress.completed
    footer = Text(escape_line(" · ".join(_format_footer(document, progress))))
    console.print()
    console.print(footer, soft_wrap=True, style="green" if is_finished else "")


def _style_line(line: OutlineLine) -> list[tuple[str, str] | Text]:
    """Return the parts of a line of the tree, each with its style. The color of a task shows its status."""
    from mindmap.document import BLOCKED, COMPLETED, IN_PROGRESS

    node = line.node
    if node.is_task:
        style = {COMPLETED: "green", IN_PROGRESS: "bold yellow", BLOCKED: "red"}.get(node.status or "", "")
    else:
        style = "cyan" if line.mark else "bold"  # only the root has no mark, such as `(note)`
    mark = f"{line.mark} " if line.mark else ""
    remarks = f"  {', '.join(line.remarks)}" if line.remarks else ""
    return [
        (f"{mark}{escape_line(line.label)}", style),
        (f"  {escape_line(node.id)}{escape_line(remarks)}", "dim"),
    ]


def _format_footer(document: Mindmap, progress: Progress) -> Iterator[str]:
    """Yield the progress of a map, then its number of blocked tasks, active task and number of links, if any."""
    yield str(progress)
    if progress.blocked:
        yield f"{progress.blocked} blocked"
    if progress.active_task_id:
        yield f"now: {_collapse_whitespace(document.nodes[progress.active_task_id].label)}"
    if document.links:
        yield format_count(len(document.links), "link")


def _collapse_whitespace(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    sys.exit(main())
