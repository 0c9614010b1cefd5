"""What cog prints into the pages: commands, tools, the line's stages, the tables, figures that were kept.

`cog -I . -r README.md */README.md tests/*/README.md` renews them.
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
# Set before a help text is made: the widest line that a page shows whole.
COLUMNS = "80"

# Rankings as they are called on the pages, and in the file that keeps their figures.
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
    from serve.cli.app import app

    return app


def mindmap_app() -> typer.Typer:
    from serve.cli.mindmap import app

    return app


def commands(app: typer.Typer) -> Iterator[tuple[str, str]]:
    """Each command a person may give, in the order of the program's own help, with its first sentence."""
    import typer

    for name, command in typer.main.get_group(app).commands.items():
        yield name, command.get_short_help_str(limit=200)


def command_table(program: str, app: typer.Typer) -> str:
    rows = [f"| `{program} {name}` | {said} |" for name, said in commands(app)]
    return "\n".join(["| command | what it does |", "|---|---|", *rows, ""])


def helps(program: str, app: typer.Typer) -> str:
    """Every command's `--help`."""
    return "\n".join(help_of(program, app, name) for name, _ in commands(app))


def help_of(program: str, app: typer.Typer, command: str) -> str:
    """A command's `--help`, as a plain terminal shows it."""
    os.environ.update(COLUMNS=COLUMNS, TERM="dumb")
    from typer.testing import CliRunner

    shown = CliRunner().invoke(app, [command, "--help"], prog_name=program).output.rstrip()
    return f"```console\n$ {program} {command} --help\n{shown}\n```\n"


def lineage_tools() -> str:
    """The tools of `lineage-mcp` with their arguments, each with what it tells an agent."""
    from serve.backend import Own
    from serve.mcp.lineage_server import lineage_server

    listed = asyncio.run(lineage_server(Own(ROOT), ROOT).list_tools())
    return "\n".join(_tool(tool.name, tool.description or "", tool.input_schema) for tool in listed)


def _tool(name: str, description: str, schema: dict[str, Any]) -> str:
    rows = [
        f"| `{argument}` | {_type(said)} | {_default(said) if argument not in schema['required'] else 'required'} "
        f"| {said['description']} |"
        for argument, said in schema["properties"].items()
    ]
    table = "\n".join(["| argument | type | default | meaning |", "|---|---|---|---|", *rows])
    told = "\n".join(f"> {line}".rstrip() for line in description.splitlines())
    return f"**`{name}`**\n\n{told}\n\n{table}\n"


def _type(said: dict[str, Any]) -> str:
    return " or ".join(kind["type"] for kind in said.get("anyOf", [said]))


def _default(said: dict[str, Any]) -> str:
    return f"`{json.dumps(said.get('default'))}`"


def mindmap_tools() -> str:
    """The tools of `mindmap mcp`, each with what it tells an agent."""
    from mindmap.map_store import Maps
    from mindmap.watcher import Watcher
    from serve.mcp.mindmap_tools import Tools

    maps = Maps(ROOT)
    tools = Tools(maps, Watcher(maps, lambda _: None)).all()
    rows = [f"| `{tool.name}` | {' '.join(tool.description.split())} |" for tool in tools]
    return "\n".join(["| tool | what it tells an agent |", "|---|---|", *rows, ""])


def clients() -> str:
    """The clients that `register` knows, and their files on Linux."""
    from serve.setup.mcp_clients import CLIENTS, user_places

    homes = {"home": "~", "config": "~/.config", "apps": "~/Library/Application Support", "codex": "~/.codex"}
    rows = ["| client | `--client` | shape | your own file | in a project |", "|---|---|---|---|---|"]
    for client in CLIENTS.values():
        user = [f"`{place.format_map(homes)}`" for place in user_places(client, mac=not client.user)]
        project = [f"`{place}`" for place in client.project]
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
    """What each shape says of a server."""
    from serve.setup.mcp_clients import SHAPES, Server
    from serve.setup.register import Target

    server = Server("lineage", Path("/opt/lineage/bin/lineage-mcp"))
    parts = []
    for shape in SHAPES.values():
        snippet = Target(Path(), shape).snippet(server)
        parts.append(f"`{shape.name}`:\n\n```{shape.language}\n{snippet}```\n")
    return "\n".join(parts)


def stages() -> str:
    """The first list of the package's table of contents: the line in its order."""
    docstring = (
        ast.get_docstring(ast.parse((ROOT / "pipeline" / "__init__.py").read_text(encoding="utf-8"))) or ""
    )
    entries = re.findall(r"^- `(\w+)`: (.+)$", docstring.split("Used by the stages")[0], re.MULTILINE)
    rows = [f"| [`{name}`]({name}.py) | {meaning} |" for name, meaning in entries]
    return "\n".join(["| stage | what it does |", "|---|---|", *rows, ""])


def tables() -> str:
    """Every table with the meaning of each field."""
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
    """A table of what was kept last: a ranking a line, a history a column, means with 95 % bootstrap intervals."""
    counts = [_kept()[protocol, metric, history, "fusion"][3] for history in histories]
    titles = [f"{name}, {n}" for name, n in zip(histories, counts, strict=True)]
    rows = [f"| {metric} | {' | '.join(titles)} |", "|---" * (len(titles) + 1) + "|"]
    for said, system in RANKINGS.items():
        cells = [_kept().get((protocol, metric, history, system)) for history in histories]
        if any(cells):
            shown = [f"{one[0]} [{one[1]}, {one[2]}]" if one else "" for one in cells]
            rows.append(f"| {said} | {' | '.join(shown)} |")
    return "\n".join([*rows, ""])


@cache
def _kept() -> dict[tuple[str, str, str, str], tuple[str, str, str, int]]:
    """The newest figures by protocol, metric, history and ranking."""
    import polars as pl

    from tests.eval.results import COLUMNS as KEPT
    from tests.eval.results import FILE

    return {
        (row["protocol"], row["metric"], row["history"], row["system"]): (
            *(f"{row[number]:.2f}" for number in ("value", "low", "high")),
            row["n"],
        )
        for row in pl.read_csv(FILE, schema=KEPT).iter_rows(named=True)
    }
