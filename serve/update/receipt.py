"""What was installed, from where, by what: written beside the command, and read by `lineage update` alone.

Environments of our own beside each other, and the one that commands lead to.

    PREFIX/current -> versions/NEW            the commands are links into `current`
    PREFIX/versions/NEW                       an environment, complete before `current` leads to it
    PREFIX/versions/OLD -> NEW                for programs of OLD that still run: they go on with the new files

One rename takes the commands from the old version to the new one, so that a kill at any moment leaves one of them.

What `install.sh` runs last, with the Python of the environment it has made: links, and the receipt.
"""

from __future__ import annotations

import argparse
import secrets
import shutil
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

import msgspec

from serve import config
from serve.setup import file_edit
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
        return cls(
            FORMAT, config.DISTRIBUTION, version, installer, source, str(environment), COMMANDS, moment
        )


def write(folder: Path, receipt: Receipt) -> None:
    """Put the receipt into the folder of the commands; it is the old one or the new one at every moment."""
    text = msgspec.json.format(msgspec.json.encode(receipt), indent=2)
    file_edit.replace(folder / NAME, text + b"\n")


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
    if receipt.format > FORMAT or receipt.distribution != config.DISTRIBUTION:
        raise NoReceipt(f"{file} is of another program, or of a newer version of it.", hint=_HINT)
    return receipt


_HINT: Final = (
    "`lineage update` works on what install.sh installed. Install with it (`sh install.sh --help` tells how), or "
    "update with the program that you installed with."
)


CURRENT: Final = "current"
VERSIONS: Final = "versions"


def draft(prefix: Path, version: str) -> Path:
    """Where a new environment is to be made."""
    folder = prefix / VERSIONS
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{version}-{secrets.token_hex(3)}"


def lead_to(environment: Path) -> None:
    """Have `current` lead to an environment, then forget the others."""
    prefix = environment.parent.parent
    _link(prefix / CURRENT, Path(VERSIONS) / environment.name)
    for other in (prefix / VERSIONS).iterdir():
        if other.name != environment.name:
            _forget(other, environment.name)


def link_commands(prefix: Path, folder: Path) -> None:
    """Put a link to each command into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for command in COMMANDS:
        _link(folder / command, prefix / CURRENT / "bin" / command)


def _forget(other: Path, successor: str) -> None:
    if other.is_symlink():  # of the version before: whoever still runs that has had a day and an update
        other.unlink()
        return
    aside = other.with_name(f".{other.name}")
    with suppress(OSError):
        other.rename(aside)
        other.symlink_to(successor)
    shutil.rmtree(aside, ignore_errors=True)


def _link(link: Path, target: Path) -> None:
    fresh = link.with_name(f".{link.name}.{secrets.token_hex(4)}")
    fresh.symlink_to(target)
    fresh.replace(link)


def main() -> None:
    """Finish an installation."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("installer", "kind", "location", "ref", "environment", "commands"):
        parser.add_argument(f"--{name}", required=True)
    said = parser.parse_args()
    environment, folder = Path(said.environment), Path(said.commands)
    if said.installer == "pip":
        lead_to(environment)
        environment = environment.parent.parent
        link_commands(environment, folder)
    source = Source(said.kind, said.location, said.ref)
    write(folder, Receipt.now(config.version(), said.installer, source, environment))


if __name__ == "__main__":
    main()
