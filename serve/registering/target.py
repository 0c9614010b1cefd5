"""A client's file: the server merged into it or taken out of it, after a backup, and nothing else changed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from serve import replacing
from serve.registering import json_text, toml_text
from serve.registering.server import Server
from serve.registering.shapes import Shape, starts
from stores.errors import LineageError

_TEXTS: Final[dict[str, ModuleType]] = {"json": json_text, "toml": toml_text}


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
        before = replacing.content_of(self.file)
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
        before = replacing.content_of(self.file)
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
        if replacing.content_of(self.file) != before:
            raise ByHand(
                f"{self.file} was changed by another program meanwhile.", hint="Run the command again."
            )
        if empty and not self.file.is_symlink():
            replacing.delete(self.file)
            return Outcome(Done.DELETED, self.file, backup)
        replacing.replace(self.file, after.encode())
        return Outcome(Done.CREATED if before is None else Done.CHANGED, self.file, backup)

    def _kept(self, content: bytes, now: datetime) -> Path:
        """The file's content under another name beside it, as closed to others as the file."""
        stem = f"{self.file.name}.{now:%Y%m%dT%H%M%S}"
        names = (self.file.with_name(f"{stem}{f'-{number}' if number else ''}.bak") for number in count())
        backup = next(name for name in names if not os.path.lexists(name))  # not through a link to nothing
        replacing.replace(backup, content, like=self.file)
        return backup
