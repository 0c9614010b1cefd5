"""Messages between the daemon and its clients: JSON with field names as keys.

The JSON is ASCII, because its escapes can represent file names that are not valid UTF-8. The fields of StatusReport are
also the keys of `lineage daemon status --json`.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from pipeline.options import Precision
from serve.api_types import LoadedIndex, NamedRepository
from serve.errors import BadRequest, NeedsRebuild, NoAnswer
from serve.explain_types import ExplainRequest
from serve.find_types import FindRequest
from stores.errors import LineageError

# Errors whose class matters to the client, for the message, the exit code or the MCP error code.
_ERROR_CLASSES: Final[dict[str, type[LineageError]]] = {
    error_class.__name__: error_class for error_class in (BadRequest, NeedsRebuild, NoAnswer)
}

MessageType = TypeVar("MessageType")


@dataclass(frozen=True, slots=True)
class FindCall:
    """Request to find commits. `path`: absolute path of the repository. `precision`: precision of the cross-encoder."""

    path: str
    precision: Precision
    request: FindRequest


@dataclass(frozen=True, slots=True)
class FindInRepositoriesCall:
    """Request to find commits of several repositories. `precision`: precision of the cross-encoder."""

    repositories: tuple[NamedRepository, ...]
    precision: Precision
    request: FindRequest


@dataclass(frozen=True, slots=True)
class ExplainCall:
    """Request to explain lines. `path`: absolute path of the repository. `cwd`: the client's working directory."""

    path: str
    cwd: str | None
    request: ExplainRequest


@dataclass(frozen=True, slots=True)
class McpCall:
    """Request for an MCP session.

    `cwd`: the client's working directory. `precision`, `maps_dir`: the client's settings. `server`: `lineage` or
    `mindmap`. `client_id`: id of the client, the same in all of its sessions. `watched_maps`: ids of the mind maps for
    which the client's previous session watched files for changes.
    """

    cwd: str
    precision: Precision
    server: str
    maps_dir: str
    client_id: str
    watched_maps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """LineageError in a response. `class_name`: name of a class in `_ERROR_CLASSES`; empty for any other error."""

    class_name: str
    message: str
    hint: str

    @classmethod
    def from_error(cls, error: LineageError) -> ErrorResponse:
        """Convert an error. `class_name` is its class or nearest base class in `_ERROR_CLASSES`; empty without one."""
        class_names = (base.__name__ for base in type(error).__mro__ if base.__name__ in _ERROR_CLASSES)
        return cls(next(class_names, ""), error.message, error.hint)

    @property
    def error(self) -> LineageError:
        """The error to raise: a LineageError, or one of its subclasses in `_ERROR_CLASSES`."""
        return _ERROR_CLASSES.get(self.class_name, LineageError)(self.message, hint=self.hint)


@dataclass(frozen=True, slots=True)
class StatusReport:
    """Status of the daemon.

    `build`: digest of the installed sources, which can change while `version` stays the same. `socket`: path of the
    socket. `answered`, `running`: number of finished and running calls. `sessions`: number of open MCP sessions.
    `resident_bytes`: memory of the process, None if unknown. `models`: loaded models. `holdings`: loaded indexes.
    """

    pid: int
    version: str
    build: str
    socket: str
    uptime_seconds: float
    idle_seconds: float
    answered: int
    running: int
    sessions: int
    resident_bytes: int | None
    models: tuple[str, ...]
    holdings: tuple[LoadedIndex, ...]


# msgspec crashes if the first conversions to a type run in several threads at the same time.
_CONVERSION_LOCK: Final = threading.Lock()


def encode(value: Any) -> bytes:
    """Return a message as JSON. `value`: a dataclass of this module, or an answer."""
    return json.dumps(msgspec.to_builtins(value)).encode("ascii")


def decode(data: bytes, message_type: type[MessageType]) -> MessageType:
    """Return the message that `encode` encoded. Raise ValueError if the data is not a message of this type."""
    value = json.loads(data)
    with _CONVERSION_LOCK:
        return msgspec.convert(value, message_type)
