"""The line of the wizard: questions, the command they come to, a last word, the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline import providers
from pipeline.git.refusals import NothingToIndex
from pipeline.git.repository import open_repository
from serve import settings, standing
from serve.errors import Cancelled
from serve.flags import Flags
from serve.indexing import index
from serve.resources import EmbedProvider
from serve.standing import Standing
from serve.terminal import warn
from serve.visible import visible
from serve.wizard import prompts
from serve.wizard.command import command, options
from serve.wizard.knobs import (
    ADVANCED,
    MODES,
    Choice,
    Knob,
    Mode,
    Number,
    Switch,
    knobs,
    offered,
    read_number,
)


def guided(path: Path, given: Flags) -> None:
    """Ask what to do with the index of the repository at `path`, then do it; `given` flags are ignored, and said so."""
    prompts.check_terminal()
    repository = open_repository(path)
    if repository.head() is None:
        raise NothingToIndex(repository.root)
    answers, cannot = offered([*EmbedProvider], providers.built_in())
    always = knobs(answers)
    _warn_of(options(given, (*always, *ADVANCED)))
    _, stands = standing.of_path(path, settings.read().home)
    _say(_heading(repository.root, stands))
    flags = _answered(always, cannot)
    _say(f"\nThe same without questions:\n\n    {command(path, flags, (*always, *ADVANCED))}\n")
    _confirm(flags, repository.root, stands)
    index(path, flags)


def _answered(always: tuple[Knob, ...], cannot: tuple[str, ...]) -> Flags:
    mode = Mode(prompts.choose("What is to be done?", MODES))
    said: dict[str, Any] = dict(mode.fields)
    if cannot:
        _say(f"  Not offered, because this build cannot run them: {', '.join(cannot)}.")
    said |= {knob.field: _ask(knob) for knob in always}
    if prompts.confirm("Set more: threads, processes, batches, output?", usual=False):
        said |= {knob.field: _ask(knob) for knob in ADVANCED}
    return Flags(**said)


def _ask(knob: Knob) -> Any:
    match knob.answer:
        case Number(_, otherwise) as number:
            return prompts.typed(knob.question, otherwise, lambda text: read_number(text, number))
        case Switch(usual):
            return prompts.confirm(knob.question, usual=usual)
        case Choice() as choice:
            return choice.value(prompts.choose(knob.question, choice.offered))


def _confirm(flags: Flags, root: Path, stands: Standing) -> None:
    if not prompts.confirm("Run it?", usual=not flags.rebuild):
        raise Cancelled
    if not flags.rebuild:
        return
    lost = f"{stands.commits:,} commits" if stands.commits else "whatever it holds"
    question = f"Really delete the index of {visible(root.name)} ({lost}) and make it anew?"
    if not prompts.confirm(question, usual=False):
        raise Cancelled


def _heading(root: Path, stands: Standing) -> str:
    if stands.last_indexed_commit is None:
        state = f"not indexed yet; {stands.behind:,} commits to take up"
    else:
        state = f"{stands.commits:,} commits indexed, {stands.behind:,} to take up"
    return (
        f"Index {visible(str(root))}\n{state}\n"
        "Nothing happens before the last question; Esc or Ctrl-C leaves at any of them.\n"
    )


def _warn_of(ignored: list[str]) -> None:
    if ignored:
        warn(f"-i asks for everything: ignored are {' '.join(ignored)}")


def _say(text: str) -> None:
    print(visible(text), flush=True)  # noqa: T201 - part of the conversation
