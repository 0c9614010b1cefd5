"""The server that clients are told of: its command, its arguments, its environment."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stores.errors import LineageError


class ServerMissing(LineageError):
    """The program that clients are to start is not installed."""


class NotText(LineageError):
    """What a client is to be told has bytes that are no UTF-8, in which all clients' files are written."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server as a client starts it, over stdin and stdout.

    `name` is what the client calls it, `command` an absolute path. `environment` has the variables that are ours
    to set: None for one that is not to be set.
    """

    name: str
    command: Path
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def variables(self) -> dict[str, str]:
        """The variables that are set."""
        return {name: value for name, value in self.environment.items() if value is not None}

    def check(self) -> None:
        """Refuse what no client's file can say: a path may be any bytes."""
        said = {"server's name": self.name, "program's path": str(self.command)} | self.variables
        for what, text in said.items():
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise NotText(
                    f"The {what} is not UTF-8, so no client's file can say it: {text!r}.",
                    hint="Give it another name, with UTF-8 characters only.",
                ) from error


def installed(program: str, distribution: str, *, needed: bool) -> Path:
    """The program's absolute path: beside the one that runs, or else the one on PATH.

    Where it is not `needed`, because it is not to be started, its name will do.
    """
    if not needed:
        return Path(program)
    beside = [Path(sys.argv[0]).absolute().with_name(program), Path(sys.executable).with_name(program)]
    found = next((path for path in beside if shutil.which(path)), None) or shutil.which(program)
    if found is None:
        raise ServerMissing(
            f"`{program}`, the program that clients are to start, is not installed.",
            hint=f"Install it with `pip install {distribution}`, or put the folder it is in on PATH.",
        )
    return Path(found).absolute()
