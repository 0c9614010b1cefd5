"""What MCP clients are told of our server: whether what they would start is there, and asks the same indexes."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from serve import settings
from serve.doctor.finding import Finding, Subject, ok, warning
from serve.registering import json_text, toml_text
from serve.registering.clients import CLIENTS, Client, user_places
from serve.registering.server import Server
from serve.registering.shapes import starts
from serve.replacing import FileRefused, content_of

PROGRAM: Final = "lineage-mcp"
_READ: Final = {"json": json_text.read, "toml": toml_text.read}


def check(subject: Subject) -> Iterator[Finding]:
    """Each client that is told of the server, in the person's own files and in the repository's."""
    told = False
    for client, file in _files(subject):
        for finding in _in_file(client, file, subject):
            told = True
            yield finding
    if not told:
        yield ok("clients", f"none is told of {PROGRAM}", "`lineage register` shows what to tell one.")


def _files(subject: Subject) -> Iterator[tuple[Client, Path]]:
    folders, mac = settings.folders(), sys.platform == "darwin"
    root = subject.repository.root if subject.repository and not subject.repository.is_bare else None
    for client in CLIENTS.values():
        own = [Path(place.format_map(folders)) for place in user_places(client, mac=mac)]
        shared = [root / place for place in client.project] if root else []
        yield from ((client, file) for file in (*own, *shared) if file.is_file())


def _in_file(client: Client, file: Path, subject: Subject) -> Iterator[Finding]:
    name = f"client {client.name}"
    try:
        content = content_of(file) or b""
        servers = _READ[client.shape.language](content.decode()).get(client.shape.key)
    except FileRefused:
        yield warning(
            name, f"{file} cannot be read", "Look at its permissions: the client may not read it either."
        )
        return
    except (ValueError, AttributeError):
        # Not ours to judge: clients take comments in their JSON, which we do not; but it may be about us.
        if PROGRAM.encode() in content:
            yield ok(name, f"{file} names {PROGRAM}, in a form that is not checked")
        return
    for title, entry in (servers if isinstance(servers, dict) else {}).items():
        if starts(entry, Server(title, Path(PROGRAM))):
            fault = _fault(entry, client.shape.variables, subject)
            yield (
                warning(name, f"{file}: {fault}", _remedy(client))
                if fault
                else ok(name, f"{title} in {file}")
            )


def _fault(entry: Mapping[str, Any], variables: str, subject: Subject) -> str:
    """What would keep the client from our indexes; nothing when it would meet them."""
    command = entry.get("command")
    words = command if isinstance(command, list) else [command]
    program = str(words[0]) if words else ""
    if shutil.which(program) is None:
        return f"{program} is not there, or may not be executed"
    said = entry.get(variables)
    home = said.get("LINEAGE_HOME") if isinstance(said, dict) else None
    wanted = settings.said_home()
    if (home or None) != wanted and not _same(home, subject.settings.home):
        return f"it looks for indexes in {home or settings.DEFAULT_HOME}, this program in {subject.settings.home}"
    return ""


def _same(said: object, home: Path) -> bool:
    return Path(os.path.expanduser(str(said or settings.DEFAULT_HOME))).absolute() == home  # noqa: PTH111 - text


def _remedy(client: Client) -> str:
    return f"`lineage register --client {client.name} --write` puts it right."
