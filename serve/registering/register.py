"""`register`: what a person asked for, the file that is meant, what is said of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from serve import settings
from serve.errors import BadRequest
from serve.registering.clients import CLIENTS, client, project_file, refuse_outside, user_file, user_places
from serve.registering.server import Server
from serve.registering.shapes import SHAPES, Shape
from serve.registering.target import Done, Outcome, Target


@dataclass(frozen=True, slots=True)
class Wishes:
    """The options of `register`."""

    client: str | None = None
    project: Path | None = None
    file: Path | None = None
    shape: str | None = None
    write: bool = False
    remove: bool = False


@dataclass(frozen=True, slots=True)
class Said:
    """`text` is what was asked for, fit to be piped on; `note` tells a person what to do with it."""

    text: str
    note: str = ""


def register(wishes: Wishes, server: Server, now: datetime) -> Said:
    """Show what to tell a client of the server, or tell it, or take it back."""
    _refuse(wishes)
    if not wishes.remove:
        server.check()
    target = _target(wishes)
    if target is None:
        return Said(text="\n".join(_overview(server)))
    if wishes.write:
        return Said(_told(target.write(server, now), server))
    if wishes.remove:
        return Said(_told(target.remove(server, now), server))
    return Said(target.snippet(server), f"This goes into {target.file}; --write merges it in.")


def _refuse(wishes: Wishes) -> None:
    if wishes.write and wishes.remove:
        raise BadRequest("--write and --remove undo each other.", hint="Give one of them.")
    if wishes.client and (wishes.file or wishes.shape):
        raise BadRequest("--client knows its file and its shape.", hint="Leave --file and --shape out.")
    if bool(wishes.file) != bool(wishes.shape):
        raise BadRequest(
            "--file and --shape go together.",
            hint=f"The shapes are {', '.join(SHAPES)}: see `lineage register`.",
        )
    if wishes.project and not wishes.client:
        raise BadRequest("--project is one of a client's places.", hint="Name the client with --client.")
    if (wishes.write or wishes.remove) and not (wishes.client or wishes.file):
        raise BadRequest(
            "Whose configuration?",
            hint=f"Name it with --client: {', '.join(CLIENTS)}; or with --file and --shape.",
        )


def _target(wishes: Wishes) -> Target | None:
    if wishes.file and wishes.shape:
        return Target(wishes.file.expanduser().absolute(), _shape(wishes.shape))
    if wishes.client is None:
        return None
    meant = client(wishes.client)
    if wishes.project is not None:
        file = project_file(meant, wishes.project)
        if wishes.write or wishes.remove:
            refuse_outside(file, wishes.project)
        return Target(file, meant.shape)
    return Target(user_file(meant, settings.folders(), mac=_on_mac()), meant.shape)


def _shape(name: str) -> Shape:
    if name not in SHAPES:
        raise BadRequest(f"'{name}' is no shape.", hint=f"The shapes are {', '.join(SHAPES)}.")
    return SHAPES[name]


def _overview(server: Server) -> Iterator[str]:
    """Each shape, and the clients and files it is for."""
    folders, mac = settings.folders(), _on_mac()
    for shape in SHAPES.values():
        yield f"{shape.name}:"
        for known in CLIENTS.values():
            if known.shape is shape and (places := [*user_places(known, mac=mac)[:1], *known.project[:1]]):
                yield f"  --client {known.name:<15} {' or '.join(place.format_map(folders) for place in places)}"
        yield ""
        yield from (f"    {line}".rstrip() for line in Target(Path(), shape).snippet(server).splitlines())
        yield ""
    yield "`--client NAME --write` merges it in, after a backup; with `--project PATH` into a project's file."


def _told(outcome: Outcome, server: Server) -> str:
    what = {
        Done.UNCHANGED: f"{outcome.file} stays as it is: there is nothing to change for {server.name!r}.",
        Done.CREATED: f"{outcome.file} was made, with {server.name!r} in it. Start the client anew to use it.",
        Done.CHANGED: f"{outcome.file} was changed for {server.name!r}. Start the client anew to notice it.",
        Done.DELETED: f"{outcome.file} was deleted: {server.name!r} was all there was in it.",
    }
    kept = f"\nBefore: {outcome.backup}" if outcome.backup else ""
    return what[outcome.done] + kept


def _on_mac() -> bool:
    return sys.platform == "darwin"
