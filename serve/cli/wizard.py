"""Flags -> the command that says the same; pure.

Questions at a terminal. Whatever is asked, Esc and Ctrl-C mean: nothing is to be done.

The line of the wizard: questions, the command they come to, a last word, the run.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import questionary
from prompt_toolkit import print_formatted_text
from prompt_toolkit.application import Application
from prompt_toolkit.filters import Always
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent, merge_key_bindings
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import is_dumb_terminal

from pipeline.encoders import providers
from pipeline.git.errors import NothingToIndex
from pipeline.git.repository import open_repository
from serve import config, index_status
from serve.cli.index import index
from serve.cli.options import EmbedProvider, Flags
from serve.cli.terminal import warn
from serve.cli.wizard_questions import (
    ADVANCED,
    MODES,
    Answer,
    Choice,
    Knob,
    Mode,
    Number,
    Switch,
    differs,
    knobs,
    offered,
    read_number,
)
from serve.errors import BadRequest, Cancelled
from serve.index_status import Standing
from serve.text import argument, visible


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


# An arrow key begins with the byte of Esc. What comes later than this is no arrow; over a slow line it comes in 50 ms.
ESCAPE_SECONDS: Final = 0.15
# The terminal's own colours, so that they can be read on a light ground and on a dark one.
STYLE: Final = Style(
    [
        ("qmark", "fg:ansicyan bold"),
        ("settled", "fg:ansigreen"),
        ("question", "bold"),
        ("answer", "fg:ansicyan"),
        ("pointer", "fg:ansicyan bold"),
        ("highlighted", "fg:ansicyan"),
        ("instruction", "fg:ansibrightblack"),
        ("validation-toolbar", "noreverse fg:ansired"),
    ]
)
MARK: Final = "?"
DONE: Final = "✓"
POINTER: Final = "›"  # noqa: RUF001 - meant as an arrow
ARROWS: Final = "(arrow keys, Enter)"


def check_terminal() -> None:
    """Refuse where nobody could answer."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadRequest(
            "-i asks questions, and there is no terminal to ask them at.",
            hint="Run it in a terminal, or say it with flags: `lineage index --help` lists them.",
        )
    if is_dumb_terminal():
        raise BadRequest(
            "-i draws its questions, which this terminal (TERM=dumb) cannot show.",
            hint="Run it in another terminal, or say it with flags: `lineage index --help` lists them.",
        )


def choose(question: str, answers: Sequence[Answer]) -> str:
    """The value of one of the answers; the first is pointed at."""
    width = max(len(answer.value) for answer in answers) + 2
    choices = [
        questionary.Choice(f"{answer.value.capitalize():<{width}}{answer.meaning}", value=answer.value)
        for answer in answers
    ]
    asked = questionary.select(
        question, choices, qmark=MARK, pointer=POINTER, instruction=ARROWS, style=STYLE
    )
    chosen = str(_asked(asked))
    _settled(question, chosen.capitalize())
    return chosen


def confirm(question: str, *, usual: bool) -> bool:
    """Yes or no; Enter alone takes the usual one."""
    said = bool(_asked(questionary.confirm(question, default=usual, qmark=MARK, style=STYLE)))
    _settled(question, "Yes" if said else "No")
    return said


def typed(question: str, otherwise: str, read: Callable[[str], Any]) -> Any:
    """What `read` makes of what is typed; its ValueError is shown until the text is one it takes."""

    def verdict(text: str) -> bool | str:
        try:
            read(text)
        except ValueError as error:
            return str(error)
        return True

    hint = f"(Enter: {otherwise})"
    asked = questionary.text(question, validate=verdict, qmark=MARK, instruction=hint, style=STYLE)
    _keep_together(asked.application)
    text = str(_asked(asked)).strip()
    _settled(question, text or otherwise)
    return read(text)


def _keep_together(application: Application[Any]) -> None:
    """Show a refusal under the question; it would stand on the screen's last line, with nothing in between."""
    for window in application.layout.find_all_windows():
        if isinstance(window.content, BufferControl):
            window.dont_extend_height = Always()


def _asked(question: questionary.Question) -> Any:
    application = question.application
    application.ttimeoutlen = ESCAPE_SECONDS
    application.erase_when_done = True
    application.key_bindings = merge_key_bindings([application.key_bindings or KeyBindings(), _escape()])
    try:
        return question.unsafe_ask()
    except (KeyboardInterrupt, EOFError) as error:
        raise Cancelled from error


def _settled(question: str, answer: str) -> None:
    """The question with its answer, and without all that could have been answered."""
    asked = question if question.endswith("?") else f"{question}:"
    line = [("class:settled", DONE), ("class:question", f" {asked} "), ("class:answer", answer)]
    print_formatted_text(FormattedText(line), style=STYLE)


def _escape() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add(Keys.Escape, eager=True)
    def _(event: KeyPressEvent) -> None:
        event.app.exit(exception=KeyboardInterrupt, style="class:aborting")

    return bindings


def guided(path: Path, given: Flags) -> None:
    """Ask what to do with the index of the repository at `path`, then do it; `given` flags are ignored, and said so."""
    check_terminal()
    repository = open_repository(path)
    if repository.head() is None:
        raise NothingToIndex(repository.root)
    answers, cannot = offered([*EmbedProvider], providers.built_in())
    always = knobs(answers)
    _warn_of(options(given, (*always, *ADVANCED)))
    _, stands = index_status.of_path(path, config.read().home)
    _say(_heading(repository.root, stands))
    flags = _answered(always, cannot)
    _say(f"\nThe same without questions:\n\n    {command(path, flags, (*always, *ADVANCED))}\n")
    _confirm(flags, repository.root, stands)
    index(path, flags)


def _answered(always: tuple[Knob, ...], cannot: tuple[str, ...]) -> Flags:
    mode = Mode(choose("What is to be done?", MODES))
    said: dict[str, Any] = dict(mode.fields)
    if cannot:
        _say(f"  Not offered, because this build cannot run them: {', '.join(cannot)}.")
    said |= {knob.field: _ask(knob) for knob in always}
    if confirm("Set more: threads, processes, batches, output?", usual=False):
        said |= {knob.field: _ask(knob) for knob in ADVANCED}
    return Flags(**said)


def _ask(knob: Knob) -> Any:
    match knob.answer:
        case Number(_, otherwise) as number:
            return typed(knob.question, otherwise, lambda text: read_number(text, number))
        case Switch(usual):
            return confirm(knob.question, usual=usual)
        case Choice() as choice:
            return choice.value(choose(knob.question, choice.offered))


def _confirm(flags: Flags, root: Path, stands: Standing) -> None:
    if not confirm("Run it?", usual=not flags.rebuild):
        raise Cancelled
    if not flags.rebuild:
        return
    lost = f"{stands.commits:,} commits" if stands.commits else "whatever it holds"
    question = f"Really delete the index of {visible(root.name)} ({lost}) and make it anew?"
    if not confirm(question, usual=False):
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
