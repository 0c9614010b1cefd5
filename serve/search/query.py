"""What kind of precedent a query asks for, and of which files, told by cue words, and what follows from it.

A path filter as people type it, or their shell completes it -> a pattern that counts from the repository's root.

A request and the query text inside it -> what the lanes are asked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Final

from pipeline.file_roles import Role
from pipeline.text import words
from serve.api_types import FindRequest, QueryProfile
from serve.errors import BadRequest
from serve.index_status import clamped
from serve.search import query_hints
from serve.search.query_hints import LANGUAGES, NOTHING_HERE, Here, Hints, asked_for, moment, said
from stores.filters import BadPathFilter, Where, path_regex


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


def classify_intent(text: str) -> Reading:
    """The kind with the most cues in the text."""
    found = {intent: _cues(pattern, text.lower()) for intent, pattern in CUES.items()}
    intent = max(found, key=lambda kind: len(found[kind]))
    roles = frozenset(role for role, pattern in ROLES.items() if pattern.search(text.lower()))
    return Reading(intent if found[intent] else Intent.UNKNOWN, found[intent], roles)


def _cues(pattern: re.Pattern[str], text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(match.group() for match in pattern.finditer(text)))


FROM_THE_ROOT: Final = (
    "Patterns count from the repository's root: `src/`, `/docs`, `*.py`. Without one, all of it is searched."
)


def literal(path: str) -> str:
    """A gitignore pattern of the path itself, whatever signs are in it."""
    return "".join(f"\\{sign}" if sign in "*?[]!#\\" else sign for sign in path)


def rooted(pattern: str, root: Path | None, holds: Callable[[str], bool]) -> str:
    """The pattern without a leading `./`; a path into the work tree at `root` as a pattern of what lies there.

    `holds` says whether the history has a path. Without a root nothing is known of absolute paths, and they stay.
    """
    plain = pattern
    while plain.startswith("./"):
        plain = plain[2:].lstrip("/")
    if plain in ("", ".") or ".." in plain.split("/"):
        raise _refused(pattern)
    # As an answer shows a path that is no text: its escapes are no pattern's.
    if "\\x" in plain and holds(plain):
        return literal(plain)
    # A pattern may begin with a slash too. A null byte is in no path that the system could be asked about.
    if root is None or not plain.startswith("/") or "\0" in plain:
        return plain
    return _inside(plain, root, holds)


def _inside(pattern: str, root: Path, holds: Callable[[str], bool]) -> str:
    """What a pattern with a slash in front means: a path of this machine in the work tree, else one of the tree."""
    path, in_tree = Path(pattern), root / pattern.lstrip("/")
    if not os.path.lexists(path) and os.path.lexists(in_tree):
        return pattern
    for spelled in (path, Path(os.path.realpath(path))):
        if spelled.is_relative_to(root):
            return _from(root, spelled, pattern)
    # Of one part, it is more likely a folder that every machine has, and the history too: `/lib`, `/src`.
    elsewhere = len(path.parts) > len(("/", "lib")) and os.path.lexists(path) and not os.path.lexists(in_tree)
    if elsewhere and not holds(pattern.strip("/")):
        raise _refused(pattern)
    return pattern


def _from(root: Path, path: Path, pattern: str) -> str:
    rest = path.relative_to(root).as_posix()
    if rest == ".":
        raise _refused(pattern)
    if os.path.lexists(path):  # as a shell completes it: no sign of it is meant as a pattern
        rest = literal(rest)
    return f"/{rest}/" if pattern.endswith("/") else f"/{rest}"


def _refused(pattern: str) -> BadRequest:
    return BadRequest(f"{pattern!r:.200} names nothing inside the repository.", hint=FROM_THE_ROOT)


@dataclass(frozen=True, slots=True)
class Query:
    """What the lanes are asked.

    `text` is what the encoder and the cross-encoder read, `terms` what the full-text lanes look up, `symbols` the
    names meant literally, `roles` what is asked for beside the program itself, `k` the number of commits wanted, `now`
    the moment ages count from.
    """

    text: str
    terms: tuple[str, ...]
    symbols: tuple[str, ...]
    where: Where
    intent: Intent
    roles: frozenset[Role]
    profile: Profile
    explained: QueryProfile
    k: int
    now: datetime


def parse_query(request: FindRequest, now: datetime, here: Here) -> Query:
    """Take a request apart, as it is asked of what is here."""
    asked = _asked(request, now, here)
    found = query_hints.read(request.text, now, here)
    reading = classify_intent(request.text)
    text = asked_for(found.text)
    where = Where(
        language=asked.language or found.language,
        since=asked.since or found.since,
        path=asked.path,
        author=asked.author,
        near=tuple(_near(path) for path in found.paths),
    )
    return Query(
        text=text,
        terms=tuple(words(text)),
        symbols=found.symbols,
        where=where,
        intent=reading.intent,
        roles=reading.roles,
        profile=reading.profile,
        explained=QueryProfile(reading.intent.value, _explanation(reading, found, asked)),
        k=clamped(request.k),
        now=now,
    )


def check(request: FindRequest, now: datetime) -> None:
    """Refuse a request that cannot be answered by any index, before one is opened."""
    if not request.text.strip():
        raise BadRequest("The query is empty.", hint="Say in a few words what you are looking for.")
    _asked(request, now, NOTHING_HERE)


def _asked(request: FindRequest, now: datetime, here: Here) -> Where:
    """The filters a person set; they win over those read from the query's text."""
    for name, value in (("language", request.language), ("path", request.path), ("author", request.author)):
        if value is not None and not value.strip():
            raise BadRequest(f"The {name} filter is empty.", hint="Leave it out, or give it a value.")
    return Where(
        language=_language(request.language) if request.language else None,
        since=moment(request.since, now) if request.since is not None else None,
        path=_checked(rooted(request.path, here.root, here.holds)) if request.path is not None else None,
        author=request.author.strip() if request.author else None,
    )


def _language(name: str) -> str:
    """A language as the index names it: `Py`, `.py` and `python` are one."""
    plain = name.strip().lower()
    return LANGUAGES.get(plain.removeprefix("."), plain)


def _checked(pattern: str) -> str:
    try:
        path_regex(pattern)
    except BadPathFilter as error:
        raise BadRequest(error.message, hint=error.hint) from error
    return pattern


def _near(path: str) -> str:
    """A gitignore pattern for a path token, wherever in the tree its folder begins."""
    return f"**/{literal(path).lstrip('/')}"


def _explanation(reading: Reading, found: Hints, asked: Where) -> str:
    why = f"cue words {', '.join(reading.cues)}" if reading.cues else "no cue words"
    read_out = {
        "language": found.language if not asked.language else None,
        "since": said(found.since) if found.since and not asked.since else None,
        "paths preferred": ", ".join(found.paths),
        "names meant literally": ", ".join(found.symbols),
    }
    found_out = "; ".join(f"{what}: {value}" for what, value in read_out.items() if value)
    return f"{why}; {reading.profile.effect}" + (f"; read from the query: {found_out}" if found_out else "")
