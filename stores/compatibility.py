"""Component versions and the compatibility verdict: what of an index this program would make differently.

This file knows the components by name and by what their change means; which versions are current is
said by the caller. What rows were made with is noted in the transaction that writes them, so that no pass, of
whichever version, ended or cut short, can make an index look more current than it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import Enum
from typing import Final

import duckdb

REBUILD: Final = "lineage index --rebuild --yes"
FORCE: Final = "lineage index --force"
GO_ON: Final = "lineage index"

# The parts of an index: commits and hunks with all that hangs on them; HEAD's snapshot, which `--force` makes anew.
HISTORY: Final = "history"
HEAD: Final = "head"

# Vectors, or the tables themselves, mean something else when one of these changes.
VECTOR_AFFECTING: Final = frozenset({"schema", "embedding_model", "embedding_dimension", "embed_cache"})
# Made no row, so there is none to be stale.
ROWLESS: Final = frozenset({"schema", "reranker_model"})
# Each made rows of this part only; parsers and words made some of both.
_ONE_PART: Final = {
    "chunker_version": HEAD,
    "embedding_model": HISTORY,
    "embedding_dimension": HISTORY,
    "semantic_text_version": HISTORY,
    "embed_cache": HISTORY,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """Versions by component; None where nothing is recorded."""

    schema: str | None = None
    embedding_model: str | None = None
    embedding_dimension: str | None = None
    reranker_model: str | None = None
    chunker_version: str | None = None
    semantic_text_version: str | None = None
    parser_rust: str | None = None
    parser_python: str | None = None
    parser_java: str | None = None
    parser_kotlin: str | None = None
    parser_typescript: str | None = None
    parser_javascript: str | None = None
    words_version: str | None = None
    embed_cache: str | None = None


NAMES: Final = tuple(component.name for component in fields(Components))


@dataclass(frozen=True, slots=True)
class Made:
    """A version that rows of a part may be of; None where nobody noted which."""

    part: str
    component: str
    version: str | None


@dataclass(frozen=True, slots=True)
class Recorded:
    """What an index says of its components: `vouched` by the newest pass that ended, and what `made` which rows."""

    vouched: Components = Components()
    made: frozenset[Made] = frozenset()

    def of(self, component: str) -> tuple[Made, ...]:
        """What made this component's rows, in a settled order."""
        found = (made for made in self.made if made.component == component)
        return tuple(sorted(found, key=lambda made: (made.part, made.version or "")))

    @property
    def embed_cache(self) -> str | None:
        """The cache mode of the newest pass that ended, or else of the rows there are."""
        noted = (made.version for made in self.of("embed_cache"))
        return self.vouched.embed_cache or next(noted, None)

    @property
    def embedding_model(self) -> str | None:
        """What names the vectors there are; of a pass cut short, or one that ended."""
        noted = (made.version for made in self.of("embedding_model"))
        return next(noted, None) or self.vouched.embedding_model


class Status(Enum):
    """What the recorded components mean for this program."""

    COMPATIBLE = "compatible"
    NEEDS_REFRESH = "query_compatible_needs_refresh"
    NEEDS_REBUILD = "needs_rebuild"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict; `reason` says which components differ, and `missing` names those without a record.

    `remedy` is the command after which the verdict is `compatible`.
    """

    status: Status
    reason: str | None = None
    missing: tuple[str, ...] = ()
    remedy: str | None = None

    @property
    def awaits_first_run(self) -> bool:
        """Whether no run has ended yet: the first is at work, or was cut short."""
        return self.remedy == GO_ON

    def __str__(self) -> str:
        """The text `lineage status` prints."""
        if self.status is Status.NEEDS_REFRESH:
            return f"query-compatible, refresh recommended ({self.reason})"
        if self.status is Status.NEEDS_REBUILD:
            return f"needs rebuild ({self.reason})"
        if self.status is Status.UNKNOWN:
            missing = "any component until a run ends" if self.awaits_first_run else ", ".join(self.missing)
            return f"unknown (no metadata for {missing})"
        return "compatible"


def verdict(recorded: Recorded, current: Components) -> Verdict:
    """Compare what an index records with what this program would record."""
    differing = {name: old for name in NAMES if (old := _differing(recorded, current, name))}
    worst = {name: old for name, old in differing.items() if name in VECTOR_AFFECTING}
    missing = tuple(name for name in NAMES if _is_missing(recorded, name))
    if worst:
        return Verdict(Status.NEEDS_REBUILD, _reason(worst, current), remedy=REBUILD)
    if missing:
        return Verdict(Status.UNKNOWN, missing=missing, remedy=_remedy_unknown(recorded, missing))
    if differing:
        remedy = REBUILD if any(_is_stale(recorded, current, name, HISTORY) for name in differing) else FORCE
        return Verdict(Status.NEEDS_REFRESH, f"{_reason(differing, current)}; run `{remedy}`", remedy=remedy)
    return Verdict(Status.COMPATIBLE)


def vouched(made: Iterable[Made], current: Components) -> Components:
    """What may be recorded when a pass ends: the current version only where it made every row there is."""
    recorded = Recorded(made=frozenset(made))
    return Components(**{name: _vouched(recorded, current, name) for name in NAMES})


def parts(component: str) -> tuple[str, ...]:
    """The parts it makes rows of."""
    if component in ROWLESS:
        return ()
    return (_ONE_PART[component],) if component in _ONE_PART else (HISTORY, HEAD)


def version(components: Components, name: str) -> str | None:
    """One component's version."""
    value: str | None = getattr(components, name)
    return value


def recorded(connection: duckdb.DuckDBPyConnection) -> Recorded:
    """What the index says of its components."""
    said = dict(connection.execute("SELECT component, version FROM metadata").fetchall())
    made = connection.execute("SELECT DISTINCT part, component, version FROM made_by").fetchall()
    known = Components(**{name: said.get(name) for name in NAMES})
    return Recorded(known, frozenset(Made(*row) for row in made if row[1] in NAMES))


def _vouched(recorded: Recorded, current: Components, name: str) -> str | None:
    made = recorded.of(name)
    if any(one.version is None for one in made):
        return None
    stale = [one.version for one in made if not _same(name, one.version, version(current, name))]
    return stale[0] if stale else version(current, name)


def _differing(recorded: Recorded, current: Components, name: str) -> tuple[str, ...]:
    """The versions that are not the current one; a component that made no row has nothing to differ in."""
    made = recorded.of(name)
    noted = [one.version for one in made]
    if name in ROWLESS or made:
        noted.append(version(recorded.vouched, name))
    now = version(current, name)
    return tuple(dict.fromkeys(old for old in noted if old is not None and not _same(name, old, now)))


def _is_missing(recorded: Recorded, name: str) -> bool:
    unnoted = any(made.version is None for made in recorded.of(name))
    return unnoted or version(recorded.vouched, name) is None


def _remedy_unknown(recorded: Recorded, missing: Iterable[str]) -> str:
    """A pass that ends vouches for what it can; rows of the history that nobody noted it does not make anew."""
    unnoted = {made.part for name in missing for made in recorded.of(name) if made.version is None}
    if not unnoted and recorded.vouched == Components():
        return GO_ON  # the first pass is at work, or was cut short
    return REBUILD if HISTORY in unnoted else FORCE


def _is_stale(recorded: Recorded, current: Components, name: str, part: str) -> bool:
    now = version(current, name)
    return any(made.part == part and not _same(name, made.version, now) for made in recorded.of(name))


def _same(name: str, before: str | None, now: str | None) -> bool:
    if name == "embed_cache":
        # A question embeds no hunk and names no mode: whichever way the index did, it is its own.
        # `off` and `semantic` give the same vectors; only `diff` embeds another text.
        return now is None or (before == "diff") == (now == "diff")
    return before == now


def _reason(differing: dict[str, tuple[str, ...]], current: Components) -> str:
    return ", ".join(
        f"{name} {' and '.join(old)}, now {version(current, name)}" for name, old in differing.items()
    )
