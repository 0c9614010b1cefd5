"""A request and the query text inside it -> what the lanes are asked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pipeline.survey.roles import Role
from pipeline.text import words
from serve.answers import QueryProfile
from serve.envelope import clamped
from serve.errors import BadRequest
from serve.find import hints, intent
from serve.find.hints import LANGUAGES, NOTHING_HERE, Here, Hints
from serve.find.intent import Intent, Profile, Reading
from serve.find.moments import moment, said
from serve.find.paths import literal, rooted
from serve.find.wording import asked_for
from serve.questions import FindRequest
from stores.filters import BadPathFilter, Where, path_regex


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


def read(request: FindRequest, now: datetime, here: Here) -> Query:
    """Take a request apart, as it is asked of what is here."""
    asked = _asked(request, now, here)
    found = hints.read(request.text, now, here)
    reading = intent.read(request.text)
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
