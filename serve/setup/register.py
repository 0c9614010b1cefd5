"""A client's file: the server merged into it or taken out of it, after a backup, and nothing else changed.

`register`: what a person asked for, the file that is meant, what is said of it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from serve import config
from serve.errors import BadRequest
from serve.setup import file_edit, json_config, toml_config
from serve.setup.mcp_clients import (
    CLIENTS,
    SHAPES,
    Server,
    Shape,
    client,
    project_file,
    refuse_outside,
    starts,
    user_file,
    user_places,
)
from stores.errors import LineageError

_TEXTS: Final[dict[str, ModuleType]] = {"json": json_config, "toml": toml_config}


class ByHand(LineageError):
    """A file that we cannot change without risking what else is in it."""


class NameTaken(LineageError):
    """Another server has that name."""


class Done(Enum):
    """What became of a file."""

    UNCHANGED = auto()
    CREATED = auto()
    CHANGED = auto()
    DELETED = auto()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was done to the file, and where its content before is kept."""

    done: Done
    file: Path
    backup: Path | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """A client's file and the shape of its entries."""

    file: Path
    shape: Shape

    def snippet(self, server: Server) -> str:
        """A whole file with nothing but the server."""
        return str(self._text.shown(self.shape.key, server.name, self.shape.entry(server)))

    def write(self, server: Server, now: datetime) -> Outcome:
        """Merge the server into the file; a second time changes nothing."""
        before = file_edit.content_of(self.file)
        text = self._decoded(before, f"Add this by hand:\n\n{self.snippet(server)}")
        there = self._there(text, server)
        if there is not None and not starts(there, server):
            raise NameTaken(
                f"{self.file} has another server with the name {server.name!r}.",
                hint="Give ours another name with --server-name, or take that one out first.",
            )
        entry = self.shape.entry(server, there)
        if entry == there:
            return Outcome(Done.UNCHANGED, self.file)
        after = self._text.with_entry(text, self.shape.key, server.name, entry)
        self._check(text, after, {**self._servers(text), server.name: entry})
        return self._replaced(before, after, now)

    def remove(self, server: Server, now: datetime) -> Outcome:
        """Take the server out of the file, and the file away when it held nothing else."""
        before = file_edit.content_of(self.file)
        text = self._decoded(before, f"Take `{server.name}` out of its `{self.shape.key}` by hand.")
        there = self._there(text, server)
        if there is None or not starts(there, server):
            return Outcome(Done.UNCHANGED, self.file)
        after = self._text.without_entry(text, self.shape.key, server.name)
        left = {name: entry for name, entry in self._servers(text).items() if name != server.name}
        self._check(text, after, left)
        return self._replaced(before, after, now)

    @property
    def _text(self) -> ModuleType:
        return _TEXTS[self.shape.language]

    def _decoded(self, content: bytes | None, instead: str) -> str:
        """The file's text, when it says what its language allows."""
        try:
            text = (content or b"").decode("utf-8")
            if not isinstance(self._text.read(text).get(self.shape.key, {}), dict):
                raise ValueError(f"its `{self.shape.key}` is no map")
        except (ValueError, AttributeError) as error:
            said = "it is no map" if isinstance(error, AttributeError) else str(error)
            plain = {"json": "plain JSON, without comments", "toml": "TOML"}[self.shape.language]
            raise ByHand(
                f"{self.file} cannot be changed safely, because it is not {plain}: {said}", hint=instead
            ) from error
        return text

    def _servers(self, text: str) -> dict[str, Any]:
        return dict(self._text.read(text).get(self.shape.key, {}))

    def _there(self, text: str, server: Server) -> Any:
        return self._servers(text).get(server.name)

    def _check(self, before: str, after: str, servers: dict[str, Any]) -> None:
        """Nothing is written that does not say exactly what is meant, and what was said before."""
        none: dict[str, Any] = {self.shape.key: {}}
        if none | self._text.read(after) != self._text.read(before) | {self.shape.key: servers}:
            raise ByHand(
                f"{self.file} is written in a way that we would not leave as it is.",
                hint=f"Change its `{self.shape.key}` by hand.",
            )

    def _replaced(self, before: bytes | None, after: str, now: datetime) -> Outcome:
        empty = not self._text.read(after)
        backup = None if before is None else self._kept(before, now)
        if file_edit.content_of(self.file) != before:
            raise ByHand(
                f"{self.file} was changed by another program meanwhile.", hint="Run the command again."
            )
        if empty and not self.file.is_symlink():
            file_edit.delete(self.file)
            return Outcome(Done.DELETED, self.file, backup)
        file_edit.replace(self.file, after.encode())
        return Outcome(Done.CREATED if before is None else Done.CHANGED, self.file, backup)

    def _kept(self, content: bytes, now: datetime) -> Path:
        """The file's content under another name beside it, as closed to others as the file."""
        stem = f"{self.file.name}.{now:%Y%m%dT%H%M%S}"
        names = (self.file.with_name(f"{stem}{f'-{number}' if number else ''}.bak") for number in count())
        backup = next(name for name in names if not os.path.lexists(name))  # not through a link to nothing
        file_edit.replace(backup, content, like=self.file)
        return backup


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
    return Target(user_file(meant, config.folders(), mac=_on_mac()), meant.shape)


def _shape(name: str) -> Shape:
    if name not in SHAPES:
        raise BadRequest(f"'{name}' is no shape.", hint=f"The shapes are {', '.join(SHAPES)}.")
    return SHAPES[name]


def _overview(server: Server) -> Iterator[str]:
    """Each shape, and the clients and files it is for."""
    folders, mac = config.folders(), _on_mac()
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
