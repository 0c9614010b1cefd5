"""Survey, show, ask, sweep: nothing is deleted that was not shown before."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from serve.collecting import page
from serve.collecting.garbage import Garbage
from serve.collecting.survey import survey
from serve.terminal import warn, write
from serve.visible import visible
from stores.errors import LineageError

Ask = Callable[[str], bool]


class Kept(LineageError):
    """Something was to go, and is still there."""


def collect(home: Path, *, yes: bool, absent: bool, ask: Ask | None) -> None:
    """Show what may go, and let it go: with `yes`, or where `ask` is answered so.

    What may be needed again goes only with `absent`, or where it is asked for by name. Kept when something that
    should go could not.
    """
    found = list(survey(home))
    write("\n".join(page.lines(found)))
    chosen = _chosen(found, yes=yes, absent=absent, ask=ask)
    failed = [one for one in chosen if not _swept(one)]
    if chosen:
        freed = sum(one.bytes for one in chosen if one not in failed)
        write(f"Collected {len(chosen) - len(failed)}, about {page.amount(freed)}.")
    elif found:
        write(_how(found))
    if failed:
        raise Kept(
            f"{len(failed)} of {len(chosen)} stay.", hint="Run `lineage gc` again when nobody uses them."
        )


def _chosen(found: Sequence[Garbage], *, yes: bool, absent: bool, ask: Ask | None) -> list[Garbage]:
    sure, unsure = [one for one in found if one.sure], [one for one in found if not one.sure]
    chosen = sure if yes or (sure and ask and ask(f"Delete {len(sure)}?")) else []
    # A person is asked for each: that one disk is gone for good says nothing of another.
    asked = [one for one in unsure if ask and not yes and ask(visible(f"Delete the {one.what}, too?"))]
    return [*chosen, *(unsure if yes and absent else asked)]


def _swept(one: Garbage) -> bool:
    try:
        one.sweep()
    except (LineageError, OSError) as error:
        warn(f"{one.what} stays: {error}")
        return False
    return True


def _how(found: Sequence[Garbage]) -> str:
    more = "" if all(one.sure for one in found) else ", with --absent what may be needed again too"
    return f"Nothing was deleted; `lineage gc --yes` does it{more}."


def on_terminal() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()
