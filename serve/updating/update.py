"""The line of `lineage update`: receipt, what its source offers, the decision, the installer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from packaging.version import Version

from serve import about
from serve.errors import Cancelled
from serve.updating import installers, receipt, sources
from serve.updating.receipt import Receipt
from serve.updating.sources import Offer
from stores import locking
from stores.errors import LineageError
from stores.locking import Deadline

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
    old = Version(about.version())  # which an update that was killed at its end has not written down
    if wishes.check:
        return _checked(had, old, offer)
    if offer.version <= old and not wishes.force:
        return Outcome(_stays(had, old, offer))
    with locking.held(folder / LOCK, Deadline.after(0, _busy)):
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
            f"Should this be killed and lineage no longer run, this brings back {about.version()}:\n  {command}"
        )

    try:
        installers.install(had, offer, folder, undo)
    except LineageError as error:
        raise UpdateFailed(
            f"lineage {offer.version} was not installed; {about.version()} goes on working. {error.message}",
            hint="Put right what it says, then run `lineage update` again.",
        ) from error
    except KeyboardInterrupt as error:
        raise Cancelled(f"Interrupted: lineage {about.version()} goes on working.") from error


def _busy(_seconds: float) -> LineageError:
    return UpdateFailed("Another `lineage update` is at work here.", hint="Wait until it has ended.")
