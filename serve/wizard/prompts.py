"""Questions at a terminal. Whatever is asked, Esc and Ctrl-C mean: nothing is to be done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
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

from serve.errors import BadRequest, Cancelled
from serve.wizard.knobs import Answer

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
