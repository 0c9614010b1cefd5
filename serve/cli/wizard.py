"""Command `lineage index -i`: a dialog that asks for the options, shows the equivalent command and runs it.

Esc or Ctrl-C at any question cancels the dialog, and nothing is indexed.
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
from pipeline.git.repository import open_repository
from pipeline.options import EmbedProvider
from serve import config, index_status
from serve.cli.index import IndexOptions, run_index_command
from serve.cli.terminal import print_warning
from serve.cli.wizard_questions import (
    ADVANCED_QUESTIONS,
    MODE_OPTIONS,
    Choice,
    ChoiceOption,
    Mode,
    Number,
    Switch,
    WizardQuestion,
    build_basic_questions,
    is_non_default,
    parse_number,
    split_providers,
)
from serve.errors import BadRequest, Cancelled
from serve.index_status import IndexStatus
from serve.text import escape_controls, escape_line, format_commit_count, format_path_arguments

# Time to wait for more bytes after Esc. An arrow key sends Esc and two more bytes, on a slow line within 50 ms.
ESCAPE_SECONDS: Final = 0.15
# ANSI colors, so that the terminal's theme keeps them readable on a light or dark background.
STYLE: Final = Style(
    [
        ("qmark", "fg:ansicyan bold"),
        ("check-mark", "fg:ansigreen"),
        ("question", "bold"),
        ("answer", "fg:ansicyan"),
        ("pointer", "fg:ansicyan bold"),
        ("highlighted", "fg:ansicyan"),
        ("instruction", "fg:ansibrightblack"),
        ("validation-toolbar", "noreverse fg:ansired"),
    ]
)
QUESTION_MARK: Final = "?"
CHECK_MARK: Final = "✓"
POINTER: Final = "›"  # noqa: RUF001 - an arrow on purpose
SELECT_HINT: Final = "(arrow keys, Enter)"
# Options of `lineage index` that the wizard does not ask for: the field of `IndexOptions`, and how to call it.
UNASKED_OPTIONS: Final = {
    "skip_vectors": "--skip-vectors",
    "vector_index": "--vector-index",
    "scheduler": "--scheduler",
    "branch_patterns": "branches",
    "head_only": "--head-only",
}


def run_wizard(path: Path, ignored_options: IndexOptions) -> None:
    """Ask for the options of an index run of the repository at `path`, then run it.

    `ignored_options`: options given on the command line. A warning lists those that the wizard asks for. Raises
    BadRequest if there are others.
    """
    check_terminal()
    _check_unasked(ignored_options)
    repository = open_repository(path)
    if repository.read_head() is None:
        raise repository.build_head_error()
    provider_options, unavailable_providers = split_providers(
        [*EmbedProvider], providers.list_built_in_providers()
    )
    basic_questions = build_basic_questions(provider_options)
    all_questions = (*basic_questions, *ADVANCED_QUESTIONS)
    _warn_ignored(format_option_arguments(ignored_options, all_questions))
    _, status = index_status.load_status_at_path(path, config.load_settings().home)
    _print(_format_heading(repository.root, status))
    options = _ask_options(basic_questions, unavailable_providers)
    _print(
        f"\nThe same without questions:\n\n    {format_equivalent_command(path, options, all_questions)}\n"
    )
    _confirm_run(options, repository.root, status)
    run_index_command(path, options)


def check_terminal() -> None:
    """Raise BadRequest if there is no terminal to ask on."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadRequest(
            "-i asks questions and needs a terminal.",
            hint="Run it in a terminal, or use the options that `lineage index --help` lists.",
        )
    if is_dumb_terminal():
        raise BadRequest(
            "-i cannot show its questions on this terminal (TERM=dumb).",
            hint="Run it in another terminal, or use the options that `lineage index --help` lists.",
        )


def format_equivalent_command(path: Path, options: IndexOptions, questions: Sequence[WizardQuestion]) -> str:
    """Return the shell command for the index run. Options at their default are omitted."""
    return shlex.join(
        ["lineage", "index", *format_path_arguments(path), *format_option_arguments(options, questions)]
    )


def format_option_arguments(index_options: IndexOptions, questions: Sequence[WizardQuestion]) -> list[str]:
    """Return the command-line arguments for the options that are not at their default."""
    mode_flags = ("incremental", "force", "rebuild", "yes")
    arguments = [f"--{name}" for name in mode_flags if getattr(index_options, name)]
    for question in questions:
        arguments += _format_question_arguments(question, index_options)
    return arguments


def choose(question: str, options: Sequence[ChoiceOption]) -> str:
    """Ask for one of the options and return its value. The first one is preselected."""
    width = max(len(option.value) for option in options) + 2
    choices = [
        questionary.Choice(f"{option.value.capitalize():<{width}}{option.meaning}", value=option.value)
        for option in options
    ]
    prompt = questionary.select(
        question, choices, qmark=QUESTION_MARK, pointer=POINTER, instruction=SELECT_HINT, style=STYLE
    )
    value = str(_run_prompt(prompt))
    _print_question_and_answer(question, value.capitalize())
    return value


def confirm(question: str, *, default: bool) -> bool:
    """Ask a yes/no question. Enter alone chooses the default."""
    is_confirmed = bool(
        _run_prompt(questionary.confirm(question, default=default, qmark=QUESTION_MARK, style=STYLE))
    )
    _print_question_and_answer(question, "Yes" if is_confirmed else "No")
    return is_confirmed


def ask_text(question: str, default_meaning: str, parse: Callable[[str], Any]) -> Any:
    """Ask for a text until `parse` accepts it, and return the parsed value.

    `default_meaning`: what an empty answer means. `parse` raises ValueError with a message that is shown.
    """

    def validate(text: str) -> bool | str:
        try:
            parse(text)
        except ValueError as error:
            return str(error)
        return True

    instruction = f"(Enter: {default_meaning})"
    prompt = questionary.text(
        question, validate=validate, qmark=QUESTION_MARK, instruction=instruction, style=STYLE
    )
    _show_error_below_question(prompt.application)
    text = str(_run_prompt(prompt)).strip()
    _print_question_and_answer(question, text or default_meaning)
    return parse(text)


def _format_question_arguments(question: WizardQuestion, options: IndexOptions) -> Iterator[str]:
    value = getattr(options, question.field)
    if not is_non_default(question, value):
        return
    yield question.flag
    if not isinstance(question.answer, Switch):
        yield str(value)


def _ask_options(
    basic_questions: tuple[WizardQuestion, ...], unavailable_providers: tuple[str, ...]
) -> IndexOptions:
    """Ask for the options; for the advanced options only if the user agrees.

    `unavailable_providers`: names of the providers that this build cannot run.
    """
    mode = Mode(choose("What should be done?", MODE_OPTIONS))
    values: dict[str, Any] = dict(mode.fields)
    if unavailable_providers:
        _print(f"  Not available in this build: {', '.join(unavailable_providers)}.")
    values |= {question.field: _ask(question) for question in basic_questions}
    if confirm("Set more: threads, processes, batches, output?", default=False):
        values |= {question.field: _ask(question) for question in ADVANCED_QUESTIONS}
    return IndexOptions(**values)


def _ask(question: WizardQuestion) -> Any:
    match question.answer:
        case Number(_, default_meaning) as number:
            return ask_text(question.question, default_meaning, lambda text: parse_number(text, number))
        case Switch(default):
            return confirm(question.question, default=default)
        case Choice() as choice:
            return choice.parse_answer(choose(question.question, choice.all_options))


def _confirm_run(options: IndexOptions, root: Path, status: IndexStatus) -> None:
    if not confirm("Run it?", default=not options.rebuild):
        raise Cancelled
    if not options.rebuild:
        return
    lost_content = format_commit_count(status.commits) if status.commits else "all it contains"
    question = f"Really delete the index of {escape_line(root.name)} ({lost_content}) and build a new one?"
    if not confirm(question, default=False):
        raise Cancelled


def _format_heading(root: Path, status: IndexStatus) -> str:
    if status.last_indexed_commit is None:
        state = f"not indexed yet; {format_commit_count(status.commits_behind)} to index"
    else:
        state = f"{format_commit_count(status.commits)} indexed, {status.commits_behind:,} to index"
    return (
        f"Index {escape_line(str(root))}\n{state}\n"
        "Nothing happens before the last question. Esc or Ctrl-C cancels at any question.\n"
    )


def _check_unasked(options: IndexOptions) -> None:
    """Raise BadRequest if an option is set that the wizard does not ask for."""
    defaults = IndexOptions()
    unasked = [
        name for field, name in UNASKED_OPTIONS.items() if getattr(options, field) != getattr(defaults, field)
    ]
    if unasked:
        raise BadRequest(
            f"-i does not ask about {', '.join(unasked)}.", hint="Use `lineage index` without -i for this."
        )


def _warn_ignored(arguments: list[str]) -> None:
    if arguments:
        print_warning(f"-i asks for these options itself, so it ignores {' '.join(arguments)}.")


def _print(text: str) -> None:
    print(escape_controls(text), flush=True)  # noqa: T201 - part of the dialog


def _run_prompt(prompt: questionary.Question) -> Any:
    application = prompt.application
    application.ttimeoutlen = ESCAPE_SECONDS
    application.erase_when_done = True
    application.key_bindings = merge_key_bindings(
        [application.key_bindings or KeyBindings(), _create_escape_binding()]
    )
    try:
        return prompt.unsafe_ask()
    except (KeyboardInterrupt, EOFError) as error:
        raise Cancelled from error


def _show_error_below_question(application: Application[Any]) -> None:
    """Make the prompt show validation errors right below the question instead of on the last line of the screen."""
    for window in application.layout.find_all_windows():
        if isinstance(window.content, BufferControl):
            window.dont_extend_height = Always()


def _create_escape_binding() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add(Keys.Escape, eager=True)
    def _(event: KeyPressEvent) -> None:
        event.app.exit(exception=KeyboardInterrupt, style="class:aborting")

    return bindings


def _print_question_and_answer(question: str, answer: str) -> None:
    """Print the question with its answer, in place of the prompt and its options, which were erased."""
    label = question if question.endswith("?") else f"{question}:"
    line = [("class:check-mark", CHECK_MARK), ("class:question", f" {label} "), ("class:answer", answer)]
    print_formatted_text(FormattedText(line), style=STYLE)
