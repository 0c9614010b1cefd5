"""An environment kept while an installer works on it, and put back unless the work was done.

What is killed puts nothing back: a person is told before how to do that themselves.

pipx and uv change their environments in place. The copy takes little room: large files are linked, since installers
write new files in the place of old ones and never into them; small ones are copied, because some are rewritten.

pip, pipx and uv: a new version in the place of the old one, or the old one as it was.

The line of `lineage update`: receipt, what its source offers, the decision, the installer.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from packaging.version import Version

from serve import config
from serve.errors import Cancelled
from serve.update import receipt, sources
from serve.update.receipt import Receipt, link_commands
from serve.update.sources import Offer, ProgramFailed, said
from stores import locks
from stores.errors import LineageError
from stores.locks import Deadline

ENDING: Final = ".before-update"
BROKEN: Final = ".broken-update"
SMALL_BYTES: Final = 1 << 20


@contextmanager
def kept(folder: Path, tell: Callable[[str], None]) -> Iterator[None]:
    """Let the body change a folder; when it fails or is interrupted, the folder is what it was.

    `tell` hears first of a command that puts it back, should nobody live to do so.
    """
    copy = folder.with_name(folder.name + ENDING)
    shutil.rmtree(copy, ignore_errors=True)  # of an update that was killed
    shutil.copytree(folder, copy, symlinks=True, copy_function=_copied)
    old, new = shlex.quote(str(folder)), shlex.quote(str(copy))
    tell(f"test -d {new} && rm -rf {old} && mv {new} {old}")
    try:
        yield
    except BaseException:
        # Two renames, and only then what takes its time: the old one is back at once.
        broken = folder.with_name(folder.name + BROKEN)
        shutil.rmtree(broken, ignore_errors=True)
        if folder.exists():
            folder.rename(broken)
        copy.rename(folder)
        shutil.rmtree(broken, ignore_errors=True)
        raise
    shutil.rmtree(copy, ignore_errors=True)


def _copied(source: str, target: str) -> str:
    if Path(source).stat().st_size > SMALL_BYTES:
        try:
            os.link(source, target)
        except OSError:  # a file system without links
            return str(shutil.copy2(source, target))
        return target
    return str(shutil.copy2(source, target))


def install(receipt: Receipt, offer: Offer, folder: Path, tell: Callable[[str], None]) -> None:
    """Install what is offered, as the receipt's installer does, with its commands in the folder.

    `tell` hears of a command that undoes what is done in place, before it is done.
    """
    environment = Path(receipt.environment)
    if receipt.installer == "pip":
        _beside(environment, offer)
        link_commands(environment, folder)
        return
    with kept(environment, tell):
        if receipt.installer == "pipx":
            _pipx(environment, offer, folder)
        else:
            _uv(environment, offer, folder)
        check(environment, offer)


def check(environment: Path, offer: Offer) -> None:
    """Refuse a version that does not run, or is not the one that was offered."""
    told = said(environment / "bin" / "lineage", "--version").strip()
    if told != f"lineage {offer.version}":
        raise ProgramFailed(f"What was installed says `{told}`, not `lineage {offer.version}`.")


def _beside(prefix: Path, offer: Offer) -> None:
    """Make an environment beside the one in use, and lead the commands to it once it runs."""
    made = receipt.draft(prefix, str(offer.version))
    try:
        said(sys.executable, "-m", "venv", made)
        pip = (made / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        said(
            *pip,
            *offer.options,
            _as_pip_takes_it(offer.requirement),
            more=_constrained(offer, "PIP_CONSTRAINT"),
        )
        check(made, offer)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    receipt.lead_to(made)


def _as_pip_takes_it(requirement: str) -> str:
    """Python 3.11 brings a pip that takes no address without a host, such as file:///..., after a name."""
    name, found, address = requirement.partition(" @ git+")
    return f"git+{address}#egg={name}" if found and name == config.DISTRIBUTION else requirement


def _pipx(environment: Path, offer: Offer, folder: Path) -> None:
    # PIPX_HOME/venvs/history-lineage
    more = {"PIPX_HOME": str(environment.parent.parent), "PIPX_BIN_DIR": str(folder)}
    passed = [f"--pip-args={shlex.join(offer.options)}"] if offer.options else []
    more |= _constrained(offer, "PIP_CONSTRAINT")
    said("pipx", "install", "--force", f"--python={_python()}", *passed, offer.requirement, more=more)


def _uv(environment: Path, offer: Offer, folder: Path) -> None:
    more = {"UV_TOOL_DIR": str(environment.parent), "UV_TOOL_BIN_DIR": str(folder)}
    more |= _constrained(offer, "UV_CONSTRAINT")
    words = ("uv", "tool", "install", "--quiet", "--force", "--reinstall", f"--python={_python()}")
    said(*words, *offer.options, offer.requirement, more=more)


def _constrained(offer: Offer, variable: str) -> Mapping[str, str]:
    """The versions that a folder was tested with, where the source is one that says them."""
    constraints = Path(offer.requirement) / "constraints.txt"
    return {variable: str(constraints)} if constraints.is_file() else {}


def _python() -> str:
    """The Python that this environment was made from."""
    return str(getattr(sys, "_base_executable", sys.executable))


LOCK: Final = ".lineage-update.lock"
# What `--check` exits with when there is something to update to.
AVAILABLE: Final = 2
UP_TO_DATE: Final = 0


class UpdateFailed(LineageError):
    """The new version could not be installed; the old one is as it was."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """The flags of `lineage update`."""

    check: bool = False
    force: bool = False
    prerelease: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is said, and what the program exits with."""

    text: str
    code: int = UP_TO_DATE


def update(wishes: Wishes, tell: Callable[[str], None]) -> Outcome:
    """Bring this program to the newest version that its source offers, or say whether there is one.

    `tell` hears what a person has to know before it is done.
    """
    folder, had = receipt.found()
    offer = sources.newest(had, prerelease=wishes.prerelease)
    old = Version(config.version())  # which an update that was killed at its end has not written down
    if wishes.check:
        return _checked(had, old, offer)
    if offer.version <= old and not wishes.force:
        return Outcome(_stays(had, old, offer))
    with locks.held(folder / LOCK, Deadline.after(0, _busy)):
        _installed(had, offer, folder, tell)
        now = Receipt.now(str(offer.version), had.installer, had.source, Path(had.environment))
        receipt.write(folder, replace(now, commands=had.commands))
    said = "Installed again" if offer.version == old else "Updated" if offer.version > old else "Went back"
    return Outcome(f"{said}: lineage {old} -> {offer.version}, from {had.source}, by {had.installer}.")


def _checked(had: Receipt, old: Version, offer: Offer) -> Outcome:
    if offer.version > old:
        there = f"lineage {offer.version} is available in {had.source}; installed is {old}."
        return Outcome(f"{there} `lineage update` installs it.", AVAILABLE)
    return Outcome(_stays(had, old, offer))


def _stays(had: Receipt, old: Version, offer: Offer) -> str:
    if offer.version == old:
        return f"lineage {old} is up to date with {had.source}."
    return f"lineage {old} is newer than {offer.version} in {had.source}; `lineage update --force` goes back to it."


def _installed(had: Receipt, offer: Offer, folder: Path, tell: Callable[[str], None]) -> None:
    def undo(command: str) -> None:
        tell(
            f"Should this be killed and lineage no longer run, this brings back {config.version()}:\n  {command}"
        )

    try:
        install(had, offer, folder, undo)
    except LineageError as error:
        raise UpdateFailed(
            f"lineage {offer.version} was not installed; {config.version()} goes on working. {error.message}",
            hint="Put right what it says, then run `lineage update` again.",
        ) from error
    except KeyboardInterrupt as error:
        raise Cancelled(f"Interrupted: lineage {config.version()} goes on working.") from error


def _busy(_seconds: float) -> LineageError:
    return UpdateFailed("Another `lineage update` is at work here.", hint="Wait until it has ended.")
