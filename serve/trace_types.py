"""Request and answer of `trace_symbol`, and their JSON.

Commands and servers import this module, so it imports neither the search nor the database.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

from serve.api_types import Compatibility, IndexState, drop_empty_fields
from serve.errors import BadRequest
from serve.text import format_commit_count

# Changes of an answer, unless the request says otherwise.
DEFAULT_CHANGES: Final = 20
# Places at HEAD that the text of an answer names. Overloads are several.
MAX_PLACES: Final = 12
MAX_SYMBOL_LENGTH: Final = 1_000
SYMBOL_HINT: Final = "Give a name, `Class.method`, or `PATH:Class.method`."

TraceStep = Literal["introduced", "modified", "moved", "renamed", "removed", "restored"]


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """Request for the history of a symbol.

    `symbol`: its name, `Class.method`, or `PATH:Class.method`. `limit`: number of changes to return.
    """

    symbol: str
    limit: int = DEFAULT_CHANGES
    oldest_first: bool = False

    def __post_init__(self) -> None:
        """Raise BadRequest for a text that cannot be a name, and for a limit without meaning."""
        if (
            not self.symbol.strip("().:# ")
            or len(self.symbol) > MAX_SYMBOL_LENGTH
            or not _is_text(self.symbol)
        ):
            raise BadRequest("This is not the name of a symbol.", hint=SYMBOL_HINT)
        if self.limit < 1:
            raise BadRequest("The limit is less than 1.", hint="Give a number of changes to show.")


@dataclass(frozen=True, slots=True)
class TraceHit:
    """Change of the symbol by a commit.

    - `step`: what the commit did. `moved`: to another place. `renamed`: the symbol, or its file. `restored`: it was
      removed before.
    - `symbol`, `path`: qualified name and file after the change, or before a removal.
    - `old_symbol`, `old_path`: before the change, if they differ.
    - `provenance`: `INFERRED` if similar code, or git's hunk header, is the evidence.
    """

    commit_sha: str
    commit_subject: str
    commit_author: str
    commit_date: str
    author_date: str | None
    step: TraceStep
    symbol: str
    path: str
    old_symbol: str | None
    old_path: str | None
    provenance: Literal["EXACT", "INFERRED"]

    @property
    def source(self) -> str:
        """The name and path before the change, as ` from PATH:Class.method`; empty if they are the same."""
        if self.old_path is None and self.old_symbol is None:
            return ""
        return f" from {':'.join(part for part in (self.old_path, self.old_symbol) if part)}"


@dataclass(frozen=True, slots=True)
class HeadPlace:
    """Definition of the symbol at HEAD. Lines count from 1 and are inclusive."""

    symbol: str
    kind: str
    path: str
    start_line: int
    end_line: int


@dataclass(frozen=True, slots=True)
class TraceDetails:
    """Counts of all commits and of the changes by step, the places at HEAD, and what the answer may lack.

    `symbol`: the newest name, as `PATH:Class.method`. `at_head`: empty if HEAD has no such symbol.
    """

    symbol: str
    at_head: tuple[HeadPlace, ...]
    commits: int
    steps: dict[TraceStep, int]
    shown: int
    order: Literal["newest", "oldest"]
    limitation: str | None

    @property
    def count(self) -> str:
        """The counts as a phrase: `14 commits: 1 introduced, 12 modified, 1 removed; 10 changes shown`."""
        steps = ", ".join(f"{count:,} {step}" for step, count in self.steps.items())
        total = sum(self.steps.values())
        omitted = f"; {self.shown:,} of {total:,} changes shown" if self.shown < total else ""
        return f"{format_commit_count(self.commits)}: {steps}{omitted}"

    @property
    def place(self) -> str:
        """The places of the symbol at HEAD, as a phrase."""
        if not self.at_head:
            return "not at HEAD"
        shown = [f"{place.path}:{place.start_line}-{place.end_line}" for place in self.at_head[:MAX_PLACES]]
        omitted_count = len(self.at_head) - len(shown)
        return ", ".join([*shown, *([f"{omitted_count:,} more"] if omitted_count else [])])


@dataclass(frozen=True, slots=True)
class TraceMeta:
    """Index status, hints and details about an answer."""

    index_status: IndexState
    hint: str | None
    compatibility: Compatibility
    trace: TraceDetails


@dataclass(frozen=True, slots=True)
class TraceAnswer:
    """Answer of `trace_symbol`."""

    hits: tuple[TraceHit, ...]
    meta: TraceMeta

    def rewrite_index_texts(self, rewrite: Callable[[str], str]) -> TraceAnswer:
        """Return a copy with `rewrite` applied to the texts about the index."""
        meta = self.meta
        hint, compatibility = meta.hint and rewrite(meta.hint), meta.compatibility.rewrite_reason(rewrite)
        return replace(self, meta=replace(meta, hint=hint, compatibility=compatibility))

    def to_json_dict(self) -> dict[str, Any]:
        """Convert to JSON types, an object with `hits` and `meta`."""
        hits = [
            {name: value for name, value in asdict(hit).items() if value is not None} for hit in self.hits
        ]
        meta = {name: drop_empty_fields(name, value) for name, value in asdict(self.meta).items()}
        return {"hits": hits, "meta": meta}


def _is_text(text: str) -> bool:
    """Return False for texts that the database cannot compare: with NUL or with invalid characters."""
    return "\0" not in text and text == text.encode("utf-8", "replace").decode()
