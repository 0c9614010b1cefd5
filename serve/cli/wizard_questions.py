"""What the wizard asks: for each flag its question, what may be answered, what it means; tables only.

A new knob is one entry: the command, the questions and their tests follow it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from pipeline.options import EmbedCache, Encoding
from serve.cli.options import EmbedProvider, Resources

# The answer that leaves something alone.
ALONE: Final = "unchanged"


class Mode(StrEnum):
    """How a run deals with the index that is there."""

    STANDARD = "standard"
    INCREMENTAL = "incremental"
    FORCE = "force"
    REBUILD = "rebuild"

    @property
    def fields(self) -> dict[str, bool]:
        """The fields of `Flags` that say so."""
        confirmed = {"yes": True} if self is Mode.REBUILD else {}
        return {} if self is Mode.STANDARD else {self.value: True} | confirmed


@dataclass(frozen=True, slots=True)
class Answer:
    """One of the answers to a choice: its value, and a few words on what it means."""

    value: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number from `least` on; nothing leaves it to `otherwise`."""

    least: int
    otherwise: str


@dataclass(frozen=True, slots=True)
class Switch:
    """Yes or no; `usual` is what it is without the flag."""

    usual: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several, of which `make` makes the value.

    Without the flag it is the first of them; or, where `alone` says what that means, none of them.
    """

    answers: tuple[Answer, ...]
    make: Callable[[str], Any]
    alone: str | None = None

    @property
    def offered(self) -> tuple[Answer, ...]:
        """The answers, before them to leave it alone where that is one of its own."""
        return self.answers if self.alone is None else (Answer(ALONE, self.alone), *self.answers)

    def value(self, answer: str) -> Any:
        """What an answer stands for; None for leaving it alone."""
        return None if answer == ALONE else self.make(answer)


@dataclass(frozen=True, slots=True)
class Knob:
    """A field of `Flags`, its flag on the command line, and its question.

    `flag` stands alone where the answer is a switch's unusual one; else the answer follows it.
    """

    field: str
    flag: str
    question: str
    answer: Number | Switch | Choice


MODES: Final = (
    Answer(Mode.STANDARD, "take up what is new; the first time, the whole history"),
    Answer(Mode.INCREMENTAL, "the same, and nothing at all when HEAD is indexed: what the hooks run"),
    Answer(Mode.FORCE, "extract HEAD's symbols anew; commits, hunks and vectors stay"),
    Answer(Mode.REBUILD, "delete the whole index of this repository and make it anew"),
)
MEANINGS: Final = {
    EmbedProvider.AUTO: "cuda where CUDA_VISIBLE_DEVICES names devices, else what this build has",
    EmbedProvider.CPU: "the bundled 8-bit model; runs everywhere",
    "coreml": "Apple's accelerators; the first run prepares a model for them",
    "cuda": "an NVIDIA GPU",
}
RESOURCES: Final = Choice(
    (
        Answer(Resources.AUTO, "what fits the number of processors"),
        Answer(Resources.CONSERVATIVE, "half of that: leaves the machine to other work"),
        Answer(Resources.AGGRESSIVE, "twice as many threads: where nothing else runs"),
    ),
    Resources,
)

CACHES: Final = Choice(
    (
        Answer(EmbedCache.OFF, "keep none"),
        Answer(EmbedCache.SEMANTIC, "found again by message and diff; what is embedded stays as it is"),
        Answer(EmbedCache.DIFF, "by the diff, which alone is embedded then; to and from it takes a rebuild"),
    ),
    EmbedCache,
    alone="as the index has it, off at first",
)

ENCODERS: Final = Choice(
    (
        Answer(Encoding.MINILM, "reads sentences: finds most"),
        Answer(Encoding.STATIC, "adds up words: indexes in a fraction of the time, and finds less"),
    ),
    Encoding,
    alone="as the index has it, minilm at first; to another takes a rebuild",
)

# Asked one after the other when somebody wants to see them.
ADVANCED: Final = (
    Knob("threads", "--threads", "Encoder threads (0: the runtime decides)", Number(0, "from resources")),
    Knob("workers", "--workers", "Processes that read commits (1: none but this)", Number(1, "all CPUs")),
    Knob("commit_batch", "--commit-batch", "Commits per transaction", Number(1, "from resources")),
    Knob("embed_batch", "--embed-batch", "Texts embedded at a time", Number(1, "all of a transaction's")),
    Knob("encoder", "--encoder", "What makes vectors?", ENCODERS),
    Knob("embed_cache", "--embed-cache", "Keep vectors for a rebuild?", CACHES),
    Knob("progress", "--no-progress", "Draw a progress bar?", Switch(True)),
    Knob("profile", "--profile", "Print the timings as a line of JSON at the end?", Switch(False)),
)


def offered(known: Sequence[str], built_in: Collection[str]) -> tuple[tuple[Answer, ...], tuple[str, ...]]:
    """The providers that this build can run, to choose from, and those that it cannot."""
    can = [name for name in known if name == EmbedProvider.AUTO or name in built_in]
    return tuple(Answer(name, MEANINGS[name]) for name in can), tuple(
        name for name in known if name not in can
    )


def knobs(providers: tuple[Answer, ...]) -> tuple[Knob, ...]:
    """What is always asked."""
    return (
        Knob("provider", "--embed-provider", "What runs the encoder?", Choice(providers, EmbedProvider)),
        Knob("resources", "--resources", "How much of the machine may it take?", RESOURCES),
    )


def read_number(text: str, number: Number) -> int | None:
    """What was typed; None for nothing. ValueError, with what to type instead, for anything else."""
    if not text.strip():
        return None
    # Not int() alone, which takes `1_000`, and digits of every script.
    if text.strip().isascii() and text.strip().isdigit() and int(text) >= number.least:
        return int(text)
    raise ValueError(f"A whole number from {number.least} on, or nothing: {number.otherwise}.")


def differs(knob: Knob, value: Any) -> bool:
    """Whether a value says something that the command does not do anyway."""
    match knob.answer:
        case Number():
            return value is not None
        case Switch(usual):
            return bool(value) != usual
        case Choice(answers, _, alone):
            return value is not None if alone is not None else str(value) != answers[0].value
