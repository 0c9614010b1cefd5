"""What kind of precedent a query asks for, and of which files, told by cue words, and what follows from it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from pipeline.survey.roles import Role


class Intent(Enum):
    """The kinds of question."""

    BUG_FIX = "BugFixPrecedent"
    CONFIGURATION = "Configuration"
    API_USAGE = "ApiUsage"
    IMPLEMENTATION = "ImplementationPattern"
    UNKNOWN = "Unknown"


# Candidates that fusion hands on, and the weight of a commit's age: the specification's. Of what 120 graded questions
# ask for these hold 54 %, twice as many 63 %, and with the 30 commits whose messages are nearest 67 %; but the ranker
# puts hardly more of it first: nDCG@10 0.452, 0.455, 0.460; on 142 other questions 0.514, with messages 0.509.
CANDIDATES: Final = 50
RECENCY: Final = 0.05
# A call is found in more wordings than a change: twice the candidates let the reranker see them.
API_CANDIDATES: Final = 100
# The specification's: old bugs were fixed in code that is gone.
BUG_FIX_RECENCY: Final = 1.5


@dataclass(frozen=True, slots=True)
class Profile:
    """How a kind of question is answered.

    `symbols` whether the symbol-name lane runs; `candidates` how many hunks fusion hands on; `recency` the
    weight of a commit's age; `effect` the sentence that says so.
    """

    symbols: bool = True
    candidates: int = CANDIDATES
    recency: float = RECENCY
    effect: str = "default lanes and weights"


PROFILES: Final = {
    Intent.BUG_FIX: Profile(
        recency=RECENCY * BUG_FIX_RECENCY, effect="recent commits weigh 1.5 times as much"
    ),
    Intent.CONFIGURATION: Profile(symbols=False, effect="the symbol-name lane is off"),
    Intent.API_USAGE: Profile(candidates=API_CANDIDATES, effect="more candidates are considered"),
    Intent.IMPLEMENTATION: Profile(),
    Intent.UNKNOWN: Profile(),
}


def _any_of(cues: str) -> re.Pattern[str]:
    """Cue words parted by commas; a star stands for the rest of a word."""
    patterns = (re.escape(cue.strip()).replace(r"\*", r"\w*") for cue in cues.split(","))
    return re.compile(rf"\b(?:{'|'.join(patterns)})(?!\w)")


# Checked in this order where two kinds have equally many cues: the more specific kind first.
CUES: Final = {
    Intent.BUG_FIX: _any_of(
        "bug*, fix, fixes, fixed, fixing, crash*, break, breaks, broken, error*, exception, exceptions, fail, fails,"
        "failed, failing, failure*, leak*, deadlock*, race, races, race condition*, hang, hangs, hanging, panic*,"
        "segfault*, regress*, wrong*, incorrect*, issue, issues, problem*, workaround*, flaky, corrupt*, overflow*"
    ),
    Intent.CONFIGURATION: _any_of(
        "config*, setting, settings, ci, workflow*, pipeline*, dependenc*, lockfile*, lint*, formatter, toml, yaml,"
        "yml, ini, docker*, makefile, cmake, env var*, environment variable*, package, packaging, bump*, pin, pins,"
        "pinned, pinning, pre-commit, tox, github action*, build system, compiler flag*, feature flag*"
    ),
    Intent.API_USAGE: _any_of(
        "how to use, how to call, how do we use, how do we call, how do i use, how do i call, how is it used, use of,"
        "uses of, used by, usage*, using, caller*, call to, calls to, calling, call site*, invok*, example of,"
        "examples of, api"
    ),
    Intent.IMPLEMENTATION: _any_of(
        "implement*, add, adds, added, adding, introduc*, support*, creat*, refactor*, pattern*, design*, handl*,"
        "migrat*, replac*, rewr*, extract*, split*, how did, how do, how does, how is, how was, how were, how are,"
        "how has, how have, where did, where do, where does, where is, where was, where are"
    ),
}


# What a question asks to see beside the program itself, where code could be shown. "For testing" says what the code is
# for, not where it is.
ROLES: Final[dict[Role, re.Pattern[str]]] = {
    "tests": _any_of(
        "test, tests, tested, unit testing, unittest*, pytest, fixture*, coverage, spec, specs, benchmark*"
    ),
    "prose": _any_of(
        "doc, docs, document, documents, documented, documenting, documentation, readme, changelog*, change log*,"
        "changes for, release note*, news, guide*, tutorial*, typo, typos, spelling, license, licence"
    ),
    "other": CUES[Intent.CONFIGURATION],
}


@dataclass(frozen=True, slots=True)
class Reading:
    """An intent and the cues that gave it; `roles` are what beside the program itself is asked for."""

    intent: Intent
    cues: tuple[str, ...]
    roles: frozenset[Role]

    @property
    def profile(self) -> Profile:
        """What follows from the intent."""
        return PROFILES[self.intent]


def read(text: str) -> Reading:
    """The kind with the most cues in the text."""
    found = {intent: _cues(pattern, text.lower()) for intent, pattern in CUES.items()}
    intent = max(found, key=lambda kind: len(found[kind]))
    roles = frozenset(role for role, pattern in ROLES.items() if pattern.search(text.lower()))
    return Reading(intent if found[intent] else Intent.UNKNOWN, found[intent], roles)


def _cues(pattern: re.Pattern[str], text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(match.group() for match in pattern.finditer(text)))
