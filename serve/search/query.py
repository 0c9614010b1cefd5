"""Parsing of a search request into a `Query`.

- `parse_query`: conversion of a request to query text, filters and retrieval profile.
- `classify_intent`: choice of the intent (bug fix, API usage, ...) by cue words. Each intent has a retrieval profile.
- `find_requested_change`: check whether a question asks for the commit that introduced or removed something.
- `normalize_path_filter`: conversion of a path filter, as typed or completed by a shell, to a gitignore pattern.

A hunk is the diff of one file in one commit. A lane is one retriever's ranking of the hunks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Final

from pipeline.file_classification import FileRole
from pipeline.text import count_terms
from serve.api_types import clamp_limit
from serve.errors import BadRequest
from serve.find_types import (
    ABSENT_LANGUAGES_LABEL,
    DEFAULT_RETRIEVAL,
    HINTS_LABEL,
    FindRequest,
    QueryProfile,
)
from serve.search.query_hints import (
    EMPTY_CONTEXT,
    FUNCTION_WORDS,
    LANGUAGES,
    Hints,
    RepositoryContext,
    format_date,
    parse_date,
    parse_hints,
    strip_question_phrases,
)
from stores.filters import BadPathFilter, QueryFilter, QuotedSymbol, translate_path_pattern


@dataclass(frozen=True, slots=True)
class Query:
    """Parsed search request.

    - `text`: text for the encoder and the cross-encoder. `terms`: its stemmed words, for the full-text lanes.
    - `symbols`: names that the query quotes. `roles`: file roles that the query asks for besides source code.
    - `retrieval_profile`: parameters of the search. `query_profile`: intent and hints, explained to the user.
    - `k`: number of commits to return.
    - `now`: current time, to compute the ages of commits.
    - `is_question`: True if the query has function words, so it is a question or sentence, not a list of words.
    - `requested_change`: ORIGIN or REMOVAL if the query asks when something was introduced or removed, else None.
    - `referring_commits`: commits of the issues and pull requests that the query names: their message names such a
      number, or their pull request has it. Their hits come first.
    """

    text: str
    terms: tuple[str, ...]
    symbols: tuple[QuotedSymbol, ...]
    filters: QueryFilter
    intent: Intent
    roles: frozenset[FileRole]
    retrieval_profile: RetrievalProfile
    query_profile: QueryProfile
    k: int
    now: datetime
    is_question: bool = True
    requested_change: RequestedChange | None = None
    referring_commits: frozenset[str] = frozenset()

    @property
    def symbol_terms(self) -> tuple[str, ...]:
        """Stemmed words of the quoted names, without the names of enclosing symbols."""
        return tuple(count_terms(" ".join(symbol.name for symbol in self.symbols)))


def parse_query(request: FindRequest, now: datetime, context: RepositoryContext) -> Query:
    """Parse a request. Raises BadRequest.

    A language or path in the query's text is a hint only if the history has it, which `context` checks.
    """
    requested_filters = parse_filters(request, now, context)
    hints = parse_hints(request.text, now, context)
    classification = classify_intent(request.text)
    referring_commits = context.find_referring_commits(hints.numbers) if hints.numbers else frozenset()
    text = strip_question_phrases(hints.text)
    filters = QueryFilter(
        language=requested_filters.language or hints.language,
        since=requested_filters.since or hints.since,
        until=requested_filters.until,
        path=requested_filters.path,
        author=requested_filters.author,
        preferred_paths=tuple(_build_preferred_pattern(path) for path in hints.paths),
        release=hints.release,
        commit_range=context.commit_range,
    )
    return Query(
        text=text,
        terms=tuple(count_terms(text)),
        symbols=hints.symbols,
        filters=filters,
        intent=classification.intent,
        roles=classification.roles,
        retrieval_profile=classification.retrieval_profile,
        query_profile=_describe_profile(
            classification, hints, requested_filters, _describe_referring_commits(referring_commits, filters)
        ),
        k=clamp_limit(request.k),
        now=now,
        is_question=not FUNCTION_WORDS.isdisjoint(count_terms(request.text)),
        requested_change=classification.requested_change,
        referring_commits=referring_commits,
    )


def validate_request(request: FindRequest, now: datetime) -> None:
    """Check the text and the filters, without an index. Raises BadRequest."""
    if not request.text.strip():
        raise BadRequest("The query is empty.", hint="Describe in a few words what you are looking for.")
    parse_filters(request, now, EMPTY_CONTEXT)


def parse_filters(request: FindRequest, now: datetime, context: RepositoryContext) -> QueryFilter:
    """Return the filters set in the request, which override hints in the query's text. Raises BadRequest."""
    for name, value in (("language", request.language), ("path", request.path), ("author", request.author)):
        if value is not None and not value.strip():
            raise BadRequest(f"The {name} filter is empty.", hint="Omit it or give it a value.")
    since = parse_date(request.since, now) if request.since is not None else None
    until = parse_date(request.until, now) if request.until is not None else None
    # Without an end, only `now` itself is refused. A later start is allowed, because an author's clock may be wrong.
    if since and (since >= until if until else since == now):
        end = f"{request.until!r:.200}" if until else "now"
        raise BadRequest(
            f"The period has no commits: its start {request.since!r:.200} is not before its end, {end}.",
            hint="Give an earlier start or a later end.",
        )
    return QueryFilter(
        language=_normalize_language(request.language) if request.language else None,
        since=since,
        until=until,
        path=_check_pattern(normalize_path_filter(request.path, context.work_tree, context.has_path))
        if request.path is not None
        else None,
        author=request.author.strip() if request.author else None,
    )


def _normalize_language(name: str) -> str:
    """Return a language name as in the index: `Py`, `.py` and `python` all become `python`."""
    lower_name = name.strip().lower()
    return LANGUAGES.get(lower_name.removeprefix("."), lower_name)


def _check_pattern(pattern: str) -> str:
    try:
        translate_path_pattern(pattern)
    except BadPathFilter as error:
        raise BadRequest(error.message, hint=error.hint) from error
    return pattern


def _build_preferred_pattern(path: str) -> str:
    """Return a gitignore pattern that matches the path below any directory."""
    return f"**/{escape_pattern(path).lstrip('/')}"


def _describe_profile(
    classification: IntentClassification,
    hints: Hints,
    requested_filters: QueryFilter,
    commits_description: str,
) -> QueryProfile:
    """Describe the intent and the hints that were applied. Filters of the request override hints.

    `commits_description`: phrase about the commits of the issues and pull requests in `hints.numbers`.
    """
    applied_hints = {
        "language": hints.language if not requested_filters.language else None,
        "since": format_date(hints.since) if hints.since and not requested_filters.since else None,
        "first released in": hints.release.tag if hints.release else None,
        f"commits of {', '.join(hints.numbers)}": commits_description if hints.numbers else None,
        "paths preferred": ", ".join(hints.paths),
        "names meant literally": ", ".join(map(str, hints.symbols)),
    }
    explanation = classification.retrieval_profile.description
    if classification.cues:
        explanation = f"cue words {', '.join(classification.cues)}; {explanation}"
    elif not classification.requested_change:
        explanation = f"no cue words; {explanation}"
    if classification.requested_change:
        explanation += f"; {classification.requested_change.value}"
    if description := "; ".join(f"{name}: {value}" for name, value in applied_hints.items() if value):
        explanation += f"; {HINTS_LABEL}: {description}"
    if hints.absent_languages:
        explanation += f"; {ABSENT_LANGUAGES_LABEL}: {', '.join(hints.absent_languages)}"
    return QueryProfile(classification.intent.value, explanation)


class Intent(Enum):
    """Kind of question. The values are shown in answers."""

    BUG_FIX = "BugFixPrecedent"
    CONFIGURATION = "Configuration"
    API_USAGE = "ApiUsage"
    IMPLEMENTATION = "ImplementationPattern"
    UNKNOWN = "Unknown"


class RequestedChange(Enum):
    """Change that a question asks for, whatever its intent. The values are phrases for the user."""

    ORIGIN = "asks for an origin: commits whose subject mentions an addition are preferred, and recent commits are not"
    REMOVAL = "asks for a removal: commits that remove lines, or whose subject says so, are preferred"


# Number of hunks to rerank. More hunks hardly improve answers: see "How the reranker was trained" in serve/README.md.
DEFAULT_CANDIDATES: Final = 50
# Recency raises the score of a commit by at most this share of the score. Not tuned.
RECENCY_WEIGHT: Final = 0.05
# Number of hunks to rerank for API usage. It is larger than the default, because hunks that call a
# function are less alike than hunks that change it.
API_CANDIDATES: Final = 100
# For bug fixes, RECENCY_WEIGHT is multiplied by this: old fixes are often in code that no longer exists. Not tuned.
BUG_FIX_RECENCY_FACTOR: Final = 1.5


@dataclass(frozen=True, slots=True)
class RetrievalProfile:
    """Parameters of a search that depend on the kind of question.

    `uses_symbol_lane` is False if the lane of symbol names is off. `candidate_count` is the number of hunks to rerank.
    Recency raises the score of a commit by at most the share `recency_weight`. `description` is a phrase for the user.
    """

    uses_symbol_lane: bool = True
    candidate_count: int = DEFAULT_CANDIDATES
    recency_weight: float = RECENCY_WEIGHT
    description: str = DEFAULT_RETRIEVAL


PROFILES: Final = {
    Intent.BUG_FIX: RetrievalProfile(
        recency_weight=RECENCY_WEIGHT * BUG_FIX_RECENCY_FACTOR,
        description="recency counts 1.5 times as much",
    ),
    Intent.CONFIGURATION: RetrievalProfile(uses_symbol_lane=False, description="the symbol-name lane is off"),
    Intent.API_USAGE: RetrievalProfile(
        candidate_count=API_CANDIDATES, description="more candidates are considered"
    ),
    Intent.IMPLEMENTATION: RetrievalProfile(),
    Intent.UNKNOWN: RetrievalProfile(),
}


def _compile_cues(cues: str) -> re.Pattern[str]:
    """Compile comma-separated cue words into a pattern. `*` matches the rest of a word."""
    patterns = (re.escape(cue.strip()).replace(r"\*", r"\w*") for cue in cues.split(","))
    return re.compile(rf"\b(?:{'|'.join(patterns)})(?!\w)")


# If two intents have equally many cues in a text, the first in this order wins, because it is more specific.
CUES: Final = {
    Intent.BUG_FIX: _compile_cues(
        "bug*, fix, fixes, fixed, fixing, crash*, break, breaks, broken, error*, exception, exceptions, fail, fails,"
        "failed, failing, failure*, leak*, deadlock*, race, races, race condition*, hang, hangs, hanging, panic*,"
        "segfault*, regress*, wrong*, incorrect*, issue, issues, problem*, workaround*, flaky, corrupt*, overflow*"
    ),
    Intent.CONFIGURATION: _compile_cues(
        "config*, setting, settings, ci, workflow*, pipeline*, dependenc*, lockfile*, lint*, formatter, toml, yaml,"
        "yml, ini, docker*, makefile, cmake, env var*, environment variable*, package, packaging, bump*, pin, pins,"
        "pinned, pinning, pre-commit, tox, github action*, build system, compiler flag*, feature flag*"
    ),
    Intent.API_USAGE: _compile_cues(
        "how to use, how to call, how do we use, how do we call, how do i use, how do i call, how is it used, use of,"
        "uses of, used by, usage*, using, caller*, call to, calls to, calling, call site*, invok*, example of,"
        "examples of, api"
    ),
    Intent.IMPLEMENTATION: _compile_cues(
        "implement*, add, adds, added, adding, introduc*, support*, creat*, refactor*, pattern*, design*, handl*,"
        "migrat*, replac*, rewr*, extract*, split*, how did, how do, how does, how is, how was, how were, how are,"
        "how has, how have, where did, where do, where does, where is, where was, where are"
    ),
}


# "Removing" is no cue, because "adding and removing classes" names a feature. If both changes have equally many cues,
# the removal wins, as in "when was the original parser removed".
REQUESTED_CHANGE_CUES: Final = {
    RequestedChange.REMOVAL: _compile_cues(
        "remove, removes, removed, removal, drop, drops, dropped, delete, deletes, deleted, deletion, gone, no longer,"
        "go away, went away, get rid, got rid, disappear*, we used to, it used to, there used to, lose, lost, stop,"
        "taken out, thrown out"
    ),
    RequestedChange.ORIGIN: _compile_cues(
        "introduc*, first, since when, original*, origin, origins, come from, comes from, came from, start to,"
        "started to, begin, began, learn, learned, learnt, was added, were added, added first"
    ),
}
# "How do we remove a header?" asks for an instruction, so infinitives after "how do" are no cues.
_INSTRUCTION: Final = re.compile(r"\bhow (?:do|does|to|can|could|should)\b")
_INFINITIVES: Final = _compile_cues(
    "remove, drop, delete, stop, lose, get rid, go away, introduce, start to, begin, learn, come from"
)
# Matches a text in which "first" is a cue: at the start, or after the listed words. "Why does the first request fail?"
# and "which is the first line" do not ask for an origin.
_FIRST_IS_CUE: Final = re.compile(
    r"\W*first\b|.*\b(?:when\b.*|since\b.*|who\b.*|which\b.*(?<!the )|at )\bfirst\b", re.DOTALL
)
# Matches a question. In another text, the cues of a requested change count only if the text starts with one ("first
# selector that compares texts"). Otherwise they describe a result ("the test no longer fails").
_QUESTION: Final = re.compile(r"\W*(?:since|when|how|why|which|what|where|who)\b|.*\?\s*\Z", re.DOTALL)


# Cues of questions about files other than source code. "Testing" is no cue, because code can be "for testing".
ROLE_CUES: Final[dict[FileRole, re.Pattern[str]]] = {
    "tests": _compile_cues(
        "test, tests, tested, unit testing, unittest*, pytest, fixture*, coverage, spec, specs, benchmark*"
    ),
    "prose": _compile_cues(
        "doc, docs, document, documents, documented, documenting, documentation, readme, changelog*, change log*,"
        "changes for, release note*, news, guide*, tutorial*, typo, typos, spelling, license, licence"
    ),
    "other": CUES[Intent.CONFIGURATION],
}


@dataclass(frozen=True, slots=True)
class IntentClassification:
    """Intent of a question, and its cues. `roles`: file roles that the question asks for besides source code."""

    intent: Intent
    cues: tuple[str, ...]
    roles: frozenset[FileRole]
    requested_change: RequestedChange | None = None

    @property
    def retrieval_profile(self) -> RetrievalProfile:
        """Retrieval profile of the intent. If the question asks for an origin, recency has no weight."""
        profile = PROFILES[self.intent]
        is_origin = self.requested_change is RequestedChange.ORIGIN
        return replace(profile, recency_weight=0.0) if is_origin else profile


@lru_cache
def classify_intent(text: str) -> IntentClassification:
    """Return the intent with the most cues in the text (UNKNOWN without cues), file roles and requested change."""
    cues = {intent: _find_cues(pattern, text.lower()) for intent, pattern in CUES.items()}
    intent = max(cues, key=lambda intent: len(cues[intent]))
    roles = frozenset(role for role, pattern in ROLE_CUES.items() if pattern.search(text.lower()))
    change = find_requested_change(text)
    return IntentClassification(intent if cues[intent] else Intent.UNKNOWN, cues[intent], roles, change)


def find_requested_change(text: str) -> RequestedChange | None:
    """Return the requested change with the most cues in the text; None if the text has no such cues."""
    cue_text = text.strip().lower()
    allows_cues_anywhere = _QUESTION.match(cue_text) is not None
    if not _FIRST_IS_CUE.match(cue_text):
        cue_text = re.sub(r"\bfirst\b", "", cue_text)
    if instruction := _INSTRUCTION.search(cue_text):
        end = instruction.end()
        cue_text = cue_text[:end] + _INFINITIVES.sub("", cue_text[end:])
    counts = {
        change: len(_find_cues(pattern, cue_text)) if allows_cues_anywhere or pattern.match(cue_text) else 0
        for change, pattern in REQUESTED_CHANGE_CUES.items()
    }
    change = max(counts, key=lambda change: counts[change])
    return change if counts[change] else None


def _describe_referring_commits(commits: Collection[str], filters: QueryFilter) -> str:
    """Return a phrase about the commits of the issues and pull requests that a query names."""
    if not commits:
        return "none"
    return "shown first if they pass the filters" if filters.has_conditions else "shown first"


def _find_cues(pattern: re.Pattern[str], text: str) -> tuple[str, ...]:
    """Return the distinct cues in the text."""
    return tuple(dict.fromkeys(match.group() for match in pattern.finditer(text)))


PATH_FILTER_HINT: Final = (
    "Give a pattern relative to the repository's root: `src/`, `/docs`, `*.py`. "
    "Without a path filter the whole repository is searched."
)


def escape_pattern(path: str) -> str:
    """Return a gitignore pattern that matches the path literally."""
    return "".join(f"\\{character}" if character in "*?[]!#\\" else character for character in path)


def normalize_path_filter(pattern: str, work_tree: Path | None, has_path: Callable[[str], bool]) -> str:
    """Return a path filter as a gitignore pattern relative to the repository's root.

    A leading `./` is removed. An absolute path in `work_tree` becomes relative; without a work tree, absolute paths
    stay. `has_path` checks for a path in the history. Raises BadRequest for a path outside the repository.
    """
    trimmed_pattern = pattern
    while trimmed_pattern.startswith("./"):
        trimmed_pattern = trimmed_pattern[2:].lstrip("/")
    if trimmed_pattern in ("", ".") or ".." in trimmed_pattern.split("/"):
        raise _build_outside_error(pattern)
    # Answers print undecodable paths with `\x` escapes. A user who pastes such a path means it literally.
    if "\\x" in trimmed_pattern and has_path(trimmed_pattern):
        return escape_pattern(trimmed_pattern)
    # Only a path with a leading slash can be absolute. A null byte would make the file system raise.
    if work_tree is None or not trimmed_pattern.startswith("/") or "\0" in trimmed_pattern:
        return trimmed_pattern
    return _resolve_absolute(trimmed_pattern, work_tree, has_path)


def _resolve_absolute(pattern: str, work_tree: Path, has_path: Callable[[str], bool]) -> str:
    """Return the gitignore pattern for an absolute path. Return a filter that is no such path unchanged."""
    path, path_in_tree = Path(pattern), work_tree / pattern.lstrip("/")
    if not os.path.lexists(path) and os.path.lexists(path_in_tree):
        return pattern
    for candidate in (path, Path(os.path.realpath(path))):
        if candidate.is_relative_to(work_tree):
            return _build_rooted_pattern(work_tree, candidate, pattern)
    # `/lib` or `/src` more likely means a directory of the repository than one of the file system.
    is_single_name = len(path.parts) <= 2  # the slash is a part, too
    exists_only_outside = os.path.lexists(path) and not os.path.lexists(path_in_tree)
    if exists_only_outside and not is_single_name and not has_path(pattern.strip("/")):
        raise _build_outside_error(pattern)
    return pattern


def _build_rooted_pattern(work_tree: Path, path: Path, pattern: str) -> str:
    """Return the gitignore pattern for a path in the work tree. `pattern`: the path as typed."""
    relative_path = path.relative_to(work_tree).as_posix()
    if relative_path == ".":
        raise _build_outside_error(pattern)
    if os.path.lexists(path):  # a path that exists is no pattern, so its `*` and `?` are literal
        relative_path = escape_pattern(relative_path)
    return f"/{relative_path}/" if pattern.endswith("/") else f"/{relative_path}"


def _build_outside_error(pattern: str) -> BadRequest:
    return BadRequest(f"{pattern!r:.200} names nothing inside the repository.", hint=PATH_FILTER_HINT)
