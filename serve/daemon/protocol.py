"""Questions, answers and errors as they travel: JSON, in ASCII, so that any file name survives it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from pipeline.options import Precision
from serve.api_types import ExplainRequest, FindRequest
from serve.errors import BadRequest, NeedsRebuild
from stores.errors import LineageError

if TYPE_CHECKING:
    from serve.search.cache import Holding as Kept

# Which program asks: the daemon answers its own kind only.
BUILD_HEADER: Final = "Lineage-Build"
# Whose configuration counts: git's, where HOME says.
PERSON_HEADER: Final = "Lineage-Person"
REFUSED: Final = 400
OTHER_BUILD: Final = 409
OTHER_PERSON: Final = 412
STOPPING: Final = 503

# Errors that mean more to a door than their text: the exit code, the kind of MCP error.
_KINDS: Final[dict[str, type[LineageError]]] = {kind.__name__: kind for kind in (BadRequest, NeedsRebuild)}

Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True)
class Find:
    """`find_pattern`, asked about the repository at `path`, an absolute path; `precision` is the asker's."""

    path: str
    precision: Precision
    request: FindRequest


@dataclass(frozen=True, slots=True)
class Explain:
    """`explain_change`; `here` is where the asker stands, None where that means nothing. Both paths are absolute."""

    path: str
    here: str | None
    request: ExplainRequest


@dataclass(frozen=True, slots=True)
class Refusal:
    """A LineageError on its way."""

    kind: str
    message: str
    hint: str

    @classmethod
    def of(cls, error: LineageError) -> Refusal:
        """The error, with the nearest kind the other side knows by name."""
        known = (kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _KINDS)
        return cls(next(known, ""), error.message, error.hint)

    @property
    def error(self) -> LineageError:
        """The error again."""
        return _KINDS.get(self.kind, LineageError)(self.message, hint=self.hint)


@dataclass(frozen=True, slots=True)
class Holding:
    """An index the daemon keeps at hand: `path` of the repository, `hunks` in reach, `bytes` in memory."""

    path: str
    hunks: int
    bytes: int
    idle_seconds: float

    @classmethod
    def of(cls, kept: Kept) -> Holding:
        """What is kept, as it travels."""
        return cls(str(kept.place.path), kept.hunks, kept.bytes, kept.idle_seconds)


@dataclass(frozen=True, slots=True)
class Report:
    """How the daemon is: `resident_bytes` of its memory, `models` loaded at the moment."""

    pid: int
    version: str
    build: str
    socket: str
    uptime_seconds: float
    idle_seconds: float
    answered: int
    running: int
    resident_bytes: int | None
    models: tuple[str, ...]
    holdings: tuple[Holding, ...]


def packed(value: Any) -> bytes:
    """A dataclass of this module, of `serve.api_types` or of `serve.api_types`, ready to travel."""
    return json.dumps(msgspec.to_builtins(value)).encode("ascii")


def unpacked(data: bytes, kind: type[Kind]) -> Kind:
    """What was packed; ValueError when it is something else."""
    return msgspec.convert(json.loads(data), kind)
