"""Questions of the wizard: option, question text, allowed answers and their meanings.

A new option needs only an entry here: the dialog, the equivalent command and the tests iterate over the entries.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from pipeline.options import EmbedCacheMode, EmbedProvider, EncoderName, Resources

# Answer that leaves an option unset.
UNCHANGED: Final = "unchanged"


class Mode(StrEnum):
    """Mode of an index run: its treatment of an existing index."""

    STANDARD = "standard"
    INCREMENTAL = "incremental"
    FORCE = "force"
    REBUILD = "rebuild"

    @property
    def fields(self) -> dict[str, bool]:
        """Fields of `IndexOptions` that select this mode."""
        if self is Mode.STANDARD:
            return {}
        confirmation = {"yes": True} if self is Mode.REBUILD else {}
        return {self.value: True} | confirmation


@dataclass(frozen=True, slots=True)
class ChoiceOption:
    """Option of a choice: its value and a short explanation."""

    value: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Number:
    """Integer of at least `minimum`. `default_meaning`: what an empty answer means, in words."""

    minimum: int
    default_meaning: str


@dataclass(frozen=True, slots=True)
class Switch:
    """Yes or no; `default` is the value without the flag."""

    default: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """Choice among options. `parse` converts the value of an option to the value of the `IndexOptions` field.

    The default is the first option. With `unchanged_meaning`, the default is `UNCHANGED`, which sets the field to None;
    the text says what that means.
    """

    options: tuple[ChoiceOption, ...]
    parse: Callable[[str], Any]
    unchanged_meaning: str | None = None

    @property
    def all_options(self) -> tuple[ChoiceOption, ...]:
        """All options to show. The first one is `UNCHANGED` if there is an `unchanged_meaning`."""
        if self.unchanged_meaning is None:
            return self.options
        return (ChoiceOption(UNCHANGED, self.unchanged_meaning), *self.options)

    def parse_answer(self, answer: str) -> Any:
        """Return the value of an answer; None for `UNCHANGED`."""
        return None if answer == UNCHANGED else self.parse(answer)


@dataclass(frozen=True, slots=True)
class WizardQuestion:
    """Field of `IndexOptions`, its command-line flag, its question and the kind of its answer.

    The flag of a `Switch` selects the non-default answer; other flags are followed by the answer.
    """

    field: str
    flag: str
    question: str
    answer: Number | Switch | Choice


MODE_OPTIONS: Final = (
    ChoiceOption(Mode.STANDARD, "index the new commits; the first time, the full history"),
    ChoiceOption(Mode.INCREMENTAL, "like standard, but do nothing if the index is at HEAD; used by hooks"),
    ChoiceOption(Mode.FORCE, "also extract all HEAD symbols and outdated ones again; vectors stay"),
    ChoiceOption(Mode.REBUILD, "delete the index of this repository and build a new one"),
)
PROVIDER_MEANINGS: Final = {
    EmbedProvider.AUTO: "cuda if CUDA_VISIBLE_DEVICES names a device, else coreml or cpu",
    EmbedProvider.CPU: "the bundled 8-bit model; runs everywhere",
    EmbedProvider.COREML: "Apple accelerators; the first run prepares a model for them",
    EmbedProvider.CUDA: "an NVIDIA GPU",
}
RESOURCE_CHOICE: Final = Choice(
    (
        ChoiceOption(Resources.AUTO, "suits the number of CPUs"),
        ChoiceOption(Resources.CONSERVATIVE, "half of that: leaves CPUs to other programs"),
        ChoiceOption(Resources.AGGRESSIVE, "twice as many threads: for a machine that runs nothing else"),
    ),
    Resources,
)

CACHE_CHOICE: Final = Choice(
    (
        ChoiceOption(EmbedCacheMode.OFF, "keep no vectors"),
        ChoiceOption(EmbedCacheMode.SEMANTIC, "reuse a vector if message and diff are equal"),
        ChoiceOption(EmbedCacheMode.DIFF, "embed and compare only the diff; requires a rebuild"),
    ),
    EmbedCacheMode,
    unchanged_meaning="the index's setting, or off",
)

ENCODER_CHOICE: Final = Choice(
    (
        ChoiceOption(EncoderName.MINILM, "sentence encoder: best recall"),
        ChoiceOption(EncoderName.STATIC, "word table: several times faster, lower recall"),
    ),
    EncoderName,
    unchanged_meaning="the index's encoder, or minilm; changing it requires a rebuild",
)

# Asked only if the user wants to set more options.
ADVANCED_QUESTIONS: Final = (
    WizardQuestion(
        "threads", "--threads", "Encoder threads (0: one for each CPU)", Number(0, "from resources")
    ),
    WizardQuestion(
        "workers",
        "--workers",
        "Processes that read commits (1: only this process)",
        Number(1, "number of CPUs"),
    ),
    WizardQuestion("commit_batch", "--commit-batch", "Commits per transaction", Number(1, "from resources")),
    WizardQuestion(
        "embed_batch", "--embed-batch", "Texts per encoder call", Number(1, "16, or 512 with a GPU")
    ),
    WizardQuestion("encoder", "--encoder", "Which embedding model?", ENCODER_CHOICE),
    WizardQuestion("embed_cache", "--embed-cache", "Keep vectors for a rebuild?", CACHE_CHOICE),
    WizardQuestion("show_progress", "--no-progress", "Show a progress bar?", Switch(True)),
    WizardQuestion("profile", "--profile", "Print the timings as a JSON line at the end?", Switch(False)),
)


def split_providers(
    providers: Sequence[EmbedProvider], built_in: Collection[str]
) -> tuple[tuple[ChoiceOption, ...], tuple[str, ...]]:
    """Return the providers that this build can run, as options, and the names of the others.

    `built_in`: names of the providers that the installed ONNX Runtime includes.
    """
    available = [name for name in providers if name is EmbedProvider.AUTO or name in built_in]
    options = tuple(ChoiceOption(name, PROVIDER_MEANINGS[name]) for name in available)
    return options, tuple(name for name in providers if name not in available)


def build_basic_questions(providers: tuple[ChoiceOption, ...]) -> tuple[WizardQuestion, ...]:
    """Return the questions that are always asked."""
    return (
        WizardQuestion(
            "embed_provider",
            "--embed-provider",
            "What should run the encoder?",
            Choice(providers, EmbedProvider),
        ),
        WizardQuestion(
            "resources", "--resources", "How much of the machine may the run use?", RESOURCE_CHOICE
        ),
    )


def parse_number(text: str, number: Number) -> int | None:
    """Parse a typed number. Return None for an empty text. Raise ValueError with the allowed input if it is invalid."""
    if not text.strip():
        return None
    # int() alone would accept `1_000` and digits of other scripts.
    if text.strip().isascii() and text.strip().isdigit() and int(text) >= number.minimum:
        return int(text)
    raise ValueError(
        f"Enter a whole number from {number.minimum}, or nothing for the default: {number.default_meaning}."
    )


def is_non_default(question: WizardQuestion, value: Any) -> bool:
    """Check whether a value differs from the default of the command."""
    match question.answer:
        case Number():
            return value is not None
        case Switch(default):
            return bool(value) != default
        case Choice(options, _, unchanged_meaning):
            return value is not None if unchanged_meaning is not None else str(value) != options[0].value
