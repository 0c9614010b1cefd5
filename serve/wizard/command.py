"""Flags -> the command that says the same; pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from serve.flags import Flags
from serve.pasting import argument
from serve.wizard.knobs import Knob, Switch, differs


def command(path: Path, flags: Flags, knobs: Sequence[Knob]) -> str:
    """The command as it can be pasted into a shell, with nothing in it that goes without saying."""
    return shlex.join(["lineage", "index", *argument(path), *options(flags, knobs)])


def options(flags: Flags, knobs: Sequence[Knob]) -> list[str]:
    """The options that differ from what a run does without any."""
    modes = [f"--{name}" for name in ("incremental", "force", "rebuild", "yes") if getattr(flags, name)]
    return [*modes, *(word for knob in knobs for word in _words(knob, flags))]


def _words(knob: Knob, flags: Flags) -> Iterator[str]:
    value = getattr(flags, knob.field)
    if not differs(knob, value):
        return
    yield knob.flag
    if not isinstance(knob.answer, Switch):
        yield str(value)
