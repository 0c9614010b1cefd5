"""Install receipt and versioned environments of an installation by install.sh.

The receipt is a file next to the commands. It records what was installed, from where and with which installer, and
only `lineage update` reads it. With pip, an installation has this layout:

    PREFIX/current -> versions/NEW            the commands are links into `current`
    PREFIX/versions/NEW                       an environment, complete before `current` links to it
    PREFIX/versions/OLD -> NEW                for programs of OLD that are still running

One rename replaces `current` and so switches all commands. Therefore a kill at any moment leaves a complete version.

install.sh runs this module last (`main`), with the Python of the new environment, to write links and receipt.
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

RECEIPT_FILE: Final = "lineage-receipt.json"
# Format version of the receipt. Increase it when an older program could misread a newer receipt.
RECEIPT_FORMAT: Final = 1
# Maximum number of symbolic links to follow from a command, as in Linux.
MAX_LINKS: Final = 40
COMMANDS: Final = ("lineage", "lineage-mcp", "mindmap")
# Names of the link and of the directory in PREFIX (see the layout above).
CURRENT: Final = "current"
VERSIONS: Final = "versions"

_HINT: Final = (
    "`lineage update` works on installations by install.sh. Install with it (see `sh install.sh --help`), or update "
    "with the program that you installed with."
)

Installer = Literal["pip", "pipx", "uv"]
SourceKind = Literal["directory", "wheels", "git", "index"]


class NoReceipt(LineageError):
    """Error for a running program without a valid receipt."""


@dataclass(frozen=True, slots=True)
class Source:
    """Source of new versions.

    `location` is a directory, a git address or a package index's address; empty for the installer's default index.
    `ref` is the git branch or tag to follow; empty to follow version tags.
    """

    kind: SourceKind
    location: str
    ref: str = ""

    def __str__(self) -> str:
        if not self.location:
            return "the installer's default index"
        label = {
            "directory": "the directory",
            "wheels": "the wheels in",
            "git": "the repository",
            "index": "the index",
        }[self.kind]
        return f"{label} {self.location}" + (f" at {self.ref}" if self.ref else "")


@dataclass(frozen=True, slots=True)
class Receipt:
    """Receipt of one installation. Field names are those of the JSON file.

    `environment`: for pip, PREFIX of the layout above; for pipx and uv, the environment with the package.
    `commands`: file names next to the receipt.
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
    def create(cls, version: str, installer: Installer, source: Source, environment: Path) -> Receipt:
        """Return the receipt of an installation that has just finished."""
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        return cls(
            RECEIPT_FORMAT,
            config.DISTRIBUTION,
            version,
            installer,
            source,
            str(environment),
            COMMANDS,
            now,
        )


def write_receipt(commands_dir: Path, receipt: Receipt) -> None:
    """Write the receipt into the directory of the commands, atomically."""
    text = msgspec.json.format(msgspec.json.encode(receipt), indent=2)
    file_edit.write_file(commands_dir / RECEIPT_FILE, text + b"\n")


def find_receipt() -> tuple[Path, Receipt]:
    """Return the directory of the commands and the receipt of the running program. Raise NoReceipt if it has none."""
    command = Path(sys.argv[0]).absolute()
    # The receipt is next to the installer's link or file, to which links of the user can lead.
    links = [command]
    while links[-1].is_symlink() and len(links) <= MAX_LINKS:
        links.append(links[-1].parent / links[-1].readlink())
    candidates = (link.parent for link in (*links, command.resolve()))
    directory = next((directory for directory in candidates if (directory / RECEIPT_FILE).is_file()), None)
    if directory is None:
        raise NoReceipt(
            f"There is no {RECEIPT_FILE} next to {command}, so install.sh did not install it.", hint=_HINT
        )
    receipt = read_receipt(directory / RECEIPT_FILE)
    if not Path(sys.prefix).resolve().is_relative_to(Path(receipt.environment).resolve()):
        raise NoReceipt(
            f"{directory / RECEIPT_FILE} belongs to another installation, in {receipt.environment}. "
            f"This one runs in {sys.prefix}.",
            hint=_HINT,
        )
    return directory, receipt


def read_receipt(file: Path) -> Receipt:
    """Read a receipt; raise NoReceipt if it is unreadable, of another program or of a newer format."""
    try:
        receipt = msgspec.json.decode(file.read_bytes(), type=Receipt)
    except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
        raise NoReceipt(f"{file} cannot be read: {error}.", hint=_HINT) from error
    if receipt.format > RECEIPT_FORMAT or receipt.distribution != config.DISTRIBUTION:
        raise NoReceipt(f"{file} belongs to another program, or to a newer version of it.", hint=_HINT)
    return receipt


def create_environment_path(prefix: Path, version: str) -> Path:
    """Create the directory of the environments under `prefix`. Return an unused path for a new environment in it."""
    versions = prefix / VERSIONS
    versions.mkdir(parents=True, exist_ok=True)
    return versions / f"{version}-{secrets.token_hex(3)}"


def activate_environment(environment: Path) -> None:
    """Link `current` to this environment, then replace each other environment by a link to it."""
    prefix = environment.parent.parent
    _replace_link(prefix / CURRENT, Path(VERSIONS) / environment.name)
    for other in (prefix / VERSIONS).iterdir():
        if other.name != environment.name:
            _retire_environment(other, environment.name)


def link_commands(environment: Path, commands_dir: Path) -> None:
    """Link each command of an environment into a directory."""
    commands_dir.mkdir(parents=True, exist_ok=True)
    for command in COMMANDS:
        _replace_link(commands_dir / command, environment / "bin" / command)


def _retire_environment(environment: Path, successor: str) -> None:
    """Replace an environment by a link to its successor, for programs that still run in it."""
    # An earlier update replaced this environment by the link. Programs that ran in it have most likely ended.
    if environment.is_symlink():
        environment.unlink()
        return
    old_environment = environment.with_name(f".{environment.name}")
    with suppress(OSError):
        environment.rename(old_environment)
        environment.symlink_to(successor)
    shutil.rmtree(old_environment, ignore_errors=True)


def _replace_link(link: Path, target: Path) -> None:
    """Create or replace a symbolic link, atomically."""
    temp_link = link.with_name(f".{link.name}.{secrets.token_hex(4)}")
    temp_link.symlink_to(target)
    temp_link.replace(link)


def main() -> None:
    """Finish an installation for install.sh: write the links and the receipt."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    for name in ("installer", "kind", "location", "ref", "environment", "commands"):
        parser.add_argument(f"--{name}", required=True)
    arguments = parser.parse_args()
    environment, commands_dir = Path(arguments.environment), Path(arguments.commands)
    recorded_environment = environment
    if arguments.installer == "pip":
        activate_environment(environment)
        recorded_environment = environment.parent.parent
        link_commands(recorded_environment / CURRENT, commands_dir)
    source = Source(arguments.kind, arguments.location, arguments.ref)
    write_receipt(
        commands_dir, Receipt.create(config.read_version(), arguments.installer, source, recorded_environment)
    )


if __name__ == "__main__":
    main()
