"""Errors as answers: a status, and `{"error": {"code", "message", "hint"}}`; the only place that decides either.

The code of an error is its class's name in snake_case. What a person can put right in their request is 400, what
they must put right in the map or its workspace first is 409 or 422, what is wrong with the viewer's own files 500.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import msgspec
from tornado.web import HTTPError

from mindmap.document import DamagedMindmap, ForeignMindmap
from mindmap.limits import BadText, OverLimit
from mindmap.paths import BadPath, NoWorkspace
from serve.errors import BadRequest
from serve.viewer.doors import ForeignHost, ForeignOrigin
from stores.errors import LineageError
from stores.mindmaps import (
    FolderUnusable,
    MindmapBusy,
    MindmapTooLarge,
    NoSuchMindmap,
    NotAPlainFile,
)
from stores.naming import BadMindmapId


class TooLarge(LineageError):
    """More in a request than the viewer reads."""


class NotJson(LineageError):
    """A request whose content is not said to be JSON."""


class NotTouched(LineageError):
    """A file that the map does not hold."""


class NoSuchRoute(LineageError):
    """A path that is none."""


class NotBuilt(LineageError):
    """A file of the page is not there."""


class TooBusy(LineageError):
    """More is asked for at once than the viewer takes."""


class TookTooLong(LineageError):
    """Somebody else, git most likely, did not answer in time."""


# Whatever is not here is 422: understood, and not to be had as things are, as git puts it in its own words.
STATUSES: Final[dict[type[LineageError], HTTPStatus]] = {
    BadRequest: HTTPStatus.BAD_REQUEST,
    BadMindmapId: HTTPStatus.BAD_REQUEST,
    BadPath: HTTPStatus.BAD_REQUEST,
    BadText: HTTPStatus.BAD_REQUEST,
    ForeignHost: HTTPStatus.FORBIDDEN,
    ForeignOrigin: HTTPStatus.FORBIDDEN,
    NoSuchMindmap: HTTPStatus.NOT_FOUND,
    NotTouched: HTTPStatus.NOT_FOUND,
    NoSuchRoute: HTTPStatus.NOT_FOUND,
    NotBuilt: HTTPStatus.NOT_FOUND,
    NoWorkspace: HTTPStatus.CONFLICT,
    MindmapBusy: HTTPStatus.CONFLICT,
    OverLimit: HTTPStatus.CONFLICT,
    TooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    NotJson: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    DamagedMindmap: HTTPStatus.INTERNAL_SERVER_ERROR,
    ForeignMindmap: HTTPStatus.INTERNAL_SERVER_ERROR,
    MindmapTooLarge: HTTPStatus.INTERNAL_SERVER_ERROR,
    NotAPlainFile: HTTPStatus.INTERNAL_SERVER_ERROR,
    FolderUnusable: HTTPStatus.INTERNAL_SERVER_ERROR,
    TooBusy: HTTPStatus.SERVICE_UNAVAILABLE,
    TookTooLong: HTTPStatus.GATEWAY_TIMEOUT,
}
_WORDS: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NAMES: Final = {405: "method_not_allowed", 500: "internal_error"}


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error as an answer."""

    status: int
    code: str
    message: str
    hint: str = ""

    @property
    def content(self) -> bytes:
        """The answer's body."""
        said = {"code": self.code, "message": self.message, "hint": self.hint}
        return msgspec.json.encode({"error": said})

    @classmethod
    def of(cls, error: BaseException | None, status: int) -> Refusal:
        """How an error is told; `status` is the server's own for one that is not ours."""
        if isinstance(error, LineageError):
            kinds = (STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)
            return cls(
                next(kinds, HTTPStatus.UNPROCESSABLE_ENTITY), code_of(error), error.message, error.hint
            )
        said = (error.get_message() if isinstance(error, HTTPError) else "") or HTTPStatus(status).phrase
        hint = "The viewer's log says more." if status >= HTTPStatus.INTERNAL_SERVER_ERROR else ""
        return cls(status, _NAMES.get(status, "bad_request"), f"{said}.".replace("..", "."), hint)


def code_of(error: LineageError) -> str:
    """What programs know the error by."""
    return _WORDS.sub("_", type(error).__name__).lower()
