"""What cog prints into the README: help texts, the line's stages, the tables. `cog -I . -r README.md` renews it."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

ROOT = Path(__file__).parent.parent
COMMANDS = (
    "index",
    "query",
    "explain",
    "status",
    "serve",
    "daemon",
    "plan",
    "init",
    "register",
    "doctor",
    "gc",
    "update",
)
MINDMAP_COMMANDS = ("mcp", "viewer", "list", "show", "export", "register")


def help_of(program: str, app: typer.Typer, command: str) -> str:
    """A command's `--help`, as a terminal of 100 columns shows it."""
    os.environ.update(COLUMNS="100", TERM="dumb")
    from typer.testing import CliRunner

    shown = CliRunner().invoke(app, [command, "--help"], prog_name=program).output.rstrip()
    return f"```console\n$ {program} {command} --help\n{shown}\n```\n"


def helps() -> str:
    from serve.cli import app

    return "\n".join(help_of("lineage", app, command) for command in COMMANDS)


def mindmap_helps() -> str:
    from serve.maps.cli import app

    return "\n".join(help_of("mindmap", app, command) for command in MINDMAP_COMMANDS)


def mindmap_tools() -> str:
    """The tools of `mindmap mcp`, each with what it tells an agent."""
    from mindmap.maps import Maps
    from mindmap.watcher import Watcher
    from serve.maps.tools import Tools

    maps = Maps(ROOT)
    tools = Tools(maps, Watcher(maps, lambda _: None)).all()
    rows = [f"| `{tool.name}` | {' '.join(tool.description.split())} |" for tool in tools]
    return "\n".join(["| tool | what it tells an agent |", "|---|---|", *rows, ""])


def clients() -> str:
    """The clients that `register` knows, and their files on Linux."""
    from serve.registering.clients import CLIENTS, user_places

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
    from serve.registering.server import Server
    from serve.registering.shapes import SHAPES
    from serve.registering.target import Target

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
    entries = re.findall(r"^- `(\w+)`: (.+)$", docstring.split("What it stands on")[0], re.MULTILINE)
    rows = [f"| [`{name}`](pipeline/{name}.py) | {meaning} |" for name, meaning in entries]
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
