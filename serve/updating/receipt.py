"""What was installed, from where, by what: written beside the command, and read by `lineage update` alone."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

import msgspec

from serve import about, replacing
from stores.errors import LineageError

NAME: Final = "lineage-receipt.json"
COMMANDS: Final = ("lineage", "lineage-mcp", "mindmap")
# Rises when an older program could misread what a newer one wrote.
FORMAT: Final = 1

Installer = Literal["pip", "pipx", "uv"]
Kind = Literal["directory", "wheels", "git", "index"]


class NoReceipt(LineageError):
    """This program was not installed by install.sh, or nobody can tell."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where versions come from.

    `location` is a folder, an address that git knows, or a package index's; empty for the index that the installer is
    set up with. `ref` is the branch or tag that somebody asked for; empty for the tags that are versions.
    """

    kind: Kind
    location: str
    ref: str = ""

    def __str__(self) -> str:
        named = {
            "directory": "the folder",
            "wheels": "the wheels in",
            "git": "the repository",
            "index": "the index",
        }
        place = self.location or "that the installer is set up with"
        return f"{named[self.kind]} {place}" + (f" at {self.ref}" if self.ref else "")


@dataclass(frozen=True, slots=True)
class Receipt:
    """One installation.

    `environment` holds the package: for pip a folder of ours, for the others the one they made. `commands` lie beside
    the receipt.
    """

    format: int
    distribution: str
    version: str
    installer: Installer
    source: Source
    environment: str
    commands: tuple[str, ...]
    installed_at: str

    @classmethod
    def now(cls, version: str, installer: Installer, source: Source, environment: Path) -> Receipt:
        """The receipt of an installation that has just ended."""
        moment = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        return cls(FORMAT, about.DISTRIBUTION, version, installer, source, str(environment), COMMANDS, moment)


def write(folder: Path, receipt: Receipt) -> None:
    """Put the receipt into the folder of the commands; it is the old one or the new one at every moment."""
    text = msgspec.json.format(msgspec.json.encode(receipt), indent=2)
    replacing.replace(folder / NAME, text + b"\n")


def found() -> tuple[Path, Receipt]:
    """The receipt beside the command that runs, and the folder it is in; NoReceipt where there is none for it."""
    command = Path(sys.argv[0]).absolute()
    # Found through a link, the receipt is beside the link: that is where the installer put it.
    folders = dict.fromkeys((command.parent, command.resolve().parent))
    folder = next((folder for folder in folders if (folder / NAME).is_file()), None)
    if folder is None:
        raise NoReceipt(
            f"There is no {NAME} beside {command}: it was not installed by install.sh.", hint=_HINT
        )
    receipt = read(folder / NAME)
    if not Path(sys.prefix).resolve().is_relative_to(Path(receipt.environment).resolve()):
        raise NoReceipt(
            f"{folder / NAME} is of another installation, in {receipt.environment}; this one runs in {sys.prefix}.",
            hint=_HINT,
        )
    return folder, receipt


def read(file: Path) -> Receipt:
    """The receipt in a file; NoReceipt when it cannot be understood."""
    try:
        receipt = msgspec.json.decode(file.read_bytes(), type=Receipt)
    except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
        raise NoReceipt(f"{file} cannot be read: {error}.", hint=_HINT) from error
    if receipt.format > FORMAT or receipt.distribution != about.DISTRIBUTION:
        raise NoReceipt(f"{file} is of another program, or of a newer version of it.", hint=_HINT)
    return receipt


_HINT: Final = (
    "`lineage update` works on what install.sh installed. Install with it (`sh install.sh --help` tells how), or "
    "update with the program that you installed with."
)
