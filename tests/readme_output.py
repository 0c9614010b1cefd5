"""Generated parts of the README pages: commands, tools, stages, tables and evaluation results.

`cog -I . -r README.md */README.md tests/*/README.md` updates the pages.
"""

from __future__ import annotations

import ast
import asyncio
import json
import os
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import typer

ROOT = Path(__file__).parent.parent
# Width of help texts on the pages; must be set before a help text is created.
COLUMNS = "80"

# Titles of the rankings on the pages, and their names in the results file.
RANKINGS = {
    "reranked": "reranked",
    "reranked without the cross-encoder": "reranked, nothing read",
    "fusion of three lanes": "fusion",
    "vectors alone, whitened": "vector, whitened",
    "words of hunks alone": "BM25, hunk text",
    "names of symbols alone": "BM25, symbol names",
    "plain BM25": "plain BM25 (baseline)",
    "`git log --grep`": "git log --grep",
}


def lineage_app() -> typer.Typer:
    """Return the typer app of `lineage`."""
    from serve.cli.app import app

    return app


def mindmap_app() -> typer.Typer:
    """Return the typer app of `mindmap`."""
    from serve.cli.mindmap import app

    return app


def commands(app: typer.Typer) -> Iterator[tuple[str, str]]:
    """Yield the name and first help sentence of each command, in the order of the program's help."""
    import typer

    for name, command in typer.main.get_group(app).commands.items():
        yield name, command.get_short_help_str(limit=200)


def command_table(program: str, app: typer.Typer) -> str:
    """Return a table of the commands."""
    rows = [f"| `{program} {name}` | {summary} |" for name, summary in commands(app)]
    return "\n".join(["| command | what it does |", "|---|---|", *rows, ""])


def helps(program: str, app: typer.Typer) -> str:
    """Return the `--help` output of every command."""
    return "\n".join(help_text(program, app, name) for name, _ in commands(app))


def help_text(program: str, app: typer.Typer, command: str) -> str:
    """Return the `--help` output of a command on a plain terminal."""
    os.environ.update(COLUMNS=COLUMNS, TERM="dumb")
    from typer.testing import CliRunner

    output = CliRunner().invoke(app, [command, "--help"], prog_name=program).output.rstrip()
    return f"```console\n$ {program} {command} --help\n{output}\n```\n"


def lineage_tools() -> str:
    """Return the tools of `lineage-mcp` with their descriptions and arguments."""
    from serve.backend import InProcessBackend
    from serve.mcp.lineage_server import create_lineage_server

    listed = asyncio.run(create_lineage_server(InProcessBackend(ROOT), ROOT, ROOT).list_tools())
    return "\n".join(_format_tool(tool.name, tool.description or "", tool.input_schema) for tool in listed)


def _format_tool(name: str, description: str, schema: dict[str, Any]) -> str:
    rows = []
    for argument, property_schema in schema["properties"].items():
        default = "required" if argument in schema.get("required", ()) else _format_default(property_schema)
        cells = (
            f"`{argument}`",
            _format_type(property_schema),
            default,
            property_schema.get("description", ""),
        )
        rows.append(f"| {' | '.join(cells)} |")
    table = "\n".join(["| argument | type | default | meaning |", "|---|---|---|---|", *rows])
    quoted = "\n".join(f"> {line}".rstrip() for line in description.splitlines())
    return f"**`{name}`**\n\n{quoted}\n\n{table}\n"


def _format_type(property_schema: dict[str, Any]) -> str:
    return " or ".join(kind["type"] for kind in property_schema.get("anyOf", [property_schema]))


def _format_default(property_schema: dict[str, Any]) -> str:
    absent_value = False if property_schema.get("type") == "boolean" else None
    return f"`{json.dumps(property_schema.get('default', absent_value))}`"


def mindmap_tools() -> str:
    """Return a table of the tools of `mindmap mcp` with their descriptions."""
    from mindmap.map_store import MapStore
    from mindmap.watcher import Watcher
    from serve.mcp.mindmap_tools import MindmapTools
    from serve.mcp.user_messages import UserMessages

    maps = MapStore(ROOT)
    messages = UserMessages(maps, "", bool)
    tools = MindmapTools(maps, Watcher(maps, lambda _: None), messages).build_tools()
    rows = [f"| `{tool.name}` | {' '.join(tool.description.split())} |" for tool in tools]
    return "\n".join(["| tool | what it tells an agent |", "|---|---|", *rows, ""])


def clients() -> str:
    """Return a table of the clients that `register` knows, and their files on Linux."""
    from serve.setup.mcp_clients import CLIENTS, list_user_config_paths

    homes = {"home": "~", "config": "~/.config", "apps": "~/Library/Application Support", "codex": "~/.codex"}
    rows = ["| client | `--client` | shape | your own file | in a project |", "|---|---|---|---|---|"]
    for client in CLIENTS.values():
        user = [
            f"`{path.format_map(homes)}`"
            for path in list_user_config_paths(client, is_mac=not client.user_paths)
        ]
        project = [f"`{path}`" for path in client.project_paths]
        row = (
            client.title,
            f"`{client.name}`",
            f"`{client.shape.name}`",
            " or ".join(user),
            " or ".join(project),
        )
        rows.append(f"| {' | '.join(row)} |")
    return "\n".join([*rows, ""])


def shapes() -> str:
    """Return the server entry in each configuration format."""
    from serve.setup.mcp_clients import SHAPES, Server
    from serve.setup.register import format_snippet

    server = Server("lineage", Path("/opt/lineage/bin/lineage-mcp"))
    parts = []
    for shape in SHAPES.values():
        snippet = format_snippet(server, shape)
        parts.append(f"`{shape.name}`:\n\n```{shape.config_format.title.lower()}\n{snippet}```\n")
    return "\n".join(parts)


def stages() -> str:
    """Return a table of the stages in the module list of `pipeline/__init__.py`, in their order."""
    docstring = (
        ast.get_docstring(ast.parse((ROOT / "pipeline" / "__init__.py").read_text(encoding="utf-8"))) or ""
    )
    entries = re.findall(r"^- `(\w+)`: (.+)$", docstring.split("Used by the stages")[0], re.MULTILINE)
    rows = [f"| [`{name}`]({name}.py) | {meaning} |" for name, meaning in entries]
    return "\n".join(["| stage | what it does |", "|---|---|", *rows, ""])


def tables() -> str:
    """Return the fields of every database table with their meanings."""
    from stores.schema import TABLES

    parts = []
    for table, schema in TABLES.items():
        fields = [
            f"| `{field.name}` | {field.type}{' or null' if field.nullable else ''} "
            f"| {field.metadata[b'meaning'].decode().replace('|', chr(92) + '|')} |"
            for field in schema
        ]
        parts.append(
            "\n".join([f"**{table}**", "", "| field | type | meaning |", "|---|---|---|", *fields, ""])
        )
    return "\n".join(parts)


def figures(protocol: str, metric: str, histories: Sequence[str]) -> str:
    """Return a table of the latest results: rankings by history, means with 95 % bootstrap intervals."""
    counts = [_load_figures()[protocol, metric, history, "fusion"][3] for history in histories]
    titles = [f"{name}, {n}" for name, n in zip(histories, counts, strict=True)]
    rows = [f"| {metric} | {' | '.join(titles)} |", "|---" * (len(titles) + 1) + "|"]
    for title, system in RANKINGS.items():
        cells = [_load_figures().get((protocol, metric, history, system)) for history in histories]
        if any(cells):
            values = [f"{figure[0]} [{figure[1]}, {figure[2]}]" if figure else "" for figure in cells]
            rows.append(f"| {title} | {' | '.join(values)} |")
    return "\n".join([*rows, ""])


@cache
def _load_figures() -> dict[tuple[str, str, str, str], tuple[str, str, str, int]]:
    """Load the latest results by protocol, metric, history and ranking."""
    import polars as pl

    from tests.eval.results import COLUMNS as RESULT_COLUMNS
    from tests.eval.results import FILE

    return {
        (row["protocol"], row["metric"], row["history"], row["system"]): (
            *(f"{row[number]:.2f}" for number in ("value", "low", "high")),
            row["n"],
        )
        for row in pl.read_csv(FILE, schema=RESULT_COLUMNS).iter_rows(named=True)
    }
